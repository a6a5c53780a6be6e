"""Each run checks the disk and repairs damaged partitions before it pays: of a command, a schedule or the UI."""

from __future__ import annotations

import shutil
from collections.abc import Callable
from datetime import datetime
from pathlib import Path
from random import Random
from typing import Any

import pytest
from dagster import DagsterInstance, ExecuteInProcessResult

from holderlake.assets.holders import HOLDERS
from holderlake.assets.maps import MAPS
from holderlake.cli.launch import fill as fill_by_command
from holderlake.cli.launch import ingest_day
from holderlake.core.dagster.partitions import partition_key
from holderlake.core.dagster.tags import ERROR_TAG
from holderlake.core.ingest.run import LEAST_FREE
from holderlake.core.lake.lake import LakeError
from holderlake.core.settings import SettingsError
from holderlake.core.workspace import Workspace
from holderlake.errors import RunFailed
from holderlake.operations.maintenance.retry_failures import failures, retry
from holderlake.pipelines.definitions import build_defs
from tests.conftest import RunningService, workspaces_of
from tests.helpers.dagster_fixtures import history_of
from tests.helpers.damage import damage
from tests.helpers.filling import MakeWorkspace, fill

pytestmark = pytest.mark.integration

CHAIN, MAY = "solana", datetime(2026, 5, 1)
TOO_FULL = (
    r"^the disk of [^;]* has 210 MB free, and this run needs about \d+ MB; [^;]* another disk. Nothing was fetched$"
)


def _ingest_job(workspace: Workspace, instance: DagsterInstance) -> ExecuteInProcessResult:
    """Run the partition of a day as a schedule or the UI does."""
    job = build_defs(workspace).resolve_job_def("ingest")
    return job.execute_in_process(instance=instance, partition_key=partition_key(CHAIN, MAY), raise_on_error=False)


def _backfill_job(workspace: Workspace, instance: DagsterInstance) -> ExecuteInProcessResult:
    """Run the backfill job as the sensor healing or the UI does."""
    config = {"ops": {"fill_history": {"config": {"instants": [MAY.isoformat()], "chains": [CHAIN]}}}}
    job = build_defs(workspace).resolve_job_def("backfill")
    return job.execute_in_process(run_config=config, instance=instance, raise_on_error=False)


JOBS = (_ingest_job, _backfill_job)
Job = Callable[[Workspace, DagsterInstance], ExecuteInProcessResult]


@pytest.fixture
def workspace(make_workspace: MakeWorkspace, instance: DagsterInstance) -> Workspace:
    """A workspace that watches one token of one chain."""
    instance.add_dynamic_partitions("chain", [CHAIN])
    return _workspace(make_workspace)


@pytest.fixture(scope="module")
def filled(sample_service: RunningService, empty_home: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A home with one day of one token, filled by a run of Dagster."""
    home = tmp_path_factory.mktemp("filled")
    with history_of(home, empty_home) as history, workspaces_of(sample_service, home) as make:
        history.add_dynamic_partitions("chain", [CHAIN])
        assert _ingest_job(_workspace(make), history).success
    return home


def _workspace(make: MakeWorkspace, **settings: Any) -> Workspace:
    return make(watchlist={CHAIN: make().settings.watchlist[CHAIN][:1]}, **settings)


@pytest.fixture
def full_disk(workspace: Workspace, monkeypatch: pytest.MonkeyPatch) -> None:
    """Leave as many bytes free as a run without any partition needs."""
    free = shutil.disk_usage(workspace.settings.home)._replace(free=LEAST_FREE)
    monkeypatch.setattr(shutil, "disk_usage", lambda _: free)


def _calls(workspace: Workspace) -> int:
    return sum(line.calls for line in workspace.ledger.report("endpoint"))


def _reasons(result: ExecuteInProcessResult) -> set[str | None]:
    """The reasons of the steps that failed by themselves."""
    data = [event.step_failure_data.user_failure_data for event in result.all_events if event.is_step_failure]
    return {one.description for one in data if one}


@pytest.mark.later(long=1)
@pytest.mark.usefixtures("full_disk")
@pytest.mark.parametrize("job", JOBS)
def test_a_job_of_dagster_needs_free_space_before_it_pays(
    workspace: Workspace, instance: DagsterInstance, job: Job
) -> None:
    result = job(workspace, instance)
    (reason,) = _reasons(result)
    assert not result.success
    with pytest.raises(SettingsError, match=TOO_FULL):
        raise SettingsError(reason)
    assert _calls(workspace) == 0
    (run,) = instance.get_runs()
    assert run.tags[ERROR_TAG] == "SettingsError"


@pytest.mark.usefixtures("full_disk")
@pytest.mark.parametrize("command", [ingest_day, pytest.param(fill_by_command, marks=pytest.mark.long)])
def test_a_command_needs_free_space_before_it_pays(
    workspace: Workspace, instance: DagsterInstance, command: Callable[..., Any]
) -> None:
    chosen = CHAIN if command is ingest_day else [CHAIN]
    with pytest.raises(RunFailed, match=TOO_FULL):
        command(workspace, instance, chosen, [MAY])
    assert _calls(workspace) == 0


@pytest.mark.long
def test_a_retry_of_failures_needs_free_space_before_it_pays(
    make_workspace: MakeWorkspace, monkeypatch: pytest.MonkeyPatch
) -> None:
    unknown = "So11111111111111111111111111111111111111112"
    workspace = make_workspace(watchlist={CHAIN: [unknown, *make_workspace().settings.watchlist[CHAIN][:1]]})
    fill(workspace, HOLDERS, CHAIN, MAY)
    found, calls = failures(workspace), _calls(workspace)
    free = shutil.disk_usage(workspace.settings.home)._replace(free=LEAST_FREE)
    monkeypatch.setattr(shutil, "disk_usage", lambda _: free)
    with pytest.raises(SettingsError, match="Nothing was fetched"):
        retry(workspace, found)
    assert found
    assert _calls(workspace) == calls


@pytest.mark.long
@pytest.mark.parametrize(
    ("job", "file"),
    [(_ingest_job, "manifest"), (_backfill_job, "clusters"), (_ingest_job, "clusters"), (_backfill_job, "manifest")],
)
def test_a_job_of_dagster_repairs_damage_and_pays_nothing(
    make_workspace: MakeWorkspace, filled: Path, tmp_path: Path, caplog: pytest.LogCaptureFixture, job: Job, file: str
) -> None:
    with history_of(tmp_path, filled) as instance:
        workspace = _workspace(make_workspace)
        rows, calls = workspace.lake.read("clusters"), _calls(workspace)
        manifest = next(path for path in workspace.lake.manifest_paths() if path.stem == MAPS.name)
        path = manifest if file == "manifest" else workspace.lake.path(file, CHAIN, MAY)
        damage(path, Random(1), "truncate")
        # with another limit the archive has no answer to the request, so fetching it again would cost credits
        later = _workspace(make_workspace, maps={"limit": 250})
        assert job(later, instance).success
    assert _calls(later) == calls
    assert later.lake.read("clusters") == rows
    assert f"maps/{CHAIN}/20260501T000000Z was repaired from the archive, at no cost" in caplog.text


def test_a_scheduled_run_finds_a_flipped_bit(make_workspace: MakeWorkspace, filled: Path, tmp_path: Path) -> None:
    with history_of(tmp_path, filled) as instance:
        workspace = _workspace(make_workspace)
        rows, calls = workspace.lake.read("holders"), _calls(workspace)
        damage(workspace.lake.path("holders", CHAIN, MAY), Random(1), "flip")
        assert _ingest_job(workspace, instance).success
    assert workspace.lake.read("holders") == rows
    assert _calls(workspace) == calls


def test_a_run_over_a_lake_of_another_provider_pays_nothing(workspace: Workspace, instance: DagsterInstance) -> None:
    workspace.lake.claim("another")
    result = _ingest_job(workspace, instance)
    assert not result.success
    assert _calls(workspace) == 0
    with pytest.raises(LakeError, match="another"):
        workspace.check()
