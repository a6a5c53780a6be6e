"""The sensor ``dead_runs``, which ends runs whose process is gone."""

from __future__ import annotations

import json
from collections.abc import Collection

from dagster import (
    DefaultSensorStatus,
    SensorDefinition,
    SensorEvaluationContext,
    SkipReason,
    sensor,
)

from holderlake.core.dagster.processes import end_run, runs_without_process
from holderlake.core.units import counted
from holderlake.resources.workspace import WORKSPACE, workspace_of


def dead_runs_sensor(jobs: Collection[str], *, name: str = "dead_runs", resource: str = WORKSPACE) -> SensorDefinition:
    """Return the sensor that ends a run of these jobs if it has no process at two consecutive ticks.

    It looks at runs of the home of the workspace that is the resource ``resource``.
    """

    @sensor(
        name=name,
        minimum_interval_seconds=30,
        default_status=DefaultSensorStatus.RUNNING,
        required_resource_keys={resource},
        description="Marks runs as failed whose process is gone, for example after a crash of the host.",
    )
    def dead_runs(context: SensorEvaluationContext) -> SkipReason:
        home = workspace_of(context, resource).settings.home
        run_ids = runs_without_process(context.instance, home, jobs)
        run_ids_before = json.loads(context.cursor or "[]")
        ended = [run for run in run_ids if run in run_ids_before and end_run(context.instance, home, run)]
        context.update_cursor(json.dumps([run for run in run_ids if run not in run_ids_before]))
        if ended:
            return SkipReason(f"ended {counted(len(ended), 'run')} without a process: {', '.join(ended)}")
        return SkipReason("all started runs have a process")

    return dead_runs
