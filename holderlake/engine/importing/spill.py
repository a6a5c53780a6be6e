"""Divide rows into numbered buckets that each fit into memory. Rows beyond a memory limit are written to files."""

from __future__ import annotations

import itertools
import uuid
from abc import ABC, abstractmethod
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any, BinaryIO, Final, Generic, TypeVar

import numpy as np
import pyarrow as pa

from holderlake.engine.numeric.bigint import Array

Columns = tuple[Array, ...]
T = TypeVar("T", Columns, pa.Table)

_LZ4: Final = pa.ipc.IpcWriteOptions(compression="lz4")


class _Buckets(ABC, Generic[T]):
    """Rows in numbered buckets. Up to ``memory`` bytes stay in memory; beyond that, rows are written to files in
    ``folder``."""

    def __init__(self, folder: Path, memory: int) -> None:
        self._folder = folder
        self._name = uuid.uuid4().hex
        self._memory = memory
        self._waiting: dict[int, list[T]] = {}
        self._waiting_bytes = 0
        self._sizes: dict[int, list[int]] = {}
        self._buckets_on_disk: set[int] = set()

    def numbers(self) -> list[int]:
        """Return the ascending numbers of the buckets that have rows."""
        return sorted(self._sizes)

    def bytes_of(self, number: int) -> int:
        """Return the size of a bucket's rows in bytes, before compression."""
        return self._sizes[number][1] if number in self._sizes else 0

    def rows_of(self, number: int) -> int:
        """Return the number of rows of a bucket."""
        return self._sizes[number][0] if number in self._sizes else 0

    def add(self, number: int, rows: T) -> None:
        """Add rows to a bucket."""
        count, size = self._measure(rows)
        if not count:
            return
        size_of = self._sizes.setdefault(number, [0, 0])
        size_of[0] += count
        size_of[1] += size
        self._waiting.setdefault(number, []).append(rows)
        self._waiting_bytes += size
        if self._waiting_bytes > self._memory:
            self._write()

    def distribute(self, numbers: Array, rows: T) -> None:
        """Add rows to buckets. ``numbers`` has the bucket of each row. The rows of a bucket keep their order."""
        if not len(numbers):
            return
        is_narrow = int(numbers.max()) < 1 << 16  # then a radix sort
        order: Array = np.argsort(numbers.astype(np.uint16) if is_narrow else numbers, kind="stable")
        ordered: Array = numbers[order]
        edges = [0, *(np.flatnonzero(ordered[1:] != ordered[:-1]) + 1).tolist(), len(ordered)]
        by_bucket = rows if len(edges) == 2 else self._take_rows(rows, order)
        for start, end in itertools.pairwise(edges):
            self.add(int(ordered[start]), self._part(by_bucket, start, end))

    def blocks(self, number: int) -> Iterator[T]:
        """Yield the rows of a bucket in batches, in the order in which they were added."""
        if number in self._buckets_on_disk:
            with self._path(number).open("rb") as file:
                yield from self._read(number, file)
        yield from self._waiting.get(number, [])

    def take(self, number: int) -> T:
        """Remove a bucket that has rows, and return its rows."""
        rows = self._join(list(self.blocks(number)))
        self.drop(number)
        return rows

    def drop(self, number: int) -> None:
        """Remove a bucket."""
        self._sizes.pop(number, None)
        self._waiting_bytes -= sum(self._measure(rows)[1] for rows in self._waiting.pop(number, []))
        if number in self._buckets_on_disk:
            self._buckets_on_disk.discard(number)
            self._path(number).unlink()

    def _write(self) -> None:
        self._folder.mkdir(exist_ok=True)
        for number, waiting in self._waiting.items():
            with self._path(number).open("ab") as file:
                self._append(number, file, self._join(waiting))
            self._buckets_on_disk.add(number)
        self._waiting.clear()
        self._waiting_bytes = 0

    def _path(self, number: int) -> Path:
        return self._folder / f"{self._name}-{number}"

    @abstractmethod
    def _measure(self, rows: T) -> tuple[int, int]: ...

    @abstractmethod
    def _take_rows(self, rows: T, places: Array) -> T: ...

    @abstractmethod
    def _part(self, rows: T, start: int, end: int) -> T: ...

    @abstractmethod
    def _join(self, blocks: Sequence[T]) -> T: ...

    @abstractmethod
    def _append(self, number: int, file: BinaryIO, rows: T) -> None: ...

    @abstractmethod
    def _read(self, number: int, file: BinaryIO) -> Iterator[T]: ...


class ArrayBuckets(_Buckets[Columns]):
    """Buckets of rows in numpy arrays, one array for each column. Types and shapes are the same in all rows."""

    def __init__(self, folder: Path, memory: int) -> None:
        super().__init__(folder, memory)
        self._shapes: list[tuple[np.dtype[Any], tuple[int, ...]]] = []
        self._lengths: dict[int, list[int]] = {}

    def drop(self, number: int) -> None:
        """Remove a bucket."""
        super().drop(number)
        self._lengths.pop(number, None)

    def _measure(self, rows: Columns) -> tuple[int, int]:
        return len(rows[0]), sum(column.nbytes for column in rows)

    def _take_rows(self, rows: Columns, places: Array) -> Columns:
        return tuple(column[places] for column in rows)

    def _part(self, rows: Columns, start: int, end: int) -> Columns:
        return tuple(column[start:end] for column in rows)

    def _join(self, blocks: Sequence[Columns]) -> Columns:
        return blocks[0] if len(blocks) == 1 else tuple(map(np.concatenate, zip(*blocks, strict=True)))

    def _append(self, number: int, file: BinaryIO, rows: Columns) -> None:
        self._shapes = [(column.dtype, column.shape[1:]) for column in rows]
        self._lengths.setdefault(number, []).append(len(rows[0]))
        for column in rows:
            file.write(np.ascontiguousarray(column).reshape(-1).view(np.uint8).data)

    def _read(self, number: int, file: BinaryIO) -> Iterator[Columns]:
        for length in self._lengths[number]:
            yield tuple(
                np.fromfile(file, dtype, length * int(np.prod(shape, dtype=int))).reshape(length, *shape)
                for dtype, shape in self._shapes
            )


class TableBuckets(_Buckets[pa.Table]):
    """Buckets of rows in Arrow tables of the same schema."""

    def blocks_of(self, number: int, columns: Sequence[str]) -> Iterator[pa.Table]:
        """Yield the given columns of a bucket's rows in batches, in the order in which the rows were added."""
        if number in self._buckets_on_disk:
            with self._path(number).open("rb") as file:
                yield from self._streams(file, columns)
        for table in self._waiting.get(number, []):
            yield table.select(list(columns))

    def _measure(self, rows: pa.Table) -> tuple[int, int]:
        return rows.num_rows, rows.nbytes

    def _take_rows(self, rows: pa.Table, places: Array) -> pa.Table:
        return rows.take(pa.array(places))

    def _part(self, rows: pa.Table, start: int, end: int) -> pa.Table:
        return rows.slice(start, end - start)

    def _join(self, blocks: Sequence[pa.Table]) -> pa.Table:
        return pa.concat_tables(blocks).combine_chunks()

    def _append(self, number: int, file: BinaryIO, rows: pa.Table) -> None:
        self._schema = rows.schema
        with pa.ipc.new_stream(file, rows.schema, options=_LZ4) as stream:
            stream.write_table(rows)

    def _read(self, number: int, file: BinaryIO) -> Iterator[pa.Table]:
        yield from self._streams(file, None)

    def _streams(self, file: BinaryIO, columns: Sequence[str] | None) -> Iterator[pa.Table]:
        included = None if columns is None else [self._schema.get_field_index(name) for name in columns]
        options = pa.ipc.IpcReadOptions(included_fields=included, use_threads=False)
        with pa.PythonFile(file, mode="r") as source:
            while source.tell() < source.size():
                for batch in pa.ipc.open_stream(source, options=options):
                    yield pa.Table.from_batches([batch])


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
