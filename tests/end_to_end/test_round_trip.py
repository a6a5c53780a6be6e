"""Round trip: answers of the service, fetched over HTTP and decoded, equal the engine's tables."""

from __future__ import annotations

import asyncio
from datetime import datetime, timedelta
from random import Random
from typing import Any

import pyarrow as pa
import pytest

from holderlake.core.contract.requests import (
    AddressesMetadataRequest,
    HoldersOptions,
    HoldersRequest,
    MapOptions,
    MapRequest,
    SubgraphRequest,
)
from holderlake.core.contract.times import to_unix
from holderlake.core.decoding.answers import address_rows, holder_rows, map_tables, subgraph_rows
from holderlake.core.provider.client import ProviderClient
from holderlake.core.provider.errors import ProviderError
from holderlake.engine.errors import EngineError
from holderlake.engine.maps.maps import map_as_of
from holderlake.engine.maps.relationships import subgraph
from holderlake.engine.queries.addresses import addresses_table
from holderlake.engine.queries.holders import holders_as_of
from tests.helpers.sample import the_world

WORLD = the_world()
RANDOM = Random(20261121)
SPAN = int((WORLD.end - WORLD.start).total_seconds())
MOMENTS = [
    (token, WORLD.start + timedelta(seconds=RANDOM.randrange(SPAN // 3, SPAN)))
    for token in WORLD.tokens
    if not token.unsupported
    for _ in range(2)
]


def _ask(service: Any, request: Any) -> bytes:
    async def ask() -> bytes:
        async with ProviderClient(service.base_url, service.secret) as client:
            return (await client.send(request)).raw

    return asyncio.run(ask())


def _assert_same_refusal(service: Any, request: Any, error: EngineError) -> None:
    with pytest.raises(ProviderError) as refused:
        _ask(service, request)
    assert refused.value.code == error.code


@pytest.mark.later(integration=9, long=16)
@pytest.mark.parametrize(("token", "as_of"), MOMENTS, ids=lambda value: getattr(value, "symbol", None))
def test_a_map_over_http_equals_the_engines_tables(sample_service: Any, token: Any, as_of: datetime) -> None:
    options = MapOptions(return_nodes=True, return_relationships=True, timestamp=to_unix(as_of))
    request = MapRequest(chain=token.chain, token_address=token.address, options=options)
    try:
        expected = map_as_of(sample_service.store, token.chain, token.address, as_of, options, as_of)
    except EngineError as error:
        _assert_same_refusal(sample_service, request, error)
        return
    arrived = map_tables([_ask(sample_service, request)], token.chain, [token.address], as_of).tables
    assert set(arrived) == set(expected)
    for name, rows in expected.items():
        assert _without_dt_update(arrived[name]) == _without_dt_update(rows), name


@pytest.mark.later(integration=14, long=27)
@pytest.mark.parametrize("details", [False, True])
@pytest.mark.parametrize(("token", "as_of"), MOMENTS[::2], ids=lambda value: getattr(value, "symbol", None))
def test_holders_over_http_equal_the_engines_table(
    sample_service: Any, token: Any, as_of: datetime, details: bool
) -> None:
    options = HoldersOptions(limit=250, return_metadata=details, timestamp=to_unix(as_of))
    request = HoldersRequest(chain=token.chain, token_address=token.address, options=options)
    try:
        expected = holders_as_of(sample_service.store, token.chain, token.address, as_of, 250, details)
    except EngineError as error:
        _assert_same_refusal(sample_service, request, error)
        return
    decoded = holder_rows([_ask(sample_service, request)], token.chain, [token.address], as_of)
    assert decoded.tables["holders"] == expected


def test_a_subgraph_over_http_equals_the_engines_table(sample_service: Any) -> None:
    name, addresses = "every set", sorted({one for members in WORLD.address_sets.values() for one in members})
    answer = _ask(sample_service, SubgraphRequest(addresses=tuple(addresses)))
    arrived = subgraph_rows([answer], "eth", [name], WORLD.end).tables["subgraph_transfers"]
    expected = subgraph(sample_service.store, addresses, None, datetime(2027, 1, 1))
    assert expected.num_rows > 0
    assert arrived.select(expected.column_names) == expected


def test_address_metadata_over_http_equals_the_engines_table(sample_service: Any) -> None:
    addresses = sorted({address for members in WORLD.address_sets.values() for address in members})
    answer = _ask(sample_service, AddressesMetadataRequest(addresses=tuple(addresses)))
    assert address_rows([answer], "", (), WORLD.end).tables["addresses"] == addresses_table(
        sample_service.store, addresses, WORLD.end
    )


def _without_dt_update(table: pa.Table) -> pa.Table:
    """Remove the time of the answer, which differs between two answers."""
    return table.drop_columns(["dt_update"]) if "dt_update" in table.column_names else table
