"""Sort the 64-bit hashes of transfers' keys in parts that fit into memory, and find repeated hashes.

Hashes are evenly distributed. Therefore ranges of equal width contain about the same number of hashes.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from pathlib import Path
from typing import Final, Protocol, TypeVar

import numpy as np

from holderlake.engine.files.arrays import temporary_arrays
from holderlake.engine.importing.budget import Budget
from holderlake.engine.importing.spill import ArrayBuckets
from holderlake.engine.numeric.bigint import Array


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


class Rows(Protocol):
    """A batch of rows, of any type that has a length."""

    def __len__(self) -> int: ...


T = TypeVar("T", bound=Rows)


def merge_sorted(
    sources: Sequence[Iterator[T]],
    key: Callable[[T], Array],
    part: Callable[[T, slice], T],
    join: Callable[[list[T]], T],
) -> Iterator[T]:
    """Merge the rows of all sources. Yield batches by ascending key, with all rows of equal key in one batch.

    Each source yields batches by ascending key, and ``key`` returns the keys of a batch. ``part`` returns a slice of a
    batch. ``join`` merges several batches into one sorted batch; its argument has the batches in the order of
    ``sources``.
    """
    heads: list[T | None] = [next(source, None) for source in sources]
    ended = [head is None for head in heads]
    while True:
        waiting = [number for number, end in enumerate(ended) if not end]
        if not waiting:
            break
        least = min(waiting, key=lambda number: _last_key(heads[number], key))
        bound = _last_key(heads[least], key)
        pieces: list[T] = []
        for number, head in enumerate(heads):
            if head is None:
                continue
            place = int(np.searchsorted(key(head), bound, side="left"))
            if place:
                pieces.append(part(head, slice(0, place)))
                heads[number] = part(head, slice(place, None)) if place < len(head) else None
        if pieces:
            yield join(pieces)
        next_batch = next(sources[least], None)
        if next_batch is None:
            ended[least] = True
        else:
            remaining = heads[least]
            heads[least] = next_batch if remaining is None else join([remaining, next_batch])
    rest_of_all = [head for head in heads if head is not None]
    if rest_of_all:
        yield join(rest_of_all)


def _last_key(head: object, key: Callable[[T], Array]) -> int:
    return int(key(head)[-1])  # type: ignore[arg-type]  # a source that has not ended has a head
