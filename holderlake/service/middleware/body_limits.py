"""Limits the size, duration and media type of request bodies. ``presentation.protocol`` limits headers."""

from __future__ import annotations

import asyncio
from contextlib import suppress
from email.message import Message as Headers
from functools import lru_cache
from typing import Final

from starlette.types import Message, Receive, Scope

from holderlake.presentation.protocol import has_body
from holderlake.service.errors import ServiceError

_DISCARD_FACTOR: Final = 16
"""A refused body is read and dropped up to this multiple of the size limit.

Closing at once would reset the connection of a caller that is still sending, so the caller would not see the error.
"""

_MAX_MEDIA_TYPE: Final = 256
_UTF_8: Final = frozenset({"utf-8", "utf8"})


def limited_body(scope: Scope, receive: Receive, limit: int, seconds: float) -> Receive:
    """Return a ``receive`` that raises ``ServiceError`` for a body that is too large, too slow or not JSON.

    A body is too large if it has over ``limit`` bytes, declared or received. It is too slow if it is not complete
    ``seconds`` after the first read. Nothing is checked before the first read.
    """
    return _LimitedBody(scope, receive, limit, seconds) if has_body(scope["headers"]) else receive


class _LimitedBody:
    def __init__(self, scope: Scope, receive: Receive, limit: int, seconds: float) -> None:
        self._scope = scope
        self._receive = receive
        self._limit = limit
        self._seconds = seconds
        self._size = 0
        self._deadline: float | None = None
        self._is_complete = False

    async def __call__(self) -> Message:
        if self._is_complete:  # the next message is the end of the connection
            return await self._receive()
        if self._deadline is None:
            self._deadline = asyncio.get_running_loop().time() + self._seconds
            await self._check_headers()
        message = await self._next()
        if self._size > self._limit:
            await self._discard()
            raise self._too_large()
        return message

    async def _check_headers(self) -> None:
        error = _media_type_error(self._scope)
        if error is None and _declared_length(self._scope) > self._limit:
            error = self._too_large()
        if error is not None:
            if not _values(self._scope, b"expect"):  # a caller that waits for "100 Continue" sends no body
                await self._discard()
            raise error

    async def _next(self) -> Message:
        try:
            async with asyncio.timeout_at(self._deadline):
                message = await self._receive()
        except TimeoutError:
            text = f"The body did not arrive within {self._seconds:g} seconds: send the request again"
            raise ServiceError("too_slow", text, {"Connection": "close"}) from None
        self._size += len(message.get("body", b""))
        self._is_complete = not message.get("more_body", False)
        return message

    async def _discard(self) -> None:
        with suppress(ServiceError):
            while not self._is_complete and self._size <= _DISCARD_FACTOR * self._limit:
                await self._next()

    def _too_large(self) -> ServiceError:
        return ServiceError(
            "body_too_large", f"The body may be at most {self._limit:,} bytes: divide it among several requests"
        )


def _declared_length(scope: Scope) -> int:
    # The server has checked that it is one number of at most 64 bits.
    return max(map(int, _values(scope, b"content-length")), default=0)


def _media_type_error(scope: Scope) -> ServiceError | None:
    if _listed(scope, b"content-encoding") - {b"identity"} or _listed(scope, b"transfer-encoding") - {b"chunked"}:
        return ServiceError(
            "unsupported_media_type",
            "The body may not be compressed: send it without Content-Encoding",
            {"Accept-Encoding": "identity"},
        )
    if not all(map(_is_json, _values(scope, b"content-type"))):
        return ServiceError("unsupported_media_type", "The body has to be application/json in UTF-8")
    return None


def _is_json(media_type: bytes) -> bool:
    return len(media_type) <= _MAX_MEDIA_TYPE and _is_json_in_utf_8(media_type.decode("latin-1"))


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
