"""Checks of ``holderlake doctor`` on the files of a home: lake, archive, SQLite files, warehouse.

Commit records (the folder ``archive/journal``) are checked with the archive. The checks read every byte of a small
home. In a large home they compare only the sizes of files.
"""

from __future__ import annotations

import sqlite3
from collections.abc import Iterator, Sequence
from contextlib import closing
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from holderlake.core.archive import provenance
from holderlake.core.archive.archive import AnswerArchive
from holderlake.core.archive.provenance import Asked
from holderlake.core.lake.damage import damages, unlisted
from holderlake.core.lake.lake import Lake
from holderlake.core.provider.ledger.statements import WRONG_SUM
from holderlake.core.settings import Settings
from holderlake.core.storage.atomic_files import full_disk, is_full, set_aside
from holderlake.core.storage.sqlite import DatabaseError, connect_to_read, explained
from holderlake.core.units import counted
from holderlake.core.warehouse.derived import damaged, derived_files, remedy
from holderlake.core.warehouse.warehouse import Warehouse, WarehouseError
from holderlake.core.workspace import Workspace

_EVERY_BYTE: Final = 2 << 30
"""Bytes (2 GiB) up to which the checks read a lake or an archive completely, which takes some seconds."""
_FINDINGS_SHOWN: Final = 10
_REPAIR: Final = "'holderlake home rebuild --damaged' repairs it from the archive, at no cost"
_AWAY: Final = "'holderlake home rebuild --damaged' moves it away"
_HISTORY: Final = f"{_AWAY} with the folder dagster, which has the history of runs, and no data"
_DATABASES: Final = {
    "ledger.sqlite": f"{_AWAY}, and restores the spent credits from the archive",
    "archive/index.sqlite": f"{_AWAY}, and makes it again from the archive's segments",
    "alerts.sqlite": f"{_AWAY}; alerts are then found again, and may be sent again",
    "dagster/history/runs.db": _HISTORY,
    "dagster/history/runs/index.db": _HISTORY,
    "dagster/schedules/schedules.db": _HISTORY,
}
"""SQLite files of a home, by path. The value is the advice if the file is damaged."""
_SIDES: Final = ("", "-wal", "-shm", "-journal")


@dataclass(frozen=True)
class Finding:
    """The result of one check: its subject, whether it passed, a sentence, and advice for a problem."""

    what: str
    fine: bool
    found: str
    advice: str = ""


def check_files(workspace: Workspace) -> Iterator[Finding]:
    """Check all files of a home; yield one finding for each damaged file, and for each folder without damage."""
    yield from _lake(workspace.lake)
    yield from _archive(workspace.archive)
    yield from _databases(workspace.settings)
    yield from _shared_state(workspace)
    yield from _warehouse(workspace.warehouse)


def _lake(lake: Lake) -> Iterator[Finding]:
    manifests = list(lake.manifests())
    stored_bytes = sum(file.bytes for manifest in manifests for file in manifest.tables.values())
    every_byte = stored_bytes <= _EVERY_BYTE and lake.is_local
    problems = [str(problem) for problem in (*damages(lake, every_byte=every_byte), *unlisted(lake))]
    yield from _findings("lake", problems, _REPAIR)
    if not problems:
        how = "every file matches its manifest" if every_byte else "the sizes of all files match their manifests"
        advice = "" if every_byte else "'holderlake home rebuild --damaged --dry-run' reads every byte"
        yield Finding("lake", True, f"{counted(len(manifests), 'partition')} in {lake.storage.name}, {how}", advice)


def _archive(archive: AnswerArchive) -> Iterator[Finding]:
    if archive.is_local and not archive.root.exists():
        return
    try:
        size = archive.size()
    except DatabaseError as error:
        yield Finding("archive", False, str(error).partition("; ")[0], _DATABASES["archive/index.sqlite"])
        return
    problems = list(archive.damage(every_byte=size.stored_bytes <= _EVERY_BYTE and archive.is_local))
    yield from _findings(
        "archive", problems, "'holderlake home rebuild --damaged' moves it away and keeps its other answers"
    )
    yield from _findings("archive", _lost_answers(archive), "ingest fetches them again where the lake lacks their rows")
    records = [str(path) for path in provenance.records(archive) if provenance.read(path) is None]
    yield from _findings(
        "journal", [f"{path} is damaged" for path in records], f"{_AWAY}; the lake keeps the rows of its partition"
    )
    if not problems and not records:
        found = f"{counted(size.answers, 'answer')}, {size.stored_bytes / 1e6:,.1f} MB, in {archive.name}"
        yield Finding("archive", True, found)


def _lost_answers(archive: AnswerArchive) -> list[str]:
    """Return a line for each answer that was in a damaged archive segment: the answer's hash and its request."""
    digests = set(archive.lost())
    if not digests:
        return []
    descriptions = {
        request.digest: f"the {_request(request)} of {commit.family} of {commit.chain} at {commit.timestamp}"
        for commit in provenance.commits(archive)
        for group in commit.groups
        for request in group.asked
        if request.digest in digests
    }
    return [f"lost answer {digest}: {descriptions.get(digest, 'no commit uses it')}" for digest in sorted(digests)]


def _request(request: Asked) -> str:
    fields = ", ".join(f"{name} {value}" for name, value in sorted(request.fields.items()) if isinstance(value, str))
    return f"{request.endpoint} request ({fields})"


def _databases(settings: Settings) -> Iterator[Finding]:
    for name, advice in _DATABASES.items():
        path = settings.home / name
        if path.exists():
            problem = _damage_of(path, advice)
            if problem:
                yield Finding(path.name, False, problem, advice)


def set_databases_aside(workspace: Workspace) -> list[str]:
    """Move damaged SQLite files to the folder ``damaged`` of the home, and restore the ledger. Return messages.

    Raises ``DatabaseError`` on a full disk, where intact files can't be read either.
    """
    home, messages = workspace.settings.home, []
    if is_full(home):
        raise DatabaseError(full_disk(home))
    for name, advice in _DATABASES.items():
        path = home / name
        problem = _damage_of(path, advice) if path.exists() else None
        if problem:
            damaged_path = home / "dagster" if name.startswith("dagster/") else path
            files = [damaged_path.with_name(f"{damaged_path.name}{side}") for side in _SIDES]
            moved_to = [set_aside(file, home, "damaged") for file in files if file.exists()]
            messages.append(f"{problem}; it is now {moved_to[0]}")
            if path == workspace.settings.ledger:
                _ = workspace.ledger
    return messages


def _shared_state(workspace: Workspace) -> Iterator[Finding]:
    if workspace.settings.state.url is None:
        return
    try:
        damage, text = workspace.ledger.damage(), str(workspace.ledger)
    except DatabaseError as error:
        problem, _, advice = str(error).partition("; ")
        yield Finding("state", False, problem, advice)
        return
    yield Finding("state", damage is None, damage or text, "restore the database from its backup" if damage else "")


def _damage_of(path: Path, remedy: str) -> str | None:
    """Return a sentence about the damage of a SQLite file, None without damage. The file is opened read-only.

    ``remedy`` is the advice for a damaged file.
    """
    if not path.stat().st_size:
        return f"{path} is empty"
    try:
        with closing(connect_to_read(path)) as db:
            ((check_result,),) = db.execute("PRAGMA integrity_check(1)").fetchall()
            if check_result == "ok" and path.name == "ledger.sqlite" and db.execute(WRONG_SUM).fetchone():
                check_result = "the costs of its calls do not add up to its stored sums of days and runs"
    except sqlite3.DatabaseError as error:
        return str(explained(path, error, remedy)).partition(";")[0]
    except UnicodeDecodeError:  # sqlite3 quotes a damaged name in its error
        return f"{path} is damaged (a name in it is not UTF-8)"
    return None if check_result == "ok" else f"{path} is damaged ({check_result})"


def _warehouse(warehouse: Warehouse) -> Iterator[Finding]:
    path = warehouse.path
    files = derived_files(path)
    every_byte = sum(file.stat().st_size for file in files) <= _EVERY_BYTE
    faults = damaged(path, every_byte=every_byte)
    for file, reason in faults.items():
        yield Finding("warehouse", False, f"{file} is damaged ({reason})", remedy(path, file))
    if not path.exists():
        yield Finding("warehouse", True, "not created yet", "'holderlake demo' or 'holderlake ingest' creates it")
        return
    try:
        rows = warehouse.check()
        moved = None if faults else warehouse.transfers_fault()
    except WarehouseError as error:
        problem, _, advice = str(error).partition("; ")
        yield Finding("warehouse", False, problem, advice)
        return
    if moved:
        problem, _, advice = moved.partition("; ")
        yield Finding("warehouse", False, problem, advice)
        return
    yield Finding("warehouse", True, f"{path}, {counted(rows, 'row')} of holders")


def _findings(subject: str, problems: Sequence[str], advice: str) -> Iterator[Finding]:
    for text in problems[:_FINDINGS_SHOWN]:
        yield Finding(subject, False, text, advice)
    if len(problems) > _FINDINGS_SHOWN:
        yield Finding(subject, False, f"and {len(problems) - _FINDINGS_SHOWN:,} more", advice)
