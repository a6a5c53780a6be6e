"""Limits of the HTTP protocol: slow, large, invalid, pipelined and many requests."""

from __future__ import annotations

import asyncio
import logging
import socket
import time
from collections.abc import Iterator
from contextlib import ExitStack

import httpx
import pytest

from holderlake.presentation.protocol import limited_protocol
from tests.helpers.processes import wait_until
from tests.service.sockets import PATIENCE, Peer, Served, hello, say, serving

GET = b"GET /%s HTTP/1.1\r\nHost: service\r\n\r\n"
BIG = 40_000_000
LIMIT = 0.3
SLOW = 0.5  # seconds, longer than the limit


async def _app(scope, receive, send):
    """An app: /read reads the body, /big sends a large answer, /slow and /brief wait; other paths are echoed."""
    path = scope["path"]
    if path == "/read":
        size, more = 0, True
        while more:
            message = await receive()
            if message["type"] == "http.disconnect":
                return
            size += len(message["body"])
            more = message["more_body"]
        await say(send, b"%d" % size)
    elif path == "/headers":
        await receive()
        await say(send, b" ".join(name for name, _ in scope["headers"]))
    elif path == "/slow":
        await asyncio.sleep(SLOW)
        await say(send, b"/slow")
    elif path == "/brief":
        await asyncio.sleep(0.1)
        await say(send, b"/brief")
    elif path == "/big":
        await say(send, bytes(BIG))
    else:
        await hello(scope, receive, send)


@pytest.fixture(scope="module")
def served() -> Iterator[Served]:
    with serving(_app) as served:
        yield served


@pytest.fixture
def peer(served: Served) -> Iterator[Peer]:
    with served.connect() as peer:
        yield peer


# --------------------------------------------------------------------- slowness


@pytest.fixture(scope="module")
def hasty() -> Iterator[Served]:
    with serving(_app, limited_protocol(4_096, header_seconds=LIMIT)) as served:
        yield served


def test_missing_headers_are_too_slow(hasty):
    with hasty.connect() as peer:
        answer = peer.answer()
        assert (answer.status, answer.code) == (408, "too_slow")
        assert answer.headers["connection"] == "close"
        assert int(answer.headers["retry-after"]) >= 1
        assert peer.is_closed()


def test_trickling_headers_are_too_slow(hasty):
    with hasty.connect() as peer:
        began = time.monotonic()
        for byte in GET % b"x" * 2:
            peer.send(bytes([byte]))
            time.sleep(0.03)
            if time.monotonic() - began > 2 * LIMIT:
                break
        assert peer.answer().code == "too_slow"
        assert peer.is_closed()


@pytest.mark.integration
def test_empty_lines_do_not_keep_a_connection_open(hasty):
    with hasty.connect() as peer:
        assert peer.ask(GET % b"first").body == b"/first"
        for _ in range(30):
            peer.send(b"\r\n")
            time.sleep(0.02)
        assert peer.answer().code == "too_slow"


@pytest.mark.integration
def test_deadline_starts_with_the_first_byte_of_each_request(hasty):
    with hasty.connect() as peer:
        assert peer.ask(GET % b"first").body == b"/first"
        time.sleep(SLOW)
        assert peer.ask(GET % b"second").body == b"/second"
        assert peer.ask(b"GET /third").code == "too_slow"
        assert peer.is_closed()


def test_slow_answer_is_no_timeout(hasty):
    with hasty.connect() as peer:
        assert peer.ask(GET % b"slow").body == b"/slow"


def test_header_deadline_does_not_apply_to_bodies(hasty):
    with hasty.connect() as peer:
        peer.send(b"POST /read HTTP/1.1\r\nHost: service\r\nContent-Length: 4\r\n\r\n")
        time.sleep(SLOW)
        assert peer.ask(b"body").body == b"4"


@pytest.mark.integration
def test_trickling_body_after_the_answer_closes_the_connection(hasty):
    with hasty.connect() as peer:
        assert peer.ask(b"POST /x HTTP/1.1\r\nHost: service\r\nContent-Length: 1000\r\n\r\n").body == b"/x"
        for _ in range(30):
            peer.send(b".")
            time.sleep(0.02)
        assert peer.is_closed()


# ------------------------------------------------------------------------- size


def test_header_over_the_limit_is_too_large(peer):
    answer = peer.ask(b"GET / HTTP/1.1\r\nHost: a\r\nX-Long: " + b"x" * 5_000 + b"\r\n\r\n")
    assert (answer.status, answer.code) == (431, "headers_too_large")
    assert answer.headers["connection"] == "close"
    assert peer.is_closed()


def test_endless_header_is_too_large(peer):
    peer.send(b"GET / HTTP/1.1\r\nHost: a\r\nX-Long: ")
    for _ in range(50):
        peer.send(b"x" * 100)
        time.sleep(0.001)
    assert peer.answer().code == "headers_too_large"
    assert peer.is_closed()


def test_sender_of_a_huge_header_reads_the_error(peer):
    answer = peer.ask(b"GET / HTTP/1.1\r\nHost: a\r\nX-Long: " + b"x" * 5_000_000)
    assert answer.code == "headers_too_large"


def test_long_request_line_is_too_large(peer):
    assert peer.ask(GET % (b"x" * 5_000)).code == "headers_too_large"


def test_headers_are_accepted_in_any_chunks(served):
    request = b"GET /fits HTTP/1.1\r\nHost: service\r\nX-Long: " + b"x" * 4_000 + b"\r\n\r\n"
    for size in (7, 1_000, 3_000):
        with served.connect() as peer:
            for at in range(0, len(request), size):
                peer.send(request[at : at + size])
                time.sleep(0.0005)
            assert peer.answer().body == b"/fits"


def test_large_body_does_not_count_as_header(peer):
    body = b"x" * 300_000
    request = b"POST /read HTTP/1.1\r\nHost: service\r\nContent-Length: %d\r\n\r\n" % len(body)
    peer.send((request + body) * 3 + request[:30])
    assert [peer.answer().body for _ in range(3)] == [b"300000"] * 3
    assert peer.ask(request[30:] + body).body == b"300000"


@pytest.mark.parametrize("ending", [b"\r\n", b""])
def test_ten_thousand_headers_are_too_many(peer, ending):
    assert peer.ask(b"GET / HTTP/1.1\r\nHost: a\r\n" + b"a: b\r\n" * 10_000 + ending).code == "headers_too_large"


_CHUNKED = b"POST /%s HTTP/1.1\r\nHost: a\r\nTransfer-Encoding: chunked\r\n\r\n4\r\nbody\r\n"


def test_trailers_are_not_headers(peer):
    trailed = _CHUNKED % b"headers" + b"0\r\nX-ApiKey: late\r\nX-Forwarded-For: 192.0.2.1\r\n\r\n"
    assert peer.ask(trailed).body == b"host transfer-encoding"
    assert peer.ask(GET % b"next").body == b"/next"


@pytest.mark.parametrize("path", [b"read", b"answered"])
@pytest.mark.parametrize("endless", [b"0\r\nX: " + b"x" * 999, b"0\r\n" + b"a: b\r\n" * 99, b"4;" + b"x" * 999])
def test_endless_trailers_are_too_large(peer, path, endless):
    peer.send(_CHUNKED % path)
    if path == b"answered":
        assert peer.answer().body == b"/answered"
    peer.send(endless)
    for _ in range(50):
        peer.send(endless.partition(b"\r\n")[2] or b"x" * 999)
        time.sleep(0.002)
    if path == b"read":
        assert peer.answer().code == "headers_too_large"
    assert peer.is_closed()


def test_small_chunks_are_not_trailers(peer):
    peer.send(b"POST /read HTTP/1.1\r\nHost: a\r\nTransfer-Encoding: chunked\r\n\r\n")
    peer.send(b"1;" + b"x" * 200 + b"\r\na\r\n")
    for _ in range(100):
        peer.send(b"1;" + b"x" * 200 + b"\r\na\r\n")
        time.sleep(0.001)
    assert peer.ask(b"0\r\n\r\n").body == b"101"


# ------------------------------------------------------------------------ invalid HTTP

_TWO_LENGTHS = b"POST /read HTTP/1.1\r\nHost: a\r\nContent-Length: 3\r\nContent-Length: 4\r\n\r\nabcd"
_READ = b"POST /read HTTP/1.1\r\nHost: a\r\n"
_NONSENSE = {
    "no HTTP": b"hello there\r\n\r\n",
    "TLS": b"\x16\x03\x01\x02\x00\x01\x00\x01\xfc\x03\x03",
    "HTTP/2": b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n",
    "an unknown method": b"BREW / HTTP/1.1\r\nHost: a\r\n\r\n",
    "an unknown version": b"GET / HTTP/3.7\r\n\r\n",
    "no path": b"GET  HTTP/1.1\r\nHost: a\r\n\r\n",
    "a path that is not ASCII": "GET /é HTTP/1.1\r\nHost: a\r\n\r\n".encode(),
    "a tunnel": b"CONNECT elsewhere:443 HTTP/1.1\r\nHost: elsewhere\r\n\r\n",
    "a header without a colon": b"GET / HTTP/1.1\r\nHost: a\r\nnonsense\r\n\r\n",
    "a space before the colon": _READ + b"Transfer-Encoding : chunked\r\n\r\n0\r\n\r\n",
    "a NUL in a name": b"GET / HTTP/1.1\r\nHost: a\r\nX-\x00: 1\r\n\r\n",
    "a NUL in a value": b"GET / HTTP/1.1\r\nHost: a\r\nX: a\x00b\r\n\r\n",
    "a bare carriage return": b"GET / HTTP/1.1\r\nHost: a\r\nX: a\rY: b\r\n\r\n",
    "two lengths": _TWO_LENGTHS,
    "a length that is no number": _READ + b"Content-Length: many\r\n\r\n",
    "a negative length": _READ + b"Content-Length: -1\r\n\r\n",
    "a length of too many digits": _READ + b"Content-Length: %s\r\n\r\n" % (b"9" * 40),
    "length and chunks": _READ + b"Content-Length: 4\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\n",
    "chunks and length": _READ + b"Transfer-Encoding: chunked\r\nContent-Length: 4\r\n\r\n0\r\n\r\n",
    "chunks that are not last": _READ + b"Transfer-Encoding: chunked, gzip\r\n\r\n0\r\n\r\n",
    "a chunk size that is no number": _READ + b"Transfer-Encoding: chunked\r\n\r\nzz\r\nabc\r\n",
    "a huge chunk size": _READ + b"Transfer-Encoding: chunked\r\n\r\n%s\r\nabc\r\n" % (b"f" * 20),
    "a chunk longer than its size": _READ + b"Transfer-Encoding: chunked\r\n\r\n2\r\nabcdef\r\n",
    "a body for another protocol": _READ + b"Connection: upgrade\r\nUpgrade: h2c\r\n"
    b"Content-Length: 40\r\n\r\n" + GET % b"smuggled",
}


@pytest.mark.parametrize("request_bytes", _NONSENSE.values(), ids=_NONSENSE.keys())
def test_invalid_http_gets_a_json_error_and_is_closed(peer, caplog, request_bytes):
    caplog.set_level(logging.DEBUG)
    answer = peer.ask(request_bytes)
    assert (answer.status, answer.code) == (400, "invalid_request")
    assert answer.headers["connection"] == "close"
    peer.send(GET % b"smuggled")
    assert peer.is_closed()
    assert not [record for record in caplog.records if record.levelno > logging.DEBUG]


def test_input_is_not_logged(served, caplog):
    caplog.set_level(logging.DEBUG)
    secret = b"hl_deadbeef_555"
    for request in (
        b"BREW /%s HTTP/1.1\r\nHost: a\r\n\r\n",
        b"GET / HTTP/1.1\r\nHost: a\r\nX-ApiKey %s\r\n\r\n",
        b"GET / HTTP/1.1\r\nHost: a\r\nX-ApiKey: %s" + b"x" * 5_000,
        b"POST /read HTTP/1.1\r\nHost: a\r\nTransfer-Encoding: chunked\r\n\r\n%s\r\n",
    ):
        with served.connect() as peer:
            assert peer.ask(request % secret).status >= 400
    assert "deadbeef" not in caplog.text


def test_invalid_chunk_in_a_body_is_refused(served):
    with served.connect() as peer:
        peer.send(b"POST /read HTTP/1.1\r\nHost: a\r\nTransfer-Encoding: chunked\r\n\r\n4\r\nbody\r\n")
        time.sleep(0.1)
        assert peer.ask(b"nonsense\r\n").code == "invalid_request"
        assert peer.is_closed()


def test_upgrade_is_ignored(peer):
    answer = peer.ask(
        b"GET /plain HTTP/1.1\r\nHost: a\r\nConnection: Upgrade, HTTP2-Settings\r\nUpgrade: h2c\r\n\r\n" + GET % b"x"
    )
    assert (answer.status, answer.body, answer.headers["connection"]) == (200, b"/plain", "close")
    assert peer.is_closed()


def test_post_with_upgrade_and_no_body_is_answered(peer):
    answer = peer.ask(b"POST /read HTTP/1.1\r\nHost: a\r\nConnection: Upgrade\r\nUpgrade: h2c\r\n\r\n")
    assert (answer.status, answer.body) == (200, b"0")


# ------------------------------------------------------------------------ pipelines


def test_pipelined_requests_are_answered_in_order(peer):
    peer.send(GET % b"brief" + b"".join(GET % b"%d" % n for n in range(20)))
    assert [peer.answer().body for _ in range(21)] == [b"/brief", *(b"/%d" % n for n in range(20))]
    assert peer.ask(GET % b"next").body == b"/next"


_BEHIND = {
    "no HTTP": (b"nonsense\r\n\r\n", "invalid_request"),
    "a bad body": (b"POST /read HTTP/1.1\r\nHost: a\r\nTransfer-Encoding: chunked\r\n\r\nzz\r\n", "invalid_request"),
    "no address": (b"CONNECT elsewhere:443 HTTP/1.1\r\nHost: a\r\n\r\n", "invalid_request"),
    "large headers": (b"GET / HTTP/1.1\r\nHost: a\r\nX: " + b"x" * 5_000 + b"\r\n\r\n", "headers_too_large"),
}


# ------------------------------------------------------------------- other callers


def test_idle_connections_do_not_delay_others(served):
    with ExitStack() as stack:
        for number in range(300):
            peer = stack.enter_context(served.connect())
            peer.send(GET[: number % 20])
        with httpx.Client(base_url=served.base_url, timeout=None, verify=False) as other:
            began = time.monotonic()
            assert {other.get("/x").text for _ in range(30)} == {"/x"}
            assert time.monotonic() - began < PATIENCE / 2


def test_excess_connections_get_a_json_error():
    with serving(_app, limited_protocol(4_096, 600.0, connections=3)) as served, ExitStack() as stack:
        first, *_ = [stack.enter_context(served.connect()) for _ in range(3)]
        assert first.ask(GET % b"x").body == b"/x"
        with served.connect() as fourth:
            answer = fourth.ask(GET % b"x")
            assert (answer.status, answer.code) == (503, "unavailable")
            assert int(answer.headers["retry-after"]) >= 1
            assert fourth.is_closed()
        assert first.ask(GET % b"x").body == b"/x"


@pytest.mark.integration
def test_reader_that_stalls_is_disconnected():
    with serving(_app, limited_protocol(4_096, 600.0, stalled_seconds=0.5)) as served, served.connect() as deaf:
        deaf.socket.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 4_096)
        deaf.send(GET % b"big")
        with httpx.Client(base_url=served.base_url, timeout=None, verify=False) as other:
            assert {other.get("/x").text for _ in range(50)} == {"/x"}
        wait_until(lambda: served.open_connections == 0)


@pytest.mark.integration
def test_slow_reader_gets_the_complete_answer():
    # Slower than the keep-alive time and the limit for stalled readers.
    protocol = limited_protocol(4_096, 600.0, stalled_seconds=2.0)
    with serving(_app, protocol, timeout_keep_alive=0.2) as served, served.connect() as slow:
        slow.send(GET % b"big")
        size = 0
        while size < BIG:
            received = slow.socket.recv(1_000_000)
            assert received
            size += len(received)
            time.sleep(0.08)


def test_aborted_request_leaves_no_task_or_connection(served):
    for part in (b"", b"GET / HT", b"POST /read HTTP/1.1\r\nHost: a\r\nContent-Length: 9\r\n\r\nabc", GET % b"slow"):
        with served.connect() as peer:
            peer.send(part)
    wait_until(lambda: served.open_connections == 0 and not served.server.server_state.tasks)


@pytest.mark.integration
def test_server_stops_with_open_connections():
    with ExitStack() as stack:
        served = stack.enter_context(serving(_app))
        for part in (b"", b"GET / HT", b"nonsense\r\n\r\n", GET % b"x"):
            stack.enter_context(served.connect()).send(part)
        wait_until(lambda: served.open_connections >= 3)  # "nonsense" is refused and closed
        served.server.should_exit = True
        wait_until(lambda: served.open_connections == 0)
