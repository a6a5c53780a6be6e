"""The number of calls that may be open at a time follows the provider's latency."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from contextlib import ExitStack

import pytest

from holderlake.core.contract.requests import ChainsRequest
from holderlake.core.provider.client import ProviderClient
from holderlake.core.provider.errors import Unavailable
from holderlake.core.provider.limiter import Limiter, Slots
from tests.helpers.misbehaving import Misbehaving, error

pytestmark = pytest.mark.anyio


def limit_after(latency: Callable[[int], float], rounds: int = 6, most: int = 256) -> int:
    """Return the limit after rounds that use all slots. ``latency`` gives the seconds for a number of open calls."""
    now = 0.0
    limit = Limiter(most, lambda: now)
    for _ in range(rounds):
        calls = limit.value
        with ExitStack() as opened:
            for _ in range(calls):
                opened.enter_context(limit.measured())
            now += latency(calls)
    return limit.value


def test_a_provider_with_constant_latency_gets_more_calls() -> None:
    assert limit_after(lambda _: 0.25) > 80


def test_a_provider_that_answers_one_call_after_another_gets_no_more_calls() -> None:
    assert limit_after(lambda calls: 0.015 * calls) <= 60


def test_the_limit_never_passes_the_largest_number() -> None:
    assert limit_after(lambda _: 0.1, most=30) == 30


@pytest.mark.parametrize(("most", "left"), [(256, 4), (1, 1)])
def test_failures_reduce_the_limit_to_a_few_calls(most: int, left: int) -> None:
    limit = Limiter(most)
    for _ in range(20):
        limit.failed()
    assert limit.value == left


async def test_a_failed_call_reduces_the_limit_of_the_client() -> None:
    async with Misbehaving([error(503)]) as server, ProviderClient(server.address, None, attempts=1) as client:
        before = client.limiter.value
        with pytest.raises(Unavailable):
            await client.ask(ChainsRequest())
        assert client.limiter.value < before


async def test_slots_are_given_first_come_first_served_up_to_the_limit() -> None:
    order: list[int] = []
    limit = 2
    slots = Slots(lambda: limit)

    async def enter(number: int) -> None:
        async with slots.slot():
            order.append(number)
            assert slots.used <= limit
            await asyncio.sleep(0.01)

    tasks = [asyncio.create_task(enter(number)) for number in range(6)]
    await asyncio.sleep(0)
    assert order == [0, 1]
    limit = 3
    await asyncio.gather(*tasks)
    assert slots.used == 0
    assert order == [0, 1, 2, 3, 4, 5]


@pytest.mark.parametrize("is_given", [True, False])
async def test_a_cancelled_caller_keeps_no_slot(is_given: bool) -> None:
    slots = Slots(lambda: 1)

    async def hold() -> None:
        async with slots.slot():
            await asyncio.sleep(0.01)

    first, second, third = (asyncio.create_task(hold()) for _ in range(3))
    await asyncio.sleep(0)
    if is_given:
        await first
    second.cancel()
    await asyncio.gather(first, second, third, return_exceptions=True)
    assert third.exception() is None
    assert slots.used == 0


async def test_a_shorter_pause_does_not_end_a_longer_one() -> None:
    limit, loop = Limiter(4), asyncio.get_running_loop()
    began = loop.time()
    limit.pause(0.1)
    limit.pause(0.0)
    async with limit.slot():
        assert loop.time() - began >= 0.1
