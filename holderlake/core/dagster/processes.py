"""Find started runs whose process has ended, by a lock file for each run, and mark them as failed.

Dagster's default run launcher cannot check its runs: after a crash of the host they would stay started and keep their
slots. So the process of each run holds a file lock, which the operating system frees when the process ends.
"""

from __future__ import annotations

import logging
import socket
from collections.abc import Collection, Iterator
from contextlib import ExitStack, contextmanager
from datetime import timedelta
from pathlib import Path
from typing import Final

from dagster import DagsterInstance, DagsterRun, DagsterRunStatus, RunRecord, RunsFilter

from holderlake.core.contract.times import from_unix, utc_now
from holderlake.core.dagster.tags import ERROR_TAG, PROCESS_TAG
from holderlake.core.storage.locks import is_held, locked

PROCESS_GONE: Final = "process_gone"
"""Error code (the value of ``ERROR_TAG``) of a run whose process ended without a result."""

ASSET_JOB: Final = "__ASSET_JOB"
"""Dagster's name of the job of assets that a user materialises without naming a job."""
_UNMARKED: Final = timedelta(hours=1)
"""Age from which a started run without ``PROCESS_TAG`` has no process: a process sets the tag in its first seconds."""
_log = logging.getLogger(__name__)


class _HasProcess(Exception):
    """Another process holds the run's lock."""


@contextmanager
def process_lock(home: Path, run_id: str) -> Iterator[dict[str, str]]:
    """Hold the lock of a run during the ``with`` block, and yield ``PROCESS_TAG`` with its value, to tag the run.

    ``home`` is the home folder. If another process of the same run holds the lock, this yields an empty dictionary.
    """
    path = _lock_path(home, run_id)
    with ExitStack() as lock_stack:
        try:
            # the sensor holds the lock for a moment when it checks a run, so a single attempt could fail by chance
            lock_stack.enter_context(locked(path, _HasProcess(), seconds=1.0))
        except _HasProcess:
            yield {}
            return
        lock_stack.callback(path.unlink, missing_ok=True)
        yield {PROCESS_TAG: _mark(path)}


def runs_without_process(instance: DagsterInstance, home: Path, jobs: Collection[str]) -> list[str]:
    """Return the ids of started runs of these jobs whose process on this host is gone.

    A run that just succeeded may be among them for a moment: its process frees the lock before Dagster records the
    result. Runs of other hosts and homes are left out, and runs that are starting or being cancelled, for which
    ``dagster.yaml`` has time limits.
    """
    return [
        record.dagster_run.run_id
        for record in instance.get_run_records(RunsFilter(statuses=[DagsterRunStatus.STARTED]))
        if record.dagster_run.job_name in jobs
        and _is_own(record, home)
        and not is_held(_lock_path(home, record.dagster_run.run_id))
    ]


def is_of_home(run: DagsterRun, home: Path) -> bool:
    """Return whether a run belongs to a home, on any host: its ``PROCESS_TAG`` has the home's folder, or is missing."""
    mark = run.tags.get(PROCESS_TAG)
    return mark is None or mark.partition(":")[2].startswith(str(_folder(home)))


def end_run(instance: DagsterInstance, home: Path, run_id: str) -> bool:
    """Mark a started run without a process as failed, and return True. Return False, and do nothing, if it has ended
    already.

    Dagster then frees the run's slots, and retries it if run retries are configured.
    """
    _lock_path(home, run_id).unlink(missing_ok=True)
    run = instance.get_run_by_id(run_id)
    if run is None or run.status != DagsterRunStatus.STARTED:
        return False
    instance.add_run_tags(run_id, {ERROR_TAG: PROCESS_GONE})
    instance.report_run_failed(run, "The run's process is gone: it was killed, or its host stopped.")
    _log.warning("the process of run %s of job %s is gone; the run is marked as failed", run_id, run.job_name)
    return True


def _is_own(record: RunRecord, home: Path) -> bool:
    """Return whether a run belongs to this host and home, by its ``PROCESS_TAG``.

    A run without the tag counts as belonging to them once an hour has passed since its start.
    """
    run = record.dagster_run
    mark = run.tags.get(PROCESS_TAG)
    if mark is None:
        return record.start_time is not None and utc_now() - from_unix(int(record.start_time)) > _UNMARKED
    return mark == _mark(_lock_path(home, run.run_id))


def _lock_path(home: Path, run_id: str) -> Path:
    return _folder(home) / f"{run_id}.lock"


def _folder(home: Path) -> Path:
    return home.resolve() / "runs"


def _mark(path: Path) -> str:
    return f"{socket.gethostname()}:{path}"
