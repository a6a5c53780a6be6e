"""Hashes of transfers' keys in order, and which of them are doubtful: whatever their number, a part at a time.

They are hashes, so equal ranges of them are about equally full.
"""

from __future__ import annotations

import uuid
from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path
from typing import Final

import numpy as np

from holderlake.engine.files.arrays import read_arrays, write_arrays
from holderlake.engine.importing.budget import Budget
from holderlake.engine.importing.spill import ArrayBuckets
from holderlake.engine.numeric.bigint import Array


def part_of(keys: Array, parts: int) -> Array:
    """Which of so many equal ranges each of the hashes lies in."""
    return ((keys >> np.uint64(48)).astype(np.int64) * parts) >> 16


class SortedKeys:
    """Hashes that come in any order, about as many as ``rows``, put in order on disk."""

    def __init__(self, rows: int, spool: Path, budget: Budget) -> None:
        self._spool = spool
        self._parts = 1 + 2 * rows // budget.chunk
        self._piles = ArrayBuckets(spool, budget.waiting)

    def add(self, keys: Array) -> None:
        """Adds hashes."""
        self._piles.sort_out(part_of(keys, self._parts), (keys,))

    def array(self) -> Array:
        """All of them, rising."""
        pieces = (np.sort(self._piles.take(number)[0]) for number in self._piles.numbers())
        return next(pieces) if self._parts == 1 else map_temporary_file(pieces, self._spool)


def map_temporary_file(pieces: Iterable[Array], spool: Path) -> Array:
    """Arrays one after another, in a mapped file that goes with them."""
    spool.mkdir(exist_ok=True)
    path = spool / f"{uuid.uuid4().hex}.keys"
    write_arrays(path, {"keys": pieces}, durable=False)
    mapped = read_arrays(path)["keys"]
    path.unlink()
    return mapped


def merged_keys(keys: Sequence[Array], chunk: int) -> Array | Iterable[Array]:
    """All hashes of sorted arrays, rising."""
    size = sum(map(len, keys))
    if len(keys) == 1:
        return keys[0]
    return np.sort(np.concatenate(keys)) if size <= chunk else _ranges(keys, 1 + 2 * size // chunk)


def _ranges(keys: Sequence[Array], parts: int) -> Iterator[Array]:
    edges = np.array([number * 2**64 // parts for number in range(1, parts)], np.uint64)
    cuts = [[0, *np.searchsorted(one, edges).tolist(), len(one)] for one in keys]
    for part in range(parts):
        yield np.sort(np.concatenate([one[cut[part] : cut[part + 1]] for one, cut in zip(keys, cuts, strict=True)]))


class RepeatedKeys:
    """The hashes that stand twice among sorted keys, or are also among the known ones (several sorted arrays)."""

    _STEP: Final = 1 << 18

    def __init__(self, keys: Array, known: Sequence[Array], spool: Path) -> None:
        pieces = self._pieces(keys, known)
        is_small = len(keys) <= self._STEP
        self._found = np.concatenate([keys[:0], *pieces]) if is_small else map_temporary_file(pieces, spool)

    def _pieces(self, keys: Array, known: Sequence[Array]) -> Iterator[Array]:
        for start in range(0, len(keys), self._STEP):
            some = keys[start : start + self._STEP + 1]  # and the first one of the next
            doubtful = np.concatenate([some[1:] == some[:-1], [False]])
            for other in known:
                if len(other):
                    places = np.minimum(np.searchsorted(other, some), len(other) - 1)
                    doubtful |= other[places] == some
            yield np.unique(some[doubtful])

    def any(self) -> bool:
        """Return whether there is any."""
        return bool(len(self._found))

    def among(self, keys: Array) -> Array:
        """Of each key, whether it is one of them."""
        if not len(self._found):
            return np.zeros(len(keys), np.bool_)
        places = np.minimum(np.searchsorted(self._found, keys), len(self._found) - 1)
        found: Array = self._found[places] == keys
        return found
