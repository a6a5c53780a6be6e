"""Request options of a partition: recorded, shown by the plan, comparable in views, replaced by a refresh."""

from __future__ import annotations

import json
from datetime import datetime, timedelta
from typing import Any

import pytest
from dagster import DagsterInstance

from holderlake.assets.holders import HOLDERS
from holderlake.assets.maps import MAPS
from holderlake.cli.launch import fill as fill_by_job
from holderlake.core.contract.requests import MapOptions, MapRequest
from holderlake.core.workspace import Workspace
from holderlake.errors import RunFailed
from holderlake.operations.alerts.rules import Span, evaluate, tokens_of
from holderlake.operations.alerts.settings import AlertRule
from holderlake.operations.backfill.plan import make_plan
from holderlake.operations.backfill.report import sentences
from tests.helpers.filling import MakeWorkspace, fill

pytestmark = pytest.mark.integration

MAY, JUNE, JULY = (datetime(2026, month, 1) for month in (5, 6, 7))
CHAIN = "eth"


def _workspace(make_workspace: MakeWorkspace, limit: int = 80, tokens: int = 1, **settings: Any) -> Workspace:
    chosen = make_workspace().settings.watchlist[CHAIN][:tokens]
    options = {"watchlist": {CHAIN: chosen}, "maps": {"limit": limit}, "holders": {"limit": limit}}
    workspace: Workspace = make_workspace(**(options | settings))
    return workspace


def _limits(workspace: Workspace, table: str) -> list[Any]:
    workspace.warehouse.load(workspace.lake)
    rows = workspace.warehouse.query(f"SELECT DISTINCT timestamp, holder_limit FROM {table} ORDER BY timestamp")
    return [row["holder_limit"] for row in rows.to_pylist()]


def test_the_options_are_in_the_manifest_and_in_columns(make_workspace: MakeWorkspace) -> None:
    workspace = _workspace(make_workspace, 250)
    for stream in (HOLDERS, MAPS):
        fill(workspace, stream, CHAIN, MAY)
    recorded = {one.family: one.options for one in workspace.lake.manifests()}
    assert recorded["maps"] == {"limit": 250, "use_magic_nodes": True, "use_time_nodes": True}
    assert recorded["holders"] == {"limit": 250, "with_metadata": False}
    (row,) = workspace.lake.read("maps").to_pylist()
    assert (row["holder_limit"], row["use_magic_nodes"], row["use_time_nodes"]) == (250, True, True)
    assert set(workspace.lake.read("holders")["holder_limit"].to_pylist()) == {250}


def test_maps_record_the_rules_of_a_provider_that_publishes_them(
    make_workspace: MakeWorkspace, sample_service: Any
) -> None:
    from holderlake.engine.catalog.rules import rules_in_force

    workspace = _workspace(make_workspace)
    fill(workspace, MAPS, CHAIN, MAY)
    (row,) = workspace.lake.read("maps").to_pylist()
    assert json.loads(row["rules"]) == json.loads(json.dumps(rules_in_force(sample_service.store.rules)))


def test_a_further_token_is_requested_with_the_partitions_options(make_workspace: MakeWorkspace) -> None:
    fill(_workspace(make_workspace, 80), MAPS, CHAIN, MAY)
    workspace = _workspace(make_workspace, 250, tokens=2)
    fill(workspace, MAPS, CHAIN, MAY)
    assert workspace.lake.read("maps")["holder_limit"].to_pylist() == [80, 80]
    (manifest,) = workspace.lake.manifests("maps")
    assert len(manifest.covered) == 2
    assert (manifest.options or {})["limit"] == 80


def test_the_plan_names_partitions_of_other_options_and_their_price(make_workspace: MakeWorkspace) -> None:
    fill(_workspace(make_workspace, 80), MAPS, CHAIN, MAY, JUNE)
    workspace = _workspace(make_workspace, 250)
    fill(workspace, MAPS, CHAIN, JULY)
    plan = make_plan(workspace, workspace.provider_id, [CHAIN], [MAY, JUNE, JULY], tables=["maps"])
    (other,) = plan.other_options
    assert (plan.is_finished, other.family, other.partitions) == (True, "maps", 2)
    options = MapOptions(limit=250, return_nodes=True, return_relationships=True, refresh=True, timestamp=1)
    price = MapRequest(chain=CHAIN, token_address="native", options=options).cost
    assert other.refresh_credits == 2 * price
    assert "maps (20260501T000000Z to 20260601T000000Z), 2 partitions were requested with other" in sentences(plan)[0]


def test_a_refresh_replaces_the_options_of_all_tokens_with_a_revision(make_workspace: MakeWorkspace) -> None:
    fill(_workspace(make_workspace, 80, tokens=2), HOLDERS, CHAIN, MAY)
    workspace = _workspace(make_workspace, 250, tokens=1)
    fill(workspace, HOLDERS, CHAIN, MAY, refresh=True)
    assert set(workspace.lake.read("holders")["holder_limit"].to_pylist()) == {250}
    (manifest,) = workspace.lake.manifests("holders")
    assert (manifest.options or {})["limit"] == 250
    assert len(manifest.covered) == 2
    assert workspace.lake.read("revisions").num_rows > 0


@pytest.mark.long
def test_a_refresh_costs_what_its_plan_says(make_workspace: MakeWorkspace, instance: DagsterInstance) -> None:
    fill(_workspace(make_workspace, 80, tokens=2), MAPS, CHAIN, MAY)
    workspace = _workspace(make_workspace, 250)
    plan = make_plan(workspace, workspace.provider_id, [CHAIN], [MAY], tables=["maps"], refresh=True)
    before = workspace.ledger.totals().spent
    fill_by_job(workspace, instance, [CHAIN], [MAY], refresh=True, tables=["maps"])
    assert workspace.ledger.totals().spent - before == plan.credits > 0


def test_a_stopped_refresh_resumes_without_paying_twice(
    make_workspace: MakeWorkspace, instance: DagsterInstance
) -> None:
    fill(_workspace(make_workspace, 80), MAPS, CHAIN, MAY, JUNE)
    options = MapOptions(limit=250, return_nodes=True, return_relationships=True, refresh=True, timestamp=1)
    price = MapRequest(chain=CHAIN, token_address="native", options=options).cost
    poor = _workspace(make_workspace, 250, budget={"per_run": f"{price * 3 // 2 / 100}"})
    with pytest.raises(RunFailed, match="start it again"):
        fill_by_job(poor, instance, [CHAIN], [MAY, JUNE], refresh=True, tables=["maps"])
    rich = _workspace(make_workspace, 250)
    before = rich.ledger.totals().spent
    fill_by_job(rich, instance, [CHAIN], [MAY, JUNE], refresh=True, tables=["maps"])
    assert rich.ledger.totals().spent - before == price
    assert _limits(rich, "maps") == [250, 250]


@pytest.mark.long
def test_views_through_time_compare_equal_options_only(make_workspace: MakeWorkspace) -> None:
    for stream in (HOLDERS, MAPS):
        fill(_workspace(make_workspace, 80), stream, CHAIN, MAY)
        workspace = _workspace(make_workspace, 250)
        fill(workspace, stream, CHAIN, JUNE, JULY)
    assert _limits(workspace, "maps") == [80, 250, 250]
    ask = workspace.warehouse.query
    history = ask(
        "SELECT timestamp, series, series_maps, score_change FROM concentration_history ORDER BY 1"
    ).to_pylist()
    assert [(row["timestamp"], row["series"], row["series_maps"]) for row in history] == [
        (MAY, "80 holders", 1),
        (JUNE, "250 holders", 2),
        (JULY, "250 holders", 2),
    ]
    assert [row["score_change"] is None for row in history] == [True, True, False]
    lines = ask("SELECT DISTINCT timestamp, previous_timestamp AS earlier FROM cluster_lineage ORDER BY 1").to_pylist()
    assert [(row["timestamp"], row["earlier"]) for row in lines] == [(MAY, None), (JUNE, None), (JULY, JUNE)]


def test_lists_of_different_limits_are_compared_as_far_as_the_shorter_goes(make_workspace: MakeWorkspace) -> None:
    fill(_workspace(make_workspace, 80), HOLDERS, CHAIN, MAY)
    workspace = _workspace(make_workspace, 250)
    fill(workspace, HOLDERS, CHAIN, JUNE)
    workspace.warehouse.load(workspace.lake)
    changes = workspace.warehouse.query("FROM holder_changes('2026-05-01', '2026-06-01')").to_pylist()
    assert changes
    for row in changes:
        assert row["depth"] is None or min(row["rank_before"] or 251, row["rank_after"] or 251) <= row["depth"] <= 250


@pytest.mark.long
def test_a_longer_list_raises_no_alert_about_new_holders(make_workspace: MakeWorkspace) -> None:
    fill(_workspace(make_workspace, 80), HOLDERS, CHAIN, MAY)
    workspace = _workspace(make_workspace, 250)
    fill(workspace, HOLDERS, CHAIN, JUNE)
    workspace.warehouse.load(workspace.lake)
    rule = AlertRule(rule="new_top_holder", top=200)
    tokens = tokens_of(rule, workspace.settings.watchlist, None)
    span = Span(MAY - timedelta(days=1), JUNE, timedelta(days=31))
    with workspace.warehouse.connect() as warehouse:
        assert evaluate(warehouse, "news", rule, tokens, span) == []
