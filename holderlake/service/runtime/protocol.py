"""Adds limits that uvicorn's HTTP protocol lacks: on headers, connections and waiting.

A refused request never reaches the app. It gets an error of the contract, and its connection is closed. The limits on
bodies and on calls per minute are in ``middleware``.
"""

from __future__ import annotations

import asyncio
import logging
from asyncio.events import TimerHandle
from collections import Counter
from http import HTTPStatus
from typing import Any, ClassVar, Final

import httptools
from uvicorn.protocols.http.httptools_impl import HttpToolsProtocol

from holderlake.core.contract import exact_json
from holderlake.core.contract.errors import ERROR_KINDS
from holderlake.service.middleware.body_limits import has_body
from holderlake.service.middleware.client_ip import Networks, is_within, rate_limit_key

MAX_HEADERS: Final = 100
MAX_PIPELINED: Final = 100
"""Limit of requests on one connection that wait for the answer to an earlier request."""
IDLE_UNDER_PRESSURE: Final = 5
"""Seconds after which an idle connection is closed while more than half of all connections are in use."""

_LINGER_SECONDS: Final = 1.0
"""Seconds between the last answer and closing. If the caller still sends, closing at once would discard the answer."""

_log = logging.getLogger(__name__)


def limited_protocol(
    header_limit: int,
    header_seconds: float,
    connections: int = 10_000,
    stalled_seconds: float = 30.0,
    connections_per_address: int = 1_000,
    trusted: Networks = (),
) -> type[HttpToolsProtocol]:
    """Return the protocol class for ``uvicorn.Config(http=...)``. Use it with ``ws="none"``.

    The request line and headers together may have ``header_limit`` bytes. The first request must arrive within
    ``header_seconds`` after the connection is opened, a later one within ``header_seconds`` after its first byte.

    At most ``connections`` are open in total, and at most ``connections_per_address`` from one address (one /64 network
    for IPv6). The second limit does not apply to the ``trusted`` networks of proxies. While more than half of
    ``connections`` are open, an idle one is closed after ``IDLE_UNDER_PRESSURE`` seconds. A connection is aborted if
    its caller reads nothing of an answer for ``stalled_seconds``.
    """
    limits = {
        "header_limit": header_limit,
        "header_seconds": header_seconds,
        "max_connections": connections,
        "stalled_seconds": stalled_seconds,
        "max_per_address": connections_per_address,
        "trusted": trusted,
        "open_by_address": Counter[str](),
    }
    return type("LimitedProtocol", (_LimitedProtocol,), limits)


class _Refused(Exception):
    """Raised in the parser's callbacks to stop parsing. It has the code and the detail of the error answer."""

    def __init__(self, code: str, detail: str) -> None:
        super().__init__(code)
        self.code = code
        self.detail = detail


class _LimitedProtocol(HttpToolsProtocol):
    header_limit: ClassVar[int]
    header_seconds: ClassVar[float]
    max_connections: ClassVar[int]
    stalled_seconds: ClassVar[float]
    max_per_address: ClassVar[int]
    trusted: ClassVar[Networks]
    open_by_address: ClassVar[Counter[str]]
    """Number of open connections of one server by address, except those of trusted proxies."""

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        self._is_in_message = False
        self._is_in_head = False
        self._head_size = 0  # bytes received of an incomplete head, or of trailers
        self._chunk_size = 0
        self._begun_in_chunk = 0
        self._had_body_in_chunk = False
        self._is_over = False  # nothing more is read
        self._final_answer: bytes | None = None  # sent after the answers to earlier requests
        self._deadline: TimerHandle | None = None
        self._stall: TimerHandle | None = None
        self._unsent = 0
        self._address: str | None = None  # the address that this connection is counted for

    def connection_made(self, transport: asyncio.Transport) -> None:  # type: ignore[override]
        super().connection_made(transport)
        if self.client and not is_within(self.client[0], self.trusted):
            self._address = rate_limit_key(self.client[0])
            self.open_by_address[self._address] += 1
        if len(self.connections) > self.max_connections:
            self._refuse("unavailable", "Too many connections are open: try again later")
        elif self._address is not None and self.open_by_address[self._address] > self.max_per_address:
            self._refuse(
                "unavailable", f"More than {self.max_per_address:,} connections from this address are open: close some"
            )
        else:
            self._set_deadline()

    def connection_lost(self, exc: Exception | None) -> None:
        if self._address is not None:
            self.open_by_address[self._address] -= 1
            if not self.open_by_address[self._address]:
                del self.open_by_address[self._address]
            self._address = None
        self._clear_deadline()
        self._clear_stall()
        super().connection_lost(exc)

    def data_received(self, data: bytes) -> None:
        if self._is_over:
            return
        self._unset_keepalive_if_required()
        was_in_head, was_in_message = self._is_in_head, self._is_in_message
        self._chunk_size = len(data)
        self._begun_in_chunk = 0
        self._had_body_in_chunk = False
        try:
            self.parser.feed_data(data)
            if self._is_in_head:
                self._limit_open_head(was_in_head, was_in_message)
            elif self._is_in_message:
                self._limit_trailers()
        except httptools.HttpParserUpgrade:
            pass  # upgrades are ignored: see on_headers_complete
        except httptools.HttpParserError as error:
            refused = error.__context__
            if not isinstance(refused, _Refused):
                refused = _Refused("invalid_request", "The request is not valid HTTP")
            self._refuse(refused.code, refused.detail)
            return
        except _Refused as refused:
            self._refuse(refused.code, refused.detail)
            return
        if self._is_answering:
            self._clear_deadline()
        elif was_in_message and not self._is_in_message:  # the rest of a request that was answered early
            self._clear_deadline()
            self._keep_alive()
        else:
            self._set_deadline()

    def on_message_begin(self) -> None:
        super().on_message_begin()
        self._is_in_message = self._is_in_head = True
        self._head_size = 0
        self._begun_in_chunk += 1

    def on_headers_complete(self) -> None:
        # Nearly all heads arrive in one chunk within the limit: then no sum is needed.
        if self._head_size or self._chunk_size > self.header_limit:
            self._limit_head(len(self.url) + sum(len(name) + len(value) + 4 for name, value in self.headers))
        self._limit_head(0)
        hosts = sum(name == b"host" for name, _ in self.headers)
        if hosts > 1:  # RFC 9112, section 3.2
            raise _Refused("invalid_request", "The request has more than one Host header; send one")
        if not hosts and self.parser.get_http_version() == "1.1":
            raise _Refused("invalid_request", "The request has no Host header; HTTP/1.1 needs one")
        if len(self.pipeline) >= MAX_PIPELINED:
            raise _Refused(
                "invalid_request", f"More than {MAX_PIPELINED} requests wait on this connection: read the answers first"
            )
        is_upgrade = self.parser.should_upgrade()
        # The parser treats all bytes after an upgrade request as another protocol. So a body is refused, and nothing
        # that follows is read.
        if is_upgrade and has_body(self.headers):
            raise _Refused(
                "invalid_request",
                "A request with a body can't be upgraded to another protocol: leave out the header Upgrade",
            )
        super().on_headers_complete()
        self._is_in_head = False  # not earlier: until here self.cycle is the previous request's
        self._head_size = 0
        self.headers = []  # otherwise uvicorn would append trailers to the headers of the running request
        if is_upgrade:
            self.cycle.keep_alive = False
            self._is_over = True

    def on_body(self, body: bytes) -> None:
        self._had_body_in_chunk = True
        super().on_body(body)

    def on_message_complete(self) -> None:
        self._is_in_message = False
        super().on_message_complete()

    def _limit_open_head(self, was_in_head: bool, was_in_message: bool) -> None:
        # If the chunk began with an earlier request, the size of this head is known only when it is complete.
        is_all_head = self._begun_in_chunk == (0 if was_in_head else 1) and was_in_head == was_in_message
        self._head_size += self._chunk_size if is_all_head else 1
        self._limit_head(self._head_size)

    def _limit_trailers(self) -> None:
        if self._had_body_in_chunk or self._begun_in_chunk:
            self._head_size = 0
        else:
            self._head_size += self._chunk_size
        self._limit_head(self._head_size)

    def _limit_head(self, size: int) -> None:
        if size > self.header_limit:
            raise _Refused("headers_too_large", f"The headers have more than {self.header_limit:,} bytes: send less")
        if len(self.headers) > MAX_HEADERS:
            raise _Refused("headers_too_large", f"The request has more than {MAX_HEADERS} headers: send fewer")

    @property
    def _is_answering(self) -> bool:
        return self.cycle is not None and not self.cycle.response_complete

    def _set_deadline(self) -> None:
        """Start the deadline for receiving a request. A deadline that runs already is not changed, so no byte extends
        it."""
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

    def _keep_alive(self) -> None:
        self._unset_keepalive_if_required()
        self._limit_idling()
        self.timeout_keep_alive_task = self.loop.call_later(self.timeout_keep_alive, self.timeout_keep_alive_handler)

    def _limit_idling(self) -> None:
        is_crowded = 2 * len(self.connections) > self.max_connections
        longest = self.config.timeout_keep_alive
        self.timeout_keep_alive = min(longest, IDLE_UNDER_PRESSURE) if is_crowded else longest

    def timeout_keep_alive_handler(self) -> None:
        if not self.transport.is_closing():
            self._close()

    def on_response_complete(self) -> None:
        was_last = not self.pipeline
        self._limit_idling()
        super().on_response_complete()
        if self.transport.is_closing():
            self._watch_sending()
        elif was_last and self._final_answer is not None:
            self._send_last(self._final_answer)
        elif was_last and self._is_in_message:
            self._unset_keepalive_if_required()
            self._set_deadline()

    def pause_writing(self) -> None:
        super().pause_writing()
        self._watch_sending()

    def resume_writing(self) -> None:
        super().resume_writing()
        if not self.transport.is_closing():  # a closing connection still has bytes to send
            self._clear_stall()

    def _watch_sending(self) -> None:
        """Abort the connection if its caller reads nothing for ``stalled_seconds``."""
        self._unsent = self.transport.get_write_buffer_size()
        if self._unsent and self._stall is None:
            self._stall = self.loop.call_later(self.stalled_seconds, self._look_at_sending)

    def _clear_stall(self) -> None:
        if self._stall is not None:
            self._stall.cancel()
            self._stall = None

    def _look_at_sending(self) -> None:
        self._stall = None
        if self.transport.get_write_buffer_size() >= self._unsent:
            self.transport.abort()
        else:
            self._watch_sending()

    def _refuse(self, code: str, detail: str) -> None:
        """Answer earlier requests, then send an error of the contract (``code``, ``detail``) and close the connection.

        A request with an incomplete body is dropped.
        """
        _log.debug("a connection was refused: %s", code)
        self._is_over = True
        self._clear_deadline()
        answer = self._error(code, detail)
        is_in_body = self._is_in_message and not self._is_in_head
        if not self._is_answering:
            self._send_last(b"" if is_in_body else answer)  # a request still in its body is already answered
        elif is_in_body and not self.pipeline:
            self._abandon_request(answer)
        else:
            if is_in_body:
                self.pipeline.popleft()
            self._final_answer = answer

    def _abandon_request(self, answer: bytes) -> None:
        has_started = self.cycle.response_started
        self.cycle.disconnected = True
        self.cycle.message_event.set()
        if has_started:
            self._close()
        else:
            self._send_last(answer)

    def _send_last(self, answer: bytes) -> None:
        self._unset_keepalive_if_required()
        if answer:
            self.transport.write(answer)
        if self.transport.can_write_eof():
            self.transport.write_eof()
        self.flow.resume_reading()
        self._deadline = self.loop.call_later(_LINGER_SECONDS, self._close)

    def _close(self) -> None:
        self.transport.close()
        self._watch_sending()

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
