"""Validation of Kubernetes objects by the schemas of a Kubernetes version."""

from __future__ import annotations

import importlib.util
from collections.abc import Iterable
from typing import Any, Final

from tests.helpers.real import missing

VERSION: Final = "1.35"


def faults_of(objects: Iterable[dict[str, Any]]) -> list[str]:
    """Return the faults of Kubernetes objects, also fields that the schemas do not have."""
    if importlib.util.find_spec("kubernetes_validate") is None:
        missing("kubernetes-validate is not installed: run 'make extras'")
    import kubernetes_validate

    faults = []
    for one in objects:
        try:
            kubernetes_validate.validate(one, VERSION, strict=True)
        except kubernetes_validate.ValidationError as error:
            faults.append(f"{one['kind']} {one['metadata'].get('name')}: {error.message} at {list(error.path)}")
    return faults
