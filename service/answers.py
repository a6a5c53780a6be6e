"""From a request to its answer: asks the engine as of the right instant and renders what it says.

One function an endpoint, all of one form: (store, request, now) to ``Answer``. Keys and credits are ``metering``'s.
"""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime
from typing import Any

import pyarrow as pa

from contract.requests import (
    AddressesMetadataRequest,
    AddressMetadataRequest,
    ChainsRequest,
    HoldersRequest,
    MapOptions,
    MapRequest,
    MetricsRequest,
    SearchRequest,
    SubgraphRequest,
    TokenMetadataRequest,
    TokensMetadataRequest,
)
from contract.times import dt_update_text, from_unix, to_unix
from engine.addresses import addresses_table
from engine.errors import UnknownToken
from engine.holders import holders_as_of
from engine.maps import map_as_of
from engine.relationships import subgraph
from engine.store import Store
from engine.tokens import chains_table, search_tokens, tokens_table
from service import render


@dataclass(frozen=True)
class Answer:
    """An answer's plain data, and when what it shows was made, where the contract has that said."""

    body: Any
    dt_update: str | None = None


def chains(store: Store, _request: ChainsRequest, _now: datetime) -> Answer:
    """GET /v0/chains"""
    return Answer(render.chains(chains_table(store)))


def token_map(store: Store, request: MapRequest, now: datetime) -> Answer:
    """GET /v0/tokens/map"""
    tables = _map_tables(store, request.chain, request.token_address, request.options, now)
    return Answer(render.token_map(tables, request.options), render.dt_update(tables))


def metrics(store: Store, request: MetricsRequest, now: datetime) -> Answer:
    """GET /v0/tokens/metrics"""
    tables = _map_tables(store, request.chain, request.token_address, MapOptions(), now)
    return Answer(render.metrics(tables), render.dt_update(tables))


def holders(store: Store, request: HoldersRequest, now: datetime) -> Answer:
    """GET /v0/tokens/holders"""
    options = request.options
    as_of = _as_of(options.timestamp, now)
    table = holders_as_of(
        store, request.chain, request.token_address, as_of, options.limit, details=options.return_metadata
    )
    return Answer(render.holders(table, options.return_metadata), dt_update_text(now))


def token_metadata(store: Store, request: TokenMetadataRequest, _now: datetime) -> Answer:
    """GET /v0/tokens/metadata"""
    stats = request.return_token_stats
    found = render.tokens(tokens_table(store, [(request.chain, request.token_address)], stats), stats)
    if not found:
        raise UnknownToken(f"the token {request.subject} is not known")
    return Answer(found[0])


def tokens_metadata(store: Store, request: TokensMetadataRequest, _now: datetime) -> Answer:
    """POST /v0/tokens/metadata"""
    stats = request.return_token_stats
    keys = [(token.chain, token.address) for token in request.tokens]
    return Answer(render.tokens(tokens_table(store, keys, stats), stats))


def search(store: Store, request: SearchRequest, _now: datetime) -> Answer:
    """GET /v0/tokens/search"""
    return Answer(render.tokens(search_tokens(store, request.text), stats=False))


def relationships(store: Store, request: SubgraphRequest, now: datetime) -> Answer:
    """POST /v0/relationships/subgraph"""
    context = request.context_token_key
    table = subgraph(
        store, list(request.addresses), (context.chain, context.address) if context else None, _as_of(None, now)
    )
    return Answer(render.relationships(table))


def address_metadata(store: Store, request: AddressMetadataRequest, now: datetime) -> Answer:
    """GET /v0/addresses/metadata"""
    return Answer(render.addresses(addresses_table(store, [request.address], _as_of(None, now)))[0])


def addresses_metadata(store: Store, request: AddressesMetadataRequest, now: datetime) -> Answer:
    """POST /v0/addresses/metadata"""
    return Answer(render.addresses(addresses_table(store, list(request.addresses), _as_of(None, now))))


def _map_tables(
    store: Store, chain: str, token_address: str, options: MapOptions, now: datetime
) -> dict[str, pa.Table]:
    return map_as_of(store, chain, token_address, _as_of(options.timestamp, now), options, computed_at=now)


def _as_of(timestamp: int | None, now: datetime) -> datetime:
    """The instant that is asked about; the future is now."""
    if timestamp is None or timestamp >= to_unix(now):
        return now.replace(microsecond=0)
    return from_unix(timestamp)
