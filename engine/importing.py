"""How transfers come into the store, and leave it: what is new is found, encoded, and written to new files.

A ``Change`` is one import or roll back. All that it writes lies under new names until the catalogue, in one
transaction, names it; killed at any moment it leaves nothing but abandoned files. Rows come in groups that fit into
memory: a large import is first sorted out on disk into buckets of tokens.
"""

from __future__ import annotations

import ctypes
import itertools
import os
import shutil
import sqlite3
import uuid
import zlib
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import ExitStack, suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Final

import duckdb
import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

from engine.adjacency import Dealings, joined_dealings, of_runs, owners_of, within, without, write_run
from engine.arrays import read_arrays, sync_folder, write_arrays
from engine.dictionary import Dictionary, joined
from engine.manifest import BASE, OPENING, TAIL, Opened, PartFile, View, read_manifest
from engine.parts import Moves, joined_moves, write_part
from engine.records import TRANSFERS
from engine.words import Array, from_texts

_BUCKETS: Final = 64
_TAILS: Final = 8
"""How many small parts or runs there are before they are made one."""
_BATCH: Final = 131_072
_M_MMAP_THRESHOLD: Final = -3

_KEY: Final = """md5_number_lower(
    coalesce(tx_hash, block_number || ':' || from_address || ':' || to_address) || '/' || log_index || '/'
    || coalesce(token_id, '')
)"""

_IN_ORDER: Final = "block_number, log_index, tx_hash, token_id, from_address, to_address"

_SORTED: Final = f"""
SELECT *, {_KEY} AS key
FROM imported
ORDER BY chain, token_address, {_IN_ORDER}
"""

_JUDGED: Final = f"""
-- The rows of an import by what they are to the stored history: new, known already, or another content for a known key.
-- The key is (tx_hash, log_index, token_id); a row without a transaction is keyed by its block and its two addresses.
-- Only rows whose key's hash is doubtful, because it stands twice or is stored, are looked at.
CREATE OR REPLACE TEMP TABLE judged AS
WITH stored AS (
    SELECT *, {_KEY} AS key FROM read_parquet($stored)
),
together AS (
    SELECT *, 0 AS origin FROM stored SEMI JOIN doubtful USING (key)
    UNION ALL BY NAME
    SELECT *, 1 AS origin FROM {{imported}} SEMI JOIN doubtful USING (key)
),
judged AS (
    SELECT
        *,
        row_number() OVER same_key AS place,
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
SELECT
    * EXCLUDE (origin, place, agrees),
    CASE WHEN NOT agrees THEN 'conflict' WHEN place > 1 THEN 'duplicate' ELSE 'new' END AS verdict
FROM judged
WHERE origin = 1
"""

_VERDICTS: Final = "SELECT verdict, count(*) AS rows FROM judged GROUP BY verdict"

_ADDED: Final = f"""
SELECT * FROM (
    FROM {{imported}} ANTI JOIN doubtful USING (key)
    UNION ALL BY NAME
    SELECT * EXCLUDE (verdict) FROM judged WHERE verdict = 'new'
)
ORDER BY {_IN_ORDER}
"""

_MERGED: Final = f"""
SELECT {", ".join(TRANSFERS.names)}
FROM (FROM read_parquet($stored) UNION ALL BY NAME FROM added)
ORDER BY {_IN_ORDER}
"""

_SPLIT: Final = f"""
SELECT *, {_KEY} AS key FROM read_parquet($stored) WHERE (block_number <= $block) = $kept ORDER BY {_IN_ORDER}
"""


@dataclass
class Incoming:
    """Rows of one token that are to be imported, in order: in memory, or many more of them in a file of their own.

    ``keys`` are hashes of the rows' keys, as a column ``key`` of the rows has them.
    """

    chain: str
    address: str
    keys: Array
    table: pa.Table | None
    path: Path | None = None

    @property
    def standard(self) -> str:
        """The standard of the token's first row."""
        rows = self.table if self.table is not None else pq.ParquetFile(self.path).read_row_group(0)
        standard: str = rows["token_standard"][0].as_py()
        return standard

    def batches(self) -> Iterator[pa.Table]:
        """The rows, some at a time."""
        if self.table is not None:
            yield self.table
        elif self.path is not None:
            # pre_buffer keeps all that was read until the end
            for batch in pq.ParquetFile(self.path, pre_buffer=False).iter_batches(_BATCH):
                yield pa.Table.from_batches([batch])


@dataclass
class Counts:
    """How an import went: rows by verdict, and the first second of what was added to each token."""

    rows: int = 0
    new: int = 0
    duplicate: int = 0
    conflict: int = 0
    touched: list[str] = field(default_factory=list)
    first_times: list[int] = field(default_factory=list)


class Change:
    """A change of the store under way, in the transaction of ``catalog``. ``memory`` is its budget in bytes."""

    def __init__(
        self, root: Path, catalog: sqlite3.Connection, connect: Callable[[], duckdb.DuckDBPyConnection], memory: int
    ) -> None:
        self.manifest = read_manifest(catalog)
        self._folder = {kind: root / kind for kind in ("transfers", "openings", "arrays")}
        self._spool = root / f".spool-{uuid.uuid4().hex}"
        self._catalog = catalog
        self._connect = connect
        self._opened = Opened(root / "arrays")
        self._view = View(self.manifest, self._opened)
        self._dictionary = Dictionary(self._view.dictionary.volumes)
        # the query engine has a quarter of the memory; sorting a group, and a chunk of changes, take as much
        self._group_bytes = memory // 16
        self._chunk = max(memory // 2_048, 1 << 10)
        self._numbers = dict(self.manifest.numbers)
        self._parts = {number: list(parts) for number, parts in self.manifest.parts.items()}
        self._dealings: list[Dealings] = []
        self._replaced: list[str] = []
        self._ends = ExitStack()

    def __enter__(self) -> Change:
        self._cursor, self._hasher = self._connect(), self._connect()  # one is asked while the other is read from
        for cursor in (self._cursor, self._hasher):
            self._ends.callback(cursor.close)
        return self

    def __exit__(self, *_: object) -> None:
        self._ends.close()
        shutil.rmtree(self._spool, ignore_errors=True)

    # ------------------------------------------------------------------ transfers

    def add_transfers(
        self, transfers: pa.Table | pa.RecordBatchReader, is_new_token: Callable[[Incoming], None]
    ) -> Counts:
        """Adds the transfers that are new. ``is_new_token`` is called for each token in them."""
        counts = Counts()
        for incoming in self._incoming(transfers):
            counts.rows += len(incoming.keys)
            counts.touched.append(f"{incoming.chain}/{incoming.address}")
            self._add(incoming, counts)
            is_new_token(incoming)
        return counts

    def _incoming(self, transfers: pa.Table | pa.RecordBatchReader) -> Iterator[Incoming]:
        batches = transfers.to_batches(_BATCH) if isinstance(transfers, pa.Table) else transfers
        taken, size = [], 0
        rest = iter(batches)
        for batch in rest:
            taken.append(_conformed(pa.Table.from_batches([batch])))
            size += taken[-1].nbytes
            if size > self._group_bytes:
                yield from self._from_buckets(_chained(taken, rest))
                return
        if taken:
            yield from self._in_memory(pa.concat_tables(taken))

    def _in_memory(self, table: pa.Table) -> Iterator[Incoming]:
        """The rows of each token, all of them sorted and numbered at once."""
        rows = self._numbered(self._query(_SORTED, tables={"imported": table}))
        keys = rows["key"].to_numpy()
        starts = [0, *_changes_of(rows["chain"], rows["token_address"]).tolist(), len(keys)]
        for start, end in itertools.pairwise(starts):
            if end > start:
                mine = rows.slice(start, end - start)
                yield Incoming(mine["chain"][0].as_py(), mine["token_address"][0].as_py(), keys[start:end], mine)

    def _numbered(self, rows: pa.Table) -> pa.Table:
        """The rows with the numbers of both addresses; unknown addresses get theirs."""
        ends = pa.chunked_array([*rows["from_address"].chunks, *rows["to_address"].chunks], pa.string())
        encoded = (
            ends.combine_chunks().dictionary_encode() if len(ends) else pa.array([], pa.string()).dictionary_encode()
        )
        if isinstance(encoded, pa.ChunkedArray):
            encoded = encoded.combine_chunks()
        numbers = self._dictionary.learn(self._hasher, encoded.dictionary).astype(np.int32)
        each = numbers[encoded.indices.to_numpy()]
        senders, receivers = each[: rows.num_rows], each[rows.num_rows :]
        return rows.append_column("sender", pa.array(senders)).append_column("receiver", pa.array(receivers))

    def _from_buckets(self, tables: Iterable[pa.Table]) -> Iterator[Incoming]:
        _give_back_at_once()
        self._spool.mkdir()
        for path in self._sort_out(tables):
            yield from self._of_bucket(path)
            path.unlink()
            pa.default_memory_pool().release_unused()

    def _sort_out(self, tables: Iterable[pa.Table]) -> list[Path]:
        """Writes all rows to files, those of a token to one."""
        with ExitStack() as open_files:
            writers: dict[int, pq.ParquetWriter] = {}
            for table in tables:
                buckets = _buckets(table)
                order = np.argsort(buckets, kind="stable")
                sorted_out, ordered = table.take(pa.array(order)), buckets[order]
                edges = [0, *(np.flatnonzero(np.diff(ordered)) + 1).tolist(), len(ordered)]
                for start, end in itertools.pairwise(edges):
                    bucket = int(ordered[start])
                    if bucket not in writers:
                        path = self._spool / f"{bucket}.parquet"
                        writer = pq.ParquetWriter(path, TRANSFERS, compression="lz4", use_dictionary=_REPETITIVE)
                        writers[bucket] = open_files.enter_context(writer)
                    writers[bucket].write_table(sorted_out.slice(start, end - start))
        return sorted(self._spool.glob("*.parquet"))

    def _of_bucket(self, path: Path) -> Iterator[Incoming]:
        if sum(self._uncompressed(path)) <= self._group_bytes:
            yield from self._in_memory(pq.read_table(path).cast(TRANSFERS))
            return
        found = self._query(
            "SELECT chain, token_address, count(*) AS rows FROM read_parquet($path) GROUP BY ALL ORDER BY ALL",
            {"path": str(path)},
        )
        for chain, address in zip(found["chain"].to_pylist(), found["token_address"].to_pylist(), strict=True):
            own = self._write_sorted(
                f"SELECT *, {_KEY} AS key FROM read_parquet($path) WHERE chain = $chain AND token_address = $address"
                f" ORDER BY {_IN_ORDER}",
                {"path": str(path), "chain": chain, "address": address},
            )
            yield own
            if own.path is not None:
                own.path.unlink(missing_ok=True)

    @staticmethod
    def _uncompressed(path: Path) -> Iterator[int]:
        metadata = pq.read_metadata(path)
        for number in range(metadata.num_row_groups):
            yield metadata.row_group(number).total_byte_size * 2  # as Arrow has them, about

    def _write_sorted(self, sql: str, parameters: Mapping[str, Any]) -> Incoming:
        """The rows of a token as a file of its own, numbered."""
        path = self._spool / f"{uuid.uuid4().hex}.parquet"
        keys, first, writer = [], None, None
        for batch in self._cursor.sql(sql, params=dict(parameters)).to_arrow_reader(_BATCH):
            rows = pa.Table.from_batches([batch])
            rows = rows if "sender" in rows.column_names else self._numbered(rows)
            if writer is None:
                first = rows.slice(0, 1)
                writer = pq.ParquetWriter(path, rows.schema, compression="lz4", use_dictionary=_REPETITIVE)
            keys.append(rows["key"].to_numpy())
            writer.write_table(rows)
        if writer is None or first is None:
            raise AssertionError("a token without rows")
        writer.close()
        return Incoming(first["chain"][0].as_py(), first["token_address"][0].as_py(), np.concatenate(keys), None, path)

    def _add(self, incoming: Incoming, counts: Counts) -> None:
        key = (incoming.chain, incoming.address)
        number = self._number(key)
        stored = [part for part in self._parts.get(number, ()) if part.kind != OPENING]
        added = self._new_rows(incoming, stored, counts)
        if added is None:
            return
        moves, period = _encoded(added)
        counts.first_times.append(period.first_time)
        tails = [part for part in stored if part.kind == TAIL]
        merged = _to_merge(stored, tails, period.rows)
        name = uuid.uuid4().hex
        write_rows(self._path("transfers", name), self._with_stored(added, merged))
        pieces = [self._opened.part(part.file).moves for part in merged]
        keys = [np.sort(added.keys), *(self._keys(part) for part in merged)]
        self._write_part(name, joined_moves([*pieces, moves]), np.concatenate(keys))
        is_base = len(merged) == len(stored)
        self._replace(number, merged, _part_file(name, number, BASE if is_base else TAIL, period, merged))
        self._note_dealings(name, number, moves, whole=not merged)

    def _new_rows(self, incoming: Incoming, stored: list[PartFile], counts: Counts) -> Incoming | None:
        """The rows that are not stored yet, each once; None where there are none."""
        doubtful = _doubtful(incoming.keys, [self._keys(part) for part in stored])
        if not len(doubtful):
            counts.new += len(incoming.keys)
            return incoming
        imported = "imported"
        self._cursor.register("doubtful", pa.table({"key": doubtful}))
        if incoming.table is not None:
            self._cursor.register("imported", incoming.table)
        else:
            imported = _read(incoming.path)
        files = [str(self._path("transfers", part.file)) for part in stored] or [str(self.empty_file())]
        self._cursor.execute(_JUDGED.format(imported=imported), {"stored": files})
        verdicts = self._cursor.sql(_VERDICTS).to_arrow_table().to_pylist()
        found = {row["verdict"]: row["rows"] for row in verdicts}
        counts.duplicate += found.get("duplicate", 0)
        counts.conflict += found.get("conflict", 0)
        new = len(incoming.keys) - found.get("duplicate", 0) - found.get("conflict", 0)
        counts.new += new
        if not new:
            return None
        sql = _ADDED.format(imported=imported)
        if incoming.path is not None:
            return self._write_sorted(sql, {})
        table = self._cursor.sql(sql).to_arrow_table()
        return Incoming(incoming.chain, incoming.address, table["key"].to_numpy(), table)

    def _with_stored(self, added: Incoming, merged: list[PartFile]) -> Iterator[pa.Table]:
        if not merged:
            yield from added.batches()
            return
        files = [str(self._path("transfers", part.file)) for part in merged]
        if added.table is not None:
            self._cursor.register("added", added.table.select(TRANSFERS.names))
            sql = _MERGED
        else:
            columns = ", ".join(TRANSFERS.names)
            sql = _MERGED.replace("FROM added", f"SELECT {columns} FROM {_read(added.path)}")
        for batch in self._cursor.sql(sql, params={"stored": files}).to_arrow_reader(_BATCH):
            yield pa.Table.from_batches([batch])

    def _note_dealings(self, name: str, number: int, moves: Moves, whole: bool) -> None:
        """Keeps what is new for the adjacency; of a large import it is read again from the part's file."""
        if whole and 16 * len(moves) > self._chunk:
            moves = self._opened.part(name).moves
        self._dealings.append(_dealings(number, moves))

    def take_over(self, chain: str, address: str, file: str) -> None:
        """Makes the arrays of a token's transfers, which lie as Parquet in ``transfers`` already."""
        number = self._number((chain, address))
        self._spool.mkdir(exist_ok=True)
        sql = f"SELECT *, {_KEY} AS key FROM read_parquet($path)"
        rows = self._write_sorted(sql, {"path": str(self._path("transfers", file))})
        moves, period = _encoded(rows)
        self._write_part(file, moves, rows.keys)
        self._replace(number, [], _part_file(file, number, BASE, period, []))
        self._note_dealings(file, number, moves, whole=True)

    # ------------------------------------------------------------------ opening balances

    def add_openings(self, key: tuple[str, str], rows: pa.Table) -> None:
        """Adds opening balances of a token (columns of ``TRANSFERS``, from the zero address) as a part of their own."""
        number, name = self._number(key), uuid.uuid4().hex
        numbered = self._numbered(rows)
        incoming = Incoming(*key, np.empty(0, np.uint64), numbered)
        moves, period = _encoded(incoming)
        write_rows(self._path("openings", name), [rows])
        self._write_part(name, joined_moves([moves]), np.empty(0, np.uint64))
        self._replace(number, [], _part_file(name, number, OPENING, period, []))

    def opening_rows(self, key: tuple[str, str]) -> pa.Table:
        """The opening balances of a token that are stored."""
        parts = [part for part in self.manifest.parts_of(key) if part.kind == OPENING]
        tables = [pq.read_table(self._path("openings", part.file)) for part in parts]
        return pa.concat_tables([TRANSFERS.empty_table(), *tables])

    # ------------------------------------------------------------------ roll back

    def roll_back(self, chain: str, after_block: int) -> tuple[int, int | None]:
        """Removes the chain's rows of later blocks. Returns how many there were, and the second of the first one."""
        rows, first_times, removed = 0, [], []
        for key, number in sorted(self._numbers.items()):
            for part in list(self._parts.get(number, ())) if key[0] == chain else []:
                if part.last_block > after_block:
                    gone = self._cut(key, part, after_block)
                    rows += gone.rows
                    first_times.append(gone.first_time)
                    if part.kind != OPENING:
                        removed.append(_dealings(number, gone.moves))
        if removed:
            self._remove_dealings(joined_dealings(removed))
        return rows, min(first_times, default=None)

    def _cut(self, key: tuple[str, str], part: PartFile, after_block: int) -> Removed:
        folder = "openings" if part.kind == OPENING else "transfers"
        bound = {"stored": [str(self._path(folder, part.file))], "block": after_block}
        gone = self._split(key, bound | {"kept": False})
        moves, period = _encoded(gone)
        replacing = None
        if period.rows < part.transfers:
            self._spool.mkdir(exist_ok=True)
            kept = self._write_sorted(_SPLIT, bound | {"kept": True})
            name = uuid.uuid4().hex
            kept_moves, kept_period = _encoded(kept)
            write_rows(self._path(folder, name), kept.batches())
            self._write_part(name, joined_moves([kept_moves]), np.sort(kept.keys))
            replacing = _part_file(name, part.token, part.kind, kept_period, [])
        self._replace(part.token, [part], replacing)
        return Removed(period.rows, period.first_time, moves)

    def _split(self, key: tuple[str, str], bound: Mapping[str, Any]) -> Incoming:
        rows = self._query(_SPLIT, bound)
        return Incoming(*key, rows["key"].to_numpy(), self._numbered(rows))

    def _remove_dealings(self, removed: Dealings) -> None:
        """Takes transfers out of the small runs first, and of the large one only where they are in no other."""
        for run in reversed(self.manifest.runs):
            if not len(removed):
                return
            kept, missed = without(self._opened.run(run.file).dealings(), removed)
            if len(missed) < len(removed):
                self._catalog.execute("DELETE FROM runs WHERE file = ?", (run.file,))
                self._replaced.append(run.file)
                if len(kept):
                    self._write_run([kept], [])
            removed = missed

    # ------------------------------------------------------------------ files

    def finish(self) -> None:
        """Writes what all tokens share, and names every new file in the catalogue."""
        if self._dealings:
            self._add_run()
        self._save_volumes()
        for folder in self._folder.values():
            sync_folder(folder)
        for name in self._replaced:
            self.begin_grace(name)

    def begin_grace(self, name: str) -> None:
        """Counts the grace of the files that are being replaced from now on, however old they are."""
        places = [self._path(folder, name) for folder in ("transfers", "openings")]
        for path in (*places, *(self._opened.path(name, kind) for kind in ("part", "run", "volume"))):
            with suppress(FileNotFoundError):
                os.utime(path)

    def empty_file(self) -> Path:
        """A Parquet file of no transfers, for queries over none."""
        path = self._path("transfers", "none")
        if not path.exists():
            write_rows(path, [TRANSFERS.empty_table()])
        return path

    def _number(self, key: tuple[str, str]) -> int:
        if key not in self._numbers:
            self._catalog.execute("INSERT INTO histories (chain, token_address) VALUES (?, ?)", key)
            sql = "SELECT number FROM histories WHERE chain = ? AND token_address = ?"
            (self._numbers[key],) = self._catalog.execute(sql, key).fetchone()
        return self._numbers[key]

    def _path(self, folder: str, name: str) -> Path:
        return self._folder[folder] / f"{name}.parquet"

    def _keys(self, part: PartFile) -> Array:
        return read_arrays(self._opened.path(part.file, "part"))["keys"]

    def _write_part(self, name: str, moves: Moves, keys: Array) -> None:
        write_part(self._opened.path(name, "part"), moves, np.sort(keys), self._dictionary.ranks, self._chunk)

    def _replace(self, number: int, replaced: list[PartFile], part: PartFile | None) -> None:
        for old in replaced:
            self._catalog.execute("DELETE FROM parts WHERE file = ?", (old.file,))
            self._replaced.append(old.file)
        kept = [one for one in self._parts.get(number, ()) if one not in replaced]
        if part is not None:
            kept.append(part)
            row = (part.file, part.token, part.kind, part.transfers, part.first_time, part.last_time)
            blocks = (part.first_block, part.last_block)
            self._catalog.execute("INSERT INTO parts VALUES (?, ?, ?, ?, ?, ?, ?, ?)", (*row, *blocks))
        self._parts[number] = kept

    def _add_run(self) -> None:
        runs = list(self.manifest.runs)
        entries = 2 * sum(map(len, self._dealings))
        tails = runs[1:]
        if not runs or 10 * (entries + sum(run.entries for run in tails)) > runs[0].entries:
            merged = runs
        else:
            merged = tails if len(tails) >= _TAILS else []
        for run in merged:
            self._catalog.execute("DELETE FROM runs WHERE file = ?", (run.file,))
            self._replaced.append(run.file)
        self._write_run(self._dealings, [run.file for run in merged])

    def _write_run(self, pieces: list[Dealings], merged: list[str]) -> None:
        runs = [self._opened.run(file) for file in merged]
        owners, counts = owners_of(pieces, runs)
        if not len(owners):
            return
        wide = any(len(piece) and int(piece.times.max()) >= 2**32 for piece in pieces)
        wide = wide or any(run.times.dtype.itemsize > 4 for run in runs)
        of_pieces, of_merged = within(lambda: iter(pieces)), of_runs(runs)
        name = uuid.uuid4().hex
        path = self._opened.path(name, "run")
        entries = write_run(
            path,
            owners,
            counts,
            lambda low, high: joined_dealings([of_pieces(low, high), of_merged(low, high)]),
            np.int64 if wide else np.uint32,
            self._chunk,
        )
        self._catalog.execute("INSERT INTO runs VALUES (?, ?)", (name, entries))

    def _save_volumes(self) -> None:
        """Writes the addresses that are new, together with those of small volumes before them."""
        known = {volume.first_number: volume for volume in self.manifest.volumes}
        fresh = [volume for volume in self._dictionary.volumes if volume.hashes.flags.owndata]
        if not fresh:
            return
        stored = [volume for volume in self._dictionary.volumes if not volume.hashes.flags.owndata]
        while stored and stored[-1].size <= 2 * sum(volume.size for volume in fresh):
            fresh.insert(0, stored.pop())
            old = known[fresh[0].first]
            self._catalog.execute("DELETE FROM volumes WHERE file = ?", (old.file,))
            self._replaced.append(old.file)
        name, volume = uuid.uuid4().hex, joined(fresh) if len(fresh) > 1 else fresh[0]
        write_arrays(self._opened.path(name, "volume"), volume.arrays())
        self._catalog.execute("INSERT INTO volumes VALUES (?, ?, ?)", (name, volume.first, volume.size))

    def _query(
        self, sql: str, parameters: Mapping[str, Any] | None = None, tables: Mapping[str, pa.Table] | None = None
    ) -> pa.Table:
        for name, table in (tables or {}).items():
            self._cursor.register(name, table)
        return self._cursor.sql(sql, params=dict(parameters) if parameters else None).to_arrow_table()


@dataclass(frozen=True)
class Period:
    """How many rows there are, and their first and last seconds and blocks."""

    rows: int
    first_time: int
    last_time: int
    first_block: int
    last_block: int


@dataclass(frozen=True)
class Removed:
    """What was taken out of a part."""

    rows: int
    first_time: int
    moves: Moves


_REPETITIVE: Final = [
    "chain", "token_address", "token_standard", "token_id", "time_kind", "log_index_kind", "source",
]  # fmt: skip
"""Columns in which few values stand again and again; a dictionary of the others would be as long as they are."""


def _give_back_at_once() -> None:
    """Lets the C library return large pieces of memory as soon as they are free.

    glibc keeps pieces of up to 32 MB once it has seen some come and go; a large import would hold twice what it needs.
    """
    mallopt = getattr(ctypes.CDLL(None), "mallopt", None) if os.name == "posix" else None
    if mallopt:
        mallopt(_M_MMAP_THRESHOLD, 1 << 18)


def _read(path: Path | None) -> str:
    """A Parquet file in SQL, where its name can't be bound."""
    return "read_parquet('{}')".format(str(path).replace("'", "''"))


def write_rows(path: Path, tables: Iterable[pa.Table]) -> None:
    """Writes transfers as a Parquet file that is there whole or not at all, and there to stay."""
    building = path.with_name(f".{path.name}.{uuid.uuid4().hex}")
    with building.open("wb") as file:
        with pq.ParquetWriter(file, TRANSFERS, compression="zstd", use_dictionary=_REPETITIVE) as writer:
            for table in tables:
                writer.write_table(table.select(TRANSFERS.names).cast(TRANSFERS), row_group_size=_BATCH)
        file.flush()
        os.fsync(file.fileno())
    building.replace(path)


def period_of(rows: pa.Table) -> Period:
    """Size and period of rows of transfers, of which there is at least one."""
    times, blocks = pc.min_max(rows["block_time"]).as_py(), pc.min_max(rows["block_number"]).as_py()
    return Period(rows.num_rows, times["min"], times["max"], blocks["min"], blocks["max"])


def _joined_period(periods: list[Period]) -> Period:
    return Period(
        sum(one.rows for one in periods),
        min(one.first_time for one in periods),
        max(one.last_time for one in periods),
        min(one.first_block for one in periods),
        max(one.last_block for one in periods),
    )


def _part_file(name: str, number: int, kind: str, period: Period, merged: list[PartFile]) -> PartFile:
    olds = [Period(p.transfers, p.first_time, p.last_time, p.first_block, p.last_block) for p in merged]
    whole = _joined_period([period, *olds])
    return PartFile(
        name, number, kind, whole.rows, whole.first_time, whole.last_time, whole.first_block, whole.last_block
    )


def _to_merge(stored: list[PartFile], tails: list[PartFile], added: int) -> list[PartFile]:
    """The parts that are made one with what is added: all of them when the tail passes a tenth of the base."""
    base = sum(part.transfers for part in stored if part.kind == BASE)
    if 10 * (added + sum(part.transfers for part in tails)) > base:
        return stored
    return tails if len(tails) >= _TAILS else []


def _encoded(incoming: Incoming) -> tuple[Moves, Period]:
    """The rows that move something, as arrays; and the period of all rows."""
    moves, periods = [], []
    for rows in incoming.batches():
        values = from_texts(rows["value"].combine_chunks() if rows["value"].num_chunks else pa.array([], pa.string()))
        something = np.flatnonzero(values.any(axis=1))
        whole = Moves(rows["block_time"].to_numpy(), rows["sender"].to_numpy(), rows["receiver"].to_numpy(), values)
        moves.append(whole.at(something))
        periods.append(period_of(rows))
    return joined_moves(moves), _joined_period(periods)


def _dealings(number: int, moves: Moves) -> Dealings:
    tokens = np.broadcast_to(np.int32(number), len(moves))
    return Dealings(tokens, moves.senders, moves.receivers, moves.times)


def _doubtful(keys: Array, stored: list[Array]) -> Array:
    """Keys that stand twice, or that are stored."""
    ordered = np.sort(keys)
    found = [ordered[1:][ordered[1:] == ordered[:-1]]]
    for known in stored:
        if len(known):
            places = np.minimum(np.searchsorted(known, ordered), len(known) - 1)
            found.append(ordered[known[places] == ordered])
    return np.unique(np.concatenate(found))


def _conformed(table: pa.Table) -> pa.Table:
    return table.select(TRANSFERS.names).cast(TRANSFERS)


def _chained(first: list[pa.Table], rest: Iterator[pa.RecordBatch]) -> Iterator[pa.Table]:
    while first:
        yield first.pop(0)
    for batch in rest:
        yield _conformed(pa.Table.from_batches([batch]))


def _buckets(table: pa.Table) -> Array:
    keys = pc.binary_join_element_wise(table["chain"], table["token_address"], "/").combine_chunks()
    encoded = keys.dictionary_encode()
    numbers = [zlib.crc32(text.encode()) % _BUCKETS for text in encoded.dictionary.to_pylist()]
    buckets: Array = np.array(numbers, np.int64)[encoded.indices.to_numpy()]
    return buckets


def _changes_of(*columns: pa.ChunkedArray) -> Array:
    """Places of the rows at which any of the columns is other than the row before."""
    changed = np.zeros(max(len(columns[0]) - 1, 0), np.bool_)
    for column in columns:
        whole = column.combine_chunks()
        whole = whole.chunk(0) if isinstance(whole, pa.ChunkedArray) else whole
        changed |= pc.not_equal(whole[1:], whole[:-1]).to_numpy(zero_copy_only=False)
    return np.flatnonzero(changed) + 1
