"""Stream of metadata of addresses: the top holders in the partition's table ``holders``, and the address sets.

The endpoint needs a custom plan. With any other plan the stream is skipped at no cost, and the result reports it. The
endpoint has no history mode: rows of a past instant have the metadata of the time when they were fetched
(``fetched_at``).
"""

from __future__ import annotations

from collections.abc import Sequence

import pyarrow as pa

from holderlake.core.contract.chains import normalise_address
from holderlake.core.contract.requests import MAX_METADATA_ADDRESSES, AddressesMetadataRequest, Request
from holderlake.core.decoding.answers import address_rows
from holderlake.core.ingest.stream import Partition, Stream
from holderlake.core.settings import Settings
from holderlake.core.workspace import Workspace


def _subjects(workspace: Workspace, partition: Partition) -> list[str]:
    address_settings = workspace.settings.addresses
    if not address_settings.enabled:
        return []
    holders = workspace.lake.read("holders", partition.chain, partition.as_of)
    ranked = zip(holders["address"].to_pylist(), holders["rank"].to_pylist(), strict=True)
    return sorted(
        {address for address, rank in ranked if rank is not None and rank <= address_settings.top}
        | _set_addresses(workspace, partition)
    )


def _set_addresses(workspace: Workspace, partition: Partition) -> set[str]:
    sets = workspace.settings.address_sets.values()
    address_lists = [members.addresses for members in sets if members.chain in (None, partition.chain)]
    return {normalise_address(address) for addresses in address_lists for address in addresses}


def _requests(settings: Settings, partition: Partition, subjects: Sequence[str], refresh: bool) -> list[Request]:
    return [AddressesMetadataRequest(addresses=tuple(subjects))]


def _has_answer(tables: dict[str, pa.Table], address: str) -> bool:
    return address in tables["addresses"]["address"].to_pylist()


ADDRESSES = Stream(
    name="addresses",
    by="address",
    source="From `POST /v0/addresses/metadata` (custom plans), for top holders and the address sets of the settings.",
    historic=False,
    batch=MAX_METADATA_ADDRESSES,
    subjects=_subjects,
    requests=_requests,
    decode=address_rows,
    endpoint=AddressesMetadataRequest.endpoint,
    contains=_has_answer,
    inputs=("holders",),
)
