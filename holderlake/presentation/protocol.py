"""Adds limits that uvicorn's HTTP protocol lacks: on headers, open connections, and waiting.

They bound the memory of a service without a reverse proxy. A refused request never reaches the app: it gets an error of
the contract, and its connection is closed. Limits on bodies and on calls per minute belong to the service.
"""

from __future__ import annotations

import asyncio
from asyncio.events import TimerHandle
from collections.abc import Iterable
from http import HTTPStatus
from typing import Any, ClassVar, Final

import httptools
from uvicorn.protocols.http.httptools_impl import HttpToolsProtocol

from holderlake.core.contract import exact_json
from holderlake.core.contract.errors import ERROR_KINDS

_LINGER_SECONDS: Final = 1.0
"""Seconds between an error and closing. If the caller still sends, closing at once would discard the error."""


def limited_protocol(
    header_limit: int, header_seconds: float, connections: int = 10_000, stalled_seconds: float = 30.0
) -> type[HttpToolsProtocol]:
    """Return the protocol class for ``uvicorn.Config(http=...)``. Use it with ``ws="none"``.

    The request line and headers together may have ``header_limit`` bytes. They must arrive within ``header_seconds``
    after the connection is opened, or after the first byte of a later request. At most ``connections`` are open. A
    connection is aborted if its caller reads nothing of a large answer for ``stalled_seconds``.
    """
    limits = {
        "header_limit": header_limit,
        "header_seconds": header_seconds,
        "max_connections": connections,
        "stalled_seconds": stalled_seconds,
    }
    return type("LimitedProtocol", (_LimitedProtocol,), limits)


class _LimitedProtocol(HttpToolsProtocol):
    header_limit: ClassVar[int]
    header_seconds: ClassVar[float]
    max_connections: ClassVar[int]
    stalled_seconds: ClassVar[float]

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        self._head_size = 0  # bytes received since the last complete head, or since the last part of a body
        self._refusal = ("invalid_request", "The request is not valid HTTP")
        self._is_over = False  # nothing more is read
        self._deadline: TimerHandle | None = None
        self._stall: TimerHandle | None = None

    def connection_made(self, transport: asyncio.Transport) -> None:  # type: ignore[override]
        super().connection_made(transport)
        if len(self.connections) > self.max_connections:
            self._refuse("unavailable", "Too many connections are open: try again later")
        else:
            self._set_deadline()

    def connection_lost(self, exc: Exception | None) -> None:
        self._clear_deadline()
        self._clear_stall()
        super().connection_lost(exc)

    def data_received(self, data: bytes) -> None:
        if self._is_over:
            return
        self._unset_keepalive_if_required()
        self._head_size += len(data)
        try:
            self.parser.feed_data(data)
        except httptools.HttpParserUpgrade:
            return  # it is ignored: see on_headers_complete
        except httptools.HttpParserError:
            self._refuse(*self._refusal)
            return
        if self._head_size > self.header_limit:
            self._refuse(*self._too_large())
        elif not self._is_answering:
            self._set_deadline()

    def on_headers_complete(self) -> None:
        if self._head_size > self.header_limit:  # counts other parts of the last chunk too
            size = len(self.url) + sum(len(name) + len(value) + 4 for name, value in self.headers)
            if size > self.header_limit:
                self._refusal = self._too_large()
                raise ValueError
        is_upgrade = self.parser.should_upgrade()
        if is_upgrade and has_body(self.headers):  # the parser takes all further bytes for another protocol
            raise ValueError
        super().on_headers_complete()
        if is_upgrade:
            self.cycle.keep_alive = False
            self._is_over = True
        self._head_size = 0
        self.headers = []  # otherwise uvicorn would append trailers to the headers of the running request
        self._clear_deadline()

    def on_body(self, body: bytes) -> None:
        self._head_size = 0
        super().on_body(body)

    def pause_writing(self) -> None:
        super().pause_writing()
        self._watch_sending()

    def resume_writing(self) -> None:
        super().resume_writing()
        self._clear_stall()

    @property
    def _is_answering(self) -> bool:
        return self.cycle is not None and not self.cycle.response_complete

    def _too_large(self) -> tuple[str, str]:
        return "headers_too_large", f"The headers have more than {self.header_limit:,} bytes: send less"

    def _set_deadline(self) -> None:
        """Start the deadline for receiving headers. One that runs already is not changed, so no byte extends it."""
        if self._deadline is None:
            self._deadline = self.loop.call_later(self.header_seconds, self._too_slow)

    def _clear_deadline(self) -> None:
        if self._deadline is not None:
            self._deadline.cancel()
            self._deadline = None

    def _too_slow(self) -> None:
        self._refuse(
            "too_slow", f"The headers did not arrive within {self.header_seconds:g} seconds: send the request again"
        )

    def _watch_sending(self) -> None:
        self._clear_stall()
        unsent = self.transport.get_write_buffer_size()
        self._stall = self.loop.call_later(self.stalled_seconds, self._look_at_sending, unsent)

    def _look_at_sending(self, unsent_before: int) -> None:
        if self.transport.get_write_buffer_size() >= unsent_before:
            self.transport.abort()
        else:
            self._watch_sending()

    def _clear_stall(self) -> None:
        if self._stall is not None:
            self._stall.cancel()
            self._stall = None

    def _refuse(self, code: str, detail: str) -> None:
        """Send an error of the contract and close the connection; only close it if an answer was already begun."""
        self._is_over = True
        self._clear_deadline()
        self._unset_keepalive_if_required()
        cycle = self.cycle
        if cycle is not None and (self._is_answering or cycle.more_body):
            cycle.disconnected = True
            cycle.message_event.set()
            if cycle.response_started or not cycle.more_body or self.pipeline:
                self.transport.close()
                return
        self.transport.write(self._error(code, detail))
        if self.transport.can_write_eof():
            self.transport.write_eof()
        self.flow.resume_reading()
        self._deadline = self.loop.call_later(_LINGER_SECONDS, self.transport.close)

    def _error(self, code: str, detail: str) -> bytes:
        # 400 for invalid HTTP; the contract's 422 is for requests with wrong values.
        kind = ERROR_KINDS[code]
        status = HTTPStatus(400 if code == "invalid_request" else kind.status)
        body = exact_json.encode({"detail": detail, "code": code})
        headers = [
            *self.server_state.default_headers,
            (b"content-type", b"application/json"),
            (b"content-length", b"%d" % len(body)),
            (b"connection", b"close"),
        ]
        if kind.retryable:
            headers.append((b"retry-after", b"1"))
        head = b"".join(b"%s: %s\r\n" % header for header in headers)
        return b"HTTP/1.1 %d %s\r\n%s\r\n%s" % (status, status.phrase.encode(), head, body)


def has_body(headers: Iterable[tuple[bytes, bytes]]) -> bool:
    """Return whether request headers (names in lower case) announce a body that is not empty."""
    return any(
        (name == b"content-length" and value.strip(b"0")) or name == b"transfer-encoding" for name, value in headers
    )
