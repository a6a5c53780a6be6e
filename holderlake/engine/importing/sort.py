"""Group the rows of an import by token, and sort the rows of each token by block.

Rows are divided by token into buckets (``spill``), which are temporary files where they do not fit into memory. If the
rows of one token do not fit into memory, they are divided again, by block.
"""

from __future__ import annotations

import itertools
import zlib
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Final

import numpy as np
import pyarrow as pa

from holderlake.engine.importing.budget import Budget, release_freed_memory
from holderlake.engine.importing.keys import SortedKeys
from holderlake.engine.importing.rows import TOKEN_COLUMNS, Codes, Coding, in_order
from holderlake.engine.importing.spill import Sample, TableBuckets
from holderlake.engine.numeric.bigint import Array
from holderlake.engine.records import TRANSFERS

_BUCKETS: Final = 64


class TokenRows:
    """The rows of a token (``chain`` and ``address``) of an import, which can be written only once.

    They are in the bucket with the number ``bucket`` of ``buckets``. ``standard`` is the token standard of the first
    row, ``keys`` are the sorted hashes of the rows' keys. ``rows`` and ``bytes`` are the numbers of rows and bytes.
    """

    def __init__(self, buckets: TableBuckets, bucket: int, sorting: Sorter) -> None:
        self.buckets = buckets
        self.bucket = bucket
        self._sorting = sorting
        self.rows, self.bytes = buckets.rows_of(bucket), buckets.bytes_of(bucket)
        self._blocks = Sample()
        self._spans: list[tuple[int, int, int]] = []  # of each batch: rows, first and last block number
        self.keys, token, kind = self._read_through()
        self.chain, self.address = sorting.coding.tokens.texts(token)
        self.standard = sorting.coding.standard(kind)

    def _read_through(self) -> tuple[Array, int, int]:
        """Read all rows once. Return the sorted hashes of their keys, the token's number, and the first row's ``kind``
        number."""
        sorting = self._sorting
        sorted_keys = SortedKeys(self.rows, sorting.spool, sorting.budget)
        earliest, kind, token = (2**63, 2**63), 0, 0
        for rows in self.buckets.blocks_of(self.bucket, ["token", "kind", "block_number", "log_index", "key"]):
            numbers = rows["block_number"].to_numpy()
            sorted_keys.add(rows["key"].to_numpy())
            self._blocks.add(numbers)
            self._spans.append((len(numbers), int(numbers.min()), int(numbers.max())))
            first_row = int(np.lexsort((rows["log_index"].to_numpy(), numbers))[0])
            place = (int(numbers[first_row]), rows["log_index"][first_row].as_py())
            if place < earliest:
                earliest, kind, token = place, rows["kind"][first_row].as_py(), rows["token"][first_row].as_py()
        return sorted_keys.array(), token, kind

    def instead(self, buckets: TableBuckets, bucket: int) -> TokenRows:
        """Return a ``TokenRows`` of the same token, with the rows in bucket number ``bucket`` of ``buckets``."""
        return TokenRows(buckets, bucket, self._sorting)

    def columns(self, names: Sequence[str]) -> Iterator[pa.Table]:
        """Yield columns of the encoded rows in batches, in the order in which they were added."""
        yield from self.buckets.blocks_of(self.bucket, names)

    def without(self, keys: Array) -> TokenRows | None:
        """Return the rows whose hash is not in ``keys``; None if there are none. Only the result can be used then."""
        remaining = TableBuckets(self._sorting.spool, self._sorting.budget.waiting)
        for rows in self.buckets.blocks(self.bucket):
            remaining.add(0, rows.filter(pa.array(~np.isin(rows["key"].to_numpy(), keys))))
        self.buckets.drop(self.bucket)
        return self.instead(remaining, 0) if remaining.rows_of(0) else None

    def tables(self) -> Iterator[pa.Table]:
        """Yield the encoded rows, sorted by block, in batches. A second call is not possible."""
        for rows in self._slices():
            yield in_order(rows)
            release_freed_memory()

    def _slices(self) -> Iterator[pa.Table]:
        """Yield the rows in tables that each cover a range of blocks, in the order of these ranges.

        If the rows were not added in the order of their blocks, they are first partitioned by block.
        """
        budget = self._sorting.budget
        max_rows = max(self.rows * budget.group // max(self.bytes, 1), 1)
        counts, firsts, lasts = (np.array(column, np.int64) for column in zip(*self._spans, strict=True))
        is_edge = np.maximum.accumulate(lasts)[:-1] < np.minimum.accumulate(firsts[::-1])[::-1][1:]
        edges = [0, *(np.flatnonzero(is_edge) + 1).tolist(), len(counts)]
        row_starts = np.concatenate([[0], np.cumsum(counts)])
        sizes = np.diff(row_starts[edges])
        if sizes.max() > max_rows:
            yield from self._by_block(-(-self.rows // max_rows))
            return
        pending: list[pa.Table] = []
        ends = dict(zip(edges[1:], [*sizes[1:].tolist(), 0], strict=True))  # last batch of a range: rows of the next
        for place, rows in enumerate(self.buckets.blocks(self.bucket), start=1):
            pending.append(rows)
            if place in ends and (sum(map(len, pending)) + ends[place] > max_rows or place == len(counts)):
                yield pa.concat_tables(pending).combine_chunks()
                pending.clear()
        self.buckets.drop(self.bucket)

    def _by_block(self, parts: int) -> Iterator[pa.Table]:
        cuts, buckets = self._blocks.cuts(parts), TableBuckets(self._sorting.spool, self._sorting.budget.waiting)
        for rows in self.buckets.blocks(self.bucket):
            buckets.distribute(np.searchsorted(cuts, rows["block_number"].to_numpy(), side="right"), rows)
        self.buckets.drop(self.bucket)
        for number in buckets.numbers():
            yield buckets.take(number)


class Sorter:
    """Groups the rows of an import by token and sorts them. ``spool`` is the folder for temporary files.

    ``numbered`` is a function that adds the address numbers to encoded rows.
    """

    def __init__(self, coding: Coding, numbered: Callable[[pa.Table], pa.Table], spool: Path, budget: Budget) -> None:
        self.coding = coding
        self.numbered = numbered
        self.spool = spool
        self.budget = budget

    def by_token(self, transfers: pa.Table | pa.RecordBatchReader) -> Iterator[TokenRows]:
        """Yield the rows of each token. ``transfers`` has the schema ``TRANSFERS``, in any order."""
        batches = transfers.to_batches(self.budget.batch) if isinstance(transfers, pa.Table) else transfers
        tables = (
            self.numbered(self.coding.encoded(rows.select(TRANSFERS.names).cast(TRANSFERS)))
            for batch in batches
            for rows in _chunks(batch, self.budget.batch)
        )
        buckets = TableBuckets(self.spool, self.budget.group)
        bucket_of = np.empty(0, np.int64)
        for rows in tables:
            new_tokens = range(len(bucket_of), len(self.coding.tokens))
            bucket_of = np.append(bucket_of, [_bucket_of(self.coding.tokens, token, _BUCKETS) for token in new_tokens])
            buckets.distribute(bucket_of[rows["token"].to_numpy()], rows)
        release_freed_memory()
        for number in buckets.numbers():
            yield from self._from_bucket(buckets, number)
            release_freed_memory()

    def _from_bucket(self, buckets: TableBuckets, number: int) -> Iterator[TokenRows]:
        counts = np.zeros(len(self.coding.tokens), np.int64)
        for rows in buckets.blocks_of(number, ["token"]):
            counts += np.bincount(rows["token"].to_numpy(), minlength=len(counts))
        tokens = np.flatnonzero(counts)
        if len(tokens) == 1:
            yield TokenRows(buckets, number, self)
            return
        size, places = buckets.bytes_of(number), np.zeros(len(counts), np.int64)
        is_small = size <= self.budget.group
        if is_small:
            places[tokens] = np.arange(len(tokens))
        else:  # fill buckets with one token after another, and begin a new one when a token does not fit
            max_rows, bucket, bucket_rows = buckets.rows_of(number) * self.budget.group // size, 0, 0
            for token in tokens.tolist():
                if bucket_rows and bucket_rows + counts[token] > max_rows:
                    bucket, bucket_rows = bucket + 1, 0
                places[token] = bucket
                bucket_rows += int(counts[token])
        smaller = TableBuckets(self.spool, self.budget.group)
        for rows in buckets.blocks(number):
            smaller.distribute(places[rows["token"].to_numpy()], rows)
        buckets.drop(number)
        for smaller_number in smaller.numbers():
            if is_small:
                yield TokenRows(smaller, smaller_number, self)
            else:
                yield from self._from_bucket(smaller, smaller_number)


def by_bucket(rows: pa.Table, buckets: int) -> Iterator[tuple[int, pa.Table]]:
    """Yield the rows (schema ``TRANSFERS``) of each bucket with its number. All rows of a token are in one bucket."""
    codes = Codes(TOKEN_COLUMNS)
    tokens = codes.encode(rows)
    numbers = np.array([_bucket_of(codes, token, buckets) for token in range(len(codes))], np.uint16)[tokens]
    order = np.argsort(numbers, kind="stable")
    edges = [0, *(np.flatnonzero(np.diff(numbers[order])) + 1).tolist(), len(order)]
    ordered = rows.combine_chunks().take(pa.array(order)).combine_chunks()
    for start, end in itertools.pairwise(edges):
        yield int(numbers[order[start]]), ordered.slice(start, end - start)


def _bucket_of(codes: Codes, token: int, buckets: int) -> int:
    return zlib.crc32("/".join(codes.texts(token)).encode()) % buckets


def _chunks(batch: pa.RecordBatch, size: int) -> Iterator[pa.Table]:
    for start in range(0, batch.num_rows, size):
        yield pa.Table.from_batches([batch.slice(start, size)])
