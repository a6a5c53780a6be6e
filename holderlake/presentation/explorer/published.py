"""A pool of connections to the current version of the warehouse file.

Loading the warehouse replaces its file by a rename. The next request then opens the new file.
"""

from __future__ import annotations

import threading
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any, Final

import duckdb
import pyarrow as pa

from holderlake.core.warehouse.connections import explained
from holderlake.core.warehouse.warehouse import Warehouse

_MOST_IDLE: Final = 4


class Reader:
    """A connection to one version of the warehouse file, so that several queries see the same data.

    ``version`` identifies the version of the file (``Published.version``).
    """

    def __init__(self, connection: duckdb.DuckDBPyConnection, version: str) -> None:
        self._connection = connection
        self.version = version

    def query(self, sql: str, parameters: dict[str, Any]) -> pa.Table:
        """Return the result of an SQL query with named parameters. Raises ``WarehouseError`` with DuckDB's message."""
        try:
            return self._connection.sql(sql, params=parameters).to_arrow_table()
        except duckdb.Error as error:
            raise explained(error) from error


class Published:
    """Lends connections to the current version of the warehouse file. Each thread gets its own connection.

    Opening a connection takes 20 ms, so idle ones are reused. Idle connections to an older version are closed.
    """

    def __init__(self, warehouse: Warehouse) -> None:
        self._warehouse = warehouse
        self._lock = threading.Lock()
        self._idle: list[duckdb.DuckDBPyConnection] = []
        self._version = ""

    def version(self) -> str:
        """Return an identifier of the current file, made of its inode and time.

        Raises ``WarehouseError`` without a file.
        """
        try:
            status = self._warehouse.path.stat()
        except FileNotFoundError:
            self._warehouse.connect().close()  # raises the error with advice, unless a file was published just now
            status = self._warehouse.path.stat()
        return f"{status.st_ino:x}-{status.st_mtime_ns:x}"

    @contextmanager
    def reader(self) -> Iterator[Reader]:
        """Lend a connection to the current file for a ``with`` block. Raises ``WarehouseError`` without a file."""
        version = self.version()
        connection = self._idle_one(version) or self._warehouse.connect()
        try:
            yield Reader(connection, version)
        finally:
            with self._lock:
                is_kept = version == self._version and len(self._idle) < _MOST_IDLE
                if is_kept:
                    self._idle.append(connection)
            if not is_kept:
                connection.close()

    def _idle_one(self, version: str) -> duckdb.DuckDBPyConnection | None:
        with self._lock:
            if version != self._version:
                self._close_idle()
                self._version = version
            return self._idle.pop() if self._idle else None

    def close(self) -> None:
        """Close the idle connections."""
        with self._lock:
            self._close_idle()

    def _close_idle(self) -> None:
        while self._idle:
            self._idle.pop().close()
