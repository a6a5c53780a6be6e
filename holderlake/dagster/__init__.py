"""Factories of Dagster assets, checks, partitions and resources, for this application and for your own projects.

The modules ``jobs``, ``schedules``, ``sensors``, ``healing`` and ``followers`` automate this application, which
``definitions`` assembles.
"""

from holderlake.dagster.assets import stream_asset
from holderlake.dagster.checks import freshness_checks, stream_checks
from holderlake.dagster.checks.alerts import alert_checks
from holderlake.dagster.component import HolderlakeComponent
from holderlake.dagster.partitions import chain_by_day, days_of, partition_key
from holderlake.dagster.resources import (
    EngineResource,
    LakeResource,
    ProviderResource,
    WarehouseResource,
    WorkspaceResource,
)
from holderlake.dagster.transfers import transfers_asset
from holderlake.dagster.warehouse import warehouse_asset

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
