"""Leases: locks that processes hold while they live, so that others can release the reservations of ended ones.

With SQLite a process locks a file next to the database, and the operating system unlocks it when the process ends. With
PostgreSQL it holds an advisory lock in its own session, and the server unlocks it.
"""

from __future__ import annotations

import logging
import secrets
import sqlite3
import threading
import time
from collections.abc import Collection
from contextlib import closing
from pathlib import Path
from typing import Final, Protocol

import sqlalchemy as sa

from holderlake.service.database.connections import Database

_log = logging.getLogger(__name__)


class Lease(Protocol):
    """This process's lease; other processes look it up by ``name``."""

    name: str

    def acquire(self) -> None:
        """Hold the lease from now on. To be called within a transaction, before rows with the name are written."""

    def expired(self, connection: sa.Connection, names: Collection[str]) -> list[str]:
        """Return the names whose processes have ended; valid until the transaction ends."""

    def close(self) -> None:
        """Release the lease."""


def open_lease(database: Database) -> Lease:
    """Return a lease of the database's kind."""
    return PostgresLease(database) if database.path is None else FileLease(database.path)


class FileLease:
    """A locked file next to ``base``, itself a SQLite database, since SQLite's locks work on every platform."""

    def __init__(self, base: Path) -> None:
        self.name = secrets.token_hex(8)
        self._base = base
        self._path = _lease_file(base, self.name)
        self._lock: sqlite3.Connection | None = None

    def acquire(self) -> None:
        """Create and lock the file. Transactions are serial, so no other process sees it before it is locked."""
        if self._lock is None:
            self._lock = sqlite3.connect(self._path, isolation_level=None, check_same_thread=False)
            self._lock.execute("BEGIN EXCLUSIVE")

    def expired(self, connection: sa.Connection, names: Collection[str]) -> list[str]:
        """Also delete the files of ended processes."""
        others = {*names, *_lease_names(self._base)} - {self.name}
        ended = [name for name in others if not _is_held(self._base, name)]
        for name in ended:
            _lease_file(self._base, name).unlink(missing_ok=True)
        return [name for name in ended if name in names]

    def close(self) -> None:
        """Release the lease."""
        if self._lock is not None:
            self._lock.close()
            self._lock = None
            self._path.unlink(missing_ok=True)


def _is_held(base: Path, name: str) -> bool:
    path = _lease_file(base, name)
    if not path.exists():
        return False
    with closing(sqlite3.connect(path, timeout=0, isolation_level=None)) as probe:
        try:
            probe.execute("BEGIN EXCLUSIVE")
        except sqlite3.OperationalError:
            return True
    return False


def _lease_names(base: Path) -> set[str]:
    return {path.name.split(".")[-2] for path in base.parent.glob(f"{base.name}.*.running")}


def _lease_file(base: Path, name: str) -> Path:
    return base.with_name(f"{base.name}.{name}.running")


_CHECK_SECONDS: Final = 1.0
_KEY: Final = sa.bindparam("key", type_=sa.BigInteger)
_HOLD: Final = sa.select(sa.func.pg_try_advisory_lock(_KEY))
_PROBE: Final = sa.select(sa.func.pg_try_advisory_xact_lock(_KEY))
_ONE_BY_ONE: Final = sa.select(sa.func.pg_advisory_xact_lock(sa.cast(0x686F6C6465726C62, sa.BigInteger)))
_TEST: Final = sa.text("SELECT 1")


class PostgresLease:
    """An advisory lock of a PostgreSQL session. A lost session is reopened under the same name."""

    def __init__(self, database: Database) -> None:
        self.name = secrets.token_hex(8)
        self._database = database
        self._session: sa.Connection | None = None
        self._holds = False
        self._next_check = 0.0
        self._turn = threading.Lock()

    def acquire(self) -> None:
        """Check the session once a second. Raises the driver's errors."""
        with self._turn:
            if time.monotonic() < self._next_check:
                return
            self._close_lost_session()
            if self._session is None:
                self._session = self._database.session()
            if not self._holds:
                # Fails while the server believes the lost session alive, or another process probes the name. Then
                # the name counts as held, and the next try is a second later.
                self._holds = bool(self._session.execute(_HOLD, {"key": _number(self.name)}).scalar_one())
            self._next_check = time.monotonic() + _CHECK_SECONDS

    def _close_lost_session(self) -> None:
        if self._session is None:
            return
        try:
            self._session.execute(_TEST)
        except sa.exc.DBAPIError:
            _log.warning("the session of this process's lease was lost; its reservations may have been released")
            self._session.invalidate()
            self._session.close()
            self._session, self._holds = None, False

    def expired(self, connection: sa.Connection, names: Collection[str]) -> list[str]:
        """Probe in one transaction at a time, so that the next one sees its deletions."""
        connection.execute(_ONE_BY_ONE)
        others = sorted(set(names) - {self.name})
        return [name for name in others if connection.execute(_PROBE, {"key": _number(name)}).scalar_one()]

    def close(self) -> None:
        """Release the lease."""
        with self._turn:
            if self._session is not None:
                self._session.invalidate()
                self._session.close()
                self._session = None


def _number(name: str) -> int:
    """Return the name as a key of an advisory lock, a signed 64-bit integer."""
    return int(name, 16) - (1 << 63)
