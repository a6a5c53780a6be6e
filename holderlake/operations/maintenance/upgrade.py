"""Upgrade of a home that an earlier version wrote: a plan that changes nothing, then one step for each part.

Steps exist for the store of transfers and for Dagster's history, whose tables change with Dagster. A step
has its effect completely or not at all, so an upgrade that was killed can be started again. New nullable columns need
no step in the lake: older files read as null.
"""

from __future__ import annotations

import sqlite3
from collections.abc import Callable, Iterable, Iterator
from contextlib import closing
from dataclasses import dataclass
from pathlib import Path

from holderlake.core.lake.lake import LakeError
from holderlake.core.provider.ledger.statements import FORMAT as LEDGER_FORMAT
from holderlake.core.storage.formats import format_fault
from holderlake.core.storage.locks import locked
from holderlake.core.storage.sqlite import DatabaseError, connect_to_read, explained, format_of
from holderlake.core.units import parse_memory_limit
from holderlake.core.workspace import Workspace
from holderlake.engine.settings import EngineSettings, store_folder
from holderlake.presentation import console


@dataclass(frozen=True)
class Step:
    """A step of an upgrade: the part of the home, and a description."""

    part: str
    what: str
    run: Callable[[], object]


FindSteps = Callable[[], Iterable[Step]]


def plan(workspace: Workspace, *finders: FindSteps) -> list[Step]:
    """Return the steps that the home needs, without changing anything.

    ``finders`` are functions that find the steps of one part. Raises an error, for example ``LakeError``, if a part
    has another format than this version reads.
    """
    _check_formats(workspace)
    return [*_store_steps(workspace), *(step for find in finders for step in find())]


def upgrade(workspace: Workspace, *finders: FindSteps) -> list[Step]:
    """Take all steps that the home needs (``plan``), and return them.

    Raises ``LakeError`` if another process upgrades the home, or a part still has an older format after its step.
    """
    home = workspace.settings.home
    with locked(home / "upgrade.lock", LakeError(f"another process upgrades {home}; wait until it ends")):
        steps = plan(workspace, *finders)
        with console.progress("upgrading", len(steps)) as bar:
            for step in steps:
                bar.update(bar.task_ids[0], note=step.part)
                step.run()
                bar.advance(bar.task_ids[0])
        steps_left = plan(workspace, *finders)
    (home / "upgrade.lock").unlink(missing_ok=True)
    if steps_left:
        raise LakeError(f"{steps_left[0].part} still has an older format after its upgrade; run 'holderlake doctor'")
    return steps


def _check_formats(workspace: Workspace) -> None:
    """Raise an error for the first part of the home that has another format than this version reads."""
    settings = workspace.settings
    if settings.ledger.exists():
        _check_ledger(settings.ledger)
    workspace.archive.check_format()
    for _ in workspace.lake.manifests():
        pass
    if workspace.warehouse.path.exists():
        workspace.warehouse.connect().close()


def _store_steps(workspace: Workspace) -> Iterator[Step]:
    """Yield the step that converts the store of transfers, if it has an earlier format."""
    root = store_folder(workspace.settings)
    if not root.exists():
        return
    from holderlake.engine.catalog.catalog import is_outdated
    from holderlake.engine.store.conversion import convert

    if is_outdated(root):
        memory = parse_memory_limit(workspace.settings.section(EngineSettings).memory_limit)
        yield Step("the store of transfers", "write balances as Parquet", lambda: convert(root, memory))


def _check_ledger(path: Path) -> None:
    try:
        with closing(connect_to_read(path)) as db:
            fault = format_fault(path, format_of(db), LEDGER_FORMAT)
    except sqlite3.DatabaseError as error:
        raise explained(path, error, "'holderlake doctor' says how to repair it") from error
    if fault:
        raise DatabaseError(fault)
