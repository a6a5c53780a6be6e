"""Locks between tasks, threads and processes of a host. Each lock has its own file and ends with its process."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager, contextmanager
from pathlib import Path
from typing import Final

from filelock import FileLock, Timeout

_SECONDS: Final = 0.02
"""Seconds between two attempts to take a lock that another task or process has."""


@contextmanager
def locked(path: Path, if_held: Exception | None = None) -> Iterator[None]:
    """Lock a file during the ``with`` block. The file is created if it is missing, and stays afterwards.

    If another thread or process has the lock, raise ``if_held``; without ``if_held``, wait for the lock.
    """
    path.parent.mkdir(parents=True, exist_ok=True)
    lock = _lock(path)
    try:
        lock.acquire(blocking=if_held is None)
    except Timeout:
        if if_held is None:
            raise
        raise if_held from None
    try:
        yield
    finally:
        lock.release()


@asynccontextmanager
async def locked_for_task(path: Path) -> AsyncIterator[None]:
    """Lock a file during the block; waiting does not block the event loop. The file is removed with the lock."""
    lock = _lock(path)
    while True:
        try:
            lock.acquire(blocking=False)
            break
        except Timeout:
            await asyncio.sleep(_SECONDS)
    try:
        yield
    finally:
        # Before the release: a waiter for the removed file then sees that it has no name, and opens a new one.
        path.unlink(missing_ok=True)
        lock.release()


def _lock(path: Path) -> FileLock:
    return FileLock(path, thread_local=False, poll_interval=_SECONDS, fallback_to_soft=False)
