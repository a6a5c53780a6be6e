"""Typed resources: the provider, the lake, the warehouse and the engine, and the workspace that joins them.

A resource opens nothing and reads no key before a run or a tick of a sensor uses it.
"""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import ExitStack, closing, contextmanager
from pathlib import Path
from typing import Any, Final, Literal, Self

from dagster import (
    AssetCheckExecutionContext,
    AssetExecutionContext,
    ConfigurableResource,
    EnvVar,
    InitResourceContext,
    ScheduleEvaluationContext,
    SensorEvaluationContext,
)
from pydantic import Field, SecretStr

from holderlake.core.dagster.processes import process_lock
from holderlake.core.lake.lake import Lake
from holderlake.core.settings import Settings, load_settings
from holderlake.core.warehouse.warehouse import Warehouse
from holderlake.core.workspace import Workspace, make_workspace, open_lake

WORKSPACE: Final = "workspace"
"""Name of the resource that assets use by default."""
_ENGINE: Final = "engine"
"""The section of the settings with the engine's store, and the folder of the store in a home."""
_KEY_VARIABLE: Final = "HOLDERLAKE_API_KEY"


class ProviderResource(ConfigurableResource):  # type: ignore[type-arg] # its value is itself
    """The provider of the `/v0` API. Without a URL it runs in this process, over the sample world or a local store."""

    url: str | None = Field(default=None, description="Base URL of the API")
    local: Literal["sample", "store"] = Field(
        default="sample", description="Without a URL: the built-in sample world, or the engine's store of your imports"
    )
    api_key: str | None = Field(
        default=None, description="The API key, as a Dagster EnvVar; without it, the key of the settings is used"
    )

    @classmethod
    def of(cls, settings: Settings) -> Self:
        """Return the provider of the settings. The key is read from the environment, when a run starts."""
        key = EnvVar(_KEY_VARIABLE) if os.environ.get(_KEY_VARIABLE) else None
        return cls(url=settings.provider.url, local=settings.provider.local, api_key=key)


class LakeResource(ConfigurableResource):  # type: ignore[type-arg] # its value is itself
    """The Parquet lake: one folder per table, with one file per chain and instant, in a folder or in a bucket."""

    path: str = Field(description="Folder of the lake")
    url: str | None = Field(default=None, description="Bucket of lake and archive, such as s3://bucket/lake, if any")

    @classmethod
    def of(cls, settings: Settings) -> Self:
        """Return the lake of the settings."""
        return cls(path=str(settings.lake_folder), url=settings.lake.url)

    def open(self) -> Lake:
        """Return the lake; `open().read("holders", chain, as_of)` is an Arrow table."""
        return open_lake(self.settings()) if self.url else Lake(Path(self.path))

    def settings(self, settings: Settings | None = None) -> Settings:
        """Return a copy of the settings with the bucket of this resource; by default those of file and environment."""
        settings = settings or load_settings()
        return settings.model_copy(update={"lake": settings.lake.model_copy(update={"url": self.url})})


class WarehouseResource(ConfigurableResource):  # type: ignore[type-arg] # its value is itself
    """The DuckDB warehouse: all tables of the lake, with views and macros."""

    path: str = Field(description="DuckDB file of the warehouse")

    @classmethod
    def of(cls, settings: Settings) -> Self:
        """Return the warehouse of the settings."""
        return cls(path=str(settings.warehouse))

    def open(self) -> Warehouse:
        """Return the warehouse for queries; `open().query(sql)` is an Arrow table.

        To load it, use the warehouse of a workspace, which also reads the ledger and the transfers.
        """
        return Warehouse(Path(self.path))


class EngineResource(ConfigurableResource):  # type: ignore[type-arg] # its value is itself
    """The engine that computes maps and holders from raw transfers, and imports transfers from nodes."""

    store: str | None = Field(default=None, description="Folder of the engine's store; default: the settings'")
    direct: bool = Field(
        default=True,
        description="Without a provider's URL: compute many maps and holders at a time with the engine, without calls",
    )

    @classmethod
    def of(cls, settings: Settings) -> Self:
        """Return the engine of the settings."""
        store = getattr(settings, _ENGINE).store or settings.home / _ENGINE
        return cls(store=str(store), direct=settings.provider.direct)


class WorkspaceResource(ConfigurableResource[Workspace]):
    """The settings file together with the four other resources. All assets use this resource."""

    provider: ProviderResource
    lake: LakeResource
    warehouse: WarehouseResource
    engine: EngineResource
    settings_file: str | None = Field(
        default=None,
        description="The settings file; by default that of HOLDERLAKE_CONFIG, or holderlake.toml in the current folder",
    )

    home: str | None = Field(default=None, description="Folder of ledger, archive and runs; default: the settings'")
    watchlist: dict[str, list[str]] | None = Field(
        default=None, description="Token addresses by chain; default: the settings'"
    )

    @contextmanager
    def yield_for_execution(self, context: InitResourceContext) -> Iterator[Workspace]:
        """Open the workspace for a run or a tick, and close it afterwards."""
        with ExitStack() as opened:
            workspace = opened.enter_context(closing(self.open()))
            if context.run and context.instance:
                tags = opened.enter_context(process_lock(workspace.settings.home, context.run.run_id))
                context.instance.add_run_tags(context.run.run_id, tags)
            yield workspace

    def open(self) -> Workspace:
        """Return the workspace of the settings, with the values of the four resources. The caller must close it."""
        lake = None if self.lake.url else self.lake.open()
        return make_workspace(self.settings(), lake, Path(self.warehouse.path))

    def settings(self) -> Settings:
        """Return the settings of the file and the environment, with the values of the four resources."""
        settings = self.lake.settings(load_settings(Path(self.settings_file) if self.settings_file else None))
        provider = {"url": self.provider.url, "local": self.provider.local, "direct": self.engine.direct}
        if self.engine.store:
            settings = settings.with_values(_ENGINE, store=Path(self.engine.store))
        overrides: dict[str, Any] = {"home": Path(self.home)} if self.home else {}
        overrides |= {} if self.watchlist is None else {"watchlist": Settings(watchlist=self.watchlist).watchlist}
        settings = settings.model_copy(update=overrides)
        key = {"api_key": SecretStr(self.provider.api_key), "api_key_file": None} if self.provider.api_key else {}
        return settings.model_copy(update={"provider": settings.provider.model_copy(update=provider), **key})


def workspace_of(
    context: AssetExecutionContext | AssetCheckExecutionContext | ScheduleEvaluationContext | SensorEvaluationContext,
    resource: str,
) -> Workspace:
    """Return the workspace that a step or a tick has as the resource ``resource``. Raises ``TypeError`` for another."""
    workspace = getattr(context.resources, resource)
    if not isinstance(workspace, Workspace):
        raise TypeError(f"the resource {resource!r} is a {type(workspace).__name__}: declare it as a WorkspaceResource")
    return workspace


def all_resources(settings: Settings) -> dict[str, Any]:
    """Return the resources of this application by name, with values of the settings and the key of the environment.

    This opens no file and reads no API key.
    """
    provider, lake = ProviderResource.of(settings), LakeResource.of(settings)
    warehouse, engine = WarehouseResource.of(settings), EngineResource.of(settings)
    workspace = WorkspaceResource(provider=provider, lake=lake, warehouse=warehouse, engine=engine)
    return {"provider": provider, "lake": lake, "warehouse": warehouse, "engine": engine, WORKSPACE: workspace}
