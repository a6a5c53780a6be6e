"""The Kubernetes manifests of deploy/kubernetes."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any, Final

import pytest
import yaml

from tests.deploy.kubernetes import faults_of

pytestmark = pytest.mark.integration

FOLDER: Final = Path(__file__).parents[2] / "deploy" / "kubernetes"
KUSTOMIZATION: Final = yaml.safe_load((FOLDER / "kustomization.yaml").read_text())


def objects() -> Iterator[dict[str, Any]]:
    """Yield the objects that are applied, and the example of the secrets."""
    for name in (*KUSTOMIZATION["resources"], "secrets.example.yaml"):
        yield from yaml.safe_load_all((FOLDER / name).read_text())


def pods() -> dict[str, dict[str, Any]]:
    """Return the pod of each deployment and stateful set, by name."""
    return {
        one["metadata"]["name"]: one["spec"]["template"]["spec"]
        for one in objects()
        if one["kind"] in ("Deployment", "StatefulSet")
    }


def test_every_object_is_valid() -> None:
    assert faults_of(objects()) == []


def test_every_manifest_is_applied() -> None:
    own = {path.name for path in FOLDER.iterdir()} - {"kustomization.yaml", "secrets.example.yaml"}
    assert own == set(KUSTOMIZATION["resources"])


def test_every_name_that_a_pod_uses_exists() -> None:
    known = {(one["kind"], one["metadata"]["name"]) for one in objects()} | {("ServiceAccount", "default")}
    for pod in pods().values():
        used = {("ServiceAccount", pod.get("serviceAccountName", "default"))}
        used |= {("ConfigMap", one["configMap"]["name"]) for one in pod["volumes"] if "configMap" in one}
        claims = (one["persistentVolumeClaim"] for one in pod["volumes"] if "persistentVolumeClaim" in one)
        used |= {("PersistentVolumeClaim", claim["claimName"]) for claim in claims}
        for source in pod["containers"][0].get("envFrom", []):
            kind = "ConfigMap" if "configMapRef" in source else "Secret"
            used.add((kind, next(iter(source.values()))["name"]))
        assert used <= known


def test_no_pod_runs_as_root_or_gains_rights() -> None:
    for pod in pods().values():
        assert pod["securityContext"]["runAsNonRoot"]
        for container in pod["containers"]:
            assert container["securityContext"] == {
                "allowPrivilegeEscalation": False,
                "capabilities": {"drop": ["ALL"]},
            }


def test_only_daemon_and_webserver_may_launch_jobs() -> None:
    with_token = {name for name, pod in pods().items() if pod["automountServiceAccountToken"]}
    assert with_token == {"daemon", "webserver"}
