"""Assets: the five tables of each watched token's map, as of the instants of the schedule ``daily`` or a backfill.

The section ``[maps]`` of the settings has the options of its requests, such as how many holders a map has.
"""

from holderlake.core.ingest.streams.maps import MAPS
from holderlake.dagster.assets import ONE_RUN, POOL, stream_asset
from holderlake.dagster.checks import stream_checks
from holderlake.dagster.partitions import CHAIN_BY_DAY
from holderlake.dagster.resources import WORKSPACE

maps = stream_asset(
    MAPS,
    deps=["watchlist", "tokens"],
    partitions_def=CHAIN_BY_DAY,
    backfill_policy=ONE_RUN,
    pool=POOL,
    resource=WORKSPACE,
)
map_checks = stream_checks(MAPS, resource=WORKSPACE)
