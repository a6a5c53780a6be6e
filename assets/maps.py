"""Assets: the five tables of each watched token's map, as of the instants of the schedule ``daily`` or a backfill."""

from holderlake.dagster.assets import stream_asset
from holderlake.dagster.checks import stream_checks
from holderlake.ingest.streams.maps import MAPS

maps = stream_asset(
    MAPS,
    "From `GET /v0/tokens/map`: one call per token fills the five tables of maps.",
    deps=["watchlist", "tokens"],  # their names are in the plots
)
map_checks = stream_checks(MAPS)
