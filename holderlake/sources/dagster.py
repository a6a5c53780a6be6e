"""What sources add to a Dagster application whose settings name nodes: the asset of transfers and its job."""

from __future__ import annotations

from dagster import AssetSelection, Definitions, define_asset_job

from holderlake.pipelines.application import Application
from holderlake.sources.nodes.asset import TRANSFERS, transfers_asset
from holderlake.sources.settings import SourceSettings


def definitions(application: Application) -> Definitions:
    """Return the definitions; none for a component, or without nodes."""
    if application.name is not None or not application.settings.section(SourceSettings).node_chains:
        return Definitions()
    transfers_job = define_asset_job(
        TRANSFERS,
        selection=AssetSelection.assets(TRANSFERS),
        description="Imports one day of a chain's transfers from its nodes.",
    )
    return Definitions(assets=[transfers_asset()], jobs=[transfers_job])
