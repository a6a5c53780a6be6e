"""A Dagster component: the assets of a watchlist in a project of your own, from a few lines of YAML."""

from collections.abc import Mapping
from datetime import date
from pathlib import Path
from typing import Annotated, Any, Final, Literal

import dagster as dg
from pydantic import Field, field_validator

from holderlake.assets import STREAMS
from holderlake.assets.checks import stream_checks
from holderlake.assets.fetched import POOL, stream_asset
from holderlake.assets.freshness import freshness_checks
from holderlake.assets.warehouse import warehouse_asset
from holderlake.core.dagster.partitions import chain_by_day
from holderlake.core.settings.sections.schedule import Family
from holderlake.pipelines.application import Application, part_definitions
from holderlake.pipelines.jobs import freshness_job, ingest_job
from holderlake.pipelines.schedules import daily_schedule, freshness_schedule
from holderlake.resources.workspace import (
    WORKSPACE,
    EngineResource,
    LakeResource,
    ProviderResource,
    WarehouseResource,
    WorkspaceResource,
)

_SAMPLE: Final = {"eth": ["0xcfe4ed94e22467bac6fd2206d478183d57f82197"]}


class ProviderAttributes(dg.Model, dg.Resolvable):
    """The provider of a component. Without a URL it runs in the process of a run, and needs no key."""

    url: str | None = Field(default=None, description="Base URL of the API")
    api_key: str | None = Field(default=None, description="Name of the environment variable with the API key")
    local: Literal["sample", "store"] = Field(
        default="sample", description="Without a URL: the built-in sample world, or the transfers that you imported"
    )


class _Scaffolder(dg.Scaffolder):
    """Writes a file ``defs.yaml`` that works at once: a token of the sample world."""

    def scaffold(self, request: dg.ScaffoldRequest[Any]) -> None:
        attributes = {"key_prefix": [request.target_path.name], "watchlist": _SAMPLE, "start": "2026-01-01"}
        dg.scaffold_component(request, attributes)


@dg.scaffold_with(_Scaffolder)
class HolderlakeComponent(dg.Component, dg.Model, dg.Resolvable):
    """Token holders, maps and clusters of a watchlist: Parquet partitioned by chain and day, and a DuckDB warehouse.

    Two components with different prefixes and homes fetch from two providers side by side. All other settings come from
    ``holderlake.toml`` and the environment.
    """

    watchlist: Annotated[dict[str, list[str]], Field(min_length=1, description="Token addresses by chain")]
    key_prefix: list[str] = Field(default=[], description="First parts of all asset keys")
    provider: ProviderAttributes = Field(default_factory=ProviderAttributes, description="The provider of the data")
    home: str | None = Field(
        default=None, description="Folder of lake, warehouse and ledger, in the project; default: data/<key_prefix>"
    )
    families: list[Family] = Field(
        default=[stream.name for stream in STREAMS if stream.by == "token"], description="Families of tables to fetch"
    )
    owners: list[str] = Field(default=[], description="Owners of the assets: e-mail addresses, or team:NAME")
    start: str = Field(default="2025-01-01", description="First day of the partitions")
    schedule: str | None = Field(default="30 0 * * *", description="Cron schedule (UTC) of a run per chain; or null")

    @field_validator("watchlist", mode="before")
    @classmethod
    def _as_texts(cls, watchlist: Any) -> Any:
        """Dagster reads an address, quoted or not, as a number: make it a text again."""
        if not isinstance(watchlist, Mapping):
            return watchlist
        return {
            chain: [f"0x{token:040x}" if isinstance(token, int) else token for token in tokens]
            if isinstance(tokens, list)
            else tokens
            for chain, tokens in watchlist.items()
        }

    def build_defs(self, context: dg.ComponentLoadContext) -> dg.Definitions:
        """Return assets, checks, jobs, schedules, sensors, and the resource of the component."""
        name = "__".join(self.key_prefix) or "holderlake"
        resource, workspace = f"{name}_{WORKSPACE}", self._workspace(context.project_root)
        days = chain_by_day(sorted(self.watchlist), start=date.fromisoformat(self.start))
        streams = [stream for stream in STREAMS if stream.name in self.families]
        tables = [table for stream in streams for table in stream.tables]
        shared: dict[str, Any] = {"key_prefix": self.key_prefix, "resource": resource}
        assets = [
            stream_asset(
                stream,
                deps=[table for table in stream.inputs if table in tables],
                partitions_def=days,
                pool=f"{name}_{POOL}",
                **shared,
            )
            for stream in streams
        ]
        assets.append(warehouse_asset(tables, partitions_def=days, **shared))
        ingest, freshness_name = f"{name}_ingest", f"{name}_freshness"
        application = Application(
            workspace.settings(),
            streams,
            [ingest, freshness_name],
            ingest,
            self.schedule,
            name,
            self.key_prefix,
            resource,
        )
        freshness = freshness_checks(streams, job=ingest, cron=self.schedule, **shared)
        job = ingest_job(
            ingest, dg.AssetSelection.assets(*(key for asset in assets for key in asset.keys)), freshness.check_keys
        )
        schedules = []
        if self.schedule:
            schedules = [
                daily_schedule(ingest, self.schedule, name=f"{ingest}_daily", resource=resource),
                freshness_schedule(freshness_name, dg.DefaultScheduleStatus.STOPPED),
            ]
        own = dg.Definitions(
            assets=dg.map_asset_specs(lambda spec: spec.replace_attributes(owners=self.owners), assets),
            asset_checks=[*(stream_checks(stream, **shared) for stream in streams), freshness],
            jobs=[job, freshness_job(freshness_name, freshness.check_keys)],
            schedules=schedules,
            resources={resource: workspace},
        )
        return dg.Definitions.merge(own, *part_definitions(application))

    def _workspace(self, project: Path) -> WorkspaceResource:
        home = project / (self.home or Path("data", *self.key_prefix))
        return WorkspaceResource(
            provider=ProviderResource(
                url=self.provider.url,
                local=self.provider.local,
                api_key=dg.EnvVar(self.provider.api_key) if self.provider.api_key else None,
            ),
            lake=LakeResource(path=str(home / "lake")),
            warehouse=WarehouseResource(path=str(home / "warehouse.duckdb")),
            engine=EngineResource(store=str(home / "engine")),
            home=str(home),
            watchlist=self.watchlist,
        )
