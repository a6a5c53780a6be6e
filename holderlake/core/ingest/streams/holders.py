"""Stream of the largest holders of the watched tokens. Each token needs one request."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import datetime

from holderlake.core.contract.requests import HoldersOptions, HoldersRequest, Request
from holderlake.core.decoding.answers import holder_rows
from holderlake.core.ingest.engine import BulkResult, DirectEngine
from holderlake.core.ingest.stream import Partition, Stream
from holderlake.core.ingest.streams.tokens import watched_tokens
from holderlake.core.settings import Settings


def _options(settings: Settings, refresh: bool = False, timestamp: int | None = None) -> HoldersOptions:
    return HoldersOptions(
        limit=settings.holders.limit,
        return_metadata=settings.holders.with_metadata,
        refresh=refresh,
        timestamp=timestamp,
    )


def _requests(settings: Settings, partition: Partition, subjects: Sequence[str], refresh: bool) -> list[Request]:
    options = _options(settings, refresh, partition.timestamp)
    return [HoldersRequest(chain=partition.chain, token_address=token, options=options) for token in subjects]


def _compute(
    engine: DirectEngine, settings: Settings, chain: str, tokens: Sequence[str], instants: Sequence[datetime]
) -> BulkResult:
    return engine.holders(chain, tokens, instants, _options(settings))


HOLDERS = Stream(
    name="holders",
    by="token",
    source="From `GET /v0/tokens/holders`, one call per token, as of the partition's instants; history mode for "
    "past ones.",
    historic=True,
    batch=1,
    subjects=watched_tokens,
    requests=_requests,
    decode=holder_rows,
    endpoint=HoldersRequest.endpoint,
    together=True,
    compute=_compute,
    inputs=("tokens",),  # names of tokens are in the plots
    options=("limit", "with_metadata"),
)
