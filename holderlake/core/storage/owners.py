"""Owners of claims in a database. A claim is valid while the process that owns it runs.

Each owner locks its own file, which the operating system unlocks when the process ends, even if it is killed. In
PostgreSQL each owner also writes a heartbeat with the server's time, which other hosts see.
"""

from __future__ import annotations

import platform
import re
import secrets
import threading
from collections.abc import Collection, Iterator
from contextlib import closing, contextmanager, suppress
from pathlib import Path
from typing import Final

from filelock import FileLock
from sqlalchemy import Column, Double, MetaData, Table, Text, delete, select

from holderlake.core.storage.locks import is_held, locked, try_lock
from holderlake.core.storage.sqlite import DatabaseError, explained
from holderlake.core.storage.state import PostgresState, State, StateConnection, Where, put, unix_now

_TABLES: Final = MetaData()
_OWNERS: Final = Table(
    "owners", _TABLES, Column("name", Text, primary_key=True), Column("seen_at", Double, nullable=False)
)
"""Heartbeats, in unix seconds of the server; PostgreSQL only."""
_LEASES: Final = Table("leases", _TABLES, Column("name", Text, primary_key=True), Column("owner", Text, nullable=False))
_BEATS: Final = 6
"""Heartbeats in the time after which an owner counts as ended."""
_LAST_BEAT_SECONDS: Final = 2.0
"""Time for which a closed owner waits until its heartbeat is deleted; the server may be away."""


class Owner:
    """An owner of claims in this process. Its lock file ``<base>.<name>.running`` is next to the database ``base``.

    Call ``join`` and ``ended`` within a write transaction: then no process sees a lock file that is not locked yet.
    """

    def __init__(self, database: State, place: Where) -> None:
        host = re.sub(r"[^A-Za-z0-9-]", "-", platform.node())
        self.name = f"{host}-{secrets.token_hex(8)}"
        self._host = f"{host}-"
        self._shared = database if isinstance(database, PostgresState) else None
        if self._shared is not None:
            self._shared.run(lambda db: _OWNERS.create(db, checkfirst=True))
        self._base = place.files if not isinstance(place, Path) else place
        self._lock: FileLock | None = None
        self._has_beaten = False
        self._thread: threading.Thread | None = None
        self._closed = threading.Event()

    def join(self, db: StateConnection) -> set[str]:
        """Lock this owner's file, and return the names of other owners that have ended. Later calls return no names.

        Raises ``DatabaseError`` if the file cannot be written.
        """
        if self._shared is not None and not self._has_beaten:
            self._note_beat(db)  # again until one is committed: this transaction may be rolled back
        if self._lock is not None:
            return set()
        try:
            self._base.parent.mkdir(parents=True, exist_ok=True)
            self._lock = try_lock(self._path(self.name))
        except OSError as error:
            raise explained(self._path(self.name), error, "") from error
        if self._shared is not None:
            self._thread = threading.Thread(target=self._beat, args=(self._shared,), name="heartbeat", daemon=True)
            self._thread.start()
        files = self._base.parent.glob(f"{self._base.name}.*.running")
        return self.ended(db, {file.name.split(".")[-2] for file in files} | self._heartbeat_ages(db).keys())

    def ended(self, db: StateConnection, names: Collection[str]) -> set[str]:
        """Return those of the owners ``names`` that have ended, and delete their lock files and heartbeats."""
        other_names = {*names} - {self.name}
        if not other_names:
            return set()
        ages = self._heartbeat_ages(db)
        ended = {name for name in other_names if self._has_ended(name, ages.get(name))}
        if self._shared is not None:
            db.execute(delete(_OWNERS).where(_OWNERS.c.name.in_(ended)))
        return ended

    def _has_ended(self, name: str, silent_for: float | None) -> bool:
        """Return whether an owner has ended, by its lock file on this host, else by its last heartbeat.

        ``silent_for`` is the number of seconds since the last heartbeat; None if there is none.
        """
        path = self._path(name)
        if path.exists() and (self._shared is None or name.startswith(self._host)):
            if is_held(path):
                return False
            path.unlink(missing_ok=True)
            return True
        return self._shared is None or silent_for is None or silent_for > self._shared.place.lease_seconds

    def _heartbeat_ages(self, db: StateConnection) -> dict[str, float]:
        """Return the seconds since the last heartbeat of each owner; empty for SQLite."""
        if self._shared is None:
            return {}
        now = unix_now(db)
        return {name: now - seen_at for name, seen_at in db.execute(select(_OWNERS))}

    def _note_beat(self, db: StateConnection) -> None:
        put(db, _OWNERS, {"name": self.name, "seen_at": unix_now(db)})

    def _beat(self, database: PostgresState) -> None:
        wait = 0.0
        while not self._closed.wait(wait):
            with suppress(DatabaseError):
                database.run(self._note_beat, write=False)
                self._has_beaten = True
            wait = database.place.lease_seconds / _BEATS
        with suppress(DatabaseError), database.transaction(write=False) as db:
            db.execute(delete(_OWNERS).where(_OWNERS.c.name == self.name))

    def close(self) -> None:
        """Unlock and delete the file, and delete the heartbeat: the owner has ended."""
        self._closed.set()
        if self._lock is not None:
            if self._thread is not None:
                self._thread.join(_LAST_BEAT_SECONDS)
            self._path(self.name).unlink(missing_ok=True)
            self._lock.release()
            self._lock = None

    def _path(self, name: str) -> Path:
        return self._base.with_name(f"{self._base.name}.{name}.running")


@contextmanager
def leased(place: Where, name: str, if_held: Exception) -> Iterator[None]:
    """Hold a lease during the ``with`` block, or raise ``if_held`` while another process holds it.

    The lease is a locked file next to the path ``place``, or a row in PostgreSQL, for processes of all hosts.
    """
    if isinstance(place, Path):
        with locked(place.with_name(f"{place.name}.lock"), if_held):
            yield
        return
    with closing(PostgresState(place, _TABLES)) as database:
        owner = Owner(database, place)

        def take(db: StateConnection) -> bool:
            owner.join(db)
            holders = {*db.scalars(select(_LEASES.c.owner).where(_LEASES.c.name == name))}
            if holders - owner.ended(db, holders) - {owner.name}:
                return False
            put(db, _LEASES, {"name": name, "owner": owner.name})
            return True

        try:
            if not database.run(take):
                raise if_held
            yield
        finally:
            own_lease = _LEASES.c.name == name, _LEASES.c.owner == owner.name
            database.run(lambda db: db.execute(delete(_LEASES).where(*own_lease)))
            owner.close()
