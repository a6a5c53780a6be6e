"""Cancelled runs: calls in flight finish and land, nothing more is sent, and the run ends as cancelled.

Runs are launched and terminated as by Dagster's web UI: a code server, its run process, a request to terminate.
"""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from datetime import datetime, timedelta
from pathlib import Path
from typing import Any

import pytest
from dagster import DagsterInstance, DagsterRun, DagsterRunStatus
from dagster._core.workspace.context import WorkspaceProcessContext
from dagster._core.workspace.load_target import ModuleTarget

from holderlake.archive.archive import AnswerArchive
from holderlake.dagster.partitions import partition_key
from holderlake.lake.lake import Lake
from holderlake.provider.ledger.ledger import CreditLedger
from pipelines.runs import dagster_instance
from tests.end_to_end.slow_provider import SlowProvider, slow_provider

ROOT = Path(__file__).parents[2]
TOKEN = "0x" + "2" * 40
INSTANTS = [datetime(2026, 1, 1) + timedelta(hours=hour) for hour in range(400)]
CONCURRENCY = 4
WITHIN_SECONDS = 30
"""Long enough for a busy machine; the instants take three times as long."""
FINISHED = {DagsterRunStatus.CANCELED, DagsterRunStatus.FAILURE, DagsterRunStatus.SUCCESS}


@pytest.fixture
def provider() -> Iterator[SlowProvider]:
    with slow_provider(0.9) as running:
        yield running


@pytest.fixture
def home(provider: SlowProvider, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A home whose settings name the slow provider."""
    chosen = {
        "HOME": str(tmp_path),
        "PROVIDER__URL": provider.url,
        "PROVIDER__CONCURRENCY": str(CONCURRENCY),
        "API_KEY": "a-key-of-the-tests",
        "WATCHLIST": f'{{"eth": ["{TOKEN}"]}}',
        "SCHEDULE__OFFSETS": str(
            [f"{hour:02}:{minute:02}" for hour in range(24) for minute in range(0, 60, 5)]
        ).replace("'", '"'),
    }
    for name, value in chosen.items():
        monkeypatch.setenv(f"HOLDERLAKE_{name}", value)
    monkeypatch.setenv("DAGSTER_HOME", "")  # undoes what the instance sets
    return tmp_path


@contextmanager
def launched(
    home: Path, job: str, config: Mapping[str, Any], tags: Mapping[str, str]
) -> Iterator[tuple[DagsterInstance, str]]:
    """Launch a job's run as the web UI does."""
    with (
        dagster_instance(home / "dagster") as instance,
        WorkspaceProcessContext(
            instance, ModuleTarget("pipelines.definitions", None, str(ROOT), "holderlake")
        ) as process,
    ):
        instance.add_dynamic_partitions("chain", ["eth"])
        request = process.create_request_context()
        (location,) = request.code_locations
        (repository,) = location.get_repositories().values()
        remote = repository.get_full_job(job)
        plan = location.get_execution_plan(remote, config, None, None, instance)
        run = instance.create_run(
            job_name=job,
            run_id=None,
            run_config=config,
            resolved_op_selection=None,
            step_keys_to_execute=None,
            status=DagsterRunStatus.NOT_STARTED,
            tags=tags,
            root_run_id=None,
            parent_run_id=None,
            job_snapshot=remote.job_snapshot,
            execution_plan_snapshot=plan.execution_plan_snapshot,
            parent_job_snapshot=None,
            remote_job_origin=remote.get_remote_origin(),
            job_code_origin=remote.get_python_origin(),
            asset_selection=None,
            asset_check_selection=None,
            op_selection=None,
            asset_graph=repository.asset_graph,
        )
        instance.launch_run(run.run_id, request)
        yield instance, run.run_id
    process._grpc_server_registry.wait_for_processes()


def ended(instance: DagsterInstance, run_id: str) -> DagsterRun:
    for _ in range(600):
        run = instance.get_run_by_id(run_id)
        assert run is not None
        if run.status in FINISHED:
            return run
        time.sleep(0.1)
    raise TimeoutError("the run did not end")


def backfill_config() -> dict[str, Any]:
    options = {"instants": [when.isoformat() for when in INSTANTS], "chains": ["eth"], "tables": ["maps"]}
    return {"ops": {"fill_history": {"config": options}}}


@pytest.mark.parametrize("job", ["backfill", "ingest"])
def test_a_terminated_run_lands_calls_in_flight_and_is_cancelled(job: str, home: Path, provider: SlowProvider) -> None:
    key = str(partition_key("eth", INSTANTS[0]))
    config: Mapping[str, Any] = backfill_config() if job == "backfill" else {}
    tags = (
        {}
        if job == "backfill"
        else {
            "dagster/partition": key,
            "dagster/partition/chain": "eth",
            "dagster/partition/date": f"{INSTANTS[0]:%Y-%m-%d}",
        }
    )
    with launched(home, job, config, tags) as (instance, run_id):
        provider.wait_for(3 * CONCURRENCY)
        at = time.monotonic()
        assert instance.run_launcher.terminate(run_id)
        run = ended(instance, run_id)
        took = time.monotonic() - at
    assert run.status == DagsterRunStatus.CANCELED
    assert took < WITHIN_SECONDS
    _all_landed(home, provider, at)


def test_ctrl_c_lands_calls_in_flight_and_ends_the_command(home: Path, provider: SlowProvider) -> None:
    command = [sys.executable, "-m", "pipelines.cli.main", "backfill", "--from", "2026-01-01", "--to", "2026-01-17"]
    process = subprocess.Popen(
        [*command, "--every", "1h", "--table", "maps"],
        cwd=ROOT,
        env=os.environ | {"PYTHONPATH": str(ROOT)},
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )
    provider.wait_for(3 * CONCURRENCY)
    at = time.monotonic()
    process.send_signal(signal.SIGINT)
    _, said = process.communicate()
    assert process.returncode == 3, said
    assert "Traceback" not in said
    _all_landed(home, provider, at)


def _all_landed(home: Path, provider: SlowProvider, at: float) -> None:
    """Fail if a call was sent later than the signal, or an answer is not in the lake."""
    assert max(provider.arrived) < at + WITHIN_SECONDS
    assert len(provider.arrived) < len(INSTANTS) / 2
    landed = [one for family in ("maps", "holders") for one in Lake(home / "lake").manifests(family)]
    assert sum(len(one.covered) for one in landed) == len(provider.answered) == len(provider.arrived)
    with CreditLedger(home / "ledger.sqlite") as ledger:
        assert ledger.unsettled() == []
    slow = [one for one in AnswerArchive(home / "archive").stored() if "/tokens/m" in one.request["path"]]
    assert slow
