"""HTTP calls to one server, with a deadline for the complete call and a limit on the size of the response.

A call has one of four results: a response, or an ``HttpError`` that says whether the request was never sent, may have
been sent, or got an incomplete response. A request is never sent twice, no redirect is followed, and the size of a body
is limited before and after decompression.
"""

from __future__ import annotations

import asyncio
import logging
import re
import ssl
import zlib
from collections.abc import AsyncIterator, Mapping
from contextvars import ContextVar
from dataclasses import dataclass, field, replace
from email.utils import parsedate_to_datetime
from functools import cache, partial
from typing import Final, Literal

import httpx
import stamina.instrumentation
from stamina.instrumentation import RetryDetails

from holderlake.core.contract.times import as_utc, utc_now

Cause = Literal["unsent", "timeout", "closed", "too_large", "encoding", "corrupt"]
"""Reason why a call has no complete response. Only ``unsent`` guarantees that the request was not sent."""

ACCEPT_ENCODING: Final = "gzip, deflate"
"""The request's ``Accept-Encoding``: the content encodings that this client can decompress."""
MEGABYTE: Final = 1_000_000
_GZIP_MAGIC: Final = b"\x1f\x8b"
_GZIP: Final = 31
_ZLIB: Final = 15
_RAW_DEFLATE: Final = -15
_MOST_LAYERS: Final = 3
"""Limit of nested gzip encodings. A proxy may compress a compressed body again."""
_JSON_STARTS: Final = b'[{"'
RESPONSE_BYTES: Final = 256 * MEGABYTE
_CONNECT_SECONDS: Final = 10.0
_KEEP_ALIVE_SECONDS: Final = 3.0
"""Seconds after which the client closes an idle connection.

Servers close idle connections after 5 s or more. If a server closes while the client sends a request, the client cannot
know whether the request is charged. So the client closes first.
"""
_LOOPBACK: Final = frozenset({"localhost", "127.0.0.1", "::1"})
_NEVER_SENT: Final = (
    httpx.ConnectError,
    httpx.ConnectTimeout,
    httpx.PoolTimeout,
    httpx.ProxyError,
    httpx.UnsupportedProtocol,
    httpx.InvalidURL,
)
_LOGGERS: Final = ("httpx", *(f"httpcore.{name}" for name in ("connection", "http11", "http2", "proxy", "socks")))
_is_calling: ContextVar[bool] = ContextVar("is_calling", default=False)
_NUMBER: Final = re.compile(r"-?[0-9]{1,15}(?:\.[0-9]{1,15})?")
_log = logging.getLogger(__name__)


for _name in _LOGGERS:  # httpx logs addresses, and those of nodes and webhooks hold secrets
    logging.getLogger(_name).addFilter(lambda _: not _is_calling.get())


@dataclass(frozen=True)
class HttpResponse:
    """A response of any status. Header names are in lower case; the body is decompressed."""

    status: int
    headers: Mapping[str, str]
    content: bytes = field(repr=False)


class HttpError(Exception):
    """A call without a complete response. ``kind`` is the name of httpx's error.

    ``response`` has status and headers, None if they did not arrive. Neither the message nor the response contains a
    header of the request, which may be a secret.
    """

    def __init__(self, cause: Cause, message: str, kind: str, response: HttpResponse | None = None) -> None:
        super().__init__(message)
        self.cause = cause
        self.kind = kind
        self.response = response


class _NoCookies(httpx.Cookies):
    """A cookie jar that stores nothing. httpx's own jar needs a fifth of a call's CPU time to search for cookies."""

    def extract_cookies(self, response: httpx.Response) -> None:
        return


class _CookielessClient(httpx.AsyncClient):
    cookies = _NoCookies()  # type: ignore[override] # in place of a property that would copy it


@cache
def _certificates() -> ssl.SSLContext:
    """Return the certificates that this machine trusts. All clients share them: reading them takes 25 ms."""
    return ssl.create_default_context()


class HttpClient:
    """Calls to one server, at any ``url`` of it, in one event loop. The caller must ``close`` it.

    ``timeout`` is the limit of one complete call in seconds. ``connections`` is the number of calls at a time; further
    calls wait. ``response_bytes`` limits a response, both compressed and decompressed. Redirects are not followed,
    because the secrets of the request would be sent to their target. Proxies of the environment are used, except for
    this machine.

    Each connection has a client of its own: a pool of httpx searches all its connections several times for each call,
    which takes more CPU than the call itself.
    """

    def __init__(
        self,
        url: httpx.URL,
        *,
        headers: Mapping[str, str],
        timeout: float,
        connections: int = 1,
        response_bytes: int = RESPONSE_BYTES,
    ) -> None:
        self._timeout = timeout
        self._response_bytes = response_bytes
        self._free = asyncio.Semaphore(connections)
        self._idle: list[httpx.AsyncClient] = []
        self._opened = partial(
            _CookielessClient,
            headers={"Accept": "application/json", "Accept-Encoding": ACCEPT_ENCODING} | dict(headers),
            timeout=httpx.Timeout(None, connect=min(timeout, _CONNECT_SECONDS)),
            limits=httpx.Limits(max_keepalive_connections=1, keepalive_expiry=_KEEP_ALIVE_SECONDS),
            verify=_certificates(),
            trust_env=url.host not in _LOOPBACK,
        )

    async def close(self) -> None:
        """Close all connections."""
        while self._idle:
            await self._idle.pop().aclose()

    async def send(
        self, method: str, url: str, *, headers: Mapping[str, str] | None = None, content: bytes | None = None
    ) -> HttpResponse:
        """Send a request without retries. Return its response, of any status. Raises ``HttpError``."""
        head: HttpResponse | None = None
        failure: HttpError
        async with self._free:
            client = self._idle.pop() if self._idle else self._opened()
            called = _is_calling.set(True)
            try:
                async with (
                    asyncio.timeout(self._timeout),
                    client.stream(method, url, headers=headers, content=content) as response,
                ):
                    head = HttpResponse(response.status_code, dict(response.headers.multi_items()), b"")
                    encoding = head.headers.get("content-encoding", "")
                    return replace(head, content=await _read_body(response.aiter_raw(), encoding, self._response_bytes))
            except TimeoutError:
                failure = HttpError("timeout", f"no complete answer within {self._timeout:g} s", "TimeoutError", head)
            except _UnusableBody as error:
                failure = HttpError(error.kind, str(error), "UnusableBody", head)
            except (httpx.HTTPError, httpx.InvalidURL, OSError) as error:
                name = type(error).__name__
                cause: Cause = "unsent" if isinstance(error, _NEVER_SENT) else "closed"
                failure = HttpError(cause, f"{name}: {error}" if str(error) else name, name, head)
            finally:
                _is_calling.reset(called)
                self._idle.append(client)
        raise failure  # outside of the handler: httpx's error holds the request and its secrets


class _UnusableBody(Exception):
    """A body is larger than the limit, ends too early, or cannot be decompressed."""

    def __init__(self, kind: Literal["too_large", "closed", "encoding", "corrupt"], message: str) -> None:
        super().__init__(message)
        self.kind = kind


async def _read_body(chunks: AsyncIterator[bytes], encoding: str, limit: int) -> bytes:
    """Return the decompressed body, of at most ``limit`` bytes before and after. Raises ``_UnusableBody``."""
    parts: list[bytes] = []
    size = 0
    async for chunk in chunks:
        size += len(chunk)
        if size > limit:
            raise _UnusableBody("too_large", f"the answer has more than {_megabytes(limit)} MB, which is the limit")
        parts.append(chunk)
    return _decompressed(parts[0] if len(parts) == 1 else b"".join(parts), encoding, limit)


def _decompressed(raw: bytes, encoding: str, limit: int) -> bytes:
    """Return the decompressed body. Raises ``_UnusableBody`` if it is damaged or has more than ``limit`` bytes.

    The first bytes of the body decide whether it is gzip, because some proxies drop the header ``Content-Encoding``, or
    keep it after they have decompressed the body.
    """
    encodings = {part.strip().lower() for part in encoding.split(",")} - {"", "identity"}
    for _ in range(_MOST_LAYERS):
        if not raw.startswith(_GZIP_MAGIC):
            break
        raw = _inflated(raw, _GZIP, limit)
    if "deflate" in encodings:  # servers send zlib's format, deflate without a header, or plain text under this name
        has_header = len(raw) > 1 and raw[0] & 0x0F == zlib.DEFLATED and int.from_bytes(raw[:2], "big") % 31 == 0
        try:
            return _inflated(raw, _ZLIB if has_header else _RAW_DEFLATE, limit)
        except _UnusableBody as error:
            if error.kind != "too_large" and raw.lstrip()[:1] in _JSON_STARTS:
                return raw
            raise
    if encodings - {"gzip", "x-gzip"} and raw.lstrip()[:1] not in _JSON_STARTS:
        raise _UnusableBody(
            "encoding", f"the answer has the content encoding {encoding!r}; accepted are {ACCEPT_ENCODING}"
        )
    return raw


def _inflated(raw: bytes, window_bits: int, limit: int) -> bytes:
    parts: list[bytes] = []
    bytes_left = limit
    while True:
        decompressor = zlib.decompressobj(window_bits)
        try:
            part = decompressor.decompress(raw, bytes_left + 1)
        except zlib.error:
            raise _UnusableBody("corrupt", "the answer cannot be decompressed: its data are damaged") from None
        bytes_left -= len(part)
        if bytes_left < 0:
            raise _UnusableBody(
                "too_large", f"the answer has more than {_megabytes(limit)} MB when decompressed, which is the limit"
            )
        if not decompressor.eof:
            raise _UnusableBody("closed", "the compressed answer is incomplete")
        parts.append(part)
        raw = decompressor.unused_data
        if window_bits != _GZIP or not raw.startswith(_GZIP_MAGIC):  # what follows is padding
            return parts[0] if len(parts) == 1 else b"".join(parts)


def _megabytes(limit: int) -> str:
    return f"{limit / MEGABYTE:,.6f}".rstrip("0").rstrip(".")


def retry_after(text: str | None) -> float | None:
    """Return the wait of a header ``Retry-After`` (seconds or an HTTP date) in seconds; None if it cannot be read."""
    if text is None:
        return None
    seconds = header_number(text)
    if seconds is None:
        try:
            seconds = (as_utc(parsedate_to_datetime(text)) - utc_now()).total_seconds()
        except (ValueError, TypeError, IndexError, OverflowError):
            return None
    return max(0.0, seconds)


def header_number(text: str) -> float | None:
    """Return the number that a header has; None for other text."""
    return float(text) if _NUMBER.fullmatch(text) else None


def log_retries() -> None:
    """Report retries as one sentence at level INFO; stamina itself uses any logging library that it finds."""
    stamina.instrumentation.set_on_retry_hooks([_log_retry])


def _log_retry(details: RetryDetails) -> None:
    # without the error's text and the arguments, which may contain secrets
    reason, seconds = type(details.caused_by).__name__, details.wait_for
    _log.info("attempt %d failed (%s); trying again in %.1f s", details.retry_num, reason, seconds)
