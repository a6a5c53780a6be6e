"""Untrusted text from chains and providers stays plain text: on terminals, in JSON, on plots and in files."""

from __future__ import annotations

import json
import logging
import re
import shutil
import zipfile
from datetime import datetime
from pathlib import Path
from xml.etree import ElementTree

import pytest
from dagster import DagsterInstance
from hypothesis import given
from hypothesis import strategies as st
from typer.testing import CliRunner

from holderlake.cli.launch import ingest_day
from holderlake.cli.main import app
from holderlake.core.contract.text import printable
from holderlake.core.lake.lake import Lake
from holderlake.core.warehouse.warehouse import Warehouse
from holderlake.engine.records import TokenInfo
from holderlake.engine.store.store import Store
from holderlake.presentation import console
from holderlake.presentation.export.asset_plots import plots
from holderlake.service.billing.keys import KeyStore
from holderlake.service.run import BackgroundService
from tests.helpers.filling import MakeWorkspace
from tests.helpers.lakes import DAYS, holders, map_tables, rows, write

pytestmark = pytest.mark.integration

HOSTILE = [
    "$$",
    r"$\frac{",
    r"\[/foo]",
    "[bold]",
    "[/]",
    ":x:",
    "\x1b[31mred\x1b]0;title\x07",
    "\u202etxt.exe",
    "two\nlines",
    "\u200b",
    "_hidden",
    "{0}%s",
    "=1+1",
    "\x9b31m",
    "😀" * 40,
    "",
]
"""Symbols of tokens that people created, or could create."""


def fill(lake: Lake, as_of: datetime) -> None:
    """Commit a token for each hostile symbol, its holders and its map."""
    named = {f"0x{number:040x}": text for number, text in enumerate(HOSTILE)}
    tokens = [{"token_address": key, "name": text, "symbol": text, "is_indexed": True} for key, text in named.items()]
    write(lake, "tokens", "eth", as_of, {"tokens": rows("tokens", "eth", as_of, tokens)}, set(named))
    held = holders("eth", as_of, {token: {"0x1": 2, "0x2": 1} for token in named})
    write(lake, "holders", "eth", as_of, {"holders": held}, set(named))
    write(
        lake, "maps", "eth", as_of, map_tables("eth", as_of, {token: [["0x1", "0x2"]] for token in named}), set(named)
    )


@pytest.fixture
def home(tmp_path: Path, empty_warehouse: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A home with such tokens, which the command line uses."""
    shutil.copy(empty_warehouse, tmp_path / "warehouse.duckdb")
    lake, warehouse = Lake(tmp_path / "lake"), Warehouse(tmp_path / "warehouse.duckdb")
    fill(lake, DAYS[0])
    warehouse.load(lake)
    monkeypatch.setenv("HOLDERLAKE_HOME", str(tmp_path))
    return tmp_path


def run(*words: str) -> str:
    result = CliRunner().invoke(app, words, catch_exceptions=False)
    assert result.exit_code == 0, result.output
    return result.output


@given(st.text(alphabet=st.characters(codec=None)))
def test_printable_text_has_only_printable_characters(text: str) -> None:
    assert printable(text).isprintable()
    assert not text.isprintable() or printable(text) == text


def test_sql_prints_hostile_symbols_as_text(home: Path) -> None:
    output = run("sql", "SELECT symbol FROM tokens ORDER BY token_address")
    lines = [line.strip() for line in output.rstrip("\n").split("\n")[1:]]
    assert lines == [printable(text) for text in HOSTILE]


def test_sql_prints_hostile_column_names_as_text(home: Path) -> None:
    assert "[/foo]" in run("sql", 'SELECT 1 AS "[/foo]", 2 AS b')


def test_a_long_table_and_a_wide_one_have_no_control_characters(capsys: pytest.CaptureFixture[str]) -> None:
    hostile = "\x1b[2J"
    console.rows("", [hostile, "b"], [[hostile, 1]] * 200)
    console.rows("", [hostile, *map(str, range(9))], [[hostile * 99, *range(9)]])
    printed = capsys.readouterr().out
    assert printed.count("\\x1b[2J") == 1 + 200 + 1 + 99
    assert printable(printed, exempt="\n") == printed


@pytest.mark.long
def test_sql_prints_the_first_rows_and_says_how_to_see_the_others(home: Path) -> None:
    query = "SELECT i, 'x' AS text FROM range(5000) AS numbers(i)"
    first = CliRunner().invoke(app, ["sql", query])
    assert [line.split() for line in first.stdout.splitlines()] == [["i", "text"], *([str(i), "x"] for i in range(500))]
    assert "--limit 0 prints all" in first.stderr
    every = CliRunner().invoke(app, ["sql", query, "--limit", "0"])
    assert (len(every.stdout.splitlines()), every.stderr) == (5001, "")
    assert len(json.loads(run("sql", "--json", query))) == 5000


def test_json_output_holds_the_exact_values(home: Path) -> None:
    output = run("sql", "--json", "SELECT symbol FROM tokens ORDER BY token_address")
    assert [row["symbol"] for row in json.loads(output)] == HOSTILE
    assert printable(output, exempt="\n") == output


def test_json_output_has_no_nan_or_infinity(home: Path) -> None:
    output = run("sql", "--json", "SELECT 'nan'::DOUBLE AS a, ['inf'::DOUBLE] AS b, 0.5 AS c")
    assert json.loads(output) == [{"a": "nan", "b": ["inf"], "c": "0.5"}]


@pytest.mark.parametrize(
    ("number", "shown"), [(1e-9, "1e-09"), (0.00012, "0.00012"), (0.5, "0.5"), (1234.5, "1,234.5")]
)
def test_a_small_number_is_not_shown_as_zero(number: float, shown: str, capsys: pytest.CaptureFixture[str]) -> None:
    console.rows("", ["n"], [[number]])
    assert capsys.readouterr().out.split() == ["n", shown]


def test_an_error_message_cannot_control_the_terminal(capsys: pytest.CaptureFixture[str]) -> None:
    console.err.print("holderlake: provider said \x1b[2J[/foo] :x:")
    assert capsys.readouterr().err == "holderlake: provider said \\x1b[2J[/foo] :x:\n"


@pytest.mark.parametrize(
    "table", ["holders", pytest.param("maps", marks=pytest.mark.long), pytest.param("clusters", marks=pytest.mark.long)]
)
def test_hostile_symbols_are_drawn(tmp_path: Path, table: str, caplog: pytest.LogCaptureFixture) -> None:
    lake = Lake(tmp_path)
    fill(lake, DAYS[0])
    assert "plot" in plots(table, lake, "eth", DAYS[0])
    assert caplog.text == ""


def test_a_plot_that_fails_is_logged_and_left_out(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    lake = Lake(tmp_path)
    fill(lake, DAYS[0])
    lake.path("tokens", "eth", DAYS[0]).write_bytes(b"damaged")
    with caplog.at_level(logging.WARNING):
        assert plots("holders", lake, "eth", DAYS[0]) == {}
    assert "the plot of holders of eth is left out" in caplog.text


def test_excel_holds_hostile_texts_exactly(home: Path, tmp_path: Path) -> None:
    file = tmp_path / "out.xlsx"
    run("export", "SELECT symbol FROM tokens WHERE symbol <> '' ORDER BY token_address", str(file))
    with zipfile.ZipFile(file) as book:
        sheet = ElementTree.fromstring(book.read("xl/worksheets/sheet1.xml"))
    texts = [element.text or "" for element in sheet.iter() if element.tag.endswith("}t")]
    found = [re.sub("_x([0-9A-F]{4})_", lambda code: chr(int(code[1], 16)), text) for text in texts]
    assert found == ["symbol", *filter(None, HOSTILE)]


@pytest.mark.long
def test_ingest_of_a_token_named_as_mathematics_lands(
    sample_folder: Path, tmp_path: Path, make_workspace: MakeWorkspace, instance: DagsterInstance
) -> None:
    store_folder = shutil.copytree(sample_folder, tmp_path / "store")
    token = make_workspace().settings.watchlist["solana"][0]
    with (
        Store(store_folder) as store,
        KeyStore(tmp_path / "keys.sqlite") as keys,
        BackgroundService(store, keys) as service,
    ):
        store.add_tokens([TokenInfo("solana", token, "$$", r"$\frac{", 9)])
        secret = keys.create("tests", 10**9, custom_plan=True)
        workspace = make_workspace(secret, service.base_url, watchlist={"solana": [token]})
        ingest_day(workspace, instance, "solana", [datetime(2026, 6, 1)])
    assert workspace.warehouse.query("SELECT symbol FROM tokens")["symbol"].to_pylist() == [r"$\frac{"]
