"""Claims: of two processes that want the same answer, one pays, and the other reads it from the archive."""

from __future__ import annotations

import asyncio
import signal
import time
from collections.abc import Callable
from pathlib import Path

import pytest
from pydantic import SecretStr

from holderlake.core.archive.archive import AnswerArchive
from holderlake.core.contract.prices import MAP_BASE
from holderlake.core.contract.requests import MapRequest
from holderlake.core.provider.client import ProviderClient
from holderlake.core.provider.fetcher import Fetcher
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
from tests.helpers.misbehaving import Misbehaving, answer, held, token_map
from tests.helpers.postgres import PostgresServer
from tests.helpers.processes import PIPE, Process, event, start, wait_until

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


def another_process(where: Where) -> Process:
    """Another process, which reserves the cost of the same answer and does nothing more."""
    process = start(RESERVE, as_text(where), WANTED.answer or "", stdout=PIPE)
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


@pytest.mark.long
@pytest.mark.parametrize("new_where", ["sqlite", "postgresql"], indirect=True)
def test_a_fetch_waits_for_the_answer_that_another_process_fetches(where: Where, tmp_path: Path) -> None:
    async def work() -> None:
        async with Misbehaving([answer(token_map(), after=0.3)]) as server:
            processes = [
                start(FETCH, as_text(where), str(tmp_path / "archive"), server.address, stdout=PIPE) for _ in range(3)
            ]
            printed = [(await asyncio.to_thread(process.communicate))[0] for process in processes]
            assert sorted(printed) == ["0\n", "1\n", "1\n"]
            assert len(server.received) == 1
            with CreditLedger(where) as ledger:
                assert (ledger.totals().spent, ledger.totals().reserved) == (MAP_BASE, 0)

    asyncio.run(work())


@pytest.mark.integration
def test_a_fetch_waits_as_long_as_the_other_process_lives(where: Where, tmp_path: Path) -> None:
    async def work() -> None:
        async with Misbehaving([answer(token_map())]) as server, ProviderClient(server.address, None) as client:
            archive = AnswerArchive(tmp_path / "archive")
            request = MapRequest(chain="eth", token_address=f"0x{1:040x}")
            process = start(RESERVE, as_text(where), archive.key("them", request, None), stdout=PIPE)
            assert process.stdout is not None
            assert "Reservation" in process.stdout.readline()
            with process, CreditLedger(where) as ledger:
                fetching = asyncio.create_task(Fetcher(client, ledger, archive, "them", "run").fetch(request, None))
                await asyncio.sleep(0.3)
                assert not server.received
                process.send_signal(signal.SIGKILL)
                assert not (await fetching).from_archive
                assert (ledger.totals().spent, ledger.totals().reserved) == (MAP_BASE, 100)

    asyncio.run(work())


def test_a_fetch_that_waits_for_another_process_can_be_cancelled(where: Where, tmp_path: Path) -> None:
    async def work() -> None:
        async with Misbehaving([answer(token_map())]) as server, ProviderClient(server.address, None) as client:
            archive = AnswerArchive(tmp_path / "archive")
            request = MapRequest(chain="eth", token_address=f"0x{1:040x}")
            with CreditLedger(where) as ledger, CreditLedger(where) as other:
                claim = Reserve("other", "map", None, 100, answer=archive.key("them", request, None))
                assert isinstance(one(other, claim), Reservation)
                fetching = asyncio.create_task(Fetcher(client, ledger, archive, "them", "run").fetch(request, None))
                await asyncio.sleep(0.05)
                fetching.cancel()
                with pytest.raises(asyncio.CancelledError):
                    await fetching
                assert ledger.totals().reserved == 100
                assert not server.received

    asyncio.run(work())


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


def test_a_connection_that_breaks_during_a_call_loses_nothing(postgres_server: PostgresServer, tmp_path: Path) -> None:
    async def work() -> None:
        is_broken = asyncio.Event()
        slow = held(answer(token_map()), is_broken)
        async with Misbehaving([slow]) as server, ProviderClient(server.address, None) as client:
            with CreditLedger(where) as ledger:
                provider = Fetcher(client, ledger, AnswerArchive(tmp_path / "archive"), "them", "run")
                request = MapRequest(chain="eth", token_address=f"0x{1:040x}")
                fetching = asyncio.create_task(provider.fetch(request, None))
                await event(lambda: server.received)
                await asyncio.to_thread(postgres_server.end_sessions, name)
                is_broken.set()
                assert (await fetching).cost == MAP_BASE
                assert (ledger.totals().spent, ledger.totals().reserved) == (MAP_BASE, 0)

    url = postgres_server.new_database()
    name = url.rpartition("/")[2]
    where = Postgres(SecretStr(url), tmp_path / "ledger.sqlite")
    asyncio.run(work())


@pytest.mark.long
def test_an_answer_is_kept_if_the_database_stays_away(tmp_path: Path, own_postgres: PostgresServer) -> None:
    async def work() -> None:
        is_down = asyncio.Event()
        slow = held(answer(token_map()), is_down)
        async with Misbehaving([slow]) as server, ProviderClient(server.address, None) as client:
            archive = AnswerArchive(tmp_path / "archive")
            request = MapRequest(chain="eth", token_address=f"0x{1:040x}")
            with CreditLedger(where) as ledger:
                fetching = asyncio.create_task(Fetcher(client, ledger, archive, "them", "run").fetch(request, None))
                await event(lambda: server.received)
                await asyncio.to_thread(own_postgres.stop)
                is_down.set()
                with pytest.raises(DatabaseError, match="then try again"):
                    await fetching
                await asyncio.to_thread(own_postgres.start)
                again = await Fetcher(client, ledger, archive, "them", "next run").fetch(request, None)
                assert again.from_archive
                assert len(server.received) == 1
                assert (ledger.totals().spent, ledger.totals().reserved) == (0, MAP_BASE)

    where = Postgres(SecretStr(own_postgres.url()), tmp_path / "ledger.sqlite", bridged_seconds=0.2)
    asyncio.run(work())
