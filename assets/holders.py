"""Asset: the largest holders of each watched token, as of the instants of the schedule ``daily`` or of a backfill.

The section ``[holders]`` of the settings has the options of its requests: how many holders, and with which details.
"""

from holderlake.core.ingest.streams.holders import HOLDERS
from holderlake.dagster.assets import ONE_RUN, POOL, stream_asset
from holderlake.dagster.checks import stream_checks
from holderlake.dagster.partitions import CHAIN_BY_DAY
from holderlake.dagster.resources import WORKSPACE

holders = stream_asset(
    HOLDERS,
    deps=["watchlist", "tokens"],
    partitions_def=CHAIN_BY_DAY,
    backfill_policy=ONE_RUN,
    pool=POOL,
    resource=WORKSPACE,
)
holder_checks = stream_checks(HOLDERS, resource=WORKSPACE)
