"""Every family with what it is for and what it follows, as assets and checks: the list that ``pipelines`` defines."""

from __future__ import annotations

from typing import Final

from dagster import AssetChecksDefinition, AssetsDefinition

from assets.transfers import transfers_asset
from assets.warehouse import warehouse_asset
from holderlake.dagster.assets import asset_of
from holderlake.dagster.checks import checks_of
from holderlake.ingest.streams.all import STREAMS

_ABOUT: Final = {
    "chains": "From `GET /v0/chains`, asked once a day.",
    "tokens": "From `POST /v0/tokens/metadata`, all watched tokens of the chain in one call.",
    "holders": "From `GET /v0/tokens/holders`, as of the partition's instants; history mode for past ones.",
    "maps": "From `GET /v0/tokens/map`: one request a token fills the five tables of maps.",
    "subgraphs": "From `POST /v0/relationships/subgraph`, for each named address set; large sets in covering blocks.",
    "addresses": "From `POST /v0/addresses/metadata` (custom plans), for top holders and named address sets.",
}
_AFTER: Final = {"holders": ("tokens",), "maps": ("tokens",), "addresses": ("holders",)}


def all_assets(with_transfers: bool = False) -> list[AssetsDefinition]:
    """The assets of all tables, and the warehouse behind them; where nodes are named, transfers from them too."""
    families = [asset_of(family, _ABOUT[family.name], _AFTER.get(family.name, ())) for family in STREAMS]
    tables = [table for family in STREAMS for table in family.tables]
    return [*families, warehouse_asset(tables), *([transfers_asset()] if with_transfers else [])]


def all_checks() -> list[AssetChecksDefinition]:
    """The checks of all families."""
    return [checks_of(family) for family in STREAMS]
