"""``holderlake store index``, and the tokens that imports and settings mark."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from typer.testing import CliRunner

from holderlake.cli.main import app
from holderlake.engine.store.store import Store
from tests.engine.world import clusters, draw

Run = Callable[..., Any]

A, B, FERN, USDC, SPAM = (f"0x{number:040x}" for number in (1, 2, 0xAA, 0xBB, 0xCC))
ZERO = f"0x{0:040x}"
HEADER = "chain,token_address,token_standard,from_address,to_address,value,block_number,block_time,tx_hash,log_index"
ROWS = [(FERN, ZERO, A, 60), (FERN, ZERO, B, 40), (USDC, A, B, 5), (SPAM, A, B, 5)]


@pytest.fixture
def run(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Run:
    """Run a command in a new home."""
    monkeypatch.setenv("HOLDERLAKE_HOME", str(tmp_path))
    monkeypatch.chdir(tmp_path)
    lines = (
        f"eth,{token},erc20,{sender},{receiver},{value},{number},{1_700_000_000 + number},0x{number:02x},0"
        for number, (token, sender, receiver, value) in enumerate(ROWS)
    )
    (tmp_path / "transfers.csv").write_text("\n".join([HEADER, *lines]) + "\n")

    def run(*arguments: str, code: int = 0) -> Any:
        ended = CliRunner().invoke(app, [*arguments])
        assert ended.exit_code == code, ended.output
        return ended

    return run


def listed(run: Run, *arguments: str) -> list[tuple[str, str, int]]:
    lines = json.loads(run("store", "index", *arguments, "--json").stdout)
    return [(line["address"], line["source"], line["transfers"]) for line in lines]


def tied(home: Path) -> bool:
    with Store(home / "engine") as store:
        return clusters(draw(store, 1_800_000_000, ("eth", FERN))) == [{A, B}]


def test_an_import_of_a_file_marks_no_token(run: Run, tmp_path: Path) -> None:
    run("import", "files", "transfers.csv")
    assert listed(run) == []
    assert not tied(tmp_path)


@pytest.mark.integration
def test_an_import_of_several_tokens_names_the_command_until_one_is_marked(run: Run) -> None:
    assert "holderlake store index CHAIN TOKEN" in run("import", "files", "transfers.csv").stderr
    run("store", "index", "eth", USDC)
    assert "holderlake store index" not in run("import", "files", "transfers.csv").stderr


@pytest.mark.integration
def test_the_command_marks_a_token_and_takes_the_mark_back(run: Run, tmp_path: Path) -> None:
    run("import", "files", "transfers.csv")
    assert listed(run, "eth", USDC.upper().replace("0X", "0x")) == [(USDC, "command", 1)]
    assert tied(tmp_path)
    run("store", "index", "eth", USDC, "--remove")
    assert (listed(run), tied(tmp_path)) == ([], False)


def test_the_command_says_that_the_lake_keeps_its_maps(run: Run) -> None:
    assert "--refresh" in run("store", "index", "eth", "native").stderr


def test_a_mistyped_address_is_refused(run: Run) -> None:
    with pytest.raises(ValueError, match="0x12"):
        CliRunner().invoke(app, ["store", "index", "eth", "0x12"], catch_exceptions=False)


def test_tokens_to_remove_have_to_be_named(run: Run) -> None:
    run("store", "index", "eth", "--remove", code=2)


@pytest.mark.long
def test_a_token_list_marks_tokens(run: Run, tmp_path: Path) -> None:
    token = {"chainId": 1, "address": USDC, "name": "Dollar", "symbol": "USDC", "decimals": 6}
    other = {"chainId": 1, "address": SPAM, "name": "Spam", "symbol": "SPAM", "decimals": 6}
    for marked in ({"is_indexed": True}, {"extensions": {"is_indexed": True}}):
        (tmp_path / "list.json").write_text(json.dumps({"tokens": [token | marked, other]}))
        run("import", "files", "transfers.csv", "list.json")
        assert listed(run) == [(USDC, "token list", 1)]
        assert tied(tmp_path)


def test_a_token_that_an_import_names_is_marked(run: Run, tmp_path: Path) -> None:
    lines = (tmp_path / "transfers.csv").read_text().splitlines()
    rows = [line.split(",") for line in (lines[0], lines[3])]
    (tmp_path / "dollar.csv").write_text("\n".join(",".join([row[0], *row[2:]]) for row in rows) + "\n")
    run("import", "files", "dollar.csv", "--set", f"token_address={USDC}")
    assert listed(run) == [(USDC, "import", 1)]


@pytest.mark.integration
def test_settings_mark_tokens(run: Run, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "holderlake.toml").write_text(f'[engine.indexed]\neth = ["native", "{USDC}"]\n')
    run("import", "files", "transfers.csv")
    assert listed(run) == [(USDC, "settings", 1), ("native", "settings", 0)]
    refused = CliRunner().invoke(app, ["store", "index", "eth", USDC, "--remove"])
    assert "[engine.indexed]" in str(refused.exception)
    (tmp_path / "holderlake.toml").write_text("")
    assert listed(run) == []
