"""Backfills that run out of credits: they stop, are paused, and resume without paying twice."""

from __future__ import annotations

import json
from collections.abc import Iterator
from datetime import date, datetime, timedelta
from pathlib import Path
from typing import Any

import pytest
from dagster import DagsterInstance, RunRequest, SkipReason, build_sensor_context

from holderlake.cli.backfill import resume_paused, run_backfill
from holderlake.cli.launch import fill
from holderlake.core.contract.prices import credits_text
from holderlake.core.contract.requests import MapOptions, MapRequest
from holderlake.core.contract.times import utc_now
from holderlake.core.provider.errors import BudgetExceeded, CreditsExhausted, InvalidKey
from holderlake.core.workspace import Workspace
from holderlake.errors import RunFailed
from holderlake.operations.backfill.job import BACKFILL, groups_of_days, paused_sensor
from holderlake.operations.backfill.paused import Selection, pause, paused_backfills
from holderlake.operations.history.instance import dagster_instance
from holderlake.pipelines.definitions import build_defs
from tests.conftest import RunningService, workspaces_of
from tests.helpers.dagster_fixtures import history_of
from tests.helpers.filling import MakeWorkspace

pytestmark = pytest.mark.integration

CHAIN = "solana"
COST = MapRequest(chain=CHAIN, token_address="native", options=MapOptions(return_nodes=True, timestamp=1)).cost
PART = 3 * COST + COST // 2
"""Hundredths of a credit: enough for half of the maps."""
NOW = datetime(2026, 6, 1, 12)
INSTANTS = [datetime(2026, 5, 1) + timedelta(days=day) for day in range(6)]


@pytest.fixture
def poor(make_workspace: MakeWorkspace) -> Workspace:
    """A workspace with a daily ceiling for some of the maps."""
    return _workspace(make_workspace, per_day=credits_text(PART))


@pytest.fixture(scope="module")
def stopped_once(sample_service: RunningService, empty_home: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A home whose backfill was stopped by the daily ceiling."""
    home = tmp_path_factory.mktemp("stopped")
    with history_of(home, empty_home) as history, workspaces_of(sample_service, home) as make:
        _stop(_workspace(make, per_day=credits_text(PART)), history)
    return home


@pytest.fixture
def stopped(stopped_once: Path, tmp_path: Path) -> Iterator[DagsterInstance]:
    """Dagster's history in a copy of that home."""
    with history_of(tmp_path, stopped_once) as opened:
        yield opened


def _workspace(make_workspace: MakeWorkspace, **budget: Any) -> Workspace:
    tokens = make_workspace().settings.watchlist[CHAIN][:1]
    return make_workspace(watchlist={CHAIN: tokens}, budget=budget)


def _stop(workspace: Workspace, instance: DagsterInstance) -> str:
    with pytest.raises(RunFailed) as stopped:
        fill(workspace, instance, [CHAIN], INSTANTS, tables=["maps"])
    return str(stopped.value)


def test_a_stopped_backfill_is_paused_and_says_how_to_resume(poor: Workspace, instance: DagsterInstance) -> None:
    poor.now = lambda: NOW
    said = _stop(poor, instance)
    tomorrow = NOW.date() + timedelta(days=1)
    assert f"resume it from {tomorrow} on: holderlake backfill --paused" in said
    (paused,) = paused_backfills(poor)
    assert paused.resume_on == tomorrow
    assert paused.of == Selection.of([when.isoformat() for when in INSTANTS], [CHAIN], [], ["maps"])
    assert paused.reason in said


@pytest.mark.long
@pytest.mark.usefixtures("stopped")
def test_a_stopped_backfill_has_the_newest_instants_within_the_ceiling(poor: Workspace) -> None:
    committed = sorted(manifest.as_of for manifest in poor.lake.manifests(family="maps") if manifest.covered)
    assert committed
    assert committed == INSTANTS[-len(committed) :]
    totals = poor.ledger.totals()
    assert 0 < totals.spent + totals.reserved <= PART


@pytest.mark.long
def test_each_partition_paid_before_a_ceiling_is_committed(
    make_workspace: MakeWorkspace, instance: DagsterInstance
) -> None:
    workspace = _workspace(make_workspace, per_day=credits_text(27 * COST))
    instants = [datetime(2026, 5, 1) + timedelta(hours=hour) for hour in range(40)]
    with pytest.raises(RunFailed):
        fill(workspace, instance, [CHAIN], instants, tables=["maps"])
    paid = workspace.ledger.totals().spent // COST
    assert paid > 0
    assert sum(bool(manifest.covered) for manifest in workspace.lake.manifests(family="maps")) == paid


@pytest.mark.long
def test_dagster_does_not_retry_a_run_without_credits(stopped: DagsterInstance) -> None:
    assert [run.tags["dagster/max_retries"] for run in stopped.get_runs()] == ["0"]


@pytest.mark.long
@pytest.mark.usefixtures("stopped")
def test_a_resumed_backfill_pays_only_for_the_rest(make_workspace: MakeWorkspace, poor: Workspace) -> None:
    _due_now(poor)
    rich = _workspace(make_workspace)
    resume_paused(rich, as_json=True)
    assert paused_backfills(rich) == []
    assert {manifest.as_of for manifest in rich.lake.manifests(family="maps")} == set(INSTANTS)
    (row,) = [row for row in rich.ledger.report("endpoint") if row.name == "map"]
    assert row.calls == len(INSTANTS)


def test_a_paused_backfill_waits_until_its_date(poor: Workspace, capsys: pytest.CaptureFixture[str]) -> None:
    paused = pause(poor, CreditsExhausted("used up"), Selection.of(["2026-05-01"], [CHAIN], [], []))
    assert paused is not None
    resume_paused(poor, as_json=False)
    assert f"waits until {poor.ledger.totals().renewal}" in capsys.readouterr().err
    assert paused_backfills(poor) == [paused]


@pytest.mark.long
@pytest.mark.usefixtures("stopped")
def test_raising_the_ceiling_resumes_a_paused_backfill(make_workspace: MakeWorkspace, poor: Workspace) -> None:
    (paused,) = paused_backfills(poor)
    assert not paused.is_due(poor)
    rich = _workspace(make_workspace, per_day=credits_text(100 * COST))
    assert paused.is_due(rich)
    resume_paused(rich, as_json=False)
    assert paused_backfills(rich) == []
    assert sum(bool(manifest.covered) for manifest in rich.lake.manifests(family="maps")) == len(INSTANTS)


@pytest.mark.long
def test_a_finished_backfill_starts_no_run(
    make_workspace: MakeWorkspace, instance: DagsterInstance, capsys: pytest.CaptureFixture[str]
) -> None:
    workspace = _workspace(make_workspace)
    for _ in range(2):
        run_backfill(workspace, [CHAIN], INSTANTS[:1], [], ["maps"], as_json=False)
    assert "in the lake already" in capsys.readouterr().out
    with dagster_instance(workspace.settings.dagster_home) as own:
        assert len(own.get_runs()) == 1


@pytest.mark.parametrize(
    ("error", "resume_on"),
    [
        (BudgetExceeded("per_run", 1, 1, 1, "start another run"), None),
        (BudgetExceeded("per_day", 1, 1, 1, "wait"), NOW.date() + timedelta(days=1)),
        (BudgetExceeded("per_month", 1, 1, 1, "wait"), "renewal"),
        (CreditsExhausted("used up"), "renewal"),
    ],
    ids=["per_run", "per_day", "per_month", "provider"],
)
def test_a_backfill_can_resume_when_credits_return(
    poor: Workspace, error: Exception, resume_on: date | str | None
) -> None:
    poor.now = lambda: NOW
    paused = pause(poor, error, Selection.of(["2026-05-01"], [CHAIN], [], []))
    assert paused is not None
    assert paused.resume_on == (poor.ledger.totals().renewal if resume_on == "renewal" else resume_on)


def test_a_wrong_key_pauses_nothing(poor: Workspace) -> None:
    assert pause(poor, InvalidKey("no such key"), Selection.of(["2026-05-01"], [CHAIN], [], [])) is None


def test_the_same_backfill_is_paused_once_however_it_was_written(poor: Workspace) -> None:
    for instants, chains in (
        (["2026-05-01", "2026-05-02"], ["eth", "base"]),
        (["2026-05-02", "2026-05-01T00:00Z"], ["base", "eth"]),
    ):
        pause(poor, CreditsExhausted("used up"), Selection.of(instants, chains, [], []))
    assert len(paused_backfills(poor)) == 1


@pytest.mark.long
def test_the_sensor_starts_only_backfills_that_are_due(poor: Workspace, stopped: DagsterInstance) -> None:
    sensor, instance = paused_sensor(poor.settings), stopped
    with build_sensor_context(instance=instance, resources={"workspace": poor}) as context:
        (waiting,) = sensor(context)
    assert isinstance(waiting, SkipReason)
    _due_now(poor)
    with build_sensor_context(instance=instance, resources={"workspace": poor}) as context:
        (request,) = sensor(context)
    assert isinstance(request, RunRequest)
    poor.settings.budget.__dict__["per_day"] = None  # the renewal
    poor.close()
    done = (
        build_defs(poor)
        .resolve_job_def(BACKFILL)
        .execute_in_process(run_config=dict(request.run_config), instance=instance)
    )
    assert done.success
    assert paused_backfills(poor) == []


@pytest.mark.parametrize(("wanted", "status"), [(True, "RUNNING"), (False, "STOPPED")])
def test_the_sensor_runs_where_the_settings_say_so(make_workspace: MakeWorkspace, wanted: bool, status: str) -> None:
    workspace = make_workspace(schedule={"resume_paused": wanted})
    assert paused_sensor(workspace.settings).default_status.value == status


def test_a_backfill_works_in_groups_of_whole_days() -> None:
    hours = [datetime(2026, 5, 1) + timedelta(hours=hour) for hour in reversed(range(24 * 10))]
    found = list(groups_of_days(hours, tokens=40))
    assert [when for group in found for when in group] == hours
    assert {len(group) for group in found} == {48}
    assert list(groups_of_days([], 3)) == []


def _due_now(workspace: Workspace) -> None:
    """Move the date of the paused backfill to today."""
    (path,) = (workspace.settings.home / "paused").glob("*.json")
    path.write_text(json.dumps(json.loads(path.read_text()) | {"resume_on": str(utc_now().date())}))
