"""The HTTP protocol: invalid and slow requests, large headers, pipelines and many connections."""

from __future__ import annotations

import asyncio
import logging
import time
from collections.abc import Iterator
from contextlib import ExitStack

import httpx
import pytest

from holderlake.presentation.protocol import FirstRequestInTime
from tests.helpers.processes import wait_until
from tests.service.sockets import Peer, Served, hello, say, serving

GET = b"GET /%s HTTP/1.1\r\nHost: service\r\n\r\n"
_READ = b"POST /read HTTP/1.1\r\nHost: a\r\n"
_CHUNKED = b"POST /%s HTTP/1.1\r\nHost: a\r\nTransfer-Encoding: chunked\r\n\r\n4\r\nbody\r\n"


async def _app(scope, receive, send):
    """An app: /read reads the body, /slow waits, /headers names the headers; other paths are echoed."""
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
        await asyncio.sleep(0.3)
        await say(send, b"/slow")
    else:
        await hello(scope, receive, send)


class _Hasty(FirstRequestInTime):
    seconds = 0.2


@pytest.fixture(scope="module")
def served() -> Iterator[Served]:
    with serving(_app) as served:
        yield served


@pytest.fixture
def peer(served: Served) -> Iterator[Peer]:
    with served.connect() as peer:
        yield peer


@pytest.mark.parametrize("sent", [b"", b"GET / HT", b"GET / HTTP/1.1\r\nHost: a\r\n"], ids=["nothing", "part", "line"])
def test_a_connection_without_a_request_is_closed(sent):
    with serving(_app, _Hasty) as served, served.connect() as peer:
        peer.send(sent)
        assert peer.is_closed()


def test_slow_answers_and_bodies_are_no_timeout():
    with serving(_app, _Hasty) as served, served.connect() as peer:
        assert peer.ask(GET % b"slow").body == b"/slow"
        peer.send(_READ + b"Content-Length: 4\r\n\r\n")
        time.sleep(0.3)
        assert peer.ask(b"body").body == b"4"


@pytest.mark.parametrize(
    "begin", [b"GET / HTTP/1.1\r\nHost: a\r\nX-Long: ", b"GET /", _CHUNKED % b"read" + b"0\r\nX: "]
)
def test_endless_headers_are_refused(peer, begin):
    peer.send(begin)
    for _ in range(100):
        peer.send(b"x" * 100)
        time.sleep(0.001)
    assert peer.answer().status == 400
    assert b"HTTP" not in peer.rest().replace(b"Invalid HTTP", b"")


def test_large_body_does_not_count_as_header(peer):
    body = b"x" * 300_000
    request = _READ + b"Content-Length: %d\r\n\r\n" % len(body)
    peer.send((request + body) * 3 + request[:30])
    assert [peer.answer().body for _ in range(3)] == [b"300000"] * 3
    assert peer.ask(request[30:] + body).body == b"300000"


def test_trailers_are_not_headers(peer):
    trailed = _CHUNKED % b"headers" + b"0\r\nX-ApiKey: late\r\nX-Forwarded-For: 192.0.2.1\r\n\r\n"
    assert peer.ask(trailed).body == b"host transfer-encoding"
    assert peer.ask(GET % b"next").body == b"/next"


_NONSENSE = {
    "no HTTP": b"hello there\r\n\r\n",
    "TLS": b"\x16\x03\x01\x02\x00\x01\x00\x01\xfc\x03\x03\r\n\r\n",
    "no path": b"GET  HTTP/1.1\r\nHost: a\r\n\r\n",
    "a path that is not ASCII": "GET /é HTTP/1.1\r\nHost: a\r\n\r\n".encode(),
    "no host": b"GET / HTTP/1.1\r\n\r\n",
    "a header without a colon": b"GET / HTTP/1.1\r\nHost: a\r\nnonsense\r\n\r\n",
    "a space before the colon": _READ + b"Transfer-Encoding : chunked\r\n\r\n0\r\n\r\n",
    "a NUL in a value": b"GET / HTTP/1.1\r\nHost: a\r\nX: a\x00b\r\n\r\n",
    "two lengths": _READ + b"Content-Length: 3\r\nContent-Length: 4\r\n\r\nabcd",
    "a negative length": _READ + b"Content-Length: -1\r\n\r\n",
    "a length of too many digits": _READ + b"Content-Length: %s\r\n\r\n" % (b"9" * 40),
    "a chunk size that is no number": _READ + b"Transfer-Encoding: chunked\r\n\r\nzz\r\nabc\r\n",
    "a huge chunk size": _READ + b"Transfer-Encoding: chunked\r\n\r\n%s\r\nabc\r\n" % (b"f" * 30),
}


@pytest.mark.parametrize("request_bytes", _NONSENSE.values(), ids=_NONSENSE.keys())
def test_invalid_http_is_answered_400_and_closed(peer, caplog, request_bytes):
    caplog.set_level(logging.DEBUG)
    assert peer.ask(request_bytes).status == 400
    peer.send(GET % b"smuggled")
    assert b"smuggled" not in peer.rest()
    assert "smuggled" not in caplog.text


def test_pipelined_requests_are_answered_in_order(peer):
    peer.send(GET % b"slow" + b"".join(GET % b"%d" % n for n in range(20)))
    assert [peer.answer().body for _ in range(21)] == [b"/slow", *(b"/%d" % n for n in range(20))]
    assert peer.ask(GET % b"next").body == b"/next"


def test_idle_connections_do_not_delay_others(served):
    with ExitStack() as stack:
        for number in range(300):
            peer = stack.enter_context(served.connect())
            peer.send(GET[: number % 20])
        with httpx.Client(base_url=served.base_url, timeout=None, verify=False) as other:
            assert {other.get("/x").text for _ in range(30)} == {"/x"}


def test_aborted_request_leaves_no_task_or_connection(served):
    for part in (b"", b"GET / HT", _READ + b"Content-Length: 9\r\n\r\nabc", GET % b"slow"):
        with served.connect() as peer:
            peer.send(part)
    wait_until(lambda: served.open_connections == 0 and not served.server.server_state.tasks)
