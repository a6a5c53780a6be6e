"""Raw transfers as an asset by chain and day, read from the chain's nodes into the engine's store.

The settings must name the nodes.
"""

from collections.abc import Sequence
from datetime import datetime
from typing import TYPE_CHECKING, Any, Final

from dagster import (
    AssetExecutionContext,
    AssetMaterialization,
    AssetRecordsFilter,
    AssetsDefinition,
    AssetSpec,
    BackfillPolicy,
    DagsterInstance,
    MaterializeResult,
    MultiPartitionsDefinition,
    multi_asset,
)

from holderlake.assets.fetched import OWNERS
from holderlake.core.dagster.failures import step_errors
from holderlake.core.dagster.metadata import asset_key
from holderlake.core.dagster.partitions import CHAIN_BY_DAY, days_of, keys_of_run, partition_key
from holderlake.resources.workspace import WORKSPACE, workspace_of

if TYPE_CHECKING:
    from holderlake.sources.rpc.run import NodeReport

TRANSFERS: Final = "transfers"
"""Name of the asset, and of the job that materialises it."""
_WHOLE_DAY: Final = "whole day"
_DESCRIPTION: Final = (
    "A chain's token transfers, from its nodes (JSON-RPC). A day's blocks go into the engine's store, each once; "
    "blocks that a reorganisation replaced are rolled back and read again. A day that has not ended, or whose last "
    "blocks are not final yet, is filled as far as possible, and its next run reads only the rest."
)


def transfers_asset(
    *,
    key_prefix: Sequence[str] = (),
    partitions_def: MultiPartitionsDefinition = CHAIN_BY_DAY,
    resource: str = WORKSPACE,
) -> AssetsDefinition:
    """Return the asset ``transfers`` by chain and day. It needs a workspace as the resource ``resource``."""
    key = asset_key("transfers", key_prefix)

    spec = AssetSpec(key, group_name="transfers", owners=OWNERS, kinds={"api", "parquet"}, description=_DESCRIPTION)

    @multi_asset(
        name="__".join([*key_prefix, "import_transfers"]),  # another name than that of the job
        specs=[spec],
        partitions_def=partitions_def,
        backfill_policy=BackfillPolicy.single_run(),
        required_resource_keys={resource},
    )
    def transfers(context: AssetExecutionContext) -> MaterializeResult[Any]:
        from holderlake.sources.nodes.imports import import_day  # noqa: PLC0415 - the engine; definitions load without

        workspace = workspace_of(context, resource)
        partitions = keys_of_run(context)
        reports: dict[str, tuple[NodeReport, bool]] = {}
        with step_errors(context.op_execution_context):
            try:
                for partition, (chain, day) in zip(partitions, days_of(partitions), strict=True):
                    reports[partition] = import_day(workspace.settings, chain, day)
            except Exception:
                for partition, report in reports.items():
                    context.log_event(AssetMaterialization(key, partition=partition, metadata=_metadata(*report)))
                raise
            workspace.warehouse.load(workspace.lake)
        for partition, report in reports.items():
            context.add_asset_metadata(_metadata(*report), partition_key=partition)
        return MaterializeResult()

    return transfers


def is_imported(instance: DagsterInstance, chain: str, day: datetime) -> bool:
    """Return whether the newest import of a chain and day read all blocks of the day; False without an import."""
    filter_ = AssetRecordsFilter(asset_key("transfers"), asset_partitions=[partition_key(chain, day)])
    events = [record.asset_materialization for record in instance.fetch_materializations(filter_, limit=1).records]
    return any(event.metadata[_WHOLE_DAY].value for event in events if event)


def _metadata(report: "NodeReport", is_whole: bool) -> dict[str, Any]:
    return {
        "dagster/row_count": report.added,
        "blocks": report.blocks,
        "logs": report.logs,
        "rows taken back": report.removed,
        "requests": report.requests,
        "seconds": round(report.seconds, 2),
        "first block": report.first_block,
        "last block": report.last_block,
        _WHOLE_DAY: is_whole,
    }
