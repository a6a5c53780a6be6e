"""Owners of claims in a database. A claim counts while the process that owns it runs.

Each owner locks a file of its own, which the operating system unlocks when the process ends, even if it is killed.
"""

from __future__ import annotations

import secrets
from collections.abc import Collection
from pathlib import Path

from filelock import FileLock

from holderlake.storage.locks import try_lock
from holderlake.storage.sqlite import explained


class Owner:
    """An owner in this process, with the lock file ``<base>.<name>.running`` next to the database file ``base``.

    Call ``join`` and ``ended`` within a write transaction: then no process sees a lock file that is not locked yet.
    """

    def __init__(self, base: Path) -> None:
        self.name = secrets.token_hex(8)
        self._base = base
        self._lock: FileLock | None = None

    def join(self) -> set[str]:
        """Lock the owner's file, and return the owners that have ended since. Does nothing later on.

        Raises ``DatabaseError`` if the file cannot be written."""
        if self._lock is not None:
            return set()
        try:
            self._lock = try_lock(self._path(self.name))
        except OSError as error:
            raise explained(self._path(self.name), error, "") from error
        files = self._base.parent.glob(f"{self._base.name}.*.running")
        return self.ended({file.name.split(".")[-2] for file in files})

    def ended(self, names: Collection[str]) -> set[str]:
        """Return those of the owners ``names`` whose processes have ended, and delete their lock files."""
        return {name for name in names if name != self.name and self._has_ended(name)}

    def _has_ended(self, name: str) -> bool:
        path = self._path(name)
        if not path.exists():
            return True
        lock = try_lock(path)
        if lock is None:
            return False
        path.unlink(missing_ok=True)
        lock.release()
        return True

    def close(self) -> None:
        """Unlock and delete the file: the owner has ended."""
        if self._lock is not None:
            self._path(self.name).unlink(missing_ok=True)
            self._lock.release()
            self._lock = None

    def _path(self, name: str) -> Path:
        return self._base.with_name(f"{self._base.name}.{name}.running")
