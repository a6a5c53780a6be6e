"""Locks between threads and processes of a host. Each lock has its own file and ends with its process.

So a lock also shows whether a process lives: see ``is_held``. ``owners`` adds heartbeats for processes of other hosts.
"""

from __future__ import annotations

import fcntl
import os
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Final

from filelock import FileLock, Timeout

_SECONDS: Final = 0.02
"""Seconds between two attempts to take a lock that another thread or process has."""


@contextmanager
def locked(path: Path, if_held: Exception | None = None, seconds: float = 0.0) -> Iterator[None]:
    """Lock a file during the ``with`` block. The file is created if it is missing, and stays afterwards.

    If another thread or process has the lock for ``seconds``, raise ``if_held``; without ``if_held``, wait for it.
    """
    path.parent.mkdir(parents=True, exist_ok=True)
    lock = _lock(path)
    try:
        lock.acquire(timeout=-1 if if_held is None else seconds)
    except Timeout:
        if if_held is None:
            raise
        raise if_held from None
    try:
        yield
    finally:
        lock.release()


@contextmanager
def created_locked(path: Path) -> Iterator[None]:
    """Create a file, and lock it during the ``with`` block, in a tenth of the time of ``locked``.

    No other thread or process may wait for the lock. Raises ``FileExistsError``.
    """
    handle = os.open(path, os.O_CREAT | os.O_EXCL | os.O_RDWR, 0o666)  # minus the umask, as for any file
    try:
        fcntl.flock(handle, fcntl.LOCK_EX)
        yield
    finally:
        os.close(handle)


def try_lock(path: Path) -> FileLock | None:
    """Lock a file and return its lock; None if another thread or process has it."""
    lock = _lock(path)
    try:
        lock.acquire(blocking=False)
    except Timeout:
        return None
    return lock


def is_held(path: Path) -> bool:
    """Return whether a lock is held, so that the process that took it lives."""
    if not path.exists():
        return False
    lock = try_lock(path)
    if lock is None:
        return True
    lock.release()
    return False


def _lock(path: Path) -> FileLock:
    return FileLock(path, thread_local=False, poll_interval=_SECONDS, fallback_to_soft=False)
