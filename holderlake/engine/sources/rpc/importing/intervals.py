"""Sets of blocks as sorted, disjoint intervals whose ends are both included."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from itertools import pairwise
from typing import NamedTuple


class Interval(NamedTuple):
    """Blocks from ``first_block`` to ``last_block``, both included."""

    first_block: int
    last_block: int

    @property
    def size(self) -> int:
        """The number of blocks."""
        return self.last_block - self.first_block + 1


class Segment(NamedTuple):
    """Blocks from ``first_block`` to ``last_block``, both included, and the scopes that lack them (``checkpoints``)."""

    first_block: int
    last_block: int
    scopes: tuple[str, ...]


def merge_intervals(intervals: Iterable[tuple[int, int]]) -> list[Interval]:
    """Return the blocks of ``intervals`` as the least number of intervals, sorted."""
    disjoint: list[Interval] = []
    for first_block, last_block in sorted(intervals):
        if disjoint and first_block <= disjoint[-1].last_block + 1:
            disjoint[-1] = Interval(disjoint[-1].first_block, max(disjoint[-1].last_block, last_block))
        else:
            disjoint.append(Interval(first_block, last_block))
    return disjoint


def gaps(covered: Iterable[tuple[int, int]], first_block: int, last_block: int) -> Iterator[Interval]:
    """Yield the intervals between ``first_block`` and ``last_block``, both included, that are not in ``covered``."""
    for begin, end in merge_intervals(covered):
        if begin > last_block:
            break
        if begin > first_block:
            yield Interval(first_block, begin - 1)
        first_block = max(first_block, end + 1)
    if first_block <= last_block:
        yield Interval(first_block, last_block)


def segments(covered: Mapping[str, Sequence[tuple[int, int]]], first_block: int, last_block: int) -> list[Segment]:
    """Return the blocks from ``first_block`` to ``last_block`` (both included) that one or more scopes lack, as
    ascending segments.

    ``covered`` has for each scope the intervals that were read. All blocks of a segment are missing in the same scopes.
    """
    missing = {scope: list(gaps(intervals, first_block, last_block)) for scope, intervals in covered.items()}
    edges = sorted(
        {
            edge
            for scope_gaps in missing.values()
            for gap in scope_gaps
            for edge in (gap.first_block, gap.last_block + 1)
        }
    )
    result: list[Segment] = []
    for begin, end in pairwise(edges):
        scopes = tuple(
            scope
            for scope, scope_gaps in missing.items()
            if any(gap.first_block <= begin <= gap.last_block for gap in scope_gaps)
        )
        if scopes:
            result.append(Segment(begin, end - 1, scopes))
    return result
