"""The resources of this application, with values from the settings and the API key from the environment."""

from __future__ import annotations

from typing import Any

from holderlake.core.settings import Settings
from holderlake.dagster.resources import (
    EngineResource,
    LakeResource,
    ProviderResource,
    WarehouseResource,
    resources_of,
)


def all_resources(settings: Settings) -> dict[str, Any]:
    """Return the resources by name. This opens no file and reads no API key."""
    return resources_of(
        provider=ProviderResource.of(settings),
        lake=LakeResource.of(settings),
        warehouse=WarehouseResource.of(settings),
        engine=EngineResource.of(settings),
    )
