"""How many calls may be under way: as many as bring more answers, and fewer where they only make each one later.

A provider that takes a second for each answer, whatever one asks, is asked for many at a time; one that grows slower
the more it is asked is asked for fewer. What is compared is the mean latency of as many answers as may be under way:
single ones tell nothing, for a provider has quick and slow answers.
"""

from __future__ import annotations

import asyncio
import time
from collections import deque
from collections.abc import AsyncIterator, Callable, Iterator
from contextlib import asynccontextmanager, contextmanager
from typing import Final

_FIRST: Final = 40
"""Enough for the largest rate where an answer takes a fifth of a second, our own books included."""
_FEWEST: Final = 4
"""With so few, it is not our calls that make the provider slow: what they take then counts as usual."""
_GROWTH: Final = 1.5
_STILL_USUAL: Final = 1.3
_TOO_SLOW: Final = 2.0
_QUICK: Final = 0.2
"""Seconds: what comes sooner is not slow, however much quicker it once was."""
_AFTER_TROUBLE: Final = 0.7
_NEARLY: Final = 0.8
"""Where fewer were asked for at once, more places would change nothing."""


class Gate:
    """Lets so many through at a time, first come, first served; ``limit`` may tell another number at any time.

    For one event loop.
    """

    def __init__(self, limit: Callable[[], int]) -> None:
        self.inside = 0
        """How many are inside now."""
        self._limit = limit
        self._waiting: deque[asyncio.Future[None]] = deque()

    @asynccontextmanager
    async def turn(self) -> AsyncIterator[None]:
        """Holds a place inside."""
        await self._enter()
        try:
            yield
        finally:
            self._leave()

    async def _enter(self) -> None:
        if self.inside < self._limit() and not self._waiting:
            self.inside += 1
            return
        place: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        self._waiting.append(place)
        try:
            await place
        except asyncio.CancelledError:
            if place.done() and not place.cancelled():  # it was our turn already
                self._leave()
            raise

    def _leave(self) -> None:
        self.inside -= 1
        while self._waiting and self.inside < self._limit():
            place = self._waiting.popleft()
            if not place.done():
                self.inside += 1
                place.set_result(None)


class Pace:
    """Sets how many calls may be under way, at most ``most``, by what they take; for one event loop."""

    def __init__(self, most: int) -> None:
        self.limit = min(most, _FIRST)
        """Calls that may be under way now."""
        self._most = most
        self._fewest = min(most, _FEWEST)
        self._asking = 0
        self._most_asking = 0
        self._usual: float | None = None
        self._begin()

    @contextmanager
    def timed(self) -> Iterator[None]:
        """Measures one call, from sending to the whole answer. One that fails tells nothing of latency."""
        began = time.perf_counter()
        self._asking += 1
        self._most_asking = max(self._most_asking, self._asking)
        try:
            yield
        except BaseException:
            self._asking -= 1
            raise
        self._asking -= 1
        self._answers += 1
        self._seconds += time.perf_counter() - began
        if self._answers >= self.limit:
            self._judge(self._seconds / self._answers)
            self._begin()

    def troubled(self) -> None:
        """The provider could not answer, or said that it was asked too often."""
        self.limit = max(self._fewest, int(self.limit * _AFTER_TROUBLE))
        self._begin()

    def _begin(self) -> None:
        self._answers, self._seconds, self._most_asking = 0, 0.0, self._asking

    def _judge(self, latency: float) -> None:
        if self._usual is None or latency < self._usual or self.limit <= self._fewest:
            self._usual = latency
        if latency > max(_TOO_SLOW * self._usual, _QUICK):
            self.limit = max(self._fewest, int(self.limit / _GROWTH))
        elif latency <= _STILL_USUAL * self._usual and self._most_asking > _NEARLY * self.limit:
            self.limit = min(self._most, max(self.limit + 1, int(self.limit * _GROWTH)))
