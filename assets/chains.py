"""Asset: the chains that the provider supports.

One call a day lists all chains, and each partition keeps the row of its chain.
"""

from collections.abc import Sequence

import pyarrow as pa

from holderlake.assets.checks import stream_checks
from holderlake.assets.fetched import ONE_RUN, POOL, stream_asset
from holderlake.core.contract.requests import ChainsRequest, Request
from holderlake.core.dagster.partitions import CHAIN_BY_DAY
from holderlake.core.decoding.answers import chain_rows
from holderlake.core.ingest.stream import ChainInstant, Stream
from holderlake.core.settings import Settings
from holderlake.core.workspace import Workspace


def chain_of_partition(workspace: Workspace, partition: ChainInstant) -> list[str]:
    """Return the partition's chain."""
    return [partition.chain]


def requests(settings: Settings, partition: ChainInstant, subjects: Sequence[str], refresh: bool) -> list[Request]:
    """Return the request for all chains."""
    return [ChainsRequest()]


def is_listed(tables: dict[str, pa.Table], chain: str) -> bool:
    """Return whether the provider lists the chain."""
    return chain in tables["chains"]["chain"].to_pylist()


CHAINS = Stream(
    name="chains",
    by="chain",
    source="From `GET /v0/chains`, one call a day.",
    endpoint=ChainsRequest.endpoint,
    historic=False,
    batch=1,
    subjects=chain_of_partition,
    requests=requests,
    decode=chain_rows,
    contains=is_listed,
)

chains = stream_asset(CHAINS, partitions_def=CHAIN_BY_DAY, backfill_policy=ONE_RUN, pool=POOL)
chain_checks = stream_checks(CHAINS)
