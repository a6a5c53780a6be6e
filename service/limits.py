"""What one caller may send: the size of a body, and calls a minute. What it may spend is the keys' business."""

from __future__ import annotations

import math
import time
from collections import Counter
from collections.abc import Callable
from typing import Final

from starlette.datastructures import Headers
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from service.errors import ServiceError, error_response

_MINUTE: Final = 60.0
_DISCARDED: Final = 16
"""Times the limit that is read and thrown away of a body that is too large, so that a caller that is still sending
reads our answer instead of finding its connection reset."""


class BodyLimit:
    """Refuses to read a body beyond the limit, by its declared length or as soon as it has grown past it."""

    def __init__(self, app: ASGIApp, limit: int) -> None:
        self._app = app
        self._limit = limit

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] == "http":
            receive = _LimitedBody(receive, _declared_length(scope), self._limit)
        await self._app(scope, receive, send)


class _LimitedBody:
    """A request's ``receive`` that raises where the body is too large."""

    def __init__(self, receive: Receive, declared: int, limit: int) -> None:
        self._receive = receive
        self._declared = declared
        self._limit = limit
        self._size = 0

    async def __call__(self) -> Message:
        message = await self._receive()
        self._size += len(message.get("body", b""))
        if max(self._size, self._declared) > self._limit:
            await self._discard(message)
            raise ServiceError("body_too_large", f"The body may be at most {self._limit:,} bytes")
        return message

    async def _discard(self, message: Message) -> None:
        while message.get("more_body") and self._size <= _DISCARDED * self._limit:
            message = await self._receive()
            self._size += len(message.get("body", b""))


def _declared_length(scope: Scope) -> int:
    text = Headers(scope=scope).get("content-length", "")
    return int(text) if text.isascii() and text.isdecimal() else 0


class RateLimit:
    """Counts calls by address in whole minutes: who keeps to the rate is never refused, whatever the phase."""

    def __init__(self, app: ASGIApp, calls_per_minute: int, clock: Callable[[], float] = time.monotonic) -> None:
        self._app = app
        self._allowed = calls_per_minute
        self._clock = clock
        self._minute = -1
        self._calls: Counter[str] = Counter()

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] == "http" and self._is_over(scope):
            await self._refuse(scope, receive, send)
        else:
            await self._app(scope, receive, send)

    def _is_over(self, scope: Scope) -> bool:
        minute = int(self._clock() // _MINUTE)
        if minute != self._minute:
            self._minute = minute
            self._calls.clear()
        address = scope["client"][0] if scope.get("client") else ""
        self._calls[address] += 1
        return self._calls[address] > self._allowed

    async def _refuse(self, scope: Scope, receive: Receive, send: Send) -> None:
        wait = max(1, math.ceil((self._minute + 1) * _MINUTE - self._clock()))
        text = f"More than {self._allowed:,} calls a minute came from this address"
        await error_response("rate_limited", text, {"Retry-After": str(wait)})(scope, receive, send)
