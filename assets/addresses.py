"""Asset: metadata of the top holders in ``holders`` and of the members of address sets.

The endpoint needs a custom plan. With any other plan the asset is skipped at no cost, and its metadata say so. The
endpoint has no history mode: rows of a past instant have the metadata of the time when they were fetched
(``fetched_at``).
"""

from collections.abc import Sequence

import pyarrow as pa

from holderlake.assets.checks import stream_checks
from holderlake.assets.fetched import ONE_RUN, POOL, stream_asset
from holderlake.core.contract.chains import normalise_address
from holderlake.core.contract.requests import MAX_METADATA_ADDRESSES, AddressesMetadataRequest, Request
from holderlake.core.dagster.partitions import CHAIN_BY_DAY
from holderlake.core.decoding.answers import address_rows
from holderlake.core.ingest.stream import ChainInstant, Stream
from holderlake.core.settings import Settings
from holderlake.core.workspace import Workspace


def addresses_of_partition(workspace: Workspace, partition: ChainInstant) -> list[str]:
    """Return the first holders of each token up to ``addresses.top``, and the members of the chain's address sets."""
    options, sets = workspace.settings.addresses, workspace.settings.address_sets.values()
    if not options.enabled:
        return []
    holders = workspace.lake.read("holders", partition.chain, partition.as_of)
    ranked = zip(holders["address"].to_pylist(), holders["rank"].to_pylist(), strict=True)
    top_holders = {address for address, rank in ranked if rank is not None and rank <= options.top}
    of_chain = [members.addresses for members in sets if members.chain in (None, partition.chain)]
    return sorted(top_holders | {normalise_address(address) for members in of_chain for address in members})


def requests(settings: Settings, partition: ChainInstant, subjects: Sequence[str], refresh: bool) -> list[Request]:
    """Return one request for all addresses."""
    return [AddressesMetadataRequest(addresses=tuple(subjects))]


def has_answer(tables: dict[str, pa.Table], address: str) -> bool:
    """Return whether the answer has a row about the address."""
    return address in tables["addresses"]["address"].to_pylist()


ADDRESSES = Stream(
    name="addresses",
    by="address",
    source="From `POST /v0/addresses/metadata` (custom plans), for top holders and the address sets of the settings.",
    endpoint=AddressesMetadataRequest.endpoint,
    historic=False,
    batch=MAX_METADATA_ADDRESSES,
    subjects=addresses_of_partition,
    requests=requests,
    decode=address_rows,
    contains=has_answer,
    inputs=("holders",),
)

addresses = stream_asset(ADDRESSES, partitions_def=CHAIN_BY_DAY, backfill_policy=ONE_RUN, pool=POOL)
address_checks = stream_checks(ADDRESSES)
