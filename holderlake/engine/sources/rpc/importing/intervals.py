"""Sets of blocks as sorted, disjoint intervals whose ends are both included."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from itertools import pairwise
from typing import NamedTuple


class Interval(NamedTuple):
    """Blocks from ``first`` to ``last``, both included."""

    first: int
    last: int

    @property
    def size(self) -> int:
        """The number of blocks."""
        return self.last - self.first + 1


class Segment(NamedTuple):
    """Blocks from ``first`` to ``last``, both included, and the scopes that lack these blocks (see ``checkpoints``)."""

    first: int
    last: int
    scopes: tuple[str, ...]


def merged(intervals: Iterable[tuple[int, int]]) -> list[Interval]:
    """Return the blocks of ``intervals`` as the least number of intervals, sorted."""
    joined: list[Interval] = []
    for first, last in sorted(intervals):
        if joined and first <= joined[-1].last + 1:
            joined[-1] = Interval(joined[-1].first, max(joined[-1].last, last))
        else:
            joined.append(Interval(first, last))
    return joined


def gaps(covered: Iterable[tuple[int, int]], first: int, last: int) -> Iterator[Interval]:
    """Yield the intervals between ``first`` and ``last``, both included, that are not in ``covered``."""
    for begin, end in merged(covered):
        if begin > last:
            break
        if begin > first:
            yield Interval(first, begin - 1)
        first = max(first, end + 1)
    if first <= last:
        yield Interval(first, last)


def segments(covered: Mapping[str, Sequence[tuple[int, int]]], first: int, last: int) -> list[Segment]:
    """Return the blocks from ``first`` to ``last`` (both included) that one or more scopes lack, as ascending segments.

    ``covered`` has for each scope the intervals that were read. All blocks of a segment are missing in the same scopes.
    """
    missing = {scope: list(gaps(intervals, first, last)) for scope, intervals in covered.items()}
    edges = sorted({edge for own in missing.values() for gap in own for edge in (gap.first, gap.last + 1)})
    found: list[Segment] = []
    for begin, after in pairwise(edges):
        scopes = tuple(scope for scope, own in missing.items() if any(gap.first <= begin <= gap.last for gap in own))
        if scopes:
            found.append(Segment(begin, after - 1, scopes))
    return found
