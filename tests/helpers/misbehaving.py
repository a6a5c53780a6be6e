"""A scripted HTTP server on loopback, with correct and faulty answers."""

from __future__ import annotations

import asyncio
import json
import socket
import struct
import threading
from collections.abc import Awaitable, Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from types import TracebackType
from typing import Any, Self

Step = Callable[[asyncio.StreamReader, asyncio.StreamWriter], Awaitable[None]]

CHAINS = [{"id": "eth", "name": "Ethereum", "dexscreener_id": None, "coingecko_id": None}]


@dataclass(frozen=True)
class Received:
    """A received request."""

    method: str
    target: str
    headers: dict[str, str]
    body: bytes
    connection: int


@dataclass
class Misbehaving:
    """Plays one step a request: those of a list in order, with the last one repeated, or what a function chooses.

    The function gets the request, and runs in a thread of its own, so that it may wait.
    """

    steps: list[Step] | Callable[[Received], Step]
    received: list[Received] = field(default_factory=list)
    address: str = ""
    _server: asyncio.Server | None = None
    _conversations: set[asyncio.Task[None]] = field(default_factory=set)

    async def __aenter__(self) -> Self:
        self._server = await asyncio.start_server(self._converse, "127.0.0.1", 0)
        self.address = f"http://127.0.0.1:{self._server.sockets[0].getsockname()[1]}"
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        assert self._server is not None
        self._server.close()
        for task in self._conversations:
            task.cancel()
        await asyncio.gather(*self._conversations, return_exceptions=True)
        await self._server.wait_closed()

    async def _converse(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        task = asyncio.current_task()
        assert task is not None
        self._conversations.add(task)
        try:
            while not writer.is_closing():
                self.received.append(await _request(reader, id(writer)))
                await (await self._next_step(self.received[-1]))(reader, writer)
        except (asyncio.IncompleteReadError, ConnectionError, asyncio.CancelledError):
            pass
        finally:
            writer.close()
            self._conversations.discard(task)

    async def _next_step(self, request: Received) -> Step:
        if callable(self.steps):
            return await asyncio.to_thread(self.steps, request)
        return self.steps.pop(0) if len(self.steps) > 1 else self.steps[0]


@contextmanager
def scripted(*steps: Step, choose: Callable[[Received], Step] | None = None) -> Iterator[Misbehaving]:
    """Run the server in a thread until the block ends, with its steps or the function that chooses them."""
    loop, server = asyncio.new_event_loop(), Misbehaving(choose or list(steps))
    thread = threading.Thread(target=loop.run_forever)
    thread.start()
    try:
        asyncio.run_coroutine_threadsafe(server.__aenter__(), loop).result()
        yield server
    finally:
        asyncio.run_coroutine_threadsafe(server.__aexit__(None, None, None), loop).result()
        loop.call_soon_threadsafe(loop.stop)
        thread.join()
        loop.close()


async def _request(reader: asyncio.StreamReader, connection: int) -> Received:
    head = (await reader.readuntil(b"\r\n\r\n")).decode("latin-1").split("\r\n")
    method, target, _ = head[0].split(" ")
    headers = {name.lower(): value for name, value in (line.split(": ", 1) for line in head[1:] if line)}
    body = await reader.readexactly(int(headers.get("content-length", 0)))
    return Received(method, target, headers, body, connection)


def answer(body: Any, status: int = 200, headers: dict[str, str] | None = None, after: float = 0.0) -> Step:
    """An orderly answer; ``body`` is JSON, or bytes as they are. ``after``: seconds before the answer."""
    raw = body if isinstance(body, bytes) else json.dumps(body).encode()
    lines = [f"HTTP/1.1 {status} Whatever", f"Content-Length: {len(raw)}"]
    lines += [f"{name}: {value}" for name, value in (headers or {}).items()]

    async def step(_: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await asyncio.sleep(after)
        writer.write("\r\n".join(lines).encode() + b"\r\n\r\n" + raw)
        await writer.drain()

    return step


def held(step: Step, until: asyncio.Event) -> Step:
    """Plays a step when the event is set."""

    async def later(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await until.wait()
        await step(reader, writer)

    return later


def error(status: int, code: str | None = None, detail: Any = "words", **headers: str) -> Step:
    """An error of the contract."""
    body = {"detail": detail} | ({"code": code} if code else {})
    return answer(body, status, {name.replace("_", "-"): value for name, value in headers.items()})


def reset() -> Step:
    """Resets the connection instead of answering."""

    async def step(_: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        linger = struct.pack("ii", 1, 0)
        writer.get_extra_info("socket").setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, linger)
        writer.transport.abort()

    return step


def silence() -> Step:
    """Never answers."""

    async def step(reader: asyncio.StreamReader, _: asyncio.StreamWriter) -> None:
        await reader.read()

    return step


def half(body: Any, headers: dict[str, str] | None = None) -> Step:
    """Announces a complete answer, sends half of it and closes the connection."""
    raw = json.dumps(body).encode()
    lines = [f"Content-Length: {len(raw)}", *(f"{name}: {value}" for name, value in (headers or {}).items())]

    async def step(_: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        writer.write("\r\n".join(["HTTP/1.1 200 OK", *lines]).encode() + b"\r\n\r\n" + raw[: len(raw) // 2])
        await writer.drain()
        writer.close()

    return step


def endless() -> Step:
    """Sends an answer in chunks that never ends."""

    async def step(_: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        writer.write(b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n")
        while True:
            writer.write(b"4000\r\n" + b" " * 0x4000 + b"\r\n")
            await writer.drain()

    return step


def sends(*parts: bytes) -> Step:
    """Sends parts of bytes one after another, and closes the connection."""

    async def step(_: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        for part in parts:
            writer.write(part)
            await writer.drain()
            await asyncio.sleep(0.05 if len(parts) > 1 else 0)
        writer.close()

    return step


def drip() -> Step:
    """Sends a byte now and then, for ever, so that no single read times out."""

    async def step(_: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        writer.write(b"HTTP/1.1 200 OK\r\nContent-Length: 100000\r\n\r\n")
        while True:
            writer.write(b" ")
            await writer.drain()
            await asyncio.sleep(0.05)

    return step


def details(**changed: Any) -> dict[str, Any]:
    """Details of an address."""
    return {
        "degree": 3,
        "inward_relations": 1,
        "outward_relations": 2,
        "is_supernode": False,
        "is_contract": False,
        "is_cex": False,
        "is_dex": False,
        "label": None,
        "entity_id": None,
        "first_activity_date": None,
        "is_paid_label": False,
    } | changed


def token_map(score: float | None = 51.5, relationships: list[Any] | None = None) -> dict[str, Any]:
    """A small map."""
    return {
        "metadata": {"dt_update": "2026-11-20T00:00:00.000000", "ts_update": 1795132800},
        "metrics": {
            "supply_stats": dict.fromkeys(
                ("cexs", "dexs", "contracts", "fresh_wallets", "top_10_adjusted", "bundles"), 0.25
            ),
            "scores": {
                "service_score": score,
                "gini_index": 0.5,
                "herfindahl_hirschman_index": 0.1,
                "nakamoto_coefficient": 2,
            },
        },
        "nodes": None,
        "relationships": relationships,
        "clusters": [],
    }
