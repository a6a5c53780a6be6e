"""Files made on the spot in the layouts that people have, and the sample world, made once."""

from __future__ import annotations

import csv
from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from holderlake.engine.store.store import Store
from holderlake.sources.sample_world import World
from tests.helpers.sample import the_world

TOKEN = "0x" + "aa" * 20
SENDER = "0x" + "Bb" * 20
RECEIVER = "0x" + "cc" * 20
HASH = "0x" + "dd" * 32

ETL_ROW: dict[str, Any] = {
    "token_address": TOKEN,
    "from_address": SENDER,
    "to_address": RECEIVER,
    "value": "1000",
    "transaction_hash": HASH,
    "log_index": "7",
    "block_number": "16065818",
    "block_timestamp": "2022-11-28 03:33:35 UTC",
}
"""A row as ethereum-etl writes them."""

HOLDERLAKE_ROW: dict[str, Any] = {
    "chain": "eth",
    "token_address": TOKEN,
    "token_standard": "erc20",
    "from_address": SENDER,
    "to_address": RECEIVER,
    "value": "1000",
    "token_id": None,
    "block_number": 16065818,
    "block_time": 1669606415,
    "tx_hash": HASH,
    "log_index": 7,
    "time_kind": "exact",
    "log_index_kind": "exact",
    "source": "by hand",
}
"""A row in our own layout."""

CRYO_ROW: dict[str, Any] = {
    "block_number": 16065818,
    "transaction_index": 3,
    "log_index": 7,
    "transaction_hash": bytes.fromhex(HASH[2:]),
    "erc20": bytes.fromhex(TOKEN[2:]),
    "from_address": bytes.fromhex(SENDER[2:]),
    "to_address": bytes.fromhex(RECEIVER[2:]),
    "value_binary": (1000).to_bytes(32, "big"),
    "value_string": "1000",
    "value_f64": 1000.0,
    "chain_id": 1,
    "timestamp": 1669606415,
}
"""A row as cryo writes them, with the block's time joined on."""

Rows = Sequence[Mapping[str, Any]]


@pytest.fixture
def csv_file(tmp_path: Path) -> Callable[..., Path]:
    """Writes rows as CSV, under the columns of the first."""

    def write(*rows: Mapping[str, Any], name: str = "transfers.csv") -> Path:
        path = tmp_path / name
        with path.open("w", newline="") as file:
            writer = csv.DictWriter(file, list(rows[0]))
            writer.writeheader()
            writer.writerows(rows)
        return path

    return write


@pytest.fixture
def parquet_file(tmp_path: Path) -> Callable[..., Path]:
    """Writes rows as Parquet, with the types that Arrow infers."""

    def write(*rows: Mapping[str, Any], name: str = "transfers.parquet") -> Path:
        path = tmp_path / name
        pq.write_table(pa.Table.from_pylist([dict(row) for row in rows]), path)
        return path

    return write


@pytest.fixture
def store(tmp_path: Path) -> Iterator[Store]:
    with Store(tmp_path / "store") as opened:
        yield opened


@pytest.fixture(scope="session")
def world() -> World:
    return the_world()
