"""Call counts shared by services, in windows that begin with a client's first call."""

from __future__ import annotations

import time
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor

import pytest

from holderlake.service.billing.keys import KeyStore
from tests.helpers.ledgers import Ledger


@pytest.fixture
def keys(ledger: Ledger) -> Iterator[KeyStore]:
    with ledger.open() as made:
        yield made


def _counts(counted: list[tuple[int, float]]) -> list[int]:
    return [calls for calls, _ in counted]


def test_each_call_of_a_batch_gets_its_own_count(keys):
    assert _counts(keys.count_calls(["a", "b", "a", "a"], 60)) == [1, 1, 2, 3]
    assert _counts(keys.count_calls(["b", "a", "c"], 60)) == [2, 4, 1]
    assert keys.count_calls([], 60) == []


def test_window_begins_with_the_first_call(keys):
    before = time.time()
    ((_, ends),) = keys.count_calls(["a"], 60)
    assert before + 60 - 0.1 <= ends <= time.time() + 60 + 0.1
    assert keys.count_calls(["a"], 60) == [(2, ends)]


@pytest.mark.integration
def test_count_restarts_after_the_window(keys):
    keys.count_calls(["a"], 1)
    (_, (_, ends)) = keys.count_calls(["a", "a"], 1)
    time.sleep(max(0.0, ends - time.time()) + 0.01)
    ((calls, later),) = keys.count_calls(["a"], 1)
    assert calls == 1
    assert later > ends + 0.9


def test_windows_of_different_lengths_are_separate(keys):
    keys.count_calls(["a"], 60)
    assert _counts(keys.count_calls(["a"], 3_600)) == [1]


def test_concurrent_services_count_exactly(keys, ledger):
    def work(number: int) -> None:
        store = (keys, other)[number % 2]
        store.count_calls(["a", "b", "c"] if number % 3 else ["c", "b", "a"], 60)

    with ledger.open() as other, ThreadPoolExecutor(8) as pool:
        list(pool.map(work, range(60)))
        assert _counts(other.count_calls(["a", "b", "c"], 60)) == [61] * 3


@pytest.mark.integration
def test_only_ended_windows_are_removed(keys):
    keys.count_calls(["a", "b"], 1)
    keys.count_calls(["a"], 60)
    time.sleep(1.01)
    assert keys._calls.sweep() == 2
    assert keys._calls.sweep() == 0
    assert _counts(keys.count_calls(["a"], 60)) == [2]


def test_database_holds_no_client_address(keys, ledger):
    keys.count_calls(["203.0.113.77", "any\x00thing"], 60)
    assert "203.0.113.77" not in ledger.kept()
