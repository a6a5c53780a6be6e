"""A home of version 0.3.0 reads as it was written, and an upgrade plans first and resumes after kills at any point.

``make_home`` made ``home-0.3.0.tar.xz``. Its store has format 1. The other steps here are that of Dagster's history, as
if an earlier release of Dagster had written it, and one that a test invents.
"""

from __future__ import annotations

import json
import shutil
import sqlite3
import tarfile
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path
from typing import Any

import duckdb
import pytest
from dagster import AssetKey
from typer.testing import CliRunner

from holderlake.cli.main import app
from holderlake.core.archive.archive import AnswerArchive
from holderlake.core.contract.tables import TABLES
from holderlake.core.lake.damage import damages
from holderlake.core.lake.lake import LakeError
from holderlake.core.provider.ledger.ledger import CreditLedger
from holderlake.core.storage.formats import write_format
from holderlake.core.storage.sqlite import DatabaseError
from holderlake.engine.store.store import Store
from holderlake.operations.history.instance import dagster_instance
from holderlake.operations.history.steps import history_steps
from holderlake.operations.maintenance.rebuild_lake import rebuild
from holderlake.operations.maintenance.upgrade import Step, plan, upgrade
from tests.helpers.killing import kill_everywhere
from tests.operations.maintenance.killed_work import upgraded, workspace_of
from tests.operations.maintenance.make_home import ARCHIVE, HOME

pytestmark = pytest.mark.integration

KILLS = 12
HISTORY = "Dagster's history"


@pytest.fixture(scope="module")
def original(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The home as version 0.3.0 left it; tests copy it."""
    folder = tmp_path_factory.mktemp("original")
    with tarfile.open(ARCHIVE) as tar:
        tar.extractall(folder, filter="data")
    return folder / HOME


@pytest.fixture(scope="module")
def current(original: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The same home with the formats of this version."""
    home = shutil.copytree(original, tmp_path_factory.mktemp("current") / "home")
    upgrade(workspace_of(home))
    return home


@pytest.fixture
def home(current: Path, tmp_path: Path) -> Path:
    return shutil.copytree(current, tmp_path / "home")


@pytest.fixture
def outdated(home: Path) -> Path:
    """The home as if an earlier release of Dagster had written its history."""
    write_format(home / "dagster", 1, dagster="1.0")
    return home


def steps_of(home: Path) -> list[Step]:
    workspace = workspace_of(home)
    return plan(workspace, lambda: history_steps(workspace.settings.dagster_home))


def content(home: Path) -> dict[Path, bytes]:
    return {path: path.read_bytes() for path in home.rglob("*") if path.is_file()}


def written_figures(home: Path) -> dict[str, Any]:
    """Return figures of the home, read without Holderlake."""
    with closing(sqlite3.connect(home / "ledger.sqlite")) as db:
        calls = "SELECT endpoint, count(*), sum(cost) FROM entries WHERE state <> 'released' GROUP BY 1 ORDER BY 1"
        spent = db.execute(calls).fetchall()
    with closing(sqlite3.connect(home / "archive" / "index.sqlite")) as db:
        answers = db.execute("SELECT count(*), sum(superseded) FROM pieces").fetchone()
    with duckdb.connect(str(home / "warehouse.duckdb"), read_only=True) as connection:
        return {"spent": spent, "answers": answers} | dict(_rows(connection))


def read_figures(home: Path) -> dict[str, Any]:
    """Return the same figures, read by Holderlake, and compare the lake with the warehouse."""
    workspace = workspace_of(home)
    with CreditLedger(home / "ledger.sqlite") as ledger:
        spent = sorted((row.name, row.calls, row.spent) for row in ledger.report("endpoint"))
    stored = list(AnswerArchive(home / "archive").stored())
    assert list(damages(workspace.lake, every_byte=True)) == []
    with workspace.warehouse.connect() as connection:
        rows = dict(_rows(connection))
        for table in TABLES:
            assert len(rows[table]) == workspace.lake.read(table).num_rows
    return {"spent": spent, "answers": (len(stored), sum(answer.superseded for answer in stored))} | rows


def _rows(connection: duckdb.DuckDBPyConnection) -> Iterator[tuple[str, list[dict[str, Any]]]]:
    for name in (*TABLES, "partitions"):
        yield name, connection.sql(f"FROM {name} ORDER BY ALL").to_arrow_table().to_pylist()


def test_a_home_of_version_0_3_0_reads_as_it_was_written_and_can_be_rebuilt(original: Path, tmp_path: Path) -> None:
    home = shutil.copytree(original, tmp_path / "home")
    written = written_figures(home)
    assert all(written[table] for table in ("tokens", "holders", "maps", "map_nodes", "clusters", "failures"))
    upgrade(workspace_of(home))
    assert steps_of(home) == []
    assert read_figures(home) == written
    with dagster_instance(home / "dagster") as instance:
        assert len(instance.get_runs()) >= 1
        assert instance.get_latest_materialization_event(AssetKey("holders")) is not None
    with Store(home / "engine") as store:
        assert [history.transfers for history in store.histories()] == [3]
    rebuild(workspace_of(home))
    rebuilt = read_figures(home)
    for name in TABLES:
        assert without_times(rebuilt[name]) == without_times(written[name]), name


def without_times(rows: list[dict[str, Any]]) -> list[str]:
    """Return rows without the times of their answers, as sorted texts. The order of columns does not matter."""
    timed = {"fetched_at", "dt_update"}
    return sorted(repr(sorted((name, row[name]) for name in row.keys() - timed)) for row in rows)


@pytest.mark.long
def test_the_plan_names_the_outdated_part_and_changes_nothing(outdated: Path) -> None:
    before = content(outdated)
    (step,) = steps_of(outdated)
    assert step.part == HISTORY
    assert {path: data for path, data in content(outdated).items() if path in before} == before


@pytest.mark.long
def test_an_upgrade_that_is_killed_anywhere_resumes(outdated: Path, tmp_path: Path) -> None:
    homes = [shutil.copytree(outdated, tmp_path / f"home-{number}") for number in range(1 + KILLS)]
    kill_everywhere("tests.operations.maintenance.killed_work:upgraded", homes)
    for home in homes[1:]:
        upgraded(home)
        assert steps_of(home) == []
        with dagster_instance(home / "dagster") as instance:
            assert instance.get_latest_materialization_event(AssetKey("holders")) is not None
        assert not any("before-upgrade" in path.name for path in (home / "dagster").iterdir())


@pytest.mark.long
def test_a_step_runs_once_and_one_without_effect_is_an_error(home: Path) -> None:
    part = home / "part"
    part.write_text("1")

    def steps() -> Iterator[Step]:
        if part.read_text() != "2":
            yield Step("part", "write it again", lambda: part.write_text(target))

    workspace, target = workspace_of(home), "2"
    assert [step.part for step in upgrade(workspace, steps)] == ["part"]
    assert (part.read_text(), upgrade(workspace, steps)) == ("2", [])
    part.write_text("1")
    target = "1"
    with pytest.raises(LakeError, match="part still has an older format after its upgrade"):
        upgrade(workspace, steps)


@pytest.mark.parametrize("part", ["dagster", "archive"])
def test_a_part_of_a_later_version_stops_the_upgrade_before_it_begins(outdated: Path, part: str) -> None:
    write_format(outdated / part, 99)
    before = content(outdated)
    with pytest.raises(DatabaseError, match="has format 99, and this version of Holderlake reads format 1"):
        upgraded(outdated)
    assert {path: data for path, data in content(outdated).items() if path in before} == before


@pytest.mark.long
def test_the_command_shows_its_plan_and_upgrades_only_with_consent(
    outdated: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("HOLDERLAKE_HOME", str(outdated))
    run = CliRunner().invoke
    shown = run(app, ["home", "upgrade"])
    assert HISTORY in shown.output
    assert (shown.exit_code, "Nothing was upgraded; add --yes" in shown.output) == (0, True)
    planned = json.loads(run(app, ["home", "upgrade", "--json"]).stdout)
    assert ([step["part"] for step in planned["steps"]], planned["done"]) == ([HISTORY], False)
    done = json.loads(run(app, ["home", "upgrade", "--yes", "--json"]).stdout)
    assert ([step["part"] for step in done["steps"]], done["done"]) == ([HISTORY], True)
    assert "there is nothing to upgrade" in run(app, ["home", "upgrade"]).output


@pytest.mark.long
def test_doctor_names_the_parts_of_an_earlier_version(outdated: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("HOLDERLAKE_HOME", str(outdated))
    for parts in (f"of an earlier version: {HISTORY}", "all parts of the home have the formats of this version"):
        findings = json.loads(CliRunner().invoke(app, ["doctor", "--json"]).stdout)
        assert [finding["found"] for finding in findings if finding["what"] == "formats"] == [parts]
        upgraded(outdated)
