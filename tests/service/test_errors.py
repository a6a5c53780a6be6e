"""Errors of the contract's table, through the service."""

from __future__ import annotations

import shutil
import sqlite3
from pathlib import Path
from random import Random
from typing import Any

import httpx
import pytest

from holderlake.core.contract.errors import ERROR_KINDS
from holderlake.core.contract.models import ValidationItem
from holderlake.engine.store.rebuild import rebuild
from holderlake.engine.store.store import Store
from holderlake.service.billing.keys import KeyStore
from holderlake.service.run import BackgroundService
from holderlake.service.settings import ServiceSettings
from tests.helpers.damage import damage


def _is(answer: httpx.Response, code: str) -> bool:
    """Return whether an answer is the contract's error with this code."""
    body = answer.json()
    assert answer.headers["content-type"] == "application/json"
    assert set(body) == {"detail", "code"}
    if code == "invalid_request":
        assert [ValidationItem.model_validate(item) for item in body["detail"]]
    else:
        assert isinstance(body["detail"], str) and body["detail"]
    return (answer.status_code, body["code"]) == (ERROR_KINDS[code].status, code)


# ------------------------------------------------------------------------ 401, 403


def test_missing_key_gets_a_challenge(service):
    answer = httpx.get(f"{service.base_url}/v0/chains", timeout=None, verify=False)
    assert _is(answer, "missing_key")
    assert answer.headers["WWW-Authenticate"] == "ApiKey"
    assert _is(
        httpx.get(f"{service.base_url}/v0/chains", headers={"X-ApiKey": ""}, timeout=None, verify=False), "missing_key"
    )


def test_revoked_key_is_refused(caller):
    assert caller.http.get("/v0/chains").status_code == 200
    caller.keys.revoke(caller.key.prefix)
    assert _is(caller.http.get("/v0/chains"), "invalid_key")


@pytest.mark.parametrize(
    ("method", "path", "content"),
    [
        ("GET", "/v0/tokens/map/eth/0x1?limit=7", b""),
        ("GET", "/v0/tokens/map/no-such-chain/0x1", b""),
        ("GET", "/v0/tokens/search", b""),
        ("POST", "/v0/relationships/subgraph", b"{not json"),
        ("POST", "/v0/addresses/metadata", b"{}"),
    ],
)
def test_key_is_checked_before_anything_else(service, method, path, content):
    headers = {"content-type": "application/json"}
    answer = httpx.request(
        method, f"{service.base_url}{path}", content=content, headers=headers, verify=False, timeout=None
    )
    assert _is(answer, "missing_key")


def test_address_metadata_requires_a_custom_plan(caller, world):
    assert _is(caller.http.get(f"/v0/addresses/metadata/{world.cex}"), "plan_required")
    assert _is(caller.http.post("/v0/addresses/metadata", json={"addresses": [world.cex]}), "plan_required")
    assert _is(caller.http.post("/v0/addresses/metadata", content=b"{"), "plan_required")
    assert _is(caller.http.get(f"/v0/x/addresses/labels/{world.cex}"), "plan_required")


# ------------------------------------------------------------------------ 400, 404, 405, 410


@pytest.mark.parametrize("kind", ["map", "metrics", "holders"])
def test_unsupported_token_reports_the_reason(caller, world, kind):
    answer = caller.http.get(f"/v0/tokens/{kind}/eth/{world.unsupported}")
    assert _is(answer, "unsupported_token")
    assert "rebase" in answer.json()["detail"]


@pytest.mark.parametrize("kind", ["map", "metrics", "holders", "metadata"])
def test_unknown_token_is_not_found(caller, kind):
    assert _is(caller.http.get(f"/v0/tokens/{kind}/eth/0x{'f' * 40}"), "unknown_token")


@pytest.mark.parametrize("kind", ["map", "holders"])
def test_time_before_the_first_holder_is_not_found(caller, world, kind):
    query = {"timestamp": world.begin - 1}
    assert _is(caller.http.get(f"/v0/tokens/{kind}/eth/{world.token}", params=query), "no_holders")


@pytest.mark.parametrize(
    ("path", "replacement"),
    [
        ("/chains", "/v0/chains"),
        ("/maps/eth/0x1", "/v0/tokens/map/"),
        ("/maps/eth/0x1?return_nodes=true", "/v0/tokens/map/"),
    ],
)
def test_removed_endpoints_name_their_replacement(service, path, replacement):
    answer = httpx.get(f"{service.base_url}{path}", verify=False, timeout=None)
    assert _is(answer, "removed")
    assert replacement in answer.json()["detail"]


# ------------------------------------------------------------------------ 413, 422


def _items(answer: httpx.Response) -> list[list[object]]:
    assert _is(answer, "invalid_request")
    return [item["loc"] for item in answer.json()["detail"]]


@pytest.mark.parametrize("kind", ["map", "metrics", "holders", "metadata"])
def test_unknown_chain_in_a_path_lists_the_known_ones(caller, world, kind):
    answer = caller.http.get(f"/v0/tokens/{kind}/atlantis/{world.token}")
    assert _items(answer) == [["path", "chain"]]
    assert "eth" in answer.json()["detail"][0]["msg"]


@pytest.mark.parametrize(
    ("path", "body", "where"),
    [
        ("/v0/tokens/metadata", [{"chain": "eth", "address": "0x1"}, {"chain": "atlantis", "address": "0x1"}], [1]),
        (
            "/v0/relationships/subgraph",
            {"addresses": ["0x1", "0x2"], "context_token_key": {"chain": "atlantis", "address": "0x1"}},
            ["context_token_key"],
        ),
    ],
)
def test_unknown_chain_in_a_body_is_invalid_and_free(caller, path, body, where):
    answer = caller.http.post(path, json=body)
    assert _items(answer) == [["body", *where, "chain"]]
    assert "eth" in answer.json()["detail"][0]["msg"]
    assert (caller.spent, caller.reserved) == (0, 0)


@pytest.mark.parametrize(
    ("method", "path", "options", "message"),
    [
        ("GET", "/v0/tokens/map/eth/0x1", {"params": {"limit": "81"}}, "Must be 80, 250 or 500"),
        ("GET", "/v0/tokens/map/eth/0x1", {"params": {"refresh": "perhaps"}}, "Must be true or false"),
        ("GET", "/v0/tokens/map/eth/0x1", {"params": {"timestamp": "-1"}}, "Must be 0 or more"),
        ("GET", "/v0/tokens/map/eth/0x1", {"params": {"timestamp": "soon"}}, "Must be a whole number"),
        ("GET", "/v0/tokens/search", {}, "Required"),
        ("GET", "/v0/tokens/search", {"params": {"query": "a"}}, "Must have 2 characters or more"),
        ("POST", "/v0/relationships/subgraph", {}, "A JSON body is required"),
        ("POST", "/v0/relationships/subgraph", {"content": b"{"}, "The body is not valid JSON: "),
        (
            "POST",
            "/v0/relationships/subgraph",
            {"content": b'["NaN", NaN]'},
            "The body is not valid JSON: NaN at character 9",
        ),
        (
            "POST",
            "/v0/relationships/subgraph",
            {"content": b'{"a": 1, "a": 2}'},
            "The body is not valid JSON: an object has the name 'a'",
        ),
        (
            "POST",
            "/v0/relationships/subgraph",
            {"json": {"addresses": ["0x1"]}},
            "Must have 2 items or more, but has 1",
        ),
        ("POST", "/v0/relationships/subgraph", {"json": {"addresses": ["a b", "0x2"]}}, "Must be an address: "),
        ("POST", "/v0/relationships/subgraph", {"json": {"addresses": "0x1"}}, "Must be a list"),
        ("POST", "/v0/tokens/metadata", {"json": [{"chain": "a b", "address": "0x1"}]}, "Must be a chain id: "),
        ("POST", "/v0/tokens/metadata", {"json": ["0x1"]}, "Must be an object"),
    ],
)
def test_message_of_a_validation_error(caller, method, path, options, message):
    answer = caller.http.request(method, path, headers={"content-type": "application/json"}, **options)
    assert _is(answer, "invalid_request")
    assert answer.json()["detail"][0]["msg"].startswith(message)


@pytest.mark.parametrize(
    ("path", "count"),
    [
        ("/v0/relationships/subgraph", 1_000),
        ("/v0/addresses/metadata", 1),
        ("/v0/addresses/metadata", 2_500),
        ("/v0/tokens/metadata", 1_000),
    ],
)
def test_the_largest_batches_are_accepted(custom, path, count):
    addresses = [f"0x{number:040x}" for number in range(count)]
    tokens = [{"chain": "eth", "address": address} for address in addresses]
    body: Any = tokens if path == "/v0/tokens/metadata" else {"addresses": addresses}
    assert custom.http.post(path, json=body).status_code == 200


# ------------------------------------------------------------------------ 429, 500, 503


def test_exhausted_credits_name_the_renewal_day(service):
    caller = service.caller(allowance=60)
    assert caller.http.get("/v0/tokens/search", params={"query": "alpha"}).status_code == 200
    answer = caller.http.get("/v0/tokens/search", params={"query": "alpha"})
    assert _is(answer, "credits_exhausted")
    assert caller.keys.balance(caller.key.id).renews_on.isoformat() in answer.json()["detail"]
    assert "0.50 credits and 0.10 are left" in answer.json()["detail"]
    assert "Retry-After" not in answer.headers


def test_rate_limited_calls_get_retry_after(start):
    running = start(settings=ServiceSettings(calls_per_minute=3))
    # Of eight calls more than three are in one minute, even if a minute ends between them.
    answers = [httpx.get(f"{running.base_url}/v0/chains", timeout=None, verify=False) for _ in range(8)]
    refused = [answer for answer in answers if answer.status_code == 429]
    assert refused
    for answer in refused:
        assert _is(answer, "rate_limited")
        assert 1 <= int(answer.headers["Retry-After"]) <= 60


@pytest.fixture
def own_service(world, tmp_path: Path):
    """A service over its own store: the caller, the store and a key."""
    shutil.copytree(world.store.root, tmp_path / "store")
    with (
        Store(tmp_path / "store") as store,
        KeyStore(tmp_path / "keys.sqlite") as keys,
        BackgroundService(store, keys) as service,
    ):
        yield service, store, keys.create("test", 10**6)


def test_internal_error_is_free_and_shows_no_details(own_service, world, tmp_path, caplog):
    service, store, secret = own_service
    store.close()
    answer = httpx.get(
        f"{service.base_url}/v0/tokens/holders/eth/{world.token}", headers={"X-ApiKey": secret}, timeout=None
    )
    assert _is(answer, "internal_error")
    assert "closed" not in answer.text and str(tmp_path) not in answer.text
    with KeyStore(tmp_path / "keys.sqlite") as keys:
        balance = keys.balance(keys.keys()[0].id)
        assert (balance.spent, balance.reserved) == (0, 0)
    assert "/v0/tokens/holders/{chain}/{token_address} failed" in caplog.text
    assert secret not in caplog.text


def test_damaged_store_is_answered_503_and_logged(own_service, world, tmp_path, caplog):
    service, store, secret = own_service
    path = f"{service.base_url}/v0/tokens/holders/eth/{world.token}"
    first = httpx.get(path, headers={"X-ApiKey": secret}, params={"limit": 80}, timeout=None, verify=False)
    assert first.status_code == 200
    for part in (store.root / "balances").iterdir():
        damage(part, Random(1), "flip")
    answer = httpx.get(path, headers={"X-ApiKey": secret}, params={"limit": 250}, timeout=None, verify=False)
    assert _is(answer, "unavailable")
    assert "balances" not in answer.text and str(tmp_path) not in answer.text
    assert "changed since it was written" in caplog.text and "'holderlake store rebuild' to repair it" in caplog.text
    rebuild(store.root)
    again = httpx.get(path, headers={"X-ApiKey": secret}, params={"limit": 80}, timeout=None, verify=False)
    assert again.json() == first.json()


def test_locked_key_database_is_answered_503(start, tmp_path: Path):
    with KeyStore(tmp_path / "held.sqlite", busy_seconds=0.05) as keys:
        running = start(keys)
        caller = running.caller()
        other = sqlite3.connect(tmp_path / "held.sqlite", isolation_level=None)
        other.execute("BEGIN IMMEDIATE")
        answer = caller.http.get("/v0/chains")
        other.execute("ROLLBACK")
        other.close()
        assert _is(answer, "unavailable")
        assert int(answer.headers["Retry-After"]) >= 1
        assert caller.http.get("/v0/chains").status_code == 200
        assert (caller.spent, caller.reserved) == (1, 0)
