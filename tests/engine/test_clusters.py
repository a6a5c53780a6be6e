"""Clusters: disjoint groups of shown holders that transfers connect, the largest first."""

from __future__ import annotations

import networkx as nx
import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from holderlake.engine.maps.clusters import Cluster, RankedNodes, clusters_of
from holderlake.engine.numeric.bigint import from_ints
from holderlake.engine.numeric.graph_kernels import components
from tests.engine.world import (
    settled,
)

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


# ---------------------------------------------------------------------- clusters of a map
