"""Stream of the maps of watched tokens. One request for each token fills all five tables of maps."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import datetime

from holderlake.core.contract.requests import MapOptions, MapRequest, Request
from holderlake.core.decoding.answers import map_tables
from holderlake.core.ingest.engine import BulkResult, DirectEngine
from holderlake.core.ingest.stream import Partition, Stream
from holderlake.core.ingest.streams.tokens import watched_tokens
from holderlake.core.settings import Settings


def _options(settings: Settings, refresh: bool = False, timestamp: int | None = None) -> MapOptions:
    return MapOptions(
        limit=settings.maps.limit,
        use_magic_nodes=settings.maps.use_magic_nodes,
        use_time_nodes=settings.maps.use_time_nodes,
        return_nodes=True,
        return_relationships=True,
        refresh=refresh,
        timestamp=timestamp,
    )


def _requests(settings: Settings, partition: Partition, subjects: Sequence[str], refresh: bool) -> list[Request]:
    options = _options(settings, refresh, partition.timestamp)
    return [MapRequest(chain=partition.chain, token_address=token, options=options) for token in subjects]


def _compute(
    engine: DirectEngine, settings: Settings, chain: str, tokens: Sequence[str], instants: Sequence[datetime]
) -> BulkResult:
    return engine.maps(chain, tokens, instants, _options(settings))


MAPS = Stream(
    name="maps",
    by="token",
    source="From `GET /v0/tokens/map`: one call per token fills the five tables of maps.",
    historic=True,
    batch=1,
    subjects=watched_tokens,
    requests=_requests,
    decode=map_tables,
    endpoint=MapRequest.endpoint,
    together=True,
    compute=_compute,
    inputs=("tokens",),
    options=("limit", "use_magic_nodes", "use_time_nodes"),
)
