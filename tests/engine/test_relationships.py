"""Grouped transfers: one for each sender, receiver and token, exact, and only of tokens that count."""

from __future__ import annotations

from collections.abc import Callable
from decimal import Decimal

import pytest
from hypothesis import given
from hypothesis import strategies as st

from holderlake.core.contract.rules import Rules
from holderlake.core.contract.times import from_unix
from holderlake.engine.maps.relationships import subgraph
from holderlake.engine.store.store import Store
from tests.engine.world import (
    COIN,
    END,
    UINT256,
    Key,
    Row,
    a_token,
    draw,
    exactly,
    histories,
    links,
    settled,
    table,
    transfer,
    world,
)

Build = Callable[..., Store]
INDEXED = ("bsc", "indexed")
PLAIN = ("eth", "plain")


def related(store: Store, *addresses: str, context: Key | None = COIN, at: int = END) -> list[Row]:
    return subgraph(store, addresses, context, from_unix(at)).to_pylist()


def described(rows: list[Row]) -> list[str]:
    return [f"{row['from_address']} -> {row['to_address']}: {row['transfer_token']}" for row in rows]


# ---------------------------------------------------------------------- grouping


def test_several_transfers_of_one_token_one_way_are_one_relationship(build: Build) -> None:
    store = build(transfer("a -> b", 5, at=3), transfer("a -> b", 7, at=9), transfer("a -> b", 1, at=6))
    (row,) = related(store, "a", "b")
    assert (row["from_address"], row["to_address"], row["rel_type"]) == ("a", "b", "GROUPED_TRANSFER")
    assert (row["transfer_chain"], row["transfer_token"]) == COIN
    assert (exactly(row, "total_value"), row["total_transfers"]) == (13, 3)
    assert (row["first_date"], row["last_date"]) == (from_unix(3), from_unix(9))


def test_each_direction_and_each_token_is_a_relationship_of_its_own(build: Build) -> None:
    store = build(
        transfer("a -> b"),
        transfer("b -> a"),
        transfer("a -> b", token=INDEXED),
        tokens=[a_token(INDEXED, is_indexed=True)],
    )
    assert described(related(store, "a", "b")) == ["a -> b: indexed", "a -> b: coin", "b -> a: coin"]


def test_sums_are_exact_beyond_256_bits(build: Build) -> None:
    store = build(*(transfer("a -> b", UINT256) for _ in range(3)), tokens=[a_token(COIN, decimals=18)])
    (row,) = related(store, "a", "b")
    assert row["total_value"] is None
    assert Decimal(row["total_value_exact"]).as_tuple().exponent == -18
    assert exactly(row, "total_value") * 10**18 == 3 * UINT256


def test_the_decimals_of_each_token_apply_to_its_own_transfers(build: Build) -> None:
    store = build(
        transfer("a -> b", 1_000_000),
        transfer("a -> b", 1_000_000, token=INDEXED),
        tokens=[a_token(COIN, decimals=6), a_token(INDEXED, decimals=2, is_indexed=True)],
    )
    values = {row["transfer_token"]: exactly(row, "total_value") for row in related(store, "a", "b")}
    assert values == {"coin": 1, "indexed": 10_000}


def test_an_address_named_twice_counts_once(build: Build) -> None:
    (row,) = related(build(transfer("a -> b", 5)), "a", "b", "a", "b")
    assert (exactly(row, "total_value"), row["total_transfers"]) == (5, 1)


@pytest.mark.integration
@settled(12)
@given(histories(), st.integers(0, 101))
def test_links_equal_plain_grouping(history: list[Row], at: int) -> None:
    expected: dict[tuple[str, str], list[Row]] = {}
    for row in history:
        ends = (row["from_address"], row["to_address"])
        if row["block_time"] <= at and row["value"] != "0" and ends[0] != ends[1] and {*ends} <= {"a", "b", "c"}:
            expected.setdefault(ends, []).append(row)
    with world(*history) as store:
        found = related(store, "a", "b", "c", at=at)
    assert [(row["from_address"], row["to_address"]) for row in found] == sorted(expected)
    for row in found:
        rows = expected[row["from_address"], row["to_address"]]
        times = [from_unix(each["block_time"]) for each in rows]
        assert exactly(row, "total_value") == sum(int(each["value"]) for each in rows)
        assert (row["total_transfers"], row["first_date"], row["last_date"]) == (len(rows), min(times), max(times))


# ---------------------------------------------------------------------- tokens that count


def two_holders(*more: Row) -> list[Row]:
    return [transfer("mint -> a", 9), transfer("mint -> b", 8), *more]


def test_the_same_address_on_another_chain_is_another_token(build: Build) -> None:
    assert links(draw(build(*two_holders(transfer("a -> b", token=("bsc", "coin")))))) == []


def test_a_subgraph_has_indexed_tokens_and_the_context_token_only(build: Build) -> None:
    store = build(
        transfer("a -> b"),
        transfer("a -> b", token=PLAIN),
        transfer("a -> b", token=INDEXED),
        tokens=[a_token(INDEXED, is_indexed=True)],
    )
    assert described(related(store, "a", "b", context=None)) == ["a -> b: indexed"]
    assert described(related(store, "a", "b", context=PLAIN)) == ["a -> b: indexed", "a -> b: plain"]


def test_a_context_token_that_is_unknown_adds_nothing(build: Build) -> None:
    assert related(build(transfer("a -> b")), "a", "b", context=("eth", "nothing")) == []


def test_a_subgraph_without_any_token_that_counts_is_empty(build: Build) -> None:
    assert related(build(transfer("a -> b")), "a", "b", context=None) == []


# ---------------------------------------------------------------------- supernodes

BUSY = Rules(supernode_degree=3)


def busy(name: str) -> list[Row]:
    """Dealings with three strangers, so that the address is a supernode under ``BUSY``."""
    return [transfer(f"{name}{number} -> {name}", 5) for number in range(3)]


def test_a_relationship_between_two_supernodes_is_dropped(build: Build) -> None:
    store = build(transfer("x -> y"), *busy("x"), *busy("y"), rules=BUSY)
    assert related(store, "x", "y") == []


def test_a_relationship_between_a_supernode_and_another_address_is_kept(build: Build) -> None:
    store = build(transfer("x -> a"), transfer("a -> x"), *busy("x"), rules=BUSY)
    assert described(related(store, "x", "a")) == ["a -> x: coin", "x -> a: coin"]


def test_who_became_a_supernode_by_an_import_is_one_on_the_next_map_of_the_same_second(build: Build) -> None:
    deals = [transfer("x0 -> x", 5) for _ in range(3)]
    store = build(*busy("y"), *deals, transfer("x -> y"), rules=BUSY)
    assert links(draw(store, limit=2)) == ["x -> y"]
    store.add_transfers(table([transfer("x1 -> x", 5)]), "later")
    assert links(draw(store, limit=2)) == []


def test_supernodes_are_judged_as_of_the_second(build: Build) -> None:
    late = [row | {"block_time": 50} for row in busy("y")]
    store = build(transfer("x -> y"), *busy("x"), *late, rules=BUSY)
    assert described(related(store, "x", "y", at=49)) == ["x -> y: coin"]
    assert related(store, "x", "y", at=50) == []
