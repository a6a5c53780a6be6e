"""Asset: the largest holders of each watched token, as of the instants of the schedule ``daily`` or of a backfill."""

from holderlake.dagster.assets import stream_asset
from holderlake.dagster.checks import stream_checks
from holderlake.ingest.streams.holders import HOLDERS

holders = stream_asset(
    HOLDERS,
    "From `GET /v0/tokens/holders`, one call per token, as of the partition's instants; history mode for past ones.",
    deps=["watchlist", "tokens"],  # their names are in the plots
)
holder_checks = stream_checks(HOLDERS)
