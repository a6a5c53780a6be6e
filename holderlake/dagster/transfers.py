"""Raw transfers as an asset: a chain's day from its nodes into the engine's store, where the settings name nodes."""

from datetime import datetime
from typing import Any, Final

from dagster import (
    AssetExecutionContext,
    AssetMaterialization,
    AssetsDefinition,
    AssetSpec,
    BackfillPolicy,
    Failure,
    FreshnessPolicy,
    MaterializeResult,
    ResourceParam,
    multi_asset,
)

from holderlake.dagster.assets import DUE, OWNERS, PERMANENT, days_of
from holderlake.dagster.interrupts import retried
from holderlake.dagster.partitions import CHAIN_BY_DAY, partition_key
from holderlake.provider.node_imports import DayReport
from holderlake.settings import SettingsError
from holderlake.workspace import Workspace

_DESCRIPTION: Final = (
    "**A chain's token transfers, from its nodes (JSON-RPC).** A day's blocks go into the engine's store, each once; "
    "what a reorganisation took back is rolled back and read again. A day that has not ended, or whose last blocks are "
    "not final yet, is filled as far as it is, and its next run reads only the rest."
)


def transfers_asset() -> AssetsDefinition:
    """The asset ``transfers``, by chain and day."""

    @multi_asset(
        name="transfers",
        specs=[
            AssetSpec(
                "transfers",
                group_name="transfers",
                owners=OWNERS,
                kinds={"api", "parquet"},
                description=_DESCRIPTION,
                freshness_policy=FreshnessPolicy.time_window(fail_window=DUE),
            )
        ],
        partitions_def=CHAIN_BY_DAY,
        backfill_policy=BackfillPolicy.single_run(),
    )
    def transfers(context: AssetExecutionContext, workspace: ResourceParam[Workspace]) -> MaterializeResult[Any]:
        done: dict[tuple[str, str], DayReport] = {}
        with retried(context.retry_number):
            try:
                for chain, day in days_of(context.partition_keys):
                    done[chain, day] = _import_day(workspace, chain, day)
            except Exception as error:
                _log_finished(context, done)
                if isinstance(error, PERMANENT):
                    context.instance.add_run_tags(context.run.run_id, {"dagster/max_retries": "0"})
                    raise Failure(str(error), allow_retries=False) from error
                raise
        return MaterializeResult(metadata=_metadata(list(done.values())))

    return transfers


def _import_day(workspace: Workspace, chain: str, day: str) -> DayReport:
    if workspace.import_day is None:
        raise SettingsError("this workspace has no engine to import transfers into")
    return workspace.import_day(chain, day)


def _metadata(reports: list[DayReport]) -> dict[str, Any]:
    return {
        "dagster/row_count": sum(one.rows for one in reports),
        "blocks": sum(one.blocks for one in reports),
        "logs": sum(one.logs for one in reports),
        "rows taken back": sum(one.removed for one in reports),
        "requests": sum(one.requests for one in reports),
        "seconds": round(sum(one.seconds for one in reports), 2),
        "first block": min(one.first_block for one in reports),
        "last block": max(one.last_block for one in reports),
        "whole days": sum(one.is_whole for one in reports),
        "days": len(reports),
    }


def _log_finished(context: AssetExecutionContext, done: dict[tuple[str, str], DayReport]) -> None:
    """Logs the partitions that a failing run finished all the same."""
    for (chain, day), report in done.items():
        key = partition_key(chain, datetime.strptime(day, "%Y-%m-%d"))
        metadata = _metadata([report]) | {"finished before": "a failure"}
        context.log_event(AssetMaterialization("transfers", partition=key, metadata=metadata))
