"""Kinds of public files as small literal inputs: the right rows, or a notice or refusal that names what is wrong."""

from __future__ import annotations

import gzip
import json
import os
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from typer.testing import CliRunner

from holderlake.cli.main import app
from holderlake.core.contract.chains import ZERO_ADDRESS, addresses
from holderlake.core.contract.chains.addresses import parse_unplaced_address, typed_token
from holderlake.core.contract.models import TokenKey
from holderlake.engine.errors import BadSource
from holderlake.errors import SomeFailed
from holderlake.sources import raw_rows
from holderlake.sources.balance_lists import BalanceOptions, balance_map, read_balances
from holderlake.sources.files.mapping import parse_map
from holderlake.sources.files.transfers import FileOptions, FileTransfers
from holderlake.sources.labels import read_labels
from holderlake.sources.token_lists import read_tokens
from tests.sources.foreign import csv_text
from tests.sources.reading import read_file, written

A, B, C, TOKEN = (f"0x{number:040x}" for number in (0xA1, 0xB2, 0xC3, 0x5E))
TX = [f"0x{number:064x}" for number in range(1, 9)]
BLOCK, OTHER = f"0x{'b1' * 32}", f"0x{'b2' * 32}"
TRANSFER = "0xddf252ad1be2c89b69c2b068fc378daa952ba7f163c4a11628f55a4df523b3ef"
TIME = 1_729_324_811
Row = dict[str, Any]


def moves(content: object, folder: Path, *options: str, chain: str = "eth", rows: str | None = None) -> FileTransfers:
    """Return the transfers of a file. ``options`` are texts ``OURS=COLUMN`` of a column map."""
    column_map = parse_map(options, ())
    return read_file(written(folder, content), FileOptions(chain=chain, column_map=column_map, rows_at=rows))


def sums(read: FileTransfers) -> dict[str, int]:
    """Return the balances that are not zero, without the zero address."""
    balances: dict[str, int] = {}
    for move in read.transfers.to_pylist():
        for address, sign in ((move["from_address"], -1), (move["to_address"], 1)):
            balances[address] = balances.get(address, 0) + sign * int(move["value"])
    return {address: balance for address, balance in balances.items() if balance and address != ZERO_ADDRESS}


def held(content: object, folder: Path, *constants: str, chain: str = "eth", token: str = TOKEN) -> dict[str, int]:
    options = BalanceOptions(chain, token, at=TIME, column_map=balance_map([], list(constants)))
    listed: dict[str, int] = {}
    for row in read_balances(written(folder, content), options).balances.to_pylist():
        listed[row["address"]] = listed.get(row["address"], 0) + int(row["balance"])
    return listed


# ------------------------------------------------------------------ undone logs and blocks


def log(place: int, sender: str, receiver: str, value: int, **changes: Any) -> Row:
    """Return a log of the block ``place`` with ``changes``."""
    topics = [TRANSFER, *(f"0x{'0' * 24}{address[2:]}" for address in (sender, receiver))]
    return {
        "address": TOKEN,
        "topics": topics,
        "data": f"0x{value:064x}",
        "blockNumber": hex(place),
        "transactionHash": TX[place],
        "blockHash": f"0x{place:064x}",
        "logIndex": "0x1",
        "blockTimestamp": hex(TIME),
        "removed": False,
    } | changes


MINT, UNDONE, KEPT = log(1, ZERO_ADDRESS, A, 1000), log(2, A, B, 400), log(2, A, C, 300, transactionHash=TX[3])
KEPT["blockHash"] = OTHER
REMOVED = {**UNDONE, "removed": True}


def decoded(row: Row) -> Row:
    """Return a log as a row of decoded columns."""
    topics = row["topics"]
    return {
        "token_address": TOKEN, "from_address": f"0x{topics[1][-40:]}", "to_address": f"0x{topics[2][-40:]}",
        "value": int(row["data"], 16), "block_number": int(row["blockNumber"], 16), "block_time": TIME,
        "transaction_hash": row["transactionHash"], "log_index": 1, "block_hash": row["blockHash"],
        "removed": row["removed"],
    }  # fmt: skip


WITHOUT = {A: 700, C: 300}


@pytest.mark.parametrize(
    ("rows", "balances"),
    [
        ([MINT, UNDONE, REMOVED, KEPT], WITHOUT),
        ([KEPT, REMOVED, UNDONE, MINT], WITHOUT),  # the newest first
        ([MINT, UNDONE, UNDONE, REMOVED, KEPT], WITHOUT),  # delivered twice
        ([MINT, UNDONE, REMOVED, KEPT, {**KEPT, "removed": True}, UNDONE], {A: 600, B: 400}),  # back again
        ([{**row, "removed": str(row["removed"]).lower()} for row in (MINT, UNDONE, REMOVED, KEPT)], WITHOUT),
        ([{k: v for k, v in row.items() if k != "blockHash"} for row in (MINT, UNDONE, REMOVED, KEPT)], WITHOUT),
        ([decoded(row) for row in (MINT, UNDONE, REMOVED, KEPT)], WITHOUT),
        ([{**decoded(row), "removed": None, "_gs_op": "d" if row["removed"] else "i"}
          for row in (MINT, UNDONE, REMOVED, KEPT)], WITHOUT),
        ([{k: v for k, v in {**decoded(row), "step": "UNDO" if row["removed"] else "NEW"}.items() if k != "removed"}
          for row in (MINT, UNDONE, REMOVED, KEPT)], WITHOUT),
    ],
)  # fmt: skip
def test_a_removed_log_takes_back_its_earlier_copy(rows: object, balances: object, tmp_path: Path) -> None:
    read = moves(rows, tmp_path)
    assert (sums(read), read.rejected) == (balances, None)


def test_a_removed_log_without_a_copy_is_named(tmp_path: Path) -> None:
    assert "1 removed log without an earlier copy" in moves([MINT, REMOVED, KEPT], tmp_path).notices[0]
    assert moves([MINT, UNDONE, REMOVED], tmp_path).notices == ()


@pytest.mark.parametrize("rows", [[MINT, UNDONE, KEPT], [decoded(row) for row in (MINT, UNDONE, KEPT)]])
def test_a_height_with_two_block_hashes_is_refused(rows: object, tmp_path: Path) -> None:
    rejected = moves(rows, tmp_path).rejected
    assert rejected is not None
    assert [row.number for row in rejected.rows] == [2, 3]
    assert "has two hashes" in rejected.rows[0].reason


@pytest.mark.integration
def test_two_files_with_other_hashes_of_one_block_are_refused(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("HOLDERLAKE_HOME", str(tmp_path / "home"))
    paths = [str(written(tmp_path, rows, name)) for rows, name in (([MINT, UNDONE], "a.json"), ([KEPT], "b.json"))]
    ended = CliRunner().invoke(app, ["import", "files", *paths, "--chain", "eth", "--json"])
    lines = json.loads(ended.stdout)
    assert "has another hash than in an earlier file" in lines[1]["error"]
    assert (lines[0]["added"], isinstance(ended.exception, SomeFailed)) == (2, True)


# ------------------------------------------------------------------ files that say that they are a part

HOLDERS = [{"address": A, "balance": "5"}, {"address": B, "balance": "7"}]


@pytest.mark.parametrize(
    ("answer", "words"),
    [
        ({"data": {"items": HOLDERS, "pagination": {"has_more": True, "total_count": 1341}}, "error": False},
         "2 rows of 1,341"),
        ({"holders": HOLDERS, "total": 109000}, "2 rows of 109,000 (total)"),
        ({"count": 30, "next": "https://a.b/?page=2", "previous": None, "results": HOLDERS}, "2 rows of 30 (count)"),
        ({"result": HOLDERS, "cursor": "eyJhbGciOi"}, "cursor names the next page"),
        ({"items": HOLDERS, "next_page_params": {"items_count": 50}}, "next_page_params names the next page"),
        ({"jsonrpc": "2.0", "result": {"holders": HOLDERS, "pageKey": "k"}}, "pageKey names the next page"),
        ({"data": {"holders": HOLDERS, "pageInfo": {"hasNextPage": True, "endCursor": "x"}}}, "hasNextPage names"),
        ({"data": HOLDERS, "meta": {"fingerprint": "x", "page_size": 2}}, "meta.fingerprint names"),
        ({"balances": HOLDERS, "pagination": {"next_key": "AAE=", "total": "0"}}, "pagination.next_key names"),
        ({"data": HOLDERS, "meta": {"page": 1, "total_pages": 4}}, "1 of 4 pages"),
        ({"data": {"holders": HOLDERS}, "errors": [{"message": "indexing failed"}]}, "errors beside its rows"),
        ([{"result": HOLDERS[:1], "cursor": "a"}, {"result": HOLDERS[1:], "cursor": "b"}], "2 rows, and cursor names"),
        ({"jsonrpc": "2.0", "id": 1, "result": {"marker": "F1", "holders": HOLDERS}}, "result.marker names"),
        ({"next_cursor": "b2", "next": "https://a.b", "owners": HOLDERS}, "names the next page"),
        ({"success": True, "data": {"total": 7004, "items": HOLDERS}}, "2 rows of 7,004 (data.total)"),
        ({"result": {"rows": HOLDERS, "metadata": {"total_row_count": 500}}, "next_offset": 2}, "2 rows of 500"),
        ({"page": "0", "page_size": "2", "total": "1341", "result": HOLDERS}, "2 rows of 1,341"),
        ({"pagination": {"next_key": None, "total": "90"}, "denom_owners": HOLDERS}, "2 rows of 90"),
        ({"totalRows": "12", "pageToken": "BFX", "rows": HOLDERS}, "2 rows of 12"),
        ({"result": {"total": 2, "limit": 2, "page": 1, "token_accounts": HOLDERS}}, None),
        ({"merkleRoot": TX[0], "total": "5000000000000000000", "holders": HOLDERS}, None),
        ({"status": "1", "message": "OK", "result": HOLDERS}, None),
        ([{"status": "1", "result": HOLDERS}, {"status": "0", "message": "No rows found", "result": []}], None),
        ([{"id": 1, "jsonrpc": "2.0", "result": HOLDERS[:1]}, {"id": 2, "result": HOLDERS[1:]}], None),
        ([{"data": {"holders": HOLDERS}, "extensions": {"cost": 3}}], None),
        ({"result": HOLDERS, "cursor": None}, None),
        ({"result": HOLDERS, "cursor": "", "total": 2, "page": 0}, None),
        ([{"result": HOLDERS[:1], "cursor": "a"}, {"result": HOLDERS[1:], "cursor": None}], None),
        ({"data": HOLDERS, "meta": {"total": 2, "hasNext": False}}, None),
        ([{**row, "total": "900"} for row in HOLDERS], None),
    ],
)  # fmt: skip
def test_a_file_that_says_it_is_a_part_is_noticed(answer: object, words: str | None, tmp_path: Path) -> None:
    read = read_balances(written(tmp_path, answer), BalanceOptions("eth", TOKEN, at=TIME))
    assert read.balances.num_rows == len(HOLDERS)
    assert [words in notice for notice in read.notices] == [True] if words else read.notices == []  # type: ignore[operator]


PAGE = {"status": "1", "message": "OK", "result": [decoded(MINT)]}
LIMITS = [
    {"status": "0", "message": "NOTOK", "result": "Max calls per sec rate limit reached (3/sec)"},
    {"message": "Too many requests: rate limit"},
    {"error": {"code": 429, "message": "rate limit"}},
    {"statusCode": 429, "error": "Too Many Requests", "message": "rate limit exceeded"},
    {"success": False, "msg": "rate limit"},
    {"errors": [{"message": "rate limit"}], "data": None},
]


@pytest.mark.parametrize("limit", LIMITS, ids="-".join)
def test_an_error_among_pages_is_named_with_its_page(limit: object, tmp_path: Path) -> None:
    for pages, place in (([PAGE, PAGE, limit], 3), ([limit, PAGE], 1)):
        with pytest.raises(BadSource, match=rf"page {place}: an API's error .*(rate limit|Too Many)"):
            moves(pages, tmp_path)
        with pytest.raises(BadSource, match=rf"line {place}: an API's error .*(rate limit|Too Many)"):
            moves("\n".join(map(json.dumps, pages)), tmp_path)


@pytest.mark.parametrize("limit", LIMITS, ids="-".join)
def test_an_error_instead_of_labels_or_tokens_is_named(limit: object, tmp_path: Path) -> None:
    for read in (read_labels, read_tokens):
        with pytest.raises(BadSource, match=r"an API's error instead of .*(rate limit|Too Many)"):
            read(written(tmp_path, limit))


def test_a_list_of_tokens_that_is_one_page_is_noticed(tmp_path: Path) -> None:
    token = {"chainId": 1, "address": A, "symbol": "X", "name": "X", "decimals": 6}
    assert "1 row of 70 (total)" in read_tokens(written(tmp_path, {"tokens": [token], "total": 70})).notices[0]
    assert read_tokens(written(tmp_path, {"tokens": [token], "name": "list"})).notices == []


@pytest.mark.parametrize("rows", [None, "result"])
def test_pages_in_one_array_are_one_list(rows: str | None, tmp_path: Path) -> None:
    second = {**PAGE, "result": [decoded(KEPT)]}
    assert sums(moves([PAGE, second], tmp_path, rows=rows)) == WITHOUT


def test_rows_of_a_page_with_other_keys_lose_their_prefix(tmp_path: Path) -> None:
    pages = [{**PAGE, "fetched_by": "script"}, {**PAGE, "result": [decoded(KEPT)], "fetched_by": "script"}]
    assert sums(moves(pages, tmp_path, rows="result")) == WITHOUT


# ------------------------------------------------------------------ one spelling of an address

LONG = f"0x{'0' * 2}{'3e' * 31}"
SHORT = f"0x{'3e' * 31}"
BECH32 = "bc1qar0srrr7xfkvy5l643lydnw9re59gtzzwf5mdq"


@pytest.mark.parametrize(
    ("chain", "spellings", "stored"),
    [
        ("starknet", (LONG, SHORT, LONG.upper().replace("X", "x"), f"0x0{SHORT[2:]}"), LONG),
        ("sui", (LONG, SHORT), LONG),
        ("aptos", (LONG, SHORT), LONG),
        ("aptos", ("0x1", f"0x{1:064x}", "0x01"), "0x1"),
        ("starknet", ("0x0", f"0x{0:064x}", f"0x{0:040x}"), ZERO_ADDRESS),
        ("bitcoin", (BECH32, BECH32.upper()), BECH32),
        ("litecoin", ("ltc1qg82tszlk9h7vzmn6gvkq4kqyv9pp", "LTC1QG82TSZLK9H7VZMN6GVKQ4KQYV9PP"),
         "ltc1qg82tszlk9h7vzmn6gvkq4kqyv9pp"),
        ("bitcoin", ("1BoatSLRHtKNngkdXEeobR76b53LETtpyT",), "1BoatSLRHtKNngkdXEeobR76b53LETtpyT"),
        ("movement", (SHORT, LONG), LONG),
        ("iota", ("0xa", f"0x{10:064x}"), "0xa"),
    ],
)  # fmt: skip
def test_spellings_of_one_address_are_one_holder(
    chain: str, spellings: Sequence[str], stored: str, tmp_path: Path
) -> None:
    rows = [
        {"token_address": "0xabc", "from_address": "0x99" if "coin" not in chain else "bc1x", "to_address": address,
         "value": 10 + place, "block_number": place, "block_time": TIME, "log_index": place}
        for place, address in enumerate(spellings)
    ]  # fmt: skip
    read = moves(csv_text(rows), tmp_path, chain=chain)
    assert set(read.transfers["to_address"].to_pylist()) == {stored}
    assert len(set(read.transfers["token_address"].to_pylist())) == 1


@pytest.mark.parametrize(
    ("chain", "spellings", "stored"),
    [
        ("sui", ("0x2::sui::SUI", f"0x{2:064x}::sui::SUI", "0X02::sui::SUI"), "0x2::sui::SUI"),
        ("sui", (f"{SHORT}::coin::COIN", f"{LONG}::coin::COIN"), f"{LONG}::coin::COIN"),
        ("bitcoin", ("ORDI", "ordi", "Ordi"), "ordi"),
        ("bitcoin", ("DOG•GO•UP", "DOGGOUP"), "DOGGOUP"),
        ("bitcoin", ("840000:3",), "840000:3"),
    ],
)
def test_spellings_of_one_token_are_one_token(
    chain: str, spellings: Sequence[str], stored: str, tmp_path: Path
) -> None:
    for spelling in spellings:
        options = BalanceOptions(chain, spelling, at=TIME)
        content = {"address": ["0x99" if chain == "sui" else BECH32], "balance": ["5"]}
        rows = [{name: values[0] for name, values in content.items()}]
        (row,) = read_balances(written(tmp_path, rows), options).balances.to_pylist()
        assert row["token_address"] == stored


def test_questions_and_labels_use_the_one_spelling() -> None:
    assert TokenKey.model_validate({"chain": "starknet", "address": SHORT}).address == LONG
    assert TokenKey.model_validate({"chain": "bitcoin", "address": "DOG•GO•UP"}).address == "DOGGOUP"
    assert typed_token("bitcoin", "ORDI") == "ordi"
    assert typed_token("starknet", SHORT) == LONG
    assert parse_unplaced_address(SHORT) == LONG


def test_labels_of_short_addresses_have_the_one_spelling(tmp_path: Path) -> None:
    path = written(tmp_path, f"address,chain,name\n{SHORT},starknet,Treasury\n", "own.csv")
    assert [label.address for label in read_labels(path).labels] == [LONG]


@pytest.mark.integration
def test_a_rebuild_names_tokens_in_spellings_of_an_earlier_version(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("HOLDERLAKE_HOME", str(tmp_path / "home"))
    row = {**OURS, "token_address": SHORT, "from_address": ZERO_ADDRESS, "to_address": "0xabc"}
    path = written(tmp_path, csv_text([row]), "t.csv")

    def rebuilt() -> BaseException | None:
        return CliRunner().invoke(app, ["store", "rebuild"]).exception

    CliRunner().invoke(app, ["import", "files", str(path), "--chain", "starknet"])
    assert rebuilt() is None
    with pytest.MonkeyPatch.context() as earlier:
        earlier.setattr(addresses, "one_spelling", lambda chain, text: text)
        CliRunner().invoke(app, ["import", "files", str(path), "--chain", "starknet"])
    assert f"import their files again into a new home: {SHORT} on starknet" in str(rebuilt())


# ------------------------------------------------------------------ amounts, names and messages

BLOCKSCOUT: Row = {
    "TxHash": TX[0], "BlockNumber": 5, "UnixTimestamp": "2024-10-19 08:00:11Z", "FromAddress": ZERO_ADDRESS,
    "ToAddress": A, "TokenContractAddress": TOKEN, "TokenDecimals": 6, "TokenSymbol": "X",
    "TokensTransferred": 1000, "Status": "ok", "ErrCode": "",
}  # fmt: skip


def test_a_csv_of_blockscout_has_raw_amounts(tmp_path: Path) -> None:
    failed = {**BLOCKSCOUT, "TxHash": TX[1], "Status": "error", "ErrCode": "Reverted"}
    read = moves(csv_text([BLOCKSCOUT, failed]), tmp_path, chain="celo")
    assert (sums(read), read.passed_over, read.decimals) == ({A: 1000}, 1, {("celo", TOKEN): 6})


OURS: Row = {"token_address": TOKEN, "from_address": A, "to_address": B, "value": "600000000", "places": "6",
             "block_number": 5, "block_time": TIME}  # fmt: skip


def test_decimals_in_a_column_can_be_of_raw_amounts(tmp_path: Path) -> None:
    read = moves(csv_text([OURS]), tmp_path, "token_decimals=places")
    assert (sums(read)[B], read.decimals, read.notices) == (600000000, {("eth", TOKEN): 6}, ())
    assert "--map token_decimals=places" in moves(csv_text([OURS]), tmp_path, "decimals=places").notices[0]
    assert moves(csv_text([{**OURS, "value": "6.5"}]), tmp_path, "decimals=places").notices == ()


EXACT = {"HolderAddress": A, "Balance": "2130924.609038455654704294"}


@pytest.mark.parametrize(
    ("text", "raw"),
    [("1.8E+7", 18 * 10**24), ("2E+3", 2000 * 10**18), ("5E-18", 5), ("1e6", 10**24), ("1.23457E+15", None),
     ("1.8E+07", None)],
)  # fmt: skip
def test_round_amounts_with_exponents_are_exact_beside_exact_ones(text: str, raw: int | None, tmp_path: Path) -> None:
    rows = csv_text([EXACT, {"HolderAddress": B, "Balance": text}])
    if raw is None:
        with pytest.raises(BadSource, match="has lost digits"):
            held(rows, tmp_path, "decimals=18")
    else:
        assert held(rows, tmp_path, "decimals=18") == {A: 2130924609038455654704294, B: raw}


def test_a_round_amount_with_an_exponent_alone_is_refused(tmp_path: Path) -> None:
    with pytest.raises(BadSource, match="has lost digits"):
        held(csv_text([{"address": A, "balance": "1.8E+7"}]), tmp_path, "decimals=18")


def test_items_without_a_standard_ask_for_it(tmp_path: Path) -> None:
    with pytest.raises(BadSource, match=r"row 1, column token_id: 7 is the id of an item.*--set token_standard=erc721"):
        moves(csv_text([{**OURS, "value": "1", "token_id": "7"}]), tmp_path)
    (move,) = moves(csv_text([{**OURS, "token_id": "0"}]), tmp_path).transfers.to_pylist()
    assert (move["token_standard"], move["token_id"]) == ("erc20", None)


def test_rows_of_separators_alone_are_no_rows(tmp_path: Path) -> None:
    text = f"address,balance,note\n{A},5,\n,,\n ,,\n{B},x,\n,,\n"
    with pytest.raises(BadSource, match=r"row 4, column balance: .*\(1 of 2 rows"):
        held(text, tmp_path)
    assert held(text.replace(",x,", ",7,"), tmp_path) == {A: 5, B: 7}


def test_a_message_names_the_column_of_the_file(tmp_path: Path) -> None:
    rows = [{"owner": A, "amount": "5"}, {"owner": "", "amount": "7"}]
    with pytest.raises(BadSource, match="row 2, column owner: a value is missing"):
        held(csv_text(rows), tmp_path)


# ------------------------------------------------------------------ files that would fill the memory, or never end


def test_a_file_that_unpacks_to_far_more_is_refused(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(raw_rows, "_MOST_UNPACKED", 1 << 16)
    monkeypatch.setattr(raw_rows, "_MOST_TEXT", 1 << 16)
    rows = [f"{A},5\n"] * 20_000
    packed = tmp_path / "rows.csv.gz"
    packed.write_bytes(gzip.compress(f"address,balance\n{''.join(rows)}".encode()))
    repeated = tmp_path / "rows.parquet"
    pq.write_table(pa.table({"address": ["0x" + "0" * 2_000] * 2_000, "balance": ["1"] * 2_000}), repeated)
    for path in (packed, repeated):
        with pytest.raises(BadSource, match=r"unpack to more than"):
            read_balances(path, BalanceOptions("eth", TOKEN, at=TIME))
    for read in (read_labels, read_tokens):
        with pytest.raises(BadSource, match=r"has more than|unpack to more than"):
            read(packed)


def test_a_pipe_is_refused_instead_of_waited_for(tmp_path: Path) -> None:
    pipe, device = tmp_path / "pipe.csv", tmp_path / "zero.csv"
    os.mkfifo(pipe)
    device.symlink_to("/dev/zero")
    for path in (pipe, device):
        with pytest.raises(BadSource, match=r"a pipe or a device"):
            read_labels(path)
        with pytest.raises(BadSource, match=r"a pipe or a device"):
            read_file(path, FileOptions(chain="eth"))


def test_messages_about_thousands_of_columns_stay_short(tmp_path: Path) -> None:
    path = written(tmp_path, ",".join(f"column_{number}" for number in range(9_000)) + "\n", "wide.csv")
    for read in (read_labels, lambda path: read_file(path, FileOptions(chain="eth"))):
        with pytest.raises(BadSource) as refused:
            read(path)
        assert len(str(refused.value)) < 4_000
        assert "(9,000 columns)" in str(refused.value)


@pytest.mark.parametrize("read", [read_labels, read_tokens, lambda path: read_file(path, FileOptions(chain="eth"))])
def test_json_that_is_nested_too_deeply_is_refused_with_its_file(read: Any, tmp_path: Path) -> None:
    with pytest.raises(BadSource, match=r"file\.json: .*(nested too deeply|not complete JSON)"):
        read(written(tmp_path, '{"a": ' + "[" * 100_000))
