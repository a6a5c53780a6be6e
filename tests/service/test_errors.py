"""Every error of the contract's table that applies, as a caller sees it."""

from __future__ import annotations

import shutil
import sqlite3
from pathlib import Path
from random import Random

import httpx
import pytest

from holderlake.contract import exact_json
from holderlake.contract.errors import ERROR_KINDS
from holderlake.contract.models import HTTPValidationError
from holderlake.engine.store.rebuild import rebuild
from holderlake.engine.store.store import Store
from holderlake.service.billing.keys import KeyStore
from holderlake.service.run import BackgroundService
from holderlake.settings.sections.service import ServiceSettings
from tests.damage import damage


def _is(answer: httpx.Response, code: str) -> bool:
    """Whether an answer is the contract's error of that code."""
    body = answer.json()
    assert answer.headers["content-type"] == "application/json"
    assert set(body) == {"detail", "code"}
    if code == "invalid_request":
        exact_json.decode(answer.content, HTTPValidationError)
    else:
        assert isinstance(body["detail"], str) and body["detail"]
    return (answer.status_code, body["code"]) == (ERROR_KINDS[code].status, code)


# ------------------------------------------------------------------------ 401, 403


def test_a_request_without_a_key_is_told_how_to_bring_one(service):
    answer = httpx.get(f"{service.base_url}/v0/chains")
    assert _is(answer, "missing_key")
    assert answer.headers["WWW-Authenticate"] == "ApiKey"
    assert _is(httpx.get(f"{service.base_url}/v0/chains", headers={"X-ApiKey": ""}), "missing_key")


@pytest.mark.parametrize("secret", ["nonsense", "hl_00000000_" + "0" * 48, "hl__", "héllo", "x" * 10_000])
def test_an_unknown_key_is_refused(service, secret):
    answer = httpx.get(f"{service.base_url}/v0/chains", headers={"X-ApiKey": secret.encode("latin-1")})
    assert _is(answer, "invalid_key")
    assert answer.headers["WWW-Authenticate"] == "ApiKey"


def test_a_key_with_the_right_prefix_and_a_wrong_rest_is_refused(caller):
    wrong = caller.secret[:-1] + ("0" if caller.secret[-1] != "0" else "1")
    assert _is(caller.http.get("/v0/chains", headers={"X-ApiKey": wrong}), "invalid_key")


def test_a_revoked_key_is_refused_from_then_on(caller):
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
def test_the_key_comes_before_any_other_fault(service, method, path, content):
    headers = {"content-type": "application/json"}
    answer = httpx.request(method, f"{service.base_url}{path}", content=content, headers=headers, verify=False)
    assert _is(answer, "missing_key")


def test_addresses_are_for_custom_plans_only(caller, world):
    assert _is(caller.http.get(f"/v0/addresses/metadata/{world.cex}"), "plan_required")
    assert _is(caller.http.post("/v0/addresses/metadata", json={"addresses": [world.cex]}), "plan_required")
    assert _is(caller.http.post("/v0/addresses/metadata", content=b"{"), "plan_required")


# ------------------------------------------------------------------------ 400, 404, 405, 410


@pytest.mark.parametrize("kind", ["map", "metrics", "holders"])
def test_a_token_that_no_map_can_be_made_for_says_why(caller, world, kind):
    answer = caller.http.get(f"/v0/tokens/{kind}/eth/{world.unsupported}")
    assert _is(answer, "unsupported_token")
    assert "rebase" in answer.json()["detail"]


@pytest.mark.parametrize("kind", ["map", "metrics", "holders", "metadata"])
def test_an_unknown_token_is_not_found(caller, kind):
    assert _is(caller.http.get(f"/v0/tokens/{kind}/eth/0x{'f' * 40}"), "unknown_token")


@pytest.mark.parametrize("kind", ["map", "holders"])
def test_before_the_first_holder_there_are_none(caller, world, kind):
    query = {"timestamp": world.begin - 1}
    assert _is(caller.http.get(f"/v0/tokens/{kind}/eth/{world.token}", params=query), "no_holders")


@pytest.mark.parametrize("path", ["/", "/v0", "/v0/chains/", "/v0/tokens/portrait/eth/0x1", "/v1/chains"])
def test_there_is_nothing_at_an_unknown_path(caller, path):
    assert _is(caller.http.get(path), "not_found")


def test_a_wrong_method_names_the_right_one(caller):
    answer = caller.http.delete("/v0/chains")
    assert _is(answer, "method_not_allowed")
    assert answer.headers["allow"] == "GET"


@pytest.mark.parametrize(
    ("path", "replacement"),
    [
        ("/chains", "/v0/chains"),
        ("/maps/eth/0x1", "/v0/tokens/map/"),
        ("/maps/eth/0x1?return_nodes=true", "/v0/tokens/map/"),
    ],
)
def test_removed_endpoints_name_their_replacement_without_a_key(service, path, replacement):
    answer = httpx.get(f"{service.base_url}{path}", verify=False)
    assert _is(answer, "removed")
    assert replacement in answer.json()["detail"]


# ------------------------------------------------------------------------ 413, 422


def _items(answer: httpx.Response) -> list[list[object]]:
    assert _is(answer, "invalid_request")
    return [item["loc"] for item in answer.json()["detail"]]


@pytest.mark.parametrize("kind", ["map", "holders"])
@pytest.mark.parametrize("limit", ["81", "0", "-80", "many", "80.5", "", "²", "9" * 5_000])
def test_a_limit_outside_the_three_is_invalid(caller, world, kind, limit):
    answer = caller.http.get(f"/v0/tokens/{kind}/eth/{world.token}", params={"limit": limit})
    assert _items(answer) == [["query", "limit"]]


@pytest.mark.parametrize("kind", ["map", "holders"])
@pytest.mark.parametrize("limit", ["80", "250", "500"])
def test_each_of_the_three_limits_is_valid(caller, world, kind, limit):
    answer = caller.http.get(f"/v0/tokens/{kind}/eth/{world.token}", params={"limit": limit})
    assert answer.status_code == 200


@pytest.mark.parametrize("kind", ["map", "holders"])
@pytest.mark.parametrize("timestamp", ["-1", "yesterday", "1.5", "2026-11-20", "9" * 5_000])
def test_a_timestamp_that_is_no_unix_second_is_invalid(caller, world, kind, timestamp):
    answer = caller.http.get(f"/v0/tokens/{kind}/eth/{world.token}", params={"timestamp": timestamp})
    assert _items(answer) == [["query", "timestamp"]]


@pytest.mark.parametrize("kind", ["map", "metrics", "holders", "metadata"])
def test_an_unknown_chain_in_the_path_is_invalid_and_the_known_ones_are_named(caller, world, kind):
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
def test_an_unknown_chain_in_a_body_is_invalid_and_costs_nothing(caller, path, body, where):
    answer = caller.http.post(path, json=body)
    assert _items(answer) == [["body", *where, "chain"]]
    assert "eth" in answer.json()["detail"][0]["msg"]
    assert (caller.spent, caller.reserved) == (0, 0)


@pytest.mark.parametrize(
    ("path", "body", "where"),
    [
        ("/v0/relationships/subgraph", {"addresses": ["0x1", "0x2"], "context_token": None}, ["context_token"]),
        (
            "/v0/relationships/subgraph",
            {"addresses": ["0x1", "0x2"], "context_token_key": {"chain": "eth", "address": "0x1", "id": "ETH"}},
            ["context_token_key", "id"],
        ),
        ("/v0/addresses/metadata", {"addresses": ["0x1"], "chain": "eth"}, ["chain"]),
        ("/v0/tokens/metadata", [{"chain": "eth", "address": "0x1", "name": "A"}], [0, "name"]),
    ],
)
def test_an_unknown_field_of_a_body_is_refused_and_costs_nothing(custom, path, body, where):
    answer = custom.http.post(path, json=body)
    assert _items(answer) == [["body", *where]]
    assert answer.json()["detail"][0]["msg"] == "Unknown field"
    assert (custom.spent, custom.reserved) == (0, 0)


@pytest.mark.parametrize(
    ("method", "path", "given", "said"),
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
            {"json": {"addresses": ["0x1"]}},
            "Must have 2 items or more, but has 1",
        ),
        ("POST", "/v0/relationships/subgraph", {"json": {"addresses": ["a b", "0x2"]}}, "Must be an address: "),
        ("POST", "/v0/relationships/subgraph", {"json": {"addresses": "0x1"}}, "Must be a list"),
        ("POST", "/v0/tokens/metadata", {"json": [{"chain": "a b", "address": "0x1"}]}, "Must be a chain id: "),
        ("POST", "/v0/tokens/metadata", {"json": ["0x1"]}, "Must be an object"),
    ],
)
def test_a_validation_error_is_worded_for_the_caller(caller, method, path, given, said):
    answer = caller.http.request(method, path, headers={"content-type": "application/json"}, **given)
    assert _is(answer, "invalid_request")
    assert answer.json()["detail"][0]["msg"].startswith(said)


def test_a_flag_that_is_neither_true_nor_false_is_invalid(caller, world):
    answer = caller.http.get(f"/v0/tokens/map/eth/{world.token}", params={"return_nodes": "perhaps"})
    assert _items(answer) == [["query", "return_nodes"]]


@pytest.mark.parametrize("query", [{}, {"query": "a"}, {"query": "a" * 257}, {"text": "alpha"}])
def test_a_search_needs_two_characters(caller, query):
    assert _items(caller.http.get("/v0/tokens/search", params=query)) == [["query", "query"]]


@pytest.mark.parametrize(
    "content",
    [
        b"",
        b"{",
        b'{"addresses": [',
        b"null",
        b"[]",
        b"<html></html>",
        b"\xff\xfe\x00",
        b'{"addresses": ["0x1", "\\ud800"]}',
        b'{"addresses": ["0x1", NaN]}',
        b'{"addresses": ["0x1", 1e999]}',
        b'{"addresses": ["0x1", ' + b"9" * 5_000 + b"]}",
        b"[" * 100_000,
    ],
)
@pytest.mark.parametrize("path", ["/v0/relationships/subgraph", "/v0/addresses/metadata"])
def test_a_body_that_is_not_what_it_should_be_is_invalid(custom, path, content):
    answer = custom.http.post(path, content=content, headers={"content-type": "application/json"})
    assert _is(answer, "invalid_request")
    assert (custom.spent, custom.reserved) == (0, 0)


def test_a_body_that_does_not_say_what_it_is_is_taken_for_json(custom):
    answer = custom.http.post("/v0/addresses/metadata", content=b'{"addresses":["0x1"]}')
    assert answer.status_code == 200


@pytest.mark.parametrize(
    "body",
    [
        b'{"addresses": ["0x1"], "addresses": ["0x2"]}',
        b'{"addresses": ["0x1", NaN]}',
        b'{"addresses": ["\\ud800"]}',
        b'{"addresses": ["\xff"]}',
        b"[" * 100_000,
        b'{"addresses": ' + b"1" * 5_000 + b"}",
    ],
)
def test_json_that_two_readers_could_understand_in_two_ways_is_invalid(custom, body):
    answer = custom.http.post("/v0/addresses/metadata", content=body)
    assert _is(answer, "invalid_request")
    assert custom.spent == 0


@pytest.mark.parametrize("count", [0, 1, 1_001])
def test_a_subgraph_takes_2_to_1000_addresses(caller, count):
    body = {"addresses": [f"0x{number:040x}" for number in range(count)]}
    assert _is(caller.http.post("/v0/relationships/subgraph", json=body), "invalid_request")


@pytest.mark.parametrize(("count", "status"), [(0, 422), (1, 200), (2_500, 200), (2_501, 422)])
def test_an_address_batch_takes_1_to_2500(custom, count, status):
    body = {"addresses": [f"0x{number:040x}" for number in range(count)]}
    assert custom.http.post("/v0/addresses/metadata", json=body).status_code == status


@pytest.mark.parametrize(("count", "status"), [(1_000, 200), (1_001, 422)])
def test_a_token_batch_takes_at_most_1000(caller, count, status):
    body = [{"chain": "eth", "address": f"0x{number:040x}"} for number in range(count)]
    assert caller.http.post("/v0/tokens/metadata", json=body).status_code == status


def test_a_declared_body_beyond_the_limit_is_too_large(start):
    caller = start(settings=ServiceSettings(body_limit=1_024)).caller()
    assert _is(caller.http.post("/v0/tokens/metadata", content=b" " * 1_025), "body_too_large")
    fitting = b"[]".ljust(1_024)
    headers = {"content-type": "application/json"}
    assert caller.http.post("/v0/tokens/metadata", content=fitting, headers=headers).status_code == 200


def test_a_streamed_body_is_too_large_once_it_has_grown_past_the_limit(start):
    caller = start(settings=ServiceSettings(body_limit=1_024)).caller()
    answer = caller.http.post("/v0/tokens/metadata", content=(b" " * 103 for _ in range(11)))
    assert "content-length" not in answer.request.headers
    assert _is(answer, "body_too_large")
    assert caller.http.post("/v0/tokens/metadata", content=iter([b"[", b"]"])).status_code == 200


def test_the_body_limit_is_a_mebibyte_unless_set(caller):
    headers = {"content-type": "application/json"}
    fitting, beyond = (b"[]".ljust(size) for size in (1 << 20, (1 << 20) + 1))
    assert caller.http.post("/v0/tokens/metadata", content=fitting, headers=headers).status_code == 200
    assert _is(caller.http.post("/v0/tokens/metadata", content=beyond, headers=headers), "body_too_large")


# ------------------------------------------------------------------------ 429, 500, 503


def test_used_up_credits_name_the_day_they_renew(service):
    caller = service.caller(allowance=60)
    assert caller.http.get("/v0/tokens/search", params={"query": "alpha"}).status_code == 200
    answer = caller.http.get("/v0/tokens/search", params={"query": "alpha"})
    assert _is(answer, "credits_exhausted")
    assert caller.keys.balance(caller.key.id).renews_on.isoformat() in answer.json()["detail"]
    assert "0.50 credits and 0.10 are left" in answer.json()["detail"]
    assert "Retry-After" not in answer.headers


def test_too_many_calls_a_minute_are_told_when_to_come_back(start):
    running = start(settings=ServiceSettings(calls_per_minute=3))
    # Eight calls hold more than three of one minute, wherever the minute ends between them.
    answers = [httpx.get(f"{running.base_url}/v0/chains") for _ in range(8)]
    refused = [answer for answer in answers if answer.status_code == 429]
    assert refused
    for answer in refused:
        assert _is(answer, "rate_limited")
        assert 1 <= int(answer.headers["Retry-After"]) <= 60


@pytest.fixture
def own_service(world, tmp_path: Path):
    """A service over a store of its own: the service, the store and a key."""
    shutil.copytree(world.store.root, tmp_path / "store")
    with (
        Store(tmp_path / "store") as store,
        KeyStore(tmp_path / "keys.sqlite") as keys,
        BackgroundService(store, keys) as service,
    ):
        yield service, store, keys.create("test", 10**6)


def test_a_failure_shows_nothing_of_itself_and_costs_nothing(own_service, world, tmp_path, caplog):
    service, store, secret = own_service
    store.close()
    answer = httpx.get(f"{service.base_url}/v0/tokens/holders/eth/{world.token}", headers={"X-ApiKey": secret})
    assert _is(answer, "internal_error")
    assert "closed" not in answer.text and str(tmp_path) not in answer.text
    with KeyStore(tmp_path / "keys.sqlite") as keys:
        balance = keys.balance(keys.keys()[0].id)
        assert (balance.spent, balance.reserved) == (0, 0)
    assert "/v0/tokens/holders/{chain}/{token_address} failed" in caplog.text
    assert secret not in caplog.text


def test_flipped_bits_in_a_store_are_answered_503_and_logged(own_service, world, tmp_path, caplog):
    service, store, secret = own_service
    path = f"{service.base_url}/v0/tokens/holders/eth/{world.token}"
    first = httpx.get(path, headers={"X-ApiKey": secret}, params={"limit": 80})
    assert first.status_code == 200
    for part in (store.root / "arrays").glob("*.part"):
        damage(part, Random(1), "flip")
    answer = httpx.get(path, headers={"X-ApiKey": secret}, params={"limit": 250})
    assert _is(answer, "unavailable")
    assert ".part" not in answer.text and str(tmp_path) not in answer.text
    assert "changed since it was written" in caplog.text and "'holderlake store rebuild' to repair it" in caplog.text
    rebuild(store.root)
    again = httpx.get(path, headers={"X-ApiKey": secret}, params={"limit": 80})
    assert again.json() == first.json()


def test_a_key_file_that_another_process_holds_makes_the_service_unavailable(start, tmp_path: Path):
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
