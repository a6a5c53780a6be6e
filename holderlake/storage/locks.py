"""Rights that processes of a host give each other turns at: each key of a folder is held by one task at a time.

One file stands for all keys, and a byte of it for each, locked as POSIX locks are: by the process, and let go of when
it dies. So one descriptor serves the whole process, which tells its own tasks apart by itself.
"""

from __future__ import annotations

import asyncio
import fcntl
import os
import threading
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from functools import cache
from pathlib import Path
from typing import Final

_SECONDS: Final = 0.02
"""Between two looks at what others hold. No thread waits: those of two processes might wait for each other."""


@asynccontextmanager
async def claimed(file: Path, key: str) -> AsyncIterator[None]:
    """Holds the right to ``key`` (hexadecimal digits, of which the first 15 count) while the block runs."""
    place = int(key[:15], 16)
    claims = _claims(file.absolute(), os.getpid())
    while not claims.take(place):
        await asyncio.sleep(_SECONDS)
    try:
        yield
    finally:
        claims.give_back(place)


class _Claims:
    """What this process holds of a file. The file stays open: closing any descriptor of it would let go of all."""

    def __init__(self, file: Path) -> None:
        file.parent.mkdir(parents=True, exist_ok=True)
        self._handle = os.open(file, os.O_RDWR | os.O_CREAT, 0o666)
        self._lock = threading.Lock()
        self._held: set[int] = set()

    def take(self, place: int) -> bool:
        with self._lock:
            if place in self._held:
                return False
            try:
                fcntl.lockf(self._handle, fcntl.LOCK_EX | fcntl.LOCK_NB, 1, place)
            except (BlockingIOError, PermissionError):  # which of the two is the system's choice
                return False
            self._held.add(place)
            return True

    def give_back(self, place: int) -> None:
        with self._lock:
            fcntl.lockf(self._handle, fcntl.LOCK_UN, 1, place)
            self._held.discard(place)


@cache
def _claims(file: Path, process: int) -> _Claims:
    """Those of a file; a forked process holds none of its parent's."""
    return _Claims(file)
