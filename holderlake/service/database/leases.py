"""Tells whether a process that left reservations behind is still there, on any host and however it ended.

A process holds a lock for as long as it lives: beside a SQLite database on a small file of its own, which the operating
system lets go of; in PostgreSQL an advisory lock of a session of its own, which the server lets go of.
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

from holderlake.service.database.schema import Database

_log = logging.getLogger(__name__)


class Presence(Protocol):
    """This process's mark; ``name`` is what others look it up by."""

    name: str

    def hold(self) -> None:
        """Makes sure of the mark. To be called within a transaction, before anything is written under the name."""

    def gone(self, connection: sa.Connection, names: Collection[str]) -> list[str]:
        """Those of the names whose processes are gone, and stay so until the transaction ends."""

    def close(self) -> None:
        """Takes the mark away."""


def presence_at(database: Database) -> Presence:
    """The mark that fits the database."""
    return LockPresence(database) if database.path is None else FilePresence(database.path)


class FilePresence:
    """A locked file beside ``base``. SQLite takes the lock because it does so alike on every platform."""

    def __init__(self, base: Path) -> None:
        self.name = secrets.token_hex(8)
        self._base = base
        self._path = _mark(base, self.name)
        self._lock: sqlite3.Connection | None = None

    def hold(self) -> None:
        """Marks are made within a transaction, and looked for within one, so that none is judged half-made."""
        if self._lock is None:
            self._lock = sqlite3.connect(self._path, isolation_level=None, check_same_thread=False)
            self._lock.execute("BEGIN EXCLUSIVE")

    def gone(self, connection: sa.Connection, names: Collection[str]) -> list[str]:
        """Removes the marks of those that are gone, too."""
        ended = [name for name in {*names, *_marks(self._base)} if name != self.name and not _is_held(self._base, name)]
        for name in ended:
            _mark(self._base, name).unlink(missing_ok=True)
        return [name for name in ended if name in names]

    def close(self) -> None:
        """Takes the mark away."""
        if self._lock is not None:
            self._lock.close()
            self._lock = None
            self._path.unlink(missing_ok=True)


def _is_held(base: Path, name: str) -> bool:
    path = _mark(base, name)
    if not path.exists():
        return False
    with closing(sqlite3.connect(path, timeout=0, isolation_level=None)) as probe:
        try:
            probe.execute("BEGIN EXCLUSIVE")
        except sqlite3.OperationalError:
            return True
    return False


def _marks(base: Path) -> set[str]:
    return {path.name.split(".")[-2] for path in base.parent.glob(f"{base.name}.*.running")}


def _mark(base: Path, name: str) -> Path:
    return base.with_name(f"{base.name}.{name}.running")


_SURE_SECONDS: Final = 1.0
_KEY: Final = sa.bindparam("key", type_=sa.BigInteger)
_HOLD: Final = sa.select(sa.func.pg_try_advisory_lock(_KEY))
_PROBE: Final = sa.select(sa.func.pg_try_advisory_xact_lock(_KEY))
_ONE_BY_ONE: Final = sa.select(sa.func.pg_advisory_xact_lock(sa.cast(0x686F6C6465726C62, sa.BigInteger)))
_STILL_THERE: Final = sa.text("SELECT 1")


class LockPresence:
    """A lock of a PostgreSQL session. A session that was lost is opened anew under the same name."""

    def __init__(self, database: Database) -> None:
        self.name = secrets.token_hex(8)
        self._database = database
        self._session: sa.Connection | None = None
        self._holds = False
        self._sure_until = 0.0
        self._turn = threading.Lock()

    def hold(self) -> None:
        """Looks once a second whether the session is still there. Raises the driver's errors."""
        with self._turn:
            if time.monotonic() < self._sure_until:
                return
            self._let_go_of_the_lost()
            if self._session is None:
                self._session = self._database.session()
            if not self._holds:
                # Refused while the server takes the lost session for alive, or another process asks for us: then
                # the name counts as present, and the lock is asked for again a second later.
                self._holds = bool(self._session.execute(_HOLD, {"key": _number(self.name)}).scalar_one())
            self._sure_until = time.monotonic() + _SURE_SECONDS

    def _let_go_of_the_lost(self) -> None:
        if self._session is None:
            return
        try:
            self._session.execute(_STILL_THERE)
        except sa.exc.DBAPIError:
            _log.warning("the session that marks this process was lost; what was reserved may have been given back")
            self._session.invalidate()
            self._session.close()
            self._session, self._holds = None, False

    def gone(self, connection: sa.Connection, names: Collection[str]) -> list[str]:
        """One transaction at a time asks; the next one sees what it did."""
        connection.execute(_ONE_BY_ONE)
        others = sorted(set(names) - {self.name})
        return [name for name in others if connection.execute(_PROBE, {"key": _number(name)}).scalar_one()]

    def close(self) -> None:
        """Takes the mark away."""
        with self._turn:
            if self._session is not None:
                self._session.invalidate()
                self._session.close()
                self._session = None


def _number(name: str) -> int:
    """The name as PostgreSQL counts its locks: 64 bits with a sign."""
    return int(name, 16) - (1 << 63)
