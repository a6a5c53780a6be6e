"""Changes from the clusters of one map to the clusters of a later map, by the balances of their common holders.

The view ``cluster_lineage`` of the warehouse has the same definition.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Final, NamedTuple

_NO_CLUSTER: Final = [2**63]
"""Sort key of a change without a later cluster, so that it comes last."""


class Members(NamedTuple):
    """A cluster: the raw balance of each of its holders, and its share of the supply."""

    amounts: Mapping[str, int]
    share: float


Clusters = Sequence[Members]
"""The clusters of a map. They have no holder in common. The number of a cluster is its position, counted from 1."""


@dataclass(frozen=True)
class ClusterChange:
    """A change, and the clusters that it concerns.

    ``before`` has the ascending cluster numbers on the earlier map, ``after`` those on the later map. Two clusters are
    related if at least half of the earlier cluster's amount belonged to holders that are in the later cluster, or at
    least half of the later cluster's amount belongs to holders that were in the earlier cluster. ``change`` is one of:

    - ``merged``: a later cluster is related to two or more earlier ones.
    - ``split``: an earlier cluster is related to two or more later ones.
    - ``grew``, ``shrank``: two clusters are related to each other only, and the share of the later one is larger or
      smaller.
    - ``same``: two clusters are related to each other only, with equal shares and the same holders.
    - ``changed``: as ``same``, but some holders differ.
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
    return sorted(
        _changes(before, after), key=lambda change: (change.after or _NO_CLUSTER, change.before, change.change)
    )


def _changes(before: Clusters, after: Clusters) -> Iterator[ClusterChange]:
    pairs = _related(before, after)
    for number in range(1, len(after) + 1):
        origins = [one for one, other in pairs if other == number]
        if not origins:
            yield ClusterChange("born", [], [number])
        elif len(origins) > 1:
            yield ClusterChange("merged", origins, [number])
    for number, cluster in enumerate(before, start=1):
        heirs = [other for one, other in pairs if one == number]
        if not heirs:
            yield ClusterChange("died", [number], [])
        elif len(heirs) > 1:
            yield ClusterChange("split", [number], heirs)
        elif sum(other == heirs[0] for _, other in pairs) == 1:
            yield ClusterChange(_growth(cluster, after[heirs[0] - 1]), [number], heirs)


def _related(before: Clusters, after: Clusters) -> list[tuple[int, int]]:
    """Return the pairs of related clusters, sorted: the number of the earlier one and the number of the later one."""
    number_of = {holder: number for number, cluster in enumerate(after, start=1) for holder in cluster.amounts}
    kept: defaultdict[tuple[int, int], int] = defaultdict(int)
    held: defaultdict[tuple[int, int], int] = defaultdict(int)
    for number, cluster in enumerate(before, start=1):
        for holder, amount in cluster.amounts.items():
            if later := number_of.get(holder):
                kept[number, later] += amount
                held[number, later] += after[later - 1].amounts[holder]
    return sorted(
        (one, other)
        for one, other in kept
        if 2 * kept[one, other] >= sum(before[one - 1].amounts.values())
        or 2 * held[one, other] >= sum(after[other - 1].amounts.values())
    )


def _growth(before: Members, after: Members) -> str:
    if before.share != after.share:
        return "grew" if after.share > before.share else "shrank"
    return "same" if before.amounts.keys() == after.amounts.keys() else "changed"
