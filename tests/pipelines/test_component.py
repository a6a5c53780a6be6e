"""The component in a project of a user's own: what the page says, from an empty folder to a materialised lake."""

from __future__ import annotations

import importlib.util
import os
import re
import subprocess
import sys
from contextlib import closing
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any
from uuid import uuid4

import pytest
from dagster import (
    ComponentTree,
    DagsterInstance,
    DagsterRunStatus,
    Definitions,
    GraphDefinition,
    JobDefinition,
    build_schedule_context,
    build_sensor_context,
    op,
)

from holderlake.core.dagster.processes import process_lock
from holderlake.core.lake.lake import Lake
from holderlake.core.warehouse.warehouse import Warehouse
from holderlake.dagster import HolderlakeComponent
from holderlake.operations.alerts.outbox import Outbox
from holderlake.operations.alerts.settings import alerts_database
from holderlake.operations.healing.expected import expected
from tests.helpers.real import missing

pytestmark = pytest.mark.integration

ROOT = Path(__file__).parents[2]
TOKEN = "0xcfe4ed94e22467bac6fd2206d478183d57f82197"
YAML = re.compile(r"```yaml\n(type: holderlake\.dagster.*?)```", re.DOTALL)
MODULE = """\
from pathlib import Path

import dagster as dg


@dg.definitions
def defs():
    return dg.load_from_defs_folder(path_within_project=Path(__file__).parent)
"""
PROJECT = """\
[project]
name = "research"
version = "0.1.0"

[tool.dg]
directory_type = "project"

[tool.dg.project]
root_module = "research"
"""
SECOND = """\
type: holderlake.dagster.HolderlakeComponent

attributes:
  key_prefix: [second]
  watchlist:
    eth: [native]
    solana: [CkFUmWmBtRxc7tGz8EhLWD7CuCVTkVN4C4ASoyrDTAcB]
  families: [tokens, holders]
  schedule: null
"""


@pytest.fixture
def project(tmp_path: Path) -> Path:
    """A project with two components."""
    (tmp_path / "pyproject.toml").write_text(PROJECT)
    (first,) = YAML.findall((ROOT / "docs" / "dagster.md").read_text())
    for name, text in (("onchain", first), ("second", SECOND)):
        folder = tmp_path / "research" / "defs" / name
        folder.mkdir(parents=True)
        (folder / "defs.yaml").write_text(text)
    (tmp_path / "research" / "__init__.py").touch()
    (tmp_path / "research" / "defs" / "__init__.py").touch()
    (tmp_path / "research" / "definitions.py").write_text(MODULE)
    return tmp_path


def run(project: Path, code: str, *arguments: str) -> subprocess.CompletedProcess[str]:
    own = {name: value for name, value in os.environ.items() if not name.startswith(("HOLDERLAKE_", "DAGSTER_"))}
    environment = own | {
        "PYTHONPATH": os.pathsep.join([str(project), str(ROOT)]),
        "HOME": str(project),
        "DAGSTER_DISABLE_TELEMETRY": "yes",
    }
    command = [sys.executable, "-c", code, *arguments]
    return subprocess.run(command, cwd=project, env=environment, check=False, capture_output=True, text=True)


@pytest.mark.long
def test_two_components_are_side_by_side_in_one_project(project: Path) -> None:
    found = run(
        project,
        "from research.definitions import defs; found = defs().get_repository_def();"
        "print(*sorted(key.to_user_string() for key in found.assets_defs_by_key));"
        "print(*sorted(schedule.name for schedule in found.schedule_defs))",
    )
    assert found.returncode == 0, found.stderr
    assets, schedules = found.stdout.splitlines()
    maps = {"cluster_members", "clusters", "grouped_transfers", "map_nodes", "maps"}
    expected = {f"onchain/{name}" for name in {*maps, "tokens", "holders", "warehouse"}}
    assert set(assets.split()) == expected | {f"second/{name}" for name in ("tokens", "holders", "warehouse")}
    assert schedules == "onchain_freshness onchain_ingest_daily"


@pytest.mark.long
def test_a_component_has_the_checks_of_its_tables(tmp_path: Path) -> None:
    graph = _holders(tmp_path).resolve_asset_graph()
    checks = {(key.asset_key.to_user_string(), key.name) for key in graph.asset_check_keys}
    assert {("onchain/holders", name) for name in ("is_fresh", "is_complete", "alert_new_top_holder")} <= checks
    assert {table for table, _ in checks} == {"onchain/holders", "onchain/warehouse"}


@pytest.mark.long
def test_the_assets_of_a_component_have_the_owners_of_its_file(tmp_path: Path) -> None:
    defs = _holders(tmp_path, owners=["team:research"])
    assert {owner for spec in defs.resolve_all_asset_specs() for owner in spec.owners} == {"team:research"}


@pytest.mark.long
def test_the_schedule_of_a_component_records_which_instants_are_due(tmp_path: Path) -> None:
    defs = _holders(tmp_path)
    assert _requested(defs, datetime(2026, 5, 2, 0, 30, tzinfo=UTC)) == ["eth|2026-05-02"]
    with closing((defs.resources or {})["onchain_workspace"].open()) as workspace:
        recorded = expected(workspace)
    assert recorded is not None
    assert recorded.instants == {"eth": [datetime(2026, 5, 2)]}


@pytest.mark.long
def test_the_schedule_of_a_component_fetches_each_instant_of_a_day(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("HOLDERLAKE_SCHEDULE__OFFSETS", '["00:00", "12:00"]')
    assert _requested(_holders(tmp_path), datetime(2026, 5, 2, 0, 30, tzinfo=UTC)) == [
        "eth|2026-05-01",
        "eth|2026-05-02",
    ]


@op
def fail() -> None:
    raise ValueError


@pytest.mark.long
def test_a_failed_run_of_each_job_of_a_component_is_reported(tmp_path: Path, instance: DagsterInstance) -> None:
    defs = _holders(tmp_path)
    jobs = sorted(declared.name for declared in defs.jobs or [])
    for name in [*jobs, "job_of_the_project"]:
        _job(name).execute_in_process(instance=instance, raise_on_error=False)
    _tick(defs, "onchain_notices", instance, (datetime.now(UTC) - timedelta(minutes=1)).isoformat())
    with closing((defs.resources or {})["onchain_workspace"].open()) as workspace:
        reported = Outbox(workspace.state(alerts_database(workspace.settings))).notices(datetime(2026, 1, 1))
    assert sorted(notice.evidence["job"] for notice in reported) == jobs


@pytest.mark.long
def test_runs_of_a_component_without_a_process_are_ended(tmp_path: Path, instance: DagsterInstance) -> None:
    defs, cursor = _holders(tmp_path), None
    jobs = [*(declared.name for declared in defs.jobs or []), "job_of_the_project"]
    for name in jobs:
        run_id = str(uuid4())
        with process_lock(tmp_path, run_id) as tags:  # the lock is free again afterwards, as after a crash
            instance.create_run_for_job(_job(name), run_id=run_id, tags=tags, status=DagsterRunStatus.STARTED)
    for _ in range(2):
        cursor = _tick(defs, "onchain_dead_runs", instance, cursor)
    running = {run.job_name for run in instance.get_runs() if run.status == DagsterRunStatus.STARTED}
    assert running == {"job_of_the_project"}


def _job(name: str) -> JobDefinition:
    """A job that fails."""
    return GraphDefinition(name=name, node_defs=[fail]).to_job()


def _tick(defs: Definitions, name: str, instance: DagsterInstance, cursor: str | None) -> str | None:
    """Tick a sensor, and return its new cursor."""
    with build_sensor_context(
        instance=instance,
        cursor=cursor,
        resources=dict(defs.resources or {}),
        repository_def=defs.get_repository_def(),
    ) as context:
        return defs.resolve_sensor_def(name).evaluate_tick(context).cursor


def _requested(defs: Definitions, tick: datetime) -> list[str | None]:
    """The partitions that the schedule asks for at a tick."""
    daily = defs.resolve_schedule_def("onchain_ingest_daily")
    with build_schedule_context(
        scheduled_execution_time=tick, resources=dict(defs.resources or {}), repository_def=defs.get_repository_def()
    ) as context:
        return [request.partition_key for request in daily.evaluate_tick(context).run_requests or []]


def _holders(home: Path, **attributes: Any) -> Definitions:
    """The definitions of a component that fetches the holders of a token."""
    component = HolderlakeComponent(
        watchlist={"eth": [TOKEN]}, key_prefix=["onchain"], families=["holders"], home=str(home), **attributes
    )
    return component.build_defs(ComponentTree.for_test().load_context)


@pytest.mark.long
def test_the_page_leads_to_a_materialised_lake(project: Path) -> None:
    ended = run(
        project,
        "from dagster._cli import main; main()",
        *("asset", "materialize", "-m", "research.definitions", "--select", 'key:"onchain/*"'),
        *("--partition", "eth|2026-05-01"),
    )
    assert ended.returncode == 0, ended.stderr[-3_000:]
    home = project / "data" / "onchain"
    holders = Lake(home / "lake").read("holders", "eth", datetime(2026, 5, 1))
    assert set(holders["token_address"].to_pylist()) == {TOKEN}
    assert Warehouse(home / "warehouse.duckdb").query("FROM maps").num_rows == 1
    assert (home / "ledger.sqlite").exists()


@pytest.mark.long
def test_the_tool_of_dagster_scaffolds_and_checks_the_component(project: Path) -> None:
    if importlib.util.find_spec("dagster_dg_cli") is None:
        missing("dagster-dg-cli is not installed; 'make extras' installs it")
    dg_command = "from dagster_dg_cli.cli import main; main()"
    made = run(project, dg_command, "scaffold", "defs", "holderlake.dagster.HolderlakeComponent", "third")
    assert made.returncode == 0, made.stderr
    text = (project / "research" / "defs" / "third" / "defs.yaml").read_text()
    assert "key_prefix:\n    - third" in text
    checked = run(project, dg_command, "check", "defs")
    assert checked.returncode == 0, checked.stdout + checked.stderr
    assert "All definitions loaded successfully." in checked.stdout + checked.stderr


def test_an_address_that_yaml_reads_as_a_number_is_a_text_again() -> None:
    component = HolderlakeComponent(watchlist={"eth": [int(TOKEN, 16), "native"]})
    assert component.watchlist == {"eth": [TOKEN, "native"]}


def test_a_component_without_tokens_is_refused() -> None:
    with pytest.raises(ValueError, match="watchlist"):
        HolderlakeComponent(watchlist={})
