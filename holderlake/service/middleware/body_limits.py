"""Limits the size, duration and media type of request bodies."""

from __future__ import annotations

import asyncio
from email.message import Message as Headers
from functools import lru_cache
from typing import Final

from starlette.requests import ClientDisconnect, Request
from starlette.types import Scope

from holderlake.service.errors import ServiceError

BODY_SECONDS: Final = 30.0
_DISCARD_FACTOR: Final = 16
"""A refused body is read and dropped up to this multiple of the size limit.

Closing at once would reset the connection of a caller that is still sending, so the caller would not see the error.
"""

_MAX_MEDIA_TYPE: Final = 256
_UTF_8: Final = frozenset({"utf-8", "utf8"})


async def read_body(request: Request, limit: int, seconds: float = BODY_SECONDS) -> bytes:
    """Return a body of at most ``limit`` bytes that arrives within ``seconds``. Raises ``ServiceError``."""
    error = _media_type_error(request.scope)
    if error is None and _declared_length(request.scope) > limit:
        error = _too_large(limit)
    if error is not None and _values(request.scope, b"expect"):  # the caller waits for "100 Continue"
        raise error
    body, size = bytearray(), 0
    try:
        async with asyncio.timeout(seconds):
            async for chunk in request.stream():
                size += len(chunk)
                if size > _DISCARD_FACTOR * limit:
                    break
                if size <= limit and error is None:
                    body += chunk
    except TimeoutError:
        text = f"The body did not arrive within {seconds:g} seconds: send the request again"
        raise error or ServiceError("too_slow", text, {"Connection": "close"}) from None
    except ClientDisconnect:
        raise ServiceError("invalid_request", "The body is incomplete") from None
    if error is not None and size:
        raise error
    if size > limit:
        raise _too_large(limit)
    return bytes(body)


def _too_large(limit: int) -> ServiceError:
    return ServiceError("body_too_large", f"The body may be at most {limit:,} bytes: divide it among several requests")


def _declared_length(scope: Scope) -> int:
    # The server has checked that it is a number.
    return max(map(int, _values(scope, b"content-length")), default=0)


def _media_type_error(scope: Scope) -> ServiceError | None:
    if _listed(scope, b"content-encoding") - {b"identity"}:
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
