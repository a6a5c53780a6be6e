"""Balances below zero, and the times since when, equal brute force."""

from __future__ import annotations

import json
from collections import Counter

import pytest
from hypothesis import given

from holderlake.core.contract.chains import ZERO_ADDRESS
from holderlake.core.contract.times import from_unix, to_unix
from holderlake.engine.queries.negative_balances import negative_balances, negative_counts
from holderlake.engine.store.store import Store
from tests.engine.world import COIN, END, Key, Row, draw, histories, settled, table, transfer, world

Found = dict[str, tuple[int, int]]


def found(store: Store, at: int, token: Key = COIN) -> Found:
    rows = negative_balances(store, *token, from_unix(at)).to_pylist()
    assert [int(row["balance"]) for row in rows] == sorted(int(row["balance"]) for row in rows)
    return {row["address"]: (int(row["balance"]), to_unix(row["since"])) for row in rows}


def by_brute_force(rows: list[Row], at: int) -> Found:
    balances: Counter[str] = Counter()
    since: dict[str, int] = {}
    for second in sorted({row["block_time"] for row in rows if row["block_time"] <= at}):
        for row in rows:
            if row["block_time"] == second:
                balances[row["from_address"]] -= int(row["value"])
                balances[row["to_address"]] += int(row["value"])
        below = {address for address, balance in balances.items() if balance < 0 and address != ZERO_ADDRESS}
        since = {address: since.get(address, second) for address in below}
    return {address: (balances[address], since[address]) for address in since}


@pytest.mark.integration
@given(histories())
@settled(60)
def test_negative_balances_and_times_equal_brute_force(rows: list[Row]) -> None:
    with world(*rows[: len(rows) // 2]) as store:
        store.add_transfers(table(rows[len(rows) // 2 :]), "more")
        for at in (1, 50, 99, END):
            assert found(store, at) == by_brute_force(rows, at)


def test_a_recovered_address_is_negative_since_the_last_fall() -> None:
    with world(transfer("a -> b", 5, 10), transfer("b -> a", 6, 20), transfer("a -> b", 2, 90_000)) as store:
        assert [found(store, at).get("a") for at in (9, 10, 20, END)] == [None, (-5, 10), None, (-1, 90_000)]


def test_all_tokens_of_the_store_are_counted() -> None:
    other = ("bsc", "other")
    with world(
        transfer("a -> b", 5), transfer("mint -> c", 5, token=("eth", "fine")), transfer("b -> a", 1, token=other)
    ) as store:
        counts = negative_counts(store, from_unix(END))
    assert counts == {other: 1, COIN: 1}


def test_maps_have_the_addresses_below_zero() -> None:
    with world(transfer("mint -> c", 9), transfer("a -> b", 5, 7), transfer("d -> b", 6, 8)) as store:
        (row,) = draw(store)["maps"]
    assert json.loads(row["negative_balances"]) == {
        "count": 2,
        "lowest": [{"address": "d", "balance": "-6"}, {"address": "a", "balance": "-5"}],
    }


def test_maps_of_a_complete_history_have_none() -> None:
    with world(transfer("mint -> c", 9)) as store:
        assert draw(store)["maps"][0]["negative_balances"] is None
