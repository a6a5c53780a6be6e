"""Asset: the chains that the provider supports. The schedule ``daily`` fetches all of them with one call a day."""

from holderlake.dagster.assets import stream_asset
from holderlake.dagster.checks import stream_checks
from holderlake.ingest.streams.chains import CHAINS

chains = stream_asset(CHAINS, "From `GET /v0/chains`, one call a day.")
chain_checks = stream_checks(CHAINS)
