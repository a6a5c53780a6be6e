"""Turn errors of the disk and of SQLite into ``UnusableStore``, whose message names the file, the problem and the
remedy."""

from __future__ import annotations

import errno
import sqlite3
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Final

import duckdb

from holderlake.core.storage.atomic_files import is_full
from holderlake.engine.errors import DamagedCatalog, UnusableStore

REBUILD: Final = "run 'holderlake store rebuild'"
VERIFY: Final = "run 'holderlake store verify' to list the damage"

_DAMAGED: Final = f"is damaged or not a SQLite database; {REBUILD} to make it again from its copy or the files"
_FULL: Final = "the disk is full, nothing was stored; free some space and repeat the command"
_REMEDIES: Final = {
    sqlite3.SQLITE_CORRUPT: _DAMAGED,
    sqlite3.SQLITE_NOTADB: _DAMAGED,
    sqlite3.SQLITE_BUSY: "is locked by another process; wait for it to end, or stop it",
    sqlite3.SQLITE_LOCKED: "is locked by another process; wait for it to end, or stop it",
    sqlite3.SQLITE_FULL: f"can't be written: {_FULL}",
    sqlite3.SQLITE_READONLY: "can't be written; give this user the right to write to the folder and its files",
    sqlite3.SQLITE_PERM: "can't be opened; give this user the right to read and write the folder and its files",
    sqlite3.SQLITE_CANTOPEN: "can't be opened; give this user the right to read and write the folder and its files",
    sqlite3.SQLITE_IOERR: f"can't be read or written: the disk failed or is full; check the disk, then {REBUILD}",
}
_LOST_TABLES: Final = ("no such table", "no such column", "malformed database schema", "file is not a database")

_OF_SYSTEM: Final = {
    errno.ENOSPC: _FULL,
    errno.EDQUOT: "the disk quota is used up, nothing was stored; free some space and repeat the command",
    errno.EFBIG: "the file size limit of this process is reached, nothing was stored; raise it (ulimit -f)",
    errno.EROFS: "the file system is read-only; mount it for writing, or name another folder",
    errno.EACCES: "access is denied; give this user the right to read and write the folder and its files",
    errno.EPERM: "the operation is not permitted; give this user the right to read and write the folder and its files",
    errno.ENOTDIR: "a part of this path is a file, not a folder; name another folder, or move the file away",
    errno.EEXIST: "this is a file, not a folder; name another folder, or move the file away",
    errno.EIO: f"the disk failed to read or write; check the disk, then {VERIFY}",
}


@contextmanager
def sqlite_failures(catalog: Path) -> Iterator[None]:
    """Context manager that turns SQLite errors into ``UnusableStore``, if the disk or another process causes them.

    Other SQLite errors are raised unchanged. ``catalog`` is the file that the message names.
    """
    try:
        yield
    except sqlite3.Error as error:
        code = sqlite3.SQLITE_FULL if is_full(catalog.parent) else getattr(error, "sqlite_errorcode", 0) & 0xFF
        remedy = _REMEDIES.get(code)
        if remedy is None and str(error).startswith(_LOST_TABLES):
            remedy = _DAMAGED
        if remedy is None:
            raise
        kind = DamagedCatalog if remedy is _DAMAGED else UnusableStore
        raise kind(f"{catalog} {remedy}") from error


@contextmanager
def disk_failures(root: Path) -> Iterator[None]:
    """Context manager that turns errors of the file system into ``UnusableStore``, if their remedy is known.

    Other errors are raised unchanged.
    """
    try:
        yield
    except OSError as error:
        remedy = _OF_SYSTEM.get(error.errno or 0)
        if remedy is None:
            raise
        raise UnusableStore(f"{error.filename or root}: {remedy}") from error
    except duckdb.IOException as error:
        if "No space left" not in str(error) and "failed to offload" not in str(error):
            raise
        raise UnusableStore(f"{root}: {_FULL}") from error
