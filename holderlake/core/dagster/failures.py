"""Translate errors of a step into Dagster's outcomes, failed or interrupted, and the tags of runs that failed."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Final, NoReturn

from dagster import (
    DagsterError,
    DagsterExecutionInterruptedError,
    DagsterRunStatus,
    Failure,
    OpExecutionContext,
)

from holderlake.core.contract.times import InstantAhead
from holderlake.core.dagster.tags import ENDPOINT_TAG, ERROR_TAG
from holderlake.core.extras import advice
from holderlake.core.lake.lake import LakeError
from holderlake.core.provider.errors import BudgetExceeded, Cancelled, ProviderError
from holderlake.core.settings import SettingsError
from holderlake.core.storage.sqlite import DatabaseError
from holderlake.core.warehouse.warehouse import WarehouseError

_EXPLAINED: Final = (ProviderError, SettingsError, LakeError, DatabaseError, WarehouseError, InstantAhead)
"""Errors whose text says enough without a traceback."""
MAYBE_CHARGED: Final = "maybe_charged"
"""Error of a run whose last call got no answer, and may have been charged."""
INCOMPLETE: Final = "incomplete"
"""Error code of a run whose steps succeeded, and whose partitions lack a part of the requested data."""
RUN_CEILING: Final = "run_ceiling"
"""Error code of a run that reached its own ceiling of credits, ``budget.per_run`` or ``--max-credits``."""
NOT_DELIVERED: Final = "not_delivered"
"""Error code of a run of the job ``alerts`` that could not send all alerts."""


@contextmanager
def step_errors(context: OpExecutionContext, explain: Callable[[Exception], str] = str) -> Iterator[None]:
    """Translate errors within the ``with`` block into outcomes of the Dagster step.

    ``Cancelled`` ends the step as interrupted. Any other error fails it, and the run's tag ``ERROR_TAG`` gets its code;
    the text of errors of this project is ``explain(error)``. The step is not repeated: the sensor ``healing`` requests
    what the run did not get.
    """
    try:
        yield
    except (DagsterError, Failure):
        raise
    except Cancelled as error:
        _interrupt(context, error)
    except Exception as error:
        context.instance.add_run_tags(context.run_id, {ERROR_TAG: _code(error)} | _endpoint(error))
        if isinstance(error, ImportError) and (sentence := advice(error)):
            raise Failure(sentence, allow_retries=False) from error
        if isinstance(error, _EXPLAINED):
            raise Failure(explain(error), allow_retries=False) from error
        raise


def _code(error: Exception) -> str:
    if not isinstance(error, ProviderError):
        return type(error).__name__
    if isinstance(error, BudgetExceeded) and error.ceiling == "per_run":
        return RUN_CEILING
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
