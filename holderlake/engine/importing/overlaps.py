"""Find transfers of a token that come both with and without log index or transaction, so that each counts once.

The key of such a transfer differs from source to source. So its rows are compared by block, transaction, addresses,
value and item. The row that says more stays.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from pathlib import Path
from typing import Final, NamedTuple

import duckdb
import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

from holderlake.engine.content_indexes import content_places
from holderlake.engine.importing.keys import are_among
from holderlake.engine.importing.rows import Coding, read_rows
from holderlake.engine.importing.sort import TokenRows
from holderlake.engine.numeric.bigint import Array

_COLUMNS: Final = ("from_address", "to_address", "value", "token_id", "block_number", "tx_hash", "log_index")
_MAX_SENTENCES: Final = 20
"""The most undecided groups of rows that an import names."""

_COMPARE: Final = """
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
        cursor.execute(_COMPARE)
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
