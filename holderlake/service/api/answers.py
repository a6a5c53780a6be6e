"""Computes the answers of the contract's endpoints, with one function for each endpoint.

Each function takes the store, the parsed request and the current time (UTC), and returns an ``Answer``. Keys and
credits are handled by ``metering``; endpoints beyond the contract are in ``extra_answers``.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from datetime import datetime
from functools import partial
from typing import Any

import pyarrow as pa

from holderlake.core.contract.models import AddressMetadata, Chain, GroupedTransfer
from holderlake.core.contract.requests import (
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
from holderlake.core.contract.times import dt_update_text, from_unix, to_unix
from holderlake.engine.errors import UnknownToken
from holderlake.engine.maps.maps import map_as_of
from holderlake.engine.maps.relationships import subgraph
from holderlake.engine.queries.addresses import addresses_table
from holderlake.engine.queries.holders import holders_as_of
from holderlake.engine.queries.tokens import chains_table, search_tokens, tokens_table
from holderlake.engine.store.store import Store
from holderlake.service.output import render


@dataclass(frozen=True)
class Answer:
    """An answer before encoding.

    ``plain`` is a function that returns the answer's JSON objects. ``table`` has the same rows for Arrow and Parquet,
    None if the endpoint has JSON only. ``as_of`` is the instant of the answer (UTC), None for now. ``is_past`` is true
    if the request has a timestamp in the past; such an answer never expires. ``dt_update`` is the time of computation
    as text, None if the contract has no such field.
    """

    plain: Callable[[], Any]
    table: pa.Table | None = None
    as_of: datetime | None = None
    is_past: bool = False
    dt_update: str | None = None
    headers: tuple[tuple[str, str], ...] = ()


def chains(store: Store, _request: ChainsRequest, _now: datetime) -> Answer:
    """Return the answer to GET /v0/chains: the supported chains."""
    table = chains_table(store)
    return Answer(partial(render.objects, Chain, table), table)


def token_map(store: Store, request: MapRequest, now: datetime) -> Answer:
    """Return the answer to GET /v0/tokens/map: the parts of a map that the options name."""
    as_of, is_past = instant_of(request.options.timestamp, now)
    tables = map_as_of(store, request.chain, request.token_address, as_of, request.options, computed_at=now)
    raw = raw_units(store, request.chain, request.token_address, tables) if request.options.return_raw_amounts else None
    plain = partial(render.token_map, tables, request.options, raw)
    return Answer(plain, as_of=as_of, is_past=is_past, dt_update=render.dt_update(tables))


def metrics(store: Store, request: MetricsRequest, now: datetime) -> Answer:
    """Return the answer to GET /v0/tokens/metrics: the figures of a map with default options."""
    as_of, _ = instant_of(None, now)
    tables = map_as_of(store, request.chain, request.token_address, as_of, MapOptions(), computed_at=now)
    return Answer(partial(render.metrics, tables), as_of=as_of, dt_update=render.dt_update(tables))


def holders(store: Store, request: HoldersRequest, now: datetime) -> Answer:
    """Return the answer to GET /v0/tokens/holders: the largest holders of a token."""
    options = request.options
    as_of, is_past = instant_of(options.timestamp, now)
    table = holders_as_of(
        store, request.chain, request.token_address, as_of, options.limit, details=options.return_metadata
    )
    raw = raw_units(store, request.chain, request.token_address) if options.return_raw_amounts else None
    plain = partial(render.holders, table, options.return_metadata, raw)
    return Answer(plain, table, as_of, is_past, dt_update_text(now))


def token_metadata(store: Store, request: TokenMetadataRequest, _now: datetime) -> Answer:
    """Return the answer to GET /v0/tokens/metadata: the metadata of one token."""
    stats = request.return_token_stats
    tokens = render.tokens(tokens_table(store, [(request.chain, request.token_address)], stats), stats)
    if not tokens:
        raise UnknownToken(f"unknown token {request.subject}: check its chain and address")
    return Answer(lambda: tokens[0])


def tokens_metadata(store: Store, request: TokensMetadataRequest, _now: datetime) -> Answer:
    """Return the answer to POST /v0/tokens/metadata: the metadata of many tokens."""
    stats = request.return_token_stats
    table = tokens_table(store, [(token.chain, token.address) for token in request.tokens], stats)
    return Answer(partial(render.tokens, table, stats), table)


def search(store: Store, request: SearchRequest, _now: datetime) -> Answer:
    """Return the answer to GET /v0/tokens/search: the tokens that match a text."""
    table = search_tokens(store, request.text)
    return Answer(partial(render.tokens, table, stats=False), table)


def relationships(store: Store, request: SubgraphRequest, now: datetime) -> Answer:
    """Return the answer to POST /v0/relationships/subgraph: grouped transfers among addresses."""
    context = request.context_token_key
    as_of, _ = instant_of(None, now)
    key = (context.chain, context.address) if context else None
    table = subgraph(store, list(request.addresses), key, as_of)
    return Answer(partial(render.objects, GroupedTransfer, table), table)


def address_metadata(store: Store, request: AddressMetadataRequest, now: datetime) -> Answer:
    """Return the answer to GET /v0/addresses/metadata: the details of one address."""
    as_of, _ = instant_of(None, now)
    return Answer(lambda: render.objects(AddressMetadata, addresses_table(store, [request.address], as_of))[0])


def addresses_metadata(store: Store, request: AddressesMetadataRequest, now: datetime) -> Answer:
    """Return the answer to POST /v0/addresses/metadata: the details of many addresses."""
    as_of, _ = instant_of(None, now)
    table = addresses_table(store, list(request.addresses), as_of)
    return Answer(partial(render.objects, AddressMetadata, table), table)


def instant_of(timestamp: int | None, now: datetime) -> tuple[datetime, bool]:
    """Return the instant of a request (UTC), and whether it is past.

    A ``timestamp`` of None or in the future means now.
    """
    if timestamp is None or timestamp >= to_unix(now):
        return now.replace(microsecond=0), False
    return from_unix(timestamp), True


def raw_units(
    store: Store, chain: str, token_address: str, tables: dict[str, pa.Table] | None = None
) -> render.RawUnits:
    """Return the number of decimals of a token, and of each token in ``tables["grouped_transfers"]``.

    By these numbers amounts are converted to raw integers. ``tables`` are the tables of the token's map. If it is None,
    only the number of the token itself is returned.
    """
    transfers = None if tables is None else tables["grouped_transfers"]
    transfer_tokens = (
        zip(transfers["transfer_chain"].to_pylist(), transfers["transfer_token"].to_pylist(), strict=True)
        if transfers is not None
        else ()
    )
    tokens = store.tokens(sorted({(chain, token_address), *transfer_tokens}))
    decimals = {key: token.decimals for key, token in tokens.items()}
    return render.RawUnits(decimals[chain, token_address], decimals)
