"""The version of the warehouse that is published now, kept open between questions.

A load publishes by renaming a new file into place; the next question then opens that one.
"""

from __future__ import annotations

import threading
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import duckdb
import pyarrow as pa

from resources.warehouse import Warehouse, WarehouseError


class Question:
    """One version of the warehouse, to be asked things that belong together. ``version`` tells versions apart."""

    def __init__(self, cursor: duckdb.DuckDBPyConnection, version: str) -> None:
        self._cursor = cursor
        self.version = version

    def ask(self, sql: str, parameters: dict[str, Any]) -> pa.Table:
        """The answer to a query. Raises ``WarehouseError`` with what DuckDB says."""
        try:
            return self._cursor.sql(sql, params=parameters).to_arrow_table()
        except duckdb.Error as error:
            raise WarehouseError(f"the warehouse can't answer: {error}") from error


class Published:
    """Hands out the published version of a warehouse to threads that ask at the same time."""

    def __init__(self, warehouse: Warehouse) -> None:
        self._warehouse = warehouse
        self._lock = threading.Lock()
        self._open: duckdb.DuckDBPyConnection | None = None
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
        with self._lock:
            version = self.version()
            if self._open is None or version != self._version:
                self.close()
                self._open, self._version = self._warehouse.connect(), version
            cursor = self._open.cursor()  # of its own; who still reads an older version keeps it
        with cursor:
            cursor.execute("USE warehouse")
            yield Question(cursor, version)

    def close(self) -> None:
        """Lets the version go that is open."""
        if self._open is not None:
            self._open.close()
            self._open = None
