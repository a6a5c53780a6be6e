"""HTTP calls to one server, with a total deadline and a bounded body.

A call has one of four outcomes: a response, or an ``HttpError`` that says whether the request was never sent, may have
been sent, or was answered in part.
"""

from __future__ import annotations

import asyncio
import logging
import ssl
from collections.abc import Mapping
from contextvars import ContextVar
from dataclasses import dataclass, field, replace
from http.cookiejar import CookieJar, DefaultCookiePolicy
from typing import Final, Literal

import httpx

from holderlake.http.bounded_body import ACCEPT_ENCODING, MEGABYTE, UnusableBody, read_body
from holderlake.http.transport import CAN_SEND_ONCE, AiohttpTransport

Transport = Literal["aiohttp", "httpx"]
"""What carries the requests of ``httpx.AsyncClient``: our transport over aiohttp, or httpx's own."""
Cause = Literal["unsent", "timeout", "closed", "too_large", "encoding", "corrupt"]
"""Why a call has no complete response. Only with ``unsent`` it is certain that the request did not leave."""

RESPONSE_BYTES: Final = 256 * MEGABYTE
_CONNECT_SECONDS: Final = 10.0
_KEEP_ALIVE_SECONDS: Final = 3.0
"""Servers close idle connections after 5 s or more. If one closes while we send, we cannot know whether we pay."""
_LOOPBACK: Final = frozenset({"localhost", "127.0.0.1", "::1"})
_NEVER_SENT: Final = (
    httpx.ConnectError,
    httpx.ConnectTimeout,
    httpx.PoolTimeout,
    httpx.ProxyError,
    httpx.UnsupportedProtocol,
    httpx.InvalidURL,
)
_LOGGERS: Final = (
    "httpx",
    *(f"httpcore.{name}" for name in ("connection", "http11", "http2", "proxy", "socks")),
)
_is_calling: ContextVar[bool] = ContextVar("is_calling", default=False)


def _is_not_ours(_: logging.LogRecord) -> bool:
    return not _is_calling.get()


for _name in _LOGGERS:  # httpx logs addresses, and those of nodes and webhooks hold secrets
    logging.getLogger(_name).addFilter(_is_not_ours)


@dataclass(frozen=True)
class HttpResponse:
    """A response of any status. Header names are in lower case; the body is decompressed."""

    status: int
    headers: Mapping[str, str]
    content: bytes = field(repr=False)


class HttpError(Exception):
    """A call without a complete response. ``response`` has status and headers where they arrived.

    The message may name the host, ``kind`` (the name of httpx's error) does not. Neither holds a header of the request.
    """

    def __init__(self, cause: Cause, message: str, kind: str, response: HttpResponse | None = None) -> None:
        super().__init__(message)
        self.cause = cause
        self.kind = kind
        self.response = response


class HttpClient:
    """An ``httpx.AsyncClient`` for one server and one event loop; ``close`` it.

    ``url``: any address of the server. ``timeout``: seconds for one complete call. ``response_bytes``: size of a
    response at most, on the wire and after decompression. Redirects are not followed, because secrets of the request
    would go along. Cookies are not kept. Proxies of the environment are used, except for the own host.
    """

    def __init__(
        self,
        url: httpx.URL,
        *,
        headers: Mapping[str, str],
        timeout: float,
        connections: int = 1,
        response_bytes: int = RESPONSE_BYTES,
        transport: Transport = "aiohttp",
    ) -> None:
        self._timeout = timeout
        self._response_bytes = response_bytes
        connect_seconds = min(timeout, _CONNECT_SECONDS)
        use_proxy = url.host not in _LOOPBACK
        named = {"Accept": "application/json", "Accept-Encoding": ACCEPT_ENCODING} | dict(headers)
        jar = CookieJar(DefaultCookiePolicy(allowed_domains=[]))
        if transport == "aiohttp" and CAN_SEND_ONCE:
            carrier = AiohttpTransport(
                connections=connections,
                connect_seconds=connect_seconds,
                keep_alive=_KEEP_ALIVE_SECONDS,
                use_proxy=use_proxy,
            )
            self._client = httpx.AsyncClient(headers=named, cookies=jar, transport=carrier)
        else:
            self._client = httpx.AsyncClient(
                headers=named,
                cookies=jar,
                timeout=httpx.Timeout(None, connect=connect_seconds),
                limits=httpx.Limits(max_keepalive_connections=connections, keepalive_expiry=_KEEP_ALIVE_SECONDS),
                verify=ssl.create_default_context(),
                trust_env=use_proxy,
            )

    async def close(self) -> None:
        """Close all connections."""
        await self._client.aclose()

    async def send(
        self, method: str, url: str, *, headers: Mapping[str, str] | None = None, content: bytes | None = None
    ) -> HttpResponse:
        """Send one request, once. Raises ``HttpError``."""
        called = _is_calling.set(True)
        try:
            outcome = await self._outcome(method, url, headers, content)
        finally:
            _is_calling.reset(called)
        if isinstance(outcome, HttpError):
            raise outcome  # outside of the handler: httpx's error holds the request and its secrets
        return outcome

    async def _outcome(
        self, method: str, url: str, headers: Mapping[str, str] | None, content: bytes | None
    ) -> HttpResponse | HttpError:
        head: HttpResponse | None = None
        try:
            async with (
                asyncio.timeout(self._timeout),
                self._client.stream(method, url, headers=headers, content=content) as response,
            ):
                head = HttpResponse(response.status_code, dict(response.headers.multi_items()), b"")
                encoding = head.headers.get("content-encoding", "")
                return replace(head, content=await read_body(response.aiter_raw(), encoding, self._response_bytes))
        except TimeoutError:
            return HttpError("timeout", f"no complete answer within {self._timeout:g} s", "TimeoutError", head)
        except UnusableBody as error:
            return HttpError(error.kind, str(error), "UnusableBody", head)
        except (httpx.HTTPError, httpx.InvalidURL, OSError) as error:
            name = type(error).__name__
            cause: Cause = "unsent" if isinstance(error, _NEVER_SENT) else "closed"
            return HttpError(cause, f"{name}: {error}" if str(error) else name, name, head)
