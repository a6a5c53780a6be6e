"""Connections to the database of API keys (SQLite or PostgreSQL), and the translation of driver errors."""

from __future__ import annotations

import logging
import sqlite3
import threading
from collections.abc import Callable, Iterator, Mapping
from contextlib import closing, contextmanager, suppress
from pathlib import Path
from typing import Any, Final, TypeVar

import sqlalchemy as sa

from holderlake.service.database.errors import DatabaseUnavailable, KeysBusy
from holderlake.storage.sqlite import FILE_MODE, use_write_ahead_log

T = TypeVar("T")

_log = logging.getLogger(__name__)

_STATEMENT_SECONDS: Final = 5.0
"""Time limit of one SQL statement, in addition to its wait for locks."""
_DEAD_SECONDS: Final = 25
"""Seconds after which client or server closes a connection whose other side does not respond."""
_ARGUMENTS: Final[Mapping[str, int | str]] = {
    "connect_timeout": 5,
    "keepalives_idle": 10,
    "tcp_user_timeout": _DEAD_SECONDS * 1_000,
    "application_name": "holderlake",
}
_SESSION: Final = """
    SET lock_timeout = {busy};
    SET statement_timeout = {statement};
    -- a stopped process must not hold its locks for longer
    SET idle_in_transaction_session_timeout = {statement};
    -- release the locks of a host that lost its power
    SET tcp_keepalives_idle = 10; SET tcp_keepalives_interval = 5; SET tcp_keepalives_count = 3;
    -- Plans are made while the table of reservations is nearly empty; under load it is full of dead rows, and only
    -- index scans stay fast.
    SET enable_seqscan = off; SET enable_hashjoin = off; SET enable_mergejoin = off; SET jit = off
"""
_CONNECTIONS: Final = 5
_BUSY: Final = "the database of API keys is busy: try again"


class Database:
    """A SQLite file or a PostgreSQL database, shared by threads and processes and, with PostgreSQL, by hosts.

    ``path`` is the path of the SQLite file, None for PostgreSQL. PostgreSQL's own settings decide how durable a commit
    is (``synchronous_commit``). All methods raise ``KeysBusy``. The constructor raises ``ValueError`` for an invalid
    URL.
    """

    def __init__(self, location: Path | str, busy_seconds: float) -> None:
        url = parse_url(location)
        self.kind: Final = url.get_backend_name()
        self.path: Final = Path(url.database or "") if self.kind == "sqlite" else None
        self._busy_seconds = busy_seconds
        self._closed = False
        # SQLite allows one writer at a time, and waiting for a lock is faster than SQLite's polling
        self._turn = None if self.path is None else threading.Lock()
        if self.path is None:
            self._engine = postgresql_engine(url, busy_seconds)
            self._single = postgresql_engine(url, busy_seconds, is_pooled=False)
            self._reading = self._engine.execution_options(isolation_level="AUTOCOMMIT")
        else:
            path = self.path
            path.parent.mkdir(parents=True, exist_ok=True)
            self._translated(lambda: make_sqlite_file(path, busy_seconds))
            self._engine = self._single = sqlite_engine(url, busy_seconds)
            self._reading = self._engine.execution_options(only_reads=True)

    def close(self) -> None:
        """Close all connections."""
        self._closed = True
        self._engine.dispose()

    def session(self) -> sa.Connection:
        """Return a connection outside the pool, for long use. The caller closes it.

        Each statement on it is a separate transaction. Raises the driver's errors.
        """
        return self._single.connect().execution_options(isolation_level="AUTOCOMMIT")

    def read(self, statement: sa.Executable, **values: Any) -> list[Any]:
        """Return the rows of a read-only statement."""
        return self.read_with(lambda connection: list(connection.execute(statement, values)))

    def read_with(self, work: Callable[[sa.Connection], T]) -> T:
        """Call ``work`` with a connection for reading and return its result. Each statement is its own transaction."""

        def do() -> T:
            with self._reading.connect() as connection:
                return work(connection)

        return self._translated(do)

    def write(self, work: Callable[[sa.Connection], T]) -> T:
        """Call ``work`` with a connection in one transaction and return its result. An error rolls back."""
        committing = False

        def do() -> T:
            nonlocal committing
            with self._write_lock(), self._engine.connect() as connection, connection.begin() as transaction:
                result = work(connection)
                committing = True
                transaction.commit()
            return result

        try:
            return self._translated(do)
        except KeysBusy as busy:
            busy.in_doubt = committing
            raise

    @contextmanager
    def _write_lock(self) -> Iterator[None]:
        if self._turn is None:
            yield
            return
        if not self._turn.acquire(timeout=self._busy_seconds):
            raise KeysBusy(_BUSY)
        try:
            yield
        finally:
            self._turn.release()

    def _translated(self, work: Callable[[], T]) -> T:
        if self._closed:
            raise RuntimeError("the database of API keys is closed: open a new KeyStore")
        try:
            return work()
        except Exception as error:
            failure = failure_of(error)
            if failure is None:
                raise
        raise failure  # outside the handler, without a cause: the driver's text may contain a part of the URL


def parse_url(location: Path | str) -> sa.URL:
    """Return SQLAlchemy's URL for the path of a SQLite file or for a URL as text.

    The message of the ``ValueError`` for an invalid URL does not quote the text, which may contain a password.
    """
    if isinstance(location, Path):
        return sa.URL.create("sqlite", database=str(location))
    url = _parsed(location)
    if url is not None and url.drivername == "sqlite" and url.database not in (None, "", ":memory:"):
        return url
    if url is not None and url.drivername in ("postgresql", "postgresql+psycopg", "postgres"):
        return url.set(drivername="postgresql+psycopg")
    raise ValueError(
        "invalid URL of the database of API keys: use postgresql://user:password@host/name or sqlite:///file"
    )


def _parsed(text: str) -> sa.URL | None:
    try:
        return sa.make_url(text)
    except (sa.exc.ArgumentError, ValueError):
        return None


def sqlite_engine(url: sa.URL, busy_seconds: float) -> sa.Engine:
    """Return SQLAlchemy's engine for a SQLite file. ``busy_seconds`` limits the wait for locks.

    Each transaction takes the write lock, unless its connection has the execution option ``only_reads``.
    """
    engine = sa.create_engine(
        url,
        connect_args={"timeout": busy_seconds, "isolation_level": None, "check_same_thread": False},
        pool_size=_CONNECTIONS,
        max_overflow=0,
        pool_timeout=busy_seconds,
        hide_parameters=True,
    )
    sa.event.listen(engine, "connect", _prepare_sqlite)
    sa.event.listen(engine, "begin", _begin_sqlite)
    return engine


def _prepare_sqlite(connection: Any, _: Any) -> None:
    # A crash of the process loses nothing; a power cut may lose the last charges, but never corrupts the file.
    connection.execute("PRAGMA synchronous = NORMAL")
    connection.execute("PRAGMA foreign_keys = ON")


def _begin_sqlite(connection: sa.Connection) -> None:
    if not connection.get_execution_options().get("only_reads"):
        connection.exec_driver_sql("BEGIN IMMEDIATE")


def make_sqlite_file(path: Path, busy_seconds: float) -> None:
    """Make a SQLite file with a write-ahead log, if it is missing. ``busy_seconds`` limits the wait for locks."""
    if not path.exists():
        with suppress(OSError):  # the connection explains it
            path.touch(FILE_MODE)
    with closing(sqlite3.connect(path, timeout=busy_seconds, isolation_level=None)) as connection:
        use_write_ahead_log(connection, busy_seconds)


def postgresql_engine(url: sa.URL, busy_seconds: float, is_pooled: bool = True) -> sa.Engine:
    """Return SQLAlchemy's engine for PostgreSQL, with or without a pool of connections.

    ``busy_seconds`` limits the wait for locks and for a free connection of the pool.
    """
    pool: dict[str, Any] = {"poolclass": sa.NullPool}
    if is_pooled:
        # tested before use, so that the next request after a restart of the server succeeds
        pool = {"pool_size": _CONNECTIONS, "max_overflow": 0, "pool_timeout": busy_seconds, "pool_pre_ping": True}
    arguments = {name: value for name, value in _ARGUMENTS.items() if name not in url.query}
    engine = sa.create_engine(url, connect_args=arguments, hide_parameters=True, **pool)
    milliseconds = {
        "busy": max(1, int(busy_seconds * 1_000)),
        "statement": int((busy_seconds + _STATEMENT_SECONDS) * 1_000),
    }
    settings = _SESSION.format_map(milliseconds)

    @sa.event.listens_for(engine, "connect")
    def prepare(connection: Any, _: Any) -> None:
        connection.autocommit = True  # otherwise the first rollback would undo the settings
        connection.execute(settings)
        connection.autocommit = False

    return engine


_UNREACHABLE: Final = "the database of API keys can't be reached"
_UNUSABLE: Final = "the database of API keys can't be used: see the service's log"

_SQLITE_BUSY: Final = (sqlite3.SQLITE_BUSY, sqlite3.SQLITE_LOCKED)
_SQLITE_UNUSABLE: Final = (
    sqlite3.SQLITE_FULL,
    sqlite3.SQLITE_READONLY,
    sqlite3.SQLITE_CANTOPEN,
    sqlite3.SQLITE_IOERR,
    sqlite3.SQLITE_PERM,
)
_STATES_BUSY: Final = ("40", "55P03", "57014")
_STATES_UNREACHABLE: Final = ("08", "57P", "53", "25P03")
_STATES_UNUSABLE: Final = ("25006", "28", "3D", "42501", "53100", "58")
_REFUSALS: Final = {
    "password authentication failed": "PostgreSQL rejects the user or password for the database of API keys",
    "no password supplied": "PostgreSQL requires a password for the database of API keys",
    "does not exist": "the PostgreSQL database or user in the URL for API keys does not exist",
    "no pg_hba.conf entry": "PostgreSQL rejects connections from this host (pg_hba.conf)",
}


def failure_of(error: Exception) -> KeysBusy | None:
    """Return the ``KeysBusy`` that replaces an error of the database driver, or None for a programming error."""
    cause = error.orig if isinstance(error, sa.exc.DBAPIError) else error
    if isinstance(cause, sqlite3.Error):
        return _sqlite_failure(cause)
    if isinstance(cause, sa.exc.TimeoutError):  # of the pool
        return KeysBusy(_BUSY)
    return _postgresql_failure(cause) if hasattr(cause, "sqlstate") else None


def _sqlite_failure(cause: sqlite3.Error) -> KeysBusy | None:
    code = getattr(cause, "sqlite_errorcode", 0) & 0xFF
    if code in _SQLITE_BUSY:
        return KeysBusy(_BUSY)
    if code in _SQLITE_UNUSABLE:
        _log.error("the database of API keys failed: %s", cause)
        return DatabaseUnavailable(_UNUSABLE)
    return None


def _postgresql_failure(cause: Any) -> KeysBusy | None:
    state = cause.sqlstate or ""
    if state.startswith(_STATES_BUSY):
        return KeysBusy(_BUSY)
    if state.startswith(_STATES_UNUSABLE):
        _log.error("the database of API keys failed: %s (SQLSTATE %s)", cause.diag.message_primary, state)
        return DatabaseUnavailable(_UNUSABLE)
    if state.startswith(_STATES_UNREACHABLE):
        return KeysBusy(_UNREACHABLE)
    if state or not {"OperationalError", "InterfaceError"} & {kind.__name__ for kind in type(cause).__mro__}:
        return None
    for phrase, text in _REFUSALS.items():  # a refused connection has no SQLSTATE, only a message
        if phrase in str(cause):
            return DatabaseUnavailable(text)
    return KeysBusy(_UNREACHABLE)
