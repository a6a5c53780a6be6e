"""Negative balances of histories with flaws, in all places that show them."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from typer.testing import CliRunner

from holderlake.cli.main import app
from holderlake.core.contract.times import from_unix
from tests.helpers.flawed_histories import LOSSY, below_zero, history, token_of, write

pytestmark = pytest.mark.integration

Run = Callable[..., Any]

TOKENS = {name: token_of(name) for name in (*LOSSY, "mints")}
BELOW_ZERO = {TOKENS[name][1]: below_zero(name) for name in LOSSY}
COUNTS = {token: len(balances) for token, balances in BELOW_ZERO.items()}
(GAP,) = (token for token, count in COUNTS.items() if count == 1)


@pytest.fixture
def run(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Run:
    """Run a command in a new home whose provider is the user's own store."""
    watchlist = {chain: [token for of, token in TOKENS.values() if of == chain] for chain in ("eth", "bsc")}
    monkeypatch.setenv("HOLDERLAKE_HOME", str(tmp_path))
    monkeypatch.setenv("HOLDERLAKE_PROVIDER__LOCAL", "store")
    monkeypatch.setenv("HOLDERLAKE_WATCHLIST", json.dumps(watchlist))
    monkeypatch.chdir(tmp_path)

    def run(*arguments: str) -> Any:
        ended = CliRunner().invoke(app, [*arguments])
        assert ended.exit_code == 0, ended.output
        return ended

    return run


@pytest.fixture
def imported(run: Run, tmp_path: Path) -> list[dict[str, Any]]:
    """The report of an import of three histories with balances below zero, and one without."""
    paths = [str(write(name, tmp_path)) for name in TOKENS]
    return json.loads(run("import", "files", *paths, "--json").stdout)


def test_the_report_of_an_import_names_each_address(imported: list[dict[str, Any]]) -> None:
    assert [line["negative balances"] for line in imported] == [*COUNTS.values(), 0]
    rows = [row for line in imported for row in line["negative addresses"]]
    found: dict[str, dict[str, int]] = {}
    for row in rows:
        found.setdefault(row["token_address"], {})[row["address"]] = int(row["balance"])
    assert found == BELOW_ZERO
    (gap,) = (row for row in rows if row["token_address"] == GAP)
    assert (gap["chain"], gap["balance"]) == ("eth", "-1")
    assert gap["since"] == from_unix(history("items_with_a_gap")[-1]["block_time"]).isoformat()


@pytest.mark.long
def test_the_command_lists_the_addresses_of_the_store(run: Run, imported: list[dict[str, Any]]) -> None:
    rows = json.loads(run("store", "negative-balances", "--json").stdout)
    assert Counter(row["token_address"] for row in rows if "balance" in row) == COUNTS
    (gap,) = json.loads(run("store", "negative-balances", "eth", GAP, "--json").stdout)
    assert gap in rows
    before = run("store", "negative-balances", "eth", GAP, "--at", "2021-01-01", "--json")
    assert json.loads(before.stdout) == []


@pytest.mark.integration
def test_people_see_how_many_addresses_are_below_zero_and_what_it_means(run: Run, tmp_path: Path) -> None:
    ended = run("import", "files", str(write("lossy_coin", tmp_path)))
    assert "17 addresses below zero (" in ended.stderr
    assert "or the source rounds amounts; maps are usable" in ended.stderr


_NOBODY = "0x" + "00" * 20
_A, _B = ("0x" + digits * 20 for digits in ("01", "02"))


@pytest.mark.parametrize(
    ("moves", "said", "unsaid"),
    [
        ([(_A, _B, 7)], "1 address below zero: its mints are missing", "usable"),
        (
            [(_NOBODY, _A, 10_000), (_B, _A, 5), (_A, _B, 5)],
            "1 address below zero for a time (at most 0.05 % of the supply)",
            "maps are wrong",
        ),
        ([(_NOBODY, _A, 10), (_B, _A, 5), (_A, _B, 5)], "its maps are wrong until they are imported", "usable"),
    ],
    ids=["no mint", "dust for a time", "half of the supply for a time"],
)
def test_an_import_says_what_balances_below_zero_mean(
    run: Run, tmp_path: Path, moves: list[tuple[str, str, int]], said: str, unsaid: str
) -> None:
    of_all = {"chain": "eth", "token_address": "0x" + "ab" * 20, "token_standard": "erc20", "log_index": 0}
    rows = [
        of_all
        | {"from_address": sender, "to_address": receiver, "value": str(value)}
        | {"block_number": block, "block_time": 1_700_000_000 + block, "transaction_hash": f"0x{block:064x}"}
        for block, (sender, receiver, value) in enumerate(moves)
    ]
    (tmp_path / "moves.json").write_text(json.dumps(rows))
    text = run("import", "files", str(tmp_path / "moves.json")).stderr
    assert said in text
    assert unsaid not in text


@pytest.mark.long
def test_the_doctor_counts_them(run: Run, imported: list[dict[str, Any]]) -> None:
    findings = json.loads(run("doctor", "--json").stdout)
    (line,) = (one for one in findings if one["what"] == "negative balances")
    assert (line["fine"], line["found"]) == (True, f"{sum(COUNTS.values())} addresses of 3 tokens below zero")
    assert "holderlake store negative-balances" in line["advice"]


@pytest.mark.long
def test_data_quality_has_a_row_for_each_address(run: Run, imported: list[dict[str, Any]]) -> None:
    run("backfill", "--from", "2026-01-01", "--to", "2026-01-01", "--table", "maps")
    sql = "SELECT * FROM data_quality WHERE issue = 'negative_balance' ORDER BY subject, found"
    rows = json.loads(run("sql", sql, "--json").stdout)
    assert Counter(row["subject"] for row in rows) == COUNTS
    assert {row["severity"] for row in rows} == {"warning"}
    (gap,) = (row for row in rows if row["subject"] == GAP)
    assert gap["found"] == -1
    assert "is below zero by 1 (raw) in all maps since 2026-01-01" in gap["what"]
    assert gap["what"].endswith("; one of 1 addresses")
