"""Time nodes: an exchange in one window of time, linking the wallets that used it then without clustering them."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from contract.times import from_unix
from engine.records import Label, Rules
from engine.store import Store
from tests.engine.world import Row, a_token, cex, contract, dex, draw, exactly, links, nodes, transfer

Build = Callable[..., Store]
HOUR = Rules(time_window=3_600)


def market(*transfers: Row) -> list[Row]:
    """Three holders, and what they do."""
    return [transfer("mint -> a", 90), transfer("mint -> b", 80), transfer("mint -> c", 70), *transfers]


def test_wallets_that_used_an_exchange_in_one_window_are_linked_by_a_time_node(build: Build) -> None:
    store = build(*market(transfer("a -> x", 5, 7_200), transfer("x -> b", 3, 10_799)), labels=[cex("x")], rules=HOUR)
    drawn = draw(store)
    assert nodes(drawn, "time") == ["x"]
    assert links(drawn, time_node=1) == ["a -> x", "x -> b"]


def test_wallets_that_used_it_in_different_windows_are_not(build: Build) -> None:
    store = build(*market(transfer("a -> x", 5, 7_199), transfer("b -> x", 3, 7_200)), labels=[cex("x")], rules=HOUR)
    assert nodes(draw(store), "time") == []


def test_each_window_is_a_node_of_its_own(build: Build) -> None:
    store = build(
        *market(
            transfer("a -> x", 5, 10),
            transfer("b -> x", 5, 20),
            transfer("a -> x", 7, 3_610),
            transfer("c -> x", 7, 3_620),
        ),
        labels=[cex("x")],
        rules=HOUR,
    )
    drawn = draw(store)
    assert nodes(drawn, "time") == ["x", "x"]
    assert [row["time_node"] for row in drawn["map_nodes"] if row["kind"] == "time"] == [1, 2]
    assert links(drawn, time_node=1) == ["a -> x", "b -> x"]
    assert links(drawn, time_node=2) == ["a -> x", "c -> x"]


def test_its_relationships_are_grouped_within_the_window(build: Build) -> None:
    store = build(
        *market(
            transfer("a -> x", 5, 10),
            transfer("a -> x", 2, 30),
            transfer("b -> x", 1, 20),
            transfer("a -> x", 9, 4_000),
        ),
        labels=[cex("x")],
        rules=HOUR,
    )
    row = next(row for row in draw(store)["grouped_transfers"] if row["from_address"] == "a")
    assert (exactly(row, "total_value"), row["total_transfers"]) == (7, 2)
    assert (row["first_date"], row["last_date"]) == (from_unix(10), from_unix(30))


def test_time_nodes_do_not_make_clusters(build: Build) -> None:
    store = build(*market(transfer("a -> x", 5, 10), transfer("b -> x", 5, 20)), labels=[cex("x")])
    drawn = draw(store)
    assert nodes(drawn, "time") == ["x"]
    assert (links(drawn), drawn["clusters"], drawn["cluster_members"]) == ([], [], [])


def test_there_are_none_where_they_are_not_asked_for(build: Build) -> None:
    store = build(*market(transfer("a -> x", 5, 10), transfer("b -> x", 5, 20)), labels=[cex("x")])
    drawn = draw(store, use_time_nodes=False)
    assert (nodes(drawn, "time"), drawn["grouped_transfers"]) == ([], [])


def test_they_do_not_need_magic_nodes(build: Build) -> None:
    store = build(*market(transfer("a -> x", 5, 10), transfer("b -> x", 5, 20)), labels=[cex("x")])
    assert nodes(draw(store, use_magic_nodes=False), "time") == ["x"]


@pytest.mark.parametrize(("label", "found"), [(cex, ["x"]), (dex, ["x"]), (contract, [])])
def test_exchanges_are_split_into_windows_and_plain_contracts_are_not(
    build: Build, label: Callable[[str], Label], found: list[str]
) -> None:
    store = build(*market(transfer("a -> x", 5, 10), transfer("b -> x", 5, 20)), labels=[label("x")])
    assert nodes(draw(store), "time") == found


def test_a_contract_on_the_allow_list_counts_like_an_exchange(build: Build) -> None:
    store = build(
        *market(transfer("a -> x", 5, 10), transfer("b -> x", 5, 20)),
        labels=[contract("x")],
        rules=Rules(time_allowed=frozenset({"x"})),
    )
    assert nodes(draw(store), "time") == ["x"]


@pytest.mark.parametrize("limit", [3, 4])
def test_an_exchange_becomes_one_whether_it_is_a_top_holder_or_not(build: Build, limit: int) -> None:
    store = build(*market(transfer("a -> x", 5, 10), transfer("b -> x", 5, 20)), labels=[cex("x")])
    assert nodes(draw(store, limit=limit), "time") == ["x"]


def test_an_exchange_that_holds_nothing_becomes_one_too(build: Build) -> None:
    gas = ("eth", "gas")
    store = build(
        *market(transfer("x -> a", 5, 10, token=gas), transfer("x -> b", 5, 20, token=gas)),
        tokens=[a_token(gas, is_indexed=True)],
        labels=[cex("x")],
        rules=Rules(magic_links=3),
    )
    assert nodes(draw(store), "time") == ["x"]


@pytest.mark.parametrize(("needed", "found"), [(1, ["x"]), (2, ["x"]), (3, [])])
def test_as_many_holders_share_it_as_the_rules_ask(build: Build, needed: int, found: list[str]) -> None:
    store = build(
        *market(transfer("a -> x", 5, 10), transfer("b -> x", 5, 20), transfer("b -> x", 5, 30)),
        labels=[cex("x")],
        rules=Rules(time_links=needed),
    )
    assert nodes(draw(store), "time") == found


def test_only_shown_holders_share_it(build: Build) -> None:
    store = build(
        *market(transfer("a -> x", 5, 10), transfer("b -> x", 5, 20), transfer("stranger -> x", 5, 30)),
        labels=[cex("x"), contract("b")],
    )
    assert nodes(draw(store), "time") == []


def test_a_supernode_does_not_share_an_exchange_that_is_one_too(build: Build) -> None:
    """Relationships between two supernodes are ignored, so there is nothing left to share."""
    rules = Rules(supernode_degree=3)
    busy = [transfer(f"{end}{number} -> {end}", 5, token=("eth", "gas")) for end in ("a", "x") for number in range(3)]
    store = build(*market(transfer("a -> x", 5, 10), transfer("b -> x", 5, 20), *busy), labels=[cex("x")], rules=rules)
    assert nodes(draw(store), "time") == []
    store.add_transfers(
        build(transfer("c -> x", 5, 30)).query("SELECT * FROM read_parquet($files)"), "one more ordinary wallet"
    )
    drawn = draw(store)
    assert nodes(drawn, "time") == ["x"]
    assert links(drawn, time_node=1) == ["b -> x", "c -> x"]


def test_the_most_shared_come_first_and_only_as_many_as_the_rules_allow(build: Build) -> None:
    store = build(
        *market(
            *(transfer(f"{name} -> y", 1, 10) for name in "abc"),
            *(transfer(f"{name} -> x", 1, 10) for name in "ab"),
            *(transfer(f"{name} -> x", 1, 3_610) for name in "bc"),
            *(transfer(f"{name} -> z", 1, 10) for name in "ab"),
        ),
        labels=[cex("x"), cex("y"), cex("z")],
        rules=Rules(time_window=3_600, time_limit=3),
    )
    assert nodes(draw(store), "time") == ["y", "x", "x"]


def test_a_time_node_has_an_address_and_nothing_else(build: Build) -> None:
    store = build(*market(transfer("a -> x", 5, 10), transfer("b -> x", 5, 20)), labels=[cex("x")])
    (row,) = [row for row in draw(store)["map_nodes"] if row["kind"] == "time"]
    filled = {name for name, value in row.items() if value is not None}
    assert filled == {"chain", "as_of", "token_address", "kind", "address", "time_node"}
