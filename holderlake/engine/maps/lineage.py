"""Changes from the clusters of one map to the clusters of a later map. Clusters are compared by their common
holders."""

from __future__ import annotations

from collections.abc import Collection, Iterator, Sequence
from dataclasses import dataclass
from typing import Final

_NO_CLUSTER: Final = [2**63]
"""Sort key of a change without a later cluster, so that it comes last."""

Clusters = Sequence[Collection[str]]
"""Disjoint sets of holders. The number of a cluster is its position, counted from 1."""


@dataclass(frozen=True)
class ClusterChange:
    """A change, and the clusters that it concerns.

    ``before`` has the ascending cluster numbers on the earlier map, ``after`` those on the later map. Two clusters are
    related if they have a common holder. ``change`` is one of:

    - ``merged``: a later cluster is related to two or more earlier ones.
    - ``split``: an earlier cluster is related to two or more later ones.
    - ``same``: a pair of clusters is related to no further cluster, and both have the same holders.
    - ``grew``, ``shrank``: as ``same``, but the later cluster has more or fewer holders.
    - ``changed``: as ``same``, but some holders differ and their number is equal.
    - ``born``: a later cluster is related to no earlier one.
    - ``died``: an earlier cluster is related to no later one.
    """

    change: str
    before: list[int]
    after: list[int]


def lineage(before: Clusters, after: Clusters) -> list[ClusterChange]:
    """Return the changes from the clusters ``before`` to the clusters ``after``.

    Changes are sorted by later cluster, then by earlier cluster. Clusters that died come last. Each cluster is in at
    least one change. A cluster can be in several changes, for example if one part of it splits off and another one
    merges.
    """
    changes = _changes([frozenset(cluster) for cluster in before], [frozenset(cluster) for cluster in after])
    return sorted(changes, key=lambda change: (change.after or _NO_CLUSTER, change.before, change.change))


def _changes(before: Sequence[frozenset[str]], after: Sequence[frozenset[str]]) -> Iterator[ClusterChange]:
    successors, predecessors = _related(before, after), _related(after, before)
    for number, related in enumerate(predecessors, start=1):
        if not related:
            yield ClusterChange("born", [], [number])
        elif len(related) > 1:
            yield ClusterChange("merged", related, [number])
    for number, related in enumerate(successors, start=1):
        if not related:
            yield ClusterChange("died", [number], [])
        elif len(related) > 1:
            yield ClusterChange("split", [number], related)
        elif len(predecessors[related[0] - 1]) == 1:
            yield ClusterChange(_growth(before[number - 1], after[related[0] - 1]), [number], related)


def _related(clusters: Sequence[frozenset[str]], others: Sequence[frozenset[str]]) -> list[list[int]]:
    """Return, for each of ``clusters``, the clusters of the other map that have a common holder with it.

    ``others`` are the clusters of the other map. The result has their numbers (from 1) in ascending order.
    """
    number_of = {holder: number for number, other in enumerate(others, start=1) for holder in other}
    return [sorted({number_of[holder] for holder in cluster if holder in number_of}) for cluster in clusters]


def _growth(before: frozenset[str], after: frozenset[str]) -> str:
    if before == after:
        return "same"
    if len(before) == len(after):
        return "changed"
    return "grew" if len(after) > len(before) else "shrank"
