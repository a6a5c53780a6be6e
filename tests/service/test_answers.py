"""Answers of the service: the contract's shapes, the engine's numbers, null for blocks not requested."""

from __future__ import annotations

import time
from datetime import datetime
from typing import Any

import pytest

from holderlake.core.contract import exact_json, requests
from holderlake.core.contract.times import utc_now

DAY = 86_400


def _get(caller: Any, request: requests.Request) -> Any:
    """Return the answer to a request, parsed by the contract's models."""
    answer = caller.http.request(
        request.method, request.path, params=request.query, json=request.body if request.method == "POST" else None
    )
    assert answer.status_code == 200, answer.text
    return exact_json.decode(answer.content, request.answer)


def test_amount_of_fifty_digits_is_exact(caller, world):
    answer = _get(caller, requests.HoldersRequest(chain="eth", token_address=world.wide))
    assert str(answer[0].holder_data.amount) == "12345678901234567890123456789012.34567890123456789"


def test_whole_amounts_have_a_decimal_point(caller, world):
    raw = caller.http.get(f"/v0/tokens/holders/eth/{world.young}").text
    assert '"amount":9.0,' in raw


@pytest.mark.parametrize("timestamp", [4_102_444_800, 10**15, 10**400])
def test_future_timestamp_is_now(caller, world, timestamp):
    path = f"/v0/tokens/holders/eth/{world.token}"
    future = caller.http.get(path, params={"timestamp": timestamp})
    assert future.status_code == 200
    assert future.json() == caller.http.get(path).json()


def test_future_map_is_dated_now(caller, world):
    query = {"timestamp": 4_102_444_800, "refresh": True}
    answer = caller.http.get(f"/v0/tokens/map/eth/{world.token}", params=query).json()
    assert abs(answer["metadata"]["ts_update"] - time.time()) < 60


@pytest.mark.parametrize("kind", ["map", "metrics", "holders"])
def test_update_time_is_in_the_header(caller, world, kind):
    answer = caller.http.get(f"/v0/tokens/{kind}/eth/{world.token}")
    updated = datetime.fromisoformat(answer.headers["X-Dt-Update"])
    assert updated.tzinfo is None
    assert 0 <= (utc_now() - updated).total_seconds() < 6 * 3_600  # the longest that an answer is kept


def test_checksum_address_is_the_same_address(caller, world):
    path = f"/v0/tokens/holders/eth/{world.token.upper().replace('0X', '0x')}"
    assert caller.http.get(path).json() == caller.http.get(f"/v0/tokens/holders/eth/{world.token}").json()


def test_chains_are_the_contracts_and_the_stores(caller, world):
    listed = [chain.id for chain in _get(caller, requests.ChainsRequest())]
    named = "eth base solana tron bsc sonic ton avalanche polygon monad hyperevm arbitrum robinhood"
    assert " ".join(listed).startswith(named)
    assert {"arc", world.strange_chain} <= set(listed)
    assert "optimism" not in listed


def test_chain_of_the_store_is_valid_in_a_path(caller, world):
    answer = caller.http.get(f"/v0/tokens/metadata/{world.strange_chain}/{world.token}")
    assert answer.json()["metadata"]["symbol"] == "ELS"


def test_token_batch_leaves_unknown_tokens_out(caller, world):
    keys = [
        {"chain": "eth", "address": world.young},
        {"chain": world.strange_chain, "address": "0x1"},
        {"chain": "eth", "address": world.token},
    ]
    answer = caller.http.post("/v0/tokens/metadata", json=keys).json()
    assert [token["metadata"]["symbol"] for token in answer] == ["YNG", "ALP"]


def test_empty_token_batch_is_empty_and_free(caller):
    answer = caller.http.post("/v0/tokens/metadata", json=[])
    assert (answer.status_code, answer.json(), answer.headers["X-Credits-Cost"]) == (200, [], "0.00")


def test_subgraph_has_indexed_tokens_and_the_context_token(caller, world):
    def tokens(**context: Any) -> set[str]:
        body = {"addresses": list(world.wallets), **context}
        answer = caller.http.post("/v0/relationships/subgraph", json=body).json()
        return {item["data"]["token_key"]["address"] for item in answer}

    assert tokens() == {world.token}
    assert tokens(context_token_key=None) == {world.token}
    assert tokens(context_token_key={"chain": "eth", "address": world.young}) == {world.token, world.young}


def test_score_has_one_name(caller, world):
    scores = caller.http.get(f"/v0/tokens/map/eth/{world.token}").json()["metrics"]["scores"]
    assert [name for name in scores if name.endswith("_score")] == ["service_score"]
