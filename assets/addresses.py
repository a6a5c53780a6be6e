"""Assets: metadata of top holders and of the members of address sets, fetched at each run of the schedule ``daily``.

The provider may offer this metadata in a custom plan only.
"""

from holderlake.core.ingest.streams.addresses import ADDRESSES
from holderlake.dagster.assets import ONE_RUN, POOL, stream_asset
from holderlake.dagster.checks import stream_checks
from holderlake.dagster.partitions import CHAIN_BY_DAY
from holderlake.dagster.resources import WORKSPACE

addresses = stream_asset(
    ADDRESSES,
    deps=["holders"],
    partitions_def=CHAIN_BY_DAY,
    backfill_policy=ONE_RUN,
    pool=POOL,
    resource=WORKSPACE,
)
address_checks = stream_checks(ADDRESSES, resource=WORKSPACE)
