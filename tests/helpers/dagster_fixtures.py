"""Fixtures with Dagster's history."""

from __future__ import annotations

import os
import shutil
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

if TYPE_CHECKING:
    from alembic.config import Config
    from dagster import DagsterInstance


@pytest.fixture(autouse=True)
def dagster_home_is_restored() -> Iterator[None]:
    """Undo the variable ``DAGSTER_HOME`` that runs of Dagster leave in the process."""
    before = os.environ.get("DAGSTER_HOME")
    yield
    os.environ.pop("DAGSTER_HOME", None)
    if before is not None:
        os.environ["DAGSTER_HOME"] = before


@pytest.fixture(scope="session", autouse=True)
def migrations_are_read_once() -> Iterator[None]:
    """Keep Dagster's migration scripts, which it reads again for each database of each run: a sixth of a short run."""
    from alembic.script import ScriptDirectory

    read, known = ScriptDirectory.from_config, dict[str | None, ScriptDirectory]()

    def once(config: Config) -> ScriptDirectory:
        place = config.get_main_option("script_location")
        if place not in known:
            known[place] = read(config)
        return known[place]

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(ScriptDirectory, "from_config", once)
        yield


@pytest.fixture(scope="session")
def empty_history(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Return Dagster's folder before the first run; creating its tables takes half a second."""
    from holderlake.operations.history.instance import dagster_instance

    folder, before = tmp_path_factory.mktemp("history") / "dagster", os.environ.get("DAGSTER_HOME")
    with dagster_instance(folder):
        pass
    del os.environ["DAGSTER_HOME"]
    if before is not None:
        os.environ["DAGSTER_HOME"] = before
    return folder


@pytest.fixture(scope="session")
def empty_home(empty_history: Path, empty_warehouse: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Return a home with Dagster's history and a warehouse, both empty. A run takes a second to create them."""
    home = tmp_path_factory.mktemp("empty home")
    shutil.copytree(empty_history, home / "dagster")
    shutil.copy(empty_warehouse, home / "warehouse.duckdb")
    return home


@pytest.fixture
def instance(empty_home: Path, tmp_path: Path) -> Iterator[DagsterInstance]:
    """Open Dagster's history in the test's own home, which has an empty warehouse."""
    with history_of(tmp_path, empty_home) as opened:
        yield opened


@contextmanager
def history_of(home: Path, like: Path) -> Iterator[DagsterInstance]:
    """Open Dagster's history in a home, after what the home ``like`` has was copied to it."""
    from holderlake.operations.history.instance import dagster_instance

    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("DAGSTER_HOME", "")  # so that what prepare_dagster_home sets is undone
        shutil.copytree(like, home, dirs_exist_ok=True)
        with dagster_instance(home / "dagster") as opened:
            yield opened
