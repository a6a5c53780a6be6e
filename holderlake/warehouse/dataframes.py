"""The warehouse as frames, in one line of Python, for analysts' notebooks and scripts:

    from holderlake.warehouse.dataframes import lake, warehouse

    warehouse().pandas("FROM latest_holders WHERE chain = 'eth'")
    warehouse().polars("FROM holder_changes('2025-01-01', '2026-01-01')")
    warehouse().arrow("FROM address_history(?)", ["0x6ba6f2207e343923ba692e5cae646fb0f566db8d"])
    lake().pandas("FROM concentration_history")  # the Parquet files alone, no warehouse needed

Amounts stay exact decimals and whole numbers stay whole in each of them, nulls or not. Each call reads what is
published at that moment, and never waits for a load. All views and macros are in docs/sql.md.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from pathlib import Path
from threading import Lock
from typing import TYPE_CHECKING, Any, Final

import duckdb
import pyarrow as pa

from holderlake.lake.damage import damages
from holderlake.lake.lake import Lake
from holderlake.settings import load_settings
from holderlake.warehouse import lake_views
from holderlake.warehouse.warehouse import Warehouse, answer, quiet

if TYPE_CHECKING:
    import pandas as pd
    import polars as pl

__all__ = ["Frames", "lake", "warehouse"]


class Frames:
    """Answers to SQL as frames. Each method takes a query and values for its ``?``, and raises ``WarehouseError`` with
    DuckDB's words where the query is faulty.
    """

    def __init__(self, ask: Callable[[str, Sequence[Any] | None], pa.Table]) -> None:
        self._ask = ask

    def arrow(self, sql: str, parameters: Sequence[Any] | None = None) -> pa.Table:
        """A ``pyarrow.Table``: amounts decimal128(38, 18), times timestamp[us] in UTC without zone."""
        return self._ask(sql, parameters)

    def pandas(self, sql: str, parameters: Sequence[Any] | None = None) -> pd.DataFrame:
        """A pandas frame: whole numbers Int64, booleans boolean, amounts Decimal objects, times datetime64[us]."""
        import pandas as pd  # noqa: PLC0415 - half a second that only who asks for it waits

        nullable = {pa.int64(): pd.Int64Dtype(), pa.int32(): pd.Int32Dtype(), pa.bool_(): pd.BooleanDtype()}

        frame: pd.DataFrame = self._ask(sql, parameters).to_pandas(types_mapper=nullable.get)
        return frame

    def polars(self, sql: str, parameters: Sequence[Any] | None = None) -> pl.DataFrame:
        """A Polars frame: amounts Decimal(38, 18), times Datetime("us"). Needs Polars: ``pip install polars``."""
        try:
            import polars as pl  # noqa: PLC0415 - the user's own
        except ImportError as error:
            raise ImportError(_NO_POLARS) from error
        return pl.DataFrame(self._ask(sql, parameters))


_NO_POLARS: Final = "Polars is not installed here; 'pip install polars' brings it, or ask for .pandas or .arrow"


def warehouse(path: Path | str | None = None) -> Frames:
    """The warehouse at ``path``; by default that of ``holderlake.toml`` and the environment."""
    chosen = Warehouse(Path(path) if path else load_settings().warehouse)
    return Frames(chosen.query)


def lake(root: Path | str | None = None) -> Frames:
    """The lake's Parquet files at ``root``, with the same tables, views and macros; by default that of the settings.

    It counts the partitions that are committed at this call, and leaves out those with damaged files. To find these,
    the call reads every byte of the lake once.
    """
    chosen = Lake(Path(root) if root else load_settings().lake)
    connection = quiet(duckdb.connect())
    connection.execute(lake_views.script(chosen, damages(chosen, every_byte=True)))
    turn = Lock()

    def ask(sql: str, parameters: Sequence[Any] | None) -> pa.Table:
        with turn:  # not a cursor: it would not have the variables of the script
            return answer(connection, sql, parameters)

    return Frames(ask)
