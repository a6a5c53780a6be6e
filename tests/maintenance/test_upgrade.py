"""The upgrade of a home of version 0.2.0: a plan first, equal figures afterwards, also after kills at any point.

``home-0.2.0.tar.xz`` was made by version 0.2.0 with the sample world over HTTP (``provider.direct = false``,
``addresses.top = 0``, a token of eth, one of solana, an unknown one, an address set): ``import`` of three transfers,
``backfill --from 2026-05-01 --to 2026-05-02``, ``ingest --at 2026-05-03``, ``ingest --at 2026-05-01 --chain solana
--refresh``. Only the last run is left in Dagster's history, and the sample world's own store is left out.
"""

from __future__ import annotations

import json
import shutil
import sqlite3
import tarfile
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path
from typing import Any, Final

import duckdb
import pytest
from dagster import AssetKey
from typer.testing import CliRunner

from holderlake.archive.archive import AnswerArchive
from holderlake.cli.main import app
from holderlake.contract.tables import TABLES
from holderlake.dagster.history_steps import history_steps
from holderlake.dagster.launch import dagster_instance
from holderlake.engine.store.store import Store
from holderlake.lake.damage import damages
from holderlake.lake.lake import LakeError
from holderlake.maintenance.rebuild import rebuild
from holderlake.maintenance.upgrade import plan, upgrade
from holderlake.provider.ledger.ledger import CreditLedger
from holderlake.storage.formats import write_format
from holderlake.storage.sqlite import DatabaseError
from tests.killing import kill_everywhere
from tests.maintenance.killed_work import upgraded, workspace_of

ARCHIVE: Final = Path(__file__).with_name("home-0.2.0.tar.xz")
KILLS: Final = 60
PARTS: Final = ["ledger", "archive", "lake", "warehouse", "Dagster's history"]


@pytest.fixture(scope="module")
def original(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The home as version 0.2.0 left it; tests copy it."""
    folder = tmp_path_factory.mktemp("original")
    with tarfile.open(ARCHIVE) as tar:
        tar.extractall(folder, filter="data")
    return folder / "home-0.2.0"


@pytest.fixture
def home(original: Path, tmp_path: Path) -> Path:
    shutil.copytree(original, tmp_path / "home")
    return tmp_path / "home"


@pytest.fixture(scope="module")
def figures_before(original: Path) -> dict[str, Any]:
    """The figures of the home, read without Holderlake."""
    with closing(sqlite3.connect(original / "ledger.sqlite")) as db:
        calls = "SELECT endpoint, count(*), sum(cost) FROM entries WHERE state <> 'released' GROUP BY 1 ORDER BY 1"
        spent = db.execute(calls).fetchall()
    with closing(sqlite3.connect(original / "archive" / "index.sqlite")) as db:
        answers = db.execute("SELECT count(*), sum(superseded) FROM pieces").fetchone()
    with duckdb.connect(str(original / "warehouse.duckdb"), read_only=True) as connection:
        return {"spent": spent, "answers": answers} | dict(_rows(connection))


def figures(home: Path) -> dict[str, Any]:
    """Return the same figures of a home, and compare the lake with the warehouse."""
    workspace = workspace_of(home)
    with CreditLedger(home / "ledger.sqlite") as ledger:
        spent = sorted((row.name, row.calls, row.spent) for row in ledger.report("endpoint"))
    stored = list(AnswerArchive(home / "archive").stored())
    assert list(damages(workspace.lake, every_byte=True)) == []
    with workspace.warehouse.connect() as connection:
        found = dict(_rows(connection))
        for table in TABLES:
            assert len(found[table]) == workspace.lake.read(table).num_rows
    answers = len(stored), sum(one.superseded for one in stored)
    return {"spent": spent, "answers": answers} | found


def _rows(connection: duckdb.DuckDBPyConnection) -> Iterator[tuple[str, Any]]:
    """Give the rows of all tables, and of views whose definition is the same as in version 0.2.0."""
    for name in (*TABLES, "latest_holders", "concentration_history", "partitions"):
        yield name, connection.sql(f"FROM {name} ORDER BY ALL").fetchall()


def test_the_plan_names_all_parts_and_changes_nothing(home: Path) -> None:
    before = {path: path.read_bytes() for path in home.rglob("*") if path.is_file()}
    workspace = workspace_of(home)
    steps = plan(workspace, lambda: history_steps(workspace.settings.dagster_home))
    assert [step.part for step in steps] == PARTS
    assert all(step.files and step.seconds and step.disk >= 0 for step in steps)
    assert {path: path.read_bytes() for path in home.rglob("*") if path.is_file() and path in before} == before


def test_a_home_of_version_0_2_0_has_equal_figures_afterwards(home: Path, figures_before: dict[str, Any]) -> None:
    upgraded(home)
    assert figures(home) == figures_before
    assert (
        figures_before["spent"] == [("addresses_metadata", 2, 400)]
        or sum(row[2] for row in figures_before["spent"]) == 113702
    )
    workspace = workspace_of(home)
    assert plan(workspace, lambda: history_steps(workspace.settings.dagster_home)) == []
    with dagster_instance(home / "dagster") as instance:
        assert len(instance.get_runs()) == 1
        assert instance.get_latest_materialization_event(AssetKey("holders")) is not None
    with Store(home / "engine") as store:
        assert [history.transfers for history in store.histories()] == [3]
    rebuild(workspace)
    assert _contents(figures(home)) == _contents(figures_before)
    assert workspace.lake.read("revisions")["gone"].null_count == 0


def _contents(found: dict[str, Any]) -> dict[str, Any]:
    """Return figures without times of answers: version 0.2.0 kept only the last, a rebuild finds the first."""
    timed = {"fetched_at", "dt_update"}
    kept = {
        name: [place for place, column in enumerate(table.schema.names) if column not in timed]
        for name, table in TABLES.items()
    }
    return {
        name: sorted(([row[place] for place in kept[name]] for row in rows), key=repr) if name in kept else rows
        for name, rows in found.items()
        if name not in {"partitions", "revisions", "latest_holders"}
    }


def test_an_upgrade_that_is_killed_anywhere_resumes(
    original: Path, tmp_path: Path, figures_before: dict[str, Any]
) -> None:
    homes = [tmp_path / f"home-{number}" for number in range(1 + KILLS)]
    for home in homes:
        shutil.copytree(original, home)
    kill_everywhere("tests.maintenance.killed_work:upgraded", homes)
    for home in homes[1:]:
        upgraded(home)
        workspace = workspace_of(home)
        assert plan(workspace, lambda w=workspace: history_steps(w.settings.dagster_home)) == []
        assert figures(home) == figures_before, home
        left = {path.name for path in (home / "dagster").iterdir()} | {path.name for path in home.iterdir()}
        assert not any("before-upgrade" in name for name in left)


def test_a_new_column_is_a_step_of_the_warehouse(home: Path, figures_before: dict[str, Any], new_column: str) -> None:
    workspace = workspace_of(home)
    (step,) = [one for one in plan(workspace) if one.part == "warehouse"]
    assert step.what.startswith("write the tables again with the columns of this version")
    upgrade(workspace)
    rows = workspace.warehouse.query(f"SELECT count(*) AS n, count({new_column}) AS known FROM holders").to_pylist()
    assert rows == [{"n": len(figures_before["holders"]), "known": 0}]


def test_a_part_of_a_later_version_stops_the_upgrade_before_it_begins(home: Path) -> None:
    write_format(home / "dagster", 99)
    before = {path: path.read_bytes() for path in home.rglob("*") if path.is_file()}
    with pytest.raises(DatabaseError, match="has format 99, and this version of Holderlake knows 1"):
        upgraded(home)
    assert {path: path.read_bytes() for path in home.rglob("*") if path in before} == before


def test_a_full_disk_stops_the_upgrade_before_it_begins(home: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    usage = shutil.disk_usage(home)
    monkeypatch.setattr("shutil.disk_usage", lambda _: usage._replace(free=1_000))
    with pytest.raises(LakeError, match="has 1,000 bytes free, and the upgrade needs"):
        upgraded(home)
    with closing(sqlite3.connect(home / "ledger.sqlite")) as ledger:
        assert ledger.execute("PRAGMA user_version").fetchone() == (0,)


def test_the_command_shows_its_plan_and_upgrades_only_with_consent(home: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("HOLDERLAKE_HOME", str(home))
    run = CliRunner().invoke
    shown = run(app, ["home", "upgrade"])
    assert all(part in shown.output for part in PARTS)
    assert (shown.exit_code, "Nothing was upgraded; add --yes" in shown.output) == (0, True)
    planned = json.loads(run(app, ["home", "upgrade", "--json"]).stdout)
    assert ([step["part"] for step in planned["steps"]], planned["done"]) == (PARTS, False)
    done = json.loads(run(app, ["home", "upgrade", "--yes", "--json"]).stdout)
    assert ([step["part"] for step in done["steps"]], done["done"]) == (PARTS, True)
    assert "there is nothing to upgrade" in run(app, ["home", "upgrade"]).output


def test_doctor_names_the_parts_of_an_earlier_version(home: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("HOLDERLAKE_HOME", str(home))
    for parts in (
        f"of an earlier version: {', '.join(PARTS)}",
        "all parts of the home have the formats of this version",
    ):
        found = json.loads(CliRunner().invoke(app, ["doctor", "--json"]).stdout)
        assert [one["found"] for one in found if one["what"] == "formats"] == [parts]
        upgraded(home)
