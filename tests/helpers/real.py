"""Real programs and servers that tests start."""

from __future__ import annotations

import os
from typing import NoReturn

import pytest


def missing(text: str) -> NoReturn:
    """Skip the test or the module; fail it if real parts are required (``HOLDERLAKE_REQUIRE_REAL=1``)."""
    if os.environ.get("HOLDERLAKE_REQUIRE_REAL") == "1":
        pytest.fail(text, pytrace=False)
    pytest.skip(text, allow_module_level=True)
