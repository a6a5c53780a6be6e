"""Translate errors of a step into Dagster's outcomes: failed without retry, interrupted, or retried."""

from __future__ import annotations

import random
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Final, NoReturn

from dagster import (
    DagsterError,
    DagsterExecutionInterruptedError,
    DagsterRunStatus,
    Failure,
    OpExecutionContext,
    RetryRequested,
)

from holderlake.core.contract.times import InstantAhead
from holderlake.core.extras import advice
from holderlake.core.lake.lake import LakeError
from holderlake.core.provider.errors import Cancelled, PermanentError, ProviderError, TransientError
from holderlake.core.settings import SettingsError
from holderlake.core.storage.postgresql import Unreachable
from holderlake.core.storage.sqlite import DatabaseError
from holderlake.core.warehouse.warehouse import WarehouseError

_PERMANENT: Final = (PermanentError, SettingsError, LakeError, DatabaseError, WarehouseError, InstantAhead)
"""Errors that would occur again in a retry: an invalid key, plan, setting or instant, a ceiling, or damaged files."""
_DELAY_SECONDS: Final = 20
_STATE_RETRIES: Final = 2
MAYBE_CHARGED: Final = "maybe_charged"
"""Error of a run whose last call got no answer, and may have been charged."""
ERROR_TAG: Final = "holderlake/error"
"""Run tag with the code of the run's last error, such as ``credits_exhausted`` or ``unreachable``."""
NOT_DELIVERED: Final = "not_delivered"
"""Error code of a run of the job ``alerts`` that could not send all alerts."""
ENDPOINT_TAG: Final = "holderlake/endpoint"
"""Run tag with the endpoint that the provider refuses to the API key, such as ``map``."""
REPETITION_TAG: Final = "holderlake/repetition"
"""Run tag of a run that the sensor ``healing`` launched; its value is the planned cost in hundredths of a credit."""
PARTITION_TAG: Final = "dagster/partition"


@contextmanager
def step_errors(
    context: OpExecutionContext, retries: int = 2, explain: Callable[[Exception], str] = str
) -> Iterator[None]:
    """Translate errors within the ``with`` block into outcomes of the Dagster step.

    A permanent error, or one after which a retry could pay twice, fails the run without a retry, with the text
    ``explain(error)``. ``Cancelled`` ends the step as interrupted. After any other error Dagster retries the step, up
    to ``retries`` times, and at least twice while the PostgreSQL of the state cannot be reached. Unlike an op's retry
    policy, this never retries a cancelled step. The run's tag ``ERROR_TAG`` gets the code of the error.
    """
    try:
        yield
    except (DagsterError, Failure, RetryRequested):
        raise
    except Cancelled as error:
        _interrupt(context, error)
    except Exception as error:
        tags = {ERROR_TAG: _code(error)} | _endpoint(error)
        if isinstance(error, ImportError) and (sentence := advice(error)):
            raise Failure(sentence, allow_retries=False) from error
        is_permanent = isinstance(error, _PERMANENT) and not isinstance(error, Unreachable)
        if is_permanent or (isinstance(error, TransientError) and error.maybe_charged):
            context.instance.add_run_tags(context.run_id, tags | {"dagster/max_retries": "0"})
            raise Failure(explain(error), allow_retries=False) from error
        context.instance.add_run_tags(context.run_id, tags)
        retries = max(retries, _STATE_RETRIES) if isinstance(error, Unreachable) else retries
        if not retries:
            raise
        wait = _DELAY_SECONDS * 2**context.retry_number * random.uniform(1, 1.5)  # noqa: S311 - spreads retries
        raise RetryRequested(max_retries=retries, seconds_to_wait=wait) from error


def _code(error: Exception) -> str:
    if not isinstance(error, ProviderError):
        return type(error).__name__
    return MAYBE_CHARGED if error.maybe_charged else error.code


def _endpoint(error: Exception) -> dict[str, str]:
    """Return the tag with the endpoint that the provider refuses; empty for other errors."""
    if isinstance(error, ProviderError) and error.stops == "endpoint" and error.request is not None:
        return {ENDPOINT_TAG: error.request.endpoint}
    return {}


def _interrupt(context: OpExecutionContext, error: Exception) -> NoReturn:
    """End the step as interrupted.

    If the run was not cancelled in Dagster's UI, it is first marked as being cancelled.
    """
    run = context.instance.get_run_by_id(context.run_id)
    if run is not None and run.status == DagsterRunStatus.STARTED:
        context.instance.report_run_canceling(run, "Interrupted by a signal.")
    raise DagsterExecutionInterruptedError(str(error)) from error
