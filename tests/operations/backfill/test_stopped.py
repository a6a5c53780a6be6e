"""Backfills that run out of credits: they stop, and the sensor resumes them without paying twice."""

from __future__ import annotations

from datetime import datetime, timedelta
from typing import Any

import pytest
from dagster import DagsterInstance

from holderlake.cli.backfill import run_backfill
from holderlake.cli.launch import fill
from holderlake.core.contract.prices import credits_text
from holderlake.core.contract.requests import MapOptions, MapRequest
from holderlake.core.contract.times import utc_now
from holderlake.core.workspace import Workspace
from holderlake.errors import RunFailed
from holderlake.operations.backfill.job import groups_of_days
from holderlake.operations.history.instance import dagster_instance
from tests.helpers.filling import MakeWorkspace
from tests.helpers.pipeline import Pipeline

pytestmark = pytest.mark.integration

CHAIN = "solana"
COST = MapRequest(chain=CHAIN, token_address="native", options=MapOptions(return_nodes=True, timestamp=1)).cost
PART = 3 * COST + COST // 2
"""Hundredths of a credit: enough for half of the maps."""
INSTANTS = [datetime(2026, 5, 1) + timedelta(days=day) for day in range(6)]
DAY = timedelta(days=1)


@pytest.fixture
def poor(make_workspace: MakeWorkspace) -> Workspace:
    """A workspace with a daily ceiling for some of the maps."""
    return _workspace(make_workspace, per_day=credits_text(PART))


def _workspace(make_workspace: MakeWorkspace, **budget: Any) -> Workspace:
    tokens = make_workspace().settings.watchlist[CHAIN][:1]
    return make_workspace(watchlist={CHAIN: tokens}, budget=budget)


def _stop(workspace: Workspace, instance: DagsterInstance) -> str:
    with pytest.raises(RunFailed) as stopped:
        fill(workspace, instance, [CHAIN], INSTANTS, tables=["maps"])
    return str(stopped.value)


def test_a_stopped_backfill_says_how_it_is_resumed(poor: Workspace, instance: DagsterInstance) -> None:
    said = _stop(poor, instance)
    assert "ceiling budget.per_day" in said
    assert "The sensor 'healing' resumes it" in said


def test_the_sensor_resumes_a_stopped_backfill_without_paying_twice(
    make_workspace: MakeWorkspace, instance: DagsterInstance, poor: Workspace
) -> None:
    _stop(poor, instance)
    committed = sorted(manifest.as_of for manifest in poor.lake.manifests(family="maps") if manifest.covered)
    assert committed == INSTANTS[-len(committed) :] != []
    rich = Pipeline(_workspace(make_workspace), instance)
    assert rich.sensor("healing") == ["3 days wait for another attempt, 0 given up"]
    rich.at(utc_now() + DAY)
    missing = ",".join(f"{when:%Y-%m-%d}" for when in INSTANTS if when not in committed)
    assert rich.sensor("healing") == [(f"{CHAIN}|{missing}", True)]
    assert {manifest.as_of for manifest in rich.workspace.lake.manifests(family="maps")} == set(INSTANTS)
    (row,) = [row for row in rich.workspace.ledger.report("endpoint") if row.name == "map"]
    assert row.calls == len(INSTANTS)


@pytest.mark.long
def test_a_backfill_that_reached_its_own_ceiling_is_left_to_its_user(
    make_workspace: MakeWorkspace, instance: DagsterInstance
) -> None:
    _stop(_workspace(make_workspace, per_run=credits_text(PART)), instance)
    rich = Pipeline(_workspace(make_workspace), instance)
    rich.at(utc_now() + DAY)
    assert rich.sensor("healing") == ["0 days wait for another attempt, 0 given up"]


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
def test_a_finished_backfill_starts_no_run(
    make_workspace: MakeWorkspace, instance: DagsterInstance, capsys: pytest.CaptureFixture[str]
) -> None:
    workspace = _workspace(make_workspace)
    for _ in range(2):
        run_backfill(workspace, [CHAIN], INSTANTS[:1], [], ["maps"], as_json=False)
    assert "in the lake already" in capsys.readouterr().out
    with dagster_instance(workspace.settings.dagster_home) as own:
        assert len(own.get_runs()) == 1


def test_a_backfill_works_in_groups_of_whole_days() -> None:
    hours = [datetime(2026, 5, 1) + timedelta(hours=hour) for hour in reversed(range(24 * 10))]
    found = list(groups_of_days(hours, tokens=40))
    assert [when for group in found for when in group] == hours
    assert {len(group) for group in found} == {48}
    assert list(groups_of_days([], 3)) == []
