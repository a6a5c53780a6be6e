"""Team alpha: its own provider, key, budget, lake and warehouse."""

from pathlib import Path

import dagster as dg

from assets import onchain
from holderlake.core.settings import load_settings
from holderlake.dagster import EngineResource, LakeResource, ProviderResource, WarehouseResource, WorkspaceResource

SETTINGS = Path(__file__).with_name("holderlake.toml")
settings = load_settings(SETTINGS)
workspace = WorkspaceResource(
    provider=ProviderResource(url=dg.EnvVar("ALPHA_PROVIDER"), api_key=dg.EnvVar("ALPHA_API_KEY")),
    lake=LakeResource(path=str(settings.lake_folder)),
    warehouse=WarehouseResource(path=str(settings.warehouse)),
    engine=EngineResource.of(settings),
    settings_file=str(SETTINGS),
)
daily = dg.define_asset_job("daily", selection=dg.AssetSelection.all())
defs = dg.Definitions(
    assets=dg.load_assets_from_modules([onchain]),
    jobs=[daily],
    schedules=[dg.build_schedule_from_partitioned_job(daily, hour_of_day=1)],
    resources={"workspace": workspace},
    executor=dg.in_process_executor,
)
