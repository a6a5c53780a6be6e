"""A token's history in a period: rows of the queries in the folder ``report_sql``, for its report and plots."""

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

from holderlake.core.contract.tables import MAP_TABLES
from holderlake.core.warehouse.connections import explained
from holderlake.core.warehouse.warehouse import Warehouse

_FOLDER: Final = files("holderlake.presentation.export").joinpath("report_sql")
_MAP: Final = "FROM {table} WHERE chain = $chain AND token_address = $token AND timestamp = $at"


@dataclass(frozen=True)
class Period:
    """A token, and a period from ``since`` to ``until``, both included (naive UTC)."""

    chain: str
    token_address: str
    since: datetime
    until: datetime


class TokenHistory:
    """Queries about one token and period. They share one connection, so all see the same version of the warehouse.

    ``since`` and ``until`` are the values of ``$since`` and ``$until`` in the queries. They are those of the period,
    unless a caller sets them to the first and the last instant with data.
    """

    def __init__(self, connection: duckdb.DuckDBPyConnection, period: Period) -> None:
        self._connection = connection
        self.period = period
        self.since, self.until = period.since, period.until

    def ask(self, name: str) -> pa.Table:
        """Return the rows of the query in the file ``report_sql/<name>.sql``.

        A query compares the instants ``$since`` and ``$until``, or it is about the complete period, from
        ``$period_start`` to ``$period_end``.
        """
        bound = {
            "chain": self.period.chain,
            "token": self.period.token_address,
            "since": self.since,
            "until": self.until,
            "period_start": self.period.since,
            "period_end": self.period.until,
        }
        return self._table(_sql(name), bound)

    def map_at(self, at: datetime) -> dict[str, pa.Table]:
        """Return the token's rows at the instant ``at`` in all ``MAP_TABLES``, by table name."""
        bound = {"chain": self.period.chain, "token": self.period.token_address, "at": at}
        return {table: self._table(_MAP.format(table=table), bound) for table in MAP_TABLES}

    def _table(self, sql: str, bound: dict[str, Any]) -> pa.Table:
        used = {name: value for name, value in bound.items() if f"${name}" in sql}
        try:
            return self._connection.sql(sql, params=used).to_arrow_table()
        except duckdb.Error as error:
            raise explained(error) from error


@contextmanager
def token_history(warehouse: Warehouse, period: Period) -> Iterator[TokenHistory]:
    """Open the warehouse for the history of a token. Raises ``WarehouseError`` if there is no warehouse."""
    with warehouse.connect() as connection:
        yield TokenHistory(connection, period)


def questions() -> list[str]:
    """Return the names of all queries in ``report_sql``."""
    return sorted(file.name.removesuffix(".sql") for file in _FOLDER.iterdir() if file.name.endswith(".sql"))


@cache
def _sql(name: str) -> str:
    return _FOLDER.joinpath(f"{name}.sql").read_text("utf-8")
