"""Group the rows of an import by token, and sort the rows of each token by block.

Rows are sorted in runs that fit into memory. If there is more than one, each run becomes a file in mapped memory, and
the rows of a token are merged from all runs.
"""

from __future__ import annotations

import itertools
import zlib
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path

import numpy as np
import pyarrow as pa

from holderlake.engine.importing.budget import Budget, release_freed_memory
from holderlake.engine.importing.keys import SortedKeys
from holderlake.engine.importing.rows import TOKEN_COLUMNS, Codes, Coding, in_order, merged_rows
from holderlake.engine.importing.spill import mapped_table
from holderlake.engine.numeric.bigint import Array
from holderlake.engine.records import TRANSFERS


class TokenRows:
    """The rows of a token (``chain`` and ``address``) of an import, encoded, in ``pieces`` that are sorted by block.

    ``standard`` is the token standard of the first row, ``keys`` are the sorted hashes of the rows' keys. ``rows`` and
    ``bytes`` are the numbers of rows and bytes.
    """

    def __init__(self, pieces: Sequence[pa.Table], sorting: Sorter) -> None:
        self.pieces = pieces
        self._sorting = sorting
        self.rows, self.bytes = sum(map(len, pieces)), sum(piece.nbytes for piece in pieces)
        sorted_keys = SortedKeys(self.rows, sorting.spool, sorting.budget)
        for piece in pieces:
            sorted_keys.add(piece["key"].to_numpy())
        self.keys = sorted_keys.array()
        names = ("block_number", "log_index", "kind", "token")
        *_, kind, token = min(tuple(piece[name][0].as_py() for name in names) for piece in pieces)
        self.chain, self.address = sorting.coding.tokens.texts(token)
        self.standard = sorting.coding.standard(kind)

    def columns(self, names: Sequence[str]) -> Iterator[pa.Table]:
        """Yield columns of the rows in batches."""
        for piece in self.pieces:
            yield from _batches(piece.select(list(names)), self._sorting.budget.batch)

    def only(self, is_kept: Callable[[int, pa.Table], Array]) -> TokenRows | None:
        """Return some rows; None if there are none.

        ``is_kept`` returns a mask of the rows of a piece. Its arguments are the number of rows before the piece, and
        the piece.
        """
        is_large, before, pieces = self.bytes > self._sorting.budget.group, 0, []
        for piece in self.pieces:
            kept = piece.filter(pa.array(is_kept(before, piece)))
            before += len(piece)
            if kept.num_rows:
                pieces.append(mapped_table([kept], self._sorting.spool) if is_large else kept)
        return TokenRows(pieces, self._sorting) if pieces else None

    def tables(self) -> Iterator[pa.Table]:
        """Yield the rows, sorted by block, in batches."""
        budget = self._sorting.budget
        if self.bytes <= budget.group:
            yield in_order(pa.concat_tables(self.pieces).combine_chunks())
            return
        chains: list[list[pa.Table]] = []
        for piece in self.pieces:
            if chains and chains[-1][-1]["block_number"][-1].as_py() < piece["block_number"][0].as_py():
                chains[-1].append(piece)  # the usual case
            else:
                chains.append([piece])
        rows = max(budget.batch // len(chains), 16)
        for table in merged_rows([(part for piece in chain for part in _batches(piece, rows)) for chain in chains]):
            yield table
            release_freed_memory()


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
        runs = self._runs(transfers)
        numbers = np.arange(len(self.coding.tokens) + 1, dtype=np.int32)
        edges = [np.searchsorted(run["token"].to_numpy(), numbers).astype(np.int32) for run in runs]
        for token in range(len(numbers) - 1):
            spans = [(run, int(of_run[token]), int(of_run[token + 1])) for run, of_run in zip(runs, edges, strict=True)]
            rows = TokenRows([run.slice(start, end - start) for run, start, end in spans if end > start], self)
            yield rows
            if 8 * rows.bytes > self.budget.group:
                release_freed_memory()

    def _runs(self, transfers: pa.Table | pa.RecordBatchReader) -> list[pa.Table]:
        """Return all rows in tables that are sorted by token and block."""
        runs: list[pa.Table] = []
        pending: list[pa.Table] = []
        size = 0
        batches = transfers.to_batches(self.budget.batch) if isinstance(transfers, pa.Table) else transfers
        for rows in (rows for batch in batches for rows in _batches(pa.table(batch), self.budget.batch)):
            pending.append(self.numbered(self.coding.encoded(rows.select(TRANSFERS.names).cast(TRANSFERS))))
            size += pending[-1].nbytes
            if size > self.budget.group:
                runs.append(mapped_table([_sorted(pending)], self.spool))
                size = 0
                release_freed_memory()
        if pending:
            rest = _sorted(pending)
            runs.append(mapped_table([rest], self.spool) if runs else rest)
        return runs


def _sorted(pending: list[pa.Table]) -> pa.Table:
    """Return the rows of ``pending`` as one sorted table, and clear the list."""
    rows = pa.concat_tables(pending).combine_chunks()
    pending.clear()
    return in_order(rows, tokens=True).combine_chunks()


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


def _batches(rows: pa.Table, size: int) -> Iterator[pa.Table]:
    return (rows.slice(start, size) for start in range(0, rows.num_rows, size))
