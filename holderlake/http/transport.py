"""An httpx transport over aiohttp, which needs much less CPU than the default of httpx for answers of 400 kB.

The transport never sends a request twice, follows no redirect, and yields the body without decompression.
"""

from __future__ import annotations

from collections.abc import AsyncIterator
from typing import Final

import aiohttp
import httpx
from yarl import URL

CAN_SEND_ONCE: Final = "_retry_connection" in aiohttp.ClientSession.ATTRS
"""True if aiohttp's own retries can be switched off in the installed version. If not, use httpx's transport."""
_ERRORS: Final[tuple[tuple[type[Exception], type[httpx.TransportError]], ...]] = (
    (aiohttp.ConnectionTimeoutError, httpx.ConnectTimeout),
    (aiohttp.ClientHttpProxyError, httpx.ProxyError),
    (aiohttp.ClientConnectorError, httpx.ConnectError),
    (aiohttp.InvalidURL, httpx.UnsupportedProtocol),
    (aiohttp.ServerTimeoutError, httpx.ReadTimeout),
    (aiohttp.ServerDisconnectedError, httpx.RemoteProtocolError),
    (aiohttp.ClientResponseError, httpx.RemoteProtocolError),
    (aiohttp.ClientPayloadError, httpx.RemoteProtocolError),
)
"""Pairs of types: aiohttp's error, and httpx's error for it. The first match is used, ``ReadError`` without a match."""


class AiohttpTransport(httpx.AsyncBaseTransport):
    """Sends requests through one pool of connections, for one event loop.

    ``keep_alive`` is the number of seconds for which an idle connection is kept. ``use_proxy`` uses the proxies of the
    environment.
    """

    def __init__(self, *, connections: int, connect_seconds: float, keep_alive: float, use_proxy: bool) -> None:
        self._connections = connections
        self._timeout = aiohttp.ClientTimeout(total=None, sock_connect=connect_seconds)
        self._keep_alive = keep_alive
        self._use_proxy = use_proxy
        self._session: aiohttp.ClientSession | None = None

    async def handle_async_request(self, request: httpx.Request) -> httpx.Response:
        """Send the request once and return the response with its body unread. Raises ``httpx.TransportError``."""
        if self._session is None:
            self._session = self._opened()
        url = request.url.copy_with(userinfo=b"") if request.url.userinfo else request.url  # httpx made a header of it
        try:
            response = await self._session.request(
                request.method,
                URL(str(url), encoded=True),
                data=await request.aread() or None,
                headers=[(name.decode("latin-1"), value.decode("latin-1")) for name, value in request.headers.raw],
                allow_redirects=False,
            )
        except (aiohttp.ClientError, OSError) as error:
            raise _httpx_error(error) from None
        return httpx.Response(response.status, headers=response.raw_headers, stream=_Body(response))

    async def aclose(self) -> None:
        if self._session is not None:
            await self._session.close()

    def _opened(self) -> aiohttp.ClientSession:
        session = aiohttp.ClientSession(
            connector=aiohttp.TCPConnector(limit=self._connections, keepalive_timeout=self._keep_alive),
            timeout=self._timeout,
            auto_decompress=False,  # aiohttp's decompression has no limit
            cookie_jar=aiohttp.DummyCookieJar(),
            trust_env=self._use_proxy,
        )
        # aiohttp repeats a GET when a kept connection breaks: the call would be paid twice without our knowledge.
        session._retry_connection = False
        return session


class _Body(httpx.AsyncByteStream):
    """Body of a response as a stream of bytes, in the chunks in which they arrive."""

    def __init__(self, response: aiohttp.ClientResponse) -> None:
        self._response = response

    async def __aiter__(self) -> AsyncIterator[bytes]:
        try:
            async for chunk in self._response.content.iter_any():
                yield chunk
        except (aiohttp.ClientError, OSError) as error:
            raise _httpx_error(error) from None

    async def aclose(self) -> None:
        self._response.release()  # closes the connection where the body was not read to its end


def _httpx_error(error: Exception) -> httpx.TransportError:
    kind = next((ours for theirs, ours in _ERRORS if isinstance(error, theirs)), httpx.ReadError)
    return kind(str(error) or type(error).__name__)
