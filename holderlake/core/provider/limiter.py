"""Limits of one client: the number of open calls, which adapts to the provider's latency, and pauses of all calls.

A provider whose latency stays the same gets more calls at a time. A provider that becomes slower gets fewer, because an
answer that times out may be charged. A limit of n calls is adjusted after every n answers: their mean latency is
compared with the lowest mean so far, because single latencies vary.
"""

from __future__ import annotations

import asyncio
import time
from collections import deque
from collections.abc import AsyncIterator, Callable, Iterator
from contextlib import asynccontextmanager, contextmanager
from typing import Final

_FIRST_LIMIT: Final = 40
"""First limit of open calls: enough for 12,000 calls a minute if an answer takes a fifth of a second."""
_FEWEST: Final = 4
"""Lowest limit. Four calls cannot make a provider slow, so their latency counts as its usual latency."""
_GROWTH: Final = 1.5
_STILL_USUAL: Final = 1.3
_TOO_SLOW: Final = 2.0
_QUICK: Final = 0.2
"""Seconds. A latency below this is never too slow."""
_AFTER_FAILURE: Final = 0.7
_NEARLY_FULL: Final = 0.8
"""The limit grows only if more than this part of its calls were open at once."""


class Slots:
    """A first-in, first-out semaphore for one event loop. ``limit`` returns the number of slots, which may change."""

    def __init__(self, limit: Callable[[], int]) -> None:
        self.used = 0
        """Slots in use now."""
        self._limit = limit
        self._waiting: deque[asyncio.Future[None]] = deque()

    @asynccontextmanager
    async def slot(self) -> AsyncIterator[None]:
        """Wait until a slot is free, and use it inside the ``async with`` block."""
        await self._acquire()
        try:
            yield
        finally:
            self._release()

    async def _acquire(self) -> None:
        if self.used < self._limit() and not self._waiting:
            self.used += 1
            return
        turn: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        self._waiting.append(turn)
        try:
            await turn
        except asyncio.CancelledError:
            if turn.done() and not turn.cancelled():  # the slot was given before the cancellation arrived
                self._release()
            raise

    def _release(self) -> None:
        self.used -= 1
        while self._waiting and self.used < self._limit():
            turn = self._waiting.popleft()
            if not turn.done():
                self.used += 1
                turn.set_result(None)


class Limiter(Slots):
    """Slots of calls that may be open at a time: ``value``, at most ``upper_limit``."""

    def __init__(self, upper_limit: int, clock: Callable[[], float] = time.perf_counter) -> None:
        super().__init__(lambda: self.value)
        self.value = min(upper_limit, _FIRST_LIMIT)
        self.answered_at = float("-inf")
        """Time of the last answer to any call, by the event loop's clock."""
        self._resume_at = 0.0
        self._upper_limit = upper_limit
        self._clock = clock
        self._fewest = min(upper_limit, _FEWEST)
        self._open = self._most_open = 0
        self._usual: float | None = None
        self._start_round()

    async def _acquire(self) -> None:
        await super()._acquire()
        try:
            while (seconds := self._resume_at - asyncio.get_running_loop().time()) > 0:
                await asyncio.sleep(seconds)
        except asyncio.CancelledError:
            self._release()
            raise

    def pause(self, seconds: float) -> None:
        """Let all later calls wait for ``seconds``: the provider would refuse them too."""
        self._resume_at = max(self._resume_at, asyncio.get_running_loop().time() + seconds)

    @contextmanager
    def measured(self) -> Iterator[None]:
        """Measure the latency of the call in the ``with`` block. A call that raises an error is not counted."""
        began = self._clock()
        self._open += 1
        self._most_open = max(self._most_open, self._open)
        try:
            yield
        finally:
            self._open -= 1
        self._count(self._clock() - began)

    def _count(self, seconds: float) -> None:
        """Count an answer and its latency. After ``value`` answers, adapt ``value`` to their mean latency."""
        self._answers += 1
        self._seconds += seconds
        if self._answers < self.value:
            return
        latency = self._seconds / self._answers
        if self._usual is None or latency < self._usual or self.value <= self._fewest:
            self._usual = latency
        if latency > max(_TOO_SLOW * self._usual, _QUICK):
            self.value = max(self._fewest, int(self.value / _GROWTH))
        elif latency <= _STILL_USUAL * self._usual and self._most_open > _NEARLY_FULL * self.value:
            self.value = min(self._upper_limit, max(self.value + 1, int(self.value * _GROWTH)))
        self._start_round()

    def failed(self) -> None:
        """Reduce the limit, after a call that failed or that the rate limit refused."""
        self.value = max(self._fewest, int(self.value * _AFTER_FAILURE))
        self._start_round()

    def _start_round(self) -> None:
        self._answers, self._seconds, self._most_open = 0, 0.0, self._open
