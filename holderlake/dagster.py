"""Names for Dagster projects of your own: factories of assets and checks, resources, partitions, and the component."""

from holderlake.assets.checks import stream_checks
from holderlake.assets.fetched import stream_asset
from holderlake.assets.freshness import freshness_checks
from holderlake.assets.warehouse import warehouse_asset
from holderlake.core.dagster.partitions import chain_by_day, days_of, partition_key
from holderlake.operations.alerts.checks import alert_checks
from holderlake.pipelines.component import HolderlakeComponent
from holderlake.resources.workspace import (
    EngineResource,
    LakeResource,
    ProviderResource,
    WarehouseResource,
    WorkspaceResource,
)
from holderlake.sources.nodes.asset import transfers_asset

__all__ = [
    "EngineResource",
    "HolderlakeComponent",
    "LakeResource",
    "ProviderResource",
    "WarehouseResource",
    "WorkspaceResource",
    "alert_checks",
    "chain_by_day",
    "days_of",
    "freshness_checks",
    "partition_key",
    "stream_asset",
    "stream_checks",
    "transfers_asset",
    "warehouse_asset",
]
