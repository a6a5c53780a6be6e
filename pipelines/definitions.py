"""The Dagster definitions of this application: what ``workspace.yaml`` loads, and what the commands run.

``assets`` and ``resources`` declare assets, checks and resources; ``jobs``, ``schedules`` and ``sensors`` automate
them; other rooms add theirs (``holderlake/parts.py``). ``Definitions.merge`` adds your own to the result of
``build_defs``.
"""

from __future__ import annotations

import warnings
from typing import Any

from dagster import (
    AssetSpec,
    Definitions,
    MultiPartitionsDefinition,
    definitions,
    in_process_executor,
    load_asset_checks_from_package_module,
    load_assets_from_package_module,
    map_asset_specs,
)

from holderlake import assets
from holderlake.assets import STREAMS
from holderlake.assets.freshness import freshness_checks
from holderlake.core.contract.times import utc_now
from holderlake.core.dagster.metadata import asset_key
from holderlake.core.dagster.partitions import CHAIN_BY_DAY, chain_by_day, first_day
from holderlake.core.dagster.versions import chosen_version
from holderlake.core.settings import Settings, load_settings
from holderlake.core.workspace import Workspace
from holderlake.pipelines.application import Application, part_definitions
from holderlake.pipelines.jobs import all_jobs
from holderlake.pipelines.schedules import all_schedules
from holderlake.pipelines.sensors import all_sensors
from holderlake.resources.workspace import WORKSPACE, all_resources

# the section python_logs of deploy/dagster, which each process of a run would call a beta feature
warnings.filterwarnings("ignore", "Handling yaml-defined logging configuration")


def build_defs(workspace: Workspace | None = None) -> Definitions:
    """Return the Dagster definitions for a workspace, by default the one of the settings file.

    Loading them reads the settings file and the names of the lake's partitions: no key, no network, no store.
    """
    settings = workspace.settings if workspace else load_settings()
    # a command may fetch any day, and Dagster's page shows the days since the first one
    days = CHAIN_BY_DAY if workspace else chain_by_day(start=first_day(settings, utc_now().date()))
    application = Application(settings, STREAMS, [job.name for job in all_jobs(())])
    own = Definitions(
        assets=load_assets_from_package_module(assets, include_specs=True),
        asset_checks=[*load_asset_checks_from_package_module(assets), freshness_checks(STREAMS)],
        schedules=all_schedules(settings),
        sensors=all_sensors(),
        resources={**all_resources(settings), **({WORKSPACE: workspace} if workspace else {})},
        # each run has its own process; a process per step would add 2.6 s for each
        executor=in_process_executor,
    )
    merged = Definitions.merge(own, *part_definitions(application))
    checks: list[Any] = [*(merged.asset_checks or ())]
    jobs = all_jobs(key for definition in checks for key in definition.check_keys)
    return Definitions(
        assets=_with_versions(merged.assets or (), settings, days),
        asset_checks=checks,
        jobs=[*jobs, *(merged.jobs or ())],
        schedules=merged.schedules,
        sensors=merged.sensors,
        resources=merged.resources,
        executor=merged.executor,
    )


def _with_versions(declared: Any, settings: Settings, days: MultiPartitionsDefinition) -> list[Any]:
    """Return the assets with the partitions ``days``, and a code version for each table: its request options."""
    versions = {asset_key(table): chosen_version(stream, settings) for stream in STREAMS for table in stream.tables}

    def versioned(spec: AssetSpec) -> AssetSpec:
        if spec.partitions_def == CHAIN_BY_DAY:
            spec = spec.replace_attributes(partitions_def=days)
        return spec.replace_attributes(code_version=versions[spec.key]) if spec.key in versions else spec

    return list(map_asset_specs(versioned, declared))


@definitions
def defs() -> Definitions:
    """Return the definitions that Dagster's own commands load."""
    return build_defs()
