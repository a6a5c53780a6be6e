"""Rows of transfers during an import, and the files that store them: Parquet, and arrays by time.

During an import, rows are encoded: numbers replace repetitive texts (``Codes``), and each row has the hash of its key.
The rows of a file are sorted by block and log index.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Final

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

from holderlake.core.storage.atomic_files import whole_file
from holderlake.engine.errors import BadSource
from holderlake.engine.files.arrays import array_file
from holderlake.engine.files.transfer_arrays import MOVES, Moves, joined_moves
from holderlake.engine.importing.budget import Budget
from holderlake.engine.importing.keys import merge_sorted, merged_keys
from holderlake.engine.numeric.bigint import Array, from_texts, resized, total, width_for
from holderlake.engine.numeric.hashing import digests
from holderlake.engine.records import TRANSFERS

_ROW_GROUP: Final = 131_072

TOKEN_COLUMNS: Final = ("chain", "token_address")
KIND_COLUMNS: Final = ("token_standard", "time_kind", "log_index_kind", "source")
_REPETITIVE: Final = [*TOKEN_COLUMNS, *KIND_COLUMNS, "token_id"]
"""Columns with few distinct values, for which Parquet uses dictionary encoding."""

_ORDER: Final = ("block_number", "log_index", "tx_hash", "token_id", "from_address", "to_address")
_OWN_COLUMNS: Final = [name for name in TRANSFERS.names if name not in (*TOKEN_COLUMNS, *KIND_COLUMNS)]

_ENCODED: Final = pa.schema(
    [
        field.with_type(pa.dictionary(pa.int32(), pa.string()))
        if field.name in (*TOKEN_COLUMNS, *KIND_COLUMNS)
        else field
        for field in TRANSFERS
    ]
)


class Codes:
    """Gives each distinct combination of texts in the given columns a number, from 0 on."""

    def __init__(self, columns: Sequence[str]) -> None:
        self._columns = columns
        self._numbers: dict[tuple[str, ...], int] = {}
        self._combinations: list[tuple[str, ...]] = []

    def __len__(self) -> int:
        return len(self._combinations)

    def texts(self, number: int) -> tuple[str, ...]:
        """Return the combination with the number ``number``: a tuple with one text for each column."""
        return self._combinations[number]

    def encode(self, table: pa.Table) -> Array:
        """Return the number of the combination in each row. New combinations get the next numbers."""
        combined = np.zeros(table.num_rows, np.int64)
        dictionaries: list[list[str]] = []
        for name in self._columns:
            column = _one_chunk(table[name]).dictionary_encode()
            dictionaries.append(column.dictionary.to_pylist())
            combined *= max(len(dictionaries[-1]), 1)
            if len(dictionaries[-1]) > 1:
                combined += column.indices.to_numpy()
        distinct, inverse = np.unique(combined, return_inverse=True) if combined.any() else (combined[:1], combined)
        numbers = np.array([self._number(int(code), dictionaries) for code in distinct], np.int32)
        return numbers[inverse]

    def _number(self, combined: int, dictionaries: list[list[str]]) -> int:
        values: list[str] = []
        for dictionary in reversed(dictionaries):
            combined, place = divmod(combined, len(dictionary))
            values.insert(0, dictionary[place])
        texts = tuple(values)
        if texts not in self._numbers:
            self._numbers[texts] = len(self._combinations)
            self._combinations.append(texts)
        return self._numbers[texts]

    def decode(self, numbers: Array) -> dict[str, pa.Array]:
        """Return the columns of texts, by name, of rows whose combinations have the given numbers."""
        distinct, inverse = np.unique(numbers, return_inverse=True)
        places = pa.array(inverse.astype(np.int32))
        return {
            name: pa.DictionaryArray.from_arrays(
                places, pa.array([self._combinations[n][at] for n in distinct], pa.string())
            )
            for at, name in enumerate(self._columns)
        }


class Coding:
    """Encodes and decodes rows of transfers (schema ``TRANSFERS``).

    Encoded rows have a column ``token`` instead of ``TOKEN_COLUMNS`` and a column ``kind`` instead of ``KIND_COLUMNS``,
    with numbers of ``Codes``. Their column ``key`` has the hash of the row's key.
    """

    def __init__(self) -> None:
        self.tokens = Codes(TOKEN_COLUMNS)
        self._kinds = Codes(KIND_COLUMNS)

    def standard(self, kind: int) -> str:
        """Return the token standard of rows with this number in the column ``kind``."""
        return self._kinds.texts(kind)[KIND_COLUMNS.index("token_standard")]

    def log_index_kind(self, kind: int) -> str:
        """Return the ``log_index_kind`` of rows with this number in the column ``kind``."""
        return self._kinds.texts(kind)[KIND_COLUMNS.index("log_index_kind")]

    def encoded(self, table: pa.Table) -> pa.Table:
        """Return rows of ``TRANSFERS`` as encoded rows."""
        codes = {"token": self.tokens.encode(table), "kind": self._kinds.encode(table), "key": self.keys(table)}
        return pa.table(
            {name: pa.array(code) for name, code in codes.items()}
            | {name: _one_chunk(table[name]) for name in _OWN_COLUMNS}
        )

    @staticmethod
    def nothing() -> pa.Table:
        """Return an empty table with the columns of ``TRANSFERS`` and ``key``."""
        return TRANSFERS.append(pa.field("key", pa.uint64())).empty_table()

    def decoded(self, rows: pa.Table) -> pa.Table:
        """Return encoded rows as rows of ``TRANSFERS``."""
        columns = self.tokens.decode(rows["token"].to_numpy()) | self._kinds.decode(rows["kind"].to_numpy())
        columns |= {name: rows[name] for name in _OWN_COLUMNS}
        return pa.table([columns[name] for name in TRANSFERS.names], _ENCODED)

    @staticmethod
    def keys(table: pa.Table) -> Array:
        """Return the hash of each row's key (tx_hash, log_index, token_id). All versions of Holderlake compute the same
        hash.

        If a row has no transaction hash, its block and addresses are used instead of the transaction hash.
        """
        transactions, items = table["tx_hash"], pc.fill_null(table["token_id"], "")
        if transactions.null_count:
            ends = (table[name] for name in ("from_address", "to_address"))
            without = pc.binary_join_element_wise(table["block_number"].cast(pa.string()), *ends, ":")
            transactions = pc.coalesce(transactions, without)
        return digests(
            _one_chunk(pc.binary_join_element_wise(transactions, table["log_index"].cast(pa.string()), items, "/"))
        )


def in_order(rows: pa.Table, tokens: bool = False) -> pa.Table:
    """Return the rows sorted by block, log index, transaction hash, token id and addresses. With ``tokens``, by token
    first."""
    names = (*(("token",) if tokens else ()), *_ORDER)
    return rows.sort_by([(name, "ascending") for name in names])


def _one_chunk(column: pa.ChunkedArray | pa.Array) -> pa.Array:
    array = column.combine_chunks() if isinstance(column, pa.ChunkedArray) else column
    if isinstance(array, pa.ChunkedArray):  # combine_chunks returns it unchanged if it has no chunk
        return pa.concat_arrays(array.chunks) if array.num_chunks else pa.array([], array.type)
    return array


# ---------------------------------------------------------------------- transfers as arrays, and periods


@dataclass(frozen=True)
class Period:
    """The number of some rows, and the range of their times and blocks.

    ``first_time`` and ``last_time`` are unix seconds, ``first_block`` and ``last_block`` block numbers; all four are
    included.
    """

    rows: int
    first_time: int
    last_time: int
    first_block: int
    last_block: int


def period_of(rows: pa.Table) -> Period:
    """Return the number of rows and the period of a table with at least one row."""
    times, blocks = rows["block_time"].to_numpy(), rows["block_number"].to_numpy()
    return Period(len(times), int(times.min()), int(times.max()), int(blocks.min()), int(blocks.max()))


def joined_period(periods: Sequence[Period]) -> Period:
    """Return the period that spans all ``periods``, and the sum of their rows."""
    return Period(
        sum(period.rows for period in periods),
        min(period.first_time for period in periods),
        max(period.last_time for period in periods),
        min(period.first_block for period in periods),
        max(period.last_block for period in periods),
    )


def moves_of(rows: pa.Table) -> Moves:
    """Return the rows as ``Moves`` sorted by time. Rows of value 0 are left out.

    The rows must have the columns ``sender`` and ``receiver`` with address numbers.
    """
    values = from_texts(_one_chunk(rows["value"]))
    moves = Moves(rows["block_time"].to_numpy(), rows["sender"].to_numpy(), rows["receiver"].to_numpy(), values)
    something = values.any(axis=1)
    return joined_moves([moves if something.all() else moves.at(np.flatnonzero(something))])


def write_part(path: Path, pieces: Sequence[Moves], keys: Sequence[Array], budget: Budget) -> None:
    """Write several ``Moves``, each sorted by time, as one part at ``path``.

    ``keys`` are sorted arrays with the hashes of the rows' keys.
    """
    width = width_for(sum(total(piece.values) for piece in pieces))
    with array_file(path) as file:
        for name, dtype in zip(MOVES, (_type_of_times(pieces), np.int32, np.int32, np.uint64), strict=True):
            file.reserve(name, dtype, sum(map(len, pieces)), (width,) if name == "values" else ())
        row = 0
        for moves in _by_time(pieces, budget.chunk // 2):
            for name, column in zip(MOVES, (moves.times, moves.senders, moves.receivers), strict=False):
                file.fill(name, row, column)
            file.fill("values", row, resized(moves.values, width))
            row += len(moves)
        file.add("keys", merged_keys(keys, budget.chunk))


def _type_of_times(pieces: Sequence[Moves]) -> type[np.uint32] | type[np.int64]:
    """Return the type in which unix seconds are stored: 4 bytes if that suffices for all transfers, else 8."""
    times_of_pieces = [piece.times for piece in pieces if len(piece)]
    fits = all(int(times[0]) >= 0 and int(times[-1]) < 2**32 for times in times_of_pieces)
    return np.uint32 if fits else np.int64


def _by_time(pieces: Sequence[Moves], rows: int) -> Iterator[Moves]:
    """Yield all transfers, sorted by time, in batches of about ``rows`` transfers."""
    if sum(map(len, pieces)) <= rows or len(pieces) == 1:
        moves = joined_moves(list(pieces))
        yield from (moves.at(slice(start, start + rows)) for start in range(0, len(moves), rows))
        return
    chains: list[list[Moves]] = []
    for piece in pieces:
        if len(piece) and chains and chains[-1][-1].times[-1] <= piece.times[0]:
            chains[-1].append(piece)  # the usual case, as rows come by block
        elif len(piece):
            chains.append([piece])
    sources = [_slices(chain, max(rows // len(chains), 16)) for chain in chains]
    yield from merge_sorted(sources, lambda moves: moves.times, Moves.at, joined_moves)


def _slices(chain: Sequence[Moves], rows: int) -> Iterator[Moves]:
    for moves in chain:
        for start in range(0, len(moves), rows):
            part = moves.at(slice(start, start + rows))
            yield Moves(part.times.astype(np.int64), part.senders, part.receivers, part.values)


# ---------------------------------------------------------------------- files


def write_rows(path: Path, tables: Iterable[pa.Table]) -> None:
    """Write transfers as a Parquet file, atomically, and force it to the disk."""
    with whole_file(path) as building, building.open("wb") as file:
        _write(file, tables)


def _write(file: object, tables: Iterable[pa.Table]) -> None:
    remaining = iter(tables)
    first_table = next(remaining, TRANSFERS.empty_table())
    schema = _ENCODED if pa.types.is_dictionary(first_table.schema.field("chain").type) else TRANSFERS
    options = {
        "compression": "zstd",
        "use_dictionary": _REPETITIVE,
        "store_schema": False,
        "write_page_checksum": True,  # for a rebuild without a catalogue
    }
    with pq.ParquetWriter(file, schema, **options) as writer:
        writer.write_table(first_table.cast(schema), row_group_size=_ROW_GROUP)
        for table in remaining:
            writer.write_table(table.cast(schema), row_group_size=_ROW_GROUP)


def _opened(path: Path) -> pq.ParquetFile:
    try:
        # pre_buffer would keep everything in memory until the end
        return pq.ParquetFile(path, pre_buffer=False, page_checksum_verification=True)
    except pa.ArrowInvalid as error:
        raise BadSource(
            f"{path} is not a complete Parquet file ({error}); run 'holderlake store verify' to list the damage, and "
            "'holderlake store rebuild' to repair it"
        ) from error


def read_rows(path: Path, batch: int) -> Iterator[pa.Table]:
    """Yield the rows of a Parquet file in batches. Raises ``BadSource`` if the file is incomplete or damaged."""
    for record_batch in _opened(path).iter_batches(batch):
        yield pa.Table.from_batches([record_batch]).select(TRANSFERS.names).cast(TRANSFERS)


def joined_rows(new_tables: Iterable[pa.Table], stored_paths: Sequence[Path], batch: int) -> Iterator[pa.Table]:
    """Yield the rows of ``new_tables`` and of the Parquet files ``stored_paths`` in batches, sorted by block. All
    sources are sorted."""
    if not stored_paths:
        yield from new_tables
        return
    sources = [read_rows(path, max(batch // len(stored_paths), 16)) for path in stored_paths]
    yield from merged_rows([*sources, (table.cast(TRANSFERS) for table in new_tables)])


def merged_rows(sources: Sequence[Iterator[pa.Table]]) -> Iterator[pa.Table]:
    """Merge the rows of all sources, which are sorted by block, in batches."""
    yield from merge_sorted(sources, _blocks, lambda rows, part: rows[part], _join)


def _blocks(rows: pa.Table) -> Array:
    blocks: Array = rows["block_number"].to_numpy()
    return blocks


def _join(tables: list[pa.Table]) -> pa.Table:
    return tables[0] if len(tables) == 1 else in_order(pa.concat_tables(tables))
