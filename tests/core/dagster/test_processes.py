"""Runs whose process is gone are found, marked as failed, and stop counting as active."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest
from dagster import DagsterInstance, DagsterRunStatus, build_sensor_context

from holderlake.core.dagster.processes import PROCESS_GONE, end_run, process_lock, runs_without_process
from holderlake.core.dagster.tags import ERROR_TAG
from holderlake.pipelines.definitions import build_defs
from tests.helpers.filling import MakeWorkspace
from tests.helpers.processes import DEVNULL, PIPE, Process, start

pytestmark = pytest.mark.integration

RUN = "5d3a2c1b-0000-4000-8000-000000000001"
JOB = "alerts"  # a name of our jobs, which the sensor looks at
JOBS = [JOB]
SLEEPER = """
import sys, time
from pathlib import Path
from dagster import job, op
from holderlake.core.dagster.processes import process_lock
from holderlake.operations.history.instance import dagster_instance

@op
def sleep():
    print("started", flush=True)
    time.sleep(600)

@job(name=sys.argv[2])
def sleeper():
    sleep()

home = Path(sys.argv[1])
with dagster_instance(home / "dagster") as instance, process_lock(home, sys.argv[3]) as tags:
    sleeper.execute_in_process(instance=instance, run_id=sys.argv[3], tags=tags)
"""


@pytest.fixture
def running(tmp_path: Path, instance: DagsterInstance) -> Iterator[Process]:
    """Start a process with a run, and kill it at the end."""
    with start(SLEEPER, str(tmp_path), JOB, RUN, stdout=PIPE, stderr=DEVNULL) as process:
        assert process.stdout is not None
        assert any("started" in line for line in process.stdout)
        yield process
        process.kill()


def _kill(process: Process) -> None:
    process.kill()
    process.wait()


@pytest.mark.long
def test_only_a_run_whose_process_was_killed_is_ended(
    running: Process, tmp_path: Path, instance: DagsterInstance
) -> None:
    assert runs_without_process(instance, tmp_path, JOBS) == []
    _kill(running)
    assert runs_without_process(instance, tmp_path, ["another"]) == []
    assert runs_without_process(instance, tmp_path / "other home", JOBS) == []
    assert runs_without_process(instance, tmp_path, JOBS) == [RUN]
    assert [end_run(instance, tmp_path, RUN) for _ in range(2)] == [True, False]
    (run,) = instance.get_runs()
    assert (run.status, run.tags[ERROR_TAG]) == (DagsterRunStatus.FAILURE, PROCESS_GONE)
    assert list((tmp_path / "runs").iterdir()) == []


def test_the_lock_of_a_run_is_held_once_and_removed(tmp_path: Path) -> None:
    with process_lock(tmp_path, RUN) as first, process_lock(tmp_path, RUN) as second:
        assert next(iter(first.values())).endswith(f"{tmp_path}/runs/{RUN}.lock")
        assert second == {}
    assert list((tmp_path / "runs").iterdir()) == []


@pytest.mark.long
def test_the_sensor_ends_a_dead_run_at_the_second_tick(
    make_workspace: MakeWorkspace, running: Process, tmp_path: Path, instance: DagsterInstance
) -> None:
    workspace = make_workspace()
    sensor = build_defs(workspace).resolve_sensor_def("dead_runs")
    cursor, statuses = None, []
    _kill(running)
    for _ in range(2):
        with build_sensor_context(instance=instance, cursor=cursor, resources={"workspace": workspace}) as context:
            cursor = sensor.evaluate_tick(context).cursor
        statuses.append(instance.get_run_by_id(RUN).status)  # type: ignore[union-attr]
    assert statuses == [DagsterRunStatus.STARTED, DagsterRunStatus.FAILURE]
