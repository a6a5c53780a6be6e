"""Details of addresses: counterparties and age over all tokens and chains, kinds and names."""

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

from holderlake.core.contract.rules import Rules
from holderlake.core.contract.times import from_unix
from holderlake.engine.catalog import catalog
from holderlake.engine.queries.addresses import addresses_table
from holderlake.engine.records import Label
from holderlake.engine.store.store import Store
from tests.engine.facts import address_facts
from tests.engine.oracle import Facts, Oracle
from tests.engine.world import COIN, END, NAMES, Row, cex, draw, histories, settled, transfer, world

Build = Callable[..., Store]
OTHER = ("bsc", "other")


def test_the_table_keeps_the_requested_order(build: Build) -> None:
    rows = addresses_table(build(transfer("a -> b")), ["c", "a", "b"], from_unix(END)).to_pylist()
    assert [row["address"] for row in rows] == ["c", "a", "b"]
    assert {row["chain"] for row in rows} == {""}


def test_labels_of_the_chain_have_precedence(build: Build) -> None:
    store = build(labels=[Label("a", "eth", "s", name="Ann"), Label("a", "bsc", "s", name="Bob", entity_id="bob")])
    (row,) = addresses_table(store, ["a"], from_unix(END), "bsc").to_pylist()
    assert (row["chain"], row["label"], row["entity_id"]) == ("bsc", "Bob", "bob")


@pytest.mark.parametrize(("transfers", "shown"), [(3, True), (4, False)])
def test_a_hypernode_has_more_transfers_than_the_threshold(build: Build, transfers: int, shown: bool) -> None:
    sent = [transfer("a -> b", token=(COIN, OTHER)[number % 2]) for number in range(transfers - 1)]
    store = build(transfer("mint -> a", 100), *sent, rules=Rules(hypernode_transfers=3))
    assert shows(store, "a") is shown


def shows(store: Store, address: str) -> bool:
    """Return whether the map shows a top holder."""
    (row,) = [row for row in draw(store)["map_nodes"] if row["address"] == address]
    return bool(row["is_shown_on_map"])


def test_many_addresses_need_as_many_statements_as_one(build: Build, monkeypatch: pytest.MonkeyPatch) -> None:
    many = [f"w{number}" for number in range(2_500)]
    moves = [transfer(f"{sender} -> {receiver}") for sender, receiver in pairwise(many[:200])]
    store = build(*moves, labels=[cex(address) for address in many[::50]])
    asked = []
    store.period_starts()  # it is read once
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
    """Record each statement to both databases, without bound values."""
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


def test_a_repeated_address_has_two_rows(build: Build) -> None:
    rows = addresses_table(build(transfer("a -> b")), ["a", "b", "a"], from_unix(END)).to_pylist()
    assert [(row["address"], row["degree"]) for row in rows] == [("a", 1), ("b", 1), ("a", 1)]


@pytest.mark.integration
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
