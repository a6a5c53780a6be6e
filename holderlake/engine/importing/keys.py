"""Sort the 64-bit hashes of transfers' keys in parts that fit into memory, and find repeated hashes.

Hashes are evenly distributed. Therefore ranges of equal width contain about the same number of hashes.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from itertools import islice
from pathlib import Path
from typing import Final, TypeVar

import numpy as np

from holderlake.engine.files.arrays import temporary_arrays
from holderlake.engine.importing.budget import Budget
from holderlake.engine.importing.spill import ArrayBuckets
from holderlake.engine.numeric.bigint import Array

T = TypeVar("T")


def part_of(keys: Array, parts: int) -> Array:
    """Divide the range of all 64-bit hashes into ``parts`` equal ranges. Return the number of the range of each
    hash."""
    return ((keys >> np.uint64(48)).astype(np.int64) * parts) >> 16


class SortedKeys:
    """Sorts about ``rows`` hashes. Files hold the hashes that do not fit into the budget."""

    def __init__(self, rows: int, spool: Path, budget: Budget) -> None:
        self._spool = spool
        self._parts = 1 + 2 * rows // budget.chunk
        self._buckets = ArrayBuckets(spool, budget.waiting)

    def add(self, keys: Array) -> None:
        """Add hashes in any order."""
        self._buckets.distribute(part_of(keys, self._parts), (keys,))

    def array(self) -> Array:
        """Return all hashes, ascending."""
        pieces = (np.sort(self._buckets.take(number)[0]) for number in self._buckets.numbers())
        return next(pieces) if self._parts == 1 else map_temporary_file(pieces, self._spool)


def map_temporary_file(pieces: Iterable[Array], spool: Path) -> Array:
    """Write arrays one after another to a file, and return the file as one memory-mapped array."""
    return temporary_arrays(spool, {"keys": pieces})["keys"]


def merged_keys(keys: Sequence[Array], chunk: int) -> Array | Iterable[Array]:
    """Merge sorted arrays of hashes into one sorted array. If it exceeds ``chunk`` hashes, return it as consecutive
    chunks."""
    size = sum(map(len, keys))
    if len(keys) == 1:
        return keys[0]
    return np.sort(np.concatenate(keys)) if size <= chunk else _ranges(keys, 1 + 2 * size // chunk)


def _ranges(keys: Sequence[Array], parts: int) -> Iterator[Array]:
    edges = np.array([number * 2**64 // parts for number in range(1, parts)], np.uint64)
    cuts = [[0, *np.searchsorted(hashes, edges).tolist(), len(hashes)] for hashes in keys]
    for part in range(parts):
        pieces = [hashes[bounds[part] : bounds[part + 1]] for hashes, bounds in zip(keys, cuts, strict=True)]
        yield np.sort(np.concatenate(pieces))


def are_among(sorted_keys: Array, keys: Array) -> Array:
    """Return a mask of the hashes in ``keys`` that are also in ``sorted_keys``."""
    if not len(sorted_keys):
        return np.zeros(len(keys), np.bool_)
    places = np.minimum(np.searchsorted(sorted_keys, keys), len(sorted_keys) - 1)
    is_among: Array = sorted_keys[places] == keys
    return is_among


class RepeatedKeys:
    """The hashes of ``keys`` that are repeated in ``keys``, or that are also in one of ``known``. All arrays are
    sorted."""

    _STEP: Final = 1 << 18

    def __init__(self, keys: Array, stored_keys: Sequence[Array], spool: Path) -> None:
        pieces = self._pieces(keys, stored_keys)
        is_small = len(keys) <= self._STEP
        self._repeated = np.concatenate([keys[:0], *pieces]) if is_small else map_temporary_file(pieces, spool)

    def _pieces(self, keys: Array, stored_keys: Sequence[Array]) -> Iterator[Array]:
        for start in range(0, len(keys), self._STEP):
            chunk = keys[start : start + self._STEP + 1]  # and the first hash of the next chunk
            repeated = np.concatenate([chunk[1:] == chunk[:-1], [False]])
            for stored_hashes in stored_keys:
                repeated |= are_among(stored_hashes, chunk)
            yield np.unique(chunk[repeated])

    def any(self) -> bool:
        """Return whether any hash is repeated."""
        return bool(len(self._repeated))

    def among(self, keys: Array) -> Array:
        """Return a mask of the hashes in ``keys`` that are repeated."""
        return are_among(self._repeated, keys)


def merge_sorted(
    sources: Sequence[Iterator[T]],
    key: Callable[[T], Array],
    part: Callable[[T, slice], T],
    join: Callable[[list[T]], T],
) -> Iterator[T]:
    """Merge the rows of all sources. Yield batches by ascending key, with all rows of equal key in one batch.

    Each source yields batches with rows by ascending key, and ``key`` returns the keys of a batch. ``part`` returns a
    slice of a batch. ``join`` merges several batches into one sorted batch; its argument has the batches in the order
    of ``sources``.
    """
    heads = {number: (key(batch), batch) for number, source in enumerate(sources) for batch in islice(source, 1)}
    unended = set(heads)
    while unended:
        least = min(unended, key=lambda number: heads[number][0][-1])
        bound = heads[least][0][-1]
        pieces: list[T] = []
        for number, (keys, batch) in heads.items():
            place = int(np.searchsorted(keys, bound))
            if place:
                pieces.append(part(batch, slice(0, place)))
                heads[number] = keys[place:], part(batch, slice(place, None))
        if pieces:
            yield join(pieces)
        next_batch = next(sources[least], None)
        if next_batch is None:
            unended.remove(least)
        else:
            batch = join([heads[least][1], next_batch])
            heads[least] = key(batch), batch
    remaining_batches = [batch for keys, batch in heads.values() if len(keys)]
    if remaining_batches:
        yield join(remaining_batches)
