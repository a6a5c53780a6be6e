"""Negative balances of real histories in all places that show them."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from typer.testing import CliRunner

from pipelines.cli.main import app

Run = Callable[..., Any]

QUIDD = "0x7961ade0a767c0e5b67dd1a1f78ba44f727642ed"
KONGZ = "0x57a204aa1042f6e66dd7730813f4024114d74f37"
HELIOS = "0x970a341b4e311a5c7248dc9c3d8d4f35fedfa73e"
FILES = ("helios_eth", "quidd_bsc", "cyberkongz_eth", "mooncats_eth")
KNOWN = {HELIOS: 30, QUIDD: 37, KONGZ: 1}


@pytest.fixture
def run(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Run:
    """Run a command in a new home whose provider is the user's own store."""
    monkeypatch.setenv("HOLDERLAKE_HOME", str(tmp_path))
    monkeypatch.setenv("HOLDERLAKE_PROVIDER__LOCAL", "store")
    monkeypatch.setenv("HOLDERLAKE_WATCHLIST", json.dumps({"eth": [HELIOS, KONGZ], "bsc": [QUIDD]}))
    monkeypatch.chdir(tmp_path)

    def run(*arguments: str) -> Any:
        ended = CliRunner().invoke(app, [*arguments])
        assert ended.exit_code == 0, ended.output
        return ended

    return run


@pytest.fixture
def imported(run: Run, shared_data: Path) -> list[dict[str, Any]]:
    """The report of an import of real histories."""
    paths = [str(shared_data / "transfers" / f"{name}.parquet") for name in FILES]
    return json.loads(run("import", *paths, "--json").stdout)


def test_the_report_of_an_import_names_each_address(imported: list[dict[str, Any]]) -> None:
    assert [line["negative balances"] for line in imported] == [30, 37, 1, 0]
    rows = [row for line in imported for row in line["negative addresses"]]
    assert Counter(row["token_address"] for row in rows) == KNOWN
    (kong,) = (row for row in rows if row["token_address"] == KONGZ)
    assert (kong["chain"], kong["balance"]) == ("eth", "-1")
    assert kong["since"].startswith("2021-")
    assert all(int(row["balance"]) < 0 for row in rows)
    assert all(int(row["balance"]) > -(10**18) for row in rows if row["token_address"] == QUIDD)


def test_the_command_lists_the_addresses_of_the_store(run: Run, imported: list[dict[str, Any]]) -> None:
    rows = json.loads(run("negative-balances", "--json").stdout)
    assert Counter(row["token_address"] for row in rows if "balance" in row) == KNOWN
    (kong,) = json.loads(run("negative-balances", "--chain", "eth", "--token", KONGZ, "--json").stdout)
    assert kong in rows
    before = run("negative-balances", "--chain", "eth", "--token", KONGZ, "--at", "2021-01-01", "--json")
    assert json.loads(before.stdout) == []


def test_people_see_the_lowest_addresses_and_where_the_others_are(run: Run, shared_data: Path) -> None:
    ended = run("import", str(shared_data / "transfers" / "helios_eth.parquet"))
    assert "and 20 more; 'holderlake negative-balances' lists them all" in ended.stdout
    assert "a history lacks transfers" in ended.stderr


def test_the_doctor_counts_them(run: Run, imported: list[dict[str, Any]]) -> None:
    findings = json.loads(run("doctor", "--json").stdout)
    (line,) = (one for one in findings if one["what"] == "negative balances")
    assert (line["fine"], line["found"]) == (True, "68 addresses of 3 tokens below zero")
    assert "holderlake negative-balances" in line["advice"]


def test_data_quality_has_a_row_for_each_address(run: Run, imported: list[dict[str, Any]]) -> None:
    run("backfill", "--from", "2026-01-01", "--to", "2026-01-01", "--table", "maps")
    sql = "SELECT * FROM data_quality WHERE issue = 'negative_balance' ORDER BY subject, found"
    rows = json.loads(run("sql", sql, "--json").stdout)
    assert Counter(row["subject"] for row in rows) == KNOWN
    assert {row["severity"] for row in rows} == {"warning"}
    (kong,) = (row for row in rows if row["subject"] == KONGZ)
    assert kong["found"] == -1
    assert "is below zero by 1 (raw) in all maps since 2026-01-01" in kong["what"]
    assert kong["what"].endswith("; one of 1 addresses")
