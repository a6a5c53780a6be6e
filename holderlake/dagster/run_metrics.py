"""Prometheus metrics of Dagster's runs: how many are in each state, how long they take, which one hangs."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final

from dagster import DagsterInstance, DagsterRunStatus, RunsFilter
from prometheus_client.metrics_core import Metric

from holderlake.monitoring.metrics import gauge

_IN_PROGRESS: Final = (
    DagsterRunStatus.QUEUED,
    DagsterRunStatus.STARTING,
    DagsterRunStatus.STARTED,
    DagsterRunStatus.CANCELING,
)
_ENDED: Final = (DagsterRunStatus.SUCCESS, DagsterRunStatus.FAILURE, DagsterRunStatus.CANCELED)
_RECENT: Final = 200
"""Newest runs that are searched for the last run of each job."""


def run_metrics(instance: DagsterInstance) -> Iterator[Metric]:
    """Yield the metrics of the runs in an instance's history."""
    counts = gauge("runs", "Runs in Dagster's history, by status", ["status"])
    for status in (*_IN_PROGRESS, *_ENDED):
        counts.add_metric([status.value.lower()], instance.get_runs_count(RunsFilter(statuses=[status])))
    oldest = gauge("oldest_run_timestamp_seconds", "Creation of a job's oldest run that has not ended", ["dagster_job"])
    created: dict[str, float] = {}
    for record in instance.get_run_records(RunsFilter(statuses=[*_IN_PROGRESS]), limit=_RECENT, ascending=True):
        created.setdefault(record.dagster_run.job_name, record.create_timestamp.timestamp())
    for job, timestamp in sorted(created.items()):
        oldest.add_metric([job], timestamp)
    ended = gauge("last_run_timestamp_seconds", "End of a job's newest run, by its status", ["dagster_job", "status"])
    seconds = gauge("last_run_seconds", "Duration of a job's newest run, by its status", ["dagster_job", "status"])
    measured_places: set[tuple[str, str]] = set()
    for record in instance.get_run_records(RunsFilter(statuses=[*_ENDED]), limit=_RECENT):
        place = record.dagster_run.job_name, record.dagster_run.status.value.lower()
        if place not in measured_places and record.end_time is not None:
            measured_places.add(place)
            ended.add_metric(place, record.end_time)
            seconds.add_metric(place, record.end_time - (record.start_time or record.end_time))
    yield from (counts, oldest, ended, seconds)
