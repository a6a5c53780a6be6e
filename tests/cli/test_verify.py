"""``holderlake import verify`` finds each row that a store lacks, changed or has twice, and repairs it."""

from __future__ import annotations

import json
import random
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from typer.testing import CliRunner

from holderlake.cli.main import app
from holderlake.core.lake.lake import Lake
from holderlake.core.warehouse.warehouse import Warehouse
from holderlake.engine.records import TRANSFERS
from holderlake.engine.store.store import Store
from holderlake.sources.rpc.checkpoints import Checkpoints
from holderlake.sources.rpc.verified import read_verified
from tests.helpers.chain.anvil import Anvil, call

pytestmark = pytest.mark.integration

PEOPLE = [f"0x{number:040x}" for number in range(1, 6)]
Row = dict[str, Any]
Verify = Callable[..., tuple[int, dict[str, Any]]]


@pytest.fixture
def coin(anvil: Anvil) -> str:
    """A token with three transfers in each of 20 blocks."""
    address = anvil.deploy("Coin")
    for block in range(20):
        anvil.mine([call("Coin", address, "mint", PEOPLE[(block + one) % 5], 100 + one) for one in range(3)])
    return address


@pytest.fixture
def verify(anvil: Anvil, coin: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Verify:
    """Import the token, and return the command that compares: its exit code and report."""
    monkeypatch.setenv("HOLDERLAKE_HOME", str(tmp_path))
    monkeypatch.chdir(tmp_path)
    common = [anvil.url, "--chain", "test", "--token", coin]
    imported = CliRunner().invoke(app, ["import", "node", *common, "--confirmations", "0"])
    assert imported.exit_code == 0, imported.output

    def run(*more: str) -> tuple[int, dict[str, Any]]:
        ended = CliRunner().invoke(app, ["import", "verify", *common, *more, "--json"])
        return ended.exit_code, json.loads(ended.stdout)

    return run


def tamper(home: Path, block: int, change: Callable[[list[Row]], list[Row]]) -> None:
    """Replace the stored rows of a block."""
    with Store(home / "engine") as store:
        rows = store.query("FROM read_parquet($files) WHERE chain = 'test' ORDER BY block_number, log_index")
        later = [row for row in rows.select(TRANSFERS.names).to_pylist() if row["block_number"] >= block]
        own = [row for row in later if row["block_number"] == block]
        store.roll_back("test", block - 1)
        kept = [row for row in later if row["block_number"] > block]
        store.add_transfers(pa.Table.from_pylist([*change(own), *kept], TRANSFERS), "rpc")


CHANGES: dict[str, Callable[[list[Row]], list[Row]]] = {
    "removed": lambda rows: rows[:-1],
    "changed": lambda rows: [rows[0] | {"value": str(int(rows[0]["value"]) + 1)}, *rows[1:]],
    "doubled": lambda rows: [*rows, rows[0] | {"log_index": 99}],
}


def test_a_complete_import_is_confirmed(verify: Verify, coin: str) -> None:
    code, found = verify()
    assert (code, found["is_complete"], found["events"]) == (0, True, 60)
    assert found["differences"] == found["unread"] == found["drifts"] == found["unasked"] == []
    assert found["tokens"] == [coin]


@pytest.mark.parametrize(
    "change",
    ["changed", pytest.param("removed", marks=pytest.mark.long), pytest.param("doubled", marks=pytest.mark.long)],
)
def test_a_wrong_row_is_found_and_repaired(verify: Verify, tmp_path: Path, coin: str, change: str) -> None:
    block = random.Random(change).randrange(3, 20)
    tamper(tmp_path, block, CHANGES[change])
    code, found = verify()
    assert code != 0
    (one,) = found["differences"]
    assert (one["token"], one["first"], one["last"]) == (coin, block, block)
    assert (one["missing"], one["extra"]) == {"removed": (1, 0), "changed": (1, 1), "doubled": (0, 1)}[change]
    code, found = verify("--repair")
    assert (code, found["is_complete"]) == (0, True)


@pytest.mark.long
@pytest.mark.timeout(900)
def test_of_a_hundred_wrong_rows_all_are_found_and_repaired(verify: Verify, tmp_path: Path) -> None:
    chance = random.Random(1)
    for _ in range(100):
        block, change = chance.randrange(3, 22), chance.choice(list(CHANGES))
        tamper(tmp_path, block, CHANGES[change])
        code, found = verify()
        assert code != 0
        assert [(one["first"], one["last"]) for one in found["differences"]] == [(block, block)]
        assert verify("--repair")[0] == 0


@pytest.mark.long
def test_the_last_check_is_a_row_of_the_warehouse(verify: Verify, tmp_path: Path, coin: str) -> None:
    Warehouse(tmp_path / "warehouse.duckdb").load(Lake(tmp_path / "lake"))
    tamper(tmp_path, 9, CHANGES["removed"])
    verify()
    assert stored_check(tmp_path) == (coin, False, "unknown", 1, 9, 9)
    assert problems(tmp_path) == [("incomplete_source", coin)]
    assert verify("--repair")[0] == 0
    assert stored_check(tmp_path) == (coin, True, "equal", 0, None, None)
    assert problems(tmp_path) == []


def stored_check(home: Path) -> tuple[Any, ...]:
    with Warehouse(home / "warehouse.duckdb").connect() as warehouse:
        (row,) = warehouse.execute(
            "SELECT token_address, is_complete, balances, missing_rows, first_difference, last_difference FROM verified"
        ).fetchall()
        return tuple(row)


def problems(home: Path) -> list[tuple[str, str]]:
    with Warehouse(home / "warehouse.duckdb").connect() as warehouse:
        return warehouse.execute("SELECT issue, subject FROM data_quality WHERE severity = 'error'").fetchall()


def test_a_sample_compares_some_ranges_only(verify: Verify, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("HOLDERLAKE_SOURCES__RPC__TEST__BLOCKS", "5")
    code, found = verify("--ranges", "2")
    assert code == 0
    assert found["events"] < 60
    assert 0 < found["blocks"] <= 10


@pytest.mark.long
def test_an_import_verifies_itself_when_asked(verify: Verify, anvil: Anvil, coin: str, tmp_path: Path) -> None:
    assert verify()[0] == 0
    (tmp_path / "engine" / "verified.parquet").unlink()
    command = ["import", "node", anvil.url, "--chain", "test", "--token", coin, "--confirmations", "0", "--verify"]
    done = CliRunner().invoke(app, command)
    assert done.exit_code == 0, done.output
    assert "all are stored" in " ".join(done.output.split())
    assert read_verified(tmp_path / "engine")["token_address"].to_pylist() == [coin]


@pytest.mark.long
def test_blocks_that_were_never_imported_are_named_and_read(verify: Verify, anvil: Anvil, coin: str) -> None:
    anvil.mine([call("Coin", coin, "mint", PEOPLE[0], 5)])
    head = anvil.head()
    code, found = verify("--to-block", str(head))
    assert code != 0
    assert found["unread"] == [{"token": coin, "first": head, "last": head}]
    code, found = verify("--to-block", str(head), "--repair")
    assert (code, found["events"]) == (0, 61)


def stored(home: Path) -> set[tuple[Any, ...]]:
    with Store(home / "engine") as store:
        rows = store.query("SELECT token_address, block_number, log_index, value FROM read_parquet($files)")
        return {tuple(row.values()) for row in rows.to_pylist()}


@pytest.fixture
def other(verify: Verify, anvil: Anvil, coin: str) -> str:
    """A second token, imported from its fifth block on, and further than the first one."""
    address = anvil.deploy("Coin")
    for number in range(8):
        anvil.mine([call("Coin", address, "mint", PEOPLE[0], 1 + number), call("Coin", coin, "mint", PEOPLE[1], 7)])
    head = anvil.head()
    common = ["import", "node", anvil.url, "--chain", "test", "--confirmations", "0"]
    for token, first, last in ((coin, 0, head - 2), (address, head - 3, head)):
        blocks = ["--from-block", str(first), "--to-block", str(last)]
        done = CliRunner().invoke(app, [*common, "--token", token, *blocks])
        assert done.exit_code == 0, done.output
    return address


@pytest.mark.long
def test_a_repair_reads_all_tokens_of_the_chain_again(verify: Verify, tmp_path: Path, other: str) -> None:
    before = stored(tmp_path)
    assert any(row[0] == other for row in before)
    tamper(tmp_path, 9, CHANGES["doubled"])
    assert stored(tmp_path) != before
    code, found = verify("--repair", "--to-block", "12")
    assert (code, found["last"]) == (0, 12)
    assert stored(tmp_path) == before
    assert verify("--token", other)[1]["is_complete"]


@pytest.mark.long
def test_tokens_are_compared_in_the_blocks_of_each(verify: Verify, tmp_path: Path, other: str, anvil: Anvil) -> None:
    code, found = verify("--token", other)
    assert (code, found["unread"], found["differences"]) == (1, [], [])
    assert {cause["kind"] for one in found["drifts"] for cause in one["causes"]} == {"earlier_transfers"}
    checks = {row["token_address"]: row for row in read_verified(tmp_path / "engine").to_pylist()}
    assert (checks[other]["first_block"], checks[other]["last_block"]) == (anvil.head() - 3, anvil.head())
    assert {row["is_complete"] for row in checks.values()} == {True}
    assert {row["balances"] for row in checks.values()} == {"equal", "different"}, "the second lacks earlier transfers"


@pytest.mark.long
def test_an_import_reads_what_an_interrupted_repair_removed(
    verify: Verify, tmp_path: Path, anvil: Anvil, coin: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    before = stored(tmp_path)
    tamper(tmp_path, 9, CHANGES["doubled"])
    with monkeypatch.context() as patched, pytest.raises(json.JSONDecodeError):
        patched.setattr(Store, "roll_back", failing(Store.roll_back))
        verify("--repair")
    again = ["import", "node", anvil.url, "--chain", "test", "--token", coin, "--confirmations", "0"]
    assert CliRunner().invoke(app, again).exit_code == 0
    assert stored(tmp_path) == before
    assert verify()[1]["is_complete"]


def failing(work: Callable[..., Any]) -> Callable[..., Any]:
    """Return a function that works, and then fails as if the disk were full."""

    def run(*arguments: Any) -> None:
        work(*arguments)
        raise OSError(28, "No space left on device")

    return run


@pytest.mark.long
def test_a_node_of_another_network_removes_nothing(verify: Verify, tmp_path: Path, anvil: Anvil) -> None:
    before = stored(tmp_path)
    tamper(tmp_path, 9, CHANGES["doubled"])
    tampered = stored(tmp_path)
    with Checkpoints(tmp_path / "engine", "test") as checkpoints:
        hashes = checkpoints.hashes(0, anvil.head())
        checkpoints.keep_hashes(dict.fromkeys(hashes, "0x" + "1" * 64))
        with pytest.raises(json.JSONDecodeError):
            verify("--repair")
        assert stored(tmp_path) == tampered
        checkpoints.keep_hashes(hashes)
    assert verify("--repair")[0] == 0
    assert stored(tmp_path) == before


@pytest.mark.parametrize(
    "blocks",
    [
        ("--from-block", "5000"),
        pytest.param(("--token", "native"), marks=pytest.mark.long),
        pytest.param(("--token", PEOPLE[0]), marks=pytest.mark.long),
    ],
)
def test_a_comparison_of_nothing_is_an_error(verify: Verify, blocks: tuple[str, str], coin: str, anvil: Anvil) -> None:
    alone = [
        "import",
        "verify",
        anvil.url,
        "--chain",
        "test",
        *(() if blocks[0] == "--token" else ("--token", coin)),
        *blocks,
    ]
    ended = CliRunner().invoke(app, alone)
    assert ended.exit_code
    assert "nothing can be compared" in str(ended.exception)


def test_a_block_that_the_node_lacks_is_named(verify: Verify, coin: str, anvil: Anvil) -> None:
    ended = CliRunner().invoke(
        app, ["import", "verify", anvil.url, "--chain", "test", "--token", coin, "--to-block", "5000"]
    )
    assert f"the node's newest block is {anvil.head()}" in str(ended.exception)


@pytest.mark.long
@pytest.mark.usefixtures("verify")
def test_a_token_whose_only_event_is_missing_is_found(
    tmp_path: Path, anvil: Anvil, monkeypatch: pytest.MonkeyPatch
) -> None:
    lone = anvil.deploy("Coin")
    anvil.mine([call("Coin", lone, "mint", PEOPLE[0], 5)])
    every = [anvil.url, "--chain", "test", "--all-tokens", "--confirmations", "0"]
    assert CliRunner().invoke(app, ["import", "node", *every]).exit_code == 0
    before = stored(tmp_path)
    tamper(tmp_path, anvil.head(), lambda _rows: [])
    ended = CliRunner().invoke(app, ["import", "node", *every, "--verify", "--json"])
    assert ended.exit_code
    assert lone in ended.stdout
    monkeypatch.setenv("HOLDERLAKE_SOURCES__RPC__TEST__ALL_TOKENS", "true")
    assert CliRunner().invoke(app, ["import", "verify", anvil.url, "--chain", "test", "--repair"]).exit_code == 0
    assert stored(tmp_path) == before


@pytest.mark.long
@pytest.mark.usefixtures("verify")
def test_blocks_missing_of_all_tokens_are_read_for_all_tokens(
    tmp_path: Path, anvil: Anvil, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("HOLDERLAKE_SOURCES__RPC__OTHER__ALL_TOKENS", "true")
    common = [anvil.url, "--chain", "other"]
    whole = anvil.head()
    for first, last in ((0, 8), (14, whole)):
        blocks = ["--from-block", str(first), "--to-block", str(last), "--confirmations", "0"]
        assert CliRunner().invoke(app, ["import", "node", *common, *blocks]).exit_code == 0
    ended = CliRunner().invoke(app, ["import", "verify", *common, "--json"])
    assert ended.exit_code
    assert json.loads(ended.stdout)["unread"] == [{"token": "*", "first": 9, "last": 13}]
    assert set(read_verified(tmp_path / "engine")["unread_blocks"].to_pylist()) == {5}
    assert CliRunner().invoke(app, ["import", "verify", *common, "--repair"]).exit_code == 0
    with Checkpoints(tmp_path / "engine", "other") as checkpoints:
        assert checkpoints.covered("*") == [(0, whole)]


@pytest.mark.long
def test_rows_of_files_are_never_removed_by_a_repair(verify: Verify, tmp_path: Path) -> None:
    tamper(tmp_path, 5, CHANGES["removed"])
    with Store(tmp_path / "engine") as store:
        rows = store.query("FROM read_parquet($files) LIMIT 1").select(TRANSFERS.names).to_pylist()
        own = rows[0] | {"token_address": PEOPLE[0], "block_number": 9, "source": "file"}
        store.add_transfers(pa.Table.from_pylist([own], TRANSFERS), "file")
        before = store.query("SELECT count(*) AS rows FROM read_parquet($files)").to_pylist()
    with pytest.raises(json.JSONDecodeError):
        verify("--repair")
    with Store(tmp_path / "engine") as store:
        assert store.query("SELECT count(*) AS rows FROM read_parquet($files)").to_pylist() == before
