"""Keep rows of an import that do not fit into memory in files: in numbered buckets, or as tables in mapped memory."""

from __future__ import annotations

import itertools
import uuid
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Any, Final

import numpy as np
import pyarrow as pa

from holderlake.engine.numeric.bigint import Array

Columns = tuple[Array, ...]


def mapped_table(tables: Iterable[pa.Table], spool: Path) -> pa.Table:
    """Write tables of the same columns to a file in ``spool``, and return them as one table in mapped memory.

    There must be at least one table. The file is unlinked at once, so the system deletes it when the table is no longer
    used.
    """
    spool.mkdir(exist_ok=True)
    path, remaining = spool / f"{uuid.uuid4().hex}.rows", iter(tables)
    first_table = next(remaining)
    with pa.OSFile(str(path), "wb") as file, pa.ipc.new_file(file, first_table.schema) as sink:
        for table in itertools.chain([first_table], remaining):
            sink.write_table(table)
    mapped = pa.ipc.open_file(pa.memory_map(str(path))).read_all()
    path.unlink()
    return mapped


class ArrayBuckets:
    """Rows in numbered buckets, as numpy arrays, one array for each column. Types and shapes are the same in all rows.

    Up to ``memory`` bytes stay in memory; beyond that, rows are written to files in ``folder``.
    """

    def __init__(self, folder: Path, memory: int) -> None:
        self._folder = folder
        self._name = uuid.uuid4().hex
        self._memory = memory
        self._waiting: dict[int, list[Columns]] = {}
        self._waiting_bytes = 0
        self._rows: dict[int, int] = {}
        self._shapes: list[tuple[np.dtype[Any], tuple[int, ...]]] = []
        self._lengths: dict[int, list[int]] = {}  # of the blocks in the files

    def numbers(self) -> list[int]:
        """Return the ascending numbers of the buckets that have rows."""
        return sorted(self._rows)

    def rows_of(self, number: int) -> int:
        """Return the number of rows of a bucket."""
        return self._rows.get(number, 0)

    def add(self, number: int, rows: Columns) -> None:
        """Add rows to a bucket."""
        if not len(rows[0]):
            return
        self._rows[number] = self._rows.get(number, 0) + len(rows[0])
        self._waiting.setdefault(number, []).append(rows)
        self._waiting_bytes += _bytes_of(rows)
        if self._waiting_bytes > self._memory:
            self._write()

    def distribute(self, numbers: Array, rows: Columns) -> None:
        """Add rows to buckets. ``numbers`` has the bucket of each row. The rows of a bucket keep their order."""
        if not len(numbers):
            return
        order: Array = np.argsort(numbers.astype(np.uint16), kind="stable")  # a radix sort
        ordered: Array = numbers[order]
        edges = [0, *(np.flatnonzero(ordered[1:] != ordered[:-1]) + 1).tolist(), len(ordered)]
        by_bucket = rows if len(edges) == 2 else tuple(column[order] for column in rows)
        for start, end in itertools.pairwise(edges):
            self.add(int(ordered[start]), tuple(column[start:end] for column in by_bucket))

    def blocks(self, number: int) -> Iterator[Columns]:
        """Yield the rows of a bucket in batches, in the order in which they were added."""
        if number in self._lengths:
            with self._path(number).open("rb") as file:
                for length in self._lengths[number]:
                    yield tuple(
                        np.fromfile(file, dtype, length * int(np.prod(shape, dtype=int))).reshape(length, *shape)
                        for dtype, shape in self._shapes
                    )
        yield from self._waiting.get(number, [])

    def take(self, number: int) -> Columns:
        """Remove a bucket that has rows, and return its rows."""
        rows = _joined(list(self.blocks(number)))
        self.drop(number)
        return rows

    def drop(self, number: int) -> None:
        """Remove a bucket."""
        self._rows.pop(number, None)
        self._waiting_bytes -= sum(map(_bytes_of, self._waiting.pop(number, [])))
        if self._lengths.pop(number, None):
            self._path(number).unlink()

    def _write(self) -> None:
        self._folder.mkdir(exist_ok=True)
        for number, waiting in self._waiting.items():
            rows = _joined(waiting)
            self._shapes = [(column.dtype, column.shape[1:]) for column in rows]
            self._lengths.setdefault(number, []).append(len(rows[0]))
            with self._path(number).open("ab") as file:
                for column in rows:
                    file.write(np.ascontiguousarray(column).reshape(-1).view(np.uint8).data)
        self._waiting.clear()
        self._waiting_bytes = 0

    def _path(self, number: int) -> Path:
        return self._folder / f"{self._name}-{number}"


def _bytes_of(rows: Columns) -> int:
    return sum(column.nbytes for column in rows)


def _joined(blocks: list[Columns]) -> Columns:
    return blocks[0] if len(blocks) == 1 else tuple(map(np.concatenate, zip(*blocks, strict=True)))


class Sample:
    """An evenly spaced sample of a sequence of numbers whose length is not known in advance."""

    _MAX_NUMBERS: Final = 1 << 16

    def __init__(self) -> None:
        self._step = 1
        self._pieces: list[Array] = []
        self._count = 0

    def add(self, numbers: Array) -> None:
        """Add the next numbers of the sequence."""
        self._pieces.append(numbers[:: self._step].copy())
        self._count += len(self._pieces[-1])
        while self._count > 2 * self._MAX_NUMBERS:
            self._pieces = [np.concatenate(self._pieces)[::2]]
            self._count = len(self._pieces[0])
            self._step *= 2

    def cuts(self, parts: int) -> Array:
        """Return ascending numbers that divide the sequence into about ``parts`` ranges with about equally many
        numbers."""
        if not self._pieces or parts < 2:
            return np.empty(0, np.int64)
        ordered = np.sort(np.concatenate(self._pieces))
        return np.unique(ordered[np.arange(1, parts) * len(ordered) // parts])
