"""Opening balances make the holders of a partial history exact, and make no relationships."""

from __future__ import annotations

from collections.abc import Callable

import pyarrow as pa
import pytest

from holderlake.core.contract.times import from_unix
from holderlake.engine.catalog.opening_balances import NO_BLOCK, OPENING_BALANCES
from holderlake.engine.errors import BadSource, NoHolders
from holderlake.engine.queries.balances import balances_as_of
from holderlake.engine.queries.negative_balances import negative_balances
from holderlake.engine.store.store import Store
from tests.engine.facts import address_facts
from tests.engine.world import COIN, END, UINT256, Key, draw, held, holders, links, nodes, table, transfer

Build = Callable[..., Store]


def openings(*balances: tuple[str, int], at: int = 10, token: Key = COIN) -> pa.Table:
    rows = [(*token, address, str(balance), at, at, None, None) for address, balance in balances]
    return pa.Table.from_pylist([dict(zip(OPENING_BALANCES.names, row, strict=True)) for row in rows], OPENING_BALANCES)


def items(*held: tuple[str, str], standard: str = "erc721", balance: str = "1") -> pa.Table:
    rows = [(*COIN, address, balance, 10, 10, item, standard) for address, item in held]
    return pa.Table.from_pylist([dict(zip(OPENING_BALANCES.names, row, strict=True)) for row in rows], OPENING_BALANCES)


def test_holders_of_a_partial_history_are_exact(build: Build) -> None:
    store = build()
    assert store.add_opening_balances(openings(("a", 60), ("b", 40))).added == 2
    store.add_transfers(table([transfer("a -> b", 25, at=20), transfer("b -> c", 5, at=100_000)]), "window")
    assert [held(store, at) for at in (9, 10, 20, END)] == [
        {},
        {"a": 60, "b": 40},
        {"a": 35, "b": 65},
        {"a": 35, "b": 60, "c": 5},
    ]
    balances = balances_as_of(store, *COIN, from_unix(END))
    assert (balances.supply, balances.holders) == (100, [("b", 60), ("a", 35), ("c", 5)])
    assert negative_balances(store, *COIN, from_unix(END)).num_rows == 0


def test_opening_balances_make_no_relationship_and_no_age(build: Build) -> None:
    store = build()
    store.add_opening_balances(openings(("a", 60), ("b", 40)))
    facts = address_facts(store, ["a"], from_unix(END))["a"]
    assert (facts.degree, facts.transfers, facts.first_time) == (0, 0, None)
    drawn = draw(store)
    assert (nodes(drawn, "top_holder"), links(drawn)) == (["a", "b"], [])
    assert drawn["maps"][0]["fresh_wallets"] == 0
    assert store.history(*COIN) is None


def test_opening_balances_are_imported_once(build: Build) -> None:
    store = build()
    given = openings(("a", 60), ("b", 0), ("c", UINT256))
    store.add_opening_balances(given)
    known = store.generation()
    report = store.add_opening_balances(given)
    assert (report.rows, report.added, report.duplicates, report.conflicts) == (3, 0, 3, 0)
    assert store.generation() == known
    assert holders(store) == [("c", UINT256), ("a", 60)]


def test_a_list_may_be_imported_in_pieces(build: Build) -> None:
    store = build()
    store.add_opening_balances(openings(("a", 60)))
    assert store.add_opening_balances(openings(("a", 60), ("b", 40))).added == 1
    assert held(store) == {"a": 60, "b": 40}


@pytest.mark.parametrize(
    ("other", "words"),
    [
        (openings(("a", 61), ("b", 1)), "two opening balances of a .*, 60 and 61"),
        (openings(("b", 1), at=11), "different blocks, for example 10 and 11"),
        (openings(("b", 1), ("b", 2)), "two opening balances of b"),
    ],
)
def test_another_list_of_balances_is_refused(build: Build, other: pa.Table, words: str) -> None:
    store = build()
    store.add_opening_balances(openings(("a", 60)))
    with pytest.raises(BadSource, match=words):
        store.add_opening_balances(other)
    assert held(store) == {"a": 60}


def test_removed_opening_balances_make_room_for_another_list(build: Build) -> None:
    store = build()
    store.add_opening_balances(openings(("a", 60)))
    assert store.remove_opening_balances(*COIN) == 1
    assert store.remove_opening_balances(*COIN) == 0
    store.add_opening_balances(openings(("a", 61), at=11))
    assert held(store) == {"a": 61}


def test_transfers_that_opening_balances_include_are_refused(build: Build) -> None:
    store = build()
    store.add_opening_balances(openings(("a", 60)))
    with pytest.raises(BadSource, match="as of block 10, but there are transfers from block 10"):
        store.add_transfers(table([transfer("mint -> a", 5, at=10)]), "file")
    assert store.add_transfers(table([transfer("a -> b", 5, at=11)]), "file").added == 1
    assert held(store) == {"a": 55, "b": 5}


def test_balances_as_of_a_time_come_before_later_transfers(build: Build) -> None:
    by_time = openings(("a", 60)).set_column(4, OPENING_BALANCES.field("block_number"), pa.array([NO_BLOCK]))
    store = build(transfer("a -> b", 5, at=11))
    store.add_opening_balances(by_time)
    assert held(store) == {"a": 55, "b": 5}
    with pytest.raises(BadSource, match="as of 1970-01-01 00:00:10 UTC"):
        store.add_transfers(table([transfer("a -> b", 5, at=10)]), "file")


@pytest.mark.parametrize(
    ("given", "words"),
    [
        (items(("a", "1"), ("b", "1")), "token_id 1 .* is held more than once"),
        (items(("a", "1"), balance="2"), "token_id 1 .* is held more than once"),
        (pa.concat_tables([items(("a", "1")), items(("b", None))]), "1 of 2 opening balances .* have no token_id"),
    ],
)
def test_items_that_contradict_each_other_are_refused(build: Build, given: pa.Table, words: str) -> None:
    with pytest.raises(BadSource, match=words):
        build().add_opening_balances(given)


def test_items_of_a_list_are_counted_as_balances(build: Build) -> None:
    store = build()
    store.add_opening_balances(items(("a", "1"), ("a", "2"), ("b", str(UINT256))))
    assert held(store) == {"a": 2, "b": 1}


def test_opening_balances_after_the_first_transfer_are_refused(build: Build) -> None:
    store = build(transfer("mint -> a", 5, at=10))
    with pytest.raises(BadSource, match="would count twice"):
        store.add_opening_balances(openings(("a", 5), at=10))
    assert holders(store) == [("a", 5)]


@pytest.mark.parametrize("balance", ["-1", "1.5", "", "1e3", "9" * 79])
def test_an_opening_balance_that_is_no_raw_integer_is_refused(build: Build, balance: str) -> None:
    store = build()
    bad = openings(("a", 1)).set_column(3, OPENING_BALANCES.field("balance"), pa.array([balance]))
    with pytest.raises(BadSource, match="is not a whole number from 0 on"):
        store.add_opening_balances(bad)


def test_a_roll_back_removes_opening_balances(build: Build) -> None:
    store = build()
    store.add_opening_balances(openings(("a", 60)))
    assert store.roll_back("eth", 9) == 1
    with pytest.raises(NoHolders):
        holders(store)
