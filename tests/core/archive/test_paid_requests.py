"""The request of an archived answer is the request that was sent, with the same cost."""

from __future__ import annotations

import json
from typing import Any, Final

import pytest

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
from holderlake.operations.maintenance.restored_ledger import request_of

TOKEN: Final[dict[str, Any]] = {"chain": "eth", "token_address": "0x" + "1" * 40}
ONE, OTHER = "0x" + "2" * 40, "0x" + "3" * 40
KEY: Final = TokenKey(chain="eth", address=ONE)
REQUESTS: Final = (
    ChainsRequest(),
    MapRequest(
        **TOKEN, options=MapOptions(limit=250, return_nodes=True, use_time_nodes=False, timestamp=1_700_000_000)
    ),
    HoldersRequest(**TOKEN, options=HoldersOptions(limit=500, refresh=True)),
    MetricsRequest(**TOKEN),
    ScreenshotRequest(**TOKEN),
    TokenMetadataRequest(**TOKEN, return_token_stats=True),
    TokensMetadataRequest(tokens=(KEY, KEY), return_token_stats=True),
    SearchRequest(text="fern & co"),
    SubgraphRequest(addresses=(ONE, OTHER)),
    SubgraphRequest(addresses=(ONE, OTHER), context_token_key=KEY),
    AddressMetadataRequest(address=ONE),
    AddressesMetadataRequest(addresses=(ONE, OTHER)),
)


@pytest.mark.parametrize("request_", REQUESTS, ids=lambda one: one.endpoint)
def test_a_request_is_read_from_what_the_archive_stores(request_: Request) -> None:
    about = {"method": request_.method, "path": request_.path, "query": request_.query, "body": request_.body}
    found = request_of(json.loads(json.dumps(about)))
    assert found == request_
    assert found.cost == request_.cost


def test_every_endpoint_is_tried() -> None:
    assert {type(one) for one in REQUESTS} == set(ENDPOINTS)


def test_an_unknown_request_is_none() -> None:
    assert request_of({"method": "GET", "path": "/v1/else", "query": {}, "body": None}) is None
    assert request_of({"method": "GET", "path": "/v0/chains", "query": {"a": "b"}, "body": None}) is None
