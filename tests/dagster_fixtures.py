"""Fixtures with Dagster's history."""

from __future__ import annotations

import os
import shutil
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

if TYPE_CHECKING:
    from dagster import DagsterInstance


@pytest.fixture(autouse=True)
def no_state_of_dagster_stays() -> Iterator[None]:
    """Undo what runs of Dagster leave in the process: ``DAGSTER_HOME``, and the storage of the last instance."""
    before = os.environ.get("DAGSTER_HOME")
    yield
    os.environ.pop("DAGSTER_HOME", None)
    if before is not None:
        os.environ["DAGSTER_HOME"] = before
    storage = sys.modules.get("dagster._core.storage.defs_state.base")
    if storage is not None:
        storage._current_storage.set(None)  # instances that end in another order than they began leave a dead one


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
