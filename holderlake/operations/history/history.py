"""Format and retention of Dagster's history: the runs, events and logs in a home, or in a database of Dagster's own."""

from __future__ import annotations

import re
import shutil
from collections.abc import Iterator
from datetime import UTC, datetime, timedelta
from importlib.metadata import version
from pathlib import Path
from typing import TYPE_CHECKING, Final
from uuid import UUID

from holderlake.core.storage.formats import FORMAT_FILE, format_fault, read_format, write_format
from holderlake.core.storage.sqlite import DatabaseError

if TYPE_CHECKING:  # 'holderlake ui' runs for months, and needs 60 MB less without Dagster
    from dagster import DagsterInstance

    from holderlake.operations.maintenance.retention import Expired

FORMAT: Final = 1
"""Format of the folder. Dagster's own tables are of the version of Dagster that the format file names."""

_BATCH: Final = 500
_REPOSITORY: Final = ".dagster/repository"
"""Tag by which Dagster stores the repository and code location of a run."""


_EVENT_LOG: Final = re.compile(r"^event_log_storage:.*\n(?:[ \t]+.*(?:\n|\Z))*", re.MULTILINE)


def expired_runs(
    instance: DagsterInstance, folder: Path, age: timedelta | None, repository: str | None = None
) -> Iterator[Expired]:
    """Yield Dagster's runs that ended longer than ``age`` ago, if there are any; None keeps all.

    The run with the newest materialization of an asset is kept, so that Dagster's page still shows its time.
    ``folder`` is the folder of the history; files of deleted runs are deleted there. ``repository`` limits it to the
    runs of one code location, because an instance may have several.
    """
    from dagster import DagsterRunStatus, RunsFilter

    from holderlake.operations.maintenance.retention import Expired

    if age is None:
        return
    ended = [DagsterRunStatus.SUCCESS, DagsterRunStatus.FAILURE, DagsterRunStatus.CANCELED]
    latest = {
        event.run_id
        for key in instance.all_asset_keys()
        if (event := instance.get_latest_materialization_event(key)) is not None
    }
    tags = {_REPOSITORY: repository} if repository else {}
    run_filter = RunsFilter(statuses=ended, tags=tags, updated_before=datetime.now(UTC) - age)
    runs: list[str] = []
    cursor = None
    while records := instance.get_run_records(run_filter, limit=_BATCH, cursor=cursor):
        cursor = records[-1].dagster_run.run_id
        runs += [record.dagster_run.run_id for record in records if record.dagster_run.run_id not in latest]

    def delete() -> None:
        for run in runs:
            instance.delete_run(run)
            _delete_files(folder, run)

    if runs:
        size = sum(path.stat().st_size for run in runs for path in _files_of(folder, run))
        consequence = (
            "Dagster's page shows their partitions as missing; the data stay, and to fill them again costs nothing"
        )
        yield Expired("history", "runs of Dagster", len(runs), size, consequence, is_for_rebuild=False, delete=delete)


def _files_of(folder: Path, run: str) -> list[Path]:
    """Return the existing files of a run in ``folder``: its own database of events, and its logs."""
    name = str(UUID(run))
    events = [folder / "history" / "runs" / f"{name}.db{suffix}" for suffix in ("", "-wal", "-shm")]
    return [path for path in (*events, *(folder / "storage" / name).rglob("*")) if path.is_file()]


def _delete_files(folder: Path, run: str) -> None:
    """Delete the files of a run that Dagster leaves when it deletes the run."""
    for path in _files_of(folder, run):
        path.unlink(missing_ok=True)
    shutil.rmtree(folder / "storage" / str(UUID(run)), ignore_errors=True)


def check_history(folder: Path) -> None:
    """Raise ``DatabaseError`` if the history in ``folder`` has another format, or is of a later release of Dagster.

    A new folder gets its format file.
    """
    history_format = read_format(folder, FORMAT)
    if fault := format_fault(folder, history_format["format"], FORMAT):
        raise DatabaseError(fault)
    if _release(history_format.get("dagster", "0")) > _release(dagster_release()):
        raise DatabaseError(
            f"{folder} was written by Dagster {history_format['dagster']}, and this is Dagster {dagster_release()}: "
            "install the later version"
        )
    if not (folder / FORMAT_FILE).exists() and not (folder / "history").exists():
        write_format(folder, FORMAT, dagster=dagster_release())


def removed_event_log(config: Path) -> str:
    """Return the lines of a ``dagster.yaml`` that name the event log of Holderlake 0.3.0; empty if there are none."""
    section = _EVENT_LOG.search(config.read_text("utf-8")) if config.exists() else None
    return section[0] if section and re.search(r"module: *holderlake\.", section[0]) else ""


def is_current(folder: Path) -> bool:
    """Return whether the history in ``folder`` has the tables of this release of Dagster."""
    return read_format(folder, FORMAT).get("dagster") == dagster_release()


def dagster_release() -> str:
    """Return the installed release of Dagster without its last number, such as 1.13."""
    return ".".join(version("dagster").split(".")[:2])


def _release(text: str) -> tuple[int, ...]:
    return tuple(int(part) for part in text.split(".") if part.isdigit())
