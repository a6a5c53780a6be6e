"""The sensor ``dead_runs``, which ends runs whose process is gone."""

from __future__ import annotations

import json
from collections.abc import Collection

from dagster import (
    DefaultSensorStatus,
    ResourceParam,
    SensorDefinition,
    SensorEvaluationContext,
    SkipReason,
    sensor,
)

from holderlake.dagster.processes import end_run, runs_without_process
from holderlake.units import counted
from holderlake.workspace import Workspace


def dead_runs_sensor(jobs: Collection[str]) -> SensorDefinition:
    """Return the sensor that ends a run if it has no process at two consecutive ticks."""

    @sensor(
        name="dead_runs",
        minimum_interval_seconds=30,
        default_status=DefaultSensorStatus.RUNNING,
        description="Marks runs as failed whose process is gone, for example after a crash of the host.",
    )
    def dead_runs(context: SensorEvaluationContext, workspace: ResourceParam[Workspace]) -> SkipReason:
        home = workspace.settings.home
        run_ids = runs_without_process(context.instance, home, jobs)
        run_ids_before = json.loads(context.cursor or "[]")
        ended = [run for run in run_ids if run in run_ids_before and end_run(context.instance, home, run)]
        context.update_cursor(json.dumps([run for run in run_ids if run not in run_ids_before]))
        if ended:
            return SkipReason(f"ended {counted(len(ended), 'run')} without a process: {', '.join(ended)}")
        return SkipReason("all started runs have a process")

    return dead_runs
