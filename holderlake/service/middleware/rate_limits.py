"""Limits the calls per minute of one client, which is an IPv4 address or an IPv6 /64 network.

``MemoryCounts`` counts the calls of one process, ``SharedCounts`` those of several. ``client_ip`` finds the client's
address.
"""

from __future__ import annotations

import asyncio
import logging
import math
import time
from collections.abc import Callable, Sequence
from concurrent.futures import Executor
from typing import Final

from cachetools import LRUCache
from starlette.types import ASGIApp, Receive, Scope, Send

from holderlake.core.storage.batches import Batches
from holderlake.service.errors import error_response
from holderlake.service.middleware.client_ip import rate_limit_key

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
    """Answers 429 to a client's calls over ``calls_per_minute``. ``counts`` counts the calls.

    If counting fails, calls are answered without a limit, and a warning is logged once a minute. A refused client is
    not counted again before its window ends, so that it does not burden a shared database. ``UNLIMITED_PATHS`` have no
    limit.
    """

    def __init__(self, app: ASGIApp, calls_per_minute: int, counts: MemoryCounts | SharedCounts) -> None:
        self._app = app
        self._limit = calls_per_minute
        self._counts = counts
        self._refused_until: LRUCache[str, float] = LRUCache(_MAX_CACHED)
        self._warned_at = -math.inf

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] != "http" or scope["path"] in UNLIMITED_PATHS:
            await self._app(scope, receive, send)
            return
        client = scope.get("client")
        wait = await self._count(rate_limit_key(client[0]) if client else "")
        if wait <= 0:
            await self._app(scope, receive, send)
            return
        text = f"More than {self._limit:,} calls a minute came from this address: wait {math.ceil(wait)} s"
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
            calls, seconds = await self._counts.count(key)
        except Exception as error:  # a database fails in many ways
            self._warn(error)
            return 0.0
        if calls <= self._limit:
            return 0.0
        # The database's clock may differ from ours: never refuse a client for more than a minute.
        wait = min(max(seconds, 0.0), _MINUTE)
        self._refused_until[key] = time.monotonic() + wait
        return max(wait, 1.0)

    def _warn(self, error: Exception) -> None:
        now = time.monotonic()
        if now - self._warned_at < _MINUTE:
            return
        self._warned_at = now
        text = str(error).partition("\n")[0][:_MAX_ERROR_TEXT]
        _log.warning("calls can't be counted and pass without a limit: %s: %s", type(error).__name__, text)


class MemoryCounts:
    """Counts of calls in one process. The windows of all clients, each a minute, begin and end together.

    All counts are dropped when the window ends. At most ``max_clients`` are counted in a window (about 15 MB); calls of
    further clients are not limited. ``clock`` returns seconds.
    """

    def __init__(self, clock: Callable[[], float] = time.monotonic, max_clients: int = _MAX_CLIENTS) -> None:
        self._clock = clock
        self._max_clients = max_clients
        self._calls: dict[str, int] = {}
        self._end = 0.0

    async def count(self, client: str) -> tuple[int, float]:
        """Count a call of ``client``. Return the number of its calls in the window, and the seconds until its end."""
        now = self._clock()
        if now >= self._end:
            self._calls = {}
            self._end = (now // _MINUTE + 1) * _MINUTE
        calls = self._calls.get(client, 0) + 1
        if calls > 1 or len(self._calls) < self._max_clients:
            self._calls[client] = calls
        return calls, self._end - now


class SharedCounts:
    """Counts of calls shared by several processes, in windows of a minute.

    ``count_calls`` counts calls in the shared database; under load one call of it counts many clients.
    """

    def __init__(self, count_calls: CountCalls, executor: Executor) -> None:
        self._batches: Batches[str, tuple[int, float]] = Batches(
            lambda clients: count_calls(clients, _MINUTE), executor
        )

    async def count(self, client: str) -> tuple[int, float]:
        """Count a call of ``client``. Return the number of its calls in its window, and the seconds until its end.

        Raises the errors of ``count_calls``, and ``TimeoutError`` after a second.
        """
        async with asyncio.timeout(_COUNT_TIMEOUT_SECONDS):
            calls, end = await self._batches.submit(client)
        return calls, end - time.time()
