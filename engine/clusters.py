"""Clusters: shown holders that transfers connect, directly or through magic nodes.

Connected components by union-find; a component needs two holders to be a cluster. Sizes are raw integers.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass


@dataclass(frozen=True)
class Cluster:
    """Holders by falling balance, the magic nodes between them, and what the holders hold together (raw)."""

    holders: tuple[str, ...]
    magic_nodes: tuple[str, ...]
    amount: int


def clusters_of(holders: Iterable[tuple[str, int, int]], magic_nodes: Iterable[tuple[str, int]]) -> list[Cluster]:
    """The clusters of shown holders (address, raw balance, component), the largest first.

    Holders are given by falling balance, magic nodes (address, component) from the strongest on; who is connected to
    nobody has a component of their own. Equal amounts are told apart by the first holder's address.
    """
    found: dict[int, list[tuple[str, int]]] = {}
    for address, balance, component in holders:
        found.setdefault(component, []).append((address, balance))
    magic: dict[int, list[str]] = {}
    for address, component in magic_nodes:
        magic.setdefault(component, []).append(address)
    clusters = [
        Cluster(
            tuple(address for address, _ in members),
            tuple(magic.get(component, ())),
            sum(balance for _, balance in members),
        )
        for component, members in found.items()
        if len(members) > 1
    ]
    return sorted(clusters, key=lambda cluster: (-cluster.amount, cluster.holders[0]))
