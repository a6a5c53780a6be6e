"""Upgrade of Dagster's history under a home. The library does the same for the other parts of a home."""

from __future__ import annotations

import shutil
import sqlite3
import sys
from collections.abc import Iterator
from contextlib import closing, redirect_stdout
from pathlib import Path
from typing import Final

from holderlake.core.storage.atomic_files import sync_files, write_whole
from holderlake.core.storage.formats import write_format
from holderlake.operations.history.history import FORMAT, check_history, dagster_release, is_current, removed_event_log
from holderlake.operations.history.instance import dagster_instance, own_dagster_home
from holderlake.operations.maintenance.upgrade import Step

_COPIES: Final = "before-upgrade"
"""Folder with copies of the databases while they are upgraded. It gets this name when all copies are complete."""


def history_steps(folder: Path) -> Iterator[Step]:
    """Yield the steps that Dagster's settings and databases in ``folder`` need.

    A ``DAGSTER_HOME`` of the user's own is left to ``dagster instance migrate``. Raises ``DatabaseError`` if a later
    version wrote the databases.
    """
    if own_dagster_home(folder) or not (folder / "history").exists():
        return
    check_history(folder)
    config = folder / "dagster.yaml"
    if lines := removed_event_log(config):
        kept = config.read_text("utf-8").replace(lines, "")
        action = "remove the event log that Holderlake no longer has"
        yield Step("Dagster's settings", action, lambda: write_whole(config, kept.encode()))
    if not is_current(folder) or (folder / _COPIES).exists():
        yield Step("Dagster's history", f"update the tables to Dagster {dagster_release()}", lambda: _upgrade(folder))


def _upgrade(folder: Path) -> None:
    """Copy the databases in ``folder``, upgrade them, and delete the copies.

    After a kill, a repetition restores the databases from the copies first.
    """
    copies, partial = folder / _COPIES, folder / f"{_COPIES}.partial"
    if copies.exists():
        for copy in copies.rglob("*.db"):
            _copy(copy, folder / copy.relative_to(copies))
    else:
        shutil.rmtree(partial, ignore_errors=True)
        for path in _databases(folder):
            _copy(path, partial / path.relative_to(folder))
        partial.mkdir(exist_ok=True)
        sync_files(partial.rglob("*.db"))
        partial.rename(copies)
    with dagster_instance(folder) as instance, redirect_stdout(sys.stderr):  # standard output may be JSON
        instance.upgrade(lambda _: None)
    write_format(folder, FORMAT, dagster=dagster_release())
    shutil.rmtree(copies)


def _databases(folder: Path) -> list[Path]:
    return sorted(path for part in ("history", "schedules") for path in (folder / part).rglob("*.db"))


def _copy(source: Path, target: Path) -> None:
    """Copy the committed content of a SQLite file over another."""
    target.parent.mkdir(parents=True, exist_ok=True)
    with closing(sqlite3.connect(source)) as source_database, closing(sqlite3.connect(target)) as target_database:
        source_database.backup(target_database)
