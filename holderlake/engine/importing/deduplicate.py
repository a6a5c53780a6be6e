"""Divide the rows of an import into new rows, duplicates and conflicts.

A duplicate equals a known transfer with the same key. A conflict has the key of a known transfer, but other content.
Rows are first compared by the hash of their key. If a hash is neither repeated nor stored, the row is new. Only the
other rows are compared in full.
"""

from __future__ import annotations

import itertools
import uuid
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Final

import duckdb
import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from holderlake.engine.importing.budget import Budget
from holderlake.engine.importing.keys import RepeatedKeys, are_among, part_of
from holderlake.engine.importing.rows import Coding, read_rows
from holderlake.engine.importing.sort import TokenRows
from holderlake.engine.importing.spill import mapped_table
from holderlake.engine.numeric.bigint import Array
from holderlake.engine.records import TRANSFERS

_COMPARE: Final = """
-- The verdict on each imported row with a repeated hash: 0 new, 1 known, 2 other content for a known key. The key is
-- (tx_hash, log_index, token_id); a row without a transaction is keyed by its block and addresses.
WITH together AS (
    SELECT *, NULL AS place, 0 AS origin FROM stored
    UNION ALL BY NAME
    SELECT *, 1 AS origin FROM imported
),
keyed AS (
    SELECT
        coalesce(tx_hash, block_number || ':' || from_address || ':' || to_address) AS transaction,
        log_index, coalesce(token_id, '') AS item, origin, place, (from_address, to_address, value) AS content,
        (
            origin, from_address, to_address, value,
            time_kind <> 'exact', log_index_kind <> 'exact', block_number, block_time, source, place
        ) AS rank
    FROM together
),
-- A known row stays. Of rows that come together the exact one is kept, independent of their order. An aggregate takes
-- linear time for millions of equal rows, and a window does not.
kept AS (
    SELECT transaction, log_index, item, arg_min((place, content), rank) AS row FROM keyed GROUP BY ALL
)
SELECT place, CASE WHEN content <> row[2] THEN 2 WHEN place IS NOT DISTINCT FROM row[1] THEN 0 ELSE 1 END AS verdict
FROM keyed JOIN kept USING (transaction, log_index, item)
WHERE origin = 1
"""
_COMPARED: Final = ("tx_hash", "log_index", "token_id", "block_number", "from_address", "to_address", "value")
"""Columns of a row's key and content."""


@dataclass
class Counts:
    """Numbers of an import's rows: ``rows`` is the number of all of them.

    ``new_count`` are stored, ``duplicate`` are already known, and ``conflict`` have a known key but other content.
    ``replaced`` are earlier rows that new rows with more columns replaced. ``undecided`` are sentences about rows that
    may repeat others.
    ``touched`` lists the tokens with new rows as texts ``chain/address``. ``first_times`` has, for each of these
    tokens, the unix second of its first new row.
    """

    rows: int = 0
    new_count: int = 0
    duplicate: int = 0
    conflict: int = 0
    replaced: int = 0
    undecided: list[str] = field(default_factory=list)
    touched: list[str] = field(default_factory=list)
    first_times: list[int] = field(default_factory=list)


class Deduplicator:
    """Finds the new rows of an import. Files in ``spool`` hold the rows that exceed the memory budget.

    ``connect`` opens a DuckDB cursor.
    """

    def __init__(
        self, connect: Callable[[], duckdb.DuckDBPyConnection], coding: Coding, spool: Path, budget: Budget
    ) -> None:
        self._connect = connect
        self._coding = coding
        self._spool = spool
        self._budget = budget

    def new_rows(
        self, incoming: TokenRows, stored_keys: Sequence[Array], stored_paths: Iterable[Path], counts: Counts
    ) -> TokenRows | None:
        """Return the new rows of ``incoming``, each once; None if there are none. Add the numbers of rows to
        ``counts``.

        ``stored_paths`` are the Parquet files of the token's stored rows. ``stored_keys`` has, for each of these files,
        the sorted hashes of its rows' keys.
        """
        hashes = RepeatedKeys(incoming.keys, stored_keys, self._spool)
        counts.rows += incoming.rows
        if not hashes.any():
            counts.new_count += incoming.rows
            return incoming
        stored = itertools.chain([self._coding.nothing()], self._stored_rows(hashes, stored_paths))
        stored_rows = mapped_table(stored, self._spool)
        is_new = np.memmap(self._spool / f"{uuid.uuid4().hex}.new", np.bool_, "w+", shape=(incoming.rows,))
        is_new[:] = True
        parts = 1 + 4 * incoming.bytes // self._budget.group
        for part in range(parts):
            pieces, places, before = [], [], 0
            for piece in incoming.pieces:
                keys = piece["key"].to_numpy()
                of_part = np.flatnonzero(part_of(keys, parts) == part)
                repeated = of_part[hashes.among(keys[of_part])]
                pieces.append(piece.take(pa.array(repeated)))
                places.append(repeated + before)
                before += len(piece)
            of_batches = (
                pa.table(batch).filter(pa.array(part_of(batch["key"].to_numpy(), parts) == part))
                for batch in stored_rows.to_batches()
            )
            known_rows = pa.concat_tables([self._coding.nothing(), *of_batches])
            imported = pa.concat_tables(pieces).combine_chunks()
            is_new[np.concatenate(places)[self._verdicts(imported, known_rows, counts)]] = False
        counts.new_count += int(is_new.sum())
        return incoming.only(lambda before, piece: is_new[before : before + len(piece)])

    def _verdicts(self, imported: pa.Table, stored_rows: pa.Table, counts: Counts) -> Array:
        """Return the indices of the rows in ``imported`` that are not new, because they are duplicates or conflicts.

        ``stored_rows`` are the stored rows to compare with. The numbers of duplicates and conflicts are added to
        ``counts``.
        """
        keys = imported["key"].to_numpy()
        decoded = self._coding.decoded(imported)
        equals = _equal_rows(decoded, keys, stored_rows)
        counts.duplicate += len(equals)
        is_left = np.ones(imported.num_rows, np.bool_)
        is_left[equals] = False
        if not is_left.any():
            return equals
        places = np.flatnonzero(is_left)
        with self._connect() as cursor:
            cursor.register("imported", decoded.take(pa.array(places)).append_column("place", pa.array(places)))
            stored_left = are_among(np.sort(keys[places]), stored_rows["key"].to_numpy())
            cursor.register("stored", stored_rows.filter(pa.array(stored_left)).drop_columns("key"))
            compared = cursor.sql(_COMPARE).to_arrow_table()
        verdicts = compared["verdict"].to_numpy()
        counts.duplicate += int((verdicts == 1).sum())
        counts.conflict += int((verdicts == 2).sum())
        return np.concatenate([equals, compared["place"].to_numpy()[verdicts > 0]])

    def _stored_rows(self, hashes: RepeatedKeys, paths: Iterable[Path]) -> Iterator[pa.Table]:
        """Yield the stored rows whose hash is in ``hashes``, in batches. The added column ``key`` has the hash."""
        for path in paths:
            for rows in read_rows(path, self._budget.batch):
                keys = self._coding.keys(rows)
                repeated = hashes.among(keys)
                if repeated.any():
                    yield rows.append_column("key", pa.array(keys)).filter(pa.array(repeated))


def _equal_rows(imported: pa.Table, keys: Array, stored_rows: pa.Table) -> Array:
    """Return the places of the imported rows that equal a stored row, if no other row has the hash of their key.

    ``keys`` are the hashes of the imported rows' keys. The comparison in SQL is many times slower.
    """
    stored_keys = stored_rows["key"].to_numpy()
    distinct_stored, partners, stored_counts = np.unique(stored_keys, return_index=True, return_counts=True)
    distinct, places, counts = np.unique(keys, return_index=True, return_counts=True)
    candidates = places[(counts == 1) & are_among(distinct_stored[stored_counts == 1], distinct)]
    partners = partners[np.searchsorted(distinct_stored, keys[candidates])]
    ours, theirs = imported.take(pa.array(candidates)), stored_rows.take(pa.array(partners))
    is_equal = np.ones(len(candidates), np.bool_)
    for name in _COMPARED:
        left, right = (table[name].cast(TRANSFERS.field(name).type) for table in (ours, theirs))
        are_same = pc.or_(pc.fill_null(pc.equal(left, right), False), pc.and_(pc.is_null(left), pc.is_null(right)))
        is_equal &= are_same.to_numpy()
    equal_places: Array = candidates[is_equal]
    return equal_places
