"""Clusters: shown holders that transfers connect, directly or through magic nodes.

Connected components by union-find; a component needs two holders to be a cluster. Sizes are raw integers.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass


@dataclass(frozen=True)
class Cluster:
    """Holders by falling balance, the magic nodes between them, and what the holders hold together (raw)."""

    holders: tuple[str, ...]
    magic_nodes: tuple[str, ...]
    amount: int


def connected(pairs: Iterable[tuple[str, str]]) -> dict[str, str]:
    """Each address of the pairs with the representative of its component (the smallest address in it)."""
    parent: dict[str, str] = {}

    def root(address: str) -> str:
        parent.setdefault(address, address)
        while parent[address] != address:
            parent[address] = parent[parent[address]]
            address = parent[address]
        return address

    for left, right in pairs:
        first, second = sorted((root(left), root(right)))
        parent[second] = first
    return {address: root(address) for address in list(parent)}


def clusters_of(
    balances: Mapping[str, int], magic_nodes: Sequence[str], pairs: Iterable[tuple[str, str]]
) -> list[Cluster]:
    """The clusters of shown holders (address to raw balance, by falling balance), the largest first.

    Equal amounts are told apart by the first holder's address. ``pairs`` are the linked addresses; those that are
    neither holder nor magic node must not be in them.
    """
    component = connected(pairs)
    holders: dict[str, list[str]] = {}
    for address in balances:
        if address in component:
            holders.setdefault(component[address], []).append(address)
    magic: dict[str, list[str]] = {}
    for address in magic_nodes:
        if address in component:
            magic.setdefault(component[address], []).append(address)
    clusters = [
        Cluster(tuple(members), tuple(magic.get(root, ())), sum(balances[member] for member in members))
        for root, members in holders.items()
        if len(members) > 1
    ]
    return sorted(clusters, key=lambda cluster: (-cluster.amount, cluster.holders[0]))
