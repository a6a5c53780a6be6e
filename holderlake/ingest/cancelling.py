"""Cancellation of a run: a signal stops new calls, and paid answers are committed before tasks are cancelled."""

from __future__ import annotations

import asyncio
import signal
import threading
from collections.abc import Collection, Coroutine, Iterable, Iterator
from contextlib import contextmanager
from typing import Any, Final, TypeVar

from holderlake.ingest.stream import IngestContext
from holderlake.provider.errors import PermanentError
from holderlake.provider.fetcher import Provider

T = TypeVar("T")

_SIGNALS: Final = (signal.SIGINT, signal.SIGTERM)
_IDLE_SECONDS: Final = 1.0
"""Time without a call, a decode or a commit after which the remaining tasks are cancelled."""


@contextmanager
def cancelling(provider: Provider) -> Iterator[None]:
    """Cancel the provider on the first signal, and interrupt on the second. For the running event loop."""
    if threading.current_thread() is not threading.main_thread():
        yield
        return
    loop = asyncio.get_running_loop()
    before = {number: signal.getsignal(number) for number in _SIGNALS}
    for number in _SIGNALS:
        loop.add_signal_handler(number, _cancel, provider)
    try:
        yield
    finally:
        for number, handler in before.items():
            loop.remove_signal_handler(number)
            signal.signal(number, handler)


def _cancel(provider: Provider) -> None:
    if provider.is_cancelled:
        raise KeyboardInterrupt
    provider.cancel()


async def gather_until_stopped(
    works: Iterable[Coroutine[Any, Any, T]], context: IngestContext
) -> list[T | BaseException]:
    """Return the results or errors of all, in order. After an error or a cancelled run, the others are cancelled.

    After a ``PermanentError`` or a cancelled run nothing more is sent, and the others first commit paid answers.
    """
    tasks = [asyncio.ensure_future(work) for work in works]
    all_done = asyncio.gather(*tasks)
    cancelled = asyncio.ensure_future(context.provider.cancelled.wait())
    try:
        await asyncio.wait((all_done, cancelled), return_when=asyncio.FIRST_COMPLETED)
        if not all_done.done() or isinstance(all_done.exception(), PermanentError):
            await _wait_until_idle(tasks, context)
    finally:
        for task in (cancelled, *tasks):
            task.cancel()
        outcomes = await asyncio.gather(*tasks, return_exceptions=True)
        await asyncio.gather(all_done, cancelled, return_exceptions=True)
    return list(outcomes)


async def _wait_until_idle(tasks: Collection[asyncio.Task[Any]], context: IngestContext) -> None:
    """Wait until no call is under way and all answers are committed."""
    pending = set(tasks)
    while pending:
        _, left = await asyncio.wait(pending, timeout=_IDLE_SECONDS)
        if len(left) == len(pending) and not (context.provider.is_busy or context.decoder.is_busy):
            return
        pending = left
