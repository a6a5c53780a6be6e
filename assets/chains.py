"""The supported chains. The schedule ``daily`` fetches them once a day, with one call for all chains."""

from holderlake.dagster.assets import stream_asset
from holderlake.dagster.checks import stream_checks
from holderlake.ingest.streams.chains import CHAINS

chains = stream_asset(CHAINS, "From `GET /v0/chains`, one call a day.")
chain_checks = stream_checks(CHAINS)
