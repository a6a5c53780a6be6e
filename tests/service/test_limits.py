"""Limits on calls per minute, and on media type, size and duration of bodies."""

from __future__ import annotations

import asyncio
import gzip
import json
import logging
import sys
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import httpx
import pytest
from fastapi import FastAPI, Request
from fastapi.routing import APIRoute

from holderlake.service.api.parameters import StrictRequest
from holderlake.service.errors import ServiceError, add_handlers
from holderlake.service.middleware.body_limits import read_body
from holderlake.service.middleware.rate_limits import RateLimitMiddleware
from tests.service.sockets import Served, hello, serving

# ----------------------------------------------------------------------- calls


async def _statuses(limited: RateLimitMiddleware, *calls: str) -> list[int]:
    """Return the statuses of calls from addresses, one after another."""
    return [(await _call(limited, address)).status_code for address in calls]


async def _call(limited: RateLimitMiddleware, address: str, path: str = "/") -> httpx.Response:
    transport = httpx.ASGITransport(limited, client=(address, 1))
    async with httpx.AsyncClient(transport=transport, base_url="http://service") as client:
        return await client.get(path)


@pytest.mark.parametrize(
    "calls",
    [
        ("192.0.2.1", "192.0.2.1", "192.0.2.1", "192.0.2.2"),
        ("2001:db8::1", "2001:db8::2", "2001:db8::ffff:0:3", "2001:db8:0:1::1"),
    ],
    ids=["address", "IPv6 network"],
)
def test_calls_are_counted_by_client(calls):
    limited = RateLimitMiddleware(hello, 2, lambda: 0.0)
    assert asyncio.run(_statuses(limited, *calls)) == [200, 200, 429, 200]


def test_counts_begin_again_each_minute():
    now = 30.0
    limited = RateLimitMiddleware(hello, 2, lambda: now)
    assert asyncio.run(_statuses(limited, *["192.0.2.1"] * 3)) == [200, 200, 429]
    now = 59.9
    assert asyncio.run(_call(limited, "192.0.2.1")).headers["Retry-After"] == "1"
    now = 60.0
    assert asyncio.run(_statuses(limited, "192.0.2.1")) == [200]


@pytest.mark.parametrize("path", ["/health", "/ready", "/metrics"])
def test_monitoring_paths_are_unlimited(path):
    limited = RateLimitMiddleware(hello, 1, lambda: 0.0)
    assert [asyncio.run(_call(limited, "192.0.2.1", path)).status_code for _ in range(5)] == [200] * 5
    assert asyncio.run(_statuses(limited, "192.0.2.1")) == [200]


def test_flood_of_addresses_is_bounded_and_refuses_nobody():
    limited = RateLimitMiddleware(hello, 1, lambda: 0.0, max_clients=100)
    flood = [f"10.0.{number // 256}.{number % 256}" for number in range(500)]
    assert set(asyncio.run(_statuses(limited, *flood))) == {200}
    assert asyncio.run(_statuses(limited, flood[0], flood[99], flood[100])) == [429, 429, 200]


# ---------------------------------------------------------------------- bodies

LIMIT = 1_000
JSON = {"X-ApiKey": "some", "Content-Type": "application/json"}


def _app(limit: int = LIMIT, seconds: float = 0.5) -> FastAPI:
    """An app whose routes check for a key before they read the body, like the service's."""

    class Route(APIRoute):
        def get_route_handler(self) -> Any:
            handle = super().get_route_handler()

            async def limited(request: Request) -> Any:
                if "X-ApiKey" not in request.headers:
                    raise ServiceError("missing_key", "No key")
                if request.method != "POST":
                    return await handle(request)
                return await handle(StrictRequest(request.scope, await read_body(request, limit, seconds)))

            return limited

    app = FastAPI(strict_content_type=False)
    app.router.route_class = Route

    @app.post("/")
    async def answer(body: list[int]) -> int:
        return len(body)

    @app.get("/")
    async def get() -> str:
        return "got"

    add_handlers(app)
    return app


@pytest.fixture(scope="module")
def served() -> Iterator[Served]:
    with serving(_app()) as served:
        yield served


@pytest.fixture
def client(served: Served) -> Iterator[httpx.Client]:
    with httpx.Client(base_url=served.base_url, timeout=None, verify=False) as client:
        yield client


def _is(answer: httpx.Response, code: str, status: int) -> bool:
    body = answer.json()
    return (answer.status_code, body["code"], set(body)) == (status, code, {"detail", "code"})


@pytest.mark.parametrize("size", [LIMIT + 1, 100 * LIMIT])
def test_declared_length_over_the_limit_is_refused(client, size):
    assert client.post("/", content=b"[]".ljust(LIMIT), headers=JSON).json() == 0
    assert _is(client.post("/", content=b"[]".ljust(size), headers=JSON), "body_too_large", 413)
    assert client.post("/", content=b"[1]", headers=JSON).json() == 1


def test_streamed_body_over_the_limit_is_refused(client):
    answer = client.post("/", content=(b" " * 100 for _ in range(11)), headers=JSON)
    assert "content-length" not in answer.request.headers
    assert _is(answer, "body_too_large", 413)
    assert client.post("/", content=iter([b"[1", b",2]"]), headers=JSON).json() == 2


def test_huge_declared_body_is_refused_before_it_is_sent(served):
    with served.connect() as peer:
        request = b"POST / HTTP/1.1\r\nHost: a\r\nX-ApiKey: some\r\nExpect: 100-continue\r\nContent-Length: %d\r\n\r\n"
        answer = peer.ask(request % (1 << 62))
        assert (answer.status, answer.code) == (413, "body_too_large")


def test_expect_continue_gets_100(served):
    with served.connect() as peer:
        peer.send(b"POST / HTTP/1.1\r\nHost: a\r\nX-ApiKey: some\r\nExpect: 100-continue\r\nContent-Length: 3\r\n\r\n")
        assert peer.answer().status == 100
        assert peer.ask(b"[1]").body == b"1"


def test_expect_continue_without_key_gets_no_100(served):
    with served.connect() as peer:
        request = b"POST / HTTP/1.1\r\nHost: a\r\nExpect: 100-continue\r\nContent-Length: 3\r\n\r\n"
        assert peer.ask(request).code == "missing_key"


@pytest.mark.parametrize(
    "head",
    [
        b"Content-Length: 100\r\n\r\n[1,",
        pytest.param(b"Transfer-Encoding: chunked\r\n\r\n3\r\n[1,\r\n", marks=pytest.mark.integration),
    ],
    ids=["sized", "chunks"],
)
def test_incomplete_body_is_too_slow(served, head):
    with served.connect() as peer:
        answer = peer.ask(b"POST / HTTP/1.1\r\nHost: a\r\nX-ApiKey: some\r\n" + head)
        assert (answer.status, answer.code, answer.headers["connection"]) == (408, "too_slow", "close")
        assert peer.is_closed()


@pytest.mark.integration
def test_trickling_body_is_too_slow(served):
    with served.connect() as peer:
        peer.send(b"POST / HTTP/1.1\r\nHost: a\r\nX-ApiKey: some\r\nContent-Length: 900\r\n\r\n")
        for _ in range(30):
            peer.send(b" ")
            time.sleep(0.03)
        assert peer.answer().code == "too_slow"


def test_large_incomplete_body_is_answered_in_time(served):
    with served.connect() as peer:
        answer = peer.ask(b"POST / HTTP/1.1\r\nHost: a\r\nX-ApiKey: some\r\nContent-Length: 9000\r\n\r\n[1,")
        assert (answer.status, answer.code) == (413, "body_too_large")


@pytest.mark.parametrize("encoding", ["gzip", "br", "identity, gzip", "GZIP", "x"])
def test_compressed_body_is_refused(client, encoding):
    content = gzip.compress(b"[1]")
    answer = client.post("/", content=content, headers={**JSON, "Content-Encoding": encoding})
    assert _is(answer, "unsupported_media_type", 415)


@pytest.mark.parametrize("encoding", ["identity", "Identity", ""])
def test_identity_encoding_is_accepted(client, encoding):
    assert client.post("/", content=b"[1]", headers={**JSON, "Content-Encoding": encoding}).json() == 1


@pytest.mark.parametrize(
    "media_type",
    [
        "application/json",
        "Application/JSON",
        "application/json; charset=utf-8",
        'application/json;charset="UTF-8"',
        "application/json; charset=utf8; version=1",
        "application/vnd.api+json",
        "application/json;",
        "",
    ],
)
def test_json_media_types_are_accepted(client, media_type):
    answer = client.post("/", content=b"[1]", headers={"X-ApiKey": "some", "Content-Type": media_type})
    assert answer.json() == 1


def test_body_without_media_type_is_json(client):
    assert client.post("/", content=b"[1]", headers={"X-ApiKey": "some"}).json() == 1


@pytest.mark.parametrize(
    "media_type",
    [
        "text/plain",
        "text/json",
        "application/x-www-form-urlencoded",
        "multipart/form-data; boundary=x",
        "application/jsonp",
        "application/json, text/plain",
        "application/json; charset=utf-16",
        "application/json; charset=latin-1",
        "application/json; charset*=utf-8''utf-16",
        "json",
        "*/*",
        "application/json; x=" + "y" * 1_000,
        "\xff\xfe",
    ],
)
def test_other_media_types_are_refused(client, media_type):
    headers = {b"X-ApiKey": b"some", b"Content-Type": media_type.encode("latin-1")}
    answer = client.post("/", content=b"[1]", headers=headers)
    assert _is(answer, "unsupported_media_type", 415)


def test_repeated_content_type_must_be_json_twice(client):
    headers = [("X-ApiKey", "some"), ("Content-Type", "application/json"), ("Content-Type", "text/plain")]
    assert _is(client.post("/", content=b"[1]", headers=headers), "unsupported_media_type", 415)


def test_unread_body_is_discarded(served):
    head = b"GET / HTTP/1.1\r\nHost: a\r\nX-ApiKey: some\r\nContent-Type: text/plain\r\n"
    with served.connect() as peer:
        assert peer.ask(head + b"Content-Length: 9\r\n\r\nwhatever!").body == b'"got"'
        assert peer.ask(head + b"Content-Length: 5000000\r\n\r\n" + b" " * 5_000_000).body == b'"got"'
        assert peer.ask(head + b"Transfer-Encoding: chunked\r\n\r\n3\r\nabc\r\n0\r\n\r\n").body == b'"got"'
        assert peer.ask(head + b"\r\n").body == b'"got"'


@pytest.mark.skipif(sys.platform != "linux", reason="peak memory is read from /proc")
@pytest.mark.parametrize("kind", ["sized", "chunks", "gzip"])
def test_hundred_megabytes_are_refused_without_using_memory(kind):
    megabyte = b" " * 1_000_000
    head = b"POST / HTTP/1.1\r\nHost: a\r\nX-ApiKey: some\r\n"
    with serving(_app(1 << 20, seconds=20)) as served, served.connect() as peer:
        Path("/proc/self/clear_refs").write_text("5")  # the most from now on
        before = _most_memory()
        if kind == "chunks":
            peer.send(head + b"Transfer-Encoding: chunked\r\n\r\n")
            for _ in range(100):
                peer.send(b"%x\r\n%s\r\n" % (len(megabyte), megabyte))
            peer.send(b"0\r\n\r\n")
        else:
            encoding = b"Content-Encoding: gzip\r\n" if kind == "gzip" else b""
            peer.send(head + encoding + b"Content-Length: 100000000\r\n\r\n")
            for _ in range(100):
                peer.send(megabyte)
        assert peer.answer().status == (415 if kind == "gzip" else 413)
        assert _most_memory() - before < 20_000_000
        assert peer.ask(head + b"Content-Length: 3\r\n\r\n[1]").body == b"1"


def _most_memory() -> int:
    """Return this process's peak memory in bytes."""
    lines = Path("/proc/self/status").read_text().splitlines()
    return next(int(line.split()[1]) * 1_024 for line in lines if line.startswith("VmHWM"))


@pytest.mark.integration
def test_slow_sender_does_not_delay_others(served, client):
    with served.connect() as slow:
        slow.send(b"POST / HTTP/1.1\r\nHost: a\r\nX-ApiKey: some\r\nContent-Length: 900\r\n\r\n[")
        for _ in range(20):
            assert client.post("/", json=[1], headers={"X-ApiKey": "some"}).json() == 1
        assert slow.answer().code == "too_slow"


def test_body_and_key_are_not_logged(served, client, caplog):
    caplog.set_level(logging.DEBUG, logger="service")
    caplog.set_level(logging.DEBUG, logger="uvicorn")
    secret = "hl_deadbeef_555"
    for content, headers in (
        (secret * 100, {}),
        (secret, {"Content-Type": secret}),
        (secret, {"Content-Encoding": secret}),
        (json.dumps(secret), {}),
    ):
        assert client.post("/", content=content, headers={"X-ApiKey": secret, **headers}).status_code >= 400
    assert "deadbeef" not in caplog.text
