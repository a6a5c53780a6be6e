"""How many calls are under way follows what a provider can do: real calls to servers that are slow in their own way."""

from __future__ import annotations

import asyncio

import pytest

from holderlake.contract.requests import ChainsRequest
from holderlake.provider.client import ProviderClient
from holderlake.provider.concurrency import Gate
from holderlake.provider.errors import ProviderError
from tests.provider.misbehaving import CHAINS, Misbehaving, Step, answer, error

OK = answer(CHAINS)


def limit_after(step: Step, calls: int, **options: int) -> int:
    """How many calls may be under way after so many."""

    async def play() -> int:
        async with Misbehaving([step]) as server, ProviderClient(server.address, None, attempts=1, **options) as client:
            asked = [client.ask(ChainsRequest()) for _ in range(calls)]
            for outcome in await asyncio.gather(*asked, return_exceptions=True):
                assert not isinstance(outcome, BaseException) or isinstance(outcome, ProviderError)
            return client.pace.limit

    return asyncio.run(play())


def one_at_a_time() -> Step:
    busy = asyncio.Lock()
    slow = answer(CHAINS, after=0.015)  # much more than what a busy machine adds

    async def step(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        async with busy:
            await slow(reader, writer)

    return step


def test_a_provider_that_is_slow_but_never_slower_is_asked_for_ever_more_at_once() -> None:
    assert limit_after(answer(CHAINS, after=0.25), 400) > 80


def test_a_provider_that_answers_one_after_the_other_is_not_asked_for_more() -> None:
    assert limit_after(one_at_a_time(), 120) <= 60


def test_there_are_never_more_than_allowed() -> None:
    assert limit_after(answer(CHAINS, after=0.1), 200, concurrency=30) == 30


def test_a_provider_in_trouble_is_asked_for_fewer() -> None:
    assert limit_after(error(503), 40) < 10


def test_one_call_at_a_time_stays_possible() -> None:
    assert limit_after(error(503), 20, concurrency=1) == 1


def test_a_gate_lets_in_as_many_as_it_says_first_come_first_served() -> None:
    order: list[int] = []

    async def play() -> None:
        limit = 2
        gate = Gate(lambda: limit)

        async def enter(number: int) -> None:
            async with gate.turn():
                order.append(number)
                assert gate.inside <= limit
                await asyncio.sleep(0.01)

        tasks = [asyncio.create_task(enter(number)) for number in range(6)]
        await asyncio.sleep(0)
        assert order == [0, 1]
        limit = 3
        await asyncio.gather(*tasks)
        assert gate.inside == 0

    asyncio.run(play())
    assert order == [0, 1, 2, 3, 4, 5]


@pytest.mark.parametrize("its_turn", [True, False])
def test_who_gives_up_waiting_keeps_nobody_out(its_turn: bool) -> None:
    async def play() -> None:
        gate = Gate(lambda: 1)

        async def hold() -> None:
            async with gate.turn():
                await asyncio.sleep(0.01)

        first, second, third = (asyncio.create_task(hold()) for _ in range(3))
        await asyncio.sleep(0)
        if its_turn:
            await first
        second.cancel()
        await asyncio.gather(first, second, third, return_exceptions=True)
        assert third.exception() is None
        assert gate.inside == 0

    asyncio.run(play())
