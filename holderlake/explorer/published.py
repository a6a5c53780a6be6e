"""The version of the warehouse that is published now; connections to it are kept for the next question.

A load publishes by renaming a new file into place; the next question then opens that one.
"""

from __future__ import annotations

import threading
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any, Final

import duckdb
import pyarrow as pa

from holderlake.warehouse.warehouse import Warehouse, WarehouseError

_MOST_IDLE: Final = 4


class Question:
    """One version of the warehouse, to be asked things that belong together. ``version`` tells versions apart."""

    def __init__(self, connection: duckdb.DuckDBPyConnection, version: str) -> None:
        self._connection = connection
        self.version = version

    def ask(self, sql: str, parameters: dict[str, Any]) -> pa.Table:
        """The answer to a query. Raises ``WarehouseError`` with what DuckDB says."""
        try:
            return self._connection.sql(sql, params=parameters).to_arrow_table()
        except duckdb.Error as error:
            raise WarehouseError(f"the warehouse can't answer: {error}") from error


class Published:
    """Hands the published version out to threads that ask at the same time, each on a connection of its own.

    Opening takes some 20 ms, so connections are kept; those to a version that was replaced are closed.
    """

    def __init__(self, warehouse: Warehouse) -> None:
        self._warehouse = warehouse
        self._lock = threading.Lock()
        self._idle: list[duckdb.DuckDBPyConnection] = []
        self._version = ""

    def version(self) -> str:
        """Which file is published now. Raises ``WarehouseError`` without one."""
        try:
            found = self._warehouse.path.stat()
        except FileNotFoundError:
            self._warehouse.connect().close()  # says what to do; or one was published this moment
            found = self._warehouse.path.stat()
        return f"{found.st_ino:x}-{found.st_mtime_ns:x}"

    @contextmanager
    def question(self) -> Iterator[Question]:
        """The version that is published now; it stays the same within. Raises ``WarehouseError`` without one."""
        version = self.version()
        connection = self._idle_one(version) or self._warehouse.connect()
        try:
            yield Question(connection, version)
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
        """Closes what is kept."""
        with self._lock:
            self._close_idle()

    def _close_idle(self) -> None:
        while self._idle:
            self._idle.pop().close()
