"""Families as Dagster assets: partitions to instants, errors to failures, what landed to metadata.

An asset run over a range of partitions is one run (``single_run``). Should it fail midway, the partitions that were
finished are logged as materialised, so that the next run is for the rest only.
"""

import asyncio
from collections.abc import Iterable, Iterator, Mapping, Sequence
from datetime import datetime, timedelta
from itertools import groupby
from typing import Any

from dagster import (
    AssetExecutionContext,
    AssetMaterialization,
    AssetsDefinition,
    AssetSpec,
    BackfillPolicy,
    Config,
    Failure,
    FreshnessPolicy,
    MaterializeResult,
    MultiPartitionKey,
    ResourceParam,
    TableColumn,
    TableColumnConstraints,
    TableSchema,
    multi_asset,
)
from pydantic import Field

from holderlake.contract.prices import credits_text
from holderlake.contract.tables import FAMILY_TABLES, TABLES
from holderlake.contract.times import InstantAhead, check_passed, parse_when
from holderlake.dagster.interrupts import end_as_cancelled, retried
from holderlake.dagster.partitions import CHAIN_BY_DAY, instants_of, partition_key
from holderlake.ingest.cancelling import cancelling
from holderlake.ingest.preparing import prepare_run
from holderlake.ingest.run import ingest
from holderlake.ingest.stream import IngestContext, PartitionResult, Stream, missing, partition_of
from holderlake.lake.lake import LakeError
from holderlake.provider.errors import Cancelled, PermanentError, TransientError
from holderlake.settings import SettingsError
from holderlake.storage.sqlite import DatabaseError
from holderlake.warehouse.warehouse import WarehouseError
from holderlake.workspace import Workspace

PERMANENT = (PermanentError, SettingsError, LakeError, DatabaseError, WarehouseError, InstantAhead)
"""Errors that a retry does not change: the key, the plan, a ceiling, the settings or the instants are wrong."""
OWNERS = ["team:holderlake"]
DUE = timedelta(hours=36)
"""A daily partition and half a day's grace."""


def may_have_cost(error: Exception) -> bool:
    """Whether a retry of the step could pay again for calls that may have been charged."""
    return isinstance(error, TransientError) and error.maybe_charged


class IngestConfig(Config):
    """What a run may narrow or add; everything else is the settings'."""

    instants: list[str] = Field(
        default=[], description="As-of instants (ISO or unix seconds); those of the schedule where none is given."
    )
    tokens: list[str] = Field(default=[], description="Only these tokens; the watchlist's where none is given.")
    refresh: bool = Field(default=False, description="Ask anew for what the lake holds already (costs credits).")


def asset_of(family: Stream, description: str, deps: Sequence[str] = ()) -> AssetsDefinition:
    """The asset of a family: one key a table, partitioned by chain and day."""

    @multi_asset(
        name=family.name,
        specs=[_spec(family, table, description, deps) for table in family.tables],
        partitions_def=CHAIN_BY_DAY,
        backfill_policy=BackfillPolicy.single_run(),
    )
    def materialise(
        context: AssetExecutionContext, config: IngestConfig, workspace: ResourceParam[Workspace]
    ) -> Iterator[MaterializeResult[Any]]:
        days = days_of(context.partition_keys)
        with retried(context.retry_number):
            landed = _landed(context, family, config, workspace, days)
        for table in family.tables:
            yield MaterializeResult(asset_key=table, metadata=metadata_of(table, landed, workspace))

    return materialise


def _landed(
    context: AssetExecutionContext,
    family: Stream,
    config: IngestConfig,
    workspace: Workspace,
    days: Sequence[tuple[str, str]],
) -> list[PartitionResult]:
    """Fetch the run's partitions. Whatever stops it, the partitions that are complete by then are logged."""
    run_id, wanted = context.run.run_id, dict[str, list[datetime]]()
    try:
        wanted = _wanted(config, workspace, days)
        families = sum(map(context.job_def.has_node_named, FAMILY_TABLES))
        prepare_run(workspace, run_id, wanted, families, every_byte=True)
        return asyncio.run(_ingest_days(run_id, family, config, workspace, wanted))
    except Exception as error:
        _log_finished(context, family, config, workspace, wanted)
        if isinstance(error, Cancelled):
            end_as_cancelled(context.instance, context.run.run_id, error)
        if isinstance(error, PERMANENT) or may_have_cost(error):
            context.instance.add_run_tags(context.run.run_id, {"dagster/max_retries": "0"})
            raise Failure(str(error), allow_retries=False) from error
        raise


def days_of(keys: Iterable[str]) -> list[tuple[str, str]]:
    """Chain and day of each partition key."""
    parsed = [
        key if isinstance(key, MultiPartitionKey) else CHAIN_BY_DAY.get_partition_key_from_str(key) for key in keys
    ]
    return [(key.keys_by_dimension["chain"], key.keys_by_dimension["date"]) for key in parsed]


def metadata_of(
    table: str, landed: Sequence[PartitionResult], workspace: Workspace, with_plots: bool = True
) -> dict[str, Any]:
    """Asset metadata: rows, cost, failures, the newest instant, and a plot where there is one to look at."""
    total = {
        "dagster/row_count": sum(one.rows.get(table, 0) for one in landed),
        "credits": credits_text(sum(one.credits for one in landed)),
        "calls": sum(one.calls for one in landed),
        "failures": sum(one.failures for one in landed),
        "revisions": sum(one.revisions for one in landed),
        "instants": len(landed),
    }
    computed = sum(one.computed for one in landed)
    if computed:
        total["answers from the engine"] = computed
    skipped = sorted({one.skipped for one in landed if one.skipped})
    if skipped:
        total["skipped"] = "; ".join(skipped)
    if landed:
        newest = max(landed, key=lambda one: one.as_of)
        total["newest instant"] = f"{newest.as_of.isoformat()}Z"
        if with_plots:
            from holderlake.dagster.plots import plots  # noqa: PLC0415 - most of a second that only who draws waits for

            total |= plots(table, workspace.lake, newest.chain, newest.as_of)
    return total


def _spec(family: Stream, table: str, description: str, deps: Sequence[str]) -> AssetSpec:
    shape = TABLES[table]
    return AssetSpec(
        table,
        deps=list(deps),
        description=f"**A row is {shape.row}.** {description}\n\nKey: {', '.join(shape.key)}.",
        owners=OWNERS,
        group_name=family.name,
        kinds={"api", "parquet"},
        freshness_policy=FreshnessPolicy.time_window(fail_window=DUE),
        metadata={"dagster/column_schema": column_schema(table), "dagster/relation_identifier": table},
    )


def column_schema(table: str) -> TableSchema:
    """A table's columns as Dagster shows them."""
    return TableSchema(
        [
            TableColumn(
                field.name,
                str(field.type),
                description=field.metadata[b"comment"].decode(),
                constraints=TableColumnConstraints(nullable=field.nullable),
            )
            for field in TABLES[table].schema
        ]
    )


def _instants(config: IngestConfig, workspace: Workspace, day: str) -> list[datetime]:
    """Return the run's instants on a day. Those of the schedule that lie ahead wait for a later run.

    Raises ``InstantAhead`` where none has passed.
    """
    if config.instants:
        return [when for when in map(parse_when, config.instants) if f"{when:%Y-%m-%d}" == day]
    own, now = instants_of(day, workspace.settings.schedule.offsets), workspace.now()
    check_passed(own[:1], now)
    return [when for when in own if when <= now]


def _wanted(config: IngestConfig, workspace: Workspace, days: Sequence[tuple[str, str]]) -> dict[str, list[datetime]]:
    """Return the run's instants of each chain, in their order. Raises ``InstantAhead`` as ``_instants`` does."""
    wanted: dict[str, list[datetime]] = {}
    for chain, day in days:
        wanted.setdefault(chain, []).extend(_instants(config, workspace, day))
    return {chain: sorted(instants) for chain, instants in wanted.items()}


async def _ingest_days(
    run_id: str, family: Stream, config: IngestConfig, workspace: Workspace, wanted: Mapping[str, Sequence[datetime]]
) -> list[PartitionResult]:
    landed: list[PartitionResult] = []
    async with workspace.provider(run_id) as provider:
        asking = IngestContext(provider, workspace, config.refresh)
        with cancelling(provider):
            for chain, instants in wanted.items():
                try:
                    landed += await ingest(asking, family, chain, instants, config.tokens or None, workspace.on_result)
                except TransientError as error:
                    error.maybe_charged |= provider.counters.broken > 0  # a retry would repeat those calls too
                    raise
            provider.check_running()
    return landed


def _log_finished(
    context: AssetExecutionContext,
    family: Stream,
    config: IngestConfig,
    workspace: Workspace,
    wanted: Mapping[str, Sequence[datetime]],
) -> None:
    """Log the partitions that a failing run finished."""
    for chain, instants in wanted.items():
        for _, of_day in groupby(instants, key=datetime.date):
            slices = [partition_of(workspace, chain, when) for when in of_day]
            if any(missing(workspace, family, part, config.tokens or None).subjects for part in slices):
                continue
            key = partition_key(chain, slices[0].as_of)
            for table in family.tables:
                context.log_event(AssetMaterialization(table, partition=key, metadata={"finished before": "a failure"}))
