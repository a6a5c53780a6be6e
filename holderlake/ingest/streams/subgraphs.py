"""Stream of grouped transfers within the address sets of the settings. Large sets need several requests.

The endpoint has no history mode: rows of a past instant have the transfers that were known when they were fetched
(``fetched_at``).
"""

from __future__ import annotations

from collections.abc import Sequence

from holderlake.contract.requests import Request, SubgraphRequest
from holderlake.decoding.answers import subgraph_rows
from holderlake.ingest.stream import Partition, Stream
from holderlake.ingest.streams.covering_design import covering_blocks
from holderlake.settings import Settings
from holderlake.workspace import Workspace


def _subjects(workspace: Workspace, partition: Partition) -> list[str]:
    """Return the names of the address sets of the partition's chain, and of those without a chain."""
    sets = workspace.settings.address_sets
    return [name for name, members in sets.items() if members.chain in (None, partition.chain)]


def _requests(settings: Settings, partition: Partition, subjects: Sequence[str], refresh: bool) -> list[Request]:
    (name,) = subjects
    address_set = settings.address_sets[name]
    return [
        SubgraphRequest(addresses=tuple(block), context_token_key=address_set.context)
        for block in covering_blocks(address_set.addresses)
    ]


SUBGRAPHS = Stream(
    name="subgraphs",
    by="address_set",
    tables=("subgraph_transfers",),
    historic=False,
    batch=1,
    subjects=_subjects,
    requests=_requests,
    decode=subgraph_rows,
    endpoint=SubgraphRequest.endpoint,
)
