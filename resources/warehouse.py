"""The warehouse: the lake's committed partitions in one DuckDB file, for analysts' SQL.

Tables and columns are the contract's, but for ``as_of``, which is ``timestamp`` here. Views and macros stand in
``warehouse_sql``. A load works on a copy and publishes it by one rename, so that a reader neither blocks a load nor
sees half of one; a load that is killed leaves the file as it was. Loads queue for a lock. The copy costs no bytes where
the file system can share them (XFS, Btrfs), elsewhere as much as the disk takes to write the file.

Rows lie by month, chain, token and instant: such a file is small, and a question about a token, a time or both reads
little of it (``benchmarks.warehouse``). A load sorts what it takes; where many small loads have mixed the rows, the
file is written anew.

What is committed is the lake's matter.
"""

from __future__ import annotations

import fcntl
import hashlib
import os
import shutil
import time
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from datetime import datetime
from pathlib import Path
from typing import Any, Final

import duckdb
import msgspec
import numpy as np
import pyarrow as pa

from contract.tables import INSTANT_TYPE, TABLES
from contract.times import parse_partition, partition_text, utc_now
from resources import layout
from resources.commits import NO_FILE
from resources.lake import SIDE_TABLES, Lake, Manifest

_BATCH_PARTITIONS: Final = 256
_BATCH_ROWS: Final = 500_000
"""So much is taken at once, whatever is to be loaded: DuckDB sorts it within the memory that it is allowed."""
_MEMORY: Final = "256MB"
_FORMAT: Final = "v1.5.0"
"""What any DuckDB from 1.5 on opens, as analysts' tools bring; 1.4 would, but fails at macros with a WITH."""
_IN_A_ROW: Final = 4
"""A load that takes fewer instants of a month and chain than this lays a token's rows of that month apart."""
_MIXED_PART: Final = 0.25
_MIXED_ROWS: Final = 250_000
"""The file is written anew where so many rows of a table, and such a part of them, lie apart."""

_LOADED: Final = "SELECT family, chain, timestamp, manifest_sha FROM _loaded"
_INSTALLED: Final = "SELECT part, sha FROM _installed"
_DELETE: Final = """
DELETE FROM {table}
WHERE (chain, timestamp) IN (SELECT (chain, timestamp) FROM stale)
"""
_INSERT: Final = """
INSERT INTO {table}
SELECT * FROM read_parquet($files, hive_partitioning = false)
{sorting}
"""
_UNSORTED: Final = frozenset({"grouped_transfers"})
"""Many rows of a token and instant lie together as they come; sorting them doubles a load for 5 % of the bytes."""
_KEY_HASHES: Final = "SELECT hash({key}) AS hash FROM read_parquet($files, hive_partitioning = false)"
_SHARED_KEYS: Final = """
SELECT chain, as_of, count(*) - count(DISTINCT hash({key})) AS rows
FROM read_parquet($files, hive_partitioning = false)
GROUP BY chain, as_of
HAVING rows > 0
"""
_MIXED: Final = """
INSERT INTO _mixed VALUES (?, ?)
ON CONFLICT DO UPDATE SET rows = rows + excluded.rows
"""
_MONTHS: Final = "SELECT DISTINCT date_trunc('month', timestamp) AS month FROM mixed.{table} ORDER BY month"
_PACK: Final = """
INSERT INTO {table}
SELECT *
FROM mixed.{table}
WHERE timestamp >= $month AND timestamp < $month + INTERVAL 1 MONTH
ORDER BY {order}
"""
_FORGET: Final = """
DELETE FROM {table}
WHERE (family, chain, timestamp) IN (SELECT (family, chain, timestamp) FROM learnt)
"""
_REMEMBER: Final = {
    "_loaded": "SELECT family, chain, timestamp, manifest_sha, loaded_at FROM learnt",
    "partitions": "SELECT chain, timestamp, family, provider, written_at, row_count, failures FROM learnt",
    "coverage": "SELECT chain, timestamp, family, unnest(covered) FROM learnt",
}

_HELD: Final = ", for another program has it open for writing; close it there, or connect that program read-only"

Partition = tuple[str, str, datetime]
"""Family, chain and instant."""


class WarehouseError(Exception):
    """The warehouse can't answer or be loaded; the message says why and what to do."""


@dataclass(frozen=True)
class LoadReport:
    """What a load did: partitions (of a family each) and rows by table, in how many seconds.

    ``damaged`` names partitions whose files do not match their manifest; in the warehouse they are as they were.
    ``duplicates`` names tables and partitions in which rows share a key; they are loaded as they came.
    """

    partitions: int
    rows: Mapping[str, int]
    seconds: float
    damaged: tuple[str, ...] = ()
    duplicates: tuple[str, ...] = ()


@dataclass(frozen=True)
class _State:
    """What the published file holds: the manifests it was loaded from, and the layout it has."""

    loaded: Mapping[Partition, str]
    installed: Mapping[str, str]


@dataclass(frozen=True)
class _Pending:
    """A manifest that is not loaded yet, with the SHA-256 of its text."""

    manifest: Manifest
    sha: str

    @property
    def key(self) -> Partition:
        return (self.manifest.family, self.manifest.chain, self.manifest.as_of)


class Warehouse:
    """The DuckDB file at ``path``."""

    def __init__(self, path: Path) -> None:
        self.path = path

    @property
    def version(self) -> str | None:
        """Tells one published file from the next; None where there is none yet."""
        try:
            found = self.path.stat()
        except FileNotFoundError:
            return None
        return f"{found.st_ino} {found.st_mtime_ns}"

    def connect(self) -> duckdb.DuckDBPyConnection:
        """A read-only connection to what is published now; close it. Raises ``WarehouseError`` without a file.

        The file is attached rather than opened: a process that opens a path that it has open already would be given
        the old file again, although another was published meanwhile.
        """
        if not self.path.exists():
            raise WarehouseError(
                f"there is no warehouse at {self.path} yet; 'holderlake demo' or 'holderlake ingest' makes it"
            )
        connection = quiet(duckdb.connect())
        try:
            connection.execute(f"ATTACH {layout.quoted(str(self.path))} AS warehouse (READ_ONLY)")
            connection.execute("USE warehouse")
        except duckdb.Error as error:
            connection.close()
            advice = _HELD if "Could not set lock" in str(error) else ""
            raise WarehouseError(f"{self.path} can't be opened{advice}: {error}") from error
        return connection

    def query(self, sql: str, parameters: Sequence[Any] | None = None) -> pa.Table:
        """The answer to a query. Raises ``WarehouseError`` with what DuckDB says of a faulty one."""
        with self.connect() as connection:
            return answer(connection, sql, parameters)

    def load(self, lake: Lake) -> LoadReport:
        """Loads all partitions that are new in the lake, or were written anew; readers see all of them at once.

        Where nothing is new, nothing is written. A partition that vanished from the lake stays.
        """
        began = time.monotonic()
        self.path.parent.mkdir(parents=True, exist_ok=True)
        with self._locked():
            state = self._state()
            pending = sorted(_pending(lake, state.loaded), key=_in_order)
            loading = _Loading(lake, state.loaded)
            outdated = state.installed.get("views") != layout.views_sha()
            if pending or outdated:
                with self._next_version() as connection, self._held() as held:
                    if outdated:
                        layout.install(connection)
                    for batch in _batches(pending):
                        loading.take(connection, held, batch)
                    for table in SIDE_TABLES:
                        loading.take_side(connection, held, table)
        rows = {name: loading.rows[name] for name in TABLES if loading.rows[name]}
        seconds = time.monotonic() - began
        return LoadReport(len(loading.taken), rows, seconds, tuple(loading.damaged), tuple(loading.duplicates))

    def _state(self) -> _State:
        """Raises ``WarehouseError`` where the file is of another version, or no warehouse."""
        if not self.path.exists():
            return _State({}, {})
        with self.connect() as connection:
            try:
                loaded = connection.execute(_LOADED).fetchall()
                installed = dict(connection.execute(_INSTALLED).fetchall())
            except duckdb.CatalogException as error:
                raise WarehouseError(f"{self.path} is a DuckDB file, but no warehouse; move it away") from error
        if installed["tables"] != layout.tables_sha():
            raise WarehouseError(
                f"{self.path} was made by a version with other tables; delete it, and the next load makes it anew "
                "from the lake"
            )
        return _State({(family, chain, at): sha for family, chain, at, sha in loaded}, installed)

    @contextmanager
    def _locked(self) -> Iterator[None]:
        with self.path.with_name(f"{self.path.name}.lock").open("a") as lock:
            fcntl.flock(lock, fcntl.LOCK_EX)
            yield

    @contextmanager
    def _held(self) -> Iterator[Path]:
        """A folder for the files that are being loaded, gone when that is done; what a killed load left goes too."""
        folder = self.path.with_name(f"{self.path.name}.loading")
        shutil.rmtree(folder, ignore_errors=True)
        folder.mkdir()
        try:
            yield folder
        finally:
            shutil.rmtree(folder, ignore_errors=True)

    @contextmanager
    def _next_version(self) -> Iterator[duckdb.DuckDBPyConnection]:
        """A copy to write to, published when all went well.

        It is written batch by batch: nobody sees it before, and one large transaction would take memory for all.
        """
        copy = self._beside("next")
        if self.path.exists():
            _copy(self.path, copy)
        with _writing(copy) as connection:
            yield connection
            connection.execute("CHECKPOINT")
            mixed = _is_mixed(connection)
        if mixed:
            copy = self._packed(copy)
        os.replace(copy, self.path)  # noqa: PTH105 - tests stop a load here

    def _packed(self, mixed: Path) -> Path:
        """The same rows in a new file, in order and without holes."""
        packed = self._beside("packed")
        with _writing(packed) as connection:
            connection.execute(f"ATTACH {layout.quoted(str(mixed))} AS mixed (READ_ONLY)")
            layout.install(connection)
            for table in (*TABLES.values(), *layout.OWN_TABLES.values()):
                order = layout.order(table, "timestamp")
                for (month,) in connection.execute(_MONTHS.format(table=table.name)).fetchall():
                    connection.execute(_PACK.format(table=table.name, order=order), {"month": month})
            connection.execute("INSERT INTO _loaded FROM mixed._loaded")
            connection.execute("DETACH mixed")
            connection.execute("CHECKPOINT")
        mixed.unlink()
        return packed

    def _beside(self, what: str) -> Path:
        """The name of a file beside the published one; what a killed load left there goes."""
        path = self.path.with_name(f"{self.path.name}.{what}")
        for leftover in (path, path.with_name(f"{path.name}.wal")):
            leftover.unlink(missing_ok=True)
        shutil.rmtree(path.with_name(f"{path.name}.tmp"), ignore_errors=True)
        return path


def answer(connection: duckdb.DuckDBPyConnection, sql: str, parameters: Sequence[Any] | None = None) -> pa.Table:
    """The answer to a query on a connection. Raises ``WarehouseError`` with what DuckDB says of a faulty one."""
    try:
        found = connection.sql(sql, params=parameters)
        return pa.table({}) if found is None else found.to_arrow_table()
    except duckdb.Error as error:
        raise WarehouseError(str(error)) from error


class _Loading:
    """One load: what it took from the lake, and what it could not take."""

    def __init__(self, lake: Lake, known: Mapping[Partition, str]) -> None:
        self.lake = lake
        self.known = known
        self.taken: list[_Pending] = []
        self.rows: Counter[str] = Counter()
        self.damaged: list[str] = []
        self.duplicates: list[str] = []

    def take(self, connection: duckdb.DuckDBPyConnection, held: Path, batch: Sequence[_Pending]) -> None:
        """Puts the rows of some partitions in place of those that the warehouse has of them."""
        files: dict[str, list[Path]] = {}
        stale: dict[str, list[_Pending]] = {}
        taken = []
        for one in batch:
            names = one.manifest.tables.keys() - set(SIDE_TABLES)
            found = self.lake.hold(one.manifest, held, names)
            if found is None:
                self._note_damage(one.manifest)
                continue
            taken.append(one)
            for name in names:
                files.setdefault(name, []).append(found[name])
                self.rows[name] += one.manifest.tables[name].rows
                if one.key in self.known:
                    stale.setdefault(name, []).append(one)
        for name, paths in files.items():
            _delete(connection, name, stale.get(name, ()))
            self._note_duplicates(connection, name, paths)
            _insert(connection, name, paths)
        if len(taken) < _IN_A_ROW * len({(one.manifest.timestamp[:6], one.key[:2]) for one in taken}):
            for name in files:
                rows = sum(one.manifest.tables[name].rows for one in taken if name in one.manifest.tables)
                connection.execute(_MIXED, [name, rows])
        _remember(connection, taken)
        self.taken += taken

    def take_side(self, connection: duckdb.DuckDBPyConnection, held: Path, table: str) -> None:
        """A side table's rows of the partitions that were touched, of all families: a row may not tell whose it is."""
        partitions = dict.fromkeys((one.manifest.chain, one.manifest.as_of) for one in self.taken)
        manifests = [
            manifest
            for chain, as_of in partitions
            for manifest in self.lake.manifests(chain=chain, as_of=as_of)
            if manifest.tables.get(table, NO_FILE).rows
        ]
        found = [(manifest, self.lake.hold(manifest, held, [table])) for manifest in manifests]
        _delete(connection, table, self.taken)
        _insert(connection, table, [files[table] for _, files in found if files])
        self.rows[table] += sum(manifest.tables[table].rows for manifest, files in found if files)

    def _note_damage(self, manifest: Manifest) -> None:
        """A partition that is being written anew is not damaged: the next load takes it."""
        now = self.lake.manifest(manifest.family, manifest.chain, manifest.as_of)
        if now is None or now.commit == manifest.commit:
            self.damaged.append(f"{manifest.family} of {manifest.chain} at {manifest.timestamp}")

    def _note_duplicates(self, connection: duckdb.DuckDBPyConnection, table: str, files: Sequence[Path]) -> None:
        """Partitions are replaced whole, and a key holds chain and instant: unique here is unique in the warehouse."""
        key, named = ", ".join(TABLES[table].key), {"files": [str(path) for path in files]}
        hashes = np.sort(connection.sql(_KEY_HASHES.format(key=key), params=named).to_arrow_table()["hash"].to_numpy())
        if not (hashes[1:] == hashes[:-1]).any():  # as a rule; to look for them by partition takes many times as long
            return
        for chain, at, rows in connection.execute(_SHARED_KEYS.format(key=key), named).fetchall():
            self.duplicates.append(f"{table} of {chain} at {partition_text(at)}: {rows} rows too many for their key")


def _in_order(one: _Pending) -> tuple[str, str, str]:
    """Partitions as rows lie: by month and chain."""
    return (one.manifest.timestamp[:6], one.manifest.chain, one.manifest.timestamp)


def _is_mixed(connection: duckdb.DuckDBPyConnection) -> bool:
    """Whether small loads have brought so much of a table that it is worth the while to write the file anew."""
    told = connection.execute("SELECT table_name, rows FROM _mixed").fetchall()
    for table, mixed in told:
        ((rows,),) = connection.execute(f"SELECT count(*) FROM {table}").fetchall()
        if mixed > _MIXED_ROWS and mixed > _MIXED_PART * rows:
            return True
    return False


def _copy(source: Path, target: Path) -> None:
    """A copy within the kernel, which shares the bytes where the file system can."""
    with source.open("rb") as old, target.open("wb") as new:
        left = source.stat().st_size
        while left:
            left -= os.copy_file_range(old.fileno(), new.fileno(), left)


def _pending(lake: Lake, loaded: Mapping[Partition, str]) -> Iterator[_Pending]:
    """Manifests that the warehouse does not know, or knows with another text."""
    for path in lake.manifest_paths():
        text = path.read_bytes()
        sha = hashlib.sha256(text).hexdigest()
        chain, timestamp = (folder.name.partition("=")[2] for folder in (path.parent.parent, path.parent))
        if loaded.get((path.stem, chain, parse_partition(timestamp))) != sha:
            yield _Pending(msgspec.json.decode(text, type=Manifest), sha)


def _batches(pending: Sequence[_Pending]) -> Iterator[list[_Pending]]:
    """The partitions in groups of a bounded size; one that is larger stands alone."""
    batch: list[_Pending] = []
    rows = 0
    for one in pending:
        its_rows = sum(file.rows for file in one.manifest.tables.values())
        if batch and (rows + its_rows > _BATCH_ROWS or len(batch) == _BATCH_PARTITIONS):
            yield batch
            batch, rows = [], 0
        batch.append(one)
        rows += its_rows
    if batch:
        yield batch


def _delete(connection: duckdb.DuckDBPyConnection, table: str, partitions: Sequence[_Pending]) -> None:
    if not partitions:
        return
    stale = pa.table(
        {
            "chain": pa.array([one.manifest.chain for one in partitions], pa.string()),
            "timestamp": pa.array([one.manifest.as_of for one in partitions], INSTANT_TYPE),
        }
    )
    with _registered(connection, "stale", stale):
        connection.execute(_DELETE.format(table=table))


def _insert(connection: duckdb.DuckDBPyConnection, table: str, files: Sequence[Path]) -> None:
    """Puts files into a table, and removes them."""
    if files:
        sorting = "" if table in _UNSORTED else f"ORDER BY {layout.order(TABLES[table], 'as_of')}"
        connection.execute(_INSERT.format(table=table, sorting=sorting), {"files": [str(path) for path in files]})
    for path in files:
        path.unlink()


def _remember(connection: duckdb.DuckDBPyConnection, taken: Sequence[_Pending]) -> None:
    """Notes what the manifests tell: that they are loaded, and for whom they answered."""
    now = utc_now()
    told = [one.manifest for one in taken]
    learnt = pa.table(
        {
            "family": pa.array([one.family for one in told], pa.string()),
            "chain": pa.array([one.chain for one in told], pa.string()),
            "timestamp": pa.array([one.as_of for one in told], INSTANT_TYPE),
            "manifest_sha": pa.array([one.sha for one in taken], pa.string()),
            "loaded_at": pa.array([now] * len(told), INSTANT_TYPE),
            "provider": pa.array([one.provider for one in told], pa.string()),
            "written_at": pa.array([one.written_at for one in told], INSTANT_TYPE),
            "row_count": pa.array([one.rows for one in told], pa.int64()),
            "failures": pa.array([one.failures for one in told], pa.int64()),
            "covered": pa.array([sorted(one.covered) for one in told], pa.list_(pa.string())),
        }
    )
    with _registered(connection, "learnt", learnt):
        for table, rows in _REMEMBER.items():
            connection.execute(_FORGET.format(table=table))
            connection.execute(f"INSERT INTO {table} {rows}")


@contextmanager
def _registered(connection: duckdb.DuckDBPyConnection, name: str, rows: pa.Table) -> Iterator[None]:
    connection.register(name, rows)
    try:
        yield
    finally:
        connection.unregister(name)


@contextmanager
def _writing(path: Path) -> Iterator[duckdb.DuckDBPyConnection]:
    with quiet(duckdb.connect(str(path), config={"storage_compatibility_version": _FORMAT})) as connection:
        connection.execute(f"SET memory_limit = '{_MEMORY}'")
        connection.execute("SET threads = 1")  # each would hold a row group of its own; a load is one scan
        yield connection


def quiet(connection: duckdb.DuckDBPyConnection) -> duckdb.DuckDBPyConnection:
    """Without progress bars in logs, and without Python's variables standing in for missing tables."""
    connection.execute("SET enable_progress_bar = false")
    connection.execute("SET python_enable_replacements = false")
    return connection
