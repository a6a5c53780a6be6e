"""Rows that come in any order are put in order, token by token.

What fits into memory is sorted there. What does not is first sorted out on disk into piles of tokens, and those of a
token that is too large for that into piles of blocks.
"""

from __future__ import annotations

import itertools
import zlib
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Final, Protocol

import numpy as np
import pyarrow as pa

from holderlake.engine.importing.budget import Budget, release_freed_memory
from holderlake.engine.importing.keys import SortedKeys
from holderlake.engine.importing.rows import Coding, in_order
from holderlake.engine.importing.spill import Sample, TableBuckets
from holderlake.engine.numeric.bigint import Array
from holderlake.engine.records import TRANSFERS

_BUCKETS: Final = 64
_LARGE: Final = 256
"""A token that has more than one in so many of the first rows gets a pile of its own."""


class TokenRows(Protocol):
    """Rows of one token that are to be imported: of ``chain`` and ``address``, with the ``keys``' sorted hashes."""

    chain: str
    address: str
    keys: Array

    @property
    def rows(self) -> int:
        """How many rows."""

    @property
    def standard(self) -> str:
        """The standard of the token's first row."""

    def tables(self) -> Iterator[pa.Table]:
        """The rows in order, some at a time."""


@dataclass
class RowsInMemory:
    """Rows of a token in memory, in order."""

    chain: str
    address: str
    standard: str
    keys: Array
    table: pa.Table

    @property
    def rows(self) -> int:
        """How many rows."""
        return int(self.table.num_rows)

    def tables(self) -> Iterator[pa.Table]:
        """All rows at once."""
        yield self.table

    def only(self, kept: Array) -> RowsInMemory:
        """The same with some of its rows."""
        table = self.table.filter(pa.array(kept))
        return RowsInMemory(self.chain, self.address, self.standard, np.sort(table["key"].to_numpy()), table)


class RowsOnDisk:
    """Rows of a token on disk, more than are held at once. ``pile`` of ``piles`` is theirs, and is used up."""

    def __init__(self, piles: TableBuckets, pile: int, sorting: Sorter) -> None:
        self.piles = piles
        self.pile = pile
        self._sorting = sorting
        self.rows, self.bytes = piles.rows_of(pile), piles.bytes_of(pile)
        self._blocks = Sample()
        self._spans: list[tuple[int, int, int]] = []  # of each block of the pile: rows, first and last block number
        self.keys, token, kind = self._read_through()
        self.chain, self.address = sorting.coding.tokens.texts(token)
        self.standard = sorting.coding.standard(kind)

    def _read_through(self) -> tuple[Array, int, int]:
        """The sorted keys, and numbers of the token and of the first row's kind."""
        sorting = self._sorting
        sorted_keys = SortedKeys(self.rows, sorting.spool, sorting.budget)
        earliest, kind, token = (2**63, 2**63), 0, 0
        for rows in self.piles.blocks_of(self.pile, ["token", "kind", "block_number", "log_index", "key"]):
            numbers = rows["block_number"].to_numpy()
            sorted_keys.add(rows["key"].to_numpy())
            self._blocks.add(numbers)
            self._spans.append((len(numbers), int(numbers.min()), int(numbers.max())))
            first = int(np.lexsort((rows["log_index"].to_numpy(), numbers))[0])
            place = (int(numbers[first]), rows["log_index"][first].as_py())
            if place < earliest:
                earliest, kind, token = place, rows["kind"][first].as_py(), rows["token"][first].as_py()
        return sorted_keys.array(), token, kind

    def instead(self, piles: TableBuckets, pile: int) -> RowsOnDisk:
        """Other rows of the same token."""
        return RowsOnDisk(piles, pile, self._sorting)

    def tables(self) -> Iterator[pa.Table]:
        """The rows in order, some at a time; they can be told once."""
        for rows in self._slices():
            yield self._sorting.numbered(in_order(rows))
            release_freed_memory()

    def _slices(self) -> Iterator[pa.Table]:
        """The rows in piles of blocks, one after another: as they came where they came by time, or sorted out again."""
        budget = self._sorting.budget
        most = max(self.rows * budget.group // max(self.bytes, 1), 1)
        counts, firsts, lasts = (np.array(column, np.int64) for column in zip(*self._spans, strict=True))
        is_edge = np.maximum.accumulate(lasts)[:-1] < np.minimum.accumulate(firsts[::-1])[::-1][1:]
        edges = [0, *(np.flatnonzero(is_edge) + 1).tolist(), len(counts)]
        before = np.concatenate([[0], np.cumsum(counts)])
        sizes = np.diff(before[edges])
        if sizes.max() > most:
            yield from self._by_block(-(-self.rows // most))
            return
        held: list[pa.Table] = []
        ends = dict(zip(edges[1:], [*sizes[1:].tolist(), 0], strict=True))  # and how many come until the next
        for place, rows in enumerate(self.piles.blocks(self.pile), start=1):
            held.append(rows)
            if place in ends and (sum(map(len, held)) + ends[place] > most or place == len(counts)):
                yield pa.concat_tables(held).combine_chunks()
                held.clear()
        self.piles.drop(self.pile)

    def _by_block(self, parts: int) -> Iterator[pa.Table]:
        cuts, piles = self._blocks.cuts(parts), TableBuckets(self._sorting.spool, self._sorting.budget.waiting)
        for rows in self.piles.blocks(self.pile):
            piles.sort_out(np.searchsorted(cuts, rows["block_number"].to_numpy(), side="right"), rows)
        self.piles.drop(self.pile)
        for number in piles.numbers():
            yield piles.take(number)


class Sorter:
    """Puts an import's rows in order. ``numbered`` gives rows in order their addresses' numbers."""

    def __init__(self, coding: Coding, numbered: Callable[[pa.Table], pa.Table], spool: Path, budget: Budget) -> None:
        self.coding = coding
        self.numbered = numbered
        self.spool = spool
        self.budget = budget

    def by_token(self, transfers: pa.Table | pa.RecordBatchReader) -> Iterator[TokenRows]:
        """The rows (``TRANSFERS``, in any order), token by token."""
        batches = transfers.to_batches(self.budget.batch) if isinstance(transfers, pa.Table) else transfers
        rest = (self._encoded(rows) for batch in batches for rows in _cut(batch, self.budget.batch))
        held: list[pa.Table] = []
        size = 0
        for rows in rest:
            held.append(rows)
            size += rows.nbytes
            if size > self.budget.group:
                yield from self._of_piles(held, rest)
                return
        if held:
            yield from self._in_memory(pa.concat_tables(held))

    def _encoded(self, rows: pa.Table) -> pa.Table:
        return self.coding.encoded(rows.select(TRANSFERS.names).cast(TRANSFERS))

    def _in_memory(self, rows: pa.Table) -> Iterator[TokenRows]:
        ordered = self.numbered(in_order(rows.combine_chunks(), tokens=True))
        keys, tokens = ordered["key"].to_numpy(), ordered["token"].to_numpy()
        kinds = ordered["kind"].to_numpy()
        edges = [0, *(np.flatnonzero(tokens[1:] != tokens[:-1]) + 1).tolist(), len(tokens)]
        for start, end in itertools.pairwise(edges):
            if end > start:
                chain, address = self.coding.tokens.texts(int(tokens[start]))
                standard = self.coding.standard(int(kinds[start]))
                yield RowsInMemory(
                    chain, address, standard, np.sort(keys[start:end]), ordered.slice(start, end - start)
                )

    def _of_piles(self, held: list[pa.Table], rest: Iterable[pa.Table]) -> Iterator[TokenRows]:
        piles = TableBuckets(self.spool, self.budget.waiting)
        own = _frequent(np.concatenate([rows["token"].to_numpy() for rows in held]))
        place: dict[int, int] = {token: _BUCKETS + number for number, token in enumerate(own.tolist())}
        pile_of = np.empty(0, np.int64)
        for rows in _drained(held, rest):
            if len(pile_of) < len(self.coding.tokens):
                new = range(len(pile_of), len(self.coding.tokens))
                pile_of = np.concatenate([pile_of, [place.get(token, self._bucket(token)) for token in new]])
            piles.sort_out(pile_of[rows["token"].to_numpy()], rows)
        release_freed_memory()
        for number in piles.numbers():
            yield from self._of_pile(piles, number)
            release_freed_memory()

    def _bucket(self, token: int) -> int:
        return zlib.crc32("/".join(self.coding.tokens.texts(token)).encode()) % _BUCKETS

    def _of_pile(self, piles: TableBuckets, number: int) -> Iterator[TokenRows]:
        if piles.bytes_of(number) <= self.budget.group:
            yield from self._in_memory(piles.take(number))
            return
        counts = np.zeros(len(self.coding.tokens), np.int64)
        for rows in piles.blocks_of(number, ["token"]):
            counts += np.bincount(rows["token"].to_numpy(), minlength=len(counts))
        if np.count_nonzero(counts) == 1:
            yield RowsOnDisk(piles, number, self)
            return
        most = piles.rows_of(number) * self.budget.group // piles.bytes_of(number)
        # tokens one after another, a new pile wherever one would not fit
        tokens = np.flatnonzero(counts)
        places, pile, filled = np.zeros(len(counts), np.int64), 0, 0
        for token in tokens.tolist():
            if filled and filled + counts[token] > most:
                pile, filled = pile + 1, 0
            places[token] = pile
            filled += int(counts[token])
        apart = TableBuckets(self.spool, self.budget.waiting)
        for rows in piles.blocks(number):
            apart.sort_out(places[rows["token"].to_numpy()], rows)
        piles.drop(number)
        for one in apart.numbers():
            if apart.bytes_of(one) > self.budget.group and np.count_nonzero(places[tokens] == one) == 1:
                yield RowsOnDisk(apart, one, self)
            else:
                yield from self._in_memory(apart.take(one))


def _frequent(tokens: Array) -> Array:
    """Those of the tokens that a large part of rows is of."""
    return np.flatnonzero(np.bincount(tokens) * _LARGE > len(tokens))


def _cut(batch: pa.RecordBatch, size: int) -> Iterator[pa.Table]:
    for start in range(0, batch.num_rows, size):
        yield pa.Table.from_batches([batch.slice(start, size)])


def _drained(first: list[pa.Table], rest: Iterable[pa.Table]) -> Iterator[pa.Table]:
    while first:
        yield first.pop(0)
    yield from rest
