"""Start Dagster runs in the process of the command line, and record them in Dagster's run history."""

from __future__ import annotations

import json
import os
import re
import sqlite3
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager, nullcontext
from datetime import datetime
from pathlib import Path
from types import MappingProxyType
from typing import Any, Final
from uuid import uuid4

from dagster import AssetCheckEvaluation, DagsterInstance, DagsterRunStatus, ExecuteInProcessResult
from sqlalchemy.exc import SQLAlchemyError

from holderlake import console
from holderlake.backfill.progress import Progress
from holderlake.backfill.scope import streams_of, within_plan
from holderlake.contract.chains import from_first_day
from holderlake.dagster.backfill import BACKFILL
from holderlake.dagster.checks.alerts import ALERT_PREFIX
from holderlake.dagster.definitions import build_defs
from holderlake.dagster.history import check_history
from holderlake.dagster.jobs import INGEST
from holderlake.dagster.partitions import partition_key
from holderlake.dagster.processes import process_lock
from holderlake.dagster.runs import LOADS_TAG
from holderlake.dagster.versions import watch
from holderlake.errors import RunCancelled, RunFailed
from holderlake.ingest.stream import PartitionResult
from holderlake.ingest.streams.all import STREAMS
from holderlake.storage.atomic_files import write_whole
from holderlake.storage.locks import locked
from holderlake.storage.sqlite import DatabaseError
from holderlake.workspace import Workspace

_DAGSTER_YAML: Final = """\
# Dagster's own settings. No telemetry is sent.
telemetry:
  enabled: false
nux:
  enabled: false
concurrency:
  runs:
    max_concurrent_runs: 2
# Ends runs that do not start or do not stop, and frees their slots. The sensor dead_runs ends runs without a process.
run_monitoring:
  enabled: true
  start_timeout_seconds: 300
  cancel_timeout_seconds: 180
  poll_interval_seconds: 60
  free_slots_after_run_end_seconds: 60
# Repeats a run whose process was killed. It resumes: finished partitions are not fetched again.
run_retries:
  enabled: true
  max_retries: 2
  retry_on_asset_or_op_failure: false
"""
_prepared: set[str] = set()
"""Values of ``DAGSTER_HOME`` that this process set."""
_MOVES_AWAY: Final = "'holderlake home rebuild --damaged' moves that folder away"
_FAST_EVENT_LOG: Final = "holderlake.dagster.event_log", "FastEventLogStorage"


def own_dagster_home(home: Path) -> Path | None:
    """Return the user's ``DAGSTER_HOME``; None if there is none, or it is ``home``, or this program set it."""
    user_home = os.environ.get("DAGSTER_HOME")
    return (
        None
        if not user_home or user_home in _prepared or Path(user_home).resolve() == home.resolve()
        else Path(user_home)
    )


def prepare_dagster_home(home: Path) -> None:
    """Create Dagster's folder in the home, switch telemetry off, and set ``DAGSTER_HOME`` to the folder.

    Does nothing if the environment has a ``DAGSTER_HOME`` of the user's own. Raises ``DatabaseError`` if a later
    version wrote the history in the folder.
    """
    if own_dagster_home(home):
        return
    home.mkdir(parents=True, exist_ok=True)
    check_history(home)
    config = home / "dagster.yaml"
    if not config.exists():
        write_whole(config, _DAGSTER_YAML.encode())
    os.environ["DAGSTER_HOME"] = str(home.resolve())
    _prepared.add(os.environ["DAGSTER_HOME"])


@contextmanager
def dagster_instance(home: Path) -> Iterator[DagsterInstance]:
    """Open Dagster's history under a home, with the fast event log unless ``dagster.yaml`` chooses a storage.

    If the environment has a ``DAGSTER_HOME`` of the user's own, open that instead, with its own settings.

    Raises ``DatabaseError`` if one of its files is damaged or can't be written.
    """
    user_home = own_dagster_home(home)
    config = (user_home or home) / "dagster.yaml"
    if not user_home:
        home.mkdir(parents=True, exist_ok=True)
    try:
        with ExitStack() as opened:
            with nullcontext() if user_home else locked(home / ".opening.lock"), _explained_settings(config):
                prepare_dagster_home(home)
                if user_home:
                    instance = DagsterInstance.get()
                else:
                    _remove_empty_databases(home)
                    # 'local_temp' keeps its files: it is Dagster's public way to open a home with other settings
                    instance = DagsterInstance.local_temp(os.environ["DAGSTER_HOME"], _fast_event_log(config))
                opened.enter_context(instance)
            yield instance
    except (SQLAlchemyError, sqlite3.DatabaseError) as error:
        reason = str(getattr(error, "orig", None) or error).splitlines()[0]
        is_broken = re.search("malformed|not a database|no such (table|column)", reason)
        remedy = (
            f"{'move that folder away' if user_home else _MOVES_AWAY}: it has the history of runs, and no data"
            if is_broken
            else "free some space"
            if "full" in reason
            else "repeat the command; if that fails too, 'holderlake doctor' names damaged files"
        )
        raise DatabaseError(f"Dagster's history in {user_home or home} can't be used ({reason}); {remedy}") from error


def _remove_empty_databases(home: Path) -> None:
    """Remove databases of a history that a crash left without a byte: Dagster makes missing ones, and not these."""
    for name in ("history/runs.db", "history/runs/index.db", "schedules/schedules.db"):
        path = home / name
        if path.exists() and not path.stat().st_size:
            path.unlink()


def _fast_event_log(config: Path) -> dict[str, Any]:
    """Return the settings of the fast event log; empty if the user's ``dagster.yaml`` chooses a storage."""
    if re.search(r"^(storage|event_log_storage):", config.read_text("utf-8"), re.MULTILINE):
        return {}
    module, name = _FAST_EVENT_LOG
    folder = str(config.parent.resolve() / "history" / "runs")
    return {"event_log_storage": {"module": module, "class": name, "config": {"base_dir": folder}}}


@contextmanager
def _explained_settings(path: Path) -> Iterator[None]:
    """Raise ``DatabaseError`` within the block if Dagster cannot read its settings file."""
    try:
        yield
    except (SQLAlchemyError, sqlite3.DatabaseError, OSError):
        raise
    except Exception as error:  # from Dagster, from YAML, or from a module that they name
        reason = str(error).splitlines()[0]
        raise DatabaseError(f"{path} can't be used ({reason}); move it away, and it is created again") from error


def ingest_day(
    workspace: Workspace,
    instance: DagsterInstance,
    chain: str,
    instants: Sequence[datetime],
    tokens: Sequence[str] = (),
    refresh: bool = False,
    loads: Sequence[str] | None = None,
) -> None:
    """Materialise all assets and checks of a chain at instants of one day, and load the warehouse.

    ``tokens`` limits the run to these tokens (empty for all). ``loads`` are the chains whose day the run loads and
    searches for alerts: by default its own, none if a later run does it. One load of many chains is faster than many.
    Raises ``RunFailed``.
    """
    workspace.check()
    options = {"instants": [when.isoformat() for when in instants], "tokens": list(tokens), "refresh": refresh}
    config = {"ops": {stream.name: {"config": options} for stream in STREAMS}}
    watch(instance, workspace.settings.watchlist, [chain])
    tags = {} if loads is None else {LOADS_TAG: json.dumps(list(loads))}
    _run(workspace, instance, INGEST, config, partition_key(chain, instants[0]), tags)


def fill(  # noqa: PLR0913, PLR0917 - the options of a backfill
    workspace: Workspace,
    instance: DagsterInstance,
    chains: Sequence[str],
    instants: Sequence[datetime],
    tokens: Sequence[str] = (),
    refresh: bool = False,
    tables: Sequence[str] = (),
    plan: str = "",
    refresh_since: str = "",
) -> None:
    """Fill the lake at many instants in one run, with a progress bar. Raises ``RunFailed``; finished partitions stay.

    ``tokens`` (empty: all) limits it to these tokens, ``tables`` to these tables and those fetched with them.
    ``refresh`` fetches existing data again, except partitions written after ``refresh_since`` (ISO; empty: the start).
    ``plan`` is the plan's text for the run's log.
    """
    workspace.check()
    streams, left_out = within_plan(workspace, streams_of(tables, workspace.settings))
    if not streams:
        raise RunFailed("Nothing can be fetched. " + " ".join(map(str, left_out)))
    for exclusion in left_out:
        workspace.report(exclusion)
    options = {
        "instants": [when.isoformat() for when in instants],
        "chains": list(chains),
        "tokens": list(tokens),
        "tables": list(tables),
        "refresh": refresh,
        "refresh_since": refresh_since,
        "plan": plan,
    }
    watch(instance, workspace.settings.watchlist, chains)
    progress = Progress(sum(len(from_first_day(chain, instants)) for chain in chains) * len(streams))
    with console.progress("filling partitions", progress.partitions) as bar:

        def show(event: object) -> None:
            if isinstance(event, PartitionResult):
                progress.add(event)
                bar.update(bar.task_ids[0], completed=progress.finished, note=progress.note)
            elif isinstance(event, AssetCheckEvaluation):
                _print_failed_checks([event])

        with workspace.observed(show):
            _run(workspace, instance, BACKFILL, {"ops": {"fill_history": {"config": options}}}, None)


def _run(
    workspace: Workspace,
    instance: DagsterInstance,
    job: str,
    config: Mapping[str, Any],
    partition: str | None,
    tags: Mapping[str, str] = MappingProxyType({}),
) -> None:
    run_id = str(uuid4())
    with process_lock(workspace.settings.home, run_id) as process_tags:
        result = (
            build_defs(workspace)
            .resolve_job_def(job)
            .execute_in_process(
                run_config={**config, "loggers": {"console": {"config": {"log_level": "CRITICAL"}}}},
                instance=instance,
                partition_key=partition,
                raise_on_error=False,
                run_id=run_id,
                tags={**process_tags, **tags},
            )
        )
    _print_failed_checks(result.get_asset_check_evaluations())
    run = instance.get_run_by_id(result.run_id)
    if run is not None and run.status == DagsterRunStatus.CANCELED:
        raise RunCancelled("the run was cancelled; finished partitions are kept, repeat the command to fetch the rest")
    if not result.success:
        raise RunFailed(_first_error(result))


def _print_failed_checks(checks: Iterable[AssetCheckEvaluation]) -> None:
    """Print the failed checks with their first faults, except alerts, which ``holderlake alerts list`` reports."""
    for check in checks:
        if not check.passed and not check.check_name.startswith(ALERT_PREFIX):
            values: dict[str, Any] = {name: value.value for name, value in check.metadata.items()}
            name, table = check.check_name.replace("_", " "), check.asset_key.to_user_string()
            first_fault = "".join(f"; first: {fault}" for fault in values.pop("first faults", [])[:1])
            text = ", ".join(f"{name} {value}" for name, value in values.items())
            console.err.print(f"Check '{name}' of {table} failed ({check.severity.value.lower()}): {text}{first_fault}")


def _first_error(result: ExecuteInProcessResult) -> str:
    for event in result.all_events:
        if event.is_step_failure:
            data = event.step_failure_data
            if data.user_failure_data and data.user_failure_data.description:
                return data.user_failure_data.description
            error = data.error
            while error is not None and error.cause is not None:
                error = error.cause
            if error is not None:
                return error.message.strip().removeprefix(f"{error.cls_name}: ").rpartition("Error: ")[2]
    return f"run {result.run_id} failed; see it in Dagster's UI (holderlake ui)"
