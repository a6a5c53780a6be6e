"""``holderlake import balances``: lists of balances at a block, and histories on top of them."""

from __future__ import annotations

import csv
import json
import re
from collections.abc import Callable, Mapping, Sequence
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from typer.testing import CliRunner

from holderlake.cli.main import app
from holderlake.core.contract.times import from_unix
from holderlake.engine.queries.balances import balances_as_of
from holderlake.engine.store.store import Store
from tests.helpers import flawed_histories

Run = Callable[..., Any]
Row = dict[str, Any]

TOKEN, A, B = (f"0x{number:040x}" for number in (0xAA, 1, 2))
OPTIONS = ("--chain", "eth", "--token", TOKEN, "--block", "7", "--at", "2024-01-01")
UINT256 = 2**256 - 1


@pytest.fixture
def run(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Run:
    """Run a command in a new home and return the JSON that it prints, or the error's text."""
    monkeypatch.setenv("HOLDERLAKE_HOME", str(tmp_path))
    monkeypatch.chdir(tmp_path)

    def run(*arguments: str) -> Any:
        ended = CliRunner().invoke(app, [*arguments, "--json"])
        return json.loads(ended.stdout) if ended.exit_code == 0 else str(ended.exception) + ended.output

    return run


def write(path: Path, rows: Sequence[Mapping[str, Any]]) -> str:
    with path.open("w", newline="") as file:
        writer = csv.DictWriter(file, list(rows[0]))
        writer.writeheader()
        writer.writerows(rows)
    return str(path)


def held(home: Path, chain: str = "eth", token: str = TOKEN) -> dict[str, int]:
    with Store(home / "engine") as store:
        balances = balances_as_of(store, chain, token, from_unix(4_000_000_000))
    return dict([*balances.holders, *balances.negative])


# ------------------------------------------------------------------ lists


def test_a_list_gives_holders_from_its_time_on(run: Run, tmp_path: Path) -> None:
    path = write(tmp_path / "list.csv", [{"address": A, "balance": UINT256}, {"address": B, "balance": "0x10"}])
    report = run("import", "balances", path, *OPTIONS)
    assert report == {"tokens": [f"eth/{TOKEN}"], "rows": 2, "added": 2, "duplicates": 0, "notices": []}
    assert held(tmp_path) == {A: UINT256, B: 16}
    with Store(tmp_path / "engine") as store:
        before = balances_as_of(store, "eth", TOKEN, datetime(2023, 12, 31, 23, 59, 59))
        assert before.holders == []


def test_times_of_blocks_come_from_a_file_of_blocks(run: Run, tmp_path: Path) -> None:
    path = write(tmp_path / "list.csv", [{"address": A, "balance": 5, "block_number": 7}])
    blocks = write(tmp_path / "blocks.csv", [{"number": 7, "timestamp": 1_700_000_000}])
    run("import", "balances", path, "--chain", "eth", "--token", TOKEN, "--blocks", blocks)
    with Store(tmp_path / "engine") as store:
        assert balances_as_of(store, "eth", TOKEN, from_unix(1_700_000_000)).holders == [(A, 5)]


@pytest.mark.later(integration=4)
@pytest.mark.parametrize(
    ("row", "options", "words"),
    [
        ({"address": A, "balance": "1.5"}, OPTIONS, "row 1, column balance: .*raw integers"),
        ({"address": "0x12", "balance": "1"}, OPTIONS, "row 1, column address: .*0x12"),
        ({"address": A, "balance": "-1"}, OPTIONS, "row 1, column balance: .*negative"),
        ({"address": A, "balance": "1"}, OPTIONS[:-2], "the time of block 7 is not known; set it with --at"),
        ({"address": A, "balance": "1"}, OPTIONS[2:], "no column with the chain"),
        ({"address": A, "balance": "1"}, (*OPTIONS[:2], *OPTIONS[4:]), "no column token_address; set it with --token"),
        ({"address": A, "much": "1"}, OPTIONS, "no column balance; set it with --map balance=COLUMN"),
        ({"address": A, "balance": "1"}, (*OPTIONS, "--map", "holder=x"), "holder is not one of our columns"),
        ({"address": A, "balance": "1"}, (*OPTIONS, "--standard", "erc99"), "is not a token standard"),
        ({"address": A, "balance": "1", "chain": "bsc"}, OPTIONS, "column chain: .*bsc"),
    ],
)
def test_an_invalid_balance_list_is_refused(
    row: Row, options: Sequence[str], words: str, run: Run, tmp_path: Path
) -> None:
    path = write(tmp_path / "list.csv", [row])
    assert re.search(words, run("import", "balances", path, *options))


@pytest.mark.integration
def test_two_different_lists_are_refused_until_one_is_removed(run: Run, tmp_path: Path) -> None:
    first = write(tmp_path / "first.csv", [{"address": A, "balance": 5}])
    second = write(tmp_path / "second.csv", [{"address": A, "balance": 6}])
    run("import", "balances", first, *OPTIONS)
    assert "two opening balances" in run("import", "balances", second, *OPTIONS)
    removal = ("delete", "balances", "eth", TOKEN)
    shown, deleted = run(*removal), run(*removal, "--yes")
    assert [(one["balances"], one["deleted"]) for one in (shown, deleted)] == [(1, False), (1, True)]
    run("import", "balances", second, *OPTIONS)
    assert held(tmp_path) == {A: 6}


def test_of_several_files_all_are_stored_or_none(run: Run, tmp_path: Path) -> None:
    good = write(tmp_path / "good.csv", [{"address": A, "balance": 5}])
    bad = write(tmp_path / "bad.csv", [{"address": A, "balance": "many"}])
    run("import", "balances", good, bad, *OPTIONS)
    assert held(tmp_path) == {}


# ------------------------------------------------------------------ histories on top


@pytest.mark.later(long=1)
@pytest.mark.integration
@pytest.mark.parametrize("name", flawed_histories.NAMES)
def test_balances_and_later_transfers_close_as_the_whole_history(name: str, run: Run, tmp_path: Path) -> None:
    rows = in_order(name)
    for middle in reversed(rows[: len(rows) // 2]):
        block = middle["block_number"]
        before = [row for row in rows if row["block_number"] <= block]
        if min(flawed_histories.balances(before).values()) >= 0:  # otherwise it is no list of balances
            break
    assert len(before) > 30
    after = [row for row in rows if row["block_number"] > block]
    lists = [{"holder": address, "amount": amount} for address, amount in flawed_histories.balances(before).items()]
    at = datetime.fromtimestamp(max(row["block_time"] for row in before), UTC).isoformat()
    chain, token, standard = (rows[0][column] for column in ("chain", "token_address", "token_standard"))
    of = ("--chain", chain, "--token", token, "--standard", standard)
    run("import", "balances", write(tmp_path / "list.csv", lists), *of, "--block", str(block), "--at", at)
    pq.write_table(pa.Table.from_pylist(after), tmp_path / "after.parquet")
    run("import", "files", "after.parquet")
    assert held(tmp_path, chain, token) == flawed_histories.balances(rows)


def in_order(name: str) -> list[Row]:
    return sorted(flawed_histories.history(name), key=lambda row: (row["block_number"], row["log_index"]))


@pytest.mark.integration
def test_a_history_that_begins_before_the_list_is_refused(run: Run, tmp_path: Path) -> None:
    history = str(flawed_histories.write("mints", tmp_path))
    first = in_order("mints")[0]
    path = write(tmp_path / "list.csv", [{"address": A, "balance": 1}])
    of = ("--chain", "eth", "--token", first["token_address"])
    on = ("--block", str(first["block_number"]), "--at", "2021-04-01")
    run("import", "balances", path, *of, *on)
    assert "would count twice" in run("import", "files", history)
    run("delete", "balances", "eth", first["token_address"], "--yes")
    assert "added" in run("import", "files", history)[0]
    assert "would count twice" in run("import", "balances", path, *of, *on)
