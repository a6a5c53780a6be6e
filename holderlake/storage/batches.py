"""Many callers' small pieces of work done together: while one batch is at work, the next one gathers.

Under load a database is asked once for all that came meanwhile; a caller alone waits for nobody. The one piece of
machinery that both halves use: the service books its callers' credits so, and the pipeline its own.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Sequence
from concurrent.futures import Executor
from typing import Generic, TypeVar

Item = TypeVar("Item")
Result = TypeVar("Result")

_MOST = 1_000


class Batches(Generic[Item, Result]):
    """Hands items to ``work`` in batches, and each result to who gave the item.

    It runs in a thread of ``executor``, or of the loop's own where that is None. ``work`` returns a result an item, in
    order; one that is an exception is raised at its caller. What ``work`` itself raises reaches all callers of the
    batch. For one event loop.
    """

    def __init__(
        self,
        work: Callable[[Sequence[Item]], Sequence[Result | Exception]],
        executor: Executor | None,
    ) -> None:
        self._work = work
        self._executor = executor
        self._waiting: list[tuple[Item, asyncio.Future[Result]]] = []
        self._running: asyncio.Task[None] | None = None

    def submit(self, item: Item) -> asyncio.Future[Result]:
        """Queues an item; the future is its result."""
        future: asyncio.Future[Result] = asyncio.get_running_loop().create_future()
        self._waiting.append((item, future))
        if self._running is None:
            self._running = asyncio.create_task(self._run())
        return future

    async def flush(self) -> None:
        """Returns when all that was submitted is done."""
        while self._running is not None:
            await asyncio.wait([self._running])

    async def _run(self) -> None:
        try:
            while self._waiting:
                batch, self._waiting = self._waiting[:_MOST], self._waiting[_MOST:]
                await self._carry_out(batch)
        finally:
            self._running = None
            for _, future in self._waiting:  # only where we are cancelled: nobody is to wait for ever
                future.cancel()

    async def _carry_out(self, batch: list[tuple[Item, asyncio.Future[Result]]]) -> None:
        results: Sequence[Result | Exception]
        try:
            items = [item for item, _ in batch]
            results = await asyncio.get_running_loop().run_in_executor(self._executor, self._work, items)
        except Exception as error:
            results = [error] * len(batch)
        except asyncio.CancelledError:
            for _, future in batch:
                future.cancel()
            raise
        hand_out([future for _, future in batch], results)


def hand_out(futures: Sequence[asyncio.Future[Result]], results: Sequence[Result | Exception]) -> None:
    """Gives each waiting caller its result, or raises it there; those that were cancelled meanwhile are left out."""
    for future, result in zip(futures, results, strict=True):
        if future.done():
            continue
        if isinstance(result, Exception):
            future.set_exception(result)
        else:
            future.set_result(result)
