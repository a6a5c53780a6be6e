"""Other programs open a table's folder and find the names, types and values of the lake's tables.

Each also has the text ``timestamp`` of the folders; the typed instant is ``as_of``.
"""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterator
from datetime import datetime
from decimal import Decimal
from pathlib import Path
from typing import Any

import duckdb
import pyarrow as pa
import pyarrow.dataset as ds
import pyarrow.parquet as pq
import pytest

from holderlake.core.contract.tables import FAMILY_TABLES, TABLES, build
from holderlake.core.lake.lake import SUBJECT_COLUMNS, Lake
from tests.helpers.lakes import DAYS, FETCHED_AT, failures, write
from tests.helpers.spark import require_spark

CHAINS = ("base", "eth")
VALUES: dict[pa.DataType, Any] = {
    pa.string(): "é",
    pa.float64(): 0.1 + 0.2,
    pa.int64(): 2**53 + 1,
    pa.bool_(): True,
    pa.timestamp("us"): datetime(2026, 11, 1, 12, 0, 0, 7),
    pa.decimal128(38, 18): Decimal("12345678901234567890.123456789012345678"),
}
OF_FAMILY = {"chains": "chain", "subgraphs": "address_set", "addresses": "address"}


@pytest.fixture(scope="module")
def lake(tmp_path_factory: pytest.TempPathFactory) -> Lake:
    """Every table with a full row and a row of nulls, on two chains and two days, and a replaced row."""
    lake = Lake(tmp_path_factory.mktemp("read by others"))
    for chain in CHAINS:
        for hour, day in enumerate(DAYS[:2]):
            for family, names in FAMILY_TABLES.items():
                by = OF_FAMILY.get(family, "token")
                tables = {name: rows(name, chain, day, SUBJECT_COLUMNS[by]) for name in names}
                write(lake, family, chain, day, tables, {chain if by == "chain" else "0xa"}, by=by)
            refused = failures(chain, day, ("holders", "0xb"))
            fewer = {"holders": rows("holders", chain, day, "token_address").slice(0, 1)}
            write(lake, "holders", chain, day, fewer, {"0xa"}, refused, at=FETCHED_AT.replace(hour=13 + hour))
    return lake


def rows(table: str, chain: str, day: datetime, subject: str) -> pa.Table:
    """Return two rows: one with a value in each column, one with nulls where they are allowed."""
    schema = TABLES[table].schema
    fixed = {"chain": chain, "as_of": day, "fetched_at": FETCHED_AT, subject: chain if subject == "chain" else "0xa"}
    full = {field.name: VALUES[field.type] for field in schema} | fixed
    least = {field.name: VALUES[field.type] for field in schema if not field.nullable} | fixed
    return pa.concat_tables(
        build(TABLES[table], [{name: value for name, value in row.items() if name != "fetched_at"}], FETCHED_AT)
        for row in (full, least)
    )


@pytest.fixture(scope="module", autouse=True)
def spark_ends_with_its_tests() -> Iterator[None]:
    """An open session of PySpark is reused by later tests, even if they ask for another cluster."""
    yield
    if "pyspark" in sys.modules and (session := sys.modules["pyspark.sql"].SparkSession.getActiveSession()):
        session.stop()


def of_spark(folder: Path) -> pa.Table:
    from pyspark.sql import SparkSession

    session = SparkSession.builder.master("local[1]").config("spark.ui.enabled", "false").getOrCreate()
    return session.read.parquet(str(folder)).toArrow()


def of_pandas(folder: Path) -> pa.Table:
    import pandas as pd

    return pa.Table.from_pandas(pd.read_parquet(folder, dtype_backend="pyarrow"))


def of_polars(folder: Path) -> pa.Table:
    import polars as pl

    return pl.read_parquet(folder, try_parse_hive_dates=False).to_arrow()


READERS: dict[str, Callable[[Path], pa.Table]] = {
    "pandas": of_pandas,
    "pyarrow.parquet": pq.read_table,
    "pyarrow.dataset": lambda folder: ds.dataset(folder, partitioning="hive").to_table(),
    "polars": of_polars,
    "duckdb": lambda folder: duckdb.sql(f"FROM '{folder}/**/*.parquet'").to_arrow_table(),
}


def plain(read: pa.Table) -> pa.Table:
    """Return rows in one order, with dictionaries and long texts as texts, and all columns nullable."""
    names = sorted(read.column_names)
    types = {name: read.schema.field(name).type for name in names}
    is_text = {name: pa.types.is_dictionary(one) or pa.types.is_large_string(one) for name, one in types.items()}
    fields = [pa.field(name, pa.string() if is_text[name] else types[name]) for name in names]
    return read.select(names).cast(pa.schema(fields)).combine_chunks().sort_by([(name, "ascending") for name in names])


def expected(lake: Lake, table: str) -> pa.Table:
    """Return the lake's rows, with the text ``timestamp`` of their folder."""
    held = lake.read(table)
    texts = [f"{day:%Y%m%dT%H%M%SZ}" for day in held["as_of"].to_pylist()]
    return plain(held.append_column("timestamp", pa.array(texts, pa.string())))


@pytest.mark.later(integration=12, long=19)
@pytest.mark.parametrize("table", TABLES)
@pytest.mark.parametrize("reader", READERS)
def test_a_program_reads_the_names_types_and_values_of_the_lake(lake: Lake, reader: str, table: str) -> None:
    found = plain(READERS[reader](lake.root / table))
    assert found.num_rows > 1
    assert found.schema == expected(lake, table).schema
    assert found.to_pylist() == expected(lake, table).to_pylist()


@pytest.mark.parametrize("table", TABLES)
def test_pandas_opens_a_folder_without_options(lake: Lake, table: str) -> None:
    import pandas as pd

    assert {*pd.read_parquet(lake.root / table).columns} == {*TABLES[table].schema.names, "timestamp"}


@pytest.mark.long
def test_spark_reads_the_names_types_and_values_of_the_lake(lake: Lake) -> None:
    require_spark()
    for table in TABLES:
        found = plain(of_spark(lake.root / table))
        assert found.schema == expected(lake, table).schema
        assert found.to_pylist() == expected(lake, table).to_pylist()
