"""Real Dagster runs: partitions, ranges, failures, schedules, sensors and automation."""

from __future__ import annotations

import importlib.util
import json
import os
import subprocess
import sys
import tomllib
from datetime import datetime
from pathlib import Path
from typing import Any

import pytest
from dagster import (
    AssetKey,
    AssetMaterialization,
    DagsterInstance,
    RunRequest,
    SkipReason,
    build_schedule_context,
    build_sensor_context,
    evaluate_automation_conditions,
)

from holderlake.assets import STREAMS
from holderlake.assets.chains import CHAINS
from holderlake.cli.launch import fill, ingest_day
from holderlake.core.contract.tables import TABLES
from holderlake.core.contract.times import utc_now
from holderlake.core.dagster.partitions import CHAIN_BY_DAY, DAY, FIRST_DAY, partition_key, previous_tick
from holderlake.core.dagster.tags import ERROR_TAG
from holderlake.core.lake.lake import SIDE_TABLES
from holderlake.core.settings.sections.schedule import Schedule
from holderlake.core.workspace import Workspace
from holderlake.errors import RunFailed
from holderlake.pipelines.definitions import build_defs
from holderlake.pipelines.schedules import due_days
from tests.helpers.filling import MakeWorkspace
from tests.helpers.filling import fill as fill_partition
from tests.helpers.real import missing

ROOT = Path(__file__).parents[2]
MAY = datetime(2026, 5, 1)
JUNE = datetime(2026, 6, 1)
TABLE_ASSETS = sorted(set(TABLES) - set(SIDE_TABLES))


def _small(make_workspace: MakeWorkspace, **settings: Any) -> Workspace:
    """One chain with few tokens keeps a run short."""
    tokens = make_workspace().settings.watchlist["solana"][:2]
    return make_workspace(watchlist={"solana": tokens}, **settings)


def _fail(*arguments: Any, **options: Any) -> None:
    raise OSError("no space left")


def _materialised(instance: DagsterInstance, table: str) -> set[str]:
    return instance.get_materialized_partitions(AssetKey(table))


def materialisations(instance: DagsterInstance, table: str) -> list[AssetMaterialization]:
    """Return the events of a table in the index, newest first."""
    records = instance.fetch_materializations(AssetKey(table), limit=100).records
    return [record.asset_materialization for record in records if record.asset_materialization]


def test_one_run_materialises_all_assets_and_loads_the_warehouse(
    make_workspace: MakeWorkspace, instance: DagsterInstance
) -> None:
    workspace = _small(make_workspace)
    ingest_day(workspace, instance, "solana", [JUNE])
    for table in [*TABLE_ASSETS, "warehouse"]:
        assert _materialised(instance, table) == {"solana|2026-06-01"}, table
    assert workspace.warehouse.query("SELECT count(*) AS n FROM maps")["n"][0].as_py() > 0


@pytest.mark.long
def test_a_backfill_of_some_tables_fills_only_their_family(
    make_workspace: MakeWorkspace, instance: DagsterInstance
) -> None:
    workspace = _small(make_workspace)
    fill(workspace, instance, ["solana"], [MAY], tables=["clusters"])
    assert _materialised(instance, "clusters") == _materialised(instance, "maps") == {"solana|2026-05-01"}
    assert _materialised(instance, "holders") == _materialised(instance, "tokens") == set()
    assert workspace.lake.manifest("holders", "solana", MAY) is None


@pytest.mark.long
def test_a_day_before_the_first_block_of_a_chain_needs_no_call(
    make_workspace: MakeWorkspace, instance: DagsterInstance
) -> None:
    workspace = _small(make_workspace)
    instance.add_dynamic_partitions("chain", ["solana"])
    job = build_defs(workspace).resolve_job_def("ingest")
    only = [AssetKey("chains"), AssetKey("holders")]
    assert job.execute_in_process(instance=instance, partition_key="solana|2020-03-15", asset_selection=only).success
    assert workspace.ledger.totals().spent == 0
    assert _materialised(instance, "holders") == {"solana|2020-03-15"}
    (event,) = materialisations(instance, "holders")
    assert event.metadata["no data"].value == "the first block of solana is of 2020-03-16; nothing to fetch"
    fill(workspace, instance, ["solana"], [datetime(2020, 3, 15), JUNE], tables=["chains"])
    assert _materialised(instance, "chains") == {"solana|2020-03-15", "solana|2026-06-01"}
    assert [one.as_of for one in workspace.lake.manifests("chains")] == [JUNE]


@pytest.mark.long
def test_a_run_that_reaches_its_ceiling_says_so(make_workspace: MakeWorkspace, instance: DagsterInstance) -> None:
    workspace = _small(make_workspace, budget={"per_run": 160})
    with pytest.raises(RunFailed, match="ceiling"):
        fill(workspace, instance, ["solana"], [MAY, JUNE])
    (run,) = instance.get_runs()
    assert run.tags[ERROR_TAG] == "run_ceiling"
    assert workspace.ledger.totals().spent <= 160_00


@pytest.mark.long
def test_a_failed_backfill_marks_the_partitions_that_it_finished(
    make_workspace: MakeWorkspace, instance: DagsterInstance
) -> None:
    # enough for chains, tokens and the holders of both instants, not for a map
    workspace = _small(make_workspace, budget={"per_run": 240})
    with pytest.raises(RunFailed, match="ceiling"):
        fill(workspace, instance, ["solana"], [MAY, JUNE])
    both = {"solana|2026-05-01", "solana|2026-06-01"}
    assert [_materialised(instance, table) for table in ("tokens", "holders", "warehouse")] == [both] * 3
    finished = {f"solana|{manifest.as_of:%Y-%m-%d}" for manifest in workspace.lake.manifests("maps")}
    assert _materialised(instance, "maps") == finished != both
    assert _materialised(instance, "addresses") == set()


@pytest.mark.integration
def test_partitions_that_a_failed_run_finished_are_not_paid_again(
    make_workspace: MakeWorkspace, instance: DagsterInstance
) -> None:
    with pytest.raises(RunFailed):
        fill(_small(make_workspace, budget={"per_run": 320}), instance, ["solana"], [MAY, JUNE], tables=["maps"])
    workspace = _small(make_workspace)
    fill(workspace, instance, ["solana"], [MAY, JUNE], tables=["maps"])
    spent = workspace.ledger.totals().spent
    again = make_workspace(watchlist=workspace.settings.watchlist)
    fill(again, instance, ["solana"], [MAY, JUNE], tables=["maps"])
    assert again.ledger.totals().spent == spent


@pytest.mark.long
@pytest.mark.parametrize("job", ["ingest", "backfill"])
def test_a_refresh_after_a_failed_one_does_not_pay_again(
    make_workspace: MakeWorkspace, instance: DagsterInstance, job: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    workspace = _small(make_workspace)
    instance.add_dynamic_partitions("chain", ["solana"])
    options = {"instants": ["2026-05-01"], "refresh": True}
    ops = {"fill_history": {"config": options | {"chains": ["solana"], "tables": ["holders"]}}}
    ops = {"holders": {"config": options}} if job == "ingest" else ops
    key = "solana|2026-05-01" if job == "ingest" else None
    only = [AssetKey("holders")] if job == "ingest" else None

    def run() -> None:
        definition = build_defs(workspace).resolve_job_def(job)
        definition.execute_in_process({"ops": ops}, instance, key, asset_selection=only, raise_on_error=False)

    with monkeypatch.context() as patch:
        patch.setattr(workspace.warehouse, "load", _fail)
        patch.setattr("holderlake.assets.fetched.log_materialisations", _fail)
        run()
    spent = workspace.ledger.totals().spent
    run()
    assert workspace.ledger.totals().spent == spent > 0
    run()
    assert workspace.ledger.totals().spent > spent


@pytest.mark.long
def test_a_wrong_key_fails_the_asset_and_is_in_no_event(
    make_workspace: MakeWorkspace, instance: DagsterInstance
) -> None:
    tokens = make_workspace().settings.watchlist["solana"][:1]
    workspace = make_workspace(secret="hl_00000000_wrong", watchlist={"solana": tokens})
    with pytest.raises(RunFailed, match="key"):
        ingest_day(workspace, instance, "solana", [JUNE])
    (run,) = instance.get_runs()
    assert run.tags[ERROR_TAG] == "invalid_key"
    assert not [event for event in instance.all_logs(run.run_id) if "hl_00000000_wrong" in str(event)]


def test_the_schedule_requests_todays_partition_of_every_chain(
    make_workspace: MakeWorkspace, instance: DagsterInstance
) -> None:
    workspace = make_workspace()
    defs = build_defs(workspace)
    schedule = defs.resolve_schedule_def("daily")
    with build_schedule_context(
        instance=instance,
        scheduled_execution_time=datetime(2026, 6, 1, 0, 5),
        repository_def=defs.get_repository_def(),
        resources={"workspace": workspace},
    ) as context:
        data = schedule.evaluate_tick(context)
    keys = {request.partition_key for request in data.run_requests or [] if isinstance(request, RunRequest)}
    assert keys == {f"{chain}|2026-06-01" for chain in workspace.settings.watchlist}


@pytest.mark.integration
@pytest.mark.parametrize(("start", "days"), [("2026-06-02", ["2026-06-02"]), ("2026-06-03", [])])
def test_the_schedule_requests_no_day_before_its_start(
    make_workspace: MakeWorkspace, instance: DagsterInstance, start: str, days: list[str]
) -> None:
    workspace = _small(make_workspace, schedule={"offsets": ["00:00", "12:00"], "start": start})
    defs = build_defs(workspace)
    with build_schedule_context(
        instance=instance,
        scheduled_execution_time=datetime(2026, 6, 2, 0, 5),
        repository_def=defs.get_repository_def(),
        resources={"workspace": workspace},
    ) as context:
        data = defs.resolve_schedule_def("daily").evaluate_tick(context)
    assert [request.partition_key for request in data.run_requests or []] == [f"solana|{day}" for day in days]


@pytest.mark.parametrize(
    ("cron", "offsets", "tick", "days"),
    [
        ("5 0 * * *", ["00:00"], datetime(2026, 6, 2, 0, 5), ["2026-06-02"]),
        ("5 0 * * *", ["00:00", "12:00"], datetime(2026, 6, 2, 0, 5), ["2026-06-01", "2026-06-02"]),
        ("5 0 * * *", ["12:00"], datetime(2026, 6, 2, 0, 5), ["2026-06-01"]),
        ("5 0,12 * * *", ["00:00", "12:00"], datetime(2026, 6, 2, 12, 5), ["2026-06-02"]),
        ("5 6 * * *", ["00:00", "12:00"], datetime(2026, 6, 2, 6, 5), ["2026-06-01", "2026-06-02"]),
        ("0 * * * *", ["00:00", "12:00"], datetime(2026, 6, 2, 3, 0), []),
        ("0 * * * *", ["02:00"], datetime(2026, 6, 2, 2, 0), ["2026-06-02"]),
        ("0 * * * *", ["02:00"], datetime(2026, 6, 2, 3, 0), []),
        ("5 0 * * 1", ["00:00"], datetime(2026, 6, 8, 0, 5), ["2026-06-08"]),
    ],
)
def test_a_tick_requests_days_whose_instants_passed_since_the_last(
    cron: str, offsets: list[str], tick: datetime, days: list[str]
) -> None:
    chosen = Schedule(cron=cron, offsets=offsets)
    due = due_days(tick, previous_tick(cron, tick), chosen.offsets)
    assert [f"{day:%Y-%m-%d}" for day in due] == days


def test_each_tick_of_a_day_has_a_run_of_its_own(make_workspace: MakeWorkspace, instance: DagsterInstance) -> None:
    schedule = {"cron": "5 0,12 * * *", "offsets": ["00:00", "12:00"]}
    workspace = _small(make_workspace, schedule=schedule)
    defs = build_defs(workspace)
    daily = defs.resolve_schedule_def("daily")
    keys = []
    for hour in (0, 12):
        with build_schedule_context(
            instance=instance,
            scheduled_execution_time=datetime(2026, 6, 1, hour, 5),
            repository_def=defs.get_repository_def(),
            resources={"workspace": workspace},
        ) as context:
            data = daily.evaluate_tick(context)
        keys += [(request.partition_key, request.run_key) for request in data.run_requests or []]
    assert len(keys) == len(set(keys)) == 2
    assert {key for key, _ in keys} == {"solana|2026-06-01"}


def test_the_sensor_names_the_chains_that_are_not_watched(
    make_workspace: MakeWorkspace, instance: DagsterInstance
) -> None:
    workspace = _small(make_workspace)
    sensor = build_defs(workspace).resolve_sensor_def("new_chains")
    with build_sensor_context(instance=instance, resources={"workspace": workspace}) as context:
        skipped = sensor(context)
    assert isinstance(skipped, SkipReason)
    assert skipped.skip_message == "no run has fetched the provider's chains today"
    fill_partition(workspace, CHAINS, "solana", utc_now().replace(microsecond=0))
    spent = workspace.ledger.totals().spent
    with build_sensor_context(instance=instance, resources={"workspace": workspace}) as context:
        skipped = sensor(context)
    assert isinstance(skipped, SkipReason)
    assert "arc" in str(skipped.skip_message)
    assert workspace.ledger.totals().spent == spent


@pytest.mark.integration
@pytest.mark.filterwarnings("ignore:Parameter `include_sources`")  # Dagster's own call of a beta parameter
def test_the_warehouse_is_loaded_after_new_tables_but_not_after_old_ones(
    make_workspace: MakeWorkspace, instance: DagsterInstance
) -> None:
    defs = build_defs(_small(make_workspace))
    instance.add_dynamic_partitions("chain", ["solana"])
    cursor, requested = None, []
    now = utc_now()
    for when in (None, datetime(2026, 1, 1), now):
        if when:
            instance.report_runless_asset_event(AssetMaterialization("maps", partition=partition_key("solana", when)))
        result = evaluate_automation_conditions(defs, instance, cursor=cursor)
        cursor = result.cursor
        requested.append(result.get_requested_partitions(AssetKey("warehouse")))
    assert requested == [set(), set(), {partition_key("solana", now)}]


def test_fourteen_chains_stay_below_dagsters_partition_limit() -> None:
    assert 14 * (CHAIN_BY_DAY.get_partitions_def_for_dimension(DAY).get_num_partitions() + 5 * 365) < 100_000


def test_an_instant_before_the_first_partition_is_refused() -> None:
    with pytest.raises(ValueError, match=str(FIRST_DAY)):
        partition_key("eth", datetime(2015, 1, 1))


def test_every_asset_is_described_and_the_first_of_a_family_checked(make_workspace: MakeWorkspace) -> None:
    defs = build_defs(make_workspace())
    graph = defs.resolve_asset_graph()
    checked = {key.asset_key.to_user_string() for key in graph.asset_check_keys if key.name == "rows_are_sound"}
    assert checked == {stream.tables[0] for stream in STREAMS}
    for table in TABLE_ASSETS:
        node = graph.get(AssetKey(table))
        assert node.description
        assert node.owners
        assert node.kinds
        assert len(node.metadata["dagster/column_schema"].columns) == len(TABLES[table].schema)


def test_both_project_files_name_the_same_code_location() -> None:
    project = tomllib.loads((ROOT / "pyproject.toml").read_text())["tool"]["dg"]["project"]
    location = f"""\
load_from:
  - python_module:
      module_name: {project["code_location_target_module"]}
      location_name: {project["code_location_name"]}
"""
    assert (ROOT / "workspace.yaml").read_text() == location


@pytest.mark.long
def test_dagsters_newer_command_line_finds_all_definitions(tmp_path: Path) -> None:
    if importlib.util.find_spec("dagster_dg_cli") is None:
        missing("dagster-dg-cli is not installed; 'make extras' installs it")

    def dg(*arguments: str) -> str:
        code = "from dagster_dg_cli.cli import main; main()"
        environment = {**os.environ, "HOME": str(tmp_path), "HOLDERLAKE_HOME": str(tmp_path), "PYTHONPATH": str(ROOT)}
        return subprocess.run(
            [sys.executable, "-c", code, *arguments],
            cwd=ROOT,
            env=environment,
            check=True,
            capture_output=True,
            text=True,
        ).stdout

    assert "All definitions loaded successfully." in dg("check", "defs")
    found = json.loads(dg("list", "defs", "--json"))
    assert {one["asset_key"] for one in found["assets"]} >= {*TABLE_ASSETS, "warehouse"}
    assert {one["name"] for one in found["jobs"]} >= {"ingest", "backfill", "retention"}
    assert {one["name"] for one in found["schedules"]} >= {"daily", "retention"}
    assert {one["name"] for one in found["sensors"]} >= {"healing", "watchlist"}
