"""Where calls are counted for the rate limit, as storages of the library ``limits``: in this process or for many.

The library's own storage in memory is not used: it looks through all callers at every turn of the event loop, which a
flood of addresses makes milliseconds a call. What too many calls lead to stands in ``limits``.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable, Sequence
from concurrent.futures import Executor
from typing import Final

from cachetools import LRUCache
from limits.aio.storage import Storage

from holderlake.storage.batches import Batches

Count = Callable[[Sequence[str], int], Sequence[tuple[int, float]]]
"""Counts a call of each caller in its window of so many seconds: the calls in it so far, and its end in unix time."""

_MINUTE: Final = 60
_MOST_CALLERS: Final = 100_000
_REMEMBERED: Final = 10_000
_PATIENCE_SECONDS: Final = 1.0


class CountsInMemory(Storage):
    """Counts of one process, in windows that begin for all callers together, so that one that is over goes at once.

    At most ``most_callers`` are told apart in a window, in some 15 MB. Later ones are not counted: who commands that
    many addresses has that many callers' calls anyway. ``clock`` tells seconds. For limits of one length.
    """

    STORAGE_SCHEME = None

    def __init__(self, clock: Callable[[], float] = time.monotonic, most_callers: int = _MOST_CALLERS) -> None:
        super().__init__()
        self._clock = clock
        self._most = most_callers
        self._calls: dict[str, int] = {}
        self._end = 0.0

    @property
    def base_exceptions(self) -> type[Exception]:
        """What the counting may raise; here nothing does."""
        return ValueError

    async def incr(self, key: str, expiry: int, amount: int = 1) -> int:
        """Counts and returns the calls of the window, which is ``expiry`` seconds long."""
        now = self._clock()
        if now >= self._end:
            self._calls = {}
            self._end = (now // expiry + 1) * expiry
        calls = self._calls.get(key, 0) + amount
        if calls > amount or len(self._calls) < self._most:
            self._calls[key] = calls
        return calls

    async def get(self, key: str) -> int:
        """The calls of the present window."""
        return self._calls.get(key, 0) if self._clock() < self._end else 0

    async def get_expiry(self, key: str) -> float:
        """The unix time at which the window ends."""
        return time.time() + max(0.0, self._end - self._clock())

    async def check(self) -> bool:
        """Whether it can count: always."""
        return True

    async def reset(self) -> int | None:
        """Forgets all, and returns of how many callers."""
        callers, self._calls = len(self._calls), {}
        return callers

    async def clear(self, key: str) -> None:
        """Forgets a caller."""
        self._calls.pop(key, None)


class SharedCounts(Storage):
    """Counts that many processes share, in windows of a minute; under load one ``count`` serves many calls.

    Whatever ``count`` raises, and its taking longer than a second, comes out as ``limits.errors.StorageError``. What
    was counted can't be taken back, and is read from memory: it is this process's last knowledge.
    """

    STORAGE_SCHEME = None

    def __init__(self, count: Count, executor: Executor) -> None:
        super().__init__(wrap_exceptions=True)
        self._batches: Batches[str, tuple[int, float]] = Batches(lambda keys: count(keys, _MINUTE), executor)
        self._known: LRUCache[str, tuple[int, float]] = LRUCache(_REMEMBERED)

    @property
    def base_exceptions(self) -> type[Exception]:
        """What the counting may raise: a database has many ways to fail."""
        return Exception

    async def incr(self, key: str, expiry: int, amount: int = 1) -> int:
        """Counts a call and returns those of the window."""
        if (expiry, amount) != (_MINUTE, 1):
            raise ValueError("calls are counted one by one, in windows of a minute")
        async with asyncio.timeout(_PATIENCE_SECONDS):
            calls, end = await self._batches.submit(key)
        self._known[key] = (calls, end)
        return calls

    async def get(self, key: str) -> int:
        """The calls of the window, as last heard."""
        calls, end = self._known.get(key, (0, 0.0))
        return calls if time.time() < end else 0

    async def get_expiry(self, key: str) -> float:
        """The unix time at which the window ends, as last heard."""
        return self._known.get(key, (0, time.time()))[1]

    async def check(self) -> bool:
        """Whether it can count, which shows only when it does."""
        return True

    async def reset(self) -> int | None:
        """Forgets what was heard."""
        self._known.clear()
        return None

    async def clear(self, key: str) -> None:
        """Forgets what was heard of a caller."""
        self._known.pop(key, None)
