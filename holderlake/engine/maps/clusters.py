"""Clusters at several instants: shown holders that links connect, directly or through magic nodes and time nodes.

A cluster is a connected component with at least two shown holders. Amounts are exact raw integers.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import pairwise

import numpy as np

from holderlake.engine.numeric.bigint import (
    Array,
    descending_order,
    from_digits,
    resized,
    sum_width,
    to_digits,
    to_ints,
)


@dataclass(frozen=True)
class Cluster:
    """A cluster. ``holders`` has the addresses of its holders, by descending balance.

    ``magic_nodes`` has the addresses of the magic nodes between them. ``amount`` is the sum of the holders' raw
    balances.
    """

    holders: tuple[str, ...]
    magic_nodes: tuple[str, ...]
    amount: int


@dataclass(frozen=True)
class Clusters:
    """The clusters of several instants as arrays.

    Clusters are sorted by instant, then by descending amount, then by the address of their first holder. These arrays
    have one value for each cluster:

    - ``instants``: index of the map's instant.
    - ``numbers``: number of the cluster, from 1 at each instant.
    - ``sums``: sum of the holders' balances, as limbs.
    - ``holders`` and ``magic``: number of holders, and of magic nodes.

    The arrays ``owners`` (index of the cluster), ``nodes`` (index of the address) and ``is_magic`` have one value for
    each member. Members are sorted by cluster. In a cluster, holders come first, by descending balance, then magic
    nodes, the one with the most links first.
    """

    instants: Array
    numbers: Array
    sums: Array
    holders: Array
    magic: Array
    owners: Array
    nodes: Array
    is_magic: Array

    def listed(self, texts: Sequence[str]) -> list[Cluster]:
        """Return each cluster with the addresses of its members. ``texts`` has the address of each node."""
        ends = np.searchsorted(self.owners, np.arange(len(self.instants) + 1)).tolist()
        members = [texts[node] for node in self.nodes.tolist()]
        return [
            Cluster(tuple(members[start : start + holders]), tuple(members[start + holders : end]), amount)
            for (start, end), holders, amount in zip(
                pairwise(ends), self.holders.tolist(), to_ints(self.sums), strict=True
            )
        ]


@dataclass(frozen=True)
class RankedNodes:
    """Nodes of maps as arrays, sorted by instant and then by rank.

    They are either shown holders, the largest balance first, or magic nodes, the one with the most links first.
    ``instants`` are indices of instants, ``nodes`` indices of addresses. ``balances`` are raw, as limbs (64-bit words,
    see ``bigint``); the array is empty for magic nodes.
    """

    instants: Array
    nodes: Array
    balances: Array


def clusters_of(holders: RankedNodes, magic: RankedNodes, components: Array) -> Clusters:
    """Return the clusters that consist of the shown holders ``holders`` and the magic nodes ``magic``.

    ``components`` has a row for each instant and a column for each node: the number of the node's connected component.
    """
    size = components.shape[1]
    keys, of_magic = (
        ranked.instants * size + components[ranked.instants, ranked.nodes].astype(np.int64)
        for ranked in (holders, magic)
    )
    distinct, inverse, counts = np.unique(keys, return_inverse=True, return_counts=True)
    shared = np.flatnonzero(counts > 1)
    place_of = np.full(len(distinct), -1)
    place_of[shared] = np.arange(len(shared))
    member = np.flatnonzero(place_of[inverse] >= 0)
    owners = place_of[inverse[member]]
    by_owner = np.argsort(owners, kind="stable")
    member, owners = member[by_owner], owners[by_owner]
    firsts = np.searchsorted(owners, np.arange(len(shared)))
    balances = to_digits(resized(holders.balances[member], sum_width(holders.balances.shape[1])))
    sums = from_digits(np.add.reduceat(balances, firsts, axis=0) if len(firsts) else balances)

    instants = distinct[shared] // size
    order = descending_order(sums, holders.nodes[member[firsts]])
    order = order[np.argsort(instants[order], kind="stable")]
    ranks = np.empty(len(order), np.int64)
    ranks[order] = np.arange(len(order))
    places = np.searchsorted(distinct[shared], of_magic)
    tied = np.flatnonzero(np.append(distinct[shared], -1)[places] == of_magic)
    owners, of_tied = ranks[owners], ranks[places[tied]]
    is_magic = np.repeat([False, True], [len(owners), len(tied)])
    nodes = np.concatenate([holders.nodes[member], magic.nodes[tied]])
    owners = np.concatenate([owners, of_tied])
    in_order = np.lexsort((is_magic, owners))
    instants = instants[order]
    return Clusters(
        instants,
        np.arange(len(instants)) - np.searchsorted(instants, instants) + 1,
        sums[order],
        counts[shared][order],
        np.bincount(of_tied, minlength=len(order)),
        owners[in_order],
        nodes[in_order],
        is_magic[in_order],
    )
