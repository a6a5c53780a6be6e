"""Asset: metadata and statistics of the watched tokens, fetched at each run of the schedule ``daily``."""

from holderlake.core.ingest.streams.tokens import TOKENS
from holderlake.dagster.assets import ONE_RUN, POOL, stream_asset
from holderlake.dagster.checks import stream_checks
from holderlake.dagster.partitions import CHAIN_BY_DAY
from holderlake.dagster.resources import WORKSPACE

tokens = stream_asset(
    TOKENS,
    deps=["watchlist"],
    partitions_def=CHAIN_BY_DAY,
    backfill_policy=ONE_RUN,
    pool=POOL,
    resource=WORKSPACE,
)
token_checks = stream_checks(TOKENS, resource=WORKSPACE)
