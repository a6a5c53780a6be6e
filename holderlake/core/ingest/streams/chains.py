"""Stream of the provider's chains. One call a day lists all chains, and each partition keeps the row of its chain."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import datetime

import pyarrow as pa

from holderlake.core.contract.exact_json import MalformedAnswer
from holderlake.core.contract.requests import ChainsRequest, Request
from holderlake.core.decoding.answers import chain_rows
from holderlake.core.ingest.decode_queue import provider_error
from holderlake.core.ingest.stream import Partition, Stream
from holderlake.core.provider.client import Response
from holderlake.core.settings import Settings
from holderlake.core.workspace import Workspace


def _subjects(workspace: Workspace, partition: Partition) -> list[str]:
    return [partition.chain]


def _requests(settings: Settings, partition: Partition, subjects: Sequence[str], refresh: bool) -> list[Request]:
    return [ChainsRequest()]


def _listed(tables: dict[str, pa.Table], chain: str) -> bool:
    return chain in tables["chains"]["chain"].to_pylist()


def listed(fetched: Response) -> list[str]:
    """Return the ids of the chains in an answer. Raises ``MalformedAnswer`` if it cannot be decoded."""
    try:
        return chain_ids(fetched.raw, fetched.fetched_at)
    except MalformedAnswer as error:
        raise provider_error(fetched, error) from error


def chain_ids(raw: bytes, fetched_at: datetime) -> list[str]:
    """Return the ids of the chains in the bytes of an answer. Raises the ``MalformedAnswer`` of the decoding."""
    rows = chain_rows([raw], None, (), fetched_at).tables["chains"]
    return [str(chain) for chain in rows["chain"].to_pylist()]


CHAINS = Stream(
    name="chains",
    by="chain",
    source="From `GET /v0/chains`, one call a day.",
    historic=False,
    batch=1,
    subjects=_subjects,
    requests=_requests,
    decode=chain_rows,
    endpoint=ChainsRequest.endpoint,
    contains=_listed,
)
