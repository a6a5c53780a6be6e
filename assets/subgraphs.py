"""Asset: grouped transfers between the members of each address set, fetched at each run of the schedule ``daily``.

The endpoint has no history mode: rows of a past instant have the transfers that were known when they were fetched
(``fetched_at``).
"""

from collections.abc import Sequence

from holderlake.assets.checks import stream_checks
from holderlake.assets.fetched import ONE_RUN, POOL, stream_asset
from holderlake.core.contract.requests import Request, SubgraphRequest
from holderlake.core.dagster.partitions import CHAIN_BY_DAY
from holderlake.core.decoding.answers import subgraph_rows
from holderlake.core.ingest.covering import covering_blocks
from holderlake.core.ingest.stream import ChainInstant, Stream
from holderlake.core.settings import Settings
from holderlake.core.workspace import Workspace


def sets_of_chain(workspace: Workspace, partition: ChainInstant) -> list[str]:
    """Return the names of the address sets of the partition's chain, and of those without a chain."""
    sets = workspace.settings.address_sets
    return [name for name, members in sets.items() if members.chain in (None, partition.chain)]


def requests(settings: Settings, partition: ChainInstant, subjects: Sequence[str], refresh: bool) -> list[Request]:
    """Return the requests of one address set; a large set needs several."""
    (name,) = subjects
    address_set = settings.address_sets[name]
    return [
        SubgraphRequest(addresses=tuple(block), context_token_key=address_set.context)
        for block in covering_blocks(address_set.addresses)
    ]


SUBGRAPHS = Stream(
    name="subgraphs",
    by="address_set",
    source="From `POST /v0/relationships/subgraph`, for each address set of the settings; large sets in covering "
    "blocks.",
    endpoint=SubgraphRequest.endpoint,
    historic=False,
    batch=1,
    subjects=sets_of_chain,
    requests=requests,
    decode=subgraph_rows,
)

subgraphs = stream_asset(SUBGRAPHS, partitions_def=CHAIN_BY_DAY, backfill_policy=ONE_RUN, pool=POOL)
subgraph_checks = stream_checks(SUBGRAPHS)
