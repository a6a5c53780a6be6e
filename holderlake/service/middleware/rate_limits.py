"""Limits the calls per minute of one client, which is an IPv4 address or an IPv6 /64 network.

The calls are counted by a storage of the library ``limits``: ``MemoryStorage`` for one process, ``SharedStorage`` for
several. ``client_ip`` finds the client's address.
"""

from __future__ import annotations

import asyncio
import logging
import math
import time
from collections.abc import Callable, Collection, Sequence
from concurrent.futures import Executor
from typing import Final

from cachetools import LRUCache
from limits import RateLimitItemPerMinute
from limits.aio.storage import Storage
from limits.aio.strategies import FixedWindowRateLimiter
from limits.errors import StorageError
from starlette.types import ASGIApp, Receive, Scope, Send

from holderlake.service.errors import error_response
from holderlake.service.middleware.client_ip import rate_limit_key
from holderlake.storage.batches import Batches

_log = logging.getLogger(__name__)

UNLIMITED_PATHS: Final = frozenset({"/health", "/ready", "/metrics"})

CountCalls = Callable[[Sequence[str], int], Sequence[tuple[int, float]]]
"""Function that counts one call for each client of a sequence, in windows of the given number of seconds.

It returns for each client the calls in its window so far and the end of the window in unix seconds.
"""

_MINUTE: Final = 60
_MAX_CLIENTS: Final = 100_000
_MAX_CACHED: Final = 10_000
_COUNT_TIMEOUT_SECONDS: Final = 1.0
_MAX_ERROR_TEXT: Final = 200


class RateLimitMiddleware:
    """Answers 429 to a client's calls over ``calls_per_minute``. ``storage`` counts the calls.

    If counting fails, calls are answered without a limit, and a warning is logged once a minute. A refused client is
    not counted again before its window ends, so that it does not burden a shared database. Paths in ``unlimited`` have
    no limit.
    """

    def __init__(
        self,
        app: ASGIApp,
        calls_per_minute: int,
        storage: Storage | None = None,
        unlimited: Collection[str] = UNLIMITED_PATHS,
    ) -> None:
        self._app = app
        self._limit = _CallsPerMinute(calls_per_minute)
        self._limiter = FixedWindowRateLimiter(storage or MemoryStorage())
        self._unlimited = unlimited
        self._refused_until: LRUCache[str, float] = LRUCache(_MAX_CACHED)
        self._warned_at = -math.inf

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] != "http" or scope["path"] in self._unlimited:
            await self._app(scope, receive, send)
            return
        client = scope.get("client")
        wait = await self._count(rate_limit_key(client[0]) if client else "")
        if wait <= 0:
            await self._app(scope, receive, send)
            return
        text = f"More than {self._limit.amount:,} calls a minute came from this address: wait {math.ceil(wait)} s"
        await error_response("rate_limited", text, {"Retry-After": str(math.ceil(wait))})(scope, receive, send)

    async def _count(self, key: str) -> float:
        """Count a call of the client ``key``. Return the seconds until it may call again, 0 if this call is within the
        limit."""
        if key in self._refused_until:
            seconds_left = self._refused_until[key] - time.monotonic()
            if seconds_left > 0:
                return seconds_left
            del self._refused_until[key]
        try:
            if await self._limiter.hit(self._limit, key):
                return 0.0
            window = await self._limiter.get_window_stats(self._limit, key)
        except StorageError as error:
            self._warn(error)
            return 0.0
        # The database's clock may differ from ours: never refuse a client for more than a minute.
        wait = min(max(window.reset_time - time.time(), 0.0), _MINUTE)
        self._refused_until[key] = time.monotonic() + wait
        return max(wait, 1.0)

    def _warn(self, error: StorageError) -> None:
        now = time.monotonic()
        if now - self._warned_at < _MINUTE:
            return
        self._warned_at = now
        cause = error.storage_error
        text = str(cause).partition("\n")[0][:_MAX_ERROR_TEXT]
        _log.warning("calls can't be counted and pass without a limit: %s: %s", type(cause).__name__, text)


class _CallsPerMinute(RateLimitItemPerMinute):
    def key_for(self, *identifiers: bytes | str | float) -> str:
        """Return the key of a client in the storage: the client itself, because there is only one limit."""
        return str(identifiers[0])


class MemoryStorage(Storage):
    """Counts of calls in one process. The time windows of all clients begin and end together.

    All counts are dropped when the window ends. The memory storage of ``limits`` scans all clients on each turn of the
    event loop, which takes milliseconds a call if there are very many. At most ``max_clients`` are counted in a window
    (about 15 MB); calls of further clients are not limited. ``clock`` returns seconds. All calls must give the same
    length of the window.
    """

    STORAGE_SCHEME = None

    def __init__(self, clock: Callable[[], float] = time.monotonic, max_clients: int = _MAX_CLIENTS) -> None:
        super().__init__()
        self._clock = clock
        self._max_clients = max_clients
        self._calls: dict[str, int] = {}
        self._end = 0.0

    @property
    def base_exceptions(self) -> type[Exception]:
        """Type of the exceptions that mean a failure of the storage. This storage never fails."""
        return ValueError

    async def incr(self, key: str, expiry: int, amount: int = 1) -> int:
        """Count a call of the client ``key``. Return the number of its calls in the current window of ``expiry``
        seconds."""
        now = self._clock()
        if now >= self._end:
            self._calls = {}
            self._end = (now // expiry + 1) * expiry
        calls = self._calls.get(key, 0) + amount
        if calls > amount or len(self._calls) < self._max_clients:
            self._calls[key] = calls
        return calls

    async def get(self, key: str) -> int:
        """Return the number of calls of the client ``key`` in the current window."""
        return self._calls.get(key, 0) if self._clock() < self._end else 0

    async def get_expiry(self, key: str) -> float:
        """Return the end of the current window in unix seconds."""
        return time.time() + max(0.0, self._end - self._clock())

    async def check(self) -> bool:
        """Return True: this storage always works."""
        return True

    async def reset(self) -> int | None:
        """Delete the counts of all clients. Return the number of clients; never None."""
        clients, self._calls = len(self._calls), {}
        return clients

    async def clear(self, key: str) -> None:
        """Delete the count of the client ``key``."""
        self._calls.pop(key, None)


class SharedStorage(Storage):
    """Counts of calls shared by several processes, in windows of a minute.

    ``count`` is a function that counts calls in the shared database; under load one call of it counts many clients. Its
    errors, and a wait of over a second, are raised as ``limits.errors.StorageError``. ``get`` and ``get_expiry`` return
    the counts that this process received last.
    """

    STORAGE_SCHEME = None

    def __init__(self, count: CountCalls, executor: Executor) -> None:
        super().__init__(wrap_exceptions=True)
        self._batches: Batches[str, tuple[int, float]] = Batches(lambda keys: count(keys, _MINUTE), executor)
        self._last_counts: LRUCache[str, tuple[int, float]] = LRUCache(_MAX_CACHED)

    @property
    def base_exceptions(self) -> type[Exception]:
        """Type of the exceptions that mean a failure of this storage: any, because a database fails in many ways."""
        return Exception

    async def incr(self, key: str, expiry: int, amount: int = 1) -> int:
        """Count a call of the client ``key``. Return the number of its calls in the current window."""
        if (expiry, amount) != (_MINUTE, 1):
            raise ValueError(f"invalid count of {amount} calls in {expiry} seconds: use 1 call in {_MINUTE} seconds")
        async with asyncio.timeout(_COUNT_TIMEOUT_SECONDS):
            calls, end = await self._batches.submit(key)
        self._last_counts[key] = (calls, end)
        return calls

    async def get(self, key: str) -> int:
        """Return the number of calls of the client ``key`` in its window, as last reported by the database to this
        process."""
        calls, end = self._last_counts.get(key, (0, 0.0))
        return calls if time.time() < end else 0

    async def get_expiry(self, key: str) -> float:
        """Return the end of the window of the client ``key``, in unix seconds, as the database last reported it.

        Without a report, return the current time.
        """
        return self._last_counts.get(key, (0, time.time()))[1]

    async def check(self) -> bool:
        """Return True without a check: only ``incr`` can find a failure."""
        return True

    async def reset(self) -> int | None:
        """Delete this process's copies of the counts; the shared counts stay. Return None."""
        self._last_counts.clear()
        return None

    async def clear(self, key: str) -> None:
        """Delete this process's copy of a client's count; the shared count stays."""
        self._last_counts.pop(key, None)
