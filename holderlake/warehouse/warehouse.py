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

import errno
import logging
import os
import shutil
import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final
from uuid import uuid4

import duckdb
import pyarrow as pa

from holderlake.contract.tables import TABLES
from holderlake.lake.lake import Lake
from holderlake.storage.locks import locked
from holderlake.warehouse import schema
from holderlake.warehouse.loader import Loading, Partition, pending_of

_log = logging.getLogger(__name__)
_MEMORY: Final = "256MB"
_FORMAT: Final = "v1.5.0"
"""What any DuckDB from 1.5 on opens, as analysts' tools bring; 1.4 would, but fails at macros with a WITH."""
_MIXED_PART: Final = 0.25
_MIXED_ROWS: Final = 250_000
"""The file is written anew where so many rows of a table, and such a part of them, lie apart."""

_LOADED: Final = "SELECT family, chain, timestamp, manifest_sha FROM _loaded"
_INSTALLED: Final = "SELECT part, sha FROM _installed"
_MONTHS: Final = "SELECT DISTINCT date_trunc('month', timestamp) AS month FROM old.{table} ORDER BY month"
_COLUMNS: Final = "SELECT table_name, list(column_name) FROM duckdb_columns() WHERE database_name = 'old' GROUP BY ALL"
_PACK: Final = """
INSERT INTO {table} BY NAME
SELECT {columns}
FROM old.{table}
WHERE timestamp >= $month AND timestamp < $month + INTERVAL 1 MONTH
ORDER BY {order}
"""
_CORRUPT: Final = "Corrupt database file"
_MADE_AGAIN: Final = "the next load makes it again from the lake, and 'holderlake rebuild --damaged' does so now"
_HELD: Final = ", for another program has it open for writing; close it there, or connect that program read-only"


class WarehouseError(Exception):
    """The warehouse can't answer or be loaded; the message says why and what to do."""


class DamagedWarehouse(WarehouseError):
    """The file is damaged, or is no DuckDB file."""


@dataclass(frozen=True)
class LoadReport:
    """What a load did: partitions (of a family each) and rows by table, in how many seconds.

    ``damaged`` says which manifests and files are damaged; in the warehouse their partitions are as they were.
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


class Warehouse:
    """The DuckDB file at ``path``."""

    def __init__(self, path: Path) -> None:
        self.path = path
        self.is_postponed = False
        """Whether a later load of the same command takes what the lake has now."""
        self.postponed_days: set[tuple[str, str]] = set()
        """Chains and days (YYYY-MM-DD) of postponed loads, whose alerts were not looked for yet."""

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
            connection.execute(f"ATTACH {schema.quoted(str(self.path))} AS warehouse (READ_ONLY)")
            connection.execute("USE warehouse")
        except duckdb.Error as error:
            connection.close()
            if "Could not set lock" in str(error):
                raise WarehouseError(f"{self.path} can't be opened{_HELD}: {error}") from error
            raise DamagedWarehouse(f"{self.path} is damaged ({_sentence(error)}); {_MADE_AGAIN}") from error
        return connection

    def query(self, sql: str, parameters: Sequence[Any] | None = None) -> pa.Table:
        """The answer to a query. Raises ``WarehouseError`` with what DuckDB says of a faulty one."""
        with self.connect() as connection:
            return answer(connection, sql, parameters)

    def read(self, sql: str, *, files: bool = False) -> pa.Table:
        """Return the answer to a query from others: it writes nothing, and reads files only where ``files`` allows it.

        Raises ``WarehouseError``.
        """
        with self.connect() as connection:
            if files:
                _check_only_reads(connection, sql)
            else:
                keep_to_the_warehouse(connection)
            try:
                return answer(connection, sql)
            except WarehouseError as error:
                if "disabled by configuration" in str(error) or "disabled through configuration" in str(error):
                    raise WarehouseError(f"{_sentence(error)}; --files lets a query read files") from error
                raise

    def check(self) -> int:
        """Read every block of the file and return how many rows of holders it has. Raises ``WarehouseError``."""
        with self.connect() as connection:
            try:
                for table in (*TABLES, *schema.OWN_TABLES):
                    connection.execute(f"SELECT count(COLUMNS(*)) FROM {table}").fetchall()
                ((rows,),) = connection.execute("SELECT count(*) FROM holders").fetchall()
            except duckdb.Error as error:
                raise DamagedWarehouse(f"{self.path} is damaged ({_sentence(error)}); {_MADE_AGAIN}") from error
        return int(rows)

    @contextmanager
    def postponed(self) -> Iterator[None]:
        """Let loads do nothing while the block runs. A load writes the file once, so many chains share one load."""
        self.is_postponed = True
        try:
            yield
        finally:
            self.is_postponed = False

    def load(self, lake: Lake) -> LoadReport:
        """Load the partitions that are new in the lake or were written again. Readers see all of them at once.

        If nothing is new, nothing is written. A partition that vanished from the lake stays. A file with the tables of
        another version gets the tables of this one; columns that it lacked are null.
        """
        began = time.monotonic()
        if self.is_postponed:
            return LoadReport(0, {}, 0.0)
        try:
            self.path.parent.mkdir(parents=True, exist_ok=True)
            with self._locked():
                loading = self._load_or_make_again(lake)
        except OSError as error:
            raise WarehouseError(_unwritable(self.path, error)) from error
        for one in dict.fromkeys(loading.damaged):
            _log.warning("%s; its partition is not loaded. 'holderlake rebuild --damaged' repairs it at no cost", one)
        rows = {name: loading.rows[name] for name in TABLES if loading.rows[name]}
        seconds = time.monotonic() - began
        return LoadReport(
            len(loading.taken), rows, seconds, tuple(dict.fromkeys(loading.damaged)), tuple(loading.duplicates)
        )

    def _load_or_make_again(self, lake: Lake) -> Loading:
        """Load; where the file is damaged, set it aside and make it again from the lake."""
        try:
            return self._load(lake)
        except (DamagedWarehouse, duckdb.Error) as error:
            if not self.path.exists() or _is_full(error):
                raise WarehouseError(_unwritable(self.path, error)) from error
            self._set_aside(error)
        try:
            return self._load(lake)
        except duckdb.Error as error:
            raise WarehouseError(_unwritable(self.path, error)) from error

    def set_damaged_aside(self) -> None:
        """Read every block; where the file is damaged, move it away, so that the next load makes it again."""
        if self.path.exists():
            try:
                self.check()
            except DamagedWarehouse as error:
                self._set_aside(error)

    def _set_aside(self, error: Exception) -> None:
        aside = self.path.with_name(f"{self.path.name}.damaged-{uuid4().hex[:12]}")
        self.path.rename(aside)
        _log.warning("%s. It is made again from the lake; the old file is now %s", _sentence(error), aside)

    def _load(self, lake: Lake) -> Loading:
        state = self._state()
        pending, damaged = pending_of(lake, state.loaded)
        loading = Loading(lake, state.loaded, damaged)
        outdated = state.installed.get("views") != schema.views_sha()
        migrate = bool(state.installed) and state.installed.get("tables") != schema.tables_sha()
        if pending or outdated or migrate:
            _give_back()
            with self._next_version(migrate) as connection, self._held() as held:
                if outdated:
                    schema.install(connection)
                loading.take_all(connection, held, pending)
        return loading

    def _state(self) -> _State:
        """Raises ``WarehouseError`` if the file is not a warehouse."""
        if not self.path.exists():
            return _State({}, {})
        with self.connect() as connection:
            try:
                loaded = connection.execute(_LOADED).fetchall()
                installed = dict(connection.execute(_INSTALLED).fetchall())
            except duckdb.CatalogException as error:
                raise WarehouseError(f"{self.path} is a DuckDB file, but no warehouse; move it away") from error
            except duckdb.Error as error:
                raise DamagedWarehouse(f"{self.path} is damaged ({_sentence(error)}); {_MADE_AGAIN}") from error
        return _State({(family, chain, at): sha for family, chain, at, sha in loaded}, installed)

    @contextmanager
    def _locked(self) -> Iterator[None]:
        with locked(self.path.with_name(f"{self.path.name}.lock")):
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
    def _next_version(self, migrate: bool) -> Iterator[duckdb.DuckDBPyConnection]:
        """A copy to write to, published when all went well.

        It is written batch by batch: nobody sees it before, and one large transaction would take memory for all.
        """
        copy = self._beside("next")
        if migrate:
            self._pack(self.path, copy)
        elif self.path.exists():
            _copy(self.path, copy)
        with _writing(copy) as connection:
            yield connection
            connection.execute("CHECKPOINT")
            mixed = _is_mixed(connection)
        if mixed:
            packed = self._beside("packed")
            self._pack(copy, packed)
            copy.unlink()
            copy = packed
        os.replace(copy, self.path)  # noqa: PTH105 - tests stop a load here

    def _pack(self, old: Path, packed: Path) -> None:
        """Write the rows of a warehouse to a new file: in order, without holes, in the tables of this version."""
        with _writing(packed) as connection:
            connection.execute(f"ATTACH {schema.quoted(str(old))} AS old (READ_ONLY)")
            schema.install(connection)
            existing = dict(connection.execute(_COLUMNS).fetchall())
            for table in (*TABLES.values(), *schema.OWN_TABLES.values()):
                if table.name not in existing:
                    continue
                named = [schema.column_name(name) for name in table.schema.names]
                columns = ", ".join(name for name in named if name in existing[table.name])
                order = schema.order(table, "timestamp")
                for (month,) in connection.execute(_MONTHS.format(table=table.name)).fetchall():
                    connection.execute(_PACK.format(table=table.name, columns=columns, order=order), {"month": month})
            connection.execute("INSERT INTO _loaded FROM old._loaded")
            connection.execute("DETACH old")
            connection.execute("CHECKPOINT")

    def _beside(self, what: str) -> Path:
        """The name of a file beside the published one; what a killed load left there goes."""
        path = self.path.with_name(f"{self.path.name}.{what}")
        for leftover in (path, path.with_name(f"{path.name}.wal")):
            leftover.unlink(missing_ok=True)
        shutil.rmtree(path.with_name(f"{path.name}.tmp"), ignore_errors=True)
        return path


def _check_only_reads(connection: duckdb.DuckDBPyConnection, sql: str) -> None:
    """Raise ``WarehouseError`` on any statement but SELECT and its kin (FROM, DESCRIBE, SHOW)."""
    try:
        types = {one.type for one in connection.extract_statements(sql)}
    except duckdb.Error as error:
        raise WarehouseError(str(error)) from error
    odd = sorted(one.name for one in types - {duckdb.StatementType.SELECT})
    if odd:
        raise WarehouseError(
            f"{', '.join(odd)} is refused: with --files a query only reads; 'holderlake export' writes"
        )


def keep_to_the_warehouse(connection: duckdb.DuckDBPyConnection) -> None:
    """Refuse files, other databases and extensions on a connection, by DuckDB's own settings, for good."""
    for name in ("autoinstall_known_extensions", "autoload_known_extensions", "enable_external_access"):
        connection.execute(f"SET {name} = false")
    connection.execute("SET lock_configuration = true")


def answer(connection: duckdb.DuckDBPyConnection, sql: str, parameters: Sequence[Any] | None = None) -> pa.Table:
    """The answer to a query on a connection. Raises ``WarehouseError`` with what DuckDB says of a faulty one."""
    try:
        found = connection.sql(sql, params=parameters)
        return pa.table({}) if found is None else found.to_arrow_table()
    except duckdb.Error as error:
        if _CORRUPT in str(error):
            raise DamagedWarehouse(f"the warehouse is damaged ({_sentence(error)}); {_MADE_AGAIN}") from error
        raise WarehouseError(str(error)) from error


def _sentence(error: Exception) -> str:
    """Return the first line of an error."""
    return str(error).strip().splitlines()[0] if str(error).strip() else type(error).__name__


def _is_full(error: Exception) -> bool:
    return "No space left" in str(error) or getattr(error, "errno", None) == errno.ENOSPC


def _unwritable(path: Path, error: Exception) -> str:
    """Say in one sentence that the warehouse can't be loaded, why, and what to do."""
    if _is_full(error):
        return f"{path} can't be loaded: the disk is full; free some space and load again, the lake has every row"
    return f"{path} can't be loaded: {_sentence(error)}"


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


def _give_back() -> None:
    """Gives back what the process does not need any more: the answers of a whole backfill may have been here before."""
    for pool in (pa.default_memory_pool(), pa.system_memory_pool()):
        pool.release_unused()


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
