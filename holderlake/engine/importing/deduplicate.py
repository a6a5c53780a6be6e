"""Which rows of an import are new, which are known already, and which say something else of a known transfer.

Only rows whose key's hash stands twice, or is stored, are looked at.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Final

import duckdb
import numpy as np
import pyarrow as pa

from holderlake.engine.importing.budget import Budget
from holderlake.engine.importing.keys import RepeatedKeys, part_of
from holderlake.engine.importing.rows import Coding, read_rows
from holderlake.engine.importing.sort import RowsInMemory, RowsOnDisk, TokenRows
from holderlake.engine.importing.spill import TableBuckets
from holderlake.engine.numeric.bigint import Array

_JUDGED: Final = """
-- The doubtful rows of an import by what they are to the stored history: new, known already, or another content for a
-- known key, which is (tx_hash, log_index, token_id); a row without a transaction is keyed by its block and addresses.
WITH together AS (
    SELECT *, NULL AS place, 0 AS origin FROM stored
    UNION ALL BY NAME
    SELECT *, 1 AS origin FROM imported
),
judged AS (
    SELECT
        origin,
        place,
        row_number() OVER same_key AS nth,
        first_value((from_address, to_address, value)) OVER same_key = (from_address, to_address, value) AS agrees
    FROM together
    WINDOW same_key AS (
        PARTITION BY coalesce(tx_hash, block_number || ':' || from_address || ':' || to_address), log_index, token_id
        -- a known row stays; of rows that come together the exact one is kept, and never one by the chance of its place
        ORDER BY
            origin, from_address, to_address, value,
            time_kind <> 'exact', log_index_kind <> 'exact', block_number, block_time, source
    )
)
SELECT place, CASE WHEN NOT agrees THEN 2 WHEN nth > 1 THEN 1 ELSE 0 END AS verdict FROM judged WHERE origin = 1
"""


@dataclass
class Counts:
    """How an import went: rows by verdict, and the first second of what was added to each token."""

    rows: int = 0
    new: int = 0
    duplicate: int = 0
    conflict: int = 0
    touched: list[str] = field(default_factory=list)
    first_times: list[int] = field(default_factory=list)


class Deduplicator:
    """Tells new rows from others, with files of its own in ``spool`` where there are many."""

    def __init__(self, cursor: duckdb.DuckDBPyConnection, coding: Coding, spool: Path, budget: Budget) -> None:
        self._cursor = cursor
        self._coding = coding
        self._spool = spool
        self._budget = budget

    def new_rows(
        self, incoming: TokenRows, known: Sequence[Array], stored: Iterable[Path], counts: Counts
    ) -> TokenRows | None:
        """The rows that are not in the ``stored`` files, whose sorted keys are ``known``: each once, and None where
        there are none. Counts the verdicts."""
        hashes = RepeatedKeys(incoming.keys, known, self._spool)
        counts.rows += incoming.rows
        if not hashes.any():
            counts.new += incoming.rows
            return incoming
        old = self._stored_rows(hashes, stored)
        if isinstance(incoming, RowsOnDisk):
            return self._of_spooled(incoming, hashes, old, counts)
        assert isinstance(incoming, RowsInMemory)  # noqa: S101 - there are no others
        table = incoming.table
        places = np.flatnonzero(hashes.among(table["key"].to_numpy()))
        stored_rows = pa.concat_tables([self._nothing(), *old])
        gone = self._verdicts(table.take(pa.array(places)), stored_rows, counts)
        kept = np.ones(table.num_rows, np.bool_)
        kept[places[gone]] = False
        counts.new += int(kept.sum())
        return incoming.only(kept) if kept.any() else None

    def _of_spooled(
        self, incoming: RowsOnDisk, hashes: RepeatedKeys, old: Iterator[pa.Table], counts: Counts
    ) -> TokenRows | None:
        new, ours, theirs = (TableBuckets(self._spool, self._budget.waiting // 3) for _ in range(3))
        parts = 1 + 4 * incoming.bytes // self._budget.group
        for rows in incoming.piles.blocks(incoming.pile):
            keys = rows["key"].to_numpy()
            doubtful = hashes.among(keys)
            new.add(0, rows.filter(pa.array(~doubtful)))
            ours.sort_out(part_of(keys[doubtful], parts), rows.filter(pa.array(doubtful)))
        incoming.piles.drop(incoming.pile)
        for stored in old:
            theirs.sort_out(part_of(stored["key"].to_numpy(), parts), stored)
        for number in ours.numbers():
            mine = ours.take(number)
            known = theirs.take(number) if theirs.rows_of(number) else self._nothing()
            kept = np.ones(mine.num_rows, np.bool_)
            kept[self._verdicts(mine, known, counts)] = False
            new.add(0, mine.filter(pa.array(kept)))
        for number in theirs.numbers():
            theirs.drop(number)
        counts.new += new.rows_of(0)
        return incoming.instead(new, 0) if new.rows_of(0) else None

    def _verdicts(self, imported: pa.Table, stored: pa.Table, counts: Counts) -> Array:
        """Places of the rows that are not new."""
        places = pa.array(np.arange(imported.num_rows))
        self._cursor.register("imported", self._coding.decoded(imported).append_column("place", places))
        self._cursor.register("stored", stored.drop_columns("key"))
        found = self._cursor.sql(_JUDGED).to_arrow_table()
        self._cursor.unregister("imported")
        self._cursor.unregister("stored")
        verdicts = found["verdict"].to_numpy()
        counts.duplicate += int((verdicts == 1).sum())
        counts.conflict += int((verdicts == 2).sum())
        known: Array = found["place"].to_numpy()[verdicts > 0]
        return known

    def _stored_rows(self, hashes: RepeatedKeys, stored: Iterable[Path]) -> Iterator[pa.Table]:
        """The stored rows whose keys are doubtful, some at a time, with their keys."""
        for path in stored:
            for rows in read_rows(path, self._budget.batch):
                keys = self._coding.keys(rows)
                doubtful = hashes.among(keys)
                if doubtful.any():
                    yield rows.append_column("key", pa.array(keys)).filter(pa.array(doubtful))

    def _nothing(self) -> pa.Table:
        return self._coding.nothing()
