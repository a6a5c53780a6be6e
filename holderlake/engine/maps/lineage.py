"""What became of the clusters of one map on another, by the holders that they share. Pure sets."""

from __future__ import annotations

from collections.abc import Collection, Iterator, Sequence
from dataclasses import dataclass
from typing import Final

_LAST: Final = [2**63]
"""Stands for no later cluster when rows are put in order."""

Clusters = Sequence[Collection[str]]
"""Disjoint sets of holders; a cluster's number is its place, from 1."""


@dataclass(frozen=True)
class Passage:
    """A change, and the numbers of the earlier and the later clusters that it is about, ascending.

    Two clusters are related when they share a holder.

    - ``merged``: a later cluster that is related to two or more earlier ones, with all of these.
    - ``split``: an earlier cluster that is related to two or more later ones, with all of these.
    - Where one earlier and one later cluster are related to each other and to no third: ``same`` for the very same
      holders, else ``grew`` or ``shrank`` for more or fewer of them, and ``changed`` for as many others.
    - ``born``: a later cluster that is related to none. ``died``: an earlier one that is related to none.
    """

    change: str
    before: list[int]
    after: list[int]


def lineage(before: Clusters, after: Clusters) -> list[Passage]:
    """What became of the clusters: by the later ones, then by the earlier ones; those that died stand last.

    Each cluster of either side is in one passage at least; where some merge while others split it may be in several.
    """
    passages = _passages([frozenset(cluster) for cluster in before], [frozenset(cluster) for cluster in after])
    return sorted(passages, key=lambda passage: (passage.after or _LAST, passage.before, passage.change))


def _passages(before: Sequence[frozenset[str]], after: Sequence[frozenset[str]]) -> Iterator[Passage]:
    offspring, origins = _related(before, after), _related(after, before)
    for number, related in enumerate(origins, start=1):
        if not related:
            yield Passage("born", [], [number])
        elif len(related) > 1:
            yield Passage("merged", related, [number])
    for number, related in enumerate(offspring, start=1):
        if not related:
            yield Passage("died", [number], [])
        elif len(related) > 1:
            yield Passage("split", [number], related)
        elif len(origins[related[0] - 1]) == 1:
            yield Passage(_course(before[number - 1], after[related[0] - 1]), [number], related)


def _related(clusters: Sequence[frozenset[str]], others: Sequence[frozenset[str]]) -> list[list[int]]:
    """For each cluster the numbers of the others that share a holder with it, ascending."""
    number_of = {holder: number for number, other in enumerate(others, start=1) for holder in other}
    return [sorted({number_of[holder] for holder in cluster if holder in number_of}) for cluster in clusters]


def _course(before: frozenset[str], after: frozenset[str]) -> str:
    if before == after:
        return "same"
    if len(before) == len(after):
        return "changed"
    return "grew" if len(after) > len(before) else "shrank"
