"""A token's history over a period, as the warehouse tells it: one table for each question of ``report_sql``.

Who draws them stands in ``dagster.history_plots``, who writes them down in ``holderlake.export.token_report``.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from datetime import datetime
from functools import cache
from importlib.resources import files
from typing import Any, Final

import duckdb
import pyarrow as pa

from holderlake.warehouse.warehouse import Warehouse, WarehouseError

_MAP: Final = "FROM {table} WHERE chain = $chain AND token_address = $token AND timestamp = $at"
MAP_TABLES: Final = ("maps", "map_nodes", "grouped_transfers", "clusters", "cluster_members")


@dataclass(frozen=True)
class Period:
    """A token and a span of time, ends included."""

    chain: str
    token_address: str
    since: datetime
    until: datetime

    @property
    def bound(self) -> dict[str, Any]:
        """The parameters of every question."""
        return {"chain": self.chain, "token": self.token_address, "since": self.since, "until": self.until}


class TokenHistory:
    """Answers about one token and period, all from the same state of the warehouse."""

    def __init__(self, connection: duckdb.DuckDBPyConnection, period: Period) -> None:
        self._connection = connection
        self.period = period

    def ask(self, question: str) -> pa.Table:
        """The answer to a question, named like its file in ``report_sql``."""
        return self._table(_sql(question), self.period.bound)

    def map_at(self, at: datetime) -> dict[str, pa.Table]:
        """The five tables of the token's map at an instant."""
        bound = {"chain": self.period.chain, "token": self.period.token_address, "at": at}
        return {table: self._table(_MAP.format(table=table), bound) for table in MAP_TABLES}

    def _table(self, sql: str, bound: dict[str, Any]) -> pa.Table:
        used = {name: value for name, value in bound.items() if f"${name}" in sql}
        try:
            return self._connection.sql(sql, params=used).to_arrow_table()
        except duckdb.Error as error:
            raise WarehouseError(str(error)) from error


@contextmanager
def token_history(warehouse: Warehouse, period: Period) -> Iterator[TokenHistory]:
    """The history of a token, while the warehouse is open. Raises ``WarehouseError`` where there is none."""
    with warehouse.connect() as connection:
        yield TokenHistory(connection, period)


@cache
def _sql(question: str) -> str:
    return files("holderlake.warehouse").joinpath("report_sql", f"{question}.sql").read_text()
