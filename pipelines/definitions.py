"""All definitions of Dagster, assembled by one function; tests and commands pass their own workspace.

Loading them reads the settings file and the names of the lake's partitions: no key, no network, no store.
"""

from __future__ import annotations

import warnings
from collections.abc import Iterable
from typing import Any

from dagster import (
    AssetSpec,
    Definitions,
    MultiPartitionsDefinition,
    definitions,
    in_process_executor,
    load_asset_checks_from_modules,
    load_assets_from_modules,
    map_asset_specs,
)

from assets import addresses, chains, freshness, holders, maps, subgraphs, tokens, transfers, warehouse, watchlist
from holderlake.contract.times import utc_now
from holderlake.dagster.checks.alerts import alert_checks
from holderlake.dagster.metadata.tables import asset_key
from holderlake.dagster.metadata.versions import chosen_version
from holderlake.dagster.partitions import CHAIN_BY_DAY, chain_by_day, first_day
from holderlake.ingest.streams.all import STREAMS
from holderlake.settings import Settings, load_settings
from holderlake.workspace import Workspace
from pipelines.jobs import all_jobs
from pipelines.schedules import all_schedules
from pipelines.sensors import all_sensors
from resources.definitions import all_resources

# the section python_logs of deploy/dagster, which each process of a run would call a beta feature
warnings.filterwarnings("ignore", "Handling yaml-defined logging configuration")

_TABLES = (chains, tokens, holders, maps, subgraphs, addresses)


def build_defs(workspace: Workspace | None = None) -> Definitions:
    """Return the Dagster definitions for a workspace, by default the one of the settings file."""
    settings = workspace.settings if workspace else load_settings()
    # a command may fetch any day, and Dagster's page shows the days since the first one
    days = CHAIN_BY_DAY if workspace else chain_by_day(start=first_day(settings, utc_now().date()))
    nodes = [transfers] if settings.node_chains else []
    return Definitions(
        assets=_with_versions(
            load_assets_from_modules([*_TABLES, warehouse, watchlist, *nodes], include_specs=True), settings, days
        ),
        asset_checks=[*load_asset_checks_from_modules([*_TABLES, freshness]), *alert_checks(settings)],
        jobs=all_jobs(settings),
        schedules=all_schedules(settings),
        sensors=all_sensors(settings),
        resources=all_resources(settings) | ({"workspace": workspace} if workspace else {}),
        # each run has its own process; a process per step would add 2.6 s for each
        executor=in_process_executor,
    )


def _with_versions(assets: Iterable[Any], settings: Settings, days: MultiPartitionsDefinition) -> list[Any]:
    """Return the assets with the partitions ``days``, and a code version for each table: its request options."""
    versions = {
        asset_key(table): chosen_version(stream.name, settings) for stream in STREAMS for table in stream.tables
    }

    def versioned(spec: AssetSpec) -> AssetSpec:
        if isinstance(spec.partitions_def, MultiPartitionsDefinition):
            spec = spec.replace_attributes(partitions_def=days)
        return spec.replace_attributes(code_version=versions[spec.key]) if spec.key in versions else spec

    return list(map_asset_specs(versioned, assets))


@definitions
def defs() -> Definitions:
    """Return the definitions that Dagster's own commands (``dagster dev``) load."""
    return build_defs()
