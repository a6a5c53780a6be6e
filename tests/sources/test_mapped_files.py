"""Files with column maps, exports without times, and native transfers from transactions are read exactly."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from holderlake.engine.errors import BadSource
from holderlake.engine.store.store import Store
from holderlake.sources.files.mapping import parse_map, read_block_times, read_map
from holderlake.sources.files.transfers import FileOptions
from tests.sources.conftest import CRYO_ROW, ETL_ROW, HASH, RECEIVER, SENDER
from tests.sources.reading import read_file, read_transfers

Write = Callable[..., Path]
MAX = 2**256 - 1
SOL_MINT = "EPjFWdd5AufqSSqeM2qN1xzybapC8G4wEGGkZwyTDt1v"
SOL_ANN, SOL_BOB = "9WzDXwBbmkg8ZTbNMqUxvQRAyrZzDsGYdLVL9zYtAWWM", "9wzDXwBbmkg8ZTbNMqUxvQRAyrZzDsGYdLVL9zYtAWWM"
ODD_ROW = {"src": SOL_ANN, "dst": SOL_BOB, "raw": str(MAX), "slot": "250000000", "at": "2024-01-01T00:00:00Z"}
ODD_MAP = ("from_address=src", "to_address=dst", "value=raw", "block_number=slot", "block_time=at")


def odd(path: Path, *pairs: str, constants: tuple[str, ...] = (f"token_address={SOL_MINT}",)) -> list[dict[str, Any]]:
    return list(read_transfers(path, None, "solana", parse_map(pairs or ODD_MAP, constants)).to_pylist())


def lines(path: Path, *rows: Any) -> Path:
    path.write_text("".join(f"{row if isinstance(row, str) else json.dumps(row)}\n" for row in rows))
    return path


# ---------------------------------------------------------------- maps


@pytest.mark.parametrize("kind", ["csv", "parquet", "json lines"])
def test_a_file_with_any_columns_is_read_with_a_map(
    kind: str, csv_file: Write, parquet_file: Write, tmp_path: Path
) -> None:
    row = {**ODD_ROW, "chain": "solana", "unused": "x"}
    writers = {"csv": csv_file, "parquet": parquet_file, "json lines": lambda row: lines(tmp_path / "t.jsonl", row)}
    (read,) = odd(writers[kind](row))
    assert (read["token_address"], read["from_address"], read["to_address"]) == (SOL_MINT, SOL_ANN, SOL_BOB)
    assert (read["value"], read["block_number"], read["block_time"]) == (str(MAX), 250_000_000, 1_704_067_200)
    assert (read["chain"], read["token_standard"], read["tx_hash"]) == ("solana", "erc20", None)
    assert (read["log_index_kind"], 0 <= read["log_index"] < 2**53) == ("synthetic", True)


def test_addresses_that_differ_only_in_case_are_two_holders(csv_file: Write, store: Store) -> None:
    path = csv_file(ODD_ROW, {**ODD_ROW, "src": SOL_BOB, "dst": SOL_ANN})
    rows = read_transfers(path, None, "solana", parse_map(ODD_MAP, (f"token_address={SOL_MINT}",)))
    assert len(set(rows["log_index"].to_pylist())) == 2
    assert store.add_transfers(rows, "file").added == 2
    assert store.add_transfers(rows, "file").added == 0


def test_map_options_extend_a_map_file(csv_file: Write, tmp_path: Path) -> None:
    (tmp_path / "map.toml").write_text(
        '[columns]\nfrom_address = "src"\nto_address = "nowhere"\nvalue = "raw"\nblock_number = "slot"\n'
        'block_time = "at"\n[constants]\ntoken_address = "' + SOL_MINT + '"\ntoken_standard = "erc721"\n'
    )
    typed = parse_map(["to_address=dst"], ["token_standard=erc20"])
    (read,) = read_transfers(csv_file(ODD_ROW), None, "solana", typed.over(read_map(tmp_path / "map.toml"))).to_pylist()
    assert (read["to_address"], read["token_address"], read["token_standard"]) == (SOL_BOB, SOL_MINT, "erc20")


@pytest.mark.parametrize(
    ("pairs", "constants", "words"),
    [
        (["from_address"], [], "write OURS=THEIRS, for example from_address=sender"),
        (["sender=src"], [], "sender is not one of our columns; use one of chain, token_address"),
        (["value=raw"], ["value=1"], "value is both mapped to a column and set"),
    ],
)
def test_an_invalid_map_is_refused(pairs: list[str], constants: list[str], words: str) -> None:
    with pytest.raises(BadSource, match=words):
        parse_map(pairs, constants)


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("[columns]\nvalue = 1.5", "write lines such as"),
        ("columns = 3", "write lines such as"),
        ("[rows]\na = 1", "unknown table rows"),
        ("[columns", "invalid column map"),
    ],
)
def test_an_invalid_map_file_is_refused(text: str, words: str, tmp_path: Path) -> None:
    (tmp_path / "map.toml").write_text(text)
    with pytest.raises(BadSource, match=words):
        read_map(tmp_path / "map.toml")


def test_a_map_to_missing_columns_is_refused(csv_file: Write) -> None:
    with pytest.raises(
        BadSource, match="value is mapped to amount, which is not a column of the file; the file has src"
    ):
        odd(csv_file(ODD_ROW), "value=amount")
    with pytest.raises(
        BadSource, match=r"token_address is missing; map a column to each \(--map token_address=COLUMN\)"
    ):
        odd(csv_file(ODD_ROW), constants=())


BARE = {"src": "0x" + "1" * 40, "dst": "0x" + "2" * 40, "raw": "5", "height": "7"}


@pytest.mark.parametrize(
    ("row", "pairs"),
    [
        (BARE, ("from_address=src", "to_address=dst", "value=raw", "block_number=height")),
        (BARE, ("from_address=src", "to_address=dst", "value=raw", "block_number=height", "token_address=src")),
        ({"from": "0x1", "to": "0x2", "tokenDecimal": "6", "value": "1", "hash": "0x3"}, ("from_address=from",)),
    ],
)
def test_all_that_a_file_lacks_is_named_at_once(row: dict[str, str], pairs: tuple[str, ...], csv_file: Write) -> None:
    column_map = parse_map(pairs, ())
    with pytest.raises(BadSource) as raised:
        read_file(csv_file(row), FileOptions(column_map=column_map))
    assert "--chain" in str(raised.value)
    if "value=raw" in pairs:
        assert "there is no time column" in str(raised.value)
        assert ("token_address is missing" in str(raised.value)) == (len(pairs) == 4)


# ---------------------------------------------------------------- JSON lines


def test_numbers_in_json_lines_are_exact(tmp_path: Path) -> None:
    path = lines(tmp_path / "t.jsonl", {**ODD_ROW, "raw": MAX}, "", {**ODD_ROW, "raw": hex(MAX), "slot": 250000001})
    assert [row["value"] for row in odd(path)] == [str(MAX), str(MAX)]


@pytest.mark.parametrize(
    ("line", "words"),
    [
        ('{"src": "a"', "line 2: not a complete JSON object; write one object on each line"),
        ("[1]", "line 2: not a JSON object"),
        (json.dumps({**ODD_ROW, "raw": [1]}), "row 2, column raw: .* is not a whole number"),
        (json.dumps({**ODD_ROW, "raw": 1.5}), "row 2, column raw: '1.5' is not a whole number"),
        ('{"src": "a", "raw": 1, "raw": 2}', "line 2: the key 'raw' is repeated in a JSON object"),
        ('{"a": {"b": 1}, "a.b": 2}', "line 2: the key 'a.b' is repeated in a JSON object"),
        (r'{"src\ud800": "a"}', r"the key src\\ud800 has half of a surrogate pair"),
        (r'{"src": "\udfff"}', "row 2, column src: half of a surrogate pair"),
        (json.dumps({"src": "a"}), "row 2, column src: .* is not an address"),
    ],
)
def test_invalid_json_lines_are_refused_with_their_line(line: str, words: str, tmp_path: Path) -> None:
    with pytest.raises(BadSource, match=words):
        odd(lines(tmp_path / "t.jsonl", ODD_ROW, line))


# ---------------------------------------------------------------- blocks' times


def test_exports_without_times_get_them_from_files_of_blocks(csv_file: Write, parquet_file: Write) -> None:
    times = read_block_times(
        [
            csv_file({"number": "16065818", "timestamp": "1669606415"}, name="blocks.csv"),
            parquet_file({"block_number": 7, "timestamp": 1_500_000_000}, name="blocks.parquet"),
        ]
    )
    timeless = {name: value for name, value in ETL_ROW.items() if name != "block_timestamp"}
    rows = read_transfers(csv_file(timeless, {**timeless, "block_number": "7"}), None, "eth", None, times)
    assert rows["block_time"].to_pylist() == [1669606415, 1_500_000_000]
    with pytest.raises(BadSource, match="row 1, column block_number: block 8 is in no file of blocks"):
        read_transfers(csv_file({**timeless, "block_number": "8"}), None, "eth", None, times)


def test_a_file_of_blocks_without_times_is_refused(csv_file: Write) -> None:
    with pytest.raises(BadSource, match="needs the columns block_number"):
        read_block_times([csv_file({"number": "1"})])


# ---------------------------------------------------------------- the chain's coin

ETL_TRANSACTION = {
    "hash": HASH,
    "block_number": "16065818",
    "transaction_index": "3",
    "from_address": SENDER,
    "to_address": RECEIVER,
    "value": str(10**18),
    "block_timestamp": "2022-11-28 03:33:35 UTC",
    "receipt_status": "1",
}


def test_successful_transactions_are_native_transfers(csv_file: Write) -> None:
    made = {"to_address": "", "receipt_contract_address": "0x" + "ee" * 20}
    base = {**ETL_TRANSACTION, "receipt_contract_address": ""}
    path = csv_file(
        base,
        {**base, "receipt_status": "0", "transaction_index": "4"},
        {**base, "value": "0", "transaction_index": "5"},
        {**base, **made, "transaction_index": "6"},
    )
    rows = read_transfers(path, None, "eth").to_pylist()
    assert [(row["token_address"], row["token_standard"], row["to_address"]) for row in rows] == [
        ("native", "native", RECEIVER),
        ("native", "native", "0x" + "ee" * 20),
    ]
    assert [(row["log_index"], row["log_index_kind"]) for row in rows] == [
        (3 << 20, "synthetic"),
        (6 << 20, "synthetic"),
    ]


def test_transactions_without_outcome_or_receiver_are_refused(csv_file: Write) -> None:
    blind = {name: value for name, value in ETL_TRANSACTION.items() if name != "receipt_status"}
    with pytest.raises(BadSource, match="receipt_status is missing, which marks failed transactions"):
        read_transfers(csv_file(blind), None, "eth")
    with pytest.raises(
        BadSource, match="row 2, column to_address: the receiver is empty, but the row creates a contract"
    ):
        read_transfers(csv_file(ETL_TRANSACTION, {**ETL_TRANSACTION, "to_address": ""}), None, "eth")


def test_native_transfers_of_cryo_have_the_log_indexes_of_the_node(parquet_file: Write) -> None:
    base = {name: value for name, value in CRYO_ROW.items() if name not in ("erc20", "log_index")}
    base |= {"block_hash": b"\x01" * 32, "transfer_index": 5}
    nothing = {"value_binary": bytes(32), "value_string": "0", "value_f64": 0.0}
    path = parquet_file(
        base,
        {**base, "transfer_index": 7},
        {**base, "transfer_index": 6, **nothing},
        {**base, "transaction_index": 4, "transfer_index": 8, "value_binary": (2**255).to_bytes(32, "big")},
        {**base, "transaction_index": 4, "transfer_index": 9, **nothing, "to_address": None},
    )
    rows = read_transfers(path).to_pylist()
    assert [row["log_index"] for row in rows] == [3 << 20, (3 << 20) + 2, 4 << 20]
    assert {(row["token_address"], row["chain"], row["tx_hash"]) for row in rows} == {("native", "eth", HASH)}
