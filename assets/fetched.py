"""Materialise a family of tables: one Dagster asset per table, partitioned by chain and day.

A range of partitions is materialised in one run (``single_run``). Only complete partitions are logged as materialised:
Dagster shows the others as failed, and the next run fetches only the rest. A step whose partitions lack a part
succeeds, so that later steps can use the other parts. Then the check ``is_complete`` fails the run.
"""

import asyncio
from collections.abc import Collection, Iterator, Mapping, Sequence
from datetime import datetime
from typing import Any, Final

from dagster import (
    AssetExecutionContext,
    AssetsDefinition,
    AssetSpec,
    BackfillPolicy,
    Config,
    MaterializeResult,
    MultiPartitionsDefinition,
    multi_asset,
)
from pydantic import Field

from holderlake.core.contract.chains import from_first_day
from holderlake.core.contract.tables import FAMILY_TABLES, TABLES
from holderlake.core.contract.times import check_passed, parse_when
from holderlake.core.dagster.failures import step_errors
from holderlake.core.dagster.metadata import asset_key, column_schema, log_materialisations, newest_days
from holderlake.core.dagster.partitions import CHAIN_BY_DAY, days_of, instants_of, keys_of_run
from holderlake.core.dagster.runs import (
    RunOptions,
    by_day,
    incomplete_days,
    ingest_run,
    load_after_error,
    note_incomplete,
    prepare,
    refresh_start,
)
from holderlake.core.dagster.versions import WATCHLIST, input_tags
from holderlake.core.dagster.workarounds import UNLOGGED
from holderlake.core.ingest.stream import PartitionResult, Stream
from holderlake.core.setting_types import Texts
from holderlake.core.workspace import Workspace
from holderlake.resources.workspace import WORKSPACE, workspace_of

OWNERS: Final = ["team:holderlake"]
POOL: Final = "provider"
"""Name of Dagster's concurrency pool for all steps that fetch with the API key of the settings."""
ONE_RUN: Final = BackfillPolicy.single_run()
"""A range of partitions is one run, which fetches all of them."""


class IngestConfig(Config):
    """Run config of the assets: the options of one run. The settings have everything else.

    ``holderlake ingest`` passes its options under these names, to one day's assets and to a backfill.
    """

    instants: Texts = Field(
        default=[], description="As-of instants (ISO or unix seconds); by default those of the schedule."
    )
    tokens: Texts = Field(default=[], description="Only these tokens; by default those of the watchlist.")
    refresh: bool = Field(default=False, description="Fetch existing data again (costs credits).")

    def options(self, refresh_since: datetime | None) -> RunOptions:
        """Return the options of the ingest, whose refresh began at ``refresh_since`` (naive UTC)."""
        return RunOptions(self.tokens, self.refresh, refresh_since)


def stream_asset(
    stream: Stream,
    *,
    description: str | None = None,
    deps: Sequence[str] | None = None,
    key_prefix: Sequence[str] = (),
    partitions_def: MultiPartitionsDefinition = CHAIN_BY_DAY,
    backfill_policy: BackfillPolicy = ONE_RUN,
    pool: str = POOL,
    resource: str = WORKSPACE,
) -> AssetsDefinition:
    """Return the assets of a stream's tables. They need a workspace as the resource ``resource``.

    ``deps`` are the names of assets to materialise before, by default ``inputs_of``; ``description`` is by default the
    endpoint of the tables. ``key_prefix`` is the first part of each asset key. ``pool`` is Dagster's concurrency pool
    of the steps; with one pool for each API key, ``dagster.yaml`` can limit a key's steps.
    """
    text = stream.source if description is None else description
    inputs = inputs_of(stream) if deps is None else deps

    @multi_asset(
        name="__".join([*key_prefix, stream.name]),
        specs=[_table_spec(stream, table, text, inputs, key_prefix) for table in stream.tables],
        partitions_def=partitions_def,
        backfill_policy=backfill_policy,
        pool=pool,
        required_resource_keys={resource},
    )
    def materialise(context: AssetExecutionContext, config: IngestConfig) -> Iterator[MaterializeResult[Any]]:
        workspace = workspace_of(context, resource)
        days = days_of(keys_of_run(context))
        with step_errors(context.op_execution_context):
            complete = _ingest(context, stream, days, config, workspace, key_prefix)
        plotted = newest_days(complete)
        for table in stream.tables:
            yield MaterializeResult(asset_key=asset_key(table, key_prefix), metadata=UNLOGGED)
            _log(context, stream, table, complete, config, workspace, key_prefix, plotted)

    return materialise


def inputs_of(stream: Stream) -> list[str]:
    """Return the names of the assets that a stream reads: the watchlist, if it is by token, and its input tables."""
    return [*([WATCHLIST] if stream.by == "token" else []), *stream.inputs]


def _log(
    context: AssetExecutionContext,
    stream: Stream,
    table: str,
    days: Mapping[tuple[str, str], Sequence[PartitionResult]],
    config: IngestConfig,
    workspace: Workspace,
    key_prefix: Sequence[str],
    plotted: Collection[tuple[str, str]] = (),
) -> None:
    """Log partitions of a table as materialised. ``days`` has the ingest's results by chain and day."""
    if days:
        log_materialisations(
            context.op_execution_context,
            stream,
            table,
            days,
            workspace,
            tokens=config.tokens,
            inputs=input_tags(context.instance, context.assets_def.asset_deps[asset_key(table, key_prefix)]),
            key_prefix=key_prefix,
            plotted=plotted,
        )


def _table_spec(
    stream: Stream, table: str, description: str, deps: Sequence[str], key_prefix: Sequence[str]
) -> AssetSpec:
    shape = TABLES[table]
    return AssetSpec(
        asset_key(table, key_prefix),
        deps=[asset_key(name, key_prefix) for name in deps],
        description=f"A row is {shape.row}. {description}\n\nKey: {', '.join(shape.key)}.",
        owners=OWNERS,
        group_name=stream.name,
        kinds={"api", "parquet"},
        metadata={"dagster/column_schema": column_schema(table), "dagster/relation_identifier": table},
    )


def _ingest(
    context: AssetExecutionContext,
    stream: Stream,
    days: Sequence[tuple[str, str]],
    config: IngestConfig,
    workspace: Workspace,
    key_prefix: Sequence[str],
) -> dict[tuple[str, str], list[PartitionResult]]:
    """Ingest the run's ``days`` (pairs of chain and day), and return the results of each day that lacks nothing.

    The run gets a tag about the other days. If an error stops the ingest, the days that are complete are logged as
    materialised, the warehouse is loaded if the run was to load it, and the error is raised.
    """
    instants = _instants_by_chain(config, workspace, days)
    streams = sum(context.job_def.has_node_named("__".join([*key_prefix, name])) for name in FAMILY_TABLES)
    prepare(workspace, context.run.run_id, instants, streams, every_byte=True)
    since = refresh_start(context.instance, context.run.run_id) if config.refresh else None
    results: list[PartitionResult] = []
    try:
        asyncio.run(
            ingest_run(
                workspace,
                context.run.run_id,
                [(stream, chain, chain_instants) for chain, chain_instants in instants.items()],
                config.options(since),
                results.append,
            )
        )
    except Exception:
        incomplete = incomplete_days(workspace, stream, instants, results)
        finished = {day: found for day, found in by_day(results).items() if day not in incomplete}
        for table in stream.tables:
            _log(context, stream, table, finished, config, workspace, key_prefix)
        if context.job_def.has_node_named("__".join([*key_prefix, "warehouse"])):  # its step is not executed
            load_after_error(workspace)
        raise
    incomplete = incomplete_days(workspace, stream, instants, results)
    note_incomplete(context.instance, context.run.run_id, stream, incomplete)
    found = by_day(results)
    return {day: found.get(day, []) for day in days if day not in incomplete}


def _instants_by_chain(
    config: IngestConfig, workspace: Workspace, days: Sequence[tuple[str, str]]
) -> dict[str, list[datetime]]:
    """Return the instants to fetch, by chain, in order of time.

    ``days`` are pairs of chain and day. Raises ``InstantAhead`` if all instants of a day are in the future.
    """
    instants: dict[str, list[datetime]] = {}
    for chain, day in days:
        instants.setdefault(chain, []).extend(_instants_of_day(config, workspace, day))
    return {chain: sorted(set(from_first_day(chain, chain_instants))) for chain, chain_instants in instants.items()}


def _instants_of_day(config: IngestConfig, workspace: Workspace, day: str) -> list[datetime]:
    """Return the instants to fetch on a day (YYYY-MM-DD): those of the run config, or the past ones of the schedule.

    Raises ``InstantAhead`` if all scheduled instants of the day are in the future.
    """
    if config.instants:
        return [when for when in map(parse_when, config.instants) if f"{when:%Y-%m-%d}" == day]
    scheduled, now = instants_of(day, workspace.settings.schedule.offsets), workspace.now()
    check_passed(scheduled[:1], now)
    return [when for when in scheduled if when <= now]
