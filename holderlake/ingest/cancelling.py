"""Cancellation of a run: after the first SIGINT or SIGTERM no new call starts, and open calls finish."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator
from contextlib import contextmanager

from holderlake.provider.fetcher import Provider
from holderlake.signals import handling


@contextmanager
def cancelling(provider: Provider) -> Iterator[None]:
    """In the ``with`` block, cancel the provider at the first signal and raise ``KeyboardInterrupt`` at the second.

    Use it while an event loop runs. Outside the main thread it does nothing.
    """
    loop = asyncio.get_running_loop()
    with handling(lambda number, frame: loop.call_soon_threadsafe(_cancel, provider)):
        yield


def _cancel(provider: Provider) -> None:
    if provider.is_cancelled:
        raise KeyboardInterrupt
    provider.cancel()
