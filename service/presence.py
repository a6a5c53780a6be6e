"""Tells whether a process that left something behind is still there, on any system and however it ended.

A process holds an exclusive lock on a small file of its own for as long as it lives; the operating system lets go of
it when the process ends. SQLite takes the lock because it does so alike on every platform.
"""

from __future__ import annotations

import sqlite3
import uuid
from contextlib import closing
from pathlib import Path


class Presence:
    """This process's mark beside ``base``; ``name`` is what others look it up by."""

    def __init__(self, base: Path) -> None:
        self.name = uuid.uuid4().hex
        self._path = _mark(base, self.name)
        self._lock = sqlite3.connect(self._path, isolation_level=None, check_same_thread=False)
        self._lock.execute("BEGIN EXCLUSIVE")

    def close(self) -> None:
        """Takes the mark away."""
        self._lock.close()
        self._path.unlink(missing_ok=True)


def is_present(base: Path, name: str) -> bool:
    """Whether the process that made the mark still runs."""
    path = _mark(base, name)
    if not path.exists():
        return False
    with closing(sqlite3.connect(path, timeout=0, isolation_level=None)) as probe:
        try:
            probe.execute("BEGIN EXCLUSIVE")
        except sqlite3.OperationalError:
            return True
    return False


def marks(base: Path) -> set[str]:
    """Names of all processes whose marks are there, running or not."""
    return {path.name.split(".")[-2] for path in base.parent.glob(f"{base.name}.*.running")}


def forget(base: Path, name: str) -> None:
    """Removes the mark of a process that is gone."""
    _mark(base, name).unlink(missing_ok=True)


def _mark(base: Path, name: str) -> Path:
    return base.with_name(f"{base.name}.{name}.running")
