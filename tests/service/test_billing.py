"""Prices and charges of requests, through the service."""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor

import pytest


def _calls(world):
    """Method, path, body and price in hundredths, from the contract's table."""
    token = f"eth/{world.token}"
    return [
        ("GET", "/v0/chains", None, 1),
        ("GET", f"/v0/tokens/map/{token}", None, 25_00),
        ("GET", f"/v0/tokens/map/{token}?limit=250", None, 75_00),
        ("GET", f"/v0/tokens/map/{token}?limit=500", None, 125_00),
        ("GET", f"/v0/tokens/map/{token}?return_nodes=true&refresh=true", None, 75_00),
        ("GET", f"/v0/tokens/map/{token}?timestamp={world.begin}", None, 75_00),
        ("GET", f"/v0/tokens/map/{token}?limit=500&return_nodes=1&refresh=1&timestamp={world.begin}", None, 225_00),
        ("GET", f"/v0/tokens/map/{token}?return_relationships=true&use_magic_nodes=false", None, 25_00),
        ("GET", f"/v0/tokens/metrics/{token}", None, 25_00),
        ("GET", f"/v0/tokens/holders/{token}", None, 1_00),
        ("GET", f"/v0/tokens/holders/{token}?limit=250", None, 11_00),
        ("GET", f"/v0/tokens/holders/{token}?limit=500&return_metadata=true", None, 51_00),
        ("GET", f"/v0/tokens/holders/{token}?refresh=true&timestamp={world.begin}", None, 76_00),
        ("GET", f"/v0/tokens/metadata/{token}", None, 10),
        ("GET", f"/v0/tokens/metadata/{token}?return_token_stats=true", None, 50),
        ("POST", "/v0/tokens/metadata", [{"chain": "eth", "address": world.token}] * 3, 30),
        ("POST", "/v0/tokens/metadata?return_token_stats=true", [{"chain": "eth", "address": "0x9"}], 50),
        ("GET", "/v0/tokens/search?query=alpha", None, 50),
        ("POST", "/v0/relationships/subgraph", {"addresses": list(world.wallets)}, 16_00),
        ("GET", f"/v0/addresses/metadata/{world.cex}", None, 1_00),
        ("POST", "/v0/addresses/metadata", {"addresses": list(world.wallets)}, 6_00),
    ]


@pytest.mark.long
def test_cost_of_every_endpoint_and_its_headers(custom, world):
    spent = 0
    for method, path, body, price in _calls(world):
        answer = custom.http.request(method, path, json=body)
        assert answer.status_code == 200, path
        spent += price
        left = custom.key.allowance - spent
        assert answer.headers["X-Credits-Cost"] == f"{price // 100}.{price % 100:02d}", path
        assert answer.headers["X-Credits-Remaining"] == f"{left // 100}.{left % 100:02d}", path
        assert custom.spent == spent
    assert custom.reserved == 0


def test_credits_in_headers_have_no_separators(service):
    caller = service.caller(allowance=1_234_567_89)
    assert caller.http.get("/v0/chains").headers["X-Credits-Remaining"] == "1234567.88"


def test_only_answers_are_charged(caller, world):
    token = f"eth/{world.token}"
    statuses = [
        caller.http.get(f"/v0/tokens/map/eth/{world.unsupported}").status_code,
        caller.http.get(f"/v0/tokens/map/eth/0x{'f' * 40}").status_code,
        caller.http.get(f"/v0/tokens/map/{token}?timestamp=1").status_code,
        caller.http.get(f"/v0/tokens/map/{token}?limit=81").status_code,
        caller.http.get(f"/v0/tokens/metadata/eth/0x{'f' * 40}").status_code,
        caller.http.get(f"/v0/addresses/metadata/{world.cex}").status_code,
        caller.http.post("/v0/relationships/subgraph", json={"addresses": []}).status_code,
        caller.http.post("/v0/tokens/metadata", content=b" " * (2 << 20)).status_code,
        caller.http.get("/chains").status_code,
        caller.http.delete("/v0/chains").status_code,
    ]
    assert statuses == [400, 404, 404, 422, 404, 403, 422, 413, 410, 405]
    assert (caller.spent, caller.reserved) == (0, 0)
    assert caller.keys.usage(caller.key.prefix) == []


def test_errors_have_no_credit_headers(caller):
    answer = caller.http.get(f"/v0/tokens/map/eth/0x{'f' * 40}")
    assert not [name for name in answer.headers if name.startswith("x-credits")]


def test_last_credit_can_be_spent(service):
    caller = service.caller(allowance=3)
    statuses = [caller.http.get("/v0/chains").status_code for _ in range(4)]
    assert statuses == [200, 200, 200, 429]
    assert caller.spent == 3


def test_refused_request_leaves_credits_for_a_cheaper_one(service, world):
    caller = service.caller(allowance=24_99)
    assert caller.http.get(f"/v0/tokens/map/eth/{world.token}").status_code == 429
    assert caller.http.get(f"/v0/tokens/holders/eth/{world.token}").status_code == 200


def test_failed_concurrent_requests_cost_nothing(service):
    caller = service.caller(allowance=16 * 10)

    def ask(number: int) -> int:
        return caller.http.get(f"/v0/tokens/metadata/eth/0x{number + 1:064x}").status_code

    with ThreadPoolExecutor(16) as pool:
        assert set(pool.map(ask, range(16))) == {404}
    assert caller.spent == 0  # waits until all reservations are released
    assert caller.keys.balance(caller.key.id).remaining == 16 * 10


@pytest.mark.parametrize("kind", ["map", "holders"])
def test_future_timestamp_has_the_history_surcharge(caller, world, kind):
    answer = caller.http.get(f"/v0/tokens/{kind}/eth/{world.token}", params={"timestamp": 4_102_444_800})
    assert answer.headers["X-Credits-Cost"] == {"map": "75.00", "holders": "51.00"}[kind]


def test_usage_is_counted_by_endpoint(custom, world):
    for _ in range(2):
        custom.http.get("/v0/chains")
    custom.http.get(f"/v0/addresses/metadata/{world.cex}")
    assert custom.spent == 1_02
    rows = [(row.endpoint, row.requests, row.credits) for row in custom.keys.usage(custom.key.prefix)]
    assert rows == [("address_metadata", 1, 1_00), ("chains", 2, 2)]
