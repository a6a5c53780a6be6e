"""State of the pipeline: tables in a SQLite file of the home, or in PostgreSQL for several hosts, by SQLAlchemy.

Threads, processes and hosts write to it, one short transaction at a time.
"""

from __future__ import annotations

import sqlite3
import threading
import time
import weakref
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from functools import cache, partial
from importlib import import_module
from pathlib import Path
from typing import Any, Final, Literal, TypeAlias, TypeVar

import sqlalchemy as sa
from sqlalchemy import Connection, MetaData, Table
from sqlalchemy.exc import DBAPIError
from sqlalchemy.exc import TimeoutError as PoolTimeout

from holderlake.core.storage import postgresql, sqlite
from holderlake.core.storage.atomic_files import is_full
from holderlake.core.storage.formats import format_fault
from holderlake.core.storage.postgresql import ConnectionLost, Postgres
from holderlake.core.storage.sqlite import BUSY_SECONDS, DatabaseError

T = TypeVar("T")
Where: TypeAlias = Path | Postgres
"""The path of a SQLite file, or a place in PostgreSQL."""
StateConnection: TypeAlias = Connection
Row: TypeAlias = Mapping[str, Any]
"""Values of a row by column."""

WHOLE: Final = sa.BigInteger().with_variant(sa.Integer(), "sqlite")
"""Type of integers of 64 bits."""


def single(name: str, tables: MetaData, *columns: sa.Column[Any]) -> Table:
    """Return a table that has at most one row."""
    one = sa.Column("one", WHOLE, sa.CheckConstraint("one = 1"), primary_key=True, autoincrement=False, default=1)
    return Table(name, tables, one, *columns)


_FORMAT: Final = single("format", MetaData(), sa.Column("number", WHOLE))
"""Format of tables in PostgreSQL; a SQLite file has ``user_version``."""
_TURN: Final = sa.text(
    "SELECT CAST(pg_current_xact_id() AS TEXT), "
    "pg_advisory_xact_lock(hashtextextended('holderlake ' || current_schema(), 0))"
)
"""Start of a transaction that writes. As with SQLite, one transaction of a schema writes at a time."""
_OUTCOME: Final = sa.text("SELECT pg_xact_status(CAST(:id AS xid8))")


class State:
    """The tables in a SQLite file, for many threads. Opening it creates missing tables.

    With ``synchronous`` FULL each commit survives a power cut; with NORMAL the last commits may be lost. ``remedy`` is
    the advice in the error about a damaged file. ``version`` is the format; a state of another format is refused and
    stays unchanged. ``busy_seconds`` limits the wait for other writers. Every method raises ``DatabaseError``, whose
    text never contains a password.
    """

    def __init__(
        self,
        place: Path,
        tables: MetaData,
        synchronous: Literal["FULL", "NORMAL"],
        remedy: str = "move it away",
        version: int | None = None,
        busy_seconds: float = BUSY_SECONDS,
    ) -> None:
        self._path, self._remedy = place, remedy
        try:
            sqlite.make_file(place)
        except OSError as error:
            raise sqlite.explained(place, error, remedy) from error
        with self._explained():
            connection = sqlite.connect(place, synchronous, busy_seconds)
            try:
                number = sqlite.format_of(connection)
                if version and number and (fault := format_fault(place, number, version)):
                    raise DatabaseError(fault)
                sqlite.use_write_ahead_log(connection, busy_seconds)
            finally:
                connection.close()
        self._connect_by("sqlite", partial(sqlite.connect, place, synchronous, busy_seconds), busy_seconds)
        if place.stat().st_size and is_full(place.parent):
            return  # the tables are read, and a write is refused
        with self.transaction() as db:
            tables.create_all(db)
            if version and not number:
                db.exec_driver_sql(f"PRAGMA user_version = {version}")

    def _connect_by(self, dialect: str, connect: Callable[[], Any], busy_seconds: float) -> None:
        self._busy_seconds = busy_seconds
        # SQLAlchemy keeps two connections, so that readers do not wait for this process's writer. The wait for this
        # lock is shorter than SQLite's own polling.
        self._writing = threading.Lock()
        self._engine = sa.create_engine(
            f"{dialect}://",
            creator=connect,
            poolclass=sa.QueuePool,
            pool_size=2,
            max_overflow=0,
            pool_timeout=busy_seconds,
            hide_parameters=True,
        )
        weakref.finalize(self, self._engine.dispose)  # also if the caller does not close it

    def __str__(self) -> str:
        return str(self._path)

    @contextmanager
    def transaction(self, *, write: bool = True) -> Iterator[Connection]:
        """Run the ``with`` block in a transaction. With ``write``, no other transaction writes meanwhile."""
        if write and not self._writing.acquire(timeout=self._busy_seconds):
            raise self._locked()
        try:
            with self._explained(), self._engine.connect() as db:
                number = self._begin(db, write=write)
                yield db
                self._commit(db, number)
        finally:
            if write:
                self._writing.release()

    def run(self, work: Callable[[Connection], T], *, write: bool = True) -> T:
        """Call ``work`` in a transaction (see ``transaction``) and return its result."""
        with self.transaction(write=write) as db:
            return work(db)

    def rows(self, query: sa.Executable, values: Row | None = None) -> list[tuple[Any, ...]]:
        """Run a query with its parameters ``values``, and return all rows."""
        with self._explained(), self._engine.connect() as db:
            return [tuple(row) for row in db.execute(query, values)]

    def close(self) -> None:
        """Close the connections; another transaction would open them again."""
        with self._writing:
            self._engine.dispose()

    def _begin(self, db: Connection, *, write: bool) -> str | None:
        """Begin a transaction. Return its id if its outcome can be asked for later."""
        db.exec_driver_sql("BEGIN IMMEDIATE" if write else "BEGIN")
        return None

    def _commit(self, db: Connection, number: str | None) -> None:
        db.commit()

    @contextmanager
    def _explained(self) -> Iterator[None]:
        """Turn errors of the database in the ``with`` block into ``DatabaseError``."""
        try:
            yield
        except PoolTimeout:
            raise self._locked() from None
        except DBAPIError as error:
            raise sqlite.explained(self._path, error.orig, self._remedy) from error
        except (sqlite3.DatabaseError, UnicodeDecodeError) as error:  # also of an error's text
            raise sqlite.explained(self._path, error, self._remedy) from error

    def _locked(self) -> DatabaseError:
        return sqlite.locked(self._path)


class PostgresState(State):
    """The tables in a schema of PostgreSQL 14 or later. A lost connection is opened again, and the work repeated."""

    def __init__(
        self, place: Postgres, tables: MetaData, version: int | None = None, busy_seconds: float = BUSY_SECONDS
    ) -> None:
        self.place: Final = place
        opened = threading.Event()
        self._connect_by("postgresql+psycopg", partial(postgresql.connect, place, busy_seconds, opened), busy_seconds)
        self.run(partial(self._create, tables, version))

    def __str__(self) -> str:
        return str(self.place)

    def _create(self, tables: MetaData, version: int | None, db: Connection) -> None:
        if version:
            _FORMAT.create(db, checkfirst=True)
            number = db.scalar(sa.select(sa.func.max(_FORMAT.c.number)))
            if not number:
                put(db, _FORMAT, {"number": version})
            elif fault := format_fault(str(self), number, version):
                raise DatabaseError(fault)
        tables.create_all(db)

    def run(self, work: Callable[[Connection], T], *, write: bool = True) -> T:
        """Call ``work`` in a transaction (see ``transaction``) and return its result.

        If the connection breaks, the work is done again on a new one, unless it was committed.
        """
        give_up_at = time.monotonic() + self.place.bridged_seconds
        pause = 0.05
        has_failed = False
        while True:
            try:
                with self.transaction(write=write) as db:
                    result = work(db)
                return result
            except ConnectionLost as lost:
                if lost.transaction and self._is_committed(lost, give_up_at):
                    return result
                if has_failed and time.monotonic() > give_up_at:
                    raise
            has_failed = True
            time.sleep(pause)
            pause = min(1.0, 2 * pause)

    def _is_committed(self, error: ConnectionLost, give_up_at: float) -> bool:
        while True:
            with suppress(ConnectionLost):
                with self.transaction(write=False) as db:
                    state = db.scalar(_OUTCOME, {"id": error.transaction})
                if state != "in progress":
                    return bool(state == "committed")
            if time.monotonic() > give_up_at:
                raise error
            time.sleep(0.2)

    def rows(self, query: sa.Executable, values: Row | None = None) -> list[tuple[Any, ...]]:
        return self.run(lambda db: [tuple(row) for row in db.execute(query, values)], write=False)

    def _begin(self, db: Connection, *, write: bool) -> str | None:
        if write:
            return str(db.scalar(_TURN))
        db.execution_options(isolation_level="REPEATABLE READ")
        return None

    def _commit(self, db: Connection, number: str | None) -> None:
        try:
            with self._explained():
                db.commit()
        except ConnectionLost as lost:
            lost.transaction = number
            raise

    @contextmanager
    def _explained(self) -> Iterator[None]:
        try:
            yield
        except PoolTimeout:
            raise self._locked() from None
        except DBAPIError as error:
            lost = error.connection_invalidated
            raise postgresql.explained(self.place, error.orig, self._busy_seconds, is_lost=lost) from None

    def _locked(self) -> DatabaseError:
        return postgresql.locked(self.place, self._busy_seconds)


def open_state(
    place: Where,
    tables: MetaData,
    synchronous: Literal["FULL", "NORMAL"],
    remedy: str = "move it away",
    version: int | None = None,
    busy_seconds: float = BUSY_SECONDS,
) -> State:
    """Open the state of a place, and create its tables. ``synchronous`` and ``remedy`` are for SQLite."""
    if isinstance(place, Postgres):
        return PostgresState(place, tables, version, busy_seconds)
    return State(place, tables, synchronous, remedy, version, busy_seconds)


def unix_now(db: Connection) -> float:
    """Return the time in unix seconds: of the server for PostgreSQL, because the clocks of hosts may differ."""
    if db.dialect.name != "postgresql":
        return time.time()
    return float(db.scalar(sa.select(sa.extract("epoch", sa.func.clock_timestamp()))) or 0)


def put(db: Connection, table: Table, *rows: Row, adding: bool = False) -> None:
    """Insert rows with the same columns. Where the primary key exists, change the columns, or with ``adding`` add."""
    if rows:
        db.execute(_upsert(db.dialect.name, table, tuple(rows[0]), adding), rows)


@cache
def _upsert(dialect: str, table: Table, columns: tuple[str, ...], adding: bool) -> sa.Executable:
    insert = import_module(f"sqlalchemy.dialects.{dialect}").insert(table)  # that of PostgreSQL loads slowly
    keys, given = table.primary_key.columns, insert.excluded
    changes = {name: table.c[name] + given[name] if adding else given[name] for name in columns if name not in keys}
    statement: sa.Executable = insert.on_conflict_do_update(index_elements=keys, set_=changes)
    return statement


def inserted(db: Connection, table: Table, rows: Sequence[Row]) -> Sequence[int]:
    """Insert rows into a table with a generated ``id``, and return the new ids in their order."""
    if not rows:
        return []
    return db.scalars(sa.insert(table).returning(table.c.id, sort_by_parameter_order=True), rows).all()
