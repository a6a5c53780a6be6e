"""The service's speed: cached maps against the same server with a constant answer, and memory over many.

    python -m benchmarks.service [--seconds 5] [--clients 64] [--distinct 10000]

One run, one machine: the service and the constant server run side by side, each in a separate process with the same
event loop and protocol; the load comes from a third process and goes to them in turns.
"""

from __future__ import annotations

import argparse
import asyncio
import multiprocessing
import os
import random
import socket
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path

import httpx
import uvloop

from holderlake.core.contract.prices import CREDIT
from holderlake.core.contract.times import to_unix
from holderlake.engine.store.store import Store
from holderlake.service.billing.keys import KeyStore
from holderlake.sources.sample_world import sample_period, sample_store

ROOT = Path(__file__).parents[1]
ROUNDS = 3

_SERVICE = """
import sys
from pathlib import Path
from holderlake.engine.store.store import Store
from holderlake.service.app import create_app
from holderlake.service.billing.keys import KeyStore
from holderlake.service.runtime.server import listen, serve_app
from holderlake.service.settings import ServiceSettings
settings = ServiceSettings(calls_per_minute=10**9, cache_megabytes=64)
with Store(Path(sys.argv[1])) as store, KeyStore(Path(sys.argv[2])) as keys:
    serve_app(create_app(store, keys, settings), listen("127.0.0.1", int(sys.argv[3])), settings, "off")
"""

_CONSTANT = """
import sys
from pathlib import Path
import uvicorn
from fastapi import FastAPI, Response
from holderlake.presentation.protocol import FirstRequestInTime
body = Path(sys.argv[1]).read_bytes()
app = FastAPI()
@app.get("/constant")
async def constant() -> Response:
    return Response(body, media_type="application/json")
uvicorn.run(app, host="127.0.0.1", port=int(sys.argv[2]), access_log=False, log_level="error",
            http=FirstRequestInTime, ws="none", proxy_headers=False, server_header=False)
"""


@dataclass
class Load:
    """Result of a load: answers per second, the server's CPU seconds per answer, and the seconds of each answer."""

    rate: float = 0.0
    cpu: float = 0.0
    seconds: list[float] = field(default_factory=list)

    def percentile(self, part: float) -> float:
        """Return the milliseconds within which this part of the answers (0 to 1) arrived."""
        ordered = sorted(self.seconds)
        return 1_000 * ordered[min(len(ordered) - 1, int(part * len(ordered)))]


class _Caller(asyncio.Protocol):
    """A connection that sends the next request as soon as an answer is complete."""

    def __init__(self, requests: Iterator[bytes], load: Load, done: asyncio.Future[None]) -> None:
        self._requests = requests
        self._load = load
        self._done = done
        self._held = b""
        self._due = -1
        self._sent = 0.0

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self._transport = transport
        self._next()

    def data_received(self, data: bytes) -> None:
        if self._due < 0:
            self._held += data
            end = self._held.find(b"\r\n\r\n")
            if end < 0:
                return
            head = self._held[:end].lower()
            if not head.startswith(b"http/1.1 200"):
                raise RuntimeError(self._held[:300].decode(errors="replace"))
            start = head.index(b"content-length:") + 15
            length = int(head[start : head.index(b"\r", start) if b"\r" in head[start:] else None])
            self._due = length - (len(self._held) - end - 4)
            self._held = b""
        else:
            self._due -= len(data)
        if self._due == 0:
            self._load.seconds.append(time.perf_counter() - self._sent)
            self._next()

    def _next(self) -> None:
        self._due = -1
        request = next(self._requests, None)
        if request is None:
            self._transport.close()
            if not self._done.done():
                self._done.set_result(None)
            return
        self._sent = time.perf_counter()
        self._transport.write(request)  # type: ignore[attr-defined]

    def connection_lost(self, error: Exception | None) -> None:
        if not self._done.done():
            self._done.set_exception(error or ConnectionError("the server closed the connection"))


def request_bytes(path: str, secret: str = "") -> bytes:
    """Return the bytes of a GET request for ``path``, with an API key (``secret``) if one is given."""
    return f"GET {path} HTTP/1.1\r\nHost: localhost\r\nX-ApiKey: {secret}\r\n\r\n".encode()


def run_load(port: int, requests: Sequence[bytes], clients: int, seconds: float | None) -> Load:
    """Send the requests from ``clients`` connections: repeatedly for ``seconds``, or each once if that is None.

    It runs in a separate process.
    """
    receive, send = multiprocessing.Pipe(duplex=False)
    process = multiprocessing.Process(target=_load_process, args=(send, port, requests, clients, seconds))
    process.start()
    load = receive.recv()
    process.join()
    if isinstance(load, Exception):
        raise load
    assert isinstance(load, Load)
    return load


def _load_process(send, port, requests, clients, seconds) -> None:  # type: ignore[no-untyped-def]
    try:
        send.send(uvloop.run(_load(port, requests, clients, seconds)))
    except Exception as error:
        send.send(RuntimeError(repr(error)))


async def _load(port: int, requests: Sequence[bytes], clients: int, seconds: float | None) -> Load:
    load = Load()
    loop = asyncio.get_running_loop()
    started = time.perf_counter()

    def stream() -> Iterator[bytes]:
        if seconds is None:
            yield from requests
            return
        while time.perf_counter() - started < seconds:
            yield from requests

    shared = stream()
    waits = []
    for _ in range(clients):
        done: asyncio.Future[None] = loop.create_future()
        await loop.create_connection(lambda done=done: _Caller(shared, load, done), "127.0.0.1", port)  # type: ignore[misc]
        waits.append(done)
    await asyncio.gather(*waits)
    load.rate = len(load.seconds) / (time.perf_counter() - started)
    return load


@contextmanager
def _server(script: str, *arguments: str) -> Iterator[tuple[int, int]]:
    """Start a server in a separate process; yield its port and its process id."""
    with socket.create_server(("127.0.0.1", 0)) as free:
        port = free.getsockname()[1]
    process = subprocess.Popen([sys.executable, "-c", script, *arguments, str(port)], cwd=ROOT)
    try:
        for _ in range(600):
            try:
                httpx.get(f"http://127.0.0.1:{port}/")
                break
            except httpx.TransportError:
                time.sleep(0.05)
        yield port, process.pid
    finally:
        process.terminate()
        process.wait()


def _memory(pid: int) -> float:
    """Return the resident memory of a process in MB."""
    pages = int(Path(f"/proc/{pid}/statm").read_text().split()[1])
    return pages * 4_096 / 1e6


def main() -> None:
    """Run all steps and print the results."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--seconds", type=float, default=5.0, help="length of a round")
    parser.add_argument("--clients", type=int, default=64)
    parser.add_argument("--distinct", type=int, default=10_000, help="different requests for the memory's growth")
    chosen = parser.parse_args()
    with tempfile.TemporaryDirectory() as temporary:
        _measure(Path(temporary), chosen.seconds, chosen.clients, chosen.distinct)


def _measure(folder: Path, seconds: float, clients: int, distinct: int) -> None:
    store = sample_store(folder)
    with Store(store) as opened:
        largest = max(opened.histories(), key=lambda history: history.transfers)
    with KeyStore(folder / "accounts.sqlite") as keys:
        secret = keys.create("benchmark", 10**12 * CREDIT, custom_plan=True)
    token = f"{largest.chain}/{largest.token_address}"
    path = f"/v0/tokens/map/{token}?return_nodes=true&return_relationships=true"
    with _server(_SERVICE, str(store), str(folder / "accounts.sqlite")) as (port, pid):
        body = httpx.get(f"http://127.0.0.1:{port}{path}", headers={"X-ApiKey": secret}, timeout=None).content
        (folder / "body").write_bytes(body)
        with _server(_CONSTANT, str(folder / "body")) as constant:
            _rates((port, pid), constant, request_bytes(path, secret), len(body), clients, seconds)
        _latencies(port, token, secret)
        _growth(port, pid, token, secret, clients, distinct)


Server = tuple[int, int]
"""Port and process id of a server."""


def _rates(service: Server, constant: Server, request: bytes, size: int, clients: int, seconds: float) -> None:
    rounds: list[tuple[Load, Load]] = []
    for _ in range(ROUNDS):
        answers = [(constant, request_bytes("/constant")), (service, request)]
        plain, cached = (_loaded(server, one, clients, seconds) for server, one in answers)
        rounds.append((plain, cached))
    best = [max(loads, key=lambda load: load.rate) for loads in zip(*rounds, strict=True)]
    cpu = [min(load.cpu for load in loads) for loads in zip(*rounds, strict=True)]
    print(f"body of {size:,} bytes, {clients} connections, best of {ROUNDS} rounds of {seconds:g} s")
    for name, load, one in zip(("constant answer", "cached map"), best, cpu, strict=True):
        print(f"  {name:<21} {load.rate:10,.0f} a second {1e6 * one:10,.0f} us of CPU")
    print(f"  ratio                 {best[1].rate / best[0].rate:10.2f}          {cpu[0] / cpu[1]:10.2f} (goal: 0.35)")
    print(f"  cached, under load    {best[1].percentile(0.5):10.1f} ms median, {best[1].percentile(0.99):.1f} ms 99th")


def _loaded(server: Server, request: bytes, clients: int, seconds: float) -> Load:
    port, pid = server
    before = _cpu_seconds(pid)
    load = run_load(port, [request], clients, seconds)
    load.cpu = (_cpu_seconds(pid) - before) / len(load.seconds)
    return load


def _cpu_seconds(pid: int) -> float:
    """Return the CPU seconds (user and system) that a process has used."""
    fields = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
    return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")


def _latencies(port: int, token: str, secret: str) -> None:
    start, end = (to_unix(instant) for instant in sample_period())
    chance = random.Random(1)
    kept = request_bytes(f"/v0/tokens/map/{token}?return_nodes=true&timestamp={end}", secret)
    run_load(port, [kept], 1, None)
    cached = run_load(port, [kept] * 500, 1, None)
    span = end - (start + end) // 2
    asked = [
        request_bytes(f"/v0/tokens/map/{token}?return_nodes=true&timestamp={end - second}", secret)
        for second in chance.sample(range(span), 100)
    ]
    uncached = run_load(port, asked, 1, None)
    print("one caller at a time")
    for name, load in (("cached map", cached), ("map never asked for", uncached)):
        print(f"  {name:<21} {load.percentile(0.5):10.1f} ms median, {load.percentile(0.99):.1f} ms 99th")


def _growth(port: int, pid: int, token: str, secret: str, clients: int, distinct: int) -> None:
    _, end = (to_unix(instant) for instant in sample_period())
    print(f"memory over {distinct:,} different lists of holders, with a cache of 64 MB")
    quarter = max(1, distinct // 4)
    for number in range(4):
        asked = [
            request_bytes(f"/v0/tokens/holders/{token}?limit=500&timestamp={end - second}", secret)
            for second in range(number * quarter, (number + 1) * quarter)
        ]
        load = run_load(port, asked, clients, None)
        print(f"  after {(number + 1) * quarter:>7,}         {_memory(pid):10,.0f} MB   ({load.rate:,.0f} a second)")


if __name__ == "__main__":
    main()
