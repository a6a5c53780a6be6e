"""Retention: old runs, failures and answers are deleted by settings; what a rebuild needs, only with permission."""

from __future__ import annotations

import json
import os
import shutil
from collections.abc import Callable, Iterator
from datetime import datetime, timedelta
from functools import partial
from pathlib import Path
from typing import Any

import pytest
from dagster import AssetKey, DagsterInstance, asset, materialize
from typer.testing import CliRunner

from holderlake.assets.holders import HOLDERS
from holderlake.cli.main import app
from holderlake.core.settings import Settings
from holderlake.core.workspace import Workspace
from holderlake.operations.history.history import expired_runs
from holderlake.operations.history.instance import dagster_instance
from holderlake.operations.maintenance.rebuild_lake import rebuild
from holderlake.operations.maintenance.retention import delete_expired, expired
from holderlake.pipelines.definitions import build_defs
from tests.conftest import RunningService, workspaces_of
from tests.helpers.filling import MakeWorkspace, fill

pytestmark = pytest.mark.integration

MAY = datetime(2026, 5, 1)
UNKNOWN = "0x" + "9" * 40
NOW = timedelta(0)


@pytest.fixture(scope="module")
def home_with_failure(sample_service: RunningService, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A home with a partition of holders in which one token failed."""
    home = tmp_path_factory.mktemp("failure")
    with workspaces_of(sample_service, home) as make:
        workspace = watching_unknown(make)
        fill(workspace, HOLDERS, "eth", MAY)
        workspace.warehouse.load(workspace.lake)
    return home


def watching_unknown(make: MakeWorkspace, **settings: Any) -> Workspace:
    known = make().settings.watchlist["eth"][:2]
    return make(watchlist={"eth": [*known, UNKNOWN]}, retention=settings)


@pytest.fixture
def with_failure(home_with_failure: Path, make_workspace: MakeWorkspace, tmp_path: Path) -> Callable[..., Workspace]:
    """Return the workspace of a copy of ``home_with_failure``, with settings of the retention."""
    shutil.copytree(home_with_failure, tmp_path, dirs_exist_ok=True)
    return partial(watching_unknown, make_workspace)


def kinds(workspace: Workspace) -> dict[str, int]:
    return {one.kind: one.count for one in expired(workspace)}


def test_nothing_is_deleted_without_settings(with_failure: Callable[..., Workspace]) -> None:
    workspace = with_failure()
    assert expired(workspace) == []


def test_old_failures_are_deleted_and_other_rows_stay(with_failure: Callable[..., Workspace]) -> None:
    workspace = with_failure(failures="0")
    before, (manifest,) = workspace.lake.read("holders"), workspace.lake.manifests()
    assert kinds(workspace) == {"failures": 1}
    result = delete_expired(expired(workspace), without_rebuild=False)
    (after,) = workspace.lake.manifests()
    assert (str(result), after.failures) == ("deleted 1 rows of the table failures", 0)
    assert (after.covered, after.options, after.tables["holders"]) == (
        manifest.covered,
        manifest.options,
        manifest.tables["holders"],
    )
    assert workspace.lake.read("holders").equals(before)
    assert workspace.warehouse.query("FROM failures").num_rows == 0
    assert expired(workspace) == []


def test_young_failures_stay(with_failure: Callable[..., Workspace]) -> None:
    assert kinds(with_failure(failures="1d")) == {}


def test_answers_are_deleted_only_with_permission(with_failure: Callable[..., Workspace]) -> None:
    workspace = with_failure(archive="0")
    before, answers = workspace.lake.read("holders"), workspace.archive.size().answers
    kept = delete_expired(expired(workspace), without_rebuild=False)
    assert workspace.archive.size().answers == answers
    assert "'holderlake home rebuild' could only copy these partitions from the lake" in str(kept)
    assert "holders eth 20260501T000000Z" in str(kept)
    delete_expired(expired(workspace), without_rebuild=True)
    assert workspace.archive.size().answers == 0
    assert workspace.lake.read("holders").equals(before)


@pytest.mark.long
def test_replaced_answers_are_deleted_and_a_rebuild_makes_the_same_rows(make_workspace: MakeWorkspace) -> None:
    workspace = make_workspace(retention={"revisions": "0"})
    fill(workspace, HOLDERS, "eth", MAY)
    fill(workspace, HOLDERS, "eth", MAY, refresh=True)
    stored, before = list(workspace.archive.stored()), workspace.lake.read("holders")
    replaced = sum(one.superseded for one in stored)
    assert kinds(workspace) == {"revisions": replaced} != {"revisions": 0}
    delete_expired(expired(workspace), without_rebuild=True)
    assert len(list(workspace.archive.stored())) == len(stored) - replaced
    assert all(one.kept for one in rebuild(workspace).missing)
    assert workspace.lake.read("holders").equals(before)
    workspace.settings.lake_folder.rename(workspace.settings.home / "lost")
    rebuild(workspace)  # now the rows are known since the answers that are left
    assert workspace.lake.read("holders").drop_columns("fetched_at").equals(before.drop_columns("fetched_at"))


def test_replaced_answers_are_deleted_before_the_others(with_failure: Callable[..., Workspace]) -> None:
    workspace = with_failure(revisions="0", archive="1d")
    fill(workspace, HOLDERS, "eth", MAY, refresh=True)
    assert [*kinds(workspace)] == ["revisions"]


@asset
def holders() -> None:
    """An asset without content."""


@pytest.fixture
def history(empty_history: Path, tmp_path: Path) -> Iterator[tuple[DagsterInstance, Path]]:
    """An instance with three runs of an asset, in a home's folder."""
    shutil.copytree(empty_history, tmp_path / "dagster")
    with dagster_instance(tmp_path / "dagster") as instance:
        for _ in range(3):
            materialize([holders], instance=instance)
        yield instance, tmp_path / "dagster"


def test_old_runs_are_deleted_with_their_files_except_the_newest(history: tuple[DagsterInstance, Path]) -> None:
    instance, folder = history
    newest = instance.get_runs()[0].run_id
    assert list(expired_runs(instance, folder, None)) == list(expired_runs(instance, folder, timedelta(days=1))) == []
    (found,) = expired_runs(instance, folder, NOW)
    assert (found.count, found.is_for_rebuild, found.bytes > 0) == (2, False, True)
    found.delete()
    assert [run.run_id for run in instance.get_runs()] == [newest]
    assert {path.stem for path in (folder / "history" / "runs").glob("*-*.db")} == {newest}
    latest = instance.get_latest_materialization_event(AssetKey("holders"))
    assert latest is not None
    assert latest.run_id == newest


@pytest.mark.long
def test_runs_that_are_not_finished_stay(history: tuple[DagsterInstance, Path]) -> None:
    instance, folder = history
    started = instance.create_run_for_job(build_defs().resolve_job_def("retention"))
    (found,) = expired_runs(instance, folder, NOW)
    found.delete()
    assert started.run_id in {run.run_id for run in instance.get_runs()}


@pytest.mark.long
def test_runs_of_other_projects_stay(history: tuple[DagsterInstance, Path], tmp_path: Path) -> None:
    instance, folder = history
    for run in instance.get_runs():
        instance.add_run_tags(run.run_id, {".dagster/repository": "theirs@project"})
    assert list(expired_runs(instance, folder, NOW, "__repository__@holderlake")) == []
    (found,) = expired_runs(instance, folder, NOW, "theirs@project")
    assert found.count == 2


@pytest.mark.long
def test_the_command_leaves_a_dagster_home_of_the_users_own(
    make_workspace: MakeWorkspace, tmp_path_factory: pytest.TempPathFactory, monkeypatch: pytest.MonkeyPatch
) -> None:
    other = tmp_path_factory.mktemp("other")
    monkeypatch.setenv("HOLDERLAKE_HOME", str(make_workspace().settings.home))
    monkeypatch.setenv("HOLDERLAKE_RETENTION__HISTORY", "0")
    monkeypatch.setenv("DAGSTER_HOME", str(other))
    (other / "dagster.yaml").write_text("telemetry: {enabled: false}")
    with DagsterInstance.get() as instance:
        for _ in range(2):
            materialize([holders], instance=instance)
    ended = CliRunner().invoke(app, ["delete", "expired", "--yes"])
    assert (ended.exit_code, "DAGSTER_HOME may have other projects" in ended.output) == (0, True)
    with DagsterInstance.get() as instance:
        assert len(instance.get_runs()) == 2


@pytest.mark.long
def test_the_job_deletes_by_the_settings_and_its_schedule_is_off(
    with_failure: Callable[..., Workspace], instance: DagsterInstance
) -> None:
    workspace = with_failure(failures="0", archive="0", history="0")
    definitions = build_defs(workspace)
    (schedule,) = [one for one in definitions.schedules or [] if one.name == "retention"]
    assert (schedule.default_status.value, schedule.cron_schedule) == ("STOPPED", "40 3 * * *")
    for _ in range(2):
        materialize([holders], instance=instance)
    result = definitions.resolve_job_def("retention").execute_in_process(instance=instance)
    assert result.success
    assert len(instance.get_runs()) == 2
    assert workspace.archive.size().answers > 0
    assert [one.failures for one in workspace.lake.manifests()] == [0]


def test_the_job_deletes_unused_files_of_a_bucket_after_a_day(
    make_workspace: MakeWorkspace, instance: DagsterInstance, tmp_path: Path
) -> None:
    workspace = make_workspace(lake={"url": f"file://{tmp_path}/bucket"})
    fill(workspace, HOLDERS, "eth", MAY)
    before = workspace.lake.read("holders")
    (used,) = (tmp_path / "bucket" / "holders").rglob("*.parquet")
    old, young = (used.with_name(f"part-{letter * 24}.parquet") for letter in "ab")
    for path in (old, young):
        shutil.copy(used, path)
    for path in (used, old):
        os.utime(path, (0, 0))
    job = build_defs(workspace).resolve_job_def("retention")
    assert job.execute_in_process(instance=instance).success
    assert [path.exists() for path in (used, young, old)] == [True, True, False]
    assert workspace.lake.read("holders").equals(before)


@pytest.mark.long
def test_the_command_needs_yes_and_a_flag_for_answers(
    with_failure: Callable[..., Workspace], monkeypatch: pytest.MonkeyPatch
) -> None:
    workspace = with_failure()
    monkeypatch.setenv("HOLDERLAKE_HOME", str(workspace.settings.home))
    run = CliRunner().invoke
    assert "Nothing is old enough to delete" in run(app, ["delete", "expired"]).output
    monkeypatch.setenv("HOLDERLAKE_RETENTION__ARCHIVE", "0")
    monkeypatch.setenv("HOLDERLAKE_RETENTION__FAILURES", "0")
    answers = workspace.archive.size().answers
    shown = run(app, ["delete", "expired"])
    assert (shown.exit_code, "Nothing was deleted; add --yes" in shown.output) == (0, True)
    assert workspace.archive.size().answers == answers
    partly = run(app, ["delete", "expired", "--yes", "--json"])
    report = json.loads(partly.stdout)
    assert (partly.exit_code, report["deleted"], report["kept"]) == (3, ["failures"], ["archive"])
    assert workspace.archive.size().answers == answers
    done = run(app, ["delete", "expired", "--yes", "--without-rebuild"])
    assert (done.exit_code, workspace.archive.size().answers) == (0, 0)


def test_the_settings_are_durations() -> None:
    chosen = Settings.model_validate({"retention": {"history": "90d", "archive": "52w"}}).retention
    assert (chosen.history, chosen.archive, chosen.failures) == (timedelta(days=90), timedelta(weeks=52), None)
