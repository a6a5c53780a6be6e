"""How a Dagster step ends after a cancelled run, and when it is tried again.

Dagster turns a signal into an exception wherever the code happens to be, and an op's retry policy into another try.
Here the signal only stops the provider (``ingest.cancelling``); the op then ends as interrupted, without a retry.
"""

from __future__ import annotations

import random
from collections.abc import Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING, Final, NoReturn

from dagster import DagsterError, DagsterExecutionInterruptedError, DagsterRunStatus, Failure, RetryRequested

if TYPE_CHECKING:
    from dagster import DagsterInstance

_RETRIES: Final = 2
_DELAY_SECONDS: Final = 20


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
