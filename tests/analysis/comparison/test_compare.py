"""Two homes are compared: equal ones have no difference, and planted ones are found with their cause."""

from __future__ import annotations

import json
import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

import duckdb
import pyarrow.parquet as pq
import pytest
from typer.testing import CliRunner

from holderlake.analysis.comparison.compare import compare as compared
from holderlake.cli.main import app
from holderlake.core.lake.lake import Lake
from holderlake.core.warehouse.warehouse import Warehouse
from holderlake.presentation.explorer.answers import sources
from holderlake.presentation.explorer.published import Published
from tests.helpers.lakes import DAYS, map_tables, rows, write

pytestmark = pytest.mark.integration

TOKEN = "0x7"
HELD = {f"0x{number:040x}": 1_000 - 10 * (number // 2) for number in range(1, 21)}
LATER = {address: amount + 5 * (place < 3) for place, (address, amount) in enumerate(HELD.items())}
Compare = Callable[..., set[tuple[str, str, str]]]


def listed(held: dict[str, int]) -> list[dict[str, Any]]:
    return [
        {
            "token_address": TOKEN,
            "rank": rank,
            "address": address,
            "amount": amount,
            "share": amount / 20_000,
            "is_contract": False,
        }
        for rank, (address, amount) in enumerate(held.items(), 1)
    ]


@pytest.fixture(scope="module")
def home(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A home with three instants of a token; the list changes after the first one."""
    folder = tmp_path_factory.mktemp("a")
    lake = Lake(folder / "lake")
    for place, day in enumerate(DAYS[:3]):
        held = listed(HELD if place == 0 else LATER)
        write(lake, "holders", "eth", day, {"holders": rows("holders", "eth", day, held)}, {TOKEN})
        write(lake, "maps", "eth", day, map_tables("eth", day, {TOKEN: [list(HELD)[:3]]}), {TOKEN})
    Warehouse(folder / "warehouse.duckdb").load(lake)
    return folder


@pytest.fixture
def compare(home: Path, tmp_path: Path) -> Compare:
    """Change one copy of the home by SQL, or both, and compare them: what differs, its subject and the cause."""

    def run(*changes: str, of_both: bool = False) -> set[tuple[str, str, str]]:
        for folder in (tmp_path / "a", tmp_path / "b"):
            folder.mkdir()
            shutil.copyfile(home / "warehouse.duckdb", folder / "warehouse.duckdb")
            with duckdb.connect(str(folder / "warehouse.duckdb")) as database:
                for change in changes if of_both or folder.name == "b" else ():
                    database.execute(change)
        ended = CliRunner().invoke(
            app, ["compare", str(tmp_path / "a"), str(tmp_path / "b"), "--out", str(tmp_path / "d.parquet"), "--json"]
        )
        assert ended.exit_code == 0, ended.output
        found = pq.read_table(tmp_path / "d.parquet").to_pylist()
        assert json.loads(ended.stdout)["differences"] == len(found)
        keys = [(row["timestamp"], row["token_address"], row["what"], row["subject"]) for row in found]
        assert len(set(keys)) == len(keys), "the documented key is unique"
        return {(row["what"], row["subject"], row["cause"]) for row in found}

    return run


SECOND = f"timestamp = TIMESTAMP '{DAYS[1]}'"
SINCE_SECOND = f"timestamp >= TIMESTAMP '{DAYS[1]}'"
ONE, TWO, THREE, *_ = HELD


@pytest.mark.long
def test_equal_homes_have_no_difference(compare: Compare) -> None:
    assert compare() == set()


@pytest.mark.later(long=2)
@pytest.mark.parametrize(
    ("changes", "expected"),
    [
        (
            [f"UPDATE holders SET amount = amount - 1 WHERE {SINCE_SECOND} AND address = '{TWO}'"],
            ("amount", TWO, "transfers"),
        ),
        (
            ["UPDATE holders SET holder_limit = 19", "DELETE FROM holders WHERE rank > 19"],
            ("holder", list(HELD)[-1], "other limits"),
        ),
        (
            [f"UPDATE holders SET label = 'Bourse', is_cex = true WHERE {SECOND} AND address = '{ONE}'"],
            ("label", ONE, "other labels"),
        ),
        ([f"DELETE FROM holders WHERE {SECOND} AND rank > 19"], ("holder", list(HELD)[-1], "unexplained")),
        ([f"UPDATE holders SET rank = 21 - rank WHERE {SECOND} AND rank IN (1, 20)"], ("rank", ONE, "unexplained")),
        ([f"UPDATE holders SET rank = 9 - rank WHERE {SECOND} AND rank IN (4, 5)"], ("rank", list(HELD)[3], "ties")),
        ([f"UPDATE holders SET amount = amount / 1000 WHERE {SECOND}"], ("amount", ONE, "other decimals")),
        ([f"UPDATE holders SET amount = amount - 5 WHERE {SECOND} AND rank <= 3"], ("amount", ONE, "lateness")),
        (
            [f"UPDATE grouped_transfers SET total_transfers = 9 WHERE {SECOND}"],
            ("relationship", f"{ONE} to {TWO}", "transfers"),
        ),
        ([f"UPDATE holders SET share = share * 0.9 WHERE {SECOND}"], ("share", "", "other supply")),
        ([f"UPDATE holders SET share = share * 0.9 WHERE {SECOND} AND rank = 1"], ("share", ONE, "unexplained")),
        (
            [f"DELETE FROM grouped_transfers WHERE {SECOND} AND from_address = '{ONE}'"],
            ("relationship", f"{ONE} to {TWO}", "unexplained"),
        ),
        (["UPDATE maps SET rules = 'other', service_score = 1"], ("score", "", "unexplained")),
        ([f"UPDATE holders SET share = NULL WHERE {SECOND}"], ("share", ONE, "unexplained")),
        ([f"UPDATE holders SET rank = NULL WHERE {SECOND} AND address = '{ONE}'"], ("rank", ONE, "unexplained")),
        (
            [f"DELETE FROM cluster_members WHERE {SECOND} AND address = '{THREE}'"],
            ("cluster", f"{ONE}, {TWO}, {THREE}", "unexplained"),
        ),
        (
            [
                "INSERT INTO grouped_transfers SELECT * REPLACE ('0x8' AS transfer_token) FROM grouped_transfers "
                f"WHERE {SECOND}",
                f"UPDATE grouped_transfers SET total_transfers = 9 WHERE {SECOND}",
            ],
            ("relationship", f"{ONE} to {TWO} of 0x8", "unexplained"),
        ),
    ],
)
def test_a_difference_is_found_with_its_cause(
    compare: Compare, changes: list[str], expected: tuple[str, str, str]
) -> None:
    assert expected in compare(*changes)


@pytest.mark.parametrize(
    "change",
    [
        "UPDATE holders SET rank = NULL, share = NULL",
        pytest.param(
            "UPDATE grouped_transfers SET transfer_token = NULL, transfer_chain = NULL, total_transfers = NULL",
            marks=pytest.mark.long,
        ),
    ],
)
def test_equal_homes_without_some_values_have_no_difference(compare: Compare, change: str) -> None:
    assert compare(change, of_both=True) == set()


def test_labels_that_one_home_did_not_request_are_no_difference(compare: Compare) -> None:
    assert compare("UPDATE holders SET is_contract = NULL") == set()


def test_an_instant_without_holders_on_one_side_is_not_called_equal(home: Path, tmp_path: Path) -> None:
    shutil.copyfile(home / "warehouse.duckdb", tmp_path / "warehouse.duckdb")
    with duckdb.connect(str(tmp_path / "warehouse.duckdb")) as database:
        database.execute(f"DELETE FROM holders WHERE {SECOND}")
    differing, equal = compared(home / "warehouse.duckdb", tmp_path / "warehouse.duckdb")
    assert differing.num_rows == 0
    assert DAYS[1] not in equal["timestamp"].to_pylist()


def test_a_home_without_a_warehouse_is_named(home: Path, tmp_path: Path) -> None:
    ended = CliRunner().invoke(app, ["compare", str(home), str(tmp_path)])
    assert ended.exit_code
    assert "there is no warehouse" in str(ended.exception)


def test_the_page_shows_causes_and_escapes_texts(home: Path, tmp_path: Path) -> None:
    other = tmp_path / "warehouse.duckdb"
    shutil.copyfile(home / "warehouse.duckdb", other)
    with duckdb.connect(str(other)) as database:
        database.execute("UPDATE holders SET label = '<b>&' WHERE rank = 1")
    page = tmp_path / "page.html"
    ended = CliRunner().invoke(app, ["compare", str(home), str(tmp_path), "--report", str(page)])
    assert ended.exit_code == 0, ended.output
    text = page.read_text()
    assert "other labels" in text
    assert "<b>" not in text
    assert "&lt;b&gt;&amp;" in text


def test_the_page_of_equal_homes_says_so(home: Path, tmp_path: Path) -> None:
    page = tmp_path / "page.html"
    assert CliRunner().invoke(app, ["compare", str(home), str(home), "--report", str(page)]).exit_code == 0
    assert "<h1>0 differences</h1>" in page.read_text()


@pytest.mark.long
def test_a_kept_comparison_is_a_table_of_the_warehouse_and_in_the_explorer(
    home: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    mine, other = tmp_path / "mine", tmp_path / "other"
    for folder in (mine, other):
        shutil.copytree(home, folder)
    monkeypatch.setenv("HOLDERLAKE_HOME", str(mine))
    with duckdb.connect(str(other / "warehouse.duckdb")) as database:
        database.execute(f"UPDATE holders SET label = 'Bourse' WHERE {SECOND} AND address = '{ONE}'")
    for _ in range(2):  # the second one replaces the first
        ended = CliRunner().invoke(app, ["compare", str(mine), str(other), "--keep"])
        assert ended.exit_code == 0, ended.output
    warehouse = Warehouse(mine / "warehouse.duckdb")
    counted = "SELECT source_a, source_b, what, cause, count(*) AS rows FROM comparisons GROUP BY ALL ORDER BY ALL"
    assert [tuple(row.values()) for row in warehouse.query(counted).to_pylist()] == [
        ("mine", "other", "equal", "none", 2),
        ("mine", "other", "label", "other labels", 1),
    ]
    with Published(warehouse).reader() as reader:
        differing, equal = (sources(reader, "eth", TOKEN, day) for day in (DAYS[1], DAYS[0]))
    assert (differing["subject"], differing["what"], differing["found"]) == ([ONE], ["label"], [1])
    assert equal["what"] == ["equal"]


@pytest.mark.long
def test_homes_of_the_same_name_are_named_by_their_paths(
    home: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    mine, others = tmp_path / "mine", [tmp_path / name / "home" for name in ("x", "y")]
    for folder in (mine, *others):
        shutil.copytree(home, folder)
    monkeypatch.setenv("HOLDERLAKE_HOME", str(mine))
    for pair in ((mine, others[0]), (mine, others[1]), (mine, others[1]), others):
        ended = CliRunner().invoke(app, ["compare", *map(str, pair), "--keep"])
        assert ended.exit_code == 0, ended.output
    found = Warehouse(mine / "warehouse.duckdb").query(
        "SELECT DISTINCT source_a, source_b FROM comparisons ORDER BY ALL"
    )
    named = {tuple(row.values()) for row in found.to_pylist()}
    x, y = map(str, others)
    assert named == {("mine", "home"), (str(mine), y), (x, y)}


def test_files_of_others_are_replaced_only_by_force(home: Path, tmp_path: Path) -> None:
    file = tmp_path / "mine.csv"
    file.write_text("mine")
    command = ["compare", str(home), str(home), "--out", str(file)]
    ended = CliRunner().invoke(app, command)
    assert "exists already: use --force" in str(ended.exception)
    assert file.read_text() == "mine"
    assert CliRunner().invoke(app, [*command, "--force"]).exit_code == 0
    assert file.read_text() != "mine"
    ended = CliRunner().invoke(app, [*command[:3], "--out", str(tmp_path / "none" / "d.csv")])
    assert "does not exist: create it" in str(ended.exception)


def test_a_file_that_is_no_warehouse_is_named(home: Path, tmp_path: Path) -> None:
    (tmp_path / "warehouse.duckdb").write_text("notes")
    ended = CliRunner().invoke(app, ["compare", str(home), str(tmp_path)])
    assert f"{tmp_path / 'warehouse.duckdb'} can't be read as a warehouse" in str(ended.exception)
