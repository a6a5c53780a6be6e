"""Concurrent clients on one allowance: exact charges, also when a process is killed."""

from __future__ import annotations

import asyncio
import socket
from collections import Counter
from collections.abc import Iterator, Sequence
from contextlib import ExitStack, contextmanager
from functools import partial
from pathlib import Path

import httpx
import pytest
from pydantic import SecretStr

from holderlake.service.billing.keys import KeyStore, postgresql_place
from tests.helpers import processes
from tests.helpers.processes import Process

pytestmark = pytest.mark.long

CLIENTS = 64
SECRET = b"a secret of sixteen bytes at least"

_SERVE = """
import sys
from pathlib import Path
from pydantic import SecretStr
from holderlake.engine.store.store import Store
from holderlake.service.app import create_app
from holderlake.service.billing.keys import KeyStore, postgresql_place
from holderlake.service.runtime.server import listen, serve_app
from holderlake.service.settings import ServiceSettings
folder, where, secret, port = sys.argv[1:]
settings = ServiceSettings(answer_seconds=900)
where = postgresql_place(SecretStr(where), Path(folder) / "keys") if "://" in where else Path(where)
with Store(Path(folder)) as store, KeyStore(where, bytes.fromhex(secret)) as keys:
    serve_app(create_app(store, keys, settings), listen("127.0.0.1", int(port)), settings, "off")
"""


@pytest.fixture(params=["sqlite", "postgresql"])
def ledger(request: pytest.FixtureRequest, tmp_path: Path) -> str:
    """The database of keys, shared by several processes."""
    if request.param == "postgresql":
        return str(request.getfixturevalue("postgres_url"))
    return str(tmp_path / "accounts.sqlite")


@pytest.fixture
def keys(ledger: str, tmp_path: Path) -> Iterator[KeyStore]:
    place = postgresql_place(SecretStr(ledger), tmp_path / "keys") if "://" in ledger else Path(ledger)
    with KeyStore(place, SECRET) as opened:
        yield opened


@contextmanager
def _processes(folder: Path, ledger: str, count: int) -> Iterator[list[tuple[str, Process]]]:
    """Start services in their own processes over one store and one key database; yield their URLs and processes."""
    with ExitStack() as stack:
        started = []
        for _ in range(count):
            with socket.create_server(("127.0.0.1", 0)) as free:
                port = free.getsockname()[1]
            arguments = [str(folder), ledger, SECRET.hex(), str(port)]
            process = processes.start(_SERVE, *arguments, stderr=processes.DEVNULL)
            stack.callback(process.wait)
            stack.callback(process.kill)
            started.append((f"http://127.0.0.1:{port}", process))
        for base_url, process in started:
            processes.wait_until(partial(httpx.get, f"{base_url}/health", verify=False), process)
        yield started


async def _ask(base_urls: Sequence[str], secret: str, requests: int, victim: Process) -> Counter[str]:
    """Return the outcomes of requests by 64 concurrent clients over all services; kill the victim midway."""
    outcomes: Counter[str] = Counter()
    left = iter(range(requests))
    async with httpx.AsyncClient(headers={"X-ApiKey": secret}, timeout=None) as http:

        async def client() -> None:
            for number in left:
                if number == requests // 4:
                    victim.kill()
                    victim.wait()  # the other process notices an end once a second
                try:
                    answer = await http.get(f"{base_urls[number % len(base_urls)]}/v0/chains")
                    outcomes["200" if answer.status_code == 200 else answer.json()["code"]] += 1
                except httpx.TransportError:
                    outcomes["no answer"] += 1

        await asyncio.gather(*(client() for _ in range(CLIENTS)))
    return outcomes


def _spent(keys: KeyStore, secret: str) -> int:
    key = keys.find(secret)
    assert key is not None
    return keys.balance(key.id).spent


def test_killed_process_bills_no_unanswered_request(world, ledger, keys):
    covered, asked = 150, 500
    secret = keys.create("crowd", covered)
    with _processes(world.store.root, ledger, 2) as services:
        victim = services[0][1]
        outcomes = asyncio.run(_ask([base_url for base_url, _ in services], secret, asked, victim))
        services[1][1].terminate()
        services[1][1].wait()
    assert outcomes["no answer"] > 0  # it was killed in the middle
    assert outcomes["credits_exhausted"] > 0
    assert _spent(keys, secret) == covered
    assert covered <= outcomes["200"] <= covered + CLIENTS
