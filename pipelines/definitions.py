"""All definitions of Dagster, assembled by one function; tests and commands pass their own workspace.

Loading them reads the settings file and nothing else: no key, no network, no store.
"""

from __future__ import annotations

from dagster import (
    Definitions,
    definitions,
    in_process_executor,
    load_asset_checks_from_modules,
    load_assets_from_modules,
)

from assets import addresses, chains, freshness, holders, maps, subgraphs, tokens, transfers, warehouse
from holderlake.dagster.checks.alerts import alert_checks
from holderlake.settings import load_settings
from holderlake.workspace import Workspace
from pipelines.jobs import all_jobs
from pipelines.schedules import all_schedules
from pipelines.sensors import all_sensors
from resources.definitions import all_resources

_TABLES = (chains, tokens, holders, maps, subgraphs, addresses)


def build_defs(workspace: Workspace | None = None) -> Definitions:
    """Return the Dagster definitions for a workspace, by default the one of the settings file."""
    settings = workspace.settings if workspace else load_settings()
    nodes = [transfers] if settings.node_chains else []
    return Definitions(
        assets=load_assets_from_modules([*_TABLES, warehouse, *nodes]),
        asset_checks=[*load_asset_checks_from_modules([*_TABLES, freshness]), *alert_checks(settings)],
        jobs=all_jobs(settings),
        schedules=all_schedules(settings),
        sensors=all_sensors(settings),
        resources=all_resources(settings) | ({"workspace": workspace} if workspace else {}),
        # each run has its own process; a process per step would add 2.6 s for each
        executor=in_process_executor,
    )


@definitions
def defs() -> Definitions:
    """Return the definitions that Dagster's own commands (``dagster dev``) load."""
    return build_defs()
