"""Asset: metadata and statistics of the watched tokens, fetched at each run of the schedule ``daily``."""

from collections.abc import Sequence

import pyarrow as pa

from holderlake.assets.checks import stream_checks
from holderlake.assets.fetched import ONE_RUN, POOL, stream_asset
from holderlake.core.contract.models import TokenKey
from holderlake.core.contract.requests import MAX_METADATA_TOKENS, Request, TokensMetadataRequest
from holderlake.core.dagster.partitions import CHAIN_BY_DAY
from holderlake.core.decoding.answers import token_rows
from holderlake.core.ingest.stream import ChainInstant, Stream, watched_tokens
from holderlake.core.settings import Settings


def requests(settings: Settings, partition: ChainInstant, tokens: Sequence[str], refresh: bool) -> list[Request]:
    """Return one request for all tokens, with their statistics."""
    keys = tuple(TokenKey(chain=partition.chain, address=token) for token in tokens)
    return [TokensMetadataRequest(tokens=keys, return_token_stats=True)]


def has_answer(tables: dict[str, pa.Table], token: str) -> bool:
    """Return whether the answer has a row about the token."""
    return token in tables["tokens"]["token_address"].to_pylist()


TOKENS = Stream(
    name="tokens",
    by="token",
    source="From `POST /v0/tokens/metadata`, all watched tokens of the chain in one call.",
    endpoint=TokensMetadataRequest.endpoint,
    historic=False,
    batch=MAX_METADATA_TOKENS,
    subjects=watched_tokens,
    requests=requests,
    decode=token_rows,
    contains=has_answer,
)

tokens = stream_asset(TOKENS, partitions_def=CHAIN_BY_DAY, backfill_policy=ONE_RUN, pool=POOL)
token_checks = stream_checks(TOKENS)
