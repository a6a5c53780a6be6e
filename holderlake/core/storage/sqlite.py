"""A SQLite file that many threads and processes of a host write to, one short transaction at a time."""

from __future__ import annotations

import sqlite3
import threading
import time
import weakref
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from functools import cached_property
from pathlib import Path
from typing import Any, Final, Literal, TypeVar

from holderlake.core.storage.formats import format_fault

T = TypeVar("T")

BUSY_SECONDS: Final = 30.0
_MALFORMED: Final = "malformed"
"""Word by which SQLite reports an invalid schema, under a general error code."""
_FILE_MODE: Final = 0o600
"""Permissions of a new file, and of its ``-wal`` and ``-shm``: other users cannot read what was bought, or hashes."""


class DatabaseError(Exception):
    """A SQLite file or a PostgreSQL database cannot be used. The message gives the reason and a remedy."""


class DamagedDatabase(DatabaseError):
    """The file is damaged, or not an SQLite database."""


class DatabaseBusy(DatabaseError):
    """The database is locked by another process, or cannot be reached. A retry may succeed."""


class Database:
    """The SQLite database at ``path``. Opening it runs the statements of ``schema``, which must be idempotent.

    With ``synchronous`` FULL each commit survives a power cut; with NORMAL the last commits may be lost. ``remedy`` is
    the advice in the error about a damaged file. ``version`` is the file's format; a file of another format is refused
    and stays unchanged. ``busy_seconds`` limits the wait for other writers. Every method raises ``DatabaseError``.
    """

    kind: Final = "sqlite"

    def __init__(
        self,
        path: Path,
        schema: Sequence[str],
        synchronous: Literal["FULL", "NORMAL"],
        remedy: str = "move it away",
        version: int | None = None,
        busy_seconds: float = BUSY_SECONDS,
    ) -> None:
        self._path, self._remedy, self._busy_seconds = path, remedy, busy_seconds
        # SQLite allows one writer at a time, and the wait for a lock is shorter than SQLite's own polling.
        self._writing, self._reading = threading.Lock(), threading.Lock()
        try:
            path.parent.mkdir(parents=True, exist_ok=True)
            if not path.exists():
                path.touch(_FILE_MODE)
        except OSError as error:
            raise explained(path, error, remedy) from error
        with self._explained():
            self._writer = self._connect()
            number = format_of(self._writer)
            if version and number and (fault := format_fault(path, number, version)):
                self._writer.close()
                raise DatabaseError(fault)
            use_write_ahead_log(self._writer, busy_seconds)
            self._writer.execute(f"PRAGMA synchronous = {synchronous}")
        with self.transaction() as db:
            for statement in schema:
                db.execute(statement)
            if version and not number:
                db.execute(f"PRAGMA user_version = {version}")

    def __str__(self) -> str:
        return str(self._path)

    def _connect(self) -> sqlite3.Connection:
        connection = sqlite3.connect(
            self._path, timeout=self._busy_seconds, isolation_level=None, check_same_thread=False
        )
        weakref.finalize(self, connection.close)  # also if the caller does not close it
        return connection

    @cached_property
    def _reader(self) -> sqlite3.Connection:
        """A second connection, so that readers do not wait for this process's writer."""
        return self._connect()

    @contextmanager
    def _explained(self) -> Iterator[None]:
        """Turn errors of SQLite in the ``with`` block into ``DatabaseError``."""
        try:
            yield
        except sqlite3.DatabaseError as error:
            raise explained(self._path, error, self._remedy) from error

    @contextmanager
    def transaction(self, *, write: bool = True) -> Iterator[sqlite3.Connection]:
        """Run the ``with`` block in a transaction. With ``write``, no other transaction writes meanwhile."""
        turn = self._writing if write else self._reading
        if not turn.acquire(timeout=self._busy_seconds):
            raise _locked(self._path)
        try:
            with self._explained():
                db = self._writer if write else self._reader
                db.execute("BEGIN IMMEDIATE" if write else "BEGIN")
                try:
                    yield db
                    db.execute("COMMIT")
                except BaseException:
                    if db.in_transaction:
                        db.execute("ROLLBACK")
                    raise
        finally:
            turn.release()

    def run(self, work: Callable[[sqlite3.Connection], T], *, write: bool = True) -> T:
        """Call ``work`` in a transaction (see ``transaction``) and return its result."""
        with self.transaction(write=write) as db:
            return work(db)

    def rows(self, query: str, values: Sequence[Any] = ()) -> list[tuple[Any, ...]]:
        """Run a query with its parameters ``values``, and return all rows."""
        with self._reading, self._explained():
            return self._reader.execute(query, values).fetchall()

    def close(self) -> None:
        """Close the database; it cannot be used afterwards."""
        with self._writing, self._reading:
            self._writer.close()
            if "_reader" in self.__dict__:
                self._reader.close()


def format_of(db: sqlite3.Connection) -> int:
    """Return the format of a SQLite file (``user_version``); 0 if the file names none."""
    return int(db.execute("PRAGMA user_version").fetchone()[0])


def explained(path: Path, error: sqlite3.DatabaseError | OSError, remedy: str) -> DatabaseError:
    """Return a ``DatabaseError`` with the file, the reason and a remedy: for a damaged file the text ``remedy``."""
    code = getattr(error, "sqlite_errorcode", None)
    primary = code & 0xFF if code is not None else None
    if primary in (sqlite3.SQLITE_CORRUPT, sqlite3.SQLITE_NOTADB) or _MALFORMED in str(error):
        return DamagedDatabase(f"{path} is damaged ({error}); {remedy}")
    if primary in (sqlite3.SQLITE_BUSY, sqlite3.SQLITE_LOCKED):
        return _locked(path)
    if primary == sqlite3.SQLITE_FULL or "is full" in str(error):
        return DatabaseError(f"{path} cannot be written: the disk is full; free some space")
    if isinstance(error, OSError) and error.strerror:
        return DatabaseError(f"{path} cannot be opened: {error.strerror}: {error.filename}")
    return DatabaseError(f"{path} cannot be used: {error}; check that its folder exists and can be written to")


def _locked(path: Path) -> DatabaseBusy:
    return DatabaseBusy(f"{path} is locked by another process: wait until it ends, or try again")


def use_write_ahead_log(db: sqlite3.Connection, busy_seconds: float) -> None:
    """Set the journal mode of the connection's file to WAL, so that readers and the writer never wait for each other.

    It tries again for up to ``busy_seconds``, because SQLite does not wait while another process creates the file. The
    file stores the mode. Raises ``sqlite3.DatabaseError``.
    """
    give_up_at = time.monotonic() + busy_seconds
    while True:
        try:
            db.execute("PRAGMA journal_mode = WAL")
            return
        except sqlite3.OperationalError as error:
            if (error.sqlite_errorcode & 0xFF) != sqlite3.SQLITE_BUSY or time.monotonic() > give_up_at:
                raise
            time.sleep(0.01)
