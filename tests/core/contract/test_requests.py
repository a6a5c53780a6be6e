"""Requests: path, query and body."""

from __future__ import annotations

from typing import Any

import pytest
from pydantic import ValidationError

from holderlake.core.contract.models import TokenKey
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

TOKEN = {"chain": "eth", "token_address": "0xAB"}
KEY = TokenKey(chain="eth", address="0xAB")

SENT: list[tuple[Request, str, str, Any]] = [
    (ChainsRequest(), "GET", "/v0/chains", None),
    (MapRequest(**TOKEN), "GET", "/v0/tokens/map/eth/0xab", None),
    (MetricsRequest(**TOKEN), "GET", "/v0/tokens/metrics/eth/0xab", None),
    (HoldersRequest(**TOKEN), "GET", "/v0/tokens/holders/eth/0xab", None),
    (TokenMetadataRequest(**TOKEN), "GET", "/v0/tokens/metadata/eth/0xab", None),
    (ScreenshotRequest(**TOKEN), "GET", "/v0/tokens/screenshot/eth/0xab", None),
    (SearchRequest(text="seven"), "GET", "/v0/tokens/search", None),
    (AddressMetadataRequest(address="0xAB"), "GET", "/v0/addresses/metadata/0xab", None),
    (TokensMetadataRequest(tokens=(KEY,)), "POST", "/v0/tokens/metadata", [{"chain": "eth", "address": "0xab"}]),
    (
        SubgraphRequest(addresses=("0xA1", "0xB2")),
        "POST",
        "/v0/relationships/subgraph",
        {"addresses": ["0xa1", "0xb2"], "context_token_key": None},
    ),
    (
        SubgraphRequest(addresses=("0xA1", "0xB2"), context_token_key=KEY),
        "POST",
        "/v0/relationships/subgraph",
        {"addresses": ["0xa1", "0xb2"], "context_token_key": {"chain": "eth", "address": "0xab"}},
    ),
    (AddressesMetadataRequest(addresses=("0xA1",)), "POST", "/v0/addresses/metadata", {"addresses": ["0xa1"]}),
]


@pytest.mark.parametrize(("request_", "method", "path", "body"), SENT)
def test_a_request_has_method_path_and_body_of_the_contract(
    request_: Request, method: str, path: str, body: Any
) -> None:
    assert (request_.method, request_.path, request_.body) == (method, path, body)


def test_every_endpoint_is_tested_here() -> None:
    assert {type(request) for request, *_ in SENT} == set(ENDPOINTS)


def test_options_at_their_default_are_left_out_of_the_query() -> None:
    assert MapRequest(**TOKEN, options=MapOptions(limit=80, use_magic_nodes=True, return_nodes=False)).query == {}
    assert HoldersRequest(**TOKEN).query == {}


def test_changed_options_are_in_the_query() -> None:
    options = MapOptions(limit=250, use_magic_nodes=False, return_nodes=True, timestamp=0)
    assert MapRequest(**TOKEN, options=options).query == {
        "limit": "250",
        "use_magic_nodes": "false",
        "return_nodes": "true",
        "timestamp": "0",
    }
    assert HoldersRequest(**TOKEN, options=HoldersOptions(return_metadata=True)).query == {"return_metadata": "true"}


def test_statistics_are_requested_by_return_token_stats() -> None:
    assert TokenMetadataRequest(**TOKEN, return_token_stats=True).query == {"return_token_stats": "true"}
    assert TokensMetadataRequest(tokens=(KEY,), return_token_stats=True).query == {"return_token_stats": "true"}


def test_a_search_sends_its_text_as_query() -> None:
    assert SearchRequest(text="a&b=c").query == {"query": "a&b=c"}


def test_parts_of_a_path_are_percent_encoded() -> None:
    assert AddressMetadataRequest(address="EQ?#&+").path == "/v0/addresses/metadata/EQ%3F%23%26%2B"


def test_a_case_sensitive_address_is_sent_unchanged() -> None:
    request = HoldersRequest(chain="solana", token_address="EPjFWdd5AufqSSqeM2qN1xzybapC8G4wEGGkZwyTDt1v")
    assert request.path.endswith("/solana/EPjFWdd5AufqSSqeM2qN1xzybapC8G4wEGGkZwyTDt1v")


@pytest.mark.parametrize(
    ("shape", "options"),
    [
        (MapOptions, {"limit": 100}),
        (MapOptions, {"timestamp": -1}),
        (HoldersOptions, {"limit": 0}),
        (SearchRequest, {"text": "a"}),
        (SubgraphRequest, {"addresses": ("0x1",)}),
        (SubgraphRequest, {"addresses": tuple(f"0x{n:x}" for n in range(1_001))}),
        (AddressesMetadataRequest, {"addresses": ()}),
        (AddressesMetadataRequest, {"addresses": tuple(f"0x{n:x}" for n in range(2_501))}),
        (TokensMetadataRequest, {"tokens": tuple(KEY for _ in range(1_001))}),
        (HoldersRequest, {"chain": "eth", "token_address": "a/b"}),
        (HoldersRequest, {"chain": "e/th", "token_address": "0x1"}),
    ],
)
def test_a_request_outside_the_contract_is_refused(shape: Any, options: dict[str, Any]) -> None:
    with pytest.raises(ValidationError):
        shape(**options)


def test_the_subject_of_a_request_is_its_token() -> None:
    assert MapRequest(**TOKEN).subject == "eth/0xab"
    assert ChainsRequest().subject is None
