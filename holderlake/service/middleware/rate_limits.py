"""Limits the calls per minute of one client, which is an IPv4 address or an IPv6 /64 network.

Each process counts the calls that reach it. ``client_ip`` finds the client's address. A limit for several hosts is the
reverse proxy's.
"""

from __future__ import annotations

import math
import time
from collections.abc import Callable
from typing import Final

from starlette.types import ASGIApp, Receive, Scope, Send

from holderlake.service.errors import error_response
from holderlake.service.middleware.client_ip import rate_limit_key

UNLIMITED_PATHS: Final = frozenset({"/health", "/ready", "/metrics"})

_MINUTE: Final = 60
_MAX_CLIENTS: Final = 100_000


class RateLimitMiddleware:
    """Answers 429 to a client's calls over ``calls_per_minute``. ``UNLIMITED_PATHS`` have no limit.

    The windows of all clients, each a minute, begin and end together. At most ``max_clients`` are counted in a window
    (about 15 MB); calls of further clients are not limited. ``clock`` returns seconds.
    """

    def __init__(
        self,
        app: ASGIApp,
        calls_per_minute: int,
        clock: Callable[[], float] = time.monotonic,
        max_clients: int = _MAX_CLIENTS,
    ) -> None:
        self._app = app
        self._limit = calls_per_minute
        self._clock = clock
        self._max_clients = max_clients
        self._calls: dict[str, int] = {}
        self._end = 0.0

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] != "http" or scope["path"] in UNLIMITED_PATHS:
            await self._app(scope, receive, send)
            return
        client = scope.get("client")
        if self._count(rate_limit_key(client[0]) if client else "") <= self._limit:
            await self._app(scope, receive, send)
            return
        wait = max(1, math.ceil(self._end - self._clock()))
        text = f"More than {self._limit:,} calls a minute came from this address: wait {wait} s"
        await error_response("rate_limited", text, {"Retry-After": str(wait)})(scope, receive, send)

    def _count(self, client: str) -> int:
        """Count a call of ``client``. Return the number of its calls in the window."""
        now = self._clock()
        if now >= self._end:
            self._calls = {}
            self._end = (now // _MINUTE + 1) * _MINUTE
        calls = self._calls.get(client, 0) + 1
        if calls > 1 or len(self._calls) < self._max_clients:
            self._calls[client] = calls
        return calls
