"""``holderlake demo`` as a new user runs it: everything is filled, and a second run costs and changes nothing."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import duckdb
import pytest

from contract.tables import TABLES
from resources.lake import SIDE_TABLES
from resources.warehouse import Warehouse

ROOT = Path(__file__).parents[2]


def _holderlake(home: Path, *arguments: str) -> subprocess.CompletedProcess[str]:
    environment = {
        name: value for name, value in os.environ.items() if not name.startswith(("HOLDERLAKE_", "DAGSTER_"))
    }
    environment |= {"HOLDERLAKE_HOME": str(home), "DAGSTER_DISABLE_TELEMETRY": "yes"}
    command = [sys.executable, "-m", "pipelines.cli", *arguments]
    return subprocess.run(command, cwd=ROOT, env=environment, capture_output=True, text=True, timeout=110, check=False)


@pytest.fixture(scope="module")
def home(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("demo")


@pytest.fixture(scope="module")
def first(home: Path) -> dict[str, Any]:
    done = _holderlake(home, "demo", "--json")
    assert done.returncode == 0, done.stderr
    return json.loads(done.stdout)


def _counts(home: Path) -> dict[str, tuple[Any, ...]]:
    with duckdb.connect(str(home / "warehouse.duckdb"), read_only=True) as warehouse:
        return {
            name: warehouse.execute(
                f"SELECT count(*), count(DISTINCT chain), count(DISTINCT timestamp), bit_xor(hash(t)) FROM {name} AS t"
            ).fetchall()[0]
            for name in TABLES
        }


def test_all_ten_tables_are_filled_for_three_chains_and_eight_timestamps(first: dict[str, Any], home: Path) -> None:
    for name, (rows, chains, timestamps, _) in _counts(home).items():
        if name not in SIDE_TABLES:
            assert rows > 0, name
            assert chains >= 3, name
            assert timestamps >= 8, name


def test_it_says_what_landed_and_what_it_cost(first: dict[str, Any], home: Path) -> None:
    counts = _counts(home)
    assert {line["table"]: line["rows"] for line in first["tables"]} == {name: counts[name][0] for name in TABLES}
    assert first["credits_hundredths"] > 0
    assert len(first["answers"]) == 2
    assert all(answer["rows"] for answer in first["answers"])


def test_a_second_run_spends_nothing_and_changes_no_row(first: dict[str, Any], home: Path) -> None:
    before = _counts(home)
    done = _holderlake(home, "demo", "--json")
    assert done.returncode == 0, done.stderr
    assert json.loads(done.stdout)["credits_hundredths"] == 0
    assert json.loads(done.stdout)["calls"] == 0
    assert _counts(home) == before


def test_every_asset_is_materialised_and_every_check_has_passed(first: dict[str, Any], home: Path) -> None:
    script = """
import json, os
from dagster import DagsterInstance
from pipelines.definitions import build_defs
defs = build_defs()
with DagsterInstance.get() as instance:
    graph = defs.resolve_asset_graph()
    keys = {key.to_user_string(): bool(instance.get_materialized_partitions(key)) for key in graph.get_all_asset_keys()}
    checks = {}
    for key in graph.asset_check_keys:
        records = instance.event_log_storage.get_asset_check_execution_history(key, limit=1)
        checks[key.name + " " + key.asset_key.to_user_string()] = records[0].status.value if records else "never"
print(json.dumps({"keys": keys, "checks": checks}))
"""
    environment = os.environ | {"HOLDERLAKE_HOME": str(home), "DAGSTER_HOME": str(home / "dagster")}
    done = subprocess.run(
        [sys.executable, "-c", script],
        cwd=ROOT,
        env=environment,
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    state = json.loads(done.stdout.splitlines()[-1])
    assert set(state["keys"]) == {*TABLES, "warehouse"} - set(SIDE_TABLES)
    assert all(state["keys"].values()), state["keys"]
    alerts = {name: status for name, status in state["checks"].items() if name.startswith("alert_")}
    assert set(alerts.values()) <= {"SUCCEEDED", "FAILED"}, alerts  # the sample world has something to tell
    assert {status for name, status in state["checks"].items() if name not in alerts} == {"SUCCEEDED"}, state["checks"]


def test_the_warehouse_answers_sql_and_lists_its_tables(first: dict[str, Any], home: Path) -> None:
    asked = _holderlake(home, "sql", "SELECT count(*) AS n FROM maps", "--json")
    assert json.loads(asked.stdout)[0]["n"] == _counts(home)["maps"][0]
    listed = _holderlake(home, "tables", "--json")
    assert set(TABLES) <= {line["name"] for line in json.loads(listed.stdout)}


def test_writing_through_sql_is_refused_in_a_sentence(first: dict[str, Any], home: Path) -> None:
    refused = _holderlake(home, "sql", "DELETE FROM maps")
    assert refused.returncode == 1
    assert "read-only" in refused.stderr
    assert "Traceback" not in refused.stderr


def test_the_page_of_questions_shows_the_demo_s_answers(first: dict[str, Any], home: Path) -> None:
    from pipelines.docs import FOLDER, answered

    page = (FOLDER / "questions.md").read_text()
    assert page.count("```sql") >= 10
    renewed = answered(page, Warehouse(home / "warehouse.duckdb").query)
    assert page == renewed, "run 'python -m pipelines.docs data/warehouse.duckdb' after a demo"
