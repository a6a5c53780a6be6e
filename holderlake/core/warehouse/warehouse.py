"""The warehouse: the lake's committed partitions in one DuckDB file, for SQL.

Tables and columns are the contract's, except that ``as_of`` is named ``timestamp``. A load changes a copy of the file,
and then replaces the file by one rename. So readers never wait for a load and never see half of it, and a killed load
changes nothing. Two loads never run at once. On file systems that share bytes (XFS, Btrfs) the copy is free; elsewhere
the complete file is written.

Rows are ordered by month, chain, token and instant. The order makes the file small, and a query about a token or a time
reads little of it (``benchmarks.warehouse``). A load sorts only its own rows. After many small loads, too many rows are
out of order, and the load sorts the complete file.
"""

from __future__ import annotations

import errno
import logging
import os
import shutil
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final
from uuid import uuid4

import duckdb
import pyarrow as pa

from holderlake.core.contract.tables import TABLES
from holderlake.core.lake.damage import damaged_files
from holderlake.core.lake.lake import Lake
from holderlake.core.settings.sections.lake import SqlSettings
from holderlake.core.storage.locks import locked
from holderlake.core.warehouse import derived, schema, spending
from holderlake.core.warehouse.connections import (
    REMEDY,
    DamagedWarehouse,
    WarehouseError,
    attach,
    explained,
    first_line,
    linked_fault,
    prepared,
    relation_of,
    run_query,
    transfers_folder,
)
from holderlake.core.warehouse.loader import Loading, PartitionKey, pending_of
from holderlake.core.warehouse.spending import LedgerReader

__all__ = ["DamagedWarehouse", "LoadReport", "Warehouse", "WarehouseError"]

_log = logging.getLogger(__name__)
_FORMAT: Final = "v1.5.0"
"""Format of the file: DuckDB 1.5.0 or later can open it. DuckDB 1.4 cannot read macros that contain WITH."""
_REPAIRS: Final = 4
_MIXED_PART: Final = 0.25
_MIXED_ROWS: Final = 250_000
"""A load sorts the complete file if a table has more rows out of order than both limits.

``_MIXED_PART`` is a part of the table's rows, ``_MIXED_ROWS`` a number of rows.
"""

_BATCH_ROWS: Final = 10_000
"""Rows of a batch of an answer that is not read as a whole."""
_LOADED: Final = "SELECT family, chain, timestamp, manifest_sha FROM _internal.loaded"
_INSTALLED: Final = "SELECT part, sha FROM _internal.installed"
_MONTHS: Final = "SELECT DISTINCT date_trunc('month', {time}) AS month FROM old.{table} ORDER BY month"
_COLUMNS: Final = """
SELECT table_name, list(column_name)
FROM duckdb_columns()
WHERE database_name = ? AND schema_name = 'main'
GROUP BY ALL
"""
_PACK: Final = """
INSERT INTO {table} BY NAME
SELECT {columns}
FROM old.{table}
WHERE {time} >= $month AND {time} < $month + INTERVAL 1 MONTH
ORDER BY {order}
"""


@dataclass(frozen=True)
class LoadReport:
    """Result of a load: numbers of loaded partitions and of rows by table, and its duration in seconds.

    ``damaged`` are messages about damaged manifests and files; the warehouse keeps its rows of their partitions.
    """

    partitions: int
    rows: Mapping[str, int]
    seconds: float
    damaged: tuple[str, ...] = ()


@dataclass(frozen=True)
class _State:
    """The content of the warehouse's file: ``loaded`` has the SHA-256 of each loaded manifest, by partition.

    ``installed`` has the SHA-256 of the SQL that made the tables (key "tables") and the views and macros (key "views").
    Both are empty if there is no file.
    """

    loaded: Mapping[PartitionKey, str]
    installed: Mapping[str, str]


class Warehouse:
    """The warehouse: the DuckDB file at ``path``, which need not exist before the first load.

    ``transfers`` returns the transfers of the user's own store, for the view of that name. ``ledger`` returns the
    credit ledger, for the table ``spending``. ``sql`` has the memory limit, and the age of outdated answers.
    """

    def __init__(
        self,
        path: Path,
        transfers: Callable[[], Any] = lambda: None,
        ledger: Callable[[], LedgerReader | None] = lambda: None,
        sql: SqlSettings | None = None,
    ) -> None:
        self.path = path
        self._read_transfers = transfers
        self._ledger = ledger
        sql = sql or SqlSettings()
        self._as_of_warning = sql.as_of_warning
        self.memory_limit = sql.memory_limit
        """DuckDB's memory limit for loads, checks and exports, such as 256MB."""

    @property
    def version(self) -> str | None:
        """Text that identifies the version of the file, made of its inode and modification time; None without a file.

        Every load that writes changes it.
        """
        try:
            stat = self.path.stat()
        except FileNotFoundError:
            return None
        return f"{stat.st_ino} {stat.st_mtime_ns}"

    @property
    def transfers(self) -> Path | None:
        """Folder with the transfers of the user's own store as of the last load; None if there are none.

        Raises ``WarehouseError`` if they can't be read.
        """
        if fault := self.transfers_fault():
            raise WarehouseError(fault)
        folder = self._state().installed.get("transfers")
        return Path(folder) if folder else None

    def transfers_fault(self) -> str | None:
        """Return why no query reads the transfers of the user's own store, with the remedy; None if queries do."""
        return linked_fault(self.path, self._state().installed.get("transfers"))

    def connect(self, settings: Mapping[str, str | int] | None = None) -> duckdb.DuckDBPyConnection:
        """Return a read-only connection to the current file; later loads do not change its results.

        ``settings`` are settings of DuckDB. Raises ``WarehouseError`` if there is no file.
        """
        return attach(self.path, settings=settings)

    def query(self, sql: str, parameters: Sequence[Any] | None = None) -> pa.Table:
        """Return the rows of a query. It cannot write, and reads no files. Raises ``WarehouseError``."""
        with self.connect() as connection:
            return run_query(connection, sql, parameters)

    def read(self, sql: str, *, files: bool = False, most: int | None = None) -> pa.Table:
        """Return the rows of a query to print. It cannot write, and reads files only if ``files`` is True.

        ``most`` is the largest number of rows to return; None returns all. ``TEXT_TYPES`` are text. Raises
        ``WarehouseError``.
        """
        batches = [*self.batches(sql, files=files, most=most)]
        return pa.Table.from_batches(batches[1:], batches[0].schema)

    def batches(self, sql: str, *, files: bool = False, most: int | None = None) -> Iterator[pa.RecordBatch]:
        """Yield the rows of a query in batches: first one without rows, for the schema. Otherwise as ``read``."""
        with attach(self.path, files=files) as connection:
            try:
                relation = relation_of(connection, sql)
                reader = (relation if most is None else relation.limit(most)).to_arrow_reader(_BATCH_ROWS)
                empty = [pa.nulls(0, field.type) for field in reader.schema]  # 'from_pylist' would import pandas
                yield pa.RecordBatch.from_arrays(empty, schema=reader.schema)
                yield from reader
            except duckdb.Error as error:
                raise explained(error) from error

    def check(self) -> int:
        """Read every value of the file, and return the number of rows of the table ``holders``.

        Raises ``DamagedWarehouse`` if a value cannot be read, ``WarehouseError`` if there is no file.
        """
        with self.connect() as connection:
            try:
                for table in (*TABLES, *schema.OWN_TABLES):
                    connection.execute(f"SELECT count(COLUMNS(*)) FROM {table}").fetchall()
                ((rows,),) = connection.execute("SELECT count(*) FROM holders").fetchall()
            except duckdb.Error as error:
                raise DamagedWarehouse(f"{self.path} is damaged ({first_line(error)}); {REMEDY}") from error
        return int(rows)

    def load(self, lake: Lake) -> LoadReport:
        """Load new and changed partitions of the lake. Readers see all of them at once.

        Without new partitions nothing is written. Partitions that are no longer in the lake stay in the warehouse. If
        another version of Holderlake made the file, its tables are converted; new columns are null.
        """
        start = time.monotonic()
        try:
            self.path.parent.mkdir(parents=True, exist_ok=True)
            with self._locked():
                loading = self._load_or_rebuild(lake)
        except OSError as error:
            raise WarehouseError(_unwritable(self.path, error)) from error
        for damage in dict.fromkeys(loading.damaged):
            _log.warning(
                "%s; its partition is not loaded. 'holderlake home rebuild --damaged' repairs it at no cost", damage
            )
        rows = {name: loading.rows[name] for name in TABLES if loading.rows[name]}
        seconds = time.monotonic() - start
        return LoadReport(len(loading.loaded), rows, seconds, tuple(dict.fromkeys(loading.damaged)))

    def _load_or_rebuild(self, lake: Lake) -> Loading:
        """Load the lake. After an error, find what is damaged, leave it out or make it again, and load the rest.

        That may be derived files, partitions of the lake, or the warehouse's file.
        """
        unreadable: dict[str, list[str]] = {}
        for _ in range(_REPAIRS):
            try:
                return self._load(lake, unreadable)
            except (DamagedWarehouse, duckdb.Error, pa.ArrowException, OSError) as error:
                unreadable_count = len(unreadable)
                if _is_full(error):
                    raise WarehouseError(_unwritable(self.path, error)) from error
                unreadable |= {} if isinstance(error, DamagedWarehouse) else self._unreadable(lake)
                if not self.set_damaged_aside() and len(unreadable) == unreadable_count:
                    raise WarehouseError(_unwritable(self.path, error)) from error
        raise WarehouseError(f"{self.path} can't be loaded: its files are damaged again; run 'holderlake doctor'")

    def _unreadable(self, lake: Lake) -> dict[str, list[str]]:
        """Return messages about the files that can't be read of each partition to load, by its manifest's SHA-256."""
        with suppress(DamagedWarehouse):
            pending, _ = pending_of(lake, self._state().loaded)
            messages_by_sha = {
                partition.sha: [str(file) for file in damaged_files(lake, partition.manifest, every_byte=True)]
                for partition in pending
            }
            return {sha: messages for sha, messages in messages_by_sha.items() if messages}
        return {}

    def set_damaged_aside(self) -> dict[Path, str]:
        """Move damaged files away, so that the next load makes them again: derived files, and the warehouse's file.

        Every byte is read. Return the files, with a message about each.
        """
        messages = derived.set_aside(self.path)
        for message in messages.values():
            _log.warning("%s", message)
        if self.path.exists():
            try:
                self.check()
            except DamagedWarehouse as error:
                self._set_aside(error)
                messages[self.path] = str(error)
        return messages

    def _set_aside(self, error: Exception) -> None:
        target = self.path.with_name(f"{self.path.name}.damaged-{uuid4().hex[:12]}")
        self.path.rename(target)
        _log.warning("%s. It is rebuilt from the lake; the old file is now %s", first_line(error), target)

    def _load(self, lake: Lake, unreadable: Mapping[str, Sequence[str]]) -> Loading:
        """Load the lake without the manifests in ``unreadable``, which has messages about their files by SHA-256."""
        state = self._state()
        pending, damaged = pending_of(lake, state.loaded)
        damaged += [message for messages in unreadable.values() for message in messages]
        pending = [partition for partition in pending if partition.sha not in unreadable]
        loading = Loading(lake, state.loaded, damaged)
        outdated, migrate = _old_views(state), _old_tables(state)
        transfers_path, ledger = self._stored_transfers(state), self._ledger()
        tables = derived.table_versions(self.path)
        versions = {
            "transfers": transfers_path,
            "spending": spending.version(ledger) if ledger else None,
            **tables,
            "as_of_warning": str(self._as_of_warning),
        }
        if (
            pending
            or outdated
            or migrate
            or any(state.installed.get(name) != version for name, version in versions.items())
        ):
            _release_memory()
            if migrate:
                self._refuse_unknown_columns()
            with self._next_version(migrate) as connection, self._links() as links:
                if outdated:
                    schema.install(connection)
                connection.execute(schema.as_of_warning(self._as_of_warning))
                for part in schema.LINKED_FILES.parts():
                    connection.execute(part.views(Path(transfers_path) if transfers_path else None))
                if ledger:
                    spending.refresh(connection, ledger)
                for name, version in tables.items():
                    if version != state.installed.get(name) or migrate:
                        derived.refresh_table(connection, self.path, schema.OWN_TABLES[name])
                _note(connection, versions)
                loading.load_all(connection, links, pending)
        return loading

    def _stored_transfers(self, state: _State) -> str | None:
        """Link the present transfers of the store. Return the folder; that of the last load if there is no store."""
        root = transfers_folder(self.path)
        link_name = next((part.link(root, self._read_transfers) for part in schema.LINKED_FILES.parts()), None)
        last_path = state.installed.get("transfers")
        return str(root / link_name) if link_name else last_path if last_path and Path(last_path).exists() else None

    def _state(self) -> _State:
        """Return the loaded manifests and installed definitions.

        Raises ``WarehouseError`` if the file is no warehouse.
        """
        if not self.path.exists():
            return _State({}, {})
        with self.connect() as connection:
            try:
                loaded = connection.execute(_LOADED).fetchall()
                installed = dict(connection.execute(_INSTALLED).fetchall())
            except duckdb.CatalogException as error:
                raise WarehouseError(f"{self.path} is a DuckDB file, but not a warehouse: move it away") from error
            except duckdb.Error as error:
                raise DamagedWarehouse(f"{self.path} is damaged ({first_line(error)}); {REMEDY}") from error
        manifests = {(family, chain, at): sha for family, chain, at, sha in loaded}
        return _State(manifests, installed)

    @contextmanager
    def _locked(self) -> Iterator[None]:
        with locked(self.path.with_name(f"{self.path.name}.lock")):
            yield

    @contextmanager
    def _links(self) -> Iterator[Path]:
        """Yield an empty folder for links to the files of a load, and remove it afterwards."""
        folder = self.path.with_name(f"{self.path.name}.loading")
        shutil.rmtree(folder, ignore_errors=True)
        folder.mkdir()
        try:
            yield folder
        finally:
            shutil.rmtree(folder, ignore_errors=True)

    @contextmanager
    def _next_version(self, migrate: bool) -> Iterator[duckdb.DuckDBPyConnection]:
        """Yield a connection to a copy of the file. If the ``with`` block succeeds, replace the file by the copy.

        If ``migrate`` is true, the copy gets the tables of this version. Each batch of a load is its own transaction,
        because one large transaction would need memory for all rows.
        """
        copy = self._empty_place("next")
        if migrate:
            self._pack(self.path, copy)
        elif self.path.exists():
            _copy(self.path, copy)
        with self._writing(copy) as connection:
            yield connection
            connection.execute("CHECKPOINT")
            mixed = _is_mixed(connection)
        if mixed:
            packed = self._empty_place("packed")
            self._pack(copy, packed)
            copy.unlink()
            copy = packed
        os.replace(copy, self.path)  # noqa: PTH105 - tests stop a load here
        for part in schema.LINKED_FILES.parts():
            part.remove_old(transfers_folder(self.path))

    @contextmanager
    def _writing(self, path: Path) -> Iterator[duckdb.DuckDBPyConnection]:
        config: dict[str, str | bool | int | float | list[str]] = {
            "storage_compatibility_version": _FORMAT,
            "memory_limit": self.memory_limit,
            "threads": 1,  # each thread would hold a row group in memory
        }
        with prepared(duckdb.connect(str(path), config=config)) as connection:
            yield connection

    def _pack(self, old_path: Path, packed: Path) -> None:
        """Write the rows of the warehouse ``old_path`` to the new file ``packed``, sorted, in this version's tables."""
        with self._writing(packed) as connection:
            connection.execute(f"ATTACH {schema.quoted(str(old_path))} AS old (READ_ONLY)")
            schema.install(connection)
            existing = dict(connection.execute(_COLUMNS, ["old"]).fetchall())
            for table in (*TABLES.values(), *schema.OWN_TABLES.values()):
                if table.name not in existing:
                    continue
                column_names = [schema.column_name(name) for name in table.schema.names]
                columns = ", ".join(name for name in column_names if name in existing[table.name])
                time = "timestamp" if "timestamp" in column_names else "day"
                of_table = {"table": table.name, "columns": columns, "time": time, "order": schema.order(table, time)}
                for (month,) in connection.execute(_MONTHS.format(**of_table)).fetchall():
                    connection.execute(_PACK.format(**of_table), {"month": month})
            connection.execute("INSERT INTO _internal.loaded FROM old._internal.loaded")
            connection.execute("DETACH old")
            connection.execute("CHECKPOINT")

    def _refuse_unknown_columns(self) -> None:
        """Raise ``WarehouseError`` if the file has columns of a later version. This version would drop them."""
        with self.connect() as connection:
            existing = dict(connection.execute(_COLUMNS, ["warehouse"]).fetchall())
        for table in (*TABLES.values(), *schema.OWN_TABLES.values()):
            unknown = set(existing.get(table.name, ())) - set(map(schema.column_name, table.schema.names))
            if unknown:
                raise WarehouseError(
                    f"{self.path} has the column {table.name}.{min(unknown)}, which this version does not know: "
                    "install the latest version, or move the file away; the next load makes it again from the lake"
                )

    def _empty_place(self, suffix: str) -> Path:
        """Return the path of the warehouse's file with this suffix. Delete what a killed load left there."""
        path = self.path.with_name(f"{self.path.name}.{suffix}")
        for leftover in (path, path.with_name(f"{path.name}.wal")):
            leftover.unlink(missing_ok=True)
        shutil.rmtree(path.with_name(f"{path.name}.tmp"), ignore_errors=True)
        return path


def _note(connection: duckdb.DuckDBPyConnection, versions: Mapping[str, str | None]) -> None:
    """Record the versions of what a load found outside of the lake."""
    connection.execute("DELETE FROM _internal.installed WHERE list_contains(?, part)", [list(versions)])
    for part, version in versions.items():
        if version is not None:
            connection.execute("INSERT INTO _internal.installed VALUES (?, ?)", [part, version])


def _old_views(state: _State) -> bool:
    """Return whether the warehouse's file lacks this version's views and macros: it is new or of another version."""
    own_versions = {"views": schema.views_sha(), "format": str(schema.FORMAT)}
    return any(state.installed.get(part) != sha for part, sha in own_versions.items())


def _old_tables(state: _State) -> bool:
    """Return whether another version of Holderlake made the tables in the warehouse's file."""
    return bool(state.installed) and state.installed.get("tables") != schema.tables_sha()


def _is_full(error: Exception) -> bool:
    return "No space left" in str(error) or getattr(error, "errno", None) == errno.ENOSPC


def _unwritable(path: Path, error: Exception) -> str:
    """Return the text of an error: the warehouse can't be loaded, the reason, and the remedy."""
    if _is_full(error):
        return f"{path} can't be loaded: the disk is full; free some space and load again: the lake has every row"
    return f"{path} can't be loaded: {first_line(error)}; run 'holderlake doctor' to check the files"


def _is_mixed(connection: duckdb.DuckDBPyConnection) -> bool:
    """Return whether the rows out of order in any table exceed both limits (``_MIXED_PART`` and ``_MIXED_ROWS``)."""
    for table, mixed in connection.execute("SELECT table_name, rows FROM _internal.mixed").fetchall():
        ((rows,),) = connection.execute(f"SELECT count(*) FROM {table}").fetchall()
        if mixed > _MIXED_ROWS and mixed > _MIXED_PART * rows:
            return True
    return False


def _copy(source: Path, target: Path) -> None:
    """Copy a file by ``copy_file_range``, which shares the bytes if the file system supports it."""
    with source.open("rb") as source_file, target.open("wb") as target_file:
        bytes_left = source.stat().st_size
        while bytes_left:
            bytes_left -= os.copy_file_range(source_file.fileno(), target_file.fileno(), bytes_left)


def _release_memory() -> None:
    """Release memory that Arrow keeps, for example for the answers of a backfill in the same process."""
    for pool in (pa.default_memory_pool(), pa.system_memory_pool()):
        pool.release_unused()
