"""Asset: the chains that the provider supports. The schedule ``daily`` fetches all of them with one call a day."""

from holderlake.core.ingest.streams.chains import CHAINS
from holderlake.dagster.assets import ONE_RUN, POOL, stream_asset
from holderlake.dagster.checks import stream_checks
from holderlake.dagster.partitions import CHAIN_BY_DAY
from holderlake.dagster.resources import WORKSPACE

chains = stream_asset(
    CHAINS,
    deps=[],
    partitions_def=CHAIN_BY_DAY,
    backfill_policy=ONE_RUN,
    pool=POOL,
    resource=WORKSPACE,
)
chain_checks = stream_checks(CHAINS, resource=WORKSPACE)
