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
    """A change, and the ascending numbers of the earlier (``before``) and later (``after``) clusters that it concerns.

    Two clusters are related if they have a common holder. ``change`` is one of:

    - ``merged``: a later cluster is related to two or more earlier ones.
    - ``split``: an earlier cluster is related to two or more later ones.
    - ``same``, ``grew``, ``shrank`` or ``changed``: one earlier and one later cluster are related to each other only.
      The later one has the same holders, more holders, fewer holders, or equally many but others.
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
    """Return for each cluster the ascending numbers of the ``others`` that have a common holder with it."""
    number_of = {holder: number for number, other in enumerate(others, start=1) for holder in other}
    return [sorted({number_of[holder] for holder in cluster if holder in number_of}) for cluster in clusters]


def _growth(before: frozenset[str], after: frozenset[str]) -> str:
    if before == after:
        return "same"
    if len(before) == len(after):
        return "changed"
    return "grew" if len(after) > len(before) else "shrank"
