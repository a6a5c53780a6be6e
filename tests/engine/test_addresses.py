"""What is known of an address: its relations and age over all tokens and chains, its kind and name."""

from __future__ import annotations

import sqlite3
from collections.abc import Callable
from itertools import pairwise
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from holderlake.contract.times import from_unix
from holderlake.engine.catalog import catalog
from holderlake.engine.queries.addresses import AddressFacts, address_facts, addresses_table
from holderlake.engine.records import Label, Rules
from holderlake.engine.store.store import Store
from tests.engine.oracle import Facts, Oracle
from tests.engine.world import COIN, END, NAMES, Row, cex, contract, dex, histories, settled, transfer, world

Build = Callable[..., Store]
OTHER = ("bsc", "other")


def fact(store: Store, address: str = "a", at: int = END) -> AddressFacts:
    return address_facts(store, [address], from_unix(at))[address]


def test_relations_are_distinct_counterparties(build: Build) -> None:
    store = build(transfer("b -> a"), transfer("b -> a"), transfer("c -> a"), transfer("a -> c"), transfer("a -> d"))
    known = fact(store)
    assert (known.degree, known.inward_relations, known.outward_relations) == (3, 2, 2)
    assert known.transfers == 5


def test_relations_count_over_all_tokens_and_chains(build: Build) -> None:
    store = build(transfer("b -> a"), transfer("c -> a", token=OTHER), transfer("d -> a", token=("eth", "third")))
    assert fact(store).degree == 3


def test_zero_value_transfers_say_nothing(build: Build) -> None:
    store = build(transfer("poison -> a", 0, at=1), transfer("a -> poison", 0, at=2), transfer("mint -> a", 5, at=9))
    known = fact(store)
    assert (known.degree, known.transfers, known.first_time) == (1, 1, 9)
    assert fact(store, "poison") == AddressFacts()


def test_a_transfer_to_oneself_is_activity_but_no_relation(build: Build) -> None:
    known = fact(build(transfer("a -> a", at=7)))
    assert (known.degree, known.inward_relations, known.outward_relations) == (0, 0, 0)
    assert (known.transfers, known.first_time) == (1, 7)


def test_the_first_activity_is_the_earliest_transfer_either_way_on_any_chain(build: Build) -> None:
    store = build(transfer("mint -> a", at=9), transfer("a -> b", at=12), transfer("a -> b", at=4, token=OTHER))
    assert fact(store).first_time == 4


@pytest.mark.parametrize(("at", "degree"), [(1, 0), (2, 1), (3, 1), (4, 2)])
def test_facts_are_those_of_their_second(build: Build, at: int, degree: int) -> None:
    assert fact(build(transfer("b -> a", at=2), transfer("c -> a", at=4)), at=at).degree == degree


def test_an_address_without_transfers_has_facts_of_nothing(build: Build) -> None:
    assert fact(build()) == AddressFacts()


@pytest.mark.parametrize(("relations", "expected"), [(2, False), (3, True), (4, True)])
def test_a_supernode_has_the_threshold_of_counterparties_or_more(build: Build, relations: int, expected: bool) -> None:
    store = build(*(transfer(f"a -> b{number}") for number in range(relations)), rules=Rules(supernode_degree=3))
    assert fact(store).is_supernode(store.rules) is expected


def test_the_counterparties_of_a_supernode_count_across_chains(build: Build) -> None:
    store = build(transfer("a -> b"), transfer("a -> c", token=OTHER), rules=Rules(supernode_degree=2))
    assert fact(store).is_supernode(store.rules)


@pytest.mark.parametrize(("transfers", "shown"), [(3, True), (4, False)])
def test_a_hypernode_has_more_transfers_than_the_threshold(build: Build, transfers: int, shown: bool) -> None:
    sent = [transfer("a -> b", token=(COIN, OTHER)[number % 2]) for number in range(transfers)]
    store = build(*sent, rules=Rules(hypernode_transfers=3))
    assert fact(store).is_shown(store.rules) is shown


@pytest.mark.parametrize("label", [cex, dex, contract])
def test_exchanges_and_contracts_are_not_shown(build: Build, label: Callable[[str], Label]) -> None:
    store = build(transfer("mint -> a"), labels=[label("a")])
    assert not fact(store).is_shown(store.rules)


def test_a_supernode_is_shown(build: Build) -> None:
    store = build(transfer("mint -> a"), rules=Rules(supernode_degree=1))
    assert fact(store).is_supernode(store.rules)
    assert fact(store).is_shown(store.rules)


def test_the_table_keeps_the_order_asked_for(build: Build) -> None:
    rows = addresses_table(build(transfer("a -> b")), ["c", "a", "b"], from_unix(END)).to_pylist()
    assert [row["address"] for row in rows] == ["c", "a", "b"]
    assert {row["chain"] for row in rows} == {""}


def test_the_table_names_an_address_by_the_chain_first(build: Build) -> None:
    store = build(labels=[Label("a", "eth", "s", name="Ann"), Label("a", "bsc", "s", name="Bob", entity_id="bob")])
    (row,) = addresses_table(store, ["a"], from_unix(END), "bsc").to_pylist()
    assert (row["chain"], row["label"], row["entity_id"]) == ("bsc", "Bob", "bob")


def test_thousands_of_addresses_are_asked_for_in_as_many_statements_as_one(
    build: Build, monkeypatch: pytest.MonkeyPatch
) -> None:
    many = [f"w{number}" for number in range(2_500)]
    moves = [transfer(f"{sender} -> {receiver}") for sender, receiver in pairwise(many[:200])]
    store = build(*moves, labels=[cex(address) for address in many[::50]])
    asked = []
    for addresses in (many[:1], many):
        with monkeypatch.context() as watched:
            statements: list[str] = []
            watch_statements(watched, statements)
            rows = addresses_table(store, addresses, from_unix(END), "eth").to_pylist()
        asked.append(statements)
        assert [row["address"] for row in rows] == addresses
    assert sum(row["is_cex"] for row in rows) == 50
    assert [row["degree"] for row in rows[:3]] == [1, 2, 2]
    assert asked[0] == asked[1]
    assert 0 < len(asked[0]) < 6


def watch_statements(patch: pytest.MonkeyPatch, statements: list[str]) -> None:
    """Notes each statement to either database, without the values that are bound."""
    connect, query = catalog.connect, Store.query

    def watched_connect(root: Path) -> sqlite3.Connection:
        connection = connect(root)
        connection.set_trace_callback(lambda sql: statements.append(sql.split("WHERE")[0]))
        return connection

    def watched_query(store: Store, sql: str, *more: Any, **named: Any) -> pa.Table:
        statements.append(sql)
        return query(store, sql, *more, **named)

    patch.setattr(catalog, "connect", watched_connect)
    patch.setattr(Store, "query", watched_query)


def test_an_address_that_is_asked_for_twice_is_told_twice(build: Build) -> None:
    rows = addresses_table(build(transfer("a -> b")), ["a", "b", "a"], from_unix(END)).to_pylist()
    assert [(row["address"], row["degree"]) for row in rows] == [("a", 1), ("b", 1), ("a", 1)]


@settled(12)
@given(histories(), histories(), st.integers(0, 101))
def test_facts_equal_plain_counting(first: list[Row], second: list[Row], at: int) -> None:
    elsewhere = [row | {"chain": "bsc", "token_address": "other"} for row in second]
    oracle = Oracle([*first, *elsewhere], [], rules=Rules(supernode_degree=3))
    expected = oracle.facts(at, "eth")
    with world(*first, *elsewhere, rules=oracle.rules) as store:
        rows = addresses_table(store, NAMES, from_unix(at), "eth").to_pylist()
        transfers = {name: known.transfers for name, known in address_facts(store, NAMES, from_unix(at)).items()}
    for row in rows:
        known = expected.get(row["address"], Facts())
        assert {name: row[name] for name in oracle.details(known)} == oracle.details(known)
        assert transfers[row["address"]] == known.transfers
