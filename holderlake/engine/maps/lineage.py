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

    ``clusters_before`` has the ascending cluster numbers on the earlier map, ``clusters_after`` those on the later map.
    Two clusters are related if at least half of the earlier cluster's amount belonged to holders that are in the later
    cluster, or at least half of the later cluster's amount belongs to holders that were in the earlier cluster.
    ``change`` is one of:

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
    clusters_before: list[int]
    clusters_after: list[int]


def lineage(earlier: Clusters, later: Clusters) -> list[ClusterChange]:
    """Return the changes from the clusters ``earlier`` to the clusters ``later``.

    Changes are sorted by later cluster, then by earlier cluster. Clusters that died come last. Each cluster is in at
    least one change. A cluster can be in several changes, for example if one part of it splits off and another one
    merges.
    """
    return sorted(
        _changes(earlier, later),
        key=lambda change: (change.clusters_after or _NO_CLUSTER, change.clusters_before, change.change),
    )


def _changes(earlier: Clusters, later: Clusters) -> Iterator[ClusterChange]:
    pairs = _related(earlier, later)
    for number in range(1, len(later) + 1):
        origins = [origin for origin, heir in pairs if heir == number]
        if not origins:
            yield ClusterChange("born", [], [number])
        elif len(origins) > 1:
            yield ClusterChange("merged", origins, [number])
    for number, cluster in enumerate(earlier, start=1):
        heirs = [heir for origin, heir in pairs if origin == number]
        if not heirs:
            yield ClusterChange("died", [number], [])
        elif len(heirs) > 1:
            yield ClusterChange("split", [number], heirs)
        elif sum(heir == heirs[0] for _, heir in pairs) == 1:
            yield ClusterChange(_growth(cluster, later[heirs[0] - 1]), [number], heirs)


def _related(earlier: Clusters, later: Clusters) -> list[tuple[int, int]]:
    """Return the pairs of related clusters, sorted: the number of the earlier one and the number of the later one."""
    number_of = {holder: number for number, cluster in enumerate(later, start=1) for holder in cluster.amounts}
    earlier_amounts: defaultdict[tuple[int, int], int] = defaultdict(int)
    later_amounts: defaultdict[tuple[int, int], int] = defaultdict(int)
    for number, cluster in enumerate(earlier, start=1):
        for holder, amount in cluster.amounts.items():
            if heir := number_of.get(holder):
                earlier_amounts[number, heir] += amount
                later_amounts[number, heir] += later[heir - 1].amounts[holder]
    return sorted(
        (origin, heir)
        for origin, heir in earlier_amounts
        if 2 * earlier_amounts[origin, heir] >= sum(earlier[origin - 1].amounts.values())
        or 2 * later_amounts[origin, heir] >= sum(later[heir - 1].amounts.values())
    )


def _growth(earlier: Members, later: Members) -> str:
    if earlier.share != later.share:
        return "grew" if later.share > earlier.share else "shrank"
    return "same" if earlier.amounts.keys() == later.amounts.keys() else "changed"
