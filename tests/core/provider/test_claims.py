"""Claims: of two processes that want the same answer, one pays, and the other reads it from the archive."""

from __future__ import annotations

import asyncio
import signal
import time
from collections.abc import AsyncIterator, Callable, Coroutine
from contextlib import asynccontextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest
from pydantic import SecretStr

from holderlake.core.archive.archive import AnswerArchive
from holderlake.core.contract.prices import MAP_BASE
from holderlake.core.contract.requests import MapRequest
from holderlake.core.provider.client import ProviderClient
from holderlake.core.provider.fetcher import Fetcher, Response
from holderlake.core.provider.ledger.entries import (
    Claimed,
    MarkBroken,
    Operation,
    Release,
    Reservation,
    Reserve,
    Settle,
)
from holderlake.core.provider.ledger.ledger import CreditLedger
from holderlake.core.storage.postgresql import Postgres
from holderlake.core.storage.sqlite import DatabaseError
from holderlake.core.storage.state import Where
from tests.core.provider.conftest import as_text
from tests.helpers.misbehaving import Misbehaving, Step, answer, held, token_map
from tests.helpers.postgres import PostgresServer
from tests.helpers.processes import PIPE, Process, event, start, wait_until

pytestmark = pytest.mark.anyio
WANTED = Reserve("run", "map", "eth/0xaa", 100, answer="a" * 64)

RESERVE = """
import sys, time
from tests.core.provider.conftest import place_of
from holderlake.core.provider.ledger.entries import Reserve
from holderlake.core.provider.ledger.ledger import CreditLedger
ledger = CreditLedger(place_of(sys.argv[1]))
print(ledger.apply([Reserve("other", "map", "eth/0xaa", 100, answer=sys.argv[2])]), flush=True)
time.sleep(600)
"""
FETCH = """
import asyncio, sys
from pathlib import Path
from holderlake.core.archive.archive import AnswerArchive
from holderlake.core.contract.requests import MapRequest
from holderlake.core.provider.client import ProviderClient
from holderlake.core.provider.fetcher import Fetcher
from holderlake.core.provider.ledger.ledger import CreditLedger
from tests.core.provider.conftest import place_of

async def main(where, archive, address):
    async with ProviderClient(address, None) as client:
        with CreditLedger(where) as ledger:
            provider = Fetcher(client, ledger, AnswerArchive(archive), "them", "run")
            request = MapRequest(chain="eth", token_address="0x" + "0" * 39 + "1")
            print(int((await provider.fetch(request, None)).from_archive))

asyncio.run(main(place_of(sys.argv[1]), *sys.argv[2:]))
"""


def one(ledger: CreditLedger, operation: Operation) -> object:
    (result,) = ledger.apply([operation])
    return result


def entry(ledger: CreditLedger) -> int:
    reserved = one(ledger, WANTED)
    assert isinstance(reserved, Reservation)
    return reserved.entry


def another_process(where: Where, answer: str = "a" * 64) -> Process:
    """Another process, which reserves the cost of the same answer and does nothing more."""
    process = start(RESERVE, as_text(where), answer, stdout=PIPE)
    assert process.stdout is not None
    assert "Reservation" in process.stdout.readline()
    return process


@pytest.mark.later(integration=2)
@pytest.mark.parametrize(
    "close", [lambda entry: Settle(entry, 90), Release, lambda entry: MarkBroken(entry, "timeout")]
)
def test_an_answer_is_claimed_until_its_call_is_closed(where: Where, close: Callable[[int], Operation]) -> None:
    with CreditLedger(where) as ledger, CreditLedger(where) as other:
        first = entry(ledger)
        assert [one(each, WANTED) for each in (ledger, other)] == [Claimed(), Claimed()]
        assert isinstance(one(other, Reserve("run", "map", "eth/0xbb", 100, answer="b" * 64)), Reservation)
        one(ledger, close(first))
        entry(other)


def test_of_two_reservations_in_one_batch_one_claims_the_answer(where: Where) -> None:
    with CreditLedger(where) as ledger:
        first, second = ledger.apply([WANTED, WANTED])
        assert isinstance(first, Reservation)
        assert second == Claimed()
        assert ledger.totals().reserved == 100


@pytest.mark.later(integration=1)
def test_a_killed_process_claims_nothing_and_its_credits_count(where: Where) -> None:
    process = another_process(where)
    with process, CreditLedger(where) as ledger:
        assert one(ledger, WANTED) == Claimed()
        assert ledger.totals().reserved == 100
        process.kill()
        process.wait()
        entry(ledger)
        assert ledger.totals().reserved == 200


@pytest.mark.integration
def test_a_process_ends_the_claims_of_processes_that_were_killed_before(where: Where, tmp_path: Path) -> None:
    with another_process(where) as process:
        process.kill()
    with CreditLedger(where) as ledger:
        assert len(list(tmp_path.rglob("*.running"))) == 1
        entry(ledger)
        assert len(list(tmp_path.rglob("*.running"))) == 1, "its own"
    assert not list(tmp_path.rglob("*.running"))


REQUEST = MapRequest(chain="eth", token_address=f"0x{1:040x}")


@dataclass(frozen=True)
class Fetching:
    """A fetcher, its ledger and archive, and the server that answers it."""

    server: Misbehaving
    client: ProviderClient
    ledger: CreditLedger
    archive: AnswerArchive

    def fetch(self, run: str = "run") -> Coroutine[Any, Any, Response]:
        return Fetcher(self.client, self.ledger, self.archive, "them", run).fetch(REQUEST, None)

    def books(self) -> tuple[int, int]:
        """Spent and reserved."""
        return self.ledger.totals().spent, self.ledger.totals().reserved


@asynccontextmanager
async def fetching(where: Where, folder: Path, step: Step) -> AsyncIterator[Fetching]:
    async with Misbehaving([step]) as server, ProviderClient(server.address, None) as client:
        with CreditLedger(where) as ledger:
            yield Fetching(server, client, ledger, AnswerArchive(folder / "archive"))


@pytest.mark.long
@pytest.mark.parametrize("new_where", ["sqlite", "postgresql"], indirect=True)
async def test_a_fetch_waits_for_the_answer_that_another_process_fetches(where: Where, tmp_path: Path) -> None:
    async with fetching(where, tmp_path, answer(token_map(), after=0.3)) as here:
        arguments = (as_text(where), str(tmp_path / "archive"), here.server.address)
        processes = [start(FETCH, *arguments, stdout=PIPE) for _ in range(3)]
        printed = [(await asyncio.to_thread(process.communicate))[0] for process in processes]
        assert sorted(printed) == ["0\n", "1\n", "1\n"]
        assert len(here.server.received) == 1
        assert here.books() == (MAP_BASE, 0)


@pytest.mark.integration
async def test_a_fetch_waits_as_long_as_the_other_process_lives(where: Where, tmp_path: Path) -> None:
    async with fetching(where, tmp_path, answer(token_map())) as here:
        with another_process(where, here.archive.key("them", REQUEST, None)) as process:
            fetch = asyncio.create_task(here.fetch())
            await asyncio.sleep(0.3)
            assert not here.server.received
            process.send_signal(signal.SIGKILL)
            assert not (await fetch).from_archive
            assert here.books() == (MAP_BASE, 100)


async def test_a_fetch_that_waits_for_another_process_can_be_cancelled(where: Where, tmp_path: Path) -> None:
    async with fetching(where, tmp_path, answer(token_map())) as here:
        with CreditLedger(where) as other:
            claim = Reserve("other", "map", None, 100, answer=here.archive.key("them", REQUEST, None))
            assert isinstance(one(other, claim), Reservation)
            fetch = asyncio.create_task(here.fetch())
            await asyncio.sleep(0.05)
            fetch.cancel()
            with pytest.raises(asyncio.CancelledError):
                await fetch
            assert here.books() == (0, 100)
            assert not here.server.received


@pytest.mark.long
def test_another_host_takes_over_the_claims_of_a_silent_one(postgres_server: PostgresServer, tmp_path: Path) -> None:
    def host(name: str) -> Postgres:
        return Postgres(SecretStr(url), tmp_path / name / "ledger.sqlite", "state", lease_seconds=2.0)

    url = postgres_server.new_database()
    process = another_process(host("one"))
    with process, CreditLedger(host("other")) as ledger:
        until = time.monotonic() + 3.0
        while time.monotonic() < until:  # its heartbeat keeps the claim
            assert one(ledger, WANTED) == Claimed()
            time.sleep(0.2)
        process.kill()
        assert one(ledger, WANTED) == Claimed()
        wait_until(lambda: one(ledger, WANTED) != Claimed())
        assert ledger.totals().reserved == 200


async def test_a_connection_that_breaks_during_a_call_loses_nothing(
    postgres_server: PostgresServer, tmp_path: Path
) -> None:
    url, is_broken = postgres_server.new_database(), asyncio.Event()
    where = Postgres(SecretStr(url), tmp_path / "ledger.sqlite")
    async with fetching(where, tmp_path, held(answer(token_map()), is_broken)) as here:
        fetch = asyncio.create_task(here.fetch())
        await event(lambda: here.server.received)
        await asyncio.to_thread(postgres_server.end_sessions, url.rpartition("/")[2])
        is_broken.set()
        assert (await fetch).cost == MAP_BASE
        assert here.books() == (MAP_BASE, 0)


@pytest.mark.long
async def test_an_answer_is_kept_if_the_database_stays_away(tmp_path: Path, own_postgres: PostgresServer) -> None:
    where = Postgres(SecretStr(own_postgres.url()), tmp_path / "ledger.sqlite", bridged_seconds=0.2)
    is_down = asyncio.Event()
    async with fetching(where, tmp_path, held(answer(token_map()), is_down)) as here:
        fetch = asyncio.create_task(here.fetch())
        await event(lambda: here.server.received)
        await asyncio.to_thread(own_postgres.stop)
        is_down.set()
        with pytest.raises(DatabaseError, match="then try again"):
            await fetch
        await asyncio.to_thread(own_postgres.start)
        assert (await here.fetch("next run")).from_archive
        assert len(here.server.received) == 1
        assert here.books() == (0, MAP_BASE)
