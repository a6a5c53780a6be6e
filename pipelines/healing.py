"""The sensors that repair without help: runs whose process is gone, and scheduled partitions that failed."""

from __future__ import annotations

import json

from dagster import (
    DefaultSensorStatus,
    ResourceParam,
    SensorDefinition,
    SensorEvaluationContext,
    SkipReason,
    sensor,
)

from holderlake.dagster.processes import end_run, runs_without_process
from holderlake.settings import Settings
from holderlake.workspace import Workspace
from pipelines.backfill import BACKFILL, PLAN
from pipelines.jobs import ALERTS, FRESHNESS, INGEST, TRANSFERS

_JOBS = (ALERTS, BACKFILL, FRESHNESS, INGEST, PLAN, TRANSFERS)


def healing_sensors(settings: Settings) -> list[SensorDefinition]:
    """Return the sensors that repair without help."""
    return [_dead_runs_sensor()]


def _dead_runs_sensor() -> SensorDefinition:
    """Return the sensor that ends runs without a process. It ends a run that two ticks in a row found so."""

    @sensor(
        name="dead_runs",
        minimum_interval_seconds=30,
        default_status=DefaultSensorStatus.RUNNING,
        description="Marks runs as failed whose process is gone, for example after a crash of the host.",
    )
    def dead_runs(context: SensorEvaluationContext, workspace: ResourceParam[Workspace]) -> SkipReason:
        home = workspace.settings.home
        found = runs_without_process(context.instance, home, _JOBS)
        before = json.loads(context.cursor or "[]")
        ended = [run for run in found if run in before and end_run(context.instance, home, run)]
        context.update_cursor(json.dumps([run for run in found if run not in before]))
        if ended:
            return SkipReason(f"ended {len(ended)} runs without a process: {', '.join(ended)}")
        return SkipReason("all started runs have a process")

    return dead_runs
