"""Answers are computed in threads, a few at a time: the same ones once, and no caller takes all the threads.

A caller that waits too long is told to come back; the computation goes on, and its answer is there then.
"""

from __future__ import annotations

import asyncio
from collections import Counter
from collections.abc import Callable, Hashable
from concurrent.futures import ThreadPoolExecutor
from contextvars import copy_context
from typing import Any, Final, TypeVar

from holderlake.service.errors import ServiceError

Result = TypeVar("Result")

_QUEUE: Final = 64
"""Computations that may wait for each thread; beyond that callers are sent away at once."""


class Computing:
    """The threads of one process. ``workers`` compute at a time, at most half of them for one ``owner``.

    ``seconds`` is how long a caller waits at most, ``closing_seconds`` how long the end does. For one event loop.
    """

    def __init__(self, workers: int, seconds: float, closing_seconds: float) -> None:
        self._closing_seconds = closing_seconds
        self._executor = ThreadPoolExecutor(workers, thread_name_prefix="answer")
        self._seconds = seconds
        self._most_of_owner = max(1, workers // 2)
        self._most_waiting = workers * _QUEUE
        self._flights: dict[Hashable, asyncio.Task[Any]] = {}
        self._turns: dict[Hashable, asyncio.Semaphore] = {}
        self._of_owner: Counter[Hashable] = Counter()
        self.pending = 0

    async def run(
        self,
        work: Callable[[], Result],
        owner: Hashable,
        same: Hashable | None = None,
        keep: Callable[[Result], None] | None = None,
    ) -> Result:
        """The result of ``work``; callers that name the ``same`` thing while it is computed share one computation.

        It is under way until ``keep`` has the result, so whoever comes later finds it kept.
        Raises ``ServiceError`` (``unavailable``) after too long a wait, and what ``work`` raises.
        """
        flight = self._flights.get(same) if same is not None else None
        if flight is None:
            flight = self._start(work, owner, same, keep)
        try:
            return await asyncio.wait_for(asyncio.shield(flight), self._seconds)
        except TimeoutError as error:
            if flight.done() and not flight.cancelled() and flight.exception() is not None:
                raise
            text = f"The answer was not ready within {self._seconds:g} seconds; it is still being computed"
            raise ServiceError("unavailable", text, {"Retry-After": "5"}) from error

    def is_under_way(self, same: Hashable) -> bool:
        """Whether a computation of it runs that a further caller would share."""
        return same in self._flights

    async def close(self) -> None:
        """Waits for what is under way, but not for ever, and takes no more."""
        if self._flights:
            await asyncio.wait(self._flights.values(), timeout=self._closing_seconds)
        self._executor.shutdown(wait=False, cancel_futures=True)

    def _start(
        self,
        work: Callable[[], Result],
        owner: Hashable,
        same: Hashable | None,
        keep: Callable[[Result], None] | None,
    ) -> asyncio.Task[Result]:
        if self.pending >= self._most_waiting:
            raise ServiceError("unavailable", "Too many answers are waiting to be computed", {"Retry-After": "5"})
        task = asyncio.create_task(self._in_turn(work, owner, keep))
        key = same if same is not None else task
        self._flights[key] = task
        task.add_done_callback(lambda done: self._landed(key, done))
        return task

    def _landed(self, key: Hashable, task: asyncio.Task[Any]) -> None:
        del self._flights[key]
        if not task.cancelled():
            task.exception()  # it counts as seen even where every caller is gone

    async def _in_turn(
        self, work: Callable[[], Result], owner: Hashable, keep: Callable[[Result], None] | None
    ) -> Result:
        turn = self._turns.setdefault(owner, asyncio.Semaphore(self._most_of_owner))
        self.pending += 1
        self._of_owner[owner] += 1
        try:
            async with turn:
                context = copy_context()  # for the log to know which request a thread works for
                result = await asyncio.get_running_loop().run_in_executor(self._executor, context.run, work)
                if keep is not None:
                    keep(result)
                return result
        finally:
            self.pending -= 1
            self._of_owner[owner] -= 1
            if not self._of_owner[owner]:
                del self._of_owner[owner], self._turns[owner]
