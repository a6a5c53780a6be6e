"""Batched work of many callers: while one batch runs, the items of the next one are collected.

Under load, one transaction of a database serves many callers. A single caller waits for no others.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Sequence
from concurrent.futures import Executor
from typing import Generic, TypeVar

Item = TypeVar("Item")
Result = TypeVar("Result")

_MAX_ITEMS = 1_000


class Batches(Generic[Item, Result]):
    """Runs ``work`` on batches of items and returns each result to the caller who submitted the item.

    ``work`` runs in a thread of ``executor`` (None: the event loop's) and returns one result for each item, in order.
    A result that is an exception is raised in that item's caller; an error that ``work`` raises, in all callers of the
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
        """Queue an item and return the future of its result."""
        future: asyncio.Future[Result] = asyncio.get_running_loop().create_future()
        self._waiting.append((item, future))
        if self._running is None:
            self._running = asyncio.create_task(self._run())
        return future

    async def flush(self) -> None:
        """Wait until the work on all submitted items has ended."""
        while self._running is not None:
            await asyncio.wait([self._running])

    async def _run(self) -> None:
        try:
            while self._waiting:
                batch, self._waiting = self._waiting[:_MAX_ITEMS], self._waiting[_MAX_ITEMS:]
                await self._run_batch(batch)
        finally:
            self._running = None
            for _, future in self._waiting:  # only after a cancellation: no caller may wait for ever
                future.cancel()

    async def _run_batch(self, batch: list[tuple[Item, asyncio.Future[Result]]]) -> None:
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
    """Set each future's result or exception, in order. Futures that were cancelled stay unchanged."""
    for future, result in zip(futures, results, strict=True):
        if future.done():
            continue
        if isinstance(result, Exception):
            future.set_exception(result)
        else:
            future.set_result(result)
