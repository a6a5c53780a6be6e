"""Dagster's history for tests of the room."""

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
    """Dagster's folder before the first run; half a second of making tables."""
    from pipelines.runs import dagster_instance

    made, before = tmp_path_factory.mktemp("history") / "dagster", os.environ.get("DAGSTER_HOME")
    with dagster_instance(made):
        pass
    del os.environ["DAGSTER_HOME"]
    if before is not None:
        os.environ["DAGSTER_HOME"] = before
    return made


@pytest.fixture
def instance(empty_history: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[DagsterInstance]:
    """Dagster's history in a folder of the test's own."""
    from pipelines.runs import dagster_instance

    monkeypatch.setenv("DAGSTER_HOME", "")  # so that what prepare_dagster_home sets is undone
    shutil.copytree(empty_history, tmp_path / "dagster")
    with dagster_instance(tmp_path / "dagster") as opened:
        yield opened
