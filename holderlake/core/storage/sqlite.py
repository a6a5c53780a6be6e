"""SQLite files: connections, formats, and errors with a remedy. ``state.py`` runs transactions."""

from __future__ import annotations

import sqlite3
import time
from contextlib import closing
from pathlib import Path
from typing import Final, Literal

from holderlake.core.storage.atomic_files import full_disk, is_full

BUSY_SECONDS: Final = 30.0
_MALFORMED: Final = ("malformed", "Could not decode to UTF-8")
"""Words by which SQLite reports an invalid schema or text, under a general error code."""
_FILE_MODE: Final = 0o600
"""Permissions of a new file, and of its ``-wal`` and ``-shm``: other users cannot read what was bought, or hashes."""


class DatabaseError(Exception):
    """A SQLite file or a PostgreSQL database cannot be used. The message gives the reason and a remedy."""


class DamagedDatabase(DatabaseError):
    """The file is damaged, or not an SQLite database."""


class DatabaseBusy(DatabaseError):
    """The database is locked by another process, or cannot be reached. A retry may succeed."""


def connect(path: Path, synchronous: Literal["FULL", "NORMAL"], busy_seconds: float) -> sqlite3.Connection:
    """Open a SQLite file for several threads; its transactions begin with explicit statements only.

    On a full disk, where SQLite can't make the files that it needs to read, it is a copy in memory that refuses writes.
    """
    connection = sqlite3.connect(path, timeout=busy_seconds, isolation_level=None, check_same_thread=False)
    return _readable(connection, path, f"PRAGMA synchronous = {synchronous}")


def connect_to_read(path: Path) -> sqlite3.Connection:
    """Open a SQLite file without changing it or the files next to it; on a full disk it may be a copy in memory."""
    uri = f"{path.absolute().as_uri()}?mode=ro"
    return _readable(sqlite3.connect(uri, uri=True, timeout=BUSY_SECONDS), path, "PRAGMA query_only = ON")


def _readable(connection: sqlite3.Connection, path: Path, setting: str) -> sqlite3.Connection:
    try:
        connection.execute(setting)
        connection.execute("PRAGMA schema_version")
    except sqlite3.OperationalError:
        connection.close()
        if not is_full(path.parent):
            raise
        return _copy_in_memory(path)
    return connection


def _copy_in_memory(path: Path) -> sqlite3.Connection:
    copy = sqlite3.connect(":memory:", isolation_level=None, check_same_thread=False)
    with closing(sqlite3.connect(path)) as source:
        source.execute("PRAGMA locking_mode = EXCLUSIVE")  # needs no other file
        source.execute("SELECT count(*) FROM sqlite_master")  # raises if it is locked, where 'backup' would wait
        source.backup(copy)
    copy.execute("PRAGMA query_only = ON")
    return copy


def make_file(path: Path) -> None:
    """Create an empty file that only its owner can read, with its folder, unless it exists. Raises ``OSError``."""
    path.parent.mkdir(parents=True, exist_ok=True)
    if not path.exists():
        path.touch(_FILE_MODE)


def format_of(db: sqlite3.Connection) -> int:
    """Return the format of a SQLite file (``user_version``); 0 if the file names none."""
    return int(db.execute("PRAGMA user_version").fetchone()[0])


def explained(path: Path, error: BaseException | None, remedy: str) -> DatabaseError:
    """Return a ``DatabaseError`` with the file, the reason and a remedy: for a damaged file the text ``remedy``."""
    code = getattr(error, "sqlite_errorcode", None)
    primary = code & 0xFF if code is not None else None
    is_malformed = isinstance(error, UnicodeDecodeError) or any(words in str(error) for words in _MALFORMED)
    if primary in (sqlite3.SQLITE_CORRUPT, sqlite3.SQLITE_NOTADB) or is_malformed:
        return DamagedDatabase(f"{path} is damaged ({error}); {remedy}")
    if primary in (sqlite3.SQLITE_BUSY, sqlite3.SQLITE_LOCKED):
        return locked(path)
    if primary == sqlite3.SQLITE_FULL or "is full" in str(error) or is_full(path.parent):
        return DatabaseError(full_disk(path))
    if isinstance(error, OSError) and error.strerror:
        return DatabaseError(f"{path} cannot be opened: {error.strerror}: {error.filename}")
    return DatabaseError(f"{path} cannot be used: {error}; check that its folder exists and can be written to")


def locked(path: Path) -> DatabaseBusy:
    """Return the error about a file that another process writes to."""
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
