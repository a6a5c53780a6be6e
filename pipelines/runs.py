"""Starting Dagster runs from the command line: in this process, recorded in Dagster's own history."""

from __future__ import annotations

import os
import sqlite3
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, ExitStack, contextmanager, nullcontext
from datetime import datetime
from pathlib import Path
from typing import Any, Final

from dagster import AssetCheckEvaluation, DagsterInstance, DagsterRunStatus, ExecuteInProcessResult
from sqlalchemy.exc import SQLAlchemyError

from holderlake import console
from holderlake.backfill.plan import streams_of
from holderlake.backfill.progress import Progress
from holderlake.backfill.scope import within_plan
from holderlake.dagster.alert_checks import ALERT_PREFIX
from holderlake.dagster.partitions import CHAINS, partition_key
from holderlake.errors import RunCancelled, RunFailed
from holderlake.ingest.stream import PartitionResult
from holderlake.ingest.streams.all import STREAMS
from holderlake.storage.sqlite import DatabaseError
from holderlake.workspace import Workspace
from pipelines.definitions import build_defs
from pipelines.history import let_go, quicken
from pipelines.jobs import BACKFILL, INGEST

_DAGSTER_YAML: Final = """\
# Dagster's own settings. Nothing is told to anyone.
telemetry:
  enabled: false
nux:
  enabled: false
concurrency:
  runs:
    max_concurrent_runs: 2
event_log_storage:
  module: pipelines.history
  class: QuickEventLog
"""


def prepare_dagster_home(home: Path) -> None:
    """Makes Dagster's folder with telemetry off, and points Dagster at it."""
    home.mkdir(parents=True, exist_ok=True)
    config = home / "dagster.yaml"
    if not config.exists():
        config.write_text(_DAGSTER_YAML)
    os.environ["DAGSTER_HOME"] = str(home.resolve())


@contextmanager
def dagster_instance(home: Path) -> Iterator[DagsterInstance]:
    """Dagster's history under a home. Raises ``DatabaseError`` where a file of it is damaged or can't be written."""
    try:
        prepare_dagster_home(home)
        quicken()
        with ExitStack() as opened:
            with _explained_settings(home / "dagster.yaml"):
                instance = opened.enter_context(DagsterInstance.get())
            yield instance
    except (SQLAlchemyError, sqlite3.DatabaseError) as error:
        reason = str(getattr(error, "orig", None) or error).splitlines()[0]
        raise DatabaseError(
            f"Dagster's history in {home} can't be used ({reason}); move that folder away: it holds the history of "
            "runs, and no data"
        ) from error
    finally:
        let_go()


@contextmanager
def _explained_settings(path: Path) -> Iterator[None]:
    """Raise ``DatabaseError`` where Dagster cannot read its own settings."""
    try:
        yield
    except (SQLAlchemyError, sqlite3.DatabaseError, OSError):
        raise
    except Exception as error:  # of Dagster, of YAML, or of what they name
        reason = str(error).splitlines()[0]
        raise DatabaseError(f"{path} can't be used ({reason}); move it away, and it is made again") from error


def loads_once(workspace: Workspace, chains: Sequence[str]) -> Iterator[tuple[str, AbstractContextManager[None]]]:
    """Give each chain and a context for its run, so that only the last chain's run loads the warehouse, for all."""
    for place, chain in enumerate(chains):
        yield chain, workspace.warehouse.postponed() if place < len(chains) - 1 else nullcontext()


def ingest_day(
    workspace: Workspace,
    instance: DagsterInstance,
    chain: str,
    instants: Sequence[datetime],
    tokens: Sequence[str] = (),
    refresh: bool = False,
) -> None:
    """Materialises a chain at instants of one day: all assets, checks and the warehouse. Raises ``RunFailed``."""
    workspace.check()
    options = {"instants": [when.isoformat() for when in instants], "tokens": list(tokens), "refresh": refresh}
    config = {"ops": {family.name: {"config": options} for family in STREAMS}}
    instance.add_dynamic_partitions(CHAINS.name or "chain", [chain])
    _run(workspace, instance, INGEST, config, partition_key(chain, instants[0]))


def fill(  # noqa: PLR0913, PLR0917 - what a backfill is for, and how it is done
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
    """Fills the lake at many instants in one run, with progress. Raises ``RunFailed``; what was finished stays.

    ``tables`` narrows it to what fills them; all where none is named. ``plan``: what the plan says, for the run's log.
    """
    workspace.check()
    families, left_out = within_plan(workspace, streams_of(tables, workspace.settings))
    if not families:
        raise RunFailed("Nothing can be fetched. " + " ".join(map(str, left_out)))
    workspace.skipped |= {one.family: one.reason for one in left_out}
    options = {
        "instants": [when.isoformat() for when in instants],
        "chains": list(chains),
        "tokens": list(tokens),
        "tables": list(tables),
        "refresh": refresh,
        "refresh_since": refresh_since,
        "plan": plan,
    }
    instance.add_dynamic_partitions(CHAINS.name or "chain", list(chains))
    progress = Progress(len(chains) * len(instants) * len(families))
    with console.progress("filling partitions", progress.partitions) as bar:
        heard_before = workspace.on_result

        def heard(one: PartitionResult) -> None:
            heard_before(one)
            progress.add(one)
            bar.update(bar.task_ids[0], completed=progress.landed, note=progress.note)

        workspace.on_result = heard
        workspace.on_check = lambda one: _print_failed_checks([one])
        _run(workspace, instance, BACKFILL, {"ops": {"fill_history": {"config": options}}}, None)


def _run(
    workspace: Workspace,
    instance: DagsterInstance,
    job: str,
    config: Mapping[str, Any],
    partition: str | None,
) -> None:
    definition = build_defs(workspace).resolve_job_def(job)
    result = definition.execute_in_process(
        run_config={**config, "loggers": {"console": {"config": {"log_level": "CRITICAL"}}}},
        instance=instance,
        partition_key=partition,
        raise_on_error=False,
    )
    _print_failed_checks(result.get_asset_check_evaluations())
    ended = instance.get_run_by_id(result.run_id)
    if ended is not None and ended.status == DagsterRunStatus.CANCELED:
        raise RunCancelled("the run was cancelled; what had landed by then is kept")
    if not result.success:
        raise RunFailed(_first_error(result))


def _print_failed_checks(checks: Iterable[AssetCheckEvaluation]) -> None:
    """Print the checks that failed, with their first faults. Alerts are reported by ``holderlake alerts``."""
    for check in checks:
        if not check.passed and not check.check_name.startswith(ALERT_PREFIX):
            found: dict[str, Any] = {name: value.value for name, value in check.metadata.items()}
            name, table = check.check_name.replace("_", " "), check.asset_key.to_user_string()
            first = "".join(f"; first: {fault}" for fault in found.pop("first faults", [])[:1])
            said = ", ".join(f"{name} {value}" for name, value in found.items())
            console.err.print(f"Check '{name}' of {table} failed ({check.severity.value.lower()}): {said}{first}")


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
    return f"run {result.run_id} failed; see it in Dagster's UI (make ui)"
