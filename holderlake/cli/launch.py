"""Start Dagster runs in the process of the command line, and record them in Dagster's run history."""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping, Sequence
from datetime import datetime
from types import MappingProxyType
from typing import Any
from uuid import uuid4

from dagster import AssetCheckEvaluation, AssetKey, DagsterInstance, DagsterRunStatus, ExecuteInProcessResult

from holderlake.assets import STREAMS
from holderlake.core.contract.chains import from_first_day
from holderlake.core.dagster.failures import INCOMPLETE
from holderlake.core.dagster.partitions import partition_key
from holderlake.core.dagster.processes import process_lock
from holderlake.core.dagster.runs import INGEST, prepare
from holderlake.core.dagster.tags import ERROR_TAG, LOADS_TAG
from holderlake.core.dagster.versions import watch
from holderlake.core.ingest.run import complete_results
from holderlake.core.ingest.stream import LeftOut, PartitionResult, left_out_by_settings
from holderlake.core.workspace import Workspace
from holderlake.errors import RunCancelled, RunFailed
from holderlake.operations.alerts.checks import ALERT_PREFIX
from holderlake.operations.backfill.job import BACKFILL
from holderlake.operations.backfill.progress import Progress
from holderlake.operations.backfill.scope import streams_of, within_plan
from holderlake.pipelines.definitions import build_defs
from holderlake.presentation import console


def needs_run(
    workspace: Workspace,
    instance: DagsterInstance,
    chain: str,
    instants: Sequence[datetime],
    *,
    tokens: Sequence[str] = (),
    **options: Any,
) -> bool:
    """Return False if a run of a chain's day would change nothing: the lake lacks nothing, and Dagster has the day.

    A run with other ``options`` of ``IngestConfig`` is always needed: they may request what the lake has. Damaged
    partitions are repaired before, as in a run, and families without requests are reported.
    """
    if any(options.values()):
        return True
    prepare(workspace, str(uuid4()), {chain: instants}, 0, every_byte=True)
    tables = ["warehouse"]
    for stream in STREAMS:
        if (reason := left_out_by_settings(workspace.settings, stream.name)) is not None:
            workspace.report(LeftOut(stream.name, stream.tables, reason))
            continue
        results = complete_results(workspace, stream, chain, instants, tokens or None)
        if results is None or any(result.lacking for result in results):
            return True
        tables += stream.tables
    key = partition_key(chain, instants[0])
    return any(key not in instance.get_materialized_partitions(AssetKey(table)) for table in tables)


def ingest_day(
    workspace: Workspace,
    instance: DagsterInstance,
    chain: str,
    instants: Sequence[datetime],
    *,
    loads: Sequence[str] | None = None,
    **options: Any,
) -> None:
    """Materialise all assets and checks of a chain at instants of one day, and load the warehouse.

    ``options`` are those of ``IngestConfig``. ``loads`` are the chains whose day the run loads and searches for alerts:
    by default its own, none if a later run does it. One load of many chains is faster than many. Raises ``RunFailed``.
    """
    workspace.check()
    run_options = {"instants": [when.isoformat() for when in instants], **options}
    config = {"ops": {stream.name: {"config": run_options} for stream in STREAMS}}
    watch(instance, workspace.settings.watchlist, [chain])
    tags = {} if loads is None else {LOADS_TAG: json.dumps(list(loads))}
    _run(workspace, instance, INGEST, config, partition_key(chain, instants[0]), tags)


def fill(
    workspace: Workspace,
    instance: DagsterInstance,
    chains: Sequence[str],
    instants: Sequence[datetime],
    *,
    tables: Sequence[str] = (),
    **options: Any,
) -> None:
    """Fill the lake at many instants in one run, with a progress bar. Raises ``RunFailed``; finished partitions stay.

    ``tables`` limits it to these tables and those fetched with them. ``options`` are further ones of
    ``BackfillConfig``.
    """
    workspace.check()
    streams, left_out = within_plan(workspace, streams_of(tables, workspace.settings))
    if not streams:
        raise RunFailed("Nothing can be fetched. " + " ".join(map(str, left_out)))
    for exclusion in left_out:
        workspace.report(exclusion)
    run_options = {
        "instants": [when.isoformat() for when in instants],
        "chains": list(chains),
        "tables": list(tables),
        **options,
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
            _run(workspace, instance, BACKFILL, {"ops": {"fill_history": {"config": run_options}}}, None)


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
    if not result.success and (run is None or run.tags.get(ERROR_TAG) != INCOMPLETE):  # the command reports failures
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
