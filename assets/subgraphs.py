"""Asset: transfers between the members of each address set, fetched at each run of the schedule ``daily``."""

from holderlake.core.ingest.streams.subgraphs import SUBGRAPHS
from holderlake.dagster.assets import ONE_RUN, POOL, stream_asset
from holderlake.dagster.checks import stream_checks
from holderlake.dagster.partitions import CHAIN_BY_DAY
from holderlake.dagster.resources import WORKSPACE

subgraphs = stream_asset(
    SUBGRAPHS,
    deps=[],
    partitions_def=CHAIN_BY_DAY,
    backfill_policy=ONE_RUN,
    pool=POOL,
    resource=WORKSPACE,
)
subgraph_checks = stream_checks(SUBGRAPHS, resource=WORKSPACE)
