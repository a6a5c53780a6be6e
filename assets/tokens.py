"""Asset: metadata and statistics of the watched tokens, fetched at each run of the schedule ``daily``."""

from holderlake.dagster.assets import stream_asset
from holderlake.dagster.checks import stream_checks
from holderlake.ingest.streams.tokens import TOKENS

tokens = stream_asset(
    TOKENS, "From `POST /v0/tokens/metadata`, all watched tokens of the chain in one call.", deps=["watchlist"]
)
token_checks = stream_checks(TOKENS)
