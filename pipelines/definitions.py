"""This application's Dagster definitions: what ``workspace.yaml`` loads, and what the commands of a checkout run.

``assets/`` and ``resources/`` declare the assets, their checks and the resources; ``application`` adds the jobs,
schedules and sensors of ``holderlake/dagster/``. ``Definitions.merge`` adds your own to the result of ``build_defs``.
"""

from __future__ import annotations

from dagster import (
    AssetsDefinition,
    Definitions,
    definitions,
    load_asset_checks_from_package_module,
    load_assets_from_package_module,
)

import assets
from assets.transfers import transfers
from holderlake.core.settings import load_settings
from holderlake.core.workspace import Workspace
from holderlake.dagster.checks.alerts import alert_checks
from holderlake.dagster.definitions import application
from resources.definitions import all_resources


def build_defs(workspace: Workspace | None = None) -> Definitions:
    """Return the Dagster definitions for a workspace, by default the one of the settings file."""
    settings = workspace.settings if workspace else load_settings()
    left_out = set() if settings.node_chains else transfers.keys
    return application(
        workspace,
        assets=[
            asset
            for asset in load_assets_from_package_module(assets, include_specs=True)
            if not (isinstance(asset, AssetsDefinition) and asset.keys <= left_out)
        ],
        asset_checks=[*load_asset_checks_from_package_module(assets), *alert_checks(settings)],
        resources=all_resources(settings),
    )


@definitions
def defs() -> Definitions:
    """Return the definitions that Dagster's own commands (``dagster dev``) load."""
    return build_defs()
