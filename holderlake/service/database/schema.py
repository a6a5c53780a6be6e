"""Tables of the database of API keys, and the SQL that differs between SQLite and PostgreSQL.

The statements are in ``billing``. Amounts are hundredths of a credit; days and times are UTC.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from datetime import date
from typing import Any, Final

import sqlalchemy as sa
from sqlalchemy.dialects import postgresql, sqlite

Rows = Iterable[Mapping[str, Any]]


METADATA: Final = sa.MetaData()

ledger: Final = sa.Table(
    "ledger",
    METADATA,
    sa.Column("one", sa.Integer, sa.CheckConstraint("one = 1"), primary_key=True, autoincrement=False),
    sa.Column("version", sa.Integer, nullable=False),
    sa.Column("fingerprint", sa.Text, nullable=False),  # of the service's secret
)
accounts: Final = sa.Table(
    "accounts",
    METADATA,
    sa.Column("id", sa.Integer, primary_key=True),
    sa.Column("name", sa.Text, nullable=False),
    sa.Column("allowance", sa.BigInteger, sa.CheckConstraint("allowance >= 0"), nullable=False),  # a month
    sa.Column("custom_plan", sa.Boolean, nullable=False),
    sa.Column("renewal_day", sa.Integer, sa.CheckConstraint("renewal_day BETWEEN 1 AND 31"), nullable=False),
)
keys: Final = sa.Table(
    "keys",
    METADATA,
    sa.Column("id", sa.Integer, primary_key=True),
    sa.Column("account_id", sa.ForeignKey("accounts.id"), nullable=False, index=True),
    sa.Column("prefix", sa.Text, nullable=False, unique=True),
    sa.Column("secret_hash", sa.LargeBinary, nullable=False),
    sa.Column("created_at", sa.DateTime, nullable=False),
    sa.Column("ends_at", sa.DateTime),
)
usage: Final = sa.Table(  # charges summed by day, key and endpoint
    "usage",
    METADATA,
    sa.Column("account_id", sa.ForeignKey("accounts.id"), primary_key=True, autoincrement=False),
    sa.Column("day", sa.Date, primary_key=True),
    sa.Column("key_id", sa.ForeignKey("keys.id"), primary_key=True, autoincrement=False),
    sa.Column("endpoint", sa.Text, primary_key=True),
    sa.Column("requests", sa.BigInteger, nullable=False),
    sa.Column("credits", sa.BigInteger, nullable=False),
    sqlite_with_rowid=False,
)
reservations: Final = sa.Table(  # of running requests; short-lived, so without foreign keys
    "reservations",
    METADATA,
    sa.Column("id", sa.Text, primary_key=True),
    sa.Column("account_id", sa.Integer, nullable=False),
    sa.Column("day", sa.Date, nullable=False),
    sa.Column("key_id", sa.Integer, nullable=False),
    sa.Column("endpoint", sa.Text, nullable=False),
    sa.Column("credits", sa.BigInteger, sa.CheckConstraint("credits >= 0"), nullable=False),
    sa.Column("process", sa.Text, nullable=False),  # the lease of the process that answers it
    sa.Index("reservations_by_account", "account_id", "day"),
    sqlite_with_rowid=False,
)
calls: Final = sa.Table(  # calls of clients in windows of ``seconds``
    "calls",
    METADATA,
    sa.Column("caller", sa.Text, primary_key=True),
    sa.Column("seconds", sa.Integer, primary_key=True, autoincrement=False),
    sa.Column("ends", sa.Double, nullable=False),  # unix time
    sa.Column("calls", sa.BigInteger, nullable=False),
    sa.Index("calls_by_end", "ends"),
    sqlite_with_rowid=False,
)


@sa.event.listens_for(METADATA, "after_create")
def _tune_postgresql(_: sa.MetaData, connection: sa.Connection, **__: Any) -> None:
    if connection.dialect.name == "postgresql":
        # A crash of the server loses at most the counts of a minute.
        connection.exec_driver_sql("ALTER TABLE calls SET UNLOGGED")
        # Rows live for milliseconds: vacuum without delays.
        connection.exec_driver_sql("ALTER TABLE reservations SET (autovacuum_vacuum_cost_delay = 0)")


@dataclass(frozen=True)
class Dialect:
    """SQL constructs that differ between SQLite and PostgreSQL.

    ``parameter_rows(columns)`` returns a table with the rows that are passed as the statement's parameter ``rows`` (see
    ``as_rows``). So one statement text serves any number of rows. ``insert`` makes an insert that supports ``ON
    CONFLICT``. ``unix_now`` is the database's time in unix seconds.
    """

    parameter_rows: Callable[[Mapping[str, sa.types.TypeEngine[Any]]], sa.FromClause]
    insert: Callable[[sa.Table], Any]
    unix_now: sa.ColumnElement[float]


def as_rows(rows: Rows) -> dict[str, str]:
    """Return the parameters of a statement that uses ``Dialect.parameter_rows``: all rows as one JSON text."""
    return {"rows": json.dumps(list(rows), default=date.isoformat)}


_ROWS: Final = sa.bindparam("rows", type_=sa.Text)


def _given_sqlite(columns: Mapping[str, sa.types.TypeEngine[Any]]) -> sa.FromClause:
    elements = sa.func.json_each(_ROWS).table_valued("value")
    picked = [_json_value(elements.c.value, name, kind) for name, kind in columns.items()]
    return sa.select(*picked).subquery("given")


def _json_value(row: Any, name: str, kind: sa.types.TypeEngine[Any]) -> sa.Label[Any]:
    path: sa.ColumnClause[str] = sa.literal_column(f"'$.{name}'")
    return sa.func.json_extract(row, path, type_=kind).label(name)


def _given_postgresql(columns: Mapping[str, sa.types.TypeEngine[Any]]) -> sa.FromClause:
    rows = sa.func.json_to_recordset(sa.cast(_ROWS, postgresql.JSON))
    typed_columns: list[sa.ColumnClause[Any]] = [sa.column(name, kind) for name, kind in columns.items()]
    return rows.table_valued(*typed_columns, name="given").render_derived(with_types=True)


DIALECTS: Final[Mapping[str, Dialect]] = {
    "sqlite": Dialect(
        _given_sqlite,
        sqlite.insert,
        sa.literal_column("((julianday('now') - 2440587.5) * 86400.0)", sa.Double),
    ),
    "postgresql": Dialect(
        _given_postgresql,
        postgresql.insert,
        sa.cast(sa.extract("epoch", sa.func.now()), sa.Double),
    ),
}
