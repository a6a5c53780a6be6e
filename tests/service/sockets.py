"""Apps on a real port, and clients that write raw bytes into a socket."""

from __future__ import annotations

import json
import socket
import threading
from collections.abc import Iterator
from contextlib import AbstractContextManager, contextmanager, suppress
from dataclasses import dataclass
from typing import Any, BinaryIO

import uvicorn
from starlette.types import ASGIApp, Receive, Scope, Send

from holderlake.presentation.protocol import FirstRequestInTime
from tests.helpers.processes import wait_until

PATIENCE = 120.0
"""Seconds after which a test fails that waits for the server."""


@dataclass(frozen=True)
class Served:
    """A running app and its server."""

    port: int
    server: uvicorn.Server

    @property
    def base_url(self) -> str:
        return f"http://127.0.0.1:{self.port}"

    @property
    def open_connections(self) -> int:
        return len(self.server.server_state.connections)

    def connect(self) -> AbstractContextManager[Peer]:
        return connected(self.port)


@contextmanager
def connected(port: int | None) -> Iterator[Peer]:
    """Open a connection to a port of this machine."""
    with socket.create_connection(("127.0.0.1", port), timeout=PATIENCE) as made, made.makefile("rb") as read:
        yield Peer(made, read)


@contextmanager
def serving(app: ASGIApp, protocol: Any = FirstRequestInTime, **config: Any) -> Iterator[Served]:
    """Run a server like the service's, with the given protocol."""
    settings = {"lifespan": "off", "timeout_keep_alive": 30, "timeout_graceful_shutdown": 1, **config}
    settings |= {"ws": "none", "log_config": None, "access_log": False, "proxy_headers": False}
    made = uvicorn.Config(app, http=protocol, h11_max_incomplete_event_size=4_096, **settings)
    server = uvicorn.Server(made)
    with socket.create_server(("127.0.0.1", 0), backlog=1_000) as listening:
        thread = threading.Thread(target=server.run, kwargs={"sockets": [listening]}, daemon=True)
        thread.start()
        wait_until(lambda: server.started)
        try:
            yield Served(listening.getsockname()[1], server)
        finally:
            server.should_exit = True
            thread.join()


@dataclass(frozen=True)
class Answer:
    status: int
    headers: dict[str, str]
    body: bytes

    @property
    def code(self) -> Any:
        """The error's code; fails if the answer is not the contract's error."""
        assert self.headers["content-type"] == "application/json"
        said = json.loads(self.body)
        assert set(said) == {"detail", "code"}
        return said["code"]


class Peer:
    """The client side of a connection."""

    def __init__(self, connection: socket.socket, read: BinaryIO) -> None:
        self.socket = connection
        self._read = read

    def send(self, data: bytes) -> None:
        """Send all bytes, or until the server closes the connection."""
        with suppress(BrokenPipeError, ConnectionResetError):
            self.socket.sendall(data)

    def ask(self, data: bytes) -> Answer:
        self.send(data)
        return self.answer()

    def answer(self) -> Answer:
        """Read the next answer."""
        line = self._read.readline()
        assert line, "the connection was closed without an answer"
        headers: dict[str, str] = {}
        while (header := self._read.readline().strip()) != b"":
            name, _, value = header.decode("latin-1").partition(": ")
            headers[name] = value
        size = int(headers.get("content-length", 0))
        body = self._read.read(size)
        assert len(body) == size, "the connection was closed amid an answer"
        return Answer(int(line.split()[1]), headers, body)

    def rest(self) -> bytes:
        """Return what follows until the server closes the connection."""
        try:
            return self._read.read()
        except ConnectionResetError:
            return b""

    def is_closed(self) -> bool:
        """Return whether the server closes the connection without further bytes."""
        try:
            return self._read.read(1) == b""
        except ConnectionResetError:
            return True


async def hello(scope: Scope, receive: Receive, send: Send) -> None:
    """An app that answers with the path and reads no body."""
    await say(send, scope["path"].encode())


async def say(send: Send, body: bytes, status: int = 200) -> None:
    headers = [(b"content-length", b"%d" % len(body))]
    await send({"type": "http.response.start", "status": status, "headers": headers})
    await send({"type": "http.response.body", "body": body})
