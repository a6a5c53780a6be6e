"""Cancelling a run: on SIGINT or SIGTERM a provider finishes the calls in flight and sends nothing more.

Dagster turns the signal into an exception wherever the code happens to be, and an op's retry policy into another try.
Here the signal only stops the provider; the op then ends as interrupted, which no retry follows.
"""

from __future__ import annotations

import asyncio
import random
import signal
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING, Final, NoReturn

from dagster import DagsterError, DagsterExecutionInterruptedError, DagsterRunStatus, Failure, RetryRequested

if TYPE_CHECKING:
    from dagster import DagsterInstance

    from resources.provider import Provider

_SIGNALS: Final = (signal.SIGINT, signal.SIGTERM)
_RETRIES: Final = 2
_DELAY_SECONDS: Final = 20


@contextmanager
def cancelling(provider: Provider) -> Iterator[None]:
    """Let the first signal cancel the provider, and a second one interrupt at once. For the running event loop."""
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


def end_as_cancelled(instance: DagsterInstance, run_id: str, error: Exception) -> NoReturn:
    """Raise what ends a step as interrupted; a run that no one cancelled in the UI is marked as being cancelled."""
    run = instance.get_run_by_id(run_id)
    if run is not None and run.status == DagsterRunStatus.STARTED:
        instance.report_run_canceling(run, "Interrupted by a signal.")
    raise DagsterExecutionInterruptedError(str(error)) from error


@contextmanager
def retried(tries_before: int) -> Iterator[None]:
    """Request another try of a step after an error, except after a ``Failure``.

    It takes the place of an op's retry policy, which would also try again what was cancelled.
    """
    try:
        yield
    except (DagsterError, Failure, RetryRequested):
        raise
    except Exception as error:
        wait = _DELAY_SECONDS * 2**tries_before * random.uniform(1, 1.5)  # noqa: S311 - spreads tries, keeps no secret
        raise RetryRequested(max_retries=_RETRIES, seconds_to_wait=wait) from error
