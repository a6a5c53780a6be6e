"""The database of keys and charges: its tables, and the little in which the SQL of SQLite and PostgreSQL differs.

What is asked of it stands with those who ask: ``keys``, ``charges`` and ``calls``. Amounts are hundredths of a credit,
days and times UTC.
"""

from __future__ import annotations

import json
import threading
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from datetime import date
from pathlib import Path
from typing import Any, Final, TypeVar

import sqlalchemy as sa
from sqlalchemy.dialects import postgresql, sqlite

from holderlake.service.database.connections import (
    BUSY,
    address_of,
    failure_of,
    postgresql_engine,
    sqlite_engine,
    use_write_ahead_log,
)
from holderlake.service.database.errors import KeysBusy

T = TypeVar("T")
Rows = Iterable[Mapping[str, Any]]

# ---------------------------------------------------------------------- tables

METADATA: Final = sa.MetaData()

ledger: Final = sa.Table(
    "ledger",
    METADATA,
    sa.Column("one", sa.Integer, sa.CheckConstraint("one = 1"), primary_key=True, autoincrement=False),
    sa.Column("version", sa.Integer, nullable=False),
    sa.Column("fingerprint", sa.Text, nullable=False),  # tells whether the service's secret is the right one
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
usage: Final = sa.Table(  # what was charged, summed: a month is a sum over its days
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
reservations: Final = sa.Table(  # requests that are being answered; no references, for a row lives for a moment
    "reservations",
    METADATA,
    sa.Column("id", sa.Text, primary_key=True),
    sa.Column("account_id", sa.Integer, nullable=False),
    sa.Column("day", sa.Date, nullable=False),
    sa.Column("key_id", sa.Integer, nullable=False),
    sa.Column("endpoint", sa.Text, nullable=False),
    sa.Column("credits", sa.BigInteger, sa.CheckConstraint("credits >= 0"), nullable=False),
    sa.Column("process", sa.Text, nullable=False),  # the presence of the process that answers it
    sa.Index("reservations_by_account", "account_id", "day"),
    sqlite_with_rowid=False,
)
calls: Final = sa.Table(  # of callers in windows of so many seconds
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
def _suit_postgresql(_: sa.MetaData, connection: sa.Connection, **__: Any) -> None:
    if connection.dialect.name == "postgresql":
        # What a crash of the server takes with it is a minute's count.
        connection.exec_driver_sql("ALTER TABLE calls SET UNLOGGED")
        # Rows that come and go are cleared away at full speed.
        connection.exec_driver_sql("ALTER TABLE reservations SET (autovacuum_vacuum_cost_delay = 0)")


# -------------------------------------------------------------------- dialects


@dataclass(frozen=True)
class Dialect:
    """How a kind of database says what SQL has no common words for.

    ``given`` makes a table of the rows that a statement is handed as ``rows`` (see ``as_rows``), so that a statement
    for many has one text. ``insert`` knows ``ON CONFLICT``; ``unix_now`` is the time of the database, which all
    processes share.
    """

    given: Callable[[Mapping[str, sa.types.TypeEngine[Any]]], sa.FromClause]
    insert: Callable[[sa.Table], Any]
    unix_now: sa.ColumnElement[float]


def as_rows(rows: Rows) -> dict[str, str]:
    """Rows as a statement takes them: one parameter, whatever their number."""
    return {"rows": json.dumps(list(rows), default=date.isoformat)}


_ROWS: Final = sa.bindparam("rows", type_=sa.Text)


def _given_sqlite(columns: Mapping[str, sa.types.TypeEngine[Any]]) -> sa.FromClause:
    each = sa.func.json_each(_ROWS).table_valued("value")
    picked = [_json_value(each.c.value, name, kind) for name, kind in columns.items()]
    return sa.select(*picked).subquery("given")


def _json_value(row: Any, name: str, kind: sa.types.TypeEngine[Any]) -> sa.Label[Any]:
    path: sa.ColumnClause[str] = sa.literal_column(f"'$.{name}'")
    return sa.func.json_extract(row, path, type_=kind).label(name)


def _given_postgresql(columns: Mapping[str, sa.types.TypeEngine[Any]]) -> sa.FromClause:
    rows = sa.func.json_to_recordset(sa.cast(_ROWS, postgresql.JSON))
    named: list[sa.ColumnClause[Any]] = [sa.column(name, kind) for name, kind in columns.items()]
    return rows.table_valued(*named, name="given").render_derived(with_types=True)


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


# -------------------------------------------------------------------- database


class Database:
    """A SQLite file or a PostgreSQL database; many threads, processes and, with PostgreSQL, hosts may use it at once.

    Named by a path or a URL; ``path`` is the SQLite file's. PostgreSQL commits as durably as its own settings say
    (``synchronous_commit``). Raises ``KeysBusy`` from all that asks it, and ``ValueError`` for an address that is none.
    """

    def __init__(self, where: Path | str, busy_seconds: float) -> None:
        url = address_of(where)
        self.kind: Final = url.get_backend_name()
        self.path: Final = Path(url.database or "") if self.kind == "sqlite" else None
        self._busy_seconds = busy_seconds
        self._closed = False
        # SQLite lets one write at a time, and who waits in turn waits shorter than who asks again and again
        self._turn = None if self.path is None else threading.Lock()
        if self.path is None:
            self._engine = postgresql_engine(url, busy_seconds)
            self._single = postgresql_engine(url, busy_seconds, is_pooled=False)
            self._reading = self._engine.execution_options(isolation_level="AUTOCOMMIT")
        else:
            path = self.path
            path.parent.mkdir(parents=True, exist_ok=True)
            self._named(lambda: use_write_ahead_log(path, busy_seconds))
            self._engine = self._single = sqlite_engine(url, busy_seconds)
            self._reading = self._engine.execution_options(only_reads=True)

    def close(self) -> None:
        """Lets go of the database."""
        self._closed = True
        self._engine.dispose()

    def session(self) -> sa.Connection:
        """A connection beside those that work is done with, for whoever needs one for long; to be closed by them.

        Each of its statements is a transaction. Raises the driver's errors.
        """
        return self._single.connect().execution_options(isolation_level="AUTOCOMMIT")

    def read(self, statement: sa.Executable, **values: Any) -> list[Any]:
        """The rows of one statement that only reads, as of one moment."""
        return self.read_with(lambda connection: list(connection.execute(statement, values)))

    def read_with(self, work: Callable[[sa.Connection], T]) -> T:
        """What ``work`` returns, which only reads; each of its statements sees the moment that it runs at."""

        def do() -> T:
            with self._reading.connect() as connection:
                return work(connection)

        return self._named(do)

    def write(self, work: Callable[[sa.Connection], T]) -> T:
        """What ``work`` returns, done in one transaction; nothing of it is kept where it raises."""
        ending = False

        def do() -> T:
            nonlocal ending
            with self._in_turn(), self._engine.connect() as connection, connection.begin() as transaction:
                result = work(connection)
                ending = True
                transaction.commit()
            return result

        try:
            return self._named(do)
        except KeysBusy as busy:
            busy.in_doubt = ending
            raise

    @contextmanager
    def _in_turn(self) -> Iterator[None]:
        if self._turn is None:
            yield
            return
        if not self._turn.acquire(timeout=self._busy_seconds):
            raise KeysBusy(BUSY)
        try:
            yield
        finally:
            self._turn.release()

    def _named(self, ask: Callable[[], T]) -> T:
        if self._closed:
            raise RuntimeError("the keys' database is closed")
        try:
            return ask()
        except Exception as error:
            failure = failure_of(error)
            if failure is None:
                raise
        raise failure  # not from within the handler: the driver's words may repeat a part of the URL
