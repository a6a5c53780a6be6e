"""Lists of balances as users have them, imported by the documented command: cases 01 to 06, and others of their kinds.

``expected.json`` has the right figures. They were computed from the files alone, without Holderlake.
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

from holderlake.core.contract.chains import ZERO_ADDRESS
from holderlake.core.contract.chains.addresses import parse_address
from holderlake.core.contract.times import from_unix
from holderlake.engine.queries.balances import balances_as_of
from holderlake.engine.store.store import Store
from tests.helpers.commands import holderlake

HERE = Path(__file__).parent
EXPECTED = json.loads((HERE / "expected.json").read_text(encoding="utf-8"))
EVM = "0x334e09b6c665aa547cfe54d0ad1c067fc274a7c0"
SPL = "7EXLCk9S8XC2gayru1uipycnapLDhCFtqLedEhmwoogt"
TRC = "TWPiUSZxnBuRua77Wi2qrUQpQBYQ51imXz"
A, B, C = (f"0x{number:040x}" for number in (0xA1, 0xB2, 0xC3))
S1, S2, S3, S4 = (
    *("2s8ARpGRzaHYsXVcnoXun4bc9BvMKv6HSzTFSfMnZ8Qk", "4L6YYPS4FUrk28NLpnxbDb9HVXAgYKd6Yz3tvcubeJtE"),
    *("4qa2e6FwHo3yLtYbyN7PgnmRLTe6Up8NsVggK4cgbAGs", "5ZNKEBkEhqBKKkmzqCvbCRbe2274AAinwVvUj4Ve1y8v"),
)
SOLANA = ("--chain", "solana", "--token", SPL)
ETH = ("--chain", "eth", "--token", EVM)


@dataclass(frozen=True)
class Imported:
    """Result of an import: its exit code, its output, its notices, and the balances in the store."""

    code: int
    output: str
    notices: Sequence[str]
    balances: Mapping[str, str]


def imported(home: Path, path: Path, *options: str) -> Imported:
    arguments = ("import", "balances", str(path), "--block", "21000000", "--at", "2024-10-19", *options, "--json")
    ended = holderlake(*arguments, env={"HOLDERLAKE_HOME": str(home)})
    notices = json.loads(ended.stdout)["notices"] if ended.returncode == 0 else []
    chain, token = (options[options.index(name) + 1] for name in ("--chain", "--token"))
    with Store(home / "engine") as store:
        holders = balances_as_of(store, chain, token, from_unix(4_000_000_000)).holders
    balances = {address: str(balance) for address, balance in holders if address != ZERO_ADDRESS}
    return Imported(ended.returncode, ended.stdout + ended.stderr, notices, balances)


def written(folder: Path, text: str, name: str = "list.csv") -> Path:
    path = folder / name
    path.write_text(text, encoding="utf-8")
    return path


@pytest.mark.later(integration=3)
@pytest.mark.parametrize(
    ("path", "options"),
    [
        ("01-solscan-holder-export/holders.csv", (*SOLANA, "--set", "decimals=2", "--thousands", ",")),
        ("02-etherscan-holder-export/holders.csv", (*ETH, "--set", "decimals=18")),
        ("03-holders-json-token-units/balances.json", ("--chain", "bsc", *ETH[2:], "--set", "decimals=18")),
        ("03-holders-json-token-units/balances_17_digits.json", ("--chain", "bsc", *ETH[2:], "--set", "decimals=18")),
        (
            "04-tron-columns-swapped/holders.csv",
            ("--chain", "tron", "--token", TRC, "--map", "balance=holders_count", "--set", "decimals=6"),
        ),
        ("05-spl-largest-accounts/holders.json", SOLANA),
    ],
)
def test_a_list_gives_the_expected_balances(path: str, options: Sequence[str], tmp_path: Path) -> None:
    case, file = path.split("/")
    expected: Any = EXPECTED[case].get(file, EXPECTED[case])
    result = imported(tmp_path, HERE / path, *options)
    assert (result.code, result.balances) == (0, expected["balances"])


@pytest.mark.parametrize(
    ("path", "options", "advice"),
    [
        ("01-solscan-holder-export/holders.csv", SOLANA, "--thousands ,"),
        ("01-solscan-holder-export/holders.csv", (*SOLANA, "--thousands", ","), "--set decimals=18"),
        ("02-etherscan-holder-export/holders.csv", ETH, "--set decimals=18"),
        ("05-spl-largest-accounts/holders.js", SOLANA, "JavaScript"),
        ("06-lists-without-header/snapshot.csv", ETH, "address,balance"),
        ("06-lists-without-header/reflections.csv", ETH, "no header line"),
    ],
)
def test_a_refused_list_says_how_to_import_it(path: str, options: Sequence[str], advice: str, tmp_path: Path) -> None:
    result = imported(tmp_path, HERE / path, *options)
    assert (result.code, result.balances) == (1, {})
    assert advice in result.output


@pytest.mark.parametrize(
    ("path", "options", "words"),
    [
        (
            "04-tron-columns-swapped/holders.csv",
            ("--chain", "tron", "--token", TRC),
            "all 8 balances are the same number, 812",
        ),
        ("05-spl-largest-accounts/holders.json", SOLANA, "probably token accounts"),
    ],
)
def test_a_doubtful_list_is_imported_with_a_notice(
    path: str, options: Sequence[str], words: str, tmp_path: Path
) -> None:
    result = imported(tmp_path, HERE / path, *options)
    assert result.code == 0
    assert words in result.notices[0]


# ------------------------------------------------------------------ other lists of the same kinds


@pytest.mark.later(integration=4, long=7)
@pytest.mark.parametrize(
    ("number", "thousands", "raw"),
    [
        ('"1,250,000.25"', ",", 1_250_000_25),
        ('"12,50,000.25"', ",", 1_250_000_25),
        ('"1.250.000,25"', ".", 1_250_000_25),
        ("1.250.000", ".", 1_250_000_00),
        ('"0,25"', ".", 25),
        ("1 250 000.25", " ", 1_250_000_25),
        ('"1 250 000,25"', " ", 1_250_000_25),
        ("1\u202f250\u00a0000.2", " ", 1_250_000_20),
        ("1'250'000.25", "'", 1_250_000_25),
        ("1\u2019250\u2019000.25", "'", 1_250_000_25),
        ("1_250_000.25", "_", 1_250_000_25),
        ("1250000.25", ",", 1_250_000_25),
        ("2.5E-1", ",", 25),
    ],
)
def test_separators_of_thousands_are_removed(number: str, thousands: str, raw: int, tmp_path: Path) -> None:
    path = written(tmp_path, f"address,balance\n{A},{number}\n")
    result = imported(tmp_path, path, *ETH, "--set", "decimals=2", "--thousands", thousands)
    assert result.balances == {A: str(raw)}, result.output


@pytest.mark.later(integration=4)
@pytest.mark.parametrize(
    ("numbers", "thousands"),
    [
        (('"0,5"',), ","),
        (('"1,2500"',), ","),
        (('"1,25,00"',), ","),
        (('"1,000.5"', '"2.000,5"'), " "),
        (("1.000", '"7,5"'), " "),
        (("1.5",), "."),
        (('"1,000,5"',), ","),
        (("1 00",), " "),
        (('",5"',), ","),
        (('"1.000.00"',), "."),
    ],
)
def test_irregular_separators_are_refused(numbers: Sequence[str], thousands: str, tmp_path: Path) -> None:
    rows = "".join(f"0x{place:040x},{number}\n" for place, number in enumerate(numbers, start=1))
    path = written(tmp_path, f"address,balance\n{rows}")
    result = imported(tmp_path, path, *ETH, "--set", "decimals=2", "--thousands", thousands)
    assert (result.code, result.balances) == (1, {})


@pytest.mark.later(integration=3)
@pytest.mark.parametrize(
    ("header", "row"),
    [
        ("address,owner,amount", f"{S1},{S2},5"),
        ("Owner,Token Account,Balance", f"{S2},{S1},5"),
        ("account,Owner Address,quantity", f"{S1},{S2},5"),
        ("pubkey,tokenOwner,amount", f"{S1},{S2},5"),
        ("ata,wallet,balance", f"{S1},{S2},5"),
        ("token_account,holder,raw_amount", f"{S1},{S2},5"),
        ("rank,tokenAccount,ownerAddress,amount", f"1,{S1},{S2},5"),
        ("address,owner,balance", f"{S2},Exchange 7,5"),
        ("account_address,owner_address,amount,decimals", f"{S1},{S2},5,6"),
        ("account.data.parsed.info.owner,pubkey,account.data.parsed.info.tokenAmount.amount", f"{S2},{S1},5"),
        ("OWNER,ADDRESS,VALUE", f"{S2},{S1},5"),
    ],
)
def test_the_owner_is_the_holder_of_a_token_account(header: str, row: str, tmp_path: Path) -> None:
    result = imported(tmp_path, written(tmp_path, f"{header}\n{row}\n"), *SOLANA)
    assert result.balances == {S2: "5"}, result.output


def test_balances_of_the_accounts_of_an_owner_are_added(tmp_path: Path) -> None:
    path = written(tmp_path, f"address,owner,amount\n{S1},{S2},5\n{S3},{S2},7\n{S3},{S2},7\n{S4},{S4},1\n")
    result = imported(tmp_path, path, *SOLANA)
    assert result.balances == {S2: "12", S4: "1"}
    assert "4 rows of token accounts (address) of 2 owners (owner)" in result.notices[0]


def test_two_balances_of_a_token_account_are_refused(tmp_path: Path) -> None:
    path = written(tmp_path, f"address,owner,amount\n{S1},{S2},5\n{S1},{S2},7\n")
    result = imported(tmp_path, path, *SOLANA)
    assert result.code == 1
    assert "has two balances" in result.output


@pytest.mark.later(integration=4)
@pytest.mark.parametrize(
    ("first", "options"),
    [
        (f"{A},5", ETH),
        (f'"{A}","5","No"', ETH),
        (f"{A.upper().replace('X', 'x')};5", ETH),
        (f"{A[2:-2]}fe\t5", ETH),
        (f"\\x{A[2:]},5", ETH),
        (f"0x{'0' * 24}{A[2:]},5", ETH),
        (f"5,{A}", ETH),
        (f"1,{S1},5", SOLANA),
        (f"{TRC},5", ("--chain", "tron", "--token", TRC)),
        ("cosmos1qypqxpq9qcrsszg2pvxq6rs0zqg3yyc5lzv7xu,5", ("--chain", "cosmos", "--token", "uatom")),
        (A, ETH),
    ],
)
def test_a_list_without_header_is_refused(first: str, options: Sequence[str], tmp_path: Path) -> None:
    result = imported(tmp_path, written(tmp_path, f"{first}\n{first.replace('5', '6')}\n"), *options)
    assert result.code == 1
    assert "no header line" in result.output


@pytest.mark.parametrize(
    ("header", "rows", "words"),
    [
        ("address,balance", ["7", "7", "7"], "the same number, 7"),
        ("address,amount", ["0", "0", "0"], "the same number, 0"),
        ("address,value,price", ["812,1.5", "812,0.2", "812,9"], "--map balance=COLUMN"),
        ("address,balance", ["1", "2", "3"], "as ranks are"),
        ("address,quantity", ["3", "2", "1"], "as ranks are"),
        ("address,balance", ["1", "2", "4"], None),
        ("address,balance", ["7", "7", "8"], None),
        ("address,balance", ["5", "5"], None),
    ],
)
def test_swapped_columns_are_noticed(header: str, rows: Sequence[str], words: str | None, tmp_path: Path) -> None:
    lines = "".join(f"{address},{row}\n" for address, row in zip((A, B, C), rows, strict=False))
    result = imported(tmp_path, written(tmp_path, f"{header}\n{lines}"), *ETH)
    assert (result.code, len(result.notices)) == (0, words is not None)
    assert words is None or words in result.notices[0]


@pytest.mark.later(integration=2)
@pytest.mark.parametrize(
    "document",
    [
        {"result": {"value": [{"address": S1, "amount": "5", "decimals": 6, "uiAmount": 5e-06}]}},
        [{"address": S1, "amount": "5", "uiAmountString": "0.000005"}],
        [{"address": S1, "amount": "5", "ui_amount": 5e-06}],
        [{"token_account": S1, "amount": "5"}],
        [{"tokenAccount": S1, "balance": 5}],
        [{"pubkey": S1, "amount": "5"}],
        [{"account": S1, "amount": "5"}],
        [{"ata": S1, "amount": "5"}],
        [{"associated_token_account": S1, "amount": "5"}],
        [{"Token Account Address": S1, "amount": "5"}],
    ],
)
def test_lists_of_token_accounts_are_noticed(document: object, tmp_path: Path) -> None:
    result = imported(tmp_path, written(tmp_path, json.dumps(document), "list.json"), *SOLANA)
    assert result.balances == {S1: "5"}, result.output
    assert "probably token accounts" in result.notices[0]


def points() -> tuple[list[str], list[str]]:
    """Return two lists of Solana addresses: those that are points of ed25519, and those that are not."""
    prime = 2**255 - 19
    on, off = [], []
    for y in range(2, 40):
        square = (y * y - 1) * pow(-121665 * pow(121666, -1, prime) * y * y + 1, -1, prime) % prime
        root = pow(square, (prime + 3) // 8, prime)
        is_point = square in (root * root % prime, -root * root % prime)
        (on if is_point else off).append(parse_address("solana", y.to_bytes(32, "little")))
    return on, off


@pytest.mark.parametrize("are_points", [True, False])
def test_derived_addresses_are_noticed_as_token_accounts(are_points: bool, tmp_path: Path) -> None:
    wallets, derived = points()
    chosen = [*wallets[:10], derived[0]] if are_points else [*derived[:10], wallets[0]]
    rows = "".join(f"{address},{5 * place**2}\n" for place, address in enumerate(chosen, start=1))
    result = imported(tmp_path, written(tmp_path, f"address,balance\n{rows}"), *SOLANA)
    assert (result.code, len(result.balances)) == (0, 11)
    assert any("probably token accounts" in notice for notice in result.notices) != are_points


@pytest.mark.later(integration=5)
@pytest.mark.parametrize(
    "text",
    [
        f"module.exports = [{{address: '{A}'}}]",
        f'var holders = ["{A}"];',
        "import fs from 'fs'\nlet a = []",
        f"// holders\nconst a = ['{A}']",
        f"/* holders */ [['{A}', 5]]",
        "'use strict'\nconst a = {}",
        'window.holders = [{"a": 1}]',
        'callback([{"a": 1}])',
        "<!DOCTYPE html><html></html>",
        "holders = [{'a': 1}]",
        "from json import dumps\n",
        '<?xml version="1.0"?><rows/>',
    ],
)
def test_programs_and_web_pages_are_named_as_such(text: str, tmp_path: Path) -> None:
    result = imported(tmp_path, written(tmp_path, text, "list.json"), *ETH)
    assert result.code == 1
    assert any(kind in result.output for kind in ("JavaScript", "web page", "program"))


@pytest.mark.later(integration=5)
@pytest.mark.parametrize(
    "document",
    [
        {A: "5", B: "7"},
        {"holders": {A: 5, B: 7}},
        {"data": {"holders": [{"address": A, "balance": "5"}, {"address": B, "balance": "7"}]}},
        {"items": [{"address": {"hash": A}, "value": "5"}, {"address": {"hash": B}, "value": "7"}]},
        [{"TokenHolderAddress": A, "TokenHolderQuantity": "5"}, {"TokenHolderAddress": B, "TokenHolderQuantity": "7"}],
        [{"owner_address": A, "balance": "5", "balance_formatted": "0.5"}, {"owner_address": B, "balance": "7"}],
        [{"holder_address": A, "balance": 5, "amount": "1.5"}, {"holder_address": B, "balance": 7, "amount": "2.5"}],
        [{"wallet_address": A, "raw_balance": "0x5", "balance": "0.5"}, {"wallet_address": B, "raw_balance": "0x7"}],
        [
            {"Holder": {"Address": A}, "Balance": {"Amount": "5"}},
            {"Holder": {"Address": B}, "Balance": {"Amount": "7"}},
        ],
        [{"user": A, "tokenBalance": "5"}, {"user": B, "tokenBalance": "7"}],
        [{"account": {"id": A}, "amount": "5"}, {"account": {"id": B}, "amount": "7"}],
    ],
)
def test_lists_of_apis_are_read(document: object, tmp_path: Path) -> None:
    result = imported(tmp_path, written(tmp_path, json.dumps(document), "list.json"), *ETH)
    assert result.balances == {A: "5", B: "7"}, result.output


@pytest.mark.parametrize(
    ("decimals", "texts", "precision"),
    [
        ("18", ["8937679.04534211", "17947000.5153752", "3.87581399755303", "8000", "0.5"], "15 digits"),
        ("18", [f"{number}.{number:02}" for number in range(1, 12)], "2 decimals"),
        ("18", ["186877209.667021338987810827", "60003326.841326389689188986", "1.5", "2.25", "7590000"], None),
        ("8", ["8937679.04534211", "1794700.51537520", "3875813.99755303", "8000", "0.5"], None),
        ("2", [f"{number}.{number:02}" for number in range(1, 12)], None),
    ],
)
def test_rounded_balances_are_noticed(decimals: str, texts: list[str], precision: str | None, tmp_path: Path) -> None:
    rows = [f"0x{place + 1:040x},{text}" for place, text in enumerate(texts)]
    path = written(tmp_path, "\n".join(["HolderAddress,Balance", *rows]))
    result = imported(tmp_path, path, *ETH, "--set", f"decimals={decimals}")
    words = f"the balances in column Balance are rounded to {precision}"
    assert (result.code, [words in notice for notice in result.notices]) == (0, [True] if precision else [])


def test_the_accounts_of_an_owner_name_their_tokens(tmp_path: Path) -> None:
    info = {"mint": SPL, "owner": S1, "tokenAmount": {"amount": "7", "decimals": 6}}
    rows = [{"account": {"data": {"parsed": {"info": info}}, "owner": S4}, "pubkey": S2}]
    path = written(tmp_path, json.dumps(rows), "accounts.json")
    arguments = (
        "import",
        "balances",
        str(path),
        "--block",
        "21000000",
        "--at",
        "2024-10-19",
        "--chain",
        "solana",
        "--json",
    )
    ended = holderlake(*arguments, env={"HOLDERLAKE_HOME": str(tmp_path)})
    assert json.loads(ended.stdout)["tokens"] == [f"solana/{SPL}"]


def test_the_path_to_the_rows_can_be_set(tmp_path: Path) -> None:
    document = {"data": {"old": [{"address": A, "balance": 4}], "new": [{"address": A, "balance": 5}]}}
    path = written(tmp_path, json.dumps(document), "list.json")
    refused = imported(tmp_path, path, *ETH)
    assert "--rows data.new" in refused.output
    assert imported(tmp_path, path, *ETH, "--rows", "data.new").balances == {A: "5"}
