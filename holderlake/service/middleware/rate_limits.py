"""What one caller may send: calls a minute, and a body of what kind, size and slowness. What it may spend is the keys'.

Where calls are counted stands in ``counts``, who a caller is in ``callers``; limits of headers are the ``protocol``'s.
"""

from __future__ import annotations

import asyncio
import logging
import math
import time
from collections.abc import Collection, Iterable
from contextlib import suppress
from email.message import Message as Headers
from functools import lru_cache
from typing import Final

from cachetools import LRUCache
from limits import RateLimitItemPerMinute
from limits.aio.storage import Storage
from limits.aio.strategies import FixedWindowRateLimiter
from limits.errors import StorageError
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from holderlake.service.errors import ServiceError, error_response
from holderlake.service.middleware.client_ip import counted_as
from holderlake.service.middleware.rate_limit_storage import CountsInMemory

_log = logging.getLogger(__name__)

# ----------------------------------------------------------------------- calls

UNLIMITED: Final = frozenset({"/health", "/ready", "/metrics"})
"""Paths that whoever watches the service asks, however often."""

_MINUTE: Final = 60.0
_REMEMBERED: Final = 10_000
_TOLD_OF_ERROR: Final = 200


class RateLimit:
    """Refuses calls beyond so many a minute, counted in ``storage`` by the network that a caller's address is of.

    Where they can't be counted they go through, with a warning a minute: it is better to answer a few calls too many
    than none. Calls that are refused are not counted, so the shared database does not bear who keeps calling.
    """

    def __init__(
        self,
        app: ASGIApp,
        calls_per_minute: int,
        storage: Storage | None = None,
        unlimited: Collection[str] = UNLIMITED,
    ) -> None:
        self._app = app
        self._limit = _CallsPerMinute(calls_per_minute)
        self._limiter = FixedWindowRateLimiter(storage or CountsInMemory())
        self._unlimited = unlimited
        self._refused_until: LRUCache[str, float] = LRUCache(_REMEMBERED)
        self._warned_at = -math.inf

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] != "http" or scope["path"] in self._unlimited:
            await self._app(scope, receive, send)
            return
        client = scope.get("client")
        wait = await self._wait(counted_as(client[0]) if client else "")
        if wait <= 0:
            await self._app(scope, receive, send)
            return
        text = f"More than {self._limit.amount:,} calls a minute came from this address"
        await error_response("rate_limited", text, {"Retry-After": str(math.ceil(wait))})(scope, receive, send)

    async def _wait(self, caller: str) -> float:
        """Counts a call. Returns the seconds until the caller may call again, or 0 where it may now."""
        if caller in self._refused_until:
            left = self._refused_until[caller] - time.monotonic()
            if left > 0:
                return left
            del self._refused_until[caller]
        try:
            if await self._limiter.hit(self._limit, caller):
                return 0.0
            window = await self._limiter.get_window_stats(self._limit, caller)
        except StorageError as error:
            self._warn(error)
            return 0.0
        # A database whose clock is not ours must not shut a caller out for hours.
        wait = min(max(window.reset_time - time.time(), 0.0), _MINUTE)
        self._refused_until[caller] = time.monotonic() + wait
        return max(wait, 1.0)

    def _warn(self, error: StorageError) -> None:
        now = time.monotonic()
        if now - self._warned_at < _MINUTE:
            return
        self._warned_at = now
        why = error.storage_error
        text = str(why).partition("\n")[0][:_TOLD_OF_ERROR]
        _log.warning("calls can't be counted and go through without a limit: %s: %s", type(why).__name__, text)


class _CallsPerMinute(RateLimitItemPerMinute):
    def key_for(self, *identifiers: bytes | str | float) -> str:
        """The caller itself: there is only this limit."""
        return str(identifiers[0])


# ---------------------------------------------------------------------- bodies

_DISCARDED: Final = 16
"""Times the limit that is read and thrown away of a body that is refused, so that a caller that is still sending
reads our answer instead of finding its connection reset."""

_LONGEST_MEDIA_TYPE: Final = 256
_UTF_8: Final = frozenset({"utf-8", "utf8"})


class BodyLimit:
    """Refuses a body that is too large, too slow, encoded, or not JSON, where a route reads it and not before.

    Too large is over ``limit`` bytes, declared or grown; too slow is not all there ``seconds`` after the first look.
    So whoever has no key is told so first, and a body that no route reads does no harm: it is thrown away unread.
    """

    def __init__(self, app: ASGIApp, limit: int, seconds: float = 30.0) -> None:
        self._app = app
        self._limit = limit
        self._seconds = seconds

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] == "http" and has_body(scope["headers"]):
            receive = _LimitedBody(scope, receive, self._limit, self._seconds)
        await self._app(scope, receive, send)


class _LimitedBody:
    """A request's ``receive`` that raises where the body is not to be read."""

    def __init__(self, scope: Scope, receive: Receive, limit: int, seconds: float) -> None:
        self._scope = scope
        self._receive = receive
        self._limit = limit
        self._seconds = seconds
        self._size = 0
        self._ends_at: float | None = None
        self._is_whole = False

    async def __call__(self) -> Message:
        if self._is_whole:  # what is waited for now is the end of the connection
            return await self._receive()
        if self._ends_at is None:
            self._ends_at = asyncio.get_running_loop().time() + self._seconds
            await self._look_at_headers()
        message = await self._next()
        if self._size > self._limit:
            await self._discard()
            raise self._too_large()
        return message

    async def _look_at_headers(self) -> None:
        fault = _fault_of_kind(self._scope)
        if fault is None and _declared_length(self._scope) > self._limit:
            fault = self._too_large()
        if fault is not None:
            if not _values(self._scope, b"expect"):  # who asks before it sends need not send
                await self._discard()
            raise fault

    async def _next(self) -> Message:
        try:
            async with asyncio.timeout_at(self._ends_at):
                message = await self._receive()
        except TimeoutError:
            text = f"The body did not arrive within {self._seconds:g} seconds"
            raise ServiceError("too_slow", text, {"Connection": "close"}) from None
        self._size += len(message.get("body", b""))
        self._is_whole = not message.get("more_body", False)
        return message

    async def _discard(self) -> None:
        with suppress(ServiceError):
            while not self._is_whole and self._size <= _DISCARDED * self._limit:
                await self._next()

    def _too_large(self) -> ServiceError:
        return ServiceError("body_too_large", f"The body may be at most {self._limit:,} bytes")


def has_body(headers: Iterable[tuple[bytes, bytes]]) -> bool:
    """Whether a request's headers, in small letters, announce a body that is not empty."""
    return any(
        (name == b"content-length" and value.strip(b"0")) or name == b"transfer-encoding" for name, value in headers
    )


def _declared_length(scope: Scope) -> int:
    # The server has seen to it that it is one number that fits in 64 bits.
    return max(map(int, _values(scope, b"content-length")), default=0)


def _fault_of_kind(scope: Scope) -> ServiceError | None:
    if _listed(scope, b"content-encoding") - {b"identity"} or _listed(scope, b"transfer-encoding") - {b"chunked"}:
        return ServiceError("unsupported_media_type", "The body may not be compressed", {"Accept-Encoding": "identity"})
    if not all(map(_is_json, _values(scope, b"content-type"))):
        return ServiceError("unsupported_media_type", "The body has to be application/json in UTF-8")
    return None


def _is_json(media_type: bytes) -> bool:
    return len(media_type) <= _LONGEST_MEDIA_TYPE and _is_json_in_utf_8(media_type.decode("latin-1"))


@lru_cache(256)
def _is_json_in_utf_8(media_type: str) -> bool:
    if not media_type.strip():
        return True
    headers = Headers()
    headers["Content-Type"] = media_type
    subtype = headers.get_content_subtype()
    is_json = headers.get_content_maintype() == "application" and (subtype == "json" or subtype.endswith("+json"))
    return is_json and headers.get_content_charset("utf-8") in _UTF_8


def _listed(scope: Scope, header: bytes) -> set[bytes]:
    listed = b",".join(_values(scope, header)).lower().split(b",")
    return {value.strip() for value in listed} - {b""}


def _values(scope: Scope, header: bytes) -> list[bytes]:
    return [value for name, value in scope["headers"] if name == header]
