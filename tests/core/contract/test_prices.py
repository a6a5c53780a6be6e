"""Prices of requests, row by row, after the credits of the API's document."""

from __future__ import annotations

from itertools import product

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from holderlake.core.contract.models import TokenKey
from holderlake.core.contract.prices import credits_text, parse_credits
from holderlake.core.contract.requests import (
    ENDPOINTS,
    AddressesMetadataRequest,
    AddressMetadataRequest,
    ChainsRequest,
    HoldersOptions,
    HoldersRequest,
    MapOptions,
    MapRequest,
    MetricsRequest,
    Request,
    ScreenshotRequest,
    SearchRequest,
    SubgraphRequest,
    TokenMetadataRequest,
    TokensMetadataRequest,
)

TOKEN = {"chain": "eth", "token_address": "0x7"}
KEYS = tuple(TokenKey(chain="eth", address=f"0x{number}") for number in range(7))
ADDRESSES = tuple(f"0x{number}" for number in range(12))


def a_map(**options: object) -> MapRequest:
    return MapRequest(**TOKEN, options=MapOptions(**options))  # type: ignore[arg-type]


def holders(**options: object) -> HoldersRequest:
    return HoldersRequest(**TOKEN, options=HoldersOptions(**options))  # type: ignore[arg-type]


ROWS: list[tuple[Request, str]] = [
    (ChainsRequest(), "0.01"),
    (a_map(), "25"),
    (a_map(limit=250), "75"),
    (a_map(limit=500), "125"),
    (a_map(return_nodes=True), "50"),
    (a_map(refresh=True), "50"),
    (a_map(timestamp=0), "75"),
    (a_map(use_magic_nodes=False, use_time_nodes=False, return_relationships=True, return_clusters=False), "25"),
    (a_map(limit=500, return_nodes=True, refresh=True, timestamp=1), "225"),
    (holders(), "1"),
    (holders(limit=250), "11"),
    (holders(limit=500), "26"),
    (holders(return_metadata=True), "26"),
    (holders(refresh=True), "26"),
    (holders(timestamp=0), "51"),
    (holders(limit=500, return_metadata=True, refresh=True, timestamp=1), "126"),
    (MetricsRequest(**TOKEN), "25"),
    (ScreenshotRequest(**TOKEN), "25"),
    (TokenMetadataRequest(**TOKEN), "0.1"),
    (TokenMetadataRequest(**TOKEN, return_token_stats=True), "0.5"),
    (TokensMetadataRequest(tokens=KEYS), "0.7"),
    (TokensMetadataRequest(tokens=KEYS, return_token_stats=True), "3.5"),
    (SearchRequest(text="seven"), "0.5"),
    (SubgraphRequest(addresses=ADDRESSES[:2]), "12"),
    (SubgraphRequest(addresses=ADDRESSES, context_token_key=KEYS[0]), "22"),
    (AddressMetadataRequest(address="0x1"), "1"),
    (AddressesMetadataRequest(addresses=ADDRESSES), "12"),
]


@pytest.mark.parametrize(("request_", "credits"), ROWS, ids=lambda value: getattr(value, "endpoint", None))
def test_a_request_costs_what_the_document_says(request_: Request, credits: str) -> None:
    assert request_.cost == parse_credits(credits)


def test_every_endpoint_has_a_row_here() -> None:
    assert {type(request) for request, _ in ROWS} == set(ENDPOINTS)


@pytest.mark.parametrize(
    ("limit", "nodes", "refresh", "timestamp"),
    list(product([80, 250, 500], [False, True], [False, True], [None, 0])),
)
def test_surcharges_of_a_map_add_up(limit: int, nodes: bool, refresh: bool, timestamp: int | None) -> None:
    surcharge = {80: 0, 250: 50, 500: 100}[limit] + 25 * nodes + 25 * refresh + 50 * (timestamp is not None)
    request = a_map(limit=limit, return_nodes=nodes, refresh=refresh, timestamp=timestamp)
    assert request.cost == (25 + surcharge) * 100


@settings(deadline=None)
@given(st.integers(0, 10**12))
def test_formatted_credits_are_parsed_back(hundredths: int) -> None:
    assert parse_credits(credits_text(hundredths)) == hundredths


@pytest.mark.parametrize(("text", "hundredths"), [("25", 2500), ("25.1", 2510), (" 1,000.05 ", 100_005), ("25.", 2500)])
def test_credits_are_parsed(text: str, hundredths: int) -> None:
    assert parse_credits(text) == hundredths


@pytest.mark.parametrize("text", ["", "-1", "1.001", "1e3", "ten", ".5", "1.-1", "nan"])
def test_text_that_is_no_amount_of_credits_is_refused(text: str) -> None:
    with pytest.raises(ValueError, match="is not an amount of credits"):
        parse_credits(text)


def test_a_debt_is_written_with_its_sign() -> None:
    assert credits_text(-2501) == "-25.01"
