"""Upgrade of a home that an earlier version wrote: a plan that changes nothing, then one step for each part.

A step has its effect completely or not at all, so an upgrade that was killed can be started again.
New nullable columns need no step in the lake: older files read as null.
"""

from __future__ import annotations

import shutil
import sqlite3
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import closing
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import Final
from uuid import uuid4

from holderlake import console
from holderlake.archive.segments import FORMAT as ARCHIVE_FORMAT
from holderlake.lake.lake import Lake, LakeError, Manifest
from holderlake.lake.manifests import FORMAT as LAKE_FORMAT
from holderlake.lake.manifests import NO_FILE, table_file
from holderlake.lake.rows import to_parquet
from holderlake.provider.ledger.statements import FORMAT as LEDGER_FORMAT
from holderlake.storage.formats import FORMAT_FILE, too_new, write_format
from holderlake.storage.locks import locked
from holderlake.storage.sqlite import DatabaseError, explained, format_of
from holderlake.workspace import Workspace

_BYTES_A_SECOND: Final = 20_000_000
"""Assumed speed of an upgrade in bytes a second, for the times in the plan."""


@dataclass(frozen=True)
class Step:
    """A step of an upgrade: the part of the home, a description, and the numbers of its files and bytes.

    ``disk`` is the additional space in bytes that the step needs while it runs.
    """

    part: str
    what: str
    files: int
    bytes: int
    disk: int
    run: Callable[[], object]

    @property
    def seconds(self) -> int:
        """An estimate of the time that the step takes."""
        return 1 + self.bytes // _BYTES_A_SECOND


FindSteps = Callable[[], Iterable[Step]]


def plan(workspace: Workspace, *finders: FindSteps) -> list[Step]:
    """Return the steps that the home needs, without changing anything.

    ``finders`` are functions that find steps for files of other programs, for example Dagster's history. Raises an
    error, for example ``LakeError``, if a part has a later format than this version knows.
    """
    own_steps = [_ledger(workspace), _archive(workspace), _lake(workspace), _store(workspace), _warehouse(workspace)]
    return [step for steps in (*own_steps, *(find() for find in finders)) for step in steps]


def upgrade(workspace: Workspace, *finders: FindSteps) -> list[Step]:
    """Take all steps that the home needs (``plan``), and return them.

    Raises ``LakeError`` if the disk is too small, another process upgrades the home, or a part still has an older
    format after its step.
    """
    home = workspace.settings.home
    with locked(home / "upgrade.lock", LakeError(f"another process upgrades {home}; wait until it ends")):
        steps = plan(workspace, *finders)
        needed, free = most_disk(steps), shutil.disk_usage(home).free
        if needed > free:
            raise LakeError(
                f"the disk of {home} has {free:,} bytes free, and the upgrade needs {needed:,}: delete files"
            )
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


def most_disk(steps: Sequence[Step]) -> int:
    """Return the additional disk space in bytes that the steps need if they run one after the other."""
    return max((step.disk for step in steps), default=0)


def _ledger(workspace: Workspace) -> Iterator[Step]:
    path = workspace.settings.ledger
    if not path.exists():
        return
    number = sqlite_format(path)
    if number > LEDGER_FORMAT:
        raise DatabaseError(too_new(path, number, LEDGER_FORMAT))
    if number < LEDGER_FORMAT:
        size = path.stat().st_size

        def run() -> None:
            _ = workspace.ledger  # opening it adds them
            workspace.close()

        yield Step("ledger", "add the format, and columns that are missing", 1, size, size, run)


def _archive(workspace: Workspace) -> Iterator[Step]:
    root = workspace.settings.archive
    if not workspace.archive.is_local:
        return
    workspace.archive.check_format()
    if not root.exists() or (root / FORMAT_FILE).exists():
        return

    def run() -> None:
        workspace.archive.size()  # opens the index, and adds segments that it lacks
        write_format(root, ARCHIVE_FORMAT)

    yield Step("archive", "add the format; answers stay unchanged", 1, 0, 0, run)


def _lake(workspace: Workspace) -> Iterator[Step]:
    """Yield the step that writes partitions of earlier formats again, with the same rows and times.

    Raises ``LakeError`` for a later format. A lake in a bucket stays as it is: this version reads all earlier formats.
    """
    lake = workspace.lake
    old_manifests = (
        [manifest for manifest in lake.manifests() if manifest.format < LAKE_FORMAT] if lake.is_local else []
    )
    if old_manifests:
        sizes = [sum(file.bytes for file in manifest.tables.values()) for manifest in old_manifests]

        def run() -> None:
            with console.progress("writing partitions again", len(old_manifests)) as bar:
                for manifest in old_manifests:
                    _write_again(lake, manifest)
                    bar.advance(bar.task_ids[0])

        description = "leave the column chain out of the files, so that other programs can read a table's folder"
        yield Step(
            "lake", description, sum(len(manifest.tables) for manifest in old_manifests), sum(sizes), max(sizes), run
        )


def _write_again(lake: Lake, manifest: Manifest) -> None:
    """Write a partition in the present format. A damaged one is left for ``holderlake home rebuild --damaged``."""
    rows = lake.intact_rows(manifest)
    if rows is None:
        return
    files = {name: to_parquet(table) for name, table in rows.items() if manifest.tables[name] != NO_FILE}
    tables = {name: table_file(rows[name].num_rows, data) for name, data in files.items()}
    lake.replace(
        replace(manifest, tables=manifest.tables | tables, commit=uuid4().hex, format=LAKE_FORMAT),
        files,
        lake.store.latest(manifest.place),
    )


def _store(workspace: Workspace) -> Iterator[Step]:
    root = workspace.settings.engine_store
    if not root.exists():
        return
    from holderlake.engine.catalog.catalog import is_current
    from holderlake.engine.catalog.catalog_copy import CATALOG
    from holderlake.engine.store.store import Store

    if not (root / CATALOG).exists() or is_current(root):
        return
    files = [path for path in root.rglob("*") if path.is_file()]
    size = sum(path.stat().st_size for path in files)
    yield Step("engine's store", "update the catalogue", len(files), size, size, lambda: Store(root).close())


def _warehouse(workspace: Workspace) -> Iterator[Step]:
    warehouse = workspace.warehouse
    if not warehouse.path.exists():
        return
    description = warehouse.outdated()
    if description:
        size = warehouse.path.stat().st_size
        yield Step("warehouse", description, 1, size, 2 * size, lambda: warehouse.load(workspace.lake))


def sqlite_format(path: Path) -> int:
    """Return the format number in a SQLite file, 0 if it has none. Raises ``DatabaseError`` for a damaged file."""
    try:
        with closing(sqlite3.connect(f"{path.absolute().as_uri()}?mode=ro", uri=True, timeout=30)) as db:
            return format_of(db)
    except sqlite3.DatabaseError as error:
        raise explained(path, error, "'holderlake doctor' says how to repair it") from error


def plan_report(steps: Sequence[Step], home: Path, as_json: bool, done: bool) -> None:
    """Print the steps with their files, bytes and seconds, and the disk space that they need."""
    free = shutil.disk_usage(home).free
    if as_json:
        plain = [
            {name: value for name, value in asdict(step).items() if name != "run"} | {"seconds": step.seconds}
            for step in steps
        ]
        console.as_json({"steps": plain, "disk": most_disk(steps), "free": free, "done": done})
        return
    if not steps:
        console.out.print(f"{home} has the formats of this version; there is nothing to upgrade.", soft_wrap=True)
        return
    lines = [(step.part, step.what, step.files, f"{step.bytes / 1e6:,.1f}", step.seconds) for step in steps]
    console.rows(f"{'Upgraded' if done else 'Upgrade of'} {home}", ("part", "step", "files", "MB", "about s"), lines)
    if not done:
        console.out.print(
            f"It takes about {sum(step.seconds for step in steps):,} s, and needs {most_disk(steps) / 1e6:,.1f} MB of "
            f"the {free / 1e6:,.1f} MB that are free. Stop the service, schedules and runs of this home first, and "
            "make a copy: 'holderlake home backup FOLDER'.",
            soft_wrap=True,
        )
