"""The whole Dagster application, assembled from the settings by one function: ``application``.

Where the package is installed, Dagster loads ``defs``: ``dagster dev -m holderlake.dagster.definitions``. A checkout
calls ``application`` with the assets and resources that it declares (``pipelines/definitions.py``), and so may a
project of your own.
"""

from __future__ import annotations

import warnings
from collections.abc import Iterable, Mapping
from importlib import import_module
from pathlib import Path
from typing import Any, Final

from dagster import (
    AssetSpec,
    Definitions,
    MultiPartitionsDefinition,
    definitions,
    in_process_executor,
    map_asset_specs,
)

import holderlake
from holderlake.core.contract.times import utc_now
from holderlake.core.ingest.streams.all import STREAMS
from holderlake.core.settings import Settings, load_settings
from holderlake.core.workspace import Workspace
from holderlake.dagster.assets import stream_asset
from holderlake.dagster.checks import freshness_checks, stream_checks
from holderlake.dagster.checks.alerts import alert_checks
from holderlake.dagster.jobs import all_jobs
from holderlake.dagster.metadata import asset_key
from holderlake.dagster.partitions import CHAIN_BY_DAY, chain_by_day, first_day
from holderlake.dagster.resources import (
    EngineResource,
    LakeResource,
    ProviderResource,
    WarehouseResource,
    resources_of,
)
from holderlake.dagster.schedules import all_schedules
from holderlake.dagster.sensors import all_sensors
from holderlake.dagster.transfers import transfers_asset
from holderlake.dagster.versions import chosen_version, watchlist_asset
from holderlake.dagster.warehouse import warehouse_asset

# the section python_logs of deploy/dagster, which each process of a run would call a beta feature
warnings.filterwarnings("ignore", "Handling yaml-defined logging configuration")

_OF_CHECKOUT: Final = "pipelines.definitions"


def application(
    workspace: Workspace | None = None,
    *,
    assets: Iterable[Any] | None = None,
    asset_checks: Iterable[Any] | None = None,
    resources: Mapping[str, Any] | None = None,
) -> Definitions:
    """Return the Dagster definitions for a workspace, by default the one of the settings file.

    ``assets``, ``asset_checks`` and ``resources`` replace the default ones. Loading the definitions reads the settings
    file and the names of the lake's partitions: no key, no network, no store.
    """
    settings = workspace.settings if workspace else load_settings()
    # a command may fetch any day, and Dagster's page shows the days since the first one
    days = CHAIN_BY_DAY if workspace else chain_by_day(start=first_day(settings, utc_now().date()))
    declared = default_assets(settings) if assets is None else assets
    checks = default_checks(settings) if asset_checks is None else asset_checks
    jobs = all_jobs(settings)
    declared_resources = default_resources(settings) if resources is None else resources
    return Definitions(
        assets=_with_versions(declared, settings, days),
        asset_checks=checks,
        jobs=jobs,
        schedules=all_schedules(settings),
        sensors=all_sensors(settings, [job.name for job in jobs]),
        resources={**declared_resources, **({"workspace": workspace} if workspace else {})},
        # each run has its own process; a process per step would add 2.6 s for each
        executor=in_process_executor,
    )


def default_assets(settings: Settings) -> list[Any]:
    """Return the assets of all families of tables, the warehouse and the watchlist.

    The asset of transfers is among them if the settings name nodes.
    """
    nodes = [transfers_asset()] if settings.node_chains else []
    tables = [table for stream in STREAMS for table in stream.tables]
    return [*map(stream_asset, STREAMS), warehouse_asset(tables), watchlist_asset(), *nodes]


def default_checks(settings: Settings) -> list[Any]:
    """Return the checks of all families, those of freshness and completeness, and those of the alert rules."""
    return [*map(stream_checks, STREAMS), freshness_checks(STREAMS), *alert_checks(settings)]


def default_resources(settings: Settings) -> dict[str, Any]:
    """Return the resources by name. This opens no file and reads no API key."""
    return resources_of(
        ProviderResource.of(settings),
        LakeResource.of(settings),
        WarehouseResource.of(settings),
        EngineResource.of(settings),
    )


def _with_versions(assets: Iterable[Any], settings: Settings, days: MultiPartitionsDefinition) -> list[Any]:
    """Return the assets with the partitions ``days``, and a code version for each table: its request options."""
    versions = {asset_key(table): chosen_version(stream, settings) for stream in STREAMS for table in stream.tables}

    def versioned(spec: AssetSpec) -> AssetSpec:
        if spec.partitions_def == CHAIN_BY_DAY:
            spec = spec.replace_attributes(partitions_def=days)
        return spec.replace_attributes(code_version=versions[spec.key]) if spec.key in versions else spec

    return list(map_asset_specs(versioned, assets))


def checkout() -> Path | None:
    """Return the folder of the checkout that runs; None if the installed package runs.

    A checkout has its own declarations in ``assets/``, ``resources/`` and ``pipelines/``.
    """
    root = Path(holderlake.__file__).parents[1]
    return root if (root / "workspace.yaml").is_file() else None


def definitions_module() -> str:
    """Return the module with the definitions that commands run and that Dagster's page shows.

    It is the one that the checkout's ``workspace.yaml`` names, or this module.
    """
    return _OF_CHECKOUT if checkout() else __name__


def build_defs(workspace: Workspace) -> Definitions:
    """Return the definitions for a workspace: those of the checkout that runs, or those of the installed package."""
    if not checkout():
        return application(workspace)
    defs_of_checkout: Definitions = import_module(_OF_CHECKOUT).build_defs(workspace)
    return defs_of_checkout


@definitions
def defs() -> Definitions:
    """Return the definitions that Dagster's own commands load."""
    return application()
