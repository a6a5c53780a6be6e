"""Raw transfers as an asset: one chain and day, read from the chain's nodes into the engine's store.

The asset needs nodes in the settings.
"""

from collections.abc import Sequence
from datetime import datetime
from typing import Any, Final

from dagster import (
    AssetExecutionContext,
    AssetMaterialization,
    AssetsDefinition,
    AssetSpec,
    BackfillPolicy,
    MaterializeResult,
    MultiPartitionsDefinition,
    ResourceParam,
    multi_asset,
)

from holderlake.dagster.assets import OWNERS, asset_key
from holderlake.dagster.failures import step_errors
from holderlake.dagster.partitions import CHAIN_BY_DAY, days_of, partition_key
from holderlake.provider.node_imports import DayReport
from holderlake.settings import SettingsError
from holderlake.workspace import Workspace

_DESCRIPTION: Final = (
    "**A chain's token transfers, from its nodes (JSON-RPC).** A day's blocks go into the engine's store, each once; "
    "blocks that a reorganisation replaced are rolled back and read again. A day that has not ended, or whose last "
    "blocks are not final yet, is filled as far as possible, and its next run reads only the rest."
)


def transfers_asset(
    *, key_prefix: Sequence[str] = (), partitions_def: MultiPartitionsDefinition = CHAIN_BY_DAY
) -> AssetsDefinition:
    """Return the asset ``transfers``, partitioned by chain and day. It needs the resource ``workspace``."""
    key = asset_key("transfers", key_prefix)

    spec = AssetSpec(key, group_name="transfers", owners=OWNERS, kinds={"api", "parquet"}, description=_DESCRIPTION)

    @multi_asset(
        name="__".join([*key_prefix, "transfers"]),
        specs=[spec],
        partitions_def=partitions_def,
        backfill_policy=BackfillPolicy.single_run(),
    )
    def transfers(context: AssetExecutionContext, workspace: ResourceParam[Workspace]) -> MaterializeResult[Any]:
        reports: dict[tuple[str, str], DayReport] = {}
        with step_errors(context.op_execution_context):
            try:
                for chain, day in days_of(context.partition_keys):
                    reports[chain, day] = _import_day(workspace, chain, day)
            except Exception:
                for (chain, day), report in reports.items():
                    partition = partition_key(chain, datetime.fromisoformat(day))
                    context.log_event(AssetMaterialization(key, partition=partition, metadata=_metadata([report])))
                raise
        return MaterializeResult(metadata=_metadata(list(reports.values())))

    return transfers


def _import_day(workspace: Workspace, chain: str, day: str) -> DayReport:
    if workspace.import_day is None:
        raise SettingsError(
            "transfers cannot be imported here: this workspace was made without Workspace.import_day, which writes to "
            "the engine's store; holderlake's own definitions set it"
        )
    return workspace.import_day(chain, day)


def _metadata(reports: list[DayReport]) -> dict[str, Any]:
    return {
        "dagster/row_count": sum(report.rows for report in reports),
        "blocks": sum(report.blocks for report in reports),
        "logs": sum(report.logs for report in reports),
        "rows taken back": sum(report.removed for report in reports),
        "requests": sum(report.requests for report in reports),
        "seconds": round(sum(report.seconds for report in reports), 2),
        "first block": min(report.first_block for report in reports),
        "last block": max(report.last_block for report in reports),
        "whole days": sum(report.is_whole for report in reports),
        "days": len(reports),
    }
