"""``holderlake import files`` and ``labels``: imported, rejected and refused files, and exit codes."""

from __future__ import annotations

import json
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest
from typer.testing import CliRunner

from holderlake.cli.main import app, exit_code
from holderlake.engine.store.store import Store
from holderlake.sources.rpc.events import moves_of
from tests.sources.foreign import (
    ANN,
    APPROVAL,
    CHECKSUMMED_TOKEN,
    CLICKHOUSE,
    CLICKHOUSE_MAP,
    ETL,
    HASHES,
    RPC_LOGS,
    TIMELESS,
    TOKEN,
    as_csv,
    as_json,
)


@dataclass(frozen=True)
class Ended:
    """Result of a command."""

    code: int
    stdout: str
    stderr: str

    @property
    def lines(self) -> list[dict[str, Any]]:
        return [dict(line) for line in json.loads(self.stdout)]


Run = Callable[..., Ended]


@pytest.fixture
def run(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Run:
    """Run a command in a new home, in the folder of the test's files."""
    monkeypatch.setenv("HOLDERLAKE_HOME", str(tmp_path / "home"))
    monkeypatch.setenv("COLUMNS", "200")
    monkeypatch.chdir(tmp_path)

    def run(*arguments: str) -> Ended:
        ended = CliRunner().invoke(app, [*arguments])
        error = ended.exception
        if error is None or isinstance(error, SystemExit):
            return Ended(ended.exit_code, ended.stdout, ended.stderr)
        assert isinstance(error, Exception)
        return Ended(exit_code(error), ended.stdout, f"{ended.stderr}{error}")

    return run


def histories(tmp_path: Path) -> list[Any]:
    with Store(tmp_path / "home" / "engine") as store:
        return list(store.histories())


def test_one_bad_row_refuses_its_file_with_counts(run: Run, tmp_path: Path) -> None:
    bad = {**ETL[1], "to_address": "OKEx"}
    Path("some.csv").write_bytes(as_csv([ETL[0], bad, {**bad, "log_index": 9}]))
    ended = run("import", "files", "some.csv", "--chain", "eth")
    assert ended.code == 1
    assert "some.csv, row 2, column to_address: 'OKEx' is not an address of chain eth" in ended.stderr
    assert "2 of 3 rows cannot be read, so the file was not imported; --rejected FILE" in ended.stderr
    assert histories(tmp_path) == []


@pytest.mark.long
def test_imported_transfers_are_in_the_warehouse_at_once(run: Run) -> None:
    for count, row in enumerate(ETL, 1):
        Path("some.csv").write_bytes(as_csv([row]))
        run("import", "files", "some.csv", "--chain", "eth")
        (found,) = run("sql", "SELECT count(*) AS transfers, max(tx_hash) AS last FROM transfers", "--json").lines
        assert found["transfers"] == count
    assert found["last"] == max(HASHES)


AMOUNT = f"0x{10**18:064x}"
SIGNATURE, *PARTIES = RPC_LOGS[0]["topics"]
TRANSFER_WITH_ONE_ADDRESS = [
    ([PARTIES[0]], PARTIES[1] + AMOUNT[2:]),
    ([PARTIES[0], AMOUNT], PARTIES[1]),
    ([AMOUNT, PARTIES[0]], PARTIES[1]),
    ([AMOUNT], PARTIES[0] + PARTIES[1][2:]),
]


@pytest.mark.parametrize(("topics", "data"), TRANSFER_WITH_ONE_ADDRESS)
def test_an_import_names_events_with_one_indexed_address(topics: list[str], data: str, run: Run) -> None:
    odd = {**RPC_LOGS[0], "topics": [SIGNATURE, *topics], "data": data, "logIndex": "0xfe"}
    Path("logs.json").write_bytes(as_json([*RPC_LOGS, odd]))
    ended = run("import", "files", "logs.json", "--chain", "eth", "--json")
    assert (ended.code, ended.lines[0]["rows"], ended.lines[0]["passed over"]) == (0, len(RPC_LOGS), 1)
    assert any("have only one of their addresses indexed" in notice for notice in ended.lines[0]["notices"])


@pytest.mark.parametrize("receiver", [0, 1, 0xDEAD, 2**159 + 1])
def test_large_amounts_to_addresses_of_burning_are_transfers(receiver: int) -> None:
    topics = [SIGNATURE, PARTIES[0], f"0x{receiver:064x}"]
    assert [move[3] for move in moves_of(topics, f"0x{2**140:064x}") or ()] == [str(2**140)]


def test_an_import_names_tokens_whose_decimals_are_assumed(run: Run) -> None:
    Path("some.csv").write_bytes(as_csv(ETL))
    ended = run("import", "files", "some.csv", "--chain", "eth", "--json")
    assert ended.lines[0]["assumed decimals"] == [f"eth/{TOKEN}"]
    assert "No source gave the decimals of 1 token, so 18 are assumed" in ended.stderr
    listed = [{"chainId": 1, "address": TOKEN, "name": "A", "symbol": "A", "decimals": 6}]
    Path("list.json").write_text(json.dumps({"tokens": listed}))
    assert "assumed" not in run("import", "files", "list.json", "some.csv", "--chain", "eth").stderr


def test_rejected_rows_go_to_a_file_and_the_others_import(run: Run) -> None:
    bad = {**ETL[1], "to_address": "vitalik.eth", "value": "12345678901234567890"}
    Path("some.csv").write_bytes(as_csv([ETL[0], bad, ETL[1]]))
    ended = run("import", "files", "some.csv", "--chain", "eth", "--rejected", "rejected.jsonl", "--json")
    assert ended.code == 3
    assert "invalid rows: 1; rejected.jsonl has them with their reasons" in ended.stderr
    (line,) = ended.lines
    assert (line["rows"], line["added"], line["rejected"]) == (2, 2, 1)
    (rejected,) = map(json.loads, Path("rejected.jsonl").read_text().splitlines())
    assert (rejected["rejected_file"], rejected["rejected_row"]) == ("some.csv", 2)
    assert (rejected["rejected_column"], rejected["value"]) == ("to_address", bad["value"])
    assert "it looks like a name" in rejected["rejected_reason"]


def test_corrected_files_add_only_their_rejected_rows(run: Run) -> None:
    # without log indexes, a row's place in its block must not depend on the rows that were rejected before it
    options = [word for pair in CLICKHOUSE_MAP[:-1] for word in ("--map", pair)]
    rows = [{**row, "block_num": 7, "trx": "0x" + "c1" * 32, "ordinal": None} for row in CLICKHOUSE]
    Path("some.csv").write_bytes(as_csv([{**rows[0], "sender": "unknown"}, rows[1]]))
    run("import", "files", "some.csv", "--chain", "eth", *options, "--rejected", "rejected.jsonl")
    Path("some.csv").write_bytes(as_csv(rows))
    (line,) = run("import", "files", "some.csv", "--chain", "eth", *options, "--json").lines
    assert (line["added"], line["duplicates"], line["conflicts"]) == (1, 1, 0)


def test_an_existing_file_of_rejected_rows_is_kept(run: Run) -> None:
    Path("some.csv").write_bytes(as_csv(ETL))
    Path("rejected.jsonl").write_text("mine")
    ended = run("import", "files", "some.csv", "--chain", "eth", "--rejected", "rejected.jsonl")
    assert (ended.code, Path("rejected.jsonl").read_text()) == (2, "mine")
    assert "exists already" in ended.stderr


def test_a_bad_file_does_not_keep_others_from_importing(run: Run) -> None:
    Path("good.csv").write_bytes(as_csv(ETL))
    Path("empty.csv").touch()
    ended = run("import", "files", "empty.csv", "good.csv", "--chain", "eth", "--json")
    assert ended.code == 3
    assert "1 of 2 files not imported, for example empty.csv: the file is empty" in ended.stderr
    assert [line.get("added") for line in ended.lines] == [None, 2]


def test_an_import_of_nothing_but_bad_files_fails(run: Run) -> None:
    Path("empty.csv").touch()
    Path("folder").mkdir()
    ended = run("import", "files", "empty.csv", "folder", "no-*.csv", "--chain", "eth")
    assert ended.code == 1
    assert "none of the 3 files could be imported" in ended.stderr
    assert "this is a folder; name its files, for example folder/*.parquet" in run("import", "files", "folder").stderr
    assert "no file matches this pattern" in run("import", "files", "no-*.csv").stderr


def test_a_symbol_of_the_list_names_its_token_before_the_first_load(run: Run) -> None:
    tokens = [{"chainId": 1, "address": TOKEN, "name": "Tea", "symbol": "TEA", "decimals": 2}]
    Path("list.json").write_bytes(as_json({"tokens": tokens}))
    Path("some.csv").write_bytes(as_csv(ETL))
    run("import", "files", "list.json", "some.csv", "--chain", "eth")
    assert f"0 opening balances of {TOKEN} on eth" in run("delete", "balances", "eth", "tea").stdout


def test_blocks_and_a_map_go_together(run: Run) -> None:
    rows = [{("height" if name == "block_number" else name): value for name, value in row.items()} for row in TIMELESS]
    Path("rows.csv").write_bytes(as_csv(rows))
    blocks = [{"number": row["block_number"], "timestamp": 1_700_000_000} for row in TIMELESS]
    Path("blocks.csv").write_bytes(as_csv(blocks))
    names = ["--map", "block_number=height", "--map", "tx_hash=transaction_hash"]
    ended = run("import", "files", "rows.csv", "--chain", "eth", *names, "--blocks", "blocks.csv", "--json")
    assert (ended.code, ended.lines[0]["added"]) == (0, 2)


@pytest.mark.integration
def test_a_wrong_checksum_is_imported_and_reported(run: Run) -> None:
    Path("rows.csv").write_bytes(
        as_csv([{**row, "token_address": CHECKSUMMED_TOKEN.replace("5aA", "5aa")} for row in ETL])
    )
    ended = run("import", "files", "rows.csv", "--chain", "eth", "--json")
    assert (ended.code, ended.lines[0]["wrong checksums"]) == (0, 1)
    assert "wrong checksum (EIP-55) were imported in lower case" in ended.stderr
    (line,) = run("import", "files", "rows.csv", "--chain", "eth", "--json").lines
    assert (line["added"], line["duplicates"]) == (0, 2)


@pytest.mark.parametrize(
    ("chain", "words"),
    [("ethereum", "chain 'ethereum' is called eth here; use eth"), ("my chain", "is not a chain id")],
)
def test_a_chain_that_is_called_otherwise_is_refused(chain: str, words: str, run: Run) -> None:
    Path("rows.csv").write_bytes(as_csv(ETL))
    ended = run("import", "files", "rows.csv", "--chain", chain)
    assert ended.code == 2
    assert words in ended.stderr


def test_labels_import_apart_from_a_bad_file(run: Run) -> None:
    Path("mine.csv").write_text(f"address,name,chain\n{ANN[2:]},Ann,eth\n")
    Path("bad.csv").write_text("address,name,chain\nvitalik.eth,V,eth\n")
    ended = run("import", "labels", "mine.csv", "bad.csv", "--json")
    assert ended.code == 3
    assert "bad.csv, line 2, column address: 'vitalik.eth' is not an address of chain eth" in ended.stderr
    assert ended.lines[0]["labels"] == 1


def test_an_import_without_a_transfer_fails(run: Run) -> None:
    Path("none.csv").write_bytes(as_csv(ETL).splitlines()[0] + b"\n")
    ended = run("import", "files", "none.csv", "--chain", "eth")
    assert (ended.code, "none.csv: there is no transfer to import" in ended.stderr) == (1, True)
    Path("logs.json").write_bytes(as_json([APPROVAL]))
    ended = run("import", "files", "logs.json", "--chain", "eth")
    assert (ended.code, "1 row is no transfer" in ended.stderr) == (1, True)


def test_exports_of_unnamed_evm_chains_have_evm_addresses(run: Run) -> None:
    rows = [{**row, "to_address": row["to_address"][2:], "transaction_hash": HASHES[0][2:]} for row in ETL]
    Path("linea.csv").write_bytes(as_csv(rows))
    assert run("import", "files", "linea.csv", "--chain", "linea", "--json").lines[0]["negative balances"] == 0
    Path("bad.csv").write_bytes(as_csv([{**ETL[0], "to_address": "0x12"}]))
    assert "'0x12' is not an address of chain linea" in run("import", "files", "bad.csv", "--chain", "linea").stderr


@pytest.mark.long
def test_an_import_ends_with_the_command_that_leads_to_a_map(
    run: Run, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "etl.csv").write_bytes(as_csv(ETL))

    def next_command() -> str:
        return run("import", "files", "etl.csv", "--chain", "eth").stdout.splitlines()[-1]

    token = f"--chain eth --token {TOKEN}"
    assert next_command() == f"Next: holderlake init --own-data {token}  # settings for maps of your transfers"
    assert run("init", "--own-data", "--chain", "eth", "--token", TOKEN).code == 0
    last = "--at 2024-06-01T22:36:59Z"
    assert next_command() == f"Next: holderlake ingest {token} {last}  # holders and maps of your transfers"
    assert "Next:" not in run("import", "files", "etl.csv", "--chain", "eth", "--json").stdout
    (tmp_path / "holderlake.toml").write_text('[provider]\nlocal = "sample"\n')
    assert next_command().startswith(f'Next: holderlake ingest {token} {last}  # after you set local = "store"')
    monkeypatch.setenv("HOLDERLAKE_PROVIDER__URL", "https://api.example.com")
    assert next_command() == "Next: holderlake serve  # the API over your transfers"
