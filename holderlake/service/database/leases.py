"""Leases: each process locks its own lease while it runs, so that other processes can detect that it has ended.

They then release the reservations of the ended process. With SQLite a lease is a locked file next to the database,
which the operating system unlocks when the process ends. With PostgreSQL it is an advisory lock in a session of the
process, which the server unlocks.
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
    """The lease of this process. Its random ``name`` is stored with the process's reservations."""

    name: str

    def acquire(self) -> None:
        """Lock the lease if it is not locked. Call this in each transaction, before it writes rows with ``name``."""

    def expired(self, connection: sa.Connection, names: Collection[str]) -> list[str]:
        """Return those of ``names`` whose processes have ended; the result is valid until the transaction ends."""

    def close(self) -> None:
        """Release the lease."""


def open_lease(database: Database) -> Lease:
    """Return a new, unlocked lease: a file for SQLite, an advisory lock for PostgreSQL."""
    return PostgresLease(database) if database.path is None else FileLease(database.path)


class FileLease:
    """A lease as a locked file ``<base>.<name>.running`` next to the SQLite database ``base``.

    The lease file is an empty SQLite database too, because SQLite can lock its files on every platform.
    """

    def __init__(self, base: Path) -> None:
        self.name = secrets.token_hex(8)
        self._base = base
        self._path = _lease_file(base, self.name)
        self._lock: sqlite3.Connection | None = None

    def acquire(self) -> None:
        """Create and lock the lease file, unless this process has done so already.

        The database runs one write transaction at a time, so no other process can see the file before it is locked.
        """
        if self._lock is None:
            self._lock = sqlite3.connect(self._path, isolation_level=None, check_same_thread=False)
            self._lock.execute("BEGIN EXCLUSIVE")

    def expired(self, connection: sa.Connection, names: Collection[str]) -> list[str]:
        """Return those of ``names`` whose processes have ended, and delete all lease files of ended processes."""
        other_names = {*names, *_lease_names(self._base)} - {self.name}
        ended = [name for name in other_names if not _is_held(self._base, name)]
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
    """A lease as an advisory lock in a PostgreSQL session. If the session is lost, a new one locks the same name."""

    def __init__(self, database: Database) -> None:
        self.name = secrets.token_hex(8)
        self._database = database
        self._session: sa.Connection | None = None
        self._holds = False
        self._next_check = 0.0
        self._turn = threading.Lock()

    def acquire(self) -> None:
        """Lock the lease if it is not locked. Test the session at most once a second. Raises the driver's errors."""
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
        """Return those of ``names`` whose locks are free, because their processes have ended.

        A lock lets one transaction at a time do this, so that no two processes release the same reservations.
        """
        connection.execute(_ONE_BY_ONE)
        other_names = sorted(set(names) - {self.name})
        return [name for name in other_names if connection.execute(_PROBE, {"key": _number(name)}).scalar_one()]

    def close(self) -> None:
        """Release the lease."""
        with self._turn:
            if self._session is not None:
                self._session.invalidate()
                self._session.close()
                self._session = None


def _number(name: str) -> int:
    """Return the number (signed 64-bit integer) of the advisory lock for the name of a lease."""
    return int(name, 16) - (1 << 63)
