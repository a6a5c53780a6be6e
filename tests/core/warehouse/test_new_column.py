"""A new nullable column is null in partitions of older versions, in every place that reads them, without a rebuild."""

from __future__ import annotations

from datetime import timedelta
from decimal import Decimal
from pathlib import Path

import duckdb
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

import holderlake
from holderlake.core.contract.tables import TABLES
from holderlake.core.lake.lake import Lake
from holderlake.core.warehouse.warehouse import Warehouse
from holderlake.presentation import lake_views
from holderlake.presentation.export.export import export
from tests.helpers.lakes import DAYS, FETCHED_AT, holders, write, write_holders

pytestmark = pytest.mark.integration

SELECT = "SELECT timestamp, amount, liquidity FROM {} ORDER BY ALL"
VIEWS = ("holders", "latest_holders", "holders_as_of('2026-12-01')", "holders_known_at('2026-12-01', '2027-01-01')")


@pytest.fixture
def old(lake: Lake, warehouse: Warehouse) -> tuple[Lake, Warehouse]:
    """A lake and a warehouse that the older version wrote."""
    for day, token in zip(DAYS[:2], ("0xa", "0xb"), strict=True):
        write_holders(lake, "eth", day, {token: {"0x1": 1}})
    warehouse.load(lake)
    return lake, warehouse


def with_column(rows: pa.Table, value: float) -> pa.Table:
    place = rows.schema.get_field_index("liquidity")
    return rows.set_column(place, rows.schema.field(place), pa.array([value] * rows.num_rows))


def write_new(lake: Lake) -> None:
    rows = with_column(holders("eth", DAYS[2], {"0xc": {"0x1": 3}}), 0.5)
    write(lake, "holders", "eth", DAYS[2], {"holders": rows}, {"0xc"})


EXPECTED = [(DAYS[0], Decimal(1), None), (DAYS[1], Decimal(1), None), (DAYS[2], Decimal(3), 0.5)]


@pytest.mark.long
def test_the_next_load_adds_the_column_to_loaded_rows_and_to_views(
    old: tuple[Lake, Warehouse], new_column: str
) -> None:
    lake, warehouse = old
    assert warehouse.load(lake).partitions == 0
    assert warehouse.query(f"SELECT {new_column} FROM holders")[new_column].to_pylist() == [None, None]
    write_new(lake)
    assert warehouse.load(lake).partitions == 1
    for view in VIEWS:
        rows = warehouse.query(SELECT.format(view)).to_pylist()
        assert [tuple(row.values()) for row in rows] == EXPECTED, view


@pytest.mark.long
def test_old_files_load_into_a_new_warehouse_next_to_new_ones(
    old: tuple[Lake, Warehouse], new_column: str, tmp_path: Path
) -> None:
    write_new(old[0])
    fresh = Warehouse(tmp_path / "fresh.duckdb")
    fresh.load(old[0])
    found = fresh.query(f"SELECT {new_column} FROM latest_holders ORDER BY timestamp")
    assert found[new_column].to_pylist() == [None, None, 0.5]


@pytest.mark.long
def test_open_lake_and_the_script_of_views_have_the_column(old: tuple[Lake, Warehouse], new_column: str) -> None:
    lake, _ = old
    frame = holderlake.open_lake(lake.root).pandas(f"SELECT {new_column} FROM latest_holders")
    assert frame[new_column].isna().all()
    write_new(lake)
    with duckdb.connect() as connection:
        connection.execute(lake_views.script(lake))
        for view in VIEWS:
            assert connection.sql(SELECT.format(view)).fetchall() == EXPECTED, view


@pytest.mark.long
def test_an_export_has_the_column(old: tuple[Lake, Warehouse], new_column: str, tmp_path: Path) -> None:
    lake, warehouse = old
    write_new(lake)
    warehouse.load(lake)
    export(warehouse, "holders", tmp_path / "holders.parquet", "parquet")
    assert pq.read_table(tmp_path / "holders.parquet")[new_column].to_pylist() == [None, None, 0.5]
    export(warehouse, "holders", tmp_path / "holders.csv", "csv")
    import pandas as pd

    assert pd.read_csv(tmp_path / "holders.csv")[new_column].isna().sum() == 2


def test_an_old_partition_gets_the_column_only_for_subjects_that_are_written_again(
    old: tuple[Lake, Warehouse], new_column: str
) -> None:
    lake, _ = old
    more = holders("eth", DAYS[0], {"0xz": {"0x1": 7}})
    write(lake, "holders", "eth", DAYS[0], {"holders": with_column(more, 0.7)}, {"0xz"})
    rows = lake.read("holders", "eth", DAYS[0])
    assert dict(zip(rows["token_address"].to_pylist(), rows[new_column].to_pylist(), strict=True)) == {
        "0xa": None,
        "0xz": 0.7,
    }


def test_a_value_for_the_column_alone_is_no_revision(old: tuple[Lake, Warehouse], new_column: str) -> None:
    lake, _ = old
    again = with_column(holders("eth", DAYS[0], {"0xa": {"0x1": 1}}), 0.9)
    later = pa.repeat(pa.scalar(FETCHED_AT + timedelta(days=1), pa.timestamp("us")), 1)
    again = again.set_column(again.num_columns - 1, TABLES["holders"].schema.field("fetched_at"), later)
    manifest = write(lake, "holders", "eth", DAYS[0], {"holders": again}, {"0xa"}, final=True)
    assert manifest.revisions == 0
    assert lake.read("holders", "eth", DAYS[0])[new_column].to_pylist() == [0.9]
