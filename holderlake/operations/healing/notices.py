"""The sensor ``notices``, which reports failed runs and requests, a refused key and used-up credits."""

from __future__ import annotations

from collections.abc import Collection, Iterator
from datetime import UTC, datetime, timedelta
from typing import Final

from dagster import (
    DagsterInstance,
    DagsterRunStatus,
    DefaultSensorStatus,
    RunsFilter,
    SensorDefinition,
    SensorEvaluationContext,
    SkipReason,
    sensor,
)

from holderlake.core.contract.times import from_unix
from holderlake.core.dagster.failures import NOT_DELIVERED
from holderlake.core.dagster.processes import is_of_home
from holderlake.core.dagster.tags import ENDPOINT_TAG, ERROR_TAG, FAILED_REQUESTS_TAG, PARTITION_TAG, REPETITION_TAG
from holderlake.core.workspace import Workspace
from holderlake.operations.alerts.delivery import has_unsent, notify
from holderlake.operations.alerts.notices import (
    Notice,
    credits_used_up,
    endpoint_refused,
    key_refused,
    requests_failed,
    run_failed,
)
from holderlake.resources.workspace import WORKSPACE, workspace_of

_OVERLAP: Final = timedelta(minutes=5)
_KEY_ERRORS: Final = frozenset({"missing_key", "invalid_key"})
_CREDIT_ERRORS: Final = frozenset({"credits_exhausted", "budget_exceeded"})


def notices_sensor(jobs: Collection[str], *, name: str = "notices", resource: str = WORKSPACE) -> SensorDefinition:
    """Return the sensor that reports failures. Its ticks send the notices, as Dagster's sensors for failed runs do.

    It reports runs of ``jobs`` that belong to the home of the workspace that is the resource ``resource``.

    A run that sends them would wait in the queue behind the runs that it reports, or not start at all. A tick may take
    60 s, and a delivery ends earlier.
    """

    @sensor(
        name=name,
        minimum_interval_seconds=60,
        default_status=DefaultSensorStatus.RUNNING,
        required_resource_keys={resource},
        description="Reports failed runs and requests, a refused key and used-up credits, and sends unsent alerts.",
    )
    def notices(context: SensorEvaluationContext) -> SkipReason:
        workspace, now = workspace_of(context, resource), datetime.now(UTC)
        since = datetime.fromisoformat(context.cursor) - _OVERLAP if context.cursor else now
        new_notices = [
            *_failures(context.instance, workspace, since, jobs),
            *_failed_requests(context.instance, workspace, since),
        ]
        context.update_cursor(now.isoformat())
        if not new_notices and not has_unsent(workspace, now.replace(tzinfo=None)):
            return SkipReason("nothing failed")
        return SkipReason(str(notify(workspace, new_notices)))

    return notices


def _failures(
    instance: DagsterInstance, workspace: Workspace, since: datetime, jobs: Collection[str]
) -> Iterator[Notice]:
    """Yield a notice for each run of these jobs and this home that failed since a time.

    A run of the sensor ``healing`` has none, unless it says that the key is refused or the credits are used up.

    A run that could not send alerts has none: sending the notice would fail too, and make the next one.
    """
    for record in instance.get_run_records(RunsFilter(statuses=[DagsterRunStatus.FAILURE], updated_after=since)):
        run = record.dagster_run
        error, at = run.tags.get(ERROR_TAG), from_unix(int(record.end_time or since.timestamp()))
        if run.job_name not in jobs or error == NOT_DELIVERED or not is_of_home(run, workspace.settings.home):
            continue
        if error in _KEY_ERRORS:
            yield key_refused(error, run.run_id, at)
        elif endpoint := run.tags.get(ENDPOINT_TAG):
            yield endpoint_refused(endpoint, error or "", run.run_id, at)
        elif error in _CREDIT_ERRORS:
            yield credits_used_up(error, run.run_id, at)
        elif REPETITION_TAG not in run.tags:
            yield run_failed(run.run_id, run.job_name, run.tags.get(PARTITION_TAG), error, at)


def _failed_requests(instance: DagsterInstance, workspace: Workspace, since: datetime) -> Iterator[Notice]:
    """Yield a notice for each run of this home that succeeded since a time with failed requests.

    Repetitions by the sensor ``healing`` have none: it reports what it gives up.
    """
    for record in instance.get_run_records(RunsFilter(statuses=[DagsterRunStatus.SUCCESS], updated_after=since)):
        run = record.dagster_run
        counts = {
            tag.removeprefix(FAILED_REQUESTS_TAG): int(count)
            for tag, count in run.tags.items()
            if tag.startswith(FAILED_REQUESTS_TAG)
        }
        if counts and REPETITION_TAG not in run.tags and is_of_home(run, workspace.settings.home):
            at = from_unix(int(record.end_time or since.timestamp()))
            yield requests_failed(run.run_id, run.job_name, run.tags.get(PARTITION_TAG), counts, at)
