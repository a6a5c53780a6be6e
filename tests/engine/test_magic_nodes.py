"""Magic nodes: wallets outside the top holders that connect shown holders, for example an insider's."""

from __future__ import annotations

from collections.abc import Callable
from random import Random
from typing import Any

import pytest

from holderlake.core.contract.requests import MapOptions
from holderlake.core.contract.rules import Rules
from holderlake.core.contract.times import from_unix
from holderlake.engine.maps.batch import map_batches
from holderlake.engine.records import Label
from holderlake.engine.store.store import Store
from tests.engine.world import (
    COIN,
    END,
    Row,
    a_token,
    cex,
    clusters,
    contract,
    dex,
    draw,
    links,
    nodes,
    table,
    transfer,
    world,
)

Build = Callable[..., Store]


def funded_by(wallet: str, *holders: str, **changed: object) -> list[Row]:
    """Return transfers of a wallet that sends all its tokens to the holders."""
    paid = [transfer(f"{wallet} -> {holder}", 10, **changed) for holder in holders]
    return [transfer(f"mint -> {wallet}", 10 * len(holders), **changed), *paid]


def test_an_insider_that_funded_two_holders_is_found(build: Build) -> None:
    drawn = draw(build(*funded_by("insider", "a", "b")))
    assert nodes(drawn, "magic") == ["insider"]
    assert links(drawn) == ["insider -> a", "insider -> b"]


def test_a_magic_node_makes_a_cluster_of_the_holders_it_ties(build: Build) -> None:
    drawn = draw(build(*funded_by("insider", "a", "b"), transfer("mint -> c", 5)))
    assert clusters(drawn) == [{"a", "b"}]
    assert clusters(drawn, "magic") == [{"insider"}]
    (cluster,) = drawn["clusters"]
    assert (cluster["holder_count"], cluster["magic_node_count"]) == (2, 1)


def test_without_magic_nodes_the_cluster_through_one_vanishes(build: Build) -> None:
    drawn = draw(build(*funded_by("insider", "a", "b")), use_magic_nodes=False)
    assert (nodes(drawn, "magic"), links(drawn), drawn["clusters"], drawn["cluster_members"]) == ([], [], [], [])


def test_a_receiver_from_two_holders_is_a_magic_node(build: Build) -> None:
    store = build(transfer("mint -> a", 9), transfer("mint -> b", 8), transfer("a -> hub"), transfer("b -> hub"))
    assert nodes(draw(store, limit=2), "magic") == ["hub"]


def test_a_magic_node_has_details_but_no_holding(build: Build) -> None:
    store = build(*funded_by("insider", "a", "b"), labels=[Label("insider", None, "s", name="Team", entity_id="team")])
    (row,) = [row for row in draw(store)["map_nodes"] if row["kind"] == "magic"]
    assert (row["rank"], row["amount"], row["share"]) == (None, None, None)
    assert row["is_shown_on_map"]
    assert (row["label"], row["entity_id"], row["degree"], row["outward_relations"]) == ("Team", "team", 3, 2)


def test_only_holders_below_the_limit_can_be_magic_nodes(build: Build) -> None:
    store = build(*funded_by("insider", "a", "b"), transfer("mint -> insider", 1))
    assert nodes(draw(store, limit=2), "magic") == ["insider"]
    assert nodes(draw(store, limit=3), "magic") == []


@pytest.mark.parametrize("label", [cex, dex, contract])
def test_exchanges_and_contracts_are_no_magic_nodes(build: Build, label: Callable[[str], Label]) -> None:
    drawn = draw(build(*funded_by("hub", "a", "b"), labels=[label("hub")]), use_time_nodes=False)
    assert (nodes(drawn, "magic"), drawn["clusters"]) == ([], [])


@pytest.mark.parametrize(
    ("rows", "options"),
    [
        pytest.param(funded_by("hub", "a", "b", "c"), {"rules": Rules(supernode_degree=4)}, id="a supernode"),
        pytest.param(funded_by("hub", "a", "b"), {"rules": Rules(hypernode_transfers=2)}, id="a hypernode"),
        pytest.param(
            [transfer("mint -> a", 9), transfer("mint -> b", 8), transfer("coin -> a"), transfer("coin -> b")],
            {},
            id="the zero address and the token's contract",
        ),
        pytest.param(funded_by("hub", "a", "b"), {"labels": [cex("b")]}, id="linked to a holder that is not shown"),
        pytest.param(funded_by("hub", "a", "a"), {}, id="linked to one holder twice"),
        pytest.param(
            [transfer("mint -> a", 9), transfer("mint -> b", 8), transfer("hub -> a", 0), transfer("hub -> b", 0)],
            {},
            id="transfers of zero",
        ),
    ],
)
def test_other_addresses_are_no_magic_nodes(build: Build, rows: list[Row], options: dict[str, Any]) -> None:
    assert nodes(draw(build(*rows, **options)), "magic") == []


@pytest.mark.parametrize(("needed", "found"), [(1, ["hub"]), (2, ["hub"]), (3, [])])
def test_the_rules_set_the_least_number_of_linked_holders(build: Build, needed: int, found: list[str]) -> None:
    assert nodes(draw(build(*funded_by("hub", "a", "b"), rules=Rules(magic_links=needed))), "magic") == found


@pytest.mark.parametrize(("is_indexed", "found"), [(True, ["hub"]), (False, [])])
def test_transfers_of_other_tokens_count_only_if_indexed(build: Build, is_indexed: bool, found: list[str]) -> None:
    gas = ("bsc", "gas")
    store = build(
        transfer("mint -> a", 9),
        transfer("mint -> b", 8),
        *funded_by("hub", "a", "b", token=gas),
        tokens=[a_token(gas, is_indexed=is_indexed)],
    )
    assert nodes(draw(store), "magic") == found


def test_magic_nodes_are_ordered_by_holders_transfers_address(build: Build) -> None:
    store = build(
        *funded_by("m2", "a", "b"),
        *funded_by("m1", "a", "b"),
        *funded_by("m3", "a", "b", "b"),
        *funded_by("m4", "a", "b", "c"),
    )
    assert nodes(draw(store), "magic") == ["m4", "m3", "m1", "m2"]


def test_the_rules_limit_the_number_of_magic_nodes(build: Build) -> None:
    many = [row for number in range(5) for row in funded_by(f"m{number}", "a", "b")]
    drawn = draw(build(*many, rules=Rules(magic_limit=2)))
    assert nodes(drawn, "magic") == ["m0", "m1"]
    assert links(drawn) == ["m0 -> a", "m0 -> b", "m1 -> a", "m1 -> b"]


@pytest.mark.later(long=1)
@pytest.mark.integration
@pytest.mark.parametrize("seed", range(6))
def test_ties_are_broken_by_address_in_any_import_order(seed: int) -> None:
    """The order is that of the bytes of the text: digits, capitals, small letters, then letters beyond ASCII."""
    names = ["1m", "M", "Z", "a1", "m", "m2", "ma", "ä"]
    rows = [row for name in names for row in funded_by(name, "h1", "h2")]
    Random(seed).shuffle(rows)
    with world(tokens=[a_token(COIN)], rules=Rules(magic_limit=5)) as store:
        for row in rows:
            store.add_transfers(table([row]), "one by one")
        single, instant = draw(store), from_unix(END)
        (passed,) = map_batches(store, [COIN], [instant], MapOptions(), instant)
    assert nodes(single, "magic") == names[:5]
    assert passed["map_nodes"].to_pylist() == single["map_nodes"]


def test_links_between_magic_nodes_are_on_the_map(build: Build) -> None:
    store = build(*funded_by("m1", "a", "b"), *funded_by("m2", "c", "d"), transfer("m1 -> m2"))
    drawn = draw(store, limit=4)
    assert "m1 -> m2" in links(drawn)
    assert clusters(drawn) == [{"a", "b", "c", "d"}]
    assert clusters(drawn, "magic") == [{"m1", "m2"}]
