"""Cached answers: lifetimes, invalidation, conditional requests and size."""

from __future__ import annotations

import asyncio
import socket
import threading
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from typing import Any
from urllib.parse import urlsplit

import httpx
import pytest

from holderlake.core.contract import requests
from holderlake.engine.records import Label
from holderlake.engine.store.store import Store
from holderlake.service.api.backend import Backend
from holderlake.service.api.metering import _ChargedResponse
from holderlake.service.billing.charges import ChargeRequest
from holderlake.service.billing.keys import KeyStore
from holderlake.service.cache import AnswerCache, EncodedAnswer, lifetime_of
from holderlake.service.settings import ServiceSettings
from tests.helpers.processes import wait_until
from tests.service.conftest import DAY, UNIT, World, transfers_table


@pytest.fixture
def caller(own_world, start):
    """A caller of a service over the test's own world."""
    return start(store=own_world.store).caller()


def _map(caller, world: World, **query: Any) -> httpx.Response:
    answer = caller.http.get(f"/v0/tokens/map/eth/{world.token}", params={"return_nodes": True, **query})
    assert answer.status_code == 200
    return answer


# ------------------------------------------------------------------------ how long


@pytest.mark.integration
def test_equal_requests_get_equal_bytes_and_price(caller, own_world):
    first, second = _map(caller, own_world), _map(caller, own_world)
    assert second.content == first.content
    assert second.headers["X-Dt-Update"] == first.headers["X-Dt-Update"]
    assert second.headers["X-Credits-Cost"] == first.headers["X-Credits-Cost"] == "50.00"
    assert caller.spent == 2 * 50_00


@pytest.mark.integration
def test_refresh_replaces_the_cached_answer(caller, own_world):
    first, fresh = _map(caller, own_world), _map(caller, own_world, refresh=True)
    assert fresh.headers["X-Dt-Update"] > first.headers["X-Dt-Update"]
    assert _map(caller, own_world).headers["X-Dt-Update"] == fresh.headers["X-Dt-Update"]


@pytest.mark.integration
def test_present_answer_expires(start, own_world):
    settings = ServiceSettings(lifetimes={"older": "0s"})
    caller = start(settings=settings, store=own_world.store).caller()
    first, second = _map(caller, own_world), _map(caller, own_world)
    assert second.headers["X-Dt-Update"] > first.headers["X-Dt-Update"]


@pytest.mark.integration
def test_history_answer_does_not_expire(start, own_world):
    caller = start(settings=ServiceSettings(lifetimes={"older": "0s"}), store=own_world.store).caller()
    past = {"timestamp": own_world.begin + 2 * DAY}
    assert _map(caller, own_world, **past).content == _map(caller, own_world, **past).content


@pytest.mark.parametrize(
    ("age", "kept"),
    [(0, 30), (3_599, 30), (3_600, 300), (DAY - 1, 300), (DAY, 3_600), (30 * DAY, 6 * 3_600), (10**9, 6 * 3_600)],
)
def test_lifetime_grows_with_the_tokens_age(age, kept):
    assert lifetime_of(age, ServiceSettings().lifetime_table) == kept


@pytest.mark.integration
def test_future_timestamp_shares_the_present_entry(caller, own_world):
    now = _map(caller, own_world)
    assert _map(caller, own_world, timestamp=4_000_000_000).content == now.content


# ------------------------------------------------------------------------ what ends it


@pytest.mark.integration
def test_late_transfers_drop_answers_whose_past_they_change(caller, own_world):
    early, late = own_world.begin + 2 * DAY, own_world.begin + 6 * DAY
    before = {at: _map(caller, own_world, timestamp=at).content for at in (early, late)}
    move = (own_world.token, own_world.wallets[0], own_world.wallets[5], 50 * UNIT, 5 * DAY)
    own_world.store.add_transfers(transfers_table(own_world, [move], first=500), "late")
    assert _map(caller, own_world, timestamp=early).content == before[early]
    assert _map(caller, own_world, timestamp=late).content != before[late]


@pytest.mark.integration
def test_late_transfers_of_another_token_drop_answers_too(caller, own_world):
    past = own_world.begin + 6 * DAY
    before = _map(caller, own_world, timestamp=past).json()
    move = (own_world.young, own_world.wallets[0], own_world.wallets[4], UNIT, 5 * DAY)
    own_world.store.add_transfers(transfers_table(own_world, [move], first=500), "late")
    degree = [node["address_details"]["degree"] for node in before["nodes"]["top_holders"]]
    after = _map(caller, own_world, timestamp=past).json()
    assert [node["address_details"]["degree"] for node in after["nodes"]["top_holders"]] != degree


@pytest.mark.integration
def test_new_label_drops_every_answer(caller, own_world):
    past = own_world.begin + 6 * DAY
    assert _map(caller, own_world, timestamp=past).json()["metrics"]["supply_stats"]["dexs"] == 0
    own_world.store.add_labels([Label(own_world.wallets[0], "eth", "late", "A Pool", is_dex=True)])
    assert _map(caller, own_world, timestamp=past).json()["metrics"]["supply_stats"]["dexs"] > 0


@pytest.mark.integration
def test_repeated_import_drops_no_answer(caller, own_world):
    past = own_world.begin + 6 * DAY
    before = _map(caller, own_world, timestamp=past)
    own_world.store.add_labels([Label(own_world.cex, "eth", "test", "Some Exchange", "some-exchange", is_cex=True)])
    assert _map(caller, own_world, timestamp=past).headers["X-Dt-Update"] == before.headers["X-Dt-Update"]


# ------------------------------------------------------------------------ once for many, and not again


@pytest.mark.integration
def test_equal_concurrent_requests_share_one_computation(start, own_world, monkeypatch):
    quick, all_wait = Store.token, threading.Event()

    def slow(store, chain, address):
        all_wait.wait()
        return quick(store, chain, address)

    def metrics() -> str:
        return httpx.get(f"{service.base_url}/metrics", timeout=None, verify=False).text

    monkeypatch.setattr(Store, "token", slow)
    service = start(store=own_world.store)
    callers = [service.caller() for _ in range(16)]
    with ThreadPoolExecutor(16) as pool:
        answers = pool.map(lambda caller: _map(caller, own_world, limit=250), callers)
        try:
            wait_until(lambda: "holderlake_requests_in_progress 17.0" in metrics())  # with its own
        finally:
            all_wait.set()
        answers = list(answers)
    assert len({answer.headers["X-Dt-Update"] for answer in answers}) == 1
    reported = metrics()
    assert 'holderlake_cache_lookups_total{outcome="miss"} 1.0' in reported
    assert 'holderlake_cache_lookups_total{outcome="shared"}' in reported
    assert all(caller.spent == 100_00 for caller in callers)


@pytest.mark.integration
def test_matching_etag_gets_a_free_304(caller, own_world):
    first = _map(caller, own_world)
    again = caller.http.get(first.request.url, headers={"If-None-Match": f'"other", W/{first.headers["ETag"]}'})
    assert (again.status_code, again.content) == (304, b"")
    assert again.headers["ETag"] == first.headers["ETag"]
    assert again.headers["X-Credits-Cost"] == "0.00"
    assert caller.spent == 50_00


@pytest.mark.integration
def test_matching_etag_of_an_uncached_answer_gets_a_free_304(caller):
    first = caller.http.get("/v0/chains")
    again = caller.http.get("/v0/chains", headers={"If-None-Match": first.headers["ETag"]})
    assert again.status_code == 304
    assert caller.spent == 1


@pytest.mark.parametrize(
    "tags",
    ['"0"', pytest.param("*", marks=pytest.mark.integration), pytest.param('"0", *', marks=pytest.mark.integration)],
)
def test_other_etag_gets_the_answer_and_is_charged(caller, own_world, tags):
    assert caller.http.get("/v0/chains", headers={"If-None-Match": tags}).status_code == 200
    assert caller.spent == 1


def test_caller_that_hangs_up_pays_for_the_answer(caller, own_world):
    address = urlsplit(str(caller.http.base_url))
    head = f"GET /v0/tokens/map/eth/{own_world.token} HTTP/1.1\r\nHost: a\r\nX-ApiKey: {caller.secret}\r\n\r\n"
    with socket.create_connection((address.hostname, address.port)) as connection:
        connection.sendall(head.encode())
    wait_until(lambda: caller.spent > 0)


@pytest.mark.parametrize(("is_sent", "spent"), [(True, 2_000), (False, 0)])
def test_answer_is_charged_only_if_it_was_sent(own_world, tmp_path, is_sent, spent):
    async def answer(backend, key):
        charge = await backend.billing.reserve(ChargeRequest(key.id, "map", 2_000))
        request = requests.MapRequest(chain="eth", token_address="native")
        response = _ChargedResponse(backend, _written(10, own_world), request, charge)

        async def send(_):
            if not is_sent:
                raise OSError("the service has no socket")

        with suppress(OSError):
            await response({"type": "http"}, None, send)
        await backend.close()

    with KeyStore(tmp_path / "keys.sqlite") as keys:
        key = keys.find(keys.create("caller", 10_000))
        asyncio.run(answer(Backend(own_world.store, keys, ServiceSettings()), key))
        balance = keys.balance(key.id)
    assert (balance.spent, balance.reserved) == (spent, 0)


@pytest.mark.integration
def test_formats_are_cached_separately(caller, own_world):
    path = f"/v0/tokens/holders/eth/{own_world.token}"
    as_json = caller.http.get(path)
    as_arrow = caller.http.get(path, headers={"Accept": "application/vnd.apache.arrow.stream"})
    assert as_arrow.headers["ETag"] != as_json.headers["ETag"]
    assert {as_json.headers["Vary"], as_arrow.headers["Vary"]} == {"Accept"}
    assert caller.http.get(path).content == as_json.content


# ------------------------------------------------------------------------ room


def _written(size: int, world: World) -> EncodedAnswer:
    return EncodedAnswer(b"x" * size, "application/json", 0, world.store.generation())


def test_least_recently_used_answer_is_evicted(own_world):
    cache = AnswerCache(own_world.store, 35_000)
    for number in range(3):
        cache.keep(number, _written(10_000, own_world), None)
    assert cache.find(0)
    cache.keep(3, _written(10_000, own_world), None)
    assert cache.find(0) and not cache.find(1)


@pytest.mark.integration
def test_answer_larger_than_the_cache_is_not_kept(own_world):
    cache = AnswerCache(own_world.store, 5_000)
    cache.keep("large", _written(10_000, own_world), None)
    assert cache.bytes_held == 0


@pytest.mark.integration
def test_outdated_answer_is_not_kept(own_world):
    cache = AnswerCache(own_world.store, 100_000)
    before = own_world.store.generation()
    move = (own_world.token, own_world.wallets[0], own_world.wallets[5], UNIT, 5 * DAY)
    own_world.store.add_transfers(transfers_table(own_world, [move], first=500), "late")
    cache.keep("old", EncodedAnswer(b"", "application/json", own_world.begin + 9 * DAY, before), None)
    assert cache.find("old") is None
