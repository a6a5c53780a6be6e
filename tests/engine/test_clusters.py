"""Clusters: disjoint groups of shown holders that transfers connect, the largest first."""

from __future__ import annotations

from collections.abc import Callable

import networkx as nx
import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from holderlake.core.contract.rules import Rules
from holderlake.engine.maps.clusters import Cluster, RankedNodes, clusters_of
from holderlake.engine.numeric.bigint import from_ints
from holderlake.engine.numeric.graph_kernels import components
from holderlake.engine.records import Label
from holderlake.engine.store.store import Store
from tests.engine.world import (
    COIN,
    NAMES,
    a_token,
    cex,
    clusters,
    contract,
    dex,
    draw,
    exactly,
    held,
    histories,
    nodes,
    settled,
    transfer,
    world,
)

Build = Callable[..., Store]

_pairs = st.lists(st.tuples(st.integers(0, 9), st.integers(0, 9)), max_size=15)


# ---------------------------------------------------------------------- components


def connected(pairs: list[tuple[int, int]], nodes: int = 10) -> list[int]:
    """Return the component of each node of one map."""
    ones, others = np.array(pairs, np.int64).reshape(-1, 2).T
    return components(np.array([0, len(pairs)]), ones, others, nodes)[0].tolist()


@pytest.mark.integration
@settled(200)
@given(_pairs)
def test_components_equal_networkx(pairs: list[tuple[int, int]]) -> None:
    graph = nx.Graph(pairs)
    graph.add_nodes_from(range(10))
    found = connected(pairs)
    groups = {frozenset(node for node in range(10) if found[node] == root) for root in found}
    assert groups == {frozenset(members) for members in nx.connected_components(graph)}


@settled(100)
@given(_pairs, st.randoms(use_true_random=False))
def test_neither_order_nor_direction_of_links_matters(pairs: list[tuple[int, int]], chance: st.random) -> None:
    turned = [pair[::-1] for pair in chance.sample(pairs, len(pairs))]
    assert connected(turned) == connected(pairs)


def test_a_long_chain_of_wallets_is_one_component() -> None:
    chain = [(number, number + 1) for number in range(20_000)]
    assert set(connected(chain, 20_001)) == {0}


def test_each_map_has_separate_components() -> None:
    starts, ones, others = np.array([0, 1, 1, 3]), np.array([0, 0, 1]), np.array([1, 1, 2])
    assert components(starts, ones, others, 4).tolist() == [[0, 0, 2, 3], [0, 1, 2, 3], [0, 0, 0, 3]]


# ---------------------------------------------------------------------- clusters of holders


def found(balances: dict[str, int], magic: list[str], *groups: str) -> list[Cluster]:
    """Return the clusters of one map; its nodes are letters, and the letters of a group are connected."""
    texts = sorted([*balances, *magic])
    nodes = [np.array([texts.index(one) for one in some], np.int64) for some in (balances, magic)]
    group_of = {one: number for number, group in enumerate(groups) for one in group}
    components = np.array([[group_of.get(one, len(groups) + place) for place, one in enumerate(texts)]])
    words = from_ints(list(balances.values()), 1)
    standing = [RankedNodes(np.zeros(len(some), np.int64), some, words) for some in nodes]
    return clusters_of(*standing, components).listed(texts)


def test_holders_and_clusters_are_ordered_by_amount() -> None:
    balances = {"a": 9, "b": 8, "c": 7, "d": 6, "e": 5}
    assert found(balances, [], "ea", "dcb") == [Cluster(("b", "c", "d"), (), 21), Cluster(("a", "e"), (), 14)]


def test_equal_clusters_are_ordered_by_their_first_holder() -> None:
    clusters = found({"z": 6, "a": 5, "b": 5, "y": 4}, [], "zy", "ab")
    assert clusters == [Cluster(("a", "b"), (), 10), Cluster(("z", "y"), (), 10)]


def test_a_single_holder_with_magic_nodes_is_no_cluster() -> None:
    assert found({"a": 5, "b": 5}, ["m", "n"], "amn") == []


def test_magic_nodes_add_nothing_to_the_amount_of_their_cluster() -> None:
    assert found({"a": 5, "b": 4}, ["n", "m", "x"], "abmn") == [Cluster(("a", "b"), ("n", "m"), 9)]


# ---------------------------------------------------------------------- clusters of a map


def test_transfers_between_holders_make_a_cluster(build: Build) -> None:
    store = build(transfer("mint -> a", 60), transfer("mint -> c", 40), transfer("a -> b", 20))
    drawn = draw(store)
    assert clusters(drawn) == [{"a", "b"}]
    (cluster,) = drawn["clusters"]
    assert (cluster["cluster_id"], cluster["share"], exactly(cluster, "amount")) == (1, 0.6, 60)
    assert (cluster["holder_count"], cluster["magic_node_count"]) == (2, 0)


@pytest.mark.parametrize("label", [cex, dex, contract])
def test_an_exchange_or_a_contract_is_no_node_of_a_cluster(build: Build, label: Callable[[str], Label]) -> None:
    store = build(
        transfer("mint -> x", 100), transfer("x -> a", 30, at=1), transfer("x -> b", 20, at=9_999), labels=[label("x")]
    )
    assert nodes(draw(store), "top_holder") == ["x", "a", "b"]
    assert draw(store)["clusters"] == []


def test_a_hypernode_never_joins_wallets(build: Build) -> None:
    store = build(
        transfer("mint -> x", 99), transfer("x -> a", 3), transfer("x -> b", 2), rules=Rules(hypernode_transfers=2)
    )
    assert draw(store)["clusters"] == []


def test_minting_and_burning_never_join_wallets(build: Build) -> None:
    shared = [transfer(f"{name} -> {end}", 2) for name in "ab" for end in ("burn", "dead")]
    assert draw(build(transfer("mint -> a", 9), transfer("mint -> b", 9), *shared))["clusters"] == []


def test_two_supernodes_with_transfers_are_not_connected(build: Build) -> None:
    airdrops = [transfer(f"{name} -> {name}{number}", 1) for name in "ab" for number in range(3)]
    store = build(
        transfer("mint -> a", 99),
        transfer("mint -> b", 99),
        transfer("a -> b", 5),
        *airdrops,
        rules=Rules(supernode_degree=4),
    )
    assert clusters(draw(store, limit=2)) == []


def test_holders_below_the_limit_are_in_no_cluster(build: Build) -> None:
    store = build(transfer("mint -> a", 90), transfer("mint -> b", 50), transfer("a -> b", 9), transfer("a -> c", 1))
    assert clusters(draw(store, limit=2)) == [{"a", "b"}]


@pytest.mark.integration
@settled(15)
@given(histories(), st.sets(st.sampled_from(NAMES), max_size=3), st.integers(2, 6), st.booleans())
def test_clusters_of_any_history_are_disjoint_and_complete(
    history: list[dict], unshown: set[str], limit: int, use_magic_nodes: bool
) -> None:
    labels = [kind(name) for kind, name in zip((cex, dex, contract), sorted(unshown), strict=False)]
    rules = Rules(supernode_degree=4, hypernode_transfers=9)
    with world(transfer("mint -> a", 2**255), *history, labels=labels, rules=rules, tokens=[a_token(COIN)]) as store:
        if not any(balance > 0 for balance in held(store).values()):
            return
        drawn = draw(store, limit=limit, use_magic_nodes=use_magic_nodes)
    shown = {row["address"] for row in drawn["map_nodes"] if row["kind"] == "top_holder" and row["is_shown_on_map"]}
    magic = set(nodes(drawn, "magic"))
    found, helpers = clusters(drawn), clusters(drawn, "magic")

    everyone = [address for members in (*found, *helpers) for address in members]
    assert len(everyone) == len(set(everyone)), "disjoint"
    assert all(len(members) >= 2 for members in found)
    assert all(members <= shown for members in found)
    assert all(members <= magic for members in helpers)
    assert not shown & unshown
    amounts = [exactly(row, "amount") for row in drawn["clusters"]]
    assert amounts == sorted(amounts, reverse=True)
    shares = [row["share"] for row in drawn["clusters"]]
    assert shares == sorted(shares, reverse=True)
    assert [row["holder_count"] for row in drawn["clusters"]] == [len(members) for members in found]

    graph = nx.Graph((row["from_address"], row["to_address"]) for row in drawn["grouped_transfers"])
    components = [set(members) & shown for members in nx.connected_components(graph)]
    assert sorted(map(sorted, found)) == sorted(sorted(members) for members in components if len(members) > 1)
