"""The store's connection to DuckDB."""

from __future__ import annotations

import threading
from pathlib import Path

import duckdb


class DuckDB:
    """An in-memory database of DuckDB for a store's queries, opened by the first cursor.

    Opening takes 20 ms, and many uses of a store send no SQL. ``memory`` is the memory budget in bytes of the store's
    imports. Threads can share it.
    """

    def __init__(self, root: Path, memory: int) -> None:
        self._root = root
        self._memory = memory
        self._lock = threading.Lock()
        self._connection: duckdb.DuckDBPyConnection | None = None
        self._is_closed = False

    def cursor(self) -> duckdb.DuckDBPyConnection:
        """Return a new cursor, which the caller must close. Raises ``duckdb.ConnectionException`` after ``close``."""
        with self._lock:
            if self._is_closed:
                raise duckdb.ConnectionException("the store is closed; open it again")
            if self._connection is None:
                self._connection = _connect(self._root, self._memory)
            return self._connection.cursor()

    def close(self) -> None:
        with self._lock:
            self._is_closed = True
            if self._connection is not None:
                self._connection.close()


def _connect(root: Path, memory: int) -> duckdb.DuckDBPyConnection:
    connection = duckdb.connect()
    connection.execute("SET enable_progress_bar = false")
    connection.execute("SET parquet_metadata_cache = true")  # a file of transfers never changes under its name
    connection.execute("SET threads = 1")  # many small queries in parallel need no threads each
    connection.execute(f"SET memory_limit = '{memory // 4}B'")  # the rest is for rows and arrays
    connection.execute("SET temp_directory = $folder", {"folder": str(root / ".spill")})
    return connection
