"""Stream of metadata and statistics of the watched tokens. One call is for up to a thousand tokens."""

from __future__ import annotations

from collections.abc import Sequence

import pyarrow as pa

from holderlake.core.contract.chains import normalise_address
from holderlake.core.contract.models import TokenKey
from holderlake.core.contract.requests import MAX_METADATA_TOKENS, Request, TokensMetadataRequest
from holderlake.core.decoding.answers import token_rows
from holderlake.core.ingest.stream import Partition, Stream
from holderlake.core.settings import Settings
from holderlake.core.workspace import Workspace


def watched_tokens(workspace: Workspace, partition: Partition) -> list[str]:
    """Return the normalised addresses of the watchlist's tokens on the partition's chain, without duplicates."""
    watched = workspace.settings.watchlist.get(partition.chain, [])
    return list(dict.fromkeys(normalise_address(token) for token in watched))


def _requests(settings: Settings, partition: Partition, subjects: Sequence[str], refresh: bool) -> list[Request]:
    keys = tuple(TokenKey(chain=partition.chain, address=subject) for subject in subjects)
    return [TokensMetadataRequest(tokens=keys, return_token_stats=True)]


def _has_answer(tables: dict[str, pa.Table], token: str) -> bool:
    return token in tables["tokens"]["token_address"].to_pylist()


TOKENS = Stream(
    name="tokens",
    by="token",
    source="From `POST /v0/tokens/metadata`, all watched tokens of the chain in one call.",
    historic=False,
    batch=MAX_METADATA_TOKENS,
    subjects=watched_tokens,
    requests=_requests,
    decode=token_rows,
    endpoint=TokensMetadataRequest.endpoint,
    contains=_has_answer,
)
