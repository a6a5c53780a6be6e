"""Cancellation of a run: after the first SIGINT or SIGTERM no new call starts, and open calls finish."""

from __future__ import annotations

import asyncio
import signal
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Final

from holderlake.provider.fetcher import Provider

_SIGNALS: Final = (signal.SIGINT, signal.SIGTERM)


@contextmanager
def cancelling(provider: Provider) -> Iterator[None]:
    """In the ``with`` block, cancel the provider at the first signal and raise ``KeyboardInterrupt`` at the second.

    Use it while an event loop runs. Outside the main thread it does nothing.
    """
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
