"""HTTP calls: calls never sent, calls maybe sent, and secrets that no error may show."""

from __future__ import annotations

import asyncio
import logging
import socket
import threading
import traceback
from collections.abc import Callable, Iterator
from contextlib import contextmanager

import httpx
import pytest

from holderlake.core.http import Cause, HttpClient, HttpError, HttpResponse
from tests.helpers.misbehaving import Misbehaving, Step, answer, drip, half, reset, sends, silence
from tests.helpers.processes import PATIENCE

SECRET = "s3cret-0123456789"
OK = answer({"ok": True})


async def get(client: HttpClient, url: str) -> HttpResponse | HttpError:
    """Return the response, or the error that the call raises."""
    try:
        return await client.send("GET", url, headers={"X-ApiKey": SECRET})
    except HttpError as error:
        return error


def call(url: str) -> HttpResponse | HttpError:
    async def run() -> HttpResponse | HttpError:
        client = HttpClient(httpx.URL(url), headers={}, timeout=PATIENCE)
        try:
            return await get(client, url)
        finally:
            await client.close()

    return asyncio.run(run())


def conversation(
    steps: list[Step], calls: int, timeout: float = PATIENCE
) -> tuple[list[HttpResponse | HttpError], Misbehaving]:
    """Make several calls, one after another, to a server that plays the steps."""

    async def run() -> tuple[list[HttpResponse | HttpError], Misbehaving]:
        async with Misbehaving(steps) as server:
            client = HttpClient(httpx.URL(server.address), headers={}, timeout=timeout)
            try:
                url = f"{server.address}/{SECRET}?key={SECRET}"
                return [await get(client, url) for _ in range(calls)], server
            finally:
                await client.close()

    return asyncio.run(run())


@contextmanager
def plain_server(reply: bytes) -> Iterator[int]:
    """Serve one connection on loopback: read a request, send the bytes, hang up. Yields the port."""
    with socket.create_server(("127.0.0.1", 0)) as listening:
        thread = threading.Thread(target=_serve_once, args=(listening, reply))
        thread.start()
        yield listening.getsockname()[1]
        thread.join()


def _serve_once(listening: socket.socket, reply: bytes) -> None:
    connection, _ = listening.accept()
    with connection:
        connection.recv(65_536)
        connection.sendall(reply)


def _refused(_: pytest.MonkeyPatch) -> Iterator[str]:
    with socket.socket() as bound:
        bound.bind(("127.0.0.1", 0))  # bound but not listening, so every connection is refused
        yield f"http://127.0.0.1:{bound.getsockname()[1]}/"


def _unknown_host(_: pytest.MonkeyPatch) -> Iterator[str]:
    yield "http://no-such-host.invalid/"


def _not_tls(_: pytest.MonkeyPatch) -> Iterator[str]:
    with plain_server(b"HTTP/1.1 400 Bad Request\r\nContent-Length: 0\r\n\r\n") as port:
        yield f"https://127.0.0.1:{port}/"


def _refusing_proxy(monkeypatch: pytest.MonkeyPatch) -> Iterator[str]:
    with plain_server(b"HTTP/1.1 403 Forbidden\r\nContent-Length: 0\r\n\r\n") as port:
        monkeypatch.setenv("HTTPS_PROXY", f"http://127.0.0.1:{port}")
        yield "https://provider.example/"


@pytest.mark.parametrize("place", [_refused, _unknown_host, _not_tls, _refusing_proxy])
def test_requests_that_were_never_sent_are_known(
    place: Callable[[pytest.MonkeyPatch], Iterator[str]], monkeypatch: pytest.MonkeyPatch
) -> None:
    with contextmanager(place)(monkeypatch) as url:
        outcome = call(url)
    assert isinstance(outcome, HttpError)
    assert (outcome.cause, outcome.response) == ("unsent", None)


@pytest.mark.later(long=1)
@pytest.mark.parametrize(
    ("step", "cause", "status"),
    [
        (reset(), "closed", None),
        (sends(b""), "closed", None),
        (sends(b"hello\r\n"), "closed", None),
        (silence(), "timeout", None),
        (drip(), "timeout", 200),
        (half("body", {"X-Credits-Cost": "1.00"}), "closed", 200),
    ],
    ids=["reset", "hang-up", "not HTTP", "silence", "drip", "half"],
)
def test_requests_that_may_have_been_sent_are_known(step: Step, cause: Cause, status: int | None) -> None:
    (outcome,), _ = conversation([step], 1, timeout=0.5 if cause == "timeout" else PATIENCE)
    assert isinstance(outcome, HttpError)
    assert outcome.cause == cause
    assert (outcome.response.status if outcome.response else None) == status
    if cause == "closed" and outcome.response:
        assert outcome.response.headers["x-credits-cost"] == "1.00"


def test_redirects_are_not_followed_and_cookies_not_kept() -> None:
    moved = answer(b"", 302, {"Location": "/elsewhere", "Set-Cookie": "id=1"})
    (first, _), server = conversation([moved, OK], 2)
    assert isinstance(first, HttpResponse)
    assert first.status == 302
    assert "cookie" not in server.received[1].headers


def test_a_proxy_of_the_environment_is_used(monkeypatch: pytest.MonkeyPatch) -> None:
    with plain_server(b"HTTP/1.1 200 OK\r\nContent-Length: 5\r\n\r\nproxy") as port:
        monkeypatch.setenv("HTTP_PROXY", f"http://127.0.0.1:{port}")
        outcome = call("http://provider.example/")
    assert isinstance(outcome, HttpResponse)
    assert outcome.content == b"proxy"


def test_a_password_in_the_address_becomes_a_header() -> None:
    async def run() -> str:
        async with Misbehaving([OK]) as server:
            url = server.address.replace("//", f"//me:{SECRET}@")
            client = HttpClient(httpx.URL(url), headers={}, timeout=PATIENCE)
            await client.send("GET", url)
            await client.close()
            return server.received[0].headers["authorization"]

    assert asyncio.run(run()).startswith("Basic ")


def test_neither_logs_nor_errors_show_secrets(caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.DEBUG)
    for name in ("httpx", "httpcore"):
        caplog.set_level(logging.DEBUG, name)
    outcomes, _ = conversation([OK, reset(), silence(), half("body")], 4, timeout=1.0)
    failures = [outcome for outcome in outcomes if isinstance(outcome, HttpError)]
    assert len(failures) == 3
    for failure in failures:
        assert failure.__cause__ is None
        assert failure.__context__ is None
        assert SECRET not in f"{failure!r} {vars(failure)} {''.join(traceback.format_exception(failure))}"
    assert SECRET not in "".join(f"{record.getMessage()} {vars(record)}" for record in caplog.records)


def test_logs_of_other_users_of_httpx_are_kept(caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.INFO, "httpx")
    with plain_server(b"HTTP/1.1 200 OK\r\nContent-Length: 0\r\n\r\n") as port:
        httpx.get(f"http://127.0.0.1:{port}/", trust_env=False)
    assert "HTTP Request: GET" in caplog.text
