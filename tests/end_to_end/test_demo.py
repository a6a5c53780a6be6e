"""``holderlake demo`` as a new user runs it: it fills every table, and a second run costs and changes nothing."""

from __future__ import annotations

import importlib.util
import json
import os
import re
import shutil
import sqlite3
import subprocess
import sys
from collections.abc import Callable
from contextlib import closing
from functools import cache
from pathlib import Path
from typing import Any

import duckdb
import pyarrow as pa
import pytest
from dagster import DagsterInstance

from holderlake.core.contract.tables import TABLES
from holderlake.core.lake.lake import SIDE_TABLES
from holderlake.core.warehouse import schema
from holderlake.core.warehouse.warehouse import Warehouse
from holderlake.pipelines.definitions import build_defs
from tests.end_to_end.recounts import RECOUNTS, Files
from tests.helpers.commands import holderlake
from tests.helpers.processes import HOLDERLAKE, Ended, run
from tests.helpers.real import missing

pytestmark = pytest.mark.long

ROOT = Path(__file__).parents[2]


def _environment(home: Path) -> dict[str, str]:
    own = {name: value for name, value in os.environ.items() if not name.startswith(("HOLDERLAKE_", "DAGSTER_"))}
    return own | {"HOLDERLAKE_HOME": str(home), "DAGSTER_DISABLE_TELEMETRY": "yes"}


def _holderlake(home: Path, *arguments: str) -> Ended:
    return holderlake(*arguments, env=_environment(home))


@pytest.fixture(scope="module")
def home(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("demo")


@pytest.fixture(scope="module")
def first(home: Path) -> dict[str, Any]:
    done = run(HOLDERLAKE, "demo", "--json", env=_environment(home))
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


def test_demo_fills_ten_tables_for_three_chains_and_eight_instants(first: dict[str, Any], home: Path) -> None:
    for name, (rows, chains, timestamps, _) in _counts(home).items():
        if name not in SIDE_TABLES:
            assert rows > 0, name
            assert chains >= 3, name
            assert timestamps >= 8, name


def test_demo_reports_rows_and_costs(first: dict[str, Any], home: Path) -> None:
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


def test_every_asset_is_materialised_and_every_check_passes(
    first: dict[str, Any], home: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("HOLDERLAKE_HOME", str(home))
    monkeypatch.setenv("DAGSTER_HOME", str(home / "dagster"))
    graph = build_defs().resolve_asset_graph()
    with DagsterInstance.get() as instance:
        materialised = {
            key.to_user_string(): bool(instance.get_materialized_partitions(key)) for key in graph.get_all_asset_keys()
        }
        checks = {}
        for key in graph.asset_check_keys:
            records = instance.event_log_storage.get_asset_check_execution_history(key, limit=1)
            checks[f"{key.name} {key.asset_key.to_user_string()}"] = records[0].status.value if records else "never"
    assert set(materialised) == {*TABLES, "warehouse", "watchlist"} - set(SIDE_TABLES)
    assert {name for name, done in materialised.items() if not done} == {"watchlist"}  # a sensor observes it
    alerts = {name: status for name, status in checks.items() if name.startswith("alert_")}
    assert set(alerts.values()) <= {"SUCCEEDED", "FAILED"}, alerts  # the sample world triggers alerts
    others = {name: status for name, status in checks.items() if name not in alerts}
    of_schedule = {name for name in others if name.startswith(("is_fresh", "is_complete"))}
    assert {others[name] for name in of_schedule} == {"never"}, others
    assert {others[name] for name in others.keys() - of_schedule} == {"SUCCEEDED"}, others


def test_warehouse_answers_sql_and_lists_its_tables(first: dict[str, Any], home: Path) -> None:
    asked = _holderlake(home, "sql", "SELECT count(*) AS n FROM maps", "--json")
    assert json.loads(asked.stdout)[0]["n"] == _counts(home)["maps"][0]
    listed = _holderlake(home, "tables", "--json")
    assert set(TABLES) <= {line["name"] for line in json.loads(listed.stdout)}


def test_ledger_warehouse_and_the_embedded_account_have_the_same_books(first: dict[str, Any], home: Path) -> None:
    with closing(sqlite3.connect(home / "sample-world" / "accounts.sqlite")) as accounts:
        booked = accounts.execute(
            "SELECT endpoint, sum(requests), sum(credits) FROM usage GROUP BY 1 ORDER BY 1"
        ).fetchall()
        assert accounts.execute("SELECT count(*) FROM accounts").fetchone() == (1,)
    with closing(sqlite3.connect(home / "ledger.sqlite")) as ledger:
        charged = "SELECT endpoint, count(*), sum(cost) FROM entries WHERE state = 'settled' GROUP BY 1 ORDER BY 1"
        assert ledger.execute(charged).fetchall() == booked
    with Warehouse(home / "warehouse.duckdb").connect() as warehouse:
        spent = "SELECT endpoint, sum(calls), CAST(100 * sum(billed) AS BIGINT) FROM spending GROUP BY 1 ORDER BY 1"
        assert warehouse.execute(spent).fetchall() == booked
    totals = json.loads(_holderlake(home, "credits", "--json").stdout)["totals"]
    assert totals["charged"] == totals["known"]


@pytest.fixture(scope="module")
def query(first: dict[str, Any], home: Path) -> Callable[[str], pa.Table]:
    """A function that returns the demo's answer to a query. It runs each query once."""
    return cache(Warehouse(home / "warehouse.duckdb").query)


def test_page_of_questions_shows_the_answers_of_the_demo(query: Callable[[str], pa.Table]) -> None:
    from docs.reference.pages import FOLDER, with_answers

    page = (FOLDER / "questions.md").read_text()
    assert page.count("```sql") == page.count("\n## ") == 20
    renewed = with_answers(page, query)
    assert page == renewed, "run 'python -m docs.reference.pages data/warehouse.duckdb' after a demo"


def test_each_answer_of_the_questions_equals_a_recount_without_sql(
    query: Callable[[str], pa.Table], home: Path
) -> None:
    page = (ROOT / "docs" / "questions.md").read_text()
    questions = re.findall(r"```sql\n(.*?)```.*?\(images/questions/(.*?)\.svg\)", page, re.DOTALL)
    assert {name for _, name in questions} == RECOUNTS.keys()
    files = Files(home)
    for sql, name in questions:
        answer, recount = query(sql).to_pylist(), RECOUNTS[name](files)
        assert len(answer) == len(recount) > 0, name
        for found, expected in zip(answer, recount, strict=True):
            exact = {column for column, value in found.items() if not isinstance(value, float)}
            assert found == {
                column: value if column in exact else pytest.approx(value) for column, value in expected.items()
            }


def test_all_queries_of_the_page_about_all_holders_show_some(query: Callable[[str], pa.Table]) -> None:
    page = (ROOT / "docs" / "sql" / "all-holders.md").read_text()
    (block, *_) = re.findall(r"```sql\n(.*?)```", page, re.DOTALL)
    queries = block.removesuffix(";\n").split(";\n")
    assert len(queries) == 6
    assert all(query(sql).num_rows for sql in queries)


def test_each_question_has_the_plot_of_its_answer(query: Callable[[str], pa.Table]) -> None:
    from docs.reference.pages import FOLDER
    from docs.reference.plots import plots

    drawn = dict(plots((FOLDER / "questions.md").read_text(), query))
    assert drawn.keys() == {str(path.relative_to(FOLDER)) for path in (FOLDER / "images" / "questions").iterdir()}
    for path, picture in drawn.items():
        assert picture == (FOLDER / path).read_text(), f"{path}: see the docstring of docs.reference.pages"


def test_every_query_of_the_docs_runs(first: dict[str, Any], home: Path) -> None:
    left_out = {"connect", "questions", "iceberg"}  # tested below and above; SQL of Spark
    unused = {"revisions", "unanswered", "comparisons"}  # each request of the demo has one answer, from one source
    pages = [page for page in (ROOT / "docs").rglob("*.md") if page.stem not in left_out]
    queries = [
        (page, query) for page in pages for query in re.findall(r"```sql\n(.*?)```", page.read_text(), re.DOTALL)
    ]
    assert len(queries) >= len(TABLES) + 3
    with Warehouse(home / "warehouse.duckdb").connect() as warehouse:
        for page, query in queries:
            rows = warehouse.execute(query).fetchall()
            assert rows or page.parent.name != "tables" or page.stem in unused, page


@pytest.mark.filterwarnings("ignore::holderlake.presentation.dataframes.QueryNote")
def test_python_examples_of_the_connect_page_work(
    first: dict[str, Any],
    sample_service: Any,
    home: Path,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    page = (ROOT / "docs" / "connect.md").read_text()
    page = page.replace("http://127.0.0.1:8014", sample_service.base_url).replace("hl_…", sample_service.secret)
    (tmp_path / "data").symlink_to(home)
    monkeypatch.chdir(tmp_path)
    ways = re.findall(r"```python\n(.*?)```", page, re.DOTALL)
    assert len(ways) == 5
    for way in ways:
        known: dict[str, Any] = {}
        exec(way, known)
        if isinstance(known.get("connection"), duckdb.DuckDBPyConnection):
            known["connection"].close()
    assert "token_address" in capsys.readouterr().out


def test_duckdb_1_5_answers_every_view_macro_and_question_alike(first: dict[str, Any], home: Path) -> None:
    shell = Path(sys.executable).with_name("duckdb")
    if not shell.exists():
        missing("DuckDB's shell of 1.5 is not installed; run 'make extras'")
    questions = re.findall(r"```sql\n(.*?)```", (ROOT / "docs" / "questions.md").read_text(), re.DOTALL)
    queries = [*(query.example for query in schema.queries()), *questions]
    counts = [f"SELECT count(*) FROM ({query.strip().removesuffix(';')})" for query in queries]
    file = home / "warehouse.duckdb"
    command = [str(shell), "-readonly", "-bail", "-csv", "-noheader", str(file), ";\n".join(counts)]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    assert (done.returncode, done.stderr) == (0, "")
    with Warehouse(file).connect() as warehouse:
        ours = [warehouse.execute(count).fetchall()[0][0] for count in counts]
    assert [int(line) for line in done.stdout.split()] == ours
    assert sum(map(bool, ours)) > len(queries) / 2


@pytest.mark.timeout(900)
@pytest.mark.parametrize("opened", ["open_warehouse(home)", "open_lake(home / 'lake')"])
def test_every_documented_query_has_the_same_answer_in_three_zones(
    opened: str, first: dict[str, Any], home: Path
) -> None:
    script = """
import re, sys
from pathlib import Path
import holderlake
from holderlake.core.warehouse import schema
from holderlake.core.warehouse.warehouse import WarehouseError
home, docs = map(Path, sys.argv[1:])
pages = [page.read_text() for page in (docs / "questions.md", *sorted(docs.glob("tables/*.md")))]
queries = [sql for page in pages for sql in re.findall(r"```sql\\n(.*?)```", page, re.DOTALL)]
queries += [query.example for query in schema.queries()]
frames = holderlake.OPENED
for sql in [*queries, "SELECT max(timestamp) FILTER (timestamp <= TIMESTAMPTZ '2026-05-02 12:00:00Z') FROM maps"]:
    try:
        rows = frames.arrow(re.sub(r"LIMIT \\d+", "", sql)).to_pylist()  # a limit may cut equals
    except WarehouseError as error:  # a lake alone has no stored token for the example
        assert "the token is NULL" in str(error) and OPENS_LAKE
        rows = []
    print(sorted(re.sub(r"\\d+\\.\\d+", lambda number: f"{float(number[0]):.9f}", str(row)) for row in rows))
""".replace("OPENED", opened).replace("OPENS_LAKE", str("lake" in opened))
    zones = ("UTC", "America/New_York", "Asia/Kolkata")
    done = [run(script, str(home), str(ROOT / "docs"), env=_environment(home) | {"TZ": zone}) for zone in zones]
    answers = {one.stdout for one in done}
    assert len(answers) == 1
    lines = answers.pop().splitlines()
    assert len(lines) > 125, done[0].stderr
    assert "datetime.datetime(2026, 5, 2, 12, 0)" in lines[-1]


@pytest.fixture(scope="module")
def readers() -> Path:
    """The folder of the programs of the environment that ``make extras`` makes for dbt and SQLAlchemy."""
    folder = Path(sys.prefix) / "readers" / "bin"
    if not (folder / "dbt").exists():
        missing("dbt and duckdb-engine are not installed; run 'make extras'")
    return folder


def test_the_dbt_example_builds_and_its_tests_pass(
    first: dict[str, Any], home: Path, readers: Path, tmp_path: Path
) -> None:
    project = shutil.copytree(ROOT / "docs" / "examples" / "dbt", tmp_path / "project")
    environment = {"HOLDERLAKE_WAREHOUSE": str(home / "warehouse.duckdb"), "HOME": str(tmp_path), "PATH": str(readers)}
    done = subprocess.run(
        [readers / "dbt", "build", "--profiles-dir", "."],
        cwd=project,
        env=environment,
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stdout
    results = json.loads((project / "target" / "run_results.json").read_text())["results"]
    models = {path.stem for path in (project / "models").glob("*.sql")}
    assert {one["unique_id"].split(".")[2] for one in results if one["status"] == "success"} == models
    assert sum(one["status"] == "pass" for one in results) == len(results) - len(models) > 3
    with duckdb.connect(str(project / "analysis.duckdb"), read_only=True) as analysis:
        found = analysis.sql(
            "SELECT change, sum(holders) FROM entries_and_exits GROUP BY change ORDER BY change"
        ).fetchall()
        ((whales, least),) = analysis.sql("SELECT count(*), min(share) FROM whales").fetchall()
        months = analysis.sql("SELECT count(DISTINCT month) FROM monthly_concentration").fetchall()
    with Warehouse(home / "warehouse.duckdb").connect() as warehouse:
        changes = (
            "SELECT change, count(*) FROM holder_changes('2025-11-01', '2026-11-01') GROUP BY change ORDER BY change"
        )
        assert found == warehouse.execute(changes).fetchall()
        seen = "SELECT count(DISTINCT date_trunc('month', timestamp)) FROM concentration_history"
        assert months == warehouse.execute(seen).fetchall()
    assert whales > 50
    assert least >= 0.01


def test_the_address_for_sqlalchemy_reads_and_cannot_write(first: dict[str, Any], home: Path, readers: Path) -> None:
    page = (ROOT / "docs" / "connect.md").read_text()
    (address,) = re.findall(r"^duckdb:///\S+$", page, re.MULTILINE)
    script = """
import sys, sqlalchemy
engine = sqlalchemy.create_engine(sys.argv[1])
seen = sqlalchemy.inspect(engine)
assert {"latest_holders", "transfers"} <= set(seen.get_view_names("main"))
assert {"holders", "spending"} <= set(seen.get_table_names("main"))
assert not any(name.startswith("_") for name in seen.get_table_names("main"))
with engine.connect() as connection:
    print(connection.execute(sqlalchemy.text("SELECT count(*) FROM holders_as_of('2026-06-30')")).scalar())
    try:
        connection.execute(sqlalchemy.text("CREATE TABLE mine AS SELECT 1"))
    except sqlalchemy.exc.DBAPIError as error:
        print("read-only" in str(error))
"""
    own = address.replace("/home/me/holderlake/data/warehouse.duckdb", str(home / "warehouse.duckdb"))
    done = subprocess.run([readers / "python", "-c", script, own], capture_output=True, text=True, check=False)
    rows = Warehouse(home / "warehouse.duckdb").query("FROM holders_as_of('2026-06-30')").num_rows
    assert done.stdout.split() == [str(rows), "True"], done.stderr


@pytest.mark.filterwarnings("ignore::holderlake.presentation.dataframes.QueryNote")
def test_each_cell_of_the_notebook_answers_its_question(
    first: dict[str, Any], home: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    if importlib.util.find_spec("marimo") is None:
        missing("the notebook needs marimo; run 'make extras' or 'make notebook'")
    monkeypatch.setenv("HOLDERLAKE_HOME", str(home))
    monkeypatch.setenv("MPLBACKEND", "agg")
    spec = importlib.util.spec_from_file_location("notebook", ROOT / "notebooks" / "warehouse.py")
    assert spec is not None
    assert spec.loader is not None
    notebook = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(notebook)
    shown, made = notebook.app.run()

    assert made["token"].selected_key == "CNDR on base"  # Cinder, whose clusters merged into one that holds nearly all
    assert b"CNDR" in made["picture"]
    concentration = made["concentration"]
    assert concentration["timestamp"].is_monotonic_increasing
    assert concentration["bundles"].iloc[-1] > 0.8 > concentration["bundles"].iloc[0]
    (plot,) = made["figure"].axes
    assert [len(line.get_xdata()) for line in plot.lines] == [len(concentration)] * 4
    assert set(made["changes"]["change"]) == {"entered", "left", "grew", "shrank"}
    merged = made["lineage"].filter(made["lineage"]["event"] == "merged")
    assert merged["members"].to_list() == [66, 83]
    assert made["flows"].num_rows > 5
    assert {str(made["flows"].schema.field(name).type) for name in ("deposits", "withdrawals")} == {
        "decimal128(38, 18)"
    }
    assert all("<h" in cell.text for cell in shown)
    assert len(shown) == 7
