"""Divide the rows of an import into new rows, duplicates and conflicts.

A duplicate equals a known transfer with the same key. A conflict has the key of a known transfer, but other content.
Rows are first compared by the hash of their key. If a hash is neither repeated nor stored, the row is new. Only the
other rows are compared in full.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Final, NamedTuple

import duckdb
import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

from holderlake.engine.content_indexes import content_places
from holderlake.engine.importing.budget import Budget
from holderlake.engine.importing.keys import RepeatedKeys, are_among, part_of
from holderlake.engine.importing.rows import Coding, read_rows
from holderlake.engine.importing.sort import RowsInMemory, RowsOnDisk, TokenRows
from holderlake.engine.importing.spill import TableBuckets
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
_COLUMNS: Final = ("from_address", "to_address", "value", "token_id", "block_number", "tx_hash", "log_index")
_MAX_SENTENCES: Final = 20
"""The most undecided groups of rows that an import names."""

_COMPARE_OVERLAP: Final = """
-- place: the number of equal rows before a row without log index; -1 in rows with a log index.
CREATE TEMP TABLE once AS
SELECT DISTINCT ON (key) key, place, (block_number, from_address, to_address, value, item) AS move, tx_hash, log_index
FROM rows
ORDER BY key, is_new;

CREATE TEMP TABLE indexed AS
WITH named AS (SELECT DISTINCT move, log_index FROM once WHERE place < 0 AND tx_hash IS NOT NULL)
SELECT once.*, once.tx_hash IS NULL AND named.log_index IS NOT NULL AS is_repeated
FROM once LEFT JOIN named USING (move, log_index)
WHERE place < 0;

CREATE TEMP TABLE in_transaction AS
WITH counts AS (SELECT move, tx_hash, count(*) AS others FROM indexed WHERE NOT is_repeated GROUP BY ALL)
SELECT once.*, coalesce(others, 0) AS others
FROM once LEFT JOIN counts USING (move, tx_hash)
WHERE place >= 0 AND tx_hash IS NOT NULL;

CREATE TEMP TABLE bare AS
WITH counts AS (
    SELECT move, count(*) AS others
    FROM (
        SELECT move FROM indexed WHERE NOT is_repeated
        UNION ALL
        SELECT move FROM in_transaction WHERE place >= others
    )
    GROUP BY ALL
)
SELECT once.*, coalesce(others, 0) AS others
FROM once LEFT JOIN counts USING (move)
WHERE place >= 0 AND tx_hash IS NULL;
"""
_SUPERSEDED: Final = """
SELECT key FROM indexed WHERE is_repeated
UNION ALL
SELECT key FROM in_transaction WHERE place < others
UNION ALL
SELECT key FROM bare WHERE place < others
"""
_UNDECIDED: Final = """
-- Equal rows of which the sources have different numbers, in groups with an imported row.
WITH counts AS (
    SELECT
        (block_number, from_address, to_address, value, item) AS move, tx_hash,
        max(place + 1) FILTER (place >= 0 AND is_new) AS new_rows, max(place + 1) FILTER (NOT is_new) AS old_rows
    FROM rows
    GROUP BY ALL
    HAVING bool_or(is_new)
),
others AS (SELECT DISTINCT move, tx_hash, others FROM (FROM in_transaction UNION ALL FROM bare)),
compared AS (
    SELECT counts.*, list_filter([new_rows, old_rows, others], lambda count: count > 0) AS of_sources
    FROM counts LEFT JOIN others ON counts.move = others.move AND counts.tx_hash IS NOT DISTINCT FROM others.tx_hash
)
SELECT
    move[1] AS block_number, tx_hash, move[2] AS from_address, move[3] AS to_address, move[4] AS value,
    list_min(of_sources) AS least, list_max(of_sources) AS most
FROM compared
WHERE least < most
UNION ALL
-- Sources of which one lacks the transaction, and the other one the log index.
SELECT move[1], NULL, move[2], move[3], move[4], 0, count(*)
FROM in_transaction JOIN indexed USING (move)
WHERE in_transaction.place >= others AND indexed.tx_hash IS NULL AND NOT is_repeated
GROUP BY move
ORDER BY ALL
"""


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
        stored_tables = self._stored_rows(hashes, stored_paths)
        if isinstance(incoming, RowsOnDisk):
            return self._of_spooled(incoming, hashes, stored_tables, counts)
        assert isinstance(incoming, RowsInMemory)  # noqa: S101 - there are no others
        table = incoming.table
        places = np.flatnonzero(hashes.among(table["key"].to_numpy()))
        stored_rows = pa.concat_tables([self._coding.nothing(), *stored_tables])
        known_places = self._verdicts(table.take(pa.array(places)), stored_rows, counts)
        is_new = np.ones(table.num_rows, np.bool_)
        is_new[places[known_places]] = False
        counts.new_count += int(is_new.sum())
        return incoming.only(is_new) if is_new.any() else None

    def _of_spooled(
        self, incoming: RowsOnDisk, hashes: RepeatedKeys, stored_tables: Iterator[pa.Table], counts: Counts
    ) -> TokenRows | None:
        new_buckets, imported, stored_buckets = (TableBuckets(self._spool, self._budget.waiting // 3) for _ in range(3))
        parts = 1 + 4 * incoming.bytes // self._budget.group
        for rows in incoming.buckets.blocks(incoming.bucket):
            keys = rows["key"].to_numpy()
            repeated = hashes.among(keys)
            new_buckets.add(0, rows.filter(pa.array(~repeated)))
            imported.distribute(part_of(keys[repeated], parts), rows.filter(pa.array(repeated)))
        incoming.buckets.drop(incoming.bucket)
        for stored_rows in stored_tables:
            stored_buckets.distribute(part_of(stored_rows["key"].to_numpy(), parts), stored_rows)
        for number in imported.numbers():
            rows_of_bucket = imported.take(number)
            known_rows = stored_buckets.take(number) if stored_buckets.rows_of(number) else self._coding.nothing()
            is_new = np.ones(rows_of_bucket.num_rows, np.bool_)
            is_new[self._verdicts(rows_of_bucket, known_rows, counts)] = False
            new_buckets.add(0, rows_of_bucket.filter(pa.array(is_new)))
        for number in stored_buckets.numbers():
            stored_buckets.drop(number)
        counts.new_count += new_buckets.rows_of(0)
        return incoming.instead(new_buckets, 0) if new_buckets.rows_of(0) else None

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


class Overlap(NamedTuple):
    """Rows of an import that other rows repeat: the hashes of the keys of rows that do not stay, and sentences about
    rows of which it is not clear."""

    superseded: Array
    undecided: list[str]


def overlap_of(
    connect: Callable[[], duckdb.DuckDBPyConnection],
    coding: Coding,
    batch: int,
    incoming: TokenRows,
    stored_files: Iterable[tuple[Path, Array]],
) -> Overlap:
    """Return the overlap of the rows of a token that come, and those of the same blocks in the ``stored_files``.

    ``connect`` opens a DuckDB cursor. ``stored_files`` are paths with the sorted hashes of their rows' keys. Files are
    read in batches of ``batch`` rows.
    """
    kinds, first_block, last_block = _kinds_of(coding, incoming)
    files = [(path, keys) for path, keys in stored_files if _has_blocks(path, first_block, last_block)]
    is_one_kind = len(kinds) == 1 and all(_is_of_kind(path, *next(iter(kinds))) for path, _ in files)
    if is_one_kind and (not files or ("synthetic" not in next(iter(kinds)))):
        return Overlap(np.empty(0, np.uint64), [])
    blocks = _differing_blocks(coding, batch, incoming, files, (first_block, last_block), is_one_kind=is_one_kind)
    if not len(blocks):
        return Overlap(np.empty(0, np.uint64), [])
    with connect() as cursor:
        cursor.execute(
            "CREATE TEMP TABLE rows (key UBIGINT, place BIGINT, is_new BOOLEAN, from_address VARCHAR, "
            "to_address VARCHAR, value VARCHAR, item VARCHAR, block_number BIGINT, tx_hash VARCHAR, log_index BIGINT)"
        )
        for rows in _compared_rows(coding, batch, incoming, [path for path, _ in files], blocks):
            cursor.register("more", rows)
            cursor.execute("INSERT INTO rows BY NAME FROM more")
        cursor.execute(_COMPARE_OVERLAP)
        superseded = cursor.execute(_SUPERSEDED).fetchnumpy()["key"]
        undecided = cursor.execute(_UNDECIDED).fetchall()
    name = f"{incoming.chain}/{incoming.address}"
    sentences = [_sentence(name, *row) for row in undecided[:_MAX_SENTENCES]]
    if len(undecided) > _MAX_SENTENCES:
        sentences.append(f"{name}: {len(undecided) - _MAX_SENTENCES:,} more of these groups of equal transfers")
    return Overlap(np.asarray(superseded, np.uint64), sentences)


def _sentence(
    token: str,
    block: int,
    transaction: str | None,
    sender: str,
    receiver: str,
    value: str,
    least_rows: int,
    most_rows: int,
) -> str:
    if not least_rows:
        return (
            f"{token}, block {block:,}: one source lacks the transaction and the other one the log index of transfers "
            f"of {value} from {sender} to {receiver}, so it is not clear whether they are the same; all count. "
            "Import only one of the sources, into a new home"
        )
    place = f"transaction {transaction}" if transaction else "without transaction hash"
    return (
        f"{token}, block {block:,}, {place}: one source has {least_rows:,} equal transfers of {value} from {sender} to "
        f"{receiver}, and another one has {most_rows:,}, so it is not clear which are the same; {most_rows:,} count. "
        "Import a file with the whole transaction, with log indexes if you can"
    )


def _kinds_of(coding: Coding, incoming: TokenRows) -> tuple[set[tuple[str, bool]], int, int]:
    """Return the kinds of rows, and their first and last block. A kind is that of the log index, and whether the row
    has a transaction."""
    kinds: set[tuple[str, bool]] = set()
    first_block, last_block = 2**63 - 1, -1
    for rows in incoming.columns(("kind", "tx_hash", "block_number")):
        has_transaction = rows["tx_hash"].is_valid().to_numpy().astype(np.int64)
        for code in np.unique(rows["kind"].to_numpy().astype(np.int64) * 2 + has_transaction).tolist():
            kinds.add((coding.log_index_kind(code // 2), bool(code % 2)))
        blocks = rows["block_number"].to_numpy()
        first_block, last_block = min(first_block, int(blocks.min())), max(last_block, int(blocks.max()))
    return kinds, first_block, last_block


def _statistics(path: Path, column: str) -> Iterator[pq.Statistics | None]:
    with pq.ParquetFile(path) as file:
        place = file.schema_arrow.get_field_index(column)
        for group in range(file.metadata.num_row_groups):
            yield file.metadata.row_group(group).column(place).statistics


def _has_blocks(path: Path, first_block: int, last_block: int) -> bool:
    return any(
        statistics is None or (statistics.min <= last_block and first_block <= statistics.max)
        for statistics in _statistics(path, "block_number")
    )


def _is_of_kind(path: Path, kind: str, has_transaction: bool) -> bool:
    """Return whether the log indexes of all rows of a file are of this kind, and all or none have a transaction."""
    kinds, hashes = _statistics(path, "log_index_kind"), _statistics(path, "tx_hash")
    return all(statistics is not None and statistics.min == statistics.max == kind for statistics in kinds) and all(
        statistics is not None and (statistics.null_count == 0 if has_transaction else not statistics.has_min_max)
        for statistics in hashes
    )


def _differing_blocks(
    coding: Coding,
    batch: int,
    incoming: TokenRows,
    stored_files: Sequence[tuple[Path, Array]],
    block_range: tuple[int, int],
    *,
    is_one_kind: bool,
) -> Array:
    """Return the blocks in which an imported row is not stored, or a stored row is not imported.

    All other blocks were compared when their rows were stored. If all rows are of one kind, a row that differs says
    something only if it repeats an equal one.
    """
    differing = [np.empty(0, np.int64)]
    for rows in incoming.columns(("token", "kind", "key", "block_time", *_COLUMNS)):
        is_new = np.ones(rows.num_rows, np.bool_)
        for _, keys in stored_files:
            is_new &= ~are_among(keys, rows["key"].to_numpy())
        differing.append(_blocks_of(coding.decoded(rows.filter(pa.array(is_new))), is_one_kind))
    for path, keys in stored_files:
        if are_among(incoming.keys, keys).all():
            continue
        for rows in read_rows(path, batch):
            numbers = rows["block_number"].to_numpy()
            of_blocks = rows.filter(pa.array((numbers >= block_range[0]) & (numbers <= block_range[1])))
            is_missing = ~are_among(incoming.keys, coding.keys(of_blocks))
            differing.append(_blocks_of(of_blocks.filter(pa.array(is_missing)), is_one_kind))
    return np.unique(np.concatenate(differing))


def _blocks_of(rows: pa.Table, repeats_only: bool) -> Array:
    """Return the blocks of rows. With ``repeats_only``, the first one of equal rows does not count."""
    blocks: Array = rows["block_number"].to_numpy()
    return blocks[content_places(rows) != 0] if repeats_only and rows.num_rows else blocks


def _compared_rows(
    coding: Coding, batch: int, incoming: TokenRows, stored_paths: Iterable[Path], blocks: Array
) -> Iterator[pa.Table]:
    """Yield the columns to compare of the imported and of the stored rows of ``blocks``, which are sorted."""
    for rows in incoming.columns(("token", "kind", "key", "block_time", *_COLUMNS)):
        of_blocks = rows.filter(pa.array(are_among(blocks, rows["block_number"].to_numpy())))
        if of_blocks.num_rows:
            yield _with_places(coding.decoded(of_blocks), of_blocks["key"].to_numpy(), is_new=True)
    for path in stored_paths:
        for rows in read_rows(path, batch):
            of_blocks = rows.filter(pa.array(are_among(blocks, rows["block_number"].to_numpy())))
            if of_blocks.num_rows:
                yield _with_places(of_blocks, coding.keys(of_blocks), is_new=False)


def _with_places(rows: pa.Table, keys: Array, *, is_new: bool) -> pa.Table:
    columns = {name: rows[name] for name in _COLUMNS if name != "token_id"}
    return pa.table(
        {"key": keys, "place": content_places(rows), "is_new": pa.repeat(is_new, rows.num_rows)}
        | {"item": pc.fill_null(rows["token_id"], "")}
        | columns
    )
