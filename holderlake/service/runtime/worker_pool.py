"""Threads that compute answers. Equal requests share one computation, and no account takes all threads.

A caller that waits too long gets a 503. The computation continues, and its answer is cached for the next try.
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

_QUEUE_PER_WORKER: Final = 64
"""Limit of queued computations per thread. Further requests get a 503 at once."""


class WorkerPool:
    """A pool of ``workers`` threads for one event loop. One account uses at most half of the threads.

    ``seconds`` limits a caller's wait for a result, ``closing_seconds`` the wait in ``close``.
    """

    def __init__(self, workers: int, seconds: float, closing_seconds: float) -> None:
        self._closing_seconds = closing_seconds
        self._executor = ThreadPoolExecutor(workers, thread_name_prefix="answer")
        self._seconds = seconds
        self._per_owner = max(1, workers // 2)
        self._max_pending = workers * _QUEUE_PER_WORKER
        self._flights: dict[Hashable, asyncio.Task[Any]] = {}
        self._semaphores: dict[Hashable, asyncio.Semaphore] = {}
        self._pending_of_owner: Counter[Hashable] = Counter()
        self.pending = 0

    async def run(
        self,
        work: Callable[[], Result],
        owner: Hashable,
        flight: Hashable | None = None,
        keep: Callable[[Result], None] | None = None,
    ) -> Result:
        """Call ``work`` in a thread and return its result.

        ``owner`` is the account for which the thread works. ``flight`` is the key of the computation: a call with the
        key of a running computation waits for its result and does not call ``work``. ``keep`` caches the result before
        the computation counts as ended, so a later call finds either the computation or the cached result. Raises
        ``ServiceError`` (``unavailable``) if the result takes over ``seconds``, and every error of ``work``.
        """
        task = self._flights.get(flight) if flight is not None else None
        if task is None:
            task = self._start(work, owner, flight, keep)
        try:
            return await asyncio.wait_for(asyncio.shield(task), self._seconds)
        except TimeoutError as error:
            if task.done() and not task.cancelled() and task.exception() is not None:
                raise
            text = f"The answer was not ready within {self._seconds:g} seconds: send the request again in 5 seconds"
            raise ServiceError("unavailable", text, {"Retry-After": "5"}) from error

    def is_running(self, flight: Hashable) -> bool:
        """Return whether a computation with the key ``flight`` is running."""
        return flight in self._flights

    async def close(self) -> None:
        """Accept no more computations, and wait up to ``closing_seconds`` for the running ones."""
        if self._flights:
            await asyncio.wait(self._flights.values(), timeout=self._closing_seconds)
        self._executor.shutdown(wait=False, cancel_futures=True)

    def _start(
        self,
        work: Callable[[], Result],
        owner: Hashable,
        flight: Hashable | None,
        keep: Callable[[Result], None] | None,
    ) -> asyncio.Task[Result]:
        if self.pending >= self._max_pending:
            raise ServiceError(
                "unavailable",
                "Too many requests wait for answers: send this one again in 5 seconds",
                {"Retry-After": "5"},
            )
        task = asyncio.create_task(self._compute(work, owner, keep))
        key = flight if flight is not None else task
        self._flights[key] = task
        task.add_done_callback(lambda done: self._finish(key, done))
        return task

    def _finish(self, key: Hashable, task: asyncio.Task[Any]) -> None:
        del self._flights[key]
        if not task.cancelled():
            task.exception()  # marks it as retrieved, also if all callers have left

    async def _compute(
        self, work: Callable[[], Result], owner: Hashable, keep: Callable[[Result], None] | None
    ) -> Result:
        semaphore = self._semaphores.setdefault(owner, asyncio.Semaphore(self._per_owner))
        self.pending += 1
        self._pending_of_owner[owner] += 1
        try:
            async with semaphore:
                context = copy_context()  # so that log lines of the thread carry the request's id
                result = await asyncio.get_running_loop().run_in_executor(self._executor, context.run, work)
                if keep is not None:
                    keep(result)
                return result
        finally:
            self.pending -= 1
            self._pending_of_owner[owner] -= 1
            if not self._pending_of_owner[owner]:
                del self._pending_of_owner[owner], self._semaphores[owner]
