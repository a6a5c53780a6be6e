"""This application's Dagster definitions: what ``workspace.yaml`` loads, and what the commands of a checkout run.

``assets/`` and ``resources/`` declare the assets, their checks and the resources. Jobs, schedules and sensors come from
``holderlake.dagster``; add your own with ``Definitions.merge``.
"""

from __future__ import annotations

from dagster import Definitions, definitions, load_asset_checks_from_modules, load_assets_from_modules

from assets import addresses, chains, freshness, holders, maps, subgraphs, tokens, transfers, warehouse, watchlist
from holderlake.dagster.application import application
from holderlake.settings import load_settings
from holderlake.workspace import Workspace
from resources.definitions import all_resources

_TABLES = (chains, tokens, holders, maps, subgraphs, addresses)


def build_defs(workspace: Workspace | None = None) -> Definitions:
    """Return the Dagster definitions for a workspace, by default the one of the settings file."""
    settings = workspace.settings if workspace else load_settings()
    nodes = [transfers] if settings.node_chains else []
    return application(
        workspace,
        assets=load_assets_from_modules([*_TABLES, warehouse, watchlist, *nodes], include_specs=True),
        asset_checks=load_asset_checks_from_modules([*_TABLES, freshness]),
        resources=all_resources(settings),
    )


@definitions
def defs() -> Definitions:
    """Return the definitions that Dagster's own commands (``dagster dev``) load."""
    return build_defs()
