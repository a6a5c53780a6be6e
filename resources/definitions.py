"""The resources of this application, with values from the settings and the API key from the environment."""

from __future__ import annotations

import os
from typing import Any, Final

from dagster import EnvVar

from holderlake.dagster.resources import (
    EngineResource,
    LakeResource,
    ProviderResource,
    WarehouseResource,
    WorkspaceResource,
)
from holderlake.settings import Settings

_KEY_VARIABLE: Final = "HOLDERLAKE_API_KEY"


def all_resources(settings: Settings) -> dict[str, Any]:
    """Return the resources by name. This opens no file and reads no API key."""
    provider = ProviderResource(
        url=settings.provider.url,
        local=settings.provider.local,
        api_key=EnvVar(_KEY_VARIABLE) if os.environ.get(_KEY_VARIABLE) else None,
    )
    lake = LakeResource(path=str(settings.lake_folder), url=settings.lake.url)
    warehouse = WarehouseResource(path=str(settings.warehouse))
    engine = EngineResource(store=str(settings.engine_store), direct=settings.provider.direct)
    return {
        "provider": provider,
        "lake": lake,
        "warehouse": warehouse,
        "engine": engine,
        "workspace": WorkspaceResource(provider=provider, lake=lake, warehouse=warehouse, engine=engine),
    }
