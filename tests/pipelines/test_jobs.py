"""Jobs that people launch from Dagster's web UI: plan, backfill, and checks."""

from __future__ import annotations

from datetime import datetime
from typing import Any

import pytest
from dagster import AssetCheckKey, AssetKey, DagsterInstance

from holderlake.operations.backfill.job import BackfillConfig, with_instants
from holderlake.pipelines.definitions import build_defs
from tests.helpers.filling import MakeWorkspace

GRID = {"from": "2026-05-01", "to": "2026-06-05", "every": "1mo"}


def _run(workspace: Any, instance: DagsterInstance, job: str, config: dict[str, Any] | None = None) -> Any:
    ops = {"plan": "plan_history", "backfill": "fill_history"}
    run_config = {"ops": {ops[job]: {"config": config}}} if config is not None else {}
    definition = build_defs(workspace).resolve_job_def(job)
    return definition.execute_in_process(run_config=run_config, instance=instance, raise_on_error=False)


@pytest.mark.long
def test_the_job_backfill_takes_from_to_and_every(make_workspace: MakeWorkspace, instance: DagsterInstance) -> None:
    workspace = make_workspace()
    config = {**GRID, "chains": ["solana"], "tables": ["chains"]}
    assert _run(workspace, instance, "backfill", config).success
    assert [one.as_of for one in workspace.lake.manifests("chains")] == [datetime(2026, 5, 1), datetime(2026, 6, 1)]


@pytest.mark.integration
def test_the_job_plan_takes_from_to_and_every(make_workspace: MakeWorkspace, instance: DagsterInstance) -> None:
    result = _run(make_workspace(), instance, "plan", {**GRID, "chains": ["solana"], "tables": ["tokens"]})
    (output,) = [event for event in result.all_events if event.is_successful_output]
    assert "| tokens | 2 |" in output.step_output_data.metadata["plan"].value


@pytest.mark.parametrize(
    ("config", "message"),
    [
        ({}, "no instants are chosen"),
        pytest.param({**GRID, "instants": ["2026-05-01"]}, "cannot be combined", marks=pytest.mark.integration),
        pytest.param({**GRID, "every": "soon"}, "invalid step 'soon'", marks=pytest.mark.integration),
    ],
)
def test_wrong_instants_of_a_job_fail_with_the_reason(
    config: dict[str, Any], message: str, make_workspace: MakeWorkspace, instance: DagsterInstance
) -> None:
    result = _run(make_workspace(), instance, "plan", config)
    failures = [event.step_failure_data.user_failure_data for event in result.all_events if event.is_step_failure]
    assert [message in failure.description for failure in failures] == [True]


def test_a_grid_until_now_is_fixed_when_the_run_begins() -> None:
    config = with_instants(BackfillConfig.model_validate({"from": "2026-05-01", "every": "1mo"}))
    assert config.instants[0] == "2026-05-01T00:00:00"
    assert with_instants(config) == config


@pytest.mark.long
def test_the_job_checks_runs_all_checks_without_fetching(
    make_workspace: MakeWorkspace, instance: DagsterInstance
) -> None:
    workspace = make_workspace()
    assert _run(workspace, instance, "backfill", {"instants": ["2026-05-01"], "chains": ["solana"]}).success
    spent = workspace.ledger.totals().spent
    result = _run(workspace, instance, "checks")
    graph = build_defs(workspace).resolve_asset_graph()
    found = {evaluation.asset_check_key for evaluation in result.get_asset_check_evaluations()}
    assert found == set(graph.asset_check_keys)
    assert workspace.ledger.totals().spent == spent
    assert not result.get_asset_materialization_events()


@pytest.mark.integration
@pytest.mark.parametrize(
    "key",
    [
        AssetCheckKey(AssetKey("holders"), "rows_are_sound"),
        pytest.param(AssetCheckKey(AssetKey("maps"), "is_fresh"), marks=pytest.mark.long),
        pytest.param(AssetCheckKey(AssetKey("maps"), "alert_score_fall"), marks=pytest.mark.long),
    ],
)
def test_a_single_check_can_be_run(
    key: AssetCheckKey, make_workspace: MakeWorkspace, instance: DagsterInstance
) -> None:
    workspace = make_workspace()
    workspace.warehouse.load(workspace.lake)
    every_asset = build_defs(workspace).resolve_implicit_global_asset_job_def()
    result = every_asset.get_subset(asset_check_selection={key}).execute_in_process(
        instance=instance, resources={"workspace": workspace}, raise_on_error=False
    )
    assert {one.asset_check_key for one in result.get_asset_check_evaluations()} == {key}
