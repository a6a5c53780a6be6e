"""Fixtures with Dagster's history."""

from __future__ import annotations

import os
import shutil
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

if TYPE_CHECKING:
    from dagster import DagsterInstance


@pytest.fixture(scope="session")
def empty_history(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Return Dagster's folder before the first run; creating its tables takes half a second."""
    from pipelines.runs import dagster_instance

    folder, before = tmp_path_factory.mktemp("history") / "dagster", os.environ.get("DAGSTER_HOME")
    with dagster_instance(folder):
        pass
    del os.environ["DAGSTER_HOME"]
    if before is not None:
        os.environ["DAGSTER_HOME"] = before
    return folder


@pytest.fixture
def instance(empty_history: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[DagsterInstance]:
    """Open Dagster's history in the test's own folder."""
    from pipelines.runs import dagster_instance

    monkeypatch.setenv("DAGSTER_HOME", "")  # so that what prepare_dagster_home sets is undone
    shutil.copytree(empty_history, tmp_path / "dagster")
    with dagster_instance(tmp_path / "dagster") as opened:
        yield opened
