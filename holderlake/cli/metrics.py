"""The metrics of a home and of its Dagster runs over HTTP, or once as text."""

from __future__ import annotations

import os
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Final

from prometheus_client import CollectorRegistry, start_http_server
from prometheus_client.exposition import generate_latest
from prometheus_client.metrics_core import Metric

from holderlake.core.signals import until_stopped
from holderlake.core.workspace import Workspace
from holderlake.operations.monitoring.prometheus import HomeMetrics, all_metrics, gauge, write_textfile
from holderlake.presentation import console

if TYPE_CHECKING:
    from dagster import DagsterInstance

_RECENT: Final = 200
"""Newest runs that are searched for the last run of each job."""


def print_metrics(workspace: Workspace, to: Path | None) -> None:
    """Print all metrics as text, or replace the file ``to`` by them."""
    with _registry(workspace) as registry:
        if to:
            write_textfile(registry, to)
        else:
            console.out.print(generate_latest(registry).decode(), end="", soft_wrap=True)


def serve_metrics(workspace: Workspace, host: str, port: int, say: Callable[[str], None]) -> None:
    """Serve the metrics until SIGTERM or Ctrl-C; port 0 takes a free port. ``say`` prints the address.

    Raises ``ValueError`` if the port cannot be used.
    """
    with until_stopped(), _registry(workspace) as registry:
        try:
            server, thread = start_http_server(port, host, registry)
        except OSError as error:
            raise ValueError(
                f"cannot listen on {host}, port {port}: {error.strerror}; --port 0 takes a free port"
            ) from error
        try:
            say(f"Metrics are at http://{host}:{server.server_port}/metrics (stop with Ctrl-C)")
            threading.Event().wait()
        finally:
            server.shutdown()
            server.server_close()
            thread.join()


@contextmanager
def _registry(workspace: Workspace) -> Iterator[CollectorRegistry]:
    """Open the metrics of the home, and those of Dagster's runs if it has a history."""
    home = Path(os.environ.get("DAGSTER_HOME") or workspace.settings.dagster_home)
    parts = HomeMetrics(workspace).parts()
    if not (home / "dagster.yaml").exists():
        yield all_metrics(parts)
        return
    from dagster import DagsterInstance

    with DagsterInstance.from_config(str(home)) as instance:
        yield all_metrics(parts | {"runs": partial(run_metrics, instance)})


def run_metrics(instance: DagsterInstance) -> Iterator[Metric]:
    """Yield the metrics of the runs in an instance's history: how many, how long they took, which one hangs."""
    from dagster import DagsterRunStatus as Status
    from dagster import RunsFilter

    in_progress = [Status.QUEUED, Status.STARTING, Status.STARTED, Status.CANCELING]
    has_ended = [Status.SUCCESS, Status.FAILURE, Status.CANCELED]
    counts = gauge("runs", "Runs in Dagster's history, by status", ["status"])
    for status in (*in_progress, *has_ended):
        counts.add_metric([status.value.lower()], instance.get_runs_count(RunsFilter(statuses=[status])))
    oldest = gauge("oldest_run_timestamp_seconds", "Creation of a job's oldest run that has not ended", ["dagster_job"])
    created: dict[str, float] = {}
    for record in instance.get_run_records(RunsFilter(statuses=in_progress), limit=_RECENT, ascending=True):
        created.setdefault(record.dagster_run.job_name, record.create_timestamp.timestamp())
    for job, timestamp in sorted(created.items()):
        oldest.add_metric([job], timestamp)
    ended = gauge("last_run_timestamp_seconds", "End of a job's newest run, by its status", ["dagster_job", "status"])
    seconds = gauge("last_run_seconds", "Duration of a job's newest run, by its status", ["dagster_job", "status"])
    measured_places: set[tuple[str, str]] = set()
    for record in instance.get_run_records(RunsFilter(statuses=has_ended), limit=_RECENT):
        place = record.dagster_run.job_name, record.dagster_run.status.value.lower()
        if place not in measured_places and record.end_time is not None:
            measured_places.add(place)
            ended.add_metric(place, record.end_time)
            seconds.add_metric(place, record.end_time - (record.start_time or record.end_time))
    yield from (counts, oldest, ended, seconds)
