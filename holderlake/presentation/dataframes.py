"""The warehouse and the lake as data frames, for notebooks and scripts:

    import holderlake

    holderlake.open_warehouse().pandas("FROM latest_holders WHERE chain = 'eth'")
    holderlake.open_warehouse().polars("FROM holder_changes('2025-01-01', '2026-01-01')")
    holderlake.open_warehouse().arrow("FROM address_history(?)", ["0x6ba6f2207e343923ba692e5cae646fb0f566db8d"])
    holderlake.open_lake().pandas("FROM concentration_history")  # from the Parquet files, without the warehouse

Amounts are exact decimals, and whole numbers stay whole even with nulls. Each query reads the warehouse as of
the last finished load, and never waits for a running load. docs/sql.md leads to all views and macros.
"""

from __future__ import annotations

import warnings
from collections.abc import Callable, Sequence
from pathlib import Path
from threading import Lock
from typing import TYPE_CHECKING, Any

import duckdb
import pyarrow as pa

from holderlake.core.lake.damage import damages
from holderlake.core.lake.lake import Lake
from holderlake.core.settings import load_settings
from holderlake.core.warehouse.connections import guard, prepared, run_query, with_values
from holderlake.core.warehouse.warehouse import Warehouse
from holderlake.core.workspace import local_lake
from holderlake.presentation import lake_views
from holderlake.presentation.query_notes import query_notes

if TYPE_CHECKING:
    import pandas as pd
    import polars as pl

__all__ = ["DataFrames", "open_lake", "open_warehouse"]


class QueryNote(UserWarning):
    """A note about a query that may mislead, as the command prints it."""


class DataFrames:
    """Results of SQL queries as data frames.

    Each method takes a query and the values of its ``?`` placeholders, and raises ``WarehouseError`` with
    DuckDB's message. Notes about a query that may mislead are warnings of the class ``QueryNote``.
    """

    def __init__(self, query: Callable[[str, Sequence[Any] | None], pa.Table]) -> None:
        self._run = query

    def _query(self, sql: str, parameters: Sequence[Any] | None) -> pa.Table:
        table = self._run(sql, parameters)
        for note in query_notes(with_values(sql, parameters), lambda query: self._run(query, None)["note"].to_pylist()):
            warnings.warn(note, QueryNote, stacklevel=3)
        return table

    def arrow(self, sql: str, parameters: Sequence[Any] | None = None) -> pa.Table:
        """Return a query's rows as ``pyarrow.Table``: amounts decimal128(38, 18), times timestamp[us] (UTC, no
        zone)."""
        return self._query(sql, parameters)

    def pandas(self, sql: str, parameters: Sequence[Any] | None = None) -> pd.DataFrame:
        """Return a query's rows for pandas: whole numbers Int64, booleans boolean, amounts Decimal, times
        datetime64[us]."""
        import pandas as pd  # noqa: PLC0415 - half a second that only this method needs

        nullable = {pa.int64(): pd.Int64Dtype(), pa.int32(): pd.Int32Dtype(), pa.bool_(): pd.BooleanDtype()}
        frame: pd.DataFrame = self._query(sql, parameters).to_pandas(types_mapper=nullable.get)
        return frame

    def polars(self, sql: str, parameters: Sequence[Any] | None = None) -> pl.DataFrame:
        """Return a query's rows as a Polars data frame: amounts Decimal(38, 18), times Datetime("us"). Needs Polars."""
        try:
            import polars as pl  # noqa: PLC0415 - not a dependency
        except ImportError as error:
            raise ImportError("Polars is not installed: run 'pip install polars', or use .pandas or .arrow") from error
        return pl.DataFrame(self._query(sql, parameters))


def open_warehouse(path: Path | str | None = None) -> DataFrames:
    """Open the warehouse in the file ``path`` or in the home folder ``path``; by default the one of the settings."""
    file = Path(path) if path else load_settings().warehouse
    return DataFrames(Warehouse(file / "warehouse.duckdb" if file.is_dir() else file).query)


def open_lake(root: Path | str | None = None) -> DataFrames:
    """Open the lake's Parquet files at ``root``, with the warehouse's views and macros. Default: the settings' lake.

    Queries see the partitions that are committed at this call. Partitions with damaged files are left out, with a
    warning; to find them, this call reads every byte of the lake once.
    """
    lake = Lake(Path(root)) if root else local_lake(load_settings())
    connection = prepared(duckdb.connect())
    damaged = list(damages(lake, every_byte=True))
    for damage in damaged:
        warnings.warn(f"{damage}: its partition is left out", QueryNote, stacklevel=2)
    connection.execute(lake_views.script(lake, damaged))
    guard(connection, [lake.root.absolute()])
    lock = Lock()

    def query(sql: str, parameters: Sequence[Any] | None) -> pa.Table:
        with lock:  # not a cursor, because it would not have the script's variables
            return run_query(connection, sql, parameters)

    return DataFrames(query)
