"""Transfer files of known layouts are read exactly or refused."""

from __future__ import annotations

import gzip
from collections.abc import Callable
from datetime import UTC, datetime
from decimal import Decimal
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import pyarrow as pa
import pyarrow.csv
import pyarrow.parquet as pq
import pytest
from hypothesis import given
from hypothesis import strategies as st

from holderlake.engine.errors import BadSource
from holderlake.engine.records import TRANSFERS
from holderlake.sources.files.transfers import FORMATS
from tests.helpers import flawed_histories
from tests.sources.conftest import CRYO_ROW, ETL_ROW, HASH, HOLDERLAKE_ROW, RECEIVER, SENDER, TOKEN
from tests.sources.reading import read_transfers

MAX = 2**256 - 1
Write = Callable[..., Path]

ROW_READ = {
    "chain": "eth",
    "token_address": TOKEN,
    "token_standard": "erc20",
    "from_address": SENDER.lower(),
    "to_address": RECEIVER,
    "value": "1000",
    "token_id": None,
    "block_number": 16065818,
    "block_time": 1669606415,
    "tx_hash": HASH,
    "log_index": 7,
    "time_kind": "exact",
    "log_index_kind": "exact",
}


def read_one(path: Path, **arguments: Any) -> dict[str, Any]:
    table = read_transfers(path, **arguments)
    assert table.schema.equals(TRANSFERS)
    (row,) = table.to_pylist()
    return dict(row)


def etl(**changes: Any) -> dict[str, Any]:
    return {**ETL_ROW, **changes}


def holderlake(**changes: Any) -> dict[str, Any]:
    return {**HOLDERLAKE_ROW, **changes}


def cryo(*without: str, **changes: Any) -> dict[str, Any]:
    row = {**CRYO_ROW, **changes}
    return {name: value for name, value in row.items() if name not in without}


def refusal(path: Path, **arguments: Any) -> str:
    with pytest.raises(BadSource) as caught:
        read_transfers(path, **arguments)
    return str(caught.value)


# ---------------------------------------------------------------- the layouts


def test_our_own_layout_is_read(parquet_file: Write) -> None:
    path = parquet_file(holderlake())
    assert read_one(path) == {**ROW_READ, "source": "by hand"}


def test_columns_with_a_default_can_be_missing(parquet_file: Write) -> None:
    optional = ("time_kind", "log_index_kind", "source", "token_id")
    path = parquet_file({name: value for name, value in holderlake().items() if name not in optional})
    assert read_one(path) == {**ROW_READ, "source": "transfers.parquet"}


def test_cryo_erc20_exports_are_read_from_binary_columns(parquet_file: Write) -> None:
    path = parquet_file(CRYO_ROW)
    assert read_one(path) == {**ROW_READ, "source": "transfers.parquet"}


@pytest.mark.parametrize("column", ["erc721", "erc20"])
def test_cryo_erc721_exports_are_items(parquet_file: Write, column: str) -> None:
    row = cryo("value_binary", "value_string", "value_f64", "erc20", token_id_binary=b"\xff" * 32)
    path = parquet_file({**row, column: CRYO_ROW["erc20"]})
    read = read_one(path)
    assert (read["token_address"], read["token_standard"]) == (TOKEN, "erc721")
    assert (read["value"], read["token_id"]) == ("1", str(MAX))


@pytest.mark.parametrize(
    "time",
    [
        1669606415,
        datetime(2022, 11, 28, 3, 33, 35, 999_000),
        datetime(2022, 11, 28, 3, 33, 35, tzinfo=UTC),
        "2022-11-28T03:33:35Z",
        "2022-11-28 05:33:35+02:00",
        "1669606415",
        "0x63842c0f",
        1669606415_000,
        "1669606415999999",
        1669606415_000_000_000,
        "2022-11-28 03:33:35.000 UTC",
        "2022-11-28 03:33:35+00",
    ],
)
def test_times_in_usual_spellings_are_read(parquet_file: Write, time: Any) -> None:
    assert read_one(parquet_file(cryo(timestamp=time)))["block_time"] == 1669606415


def test_timestamps_with_nanoseconds_are_read(tmp_path: Path) -> None:
    table = pa.Table.from_pylist([cryo("timestamp")])
    stamps = pa.array([1669606415_000_000_001], pa.timestamp("ns", "UTC"))
    pq.write_table(table.append_column("block_timestamp", stamps), tmp_path / "ns.parquet")
    assert read_one(tmp_path / "ns.parquet")["block_time"] == 1669606415


def test_a_file_without_rows_gives_an_empty_table(csv_file: Write, tmp_path: Path) -> None:
    path = csv_file(etl())
    path.write_text(path.read_text().splitlines()[0] + "\n")
    assert read_transfers(path, chain="eth").equals(TRANSFERS.empty_table())
    pq.write_table(TRANSFERS.empty_table(), tmp_path / "none.parquet")
    assert read_transfers(tmp_path / "none.parquet").num_rows == 0


def test_a_folder_named_like_a_partition_adds_no_column(tmp_path: Path) -> None:
    folder = tmp_path / "chain_id=56"
    folder.mkdir()
    pq.write_table(pa.Table.from_pylist([cryo()]), folder / "part.parquet")
    assert read_one(folder / "part.parquet")["chain"] == "eth"


# ---------------------------------------------------------------- amounts


@pytest.mark.long
@given(st.integers(0, MAX))
def test_amounts_of_256_bits_are_exact_in_all_spellings(amount: int) -> None:
    with TemporaryDirectory() as folder:
        path = Path(folder) / "amounts.parquet"
        for written in (str(amount), hex(amount), f"0X{amount:064X}", f"{amount:090d}", amount.to_bytes(32, "big")):
            pq.write_table(pa.Table.from_pylist([holderlake(value=written)]), path)
            assert read_one(path)["value"] == str(amount)


@pytest.mark.integration
@given(st.lists(st.integers(0, MAX), min_size=1, max_size=20))
def test_amounts_keep_their_rows(amounts: list[int]) -> None:
    with TemporaryDirectory() as folder:
        path = Path(folder) / "amounts.csv"
        table = pa.Table.from_pylist([etl(value=str(amount)) for amount in amounts])
        pyarrow.csv.write_csv(table, path)
        assert read_transfers(path, chain="eth")["value"].to_pylist() == [str(amount) for amount in amounts]


def test_amounts_in_number_columns_are_read(parquet_file: Write) -> None:
    assert read_one(parquet_file(holderlake(value=12)))["value"] == "12"
    assert read_one(parquet_file(holderlake(value=Decimal("12"))))["value"] == "12"


@pytest.mark.parametrize(
    ("value", "words"),
    [
        ("-5", "negative"),
        (str(MAX + 1), "over 2^256 - 1"),
        ("9" * 6_000, "over 2^256 - 1"),
        ("0x1" + "0" * 64, "over 2^256 - 1"),
        ("1.5", "not a whole number"),
        ("1e18", "has lost digits"),
        ("1.23E+21", "has lost digits"),
        ("1,000", "--thousands ,"),
        ("1000000000000000000.0", "may be a rounded floating-point number"),
        ("null", "missing"),
        ("NaN", "missing"),
        ("1_000", "not a whole number"),
        ("٣", "not a whole number"),
        ("0x", "not a whole number"),
        ("many", "not a whole number"),
        ("", "missing"),
        (" ", "missing"),
    ],
)
def test_an_invalid_amount_is_refused_with_its_row(csv_file: Write, value: str, words: str) -> None:
    message = refusal(csv_file(etl(), etl(value=value)), chain="eth")
    assert message.startswith("transfers.csv, row 2, column value: ")
    assert words in message


@pytest.mark.parametrize(
    ("changes", "words"),
    [
        ({"value": 1000.0}, "not exact"),
        ({"token_standard": "erc721", "token_id": 1.0, "value": "1"}, "not exact"),
        ({"value": ["1", "2"]}, "column value: a column of type list"),
        ({"to_address": None}, "row 1, column to_address"),
        ({"token_standard": "erc721", "value": "1"}, "needs a token_id, which is missing"),
        ({"token_standard": "erc1155"}, "needs a token_id, which is missing"),
        ({"token_standard": "erc721", "token_id": "5"}, "is always 1"),
        ({"token_standard": "erc404"}, "'erc404' is not one of erc1155, erc20, erc721, native"),
    ],
)
def test_an_invalid_value_in_parquet_is_refused(parquet_file: Write, changes: dict[str, Any], words: str) -> None:
    assert words in refusal(parquet_file(holderlake(**changes)))


def test_columns_of_pandas_categories_are_read(tmp_path: Path) -> None:
    table = pa.Table.from_pylist([holderlake()])
    place = table.column_names.index("chain")
    pq.write_table(table.set_column(place, "chain", pa.array(["bsc"]).dictionary_encode()), tmp_path / "c.parquet")
    assert read_one(tmp_path / "c.parquet")["chain"] == "bsc"


def test_floating_point_amounts_of_cryo_are_refused(parquet_file: Write) -> None:
    message = refusal(parquet_file(cryo("value_binary", "value_string")))
    assert "value_f64" in message
    assert "--u256-types" in message
    row = cryo("value_binary", "value_string", "value_f64", token_id_f64=3.0)
    assert "token_id_f64" in refusal(parquet_file(row))


# ---------------------------------------------------------------- other refusals


def test_an_unknown_layout_is_refused_with_columns_and_layouts(csv_file: Write) -> None:
    message = refusal(csv_file({"who": "a", "from_address": "b"}))
    assert "Columns seen: who, from_address" in message
    for layout in ("holderlake", "ethereum-etl token_transfers", "cryo erc20_transfers", "cryo erc721_transfers"):
        assert layout in message


def test_the_error_of_an_incomplete_layout_has_the_missing_column(csv_file: Write) -> None:
    row = etl()
    del row["log_index"]
    message = refusal(csv_file(row))
    assert "the nearest is ethereum-etl token_transfers, which also needs log_index" in message


def test_a_wrong_format_is_refused(csv_file: Write) -> None:
    assert "cryo" in refusal(csv_file(etl()), format="cryo")
    message = refusal(csv_file(etl()), format="excel")
    assert all(name in message for name in FORMATS)


@pytest.mark.parametrize("time", ["", "0", "1970-01-01 00:00:00", "500000000000", "20221128", "soon"])
def test_a_row_without_a_usable_time_is_refused(csv_file: Write, time: str) -> None:
    assert "row 1, column block_timestamp" in refusal(csv_file(etl(block_timestamp=time)), chain="eth")


@pytest.mark.parametrize(
    ("number", "day"),
    [("45000", "2023-03-15 00:00:00, counted from 1900"), ("39000.5", "2010-10-11 12:00:00, counted from 1904")],
)
def test_a_day_number_of_a_spreadsheet_is_named(csv_file: Write, number: str, day: str) -> None:
    assert day in refusal(csv_file(etl(block_timestamp=number)), chain="eth")


@pytest.mark.parametrize("column", ["token_address", "from_address", "to_address"])
@pytest.mark.parametrize(("address", "words"), [("", "missing"), ("0x12", "not an address"), ("Alice", "not an")])
def test_a_missing_or_impossible_address_is_refused(csv_file: Write, column: str, address: str, words: str) -> None:
    message = refusal(csv_file(etl(), etl(), etl(**{column: address})), chain="eth")
    assert f"row 3, column {column}" in message
    assert words in message


def test_an_empty_file_is_refused(tmp_path: Path) -> None:
    (tmp_path / "empty.csv").touch()
    assert "empty" in refusal(tmp_path / "empty.csv")
    (tmp_path / "blank.csv").write_text("\n")
    assert "no header" in refusal(tmp_path / "blank.csv")
    (tmp_path / "empty.csv.gz").write_bytes(gzip.compress(b""))
    assert "no header" in refusal(tmp_path / "empty.csv.gz")


def test_a_missing_file_is_refused(tmp_path: Path) -> None:
    assert "cannot be opened" in refusal(tmp_path / "nowhere.csv")


@pytest.mark.parametrize("keep", [0.02, 0.5, 0.97])
def test_a_truncated_parquet_file_is_refused(parquet_file: Write, keep: float) -> None:
    path = parquet_file(*(holderlake(value=str(number)) for number in range(2_000)))
    whole = path.read_bytes()
    path.write_bytes(whole[: int(len(whole) * keep)])
    assert "it may be damaged: fetch the file again" in refusal(path)


def test_a_parquet_file_damaged_in_the_middle_is_refused(parquet_file: Write) -> None:
    path = parquet_file(*(holderlake(value=str(number**3)) for number in range(2_000)))
    content = bytearray(path.read_bytes())
    content[40:4_000] = bytes(3_960)
    path.write_bytes(content)
    assert path.name in refusal(path)


def test_a_csv_whose_last_row_is_cut_is_refused(csv_file: Write) -> None:
    path = csv_file(etl(), etl())
    path.write_text(path.read_text()[:-60])
    assert "Expected 8 columns" in refusal(path, chain="eth")


def test_a_file_of_another_kind_is_refused(tmp_path: Path) -> None:
    (tmp_path / "picture.csv").write_bytes(b"\x89PNG\r\n\x1a\n\xff\xfe\x00")
    assert "picture.csv" in refusal(tmp_path / "picture.csv")


def test_the_chain_must_be_known_and_not_contradicted(csv_file: Write, parquet_file: Write) -> None:
    assert "set it, for example --chain eth" in refusal(csv_file(etl()))
    assert "the row is of chain eth" in refusal(parquet_file(cryo()), chain="bsc")
    assert "chain id 42220" in refusal(parquet_file(cryo(chain_id=42220)))
    assert read_one(parquet_file(cryo(chain_id=42220)), chain="celo")["chain"] == "celo"
    assert read_one(parquet_file(cryo()), chain="eth")["chain"] == "eth"


def test_a_block_number_beyond_64_bits_is_refused(csv_file: Write) -> None:
    assert "64 bits" in refusal(csv_file(etl(block_number=str(2**63))), chain="eth")


# ---------------------------------------------------------------- whole files with flaws


@pytest.mark.parametrize("name", flawed_histories.NAMES)
def test_a_flawed_history_is_read_completely(tmp_path: Path, name: str) -> None:
    path = flawed_histories.write(name, tmp_path)
    assert read_transfers(path).to_pylist() == flawed_histories.history(name)


def test_an_export_with_hexadecimal_values_of_all_standards_is_read(csv_file: Write) -> None:
    given = [("ERC20", 1, 200_000_000), ("ERC20", 1, MAX), ("ERC721", MAX, 1), ("ERC1155", 7, 10**27)]
    rows = [
        {
            "chain_id": "1",
            "from_address": SENDER,
            "to_address": RECEIVER,
            "contract_address": TOKEN,
            "token_id": f"0x{token_id:064x}",
            "token_type": kind,
            "amount": f"0x{amount:064x}",
            "transaction_hash": HASH,
            "log_index": log_index,
            "block_number": 16065818,
            "block_hash": HASH,
            "block_timestamp": "2022-11-28 03:33:35",
        }
        for log_index, (kind, token_id, amount) in enumerate(given)
    ]
    read = read_transfers(csv_file(*rows)).to_pylist()
    assert [(row["token_standard"], row["token_id"], row["value"]) for row in read] == [
        ("erc20", None, "200000000"),  # such exports fill the ids of fungible tokens with 1
        ("erc20", None, str(MAX)),
        ("erc721", str(MAX), "1"),
        ("erc1155", "7", str(10**27)),
    ]
    assert {(row["chain"], row["block_time"]) for row in read} == {("eth", 1669606415)}
