"""Files of transfers and token lists as users have them: the documented command gives the right figures, or a notice.

A folder of a case has the files. ``expected.json`` has the figures, which plain Python computed from the files alone.
"""

from __future__ import annotations

import json
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

import pytest
from typer.testing import CliRunner

from holderlake.cli.main import app, exit_code
from holderlake.core.contract.times import utc_now
from holderlake.engine.queries.balances import balances_as_of
from holderlake.engine.store.store import Store

CASES: Final = Path(__file__).parent
EXPECTED: Final = json.loads((CASES / "expected.json").read_text(encoding="utf-8"))
EVM: Final = "0x334e09b6c665aa547cfe54d0ad1c067fc274a7c0"
OSMOSIS: Final = (
    "--map from_address=SENDER --map to_address=RECEIVER --map token_address=CURRENCY --map value=AMOUNT "
    "--set decimals=6 --map block_time=BLOCK_TIMESTAMP --map block_number=BLOCK_TIMESTAMP --map tx_hash=TX_ID"
)
HEIGHT: Final = (
    "--set decimals=6 --map from_address=SENDER --map to_address=RECEIVER --map value=AMOUNT --map block_time=WHEN "
    "--map block_number=HEIGHT"
)
COMMA: Final = (
    "--map block_number=Block --map block_time=Zeit --map tx_hash=Hash --map from_address=Von --map to_address=An "
    f"--map value=Menge --set decimals=18 --set token_address={EVM} --thousands ."
)
UNITS: Final = f"--set decimals=18 --set token_address={EVM}"


@dataclass(frozen=True)
class Case:
    """A command over a case's files, and what it prints. ``file`` is the key in ``expected.json``."""

    folder: str
    options: str
    files: tuple[str, ...]
    file: str | None = None
    prints: tuple[str, ...] = ()
    token: tuple[str, str] | None = None


BITQUERY: Final = "11-bitquery-cloud-dump"
CASES_OF_TRANSFERS: Final = (
    *(
        Case(BITQUERY, f"--chain {name}", (file,), file)
        for name, file in (
            ("eth", "ethereum_transfers.parquet"),
            ("eth", "ethereum_transfers.json"),
            ("bsc", "bsc_transfers.json"),
            ("tron", "tron_transfers.json"),
        )
    ),
    Case("12-flipside-osmosis", f"--chain osmosis {OSMOSIS}", ("token_transfers.csv",)),
    *(
        Case("13-map-taken-for-etherscan", f"{chain} {HEIGHT}{hashes}", (file,), file, token=token)
        for chain, file, token in (
            ("--chain osmosis --set token_address=uion", "ibc.csv", ("osmosis", "uion")),
            ("--chain sui --set token_address=0x2::sui::SUI", "sui.csv", ("sui", "0x2::sui::SUI")),
        )
        for hashes in ("", " --map tx_hash=TX_ID")
    ),
    Case("20-etl-nft-ids-as-value", "--chain eth", ("token_transfers.csv",), prints=("looks like numbers of items",)),
    Case(
        "21-cryo-approvals-as-transfers",
        "--blocks blocks.csv",
        ("ethereum__erc20_transfers__txs.parquet",),
        prints=("2 of 3 values", "look like approvals"),
    ),
    *(
        Case("23-etherscan-pages-split-a-block", f"--chain eth {UNITS}", files, token=("eth", EVM))
        for files in (("page1.csv", "page2.csv"), ("page2.csv", "page1.csv"))
    ),
    Case("24-transfer-without-indexed-fields", "--chain eth", ("logs.json",)),
    Case(
        "26-rebasing-spends-more",
        "--chain eth",
        ("steth_like.csv",),
        prints=("-2000000000000000000", "2024-05-20", "2024-05-22"),
    ),
    Case("28-semicolons-decimal-comma", f"--chain eth {COMMA}", ("umsatz.csv",), token=("eth", EVM)),
)


@pytest.fixture
def home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A new home, in an environment with a wide terminal."""
    monkeypatch.setenv("HOLDERLAKE_HOME", str(tmp_path / "home"))
    monkeypatch.setenv("COLUMNS", "250")
    return tmp_path / "home"


def run(*arguments: str) -> tuple[int, str]:
    """Run a command; return its exit code and all its output."""
    ended = CliRunner().invoke(app, [*arguments])
    error = ended.exception
    if error is None or isinstance(error, SystemExit):
        return ended.exit_code, ended.output
    assert isinstance(error, Exception)
    return exit_code(error), f"{ended.output}{error}"


def run_in(folder: str, monkeypatch: pytest.MonkeyPatch, *arguments: str) -> tuple[int, str]:
    monkeypatch.chdir(CASES / folder)
    return run(*arguments)


def figures(expected: dict[str, Any]) -> dict[str, dict[str, str]]:
    """Return the balances of a token in ``expected.json``, the positive and those below zero."""
    below = {address: amount for address, amount in expected["below_zero"].items() if set(address) != set("0x")}
    return {"balances": expected["balances"], "below_zero": below}


def stored(store: Store, key: tuple[str, str]) -> dict[str, dict[str, str]]:
    """Return the balances of a token in the store at present, in the form of ``figures``."""
    balances = balances_as_of(store, *key, utc_now())
    return {
        "balances": {address: str(amount) for address, amount in balances.holders},
        "below_zero": {address: str(amount) for address, amount in balances.negative},
    }


@pytest.mark.later(integration=2, long=4)
@pytest.mark.parametrize("case", CASES_OF_TRANSFERS, ids=lambda case: f"{case.folder[:2]}-{'+'.join(case.files)}")
def test_a_case_of_transfers_has_the_right_balances(case: Case, home: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    code, printed = run_in(case.folder, monkeypatch, "import", "files", *case.files, *case.options.split())
    assert code == 0, printed
    for words in case.prints:
        assert words in printed
    expected = EXPECTED[case.folder][case.file] if case.file else EXPECTED[case.folder]
    with Store(home / "engine") as store:
        histories = {(one.chain, one.token_address): one.transfers for one in store.histories()}
        assert sum(histories.values()) == expected.get("transfers", 3)
        for key in histories:
            tokens = expected.get("tokens", {})
            if key[1] in tokens or "balances" in expected:
                assert stored(store, key) == figures({"below_zero": {}, **tokens.get(key[1], expected)})
        if case.token:
            assert list(histories) == [case.token]


def test_pages_in_two_commands_count_a_transfer_once(home: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    folder = "23-etherscan-pages-split-a-block"
    for page in ("page2.csv", "page1.csv"):
        run_in(folder, monkeypatch, "import", "files", page, "--chain", "eth", *UNITS.split())
    with Store(home / "engine") as store:
        assert stored(store, ("eth", EVM)) == figures(EXPECTED[folder])


@pytest.mark.parametrize("file", ["excel_days.csv", "serials_only.csv"])
def test_days_of_a_spreadsheet_are_refused(file: str, home: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    code, printed = run_in("27-dates-of-spreadsheets", monkeypatch, "import", "files", file, "--chain", "eth")
    assert code == 1
    assert "a day number of a spreadsheet (2023-03-1" in printed


def test_times_in_many_spellings_are_read_or_rejected(
    home: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    expected = EXPECTED["27-dates-of-spreadsheets"]
    rejected = tmp_path / "rejected.jsonl"
    arguments = ("import", "files", "transfers.csv", "pandas_floats.csv", "--chain", "eth", "--rejected", str(rejected))
    assert run_in("27-dates-of-spreadsheets", monkeypatch, *arguments)[0] == 3
    refused = {json.loads(line)["rejected_row"] for line in rejected.read_text().splitlines()}
    assert refused >= set(expected["transfers.csv"]["rejected_rows"])
    assert refused == {1, 2, 3, 4, 5, 7, 9}
    with Store(home / "engine") as store:
        times = store.query("SELECT block_number, block_time FROM read_parquet($files) ORDER BY ALL")
    read = list(zip(*times.to_pydict().values(), strict=True))
    floats = expected["pandas_floats.csv"]
    assert read == sorted([*zip(floats["block_numbers"], floats["block_times"], strict=True),
                           (105, 1584098460), (107, 1584109260)])  # fmt: skip


@pytest.mark.parametrize("file", list(EXPECTED["31-token-list-odd-values"]))
def test_a_token_list_leaves_out_only_odd_tokens(file: str, home: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    expected = EXPECTED["31-token-list-odd-values"][file]
    code, printed = run_in("31-token-list-odd-values", monkeypatch, "import", "files", file)
    assert code == (3 if expected["left_out_rows"] else 0)
    for row in expected["left_out_rows"]:
        assert f"row {row}: " in printed
    with Store(home / "engine") as store:
        tokens = store.tokens([("eth", address) for address in expected["token"]])
    read = {token.address: (token.name, token.symbol, token.decimals) for token in tokens.values()}
    assert read == {address: tuple(values.values()) for address, values in expected["token"].items()}


@pytest.mark.parametrize("file", ["erc721_only.json", "page.json"])
def test_a_page_of_blockscout_needs_no_map(file: str, home: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    expected = EXPECTED["37-blockscout-page-nft"][file]
    code, printed = run_in("37-blockscout-page-nft", monkeypatch, "import", "files", file, "--chain", "eth", "--json")
    lines = json.loads(printed[printed.index("[") : printed.rindex("]") + 1])
    assert (code, lines[0]["passed over"]) == (0, len(expected["passed_over"]))
    with Store(home / "engine") as store:
        rows = store.query(
            f"SELECT {', '.join(expected['rows'][0])} FROM read_parquet($files) ORDER BY block_number"
        ).to_pylist()
    assert rows == expected["rows"]
