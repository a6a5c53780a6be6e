"""How SQLite and PostgreSQL are connected to, and what their failures mean for who asks."""

from __future__ import annotations

import logging
import sqlite3
import time
from collections.abc import Mapping
from pathlib import Path
from typing import Any, Final

import sqlalchemy as sa

from holderlake.service.database.errors import DatabaseUnavailable, KeysBusy

_log = logging.getLogger(__name__)

_ASK_SECONDS: Final = 5.0
"""How long a statement may take, waiting for others aside."""
_DEAD_SECONDS: Final = 25
"""After which a host that does not answer any more is given up, by either side of a connection."""
_ARGUMENTS: Final[Mapping[str, int | str]] = {
    "connect_timeout": 5,
    "keepalives_idle": 10,
    "tcp_user_timeout": _DEAD_SECONDS * 1_000,
    "application_name": "holderlake",
}
_SESSION: Final = """
    SET lock_timeout = {busy};
    SET statement_timeout = {statement};
    -- a process that was stopped midway holds nobody up for longer
    SET idle_in_transaction_session_timeout = {statement};
    -- a host that lost its power lets go of its locks soon
    SET tcp_keepalives_idle = 10; SET tcp_keepalives_interval = 5; SET tcp_keepalives_count = 3;
    -- The table of reservations is nearly empty when a plan is made, and under load full of rows that are gone:
    -- by its indexes alone it stays quick.
    SET enable_seqscan = off; SET enable_hashjoin = off; SET enable_mergejoin = off; SET jit = off
"""
_CONNECTIONS: Final = 5


def address_of(where: Path | str) -> sa.URL:
    """The address in SQLAlchemy's words. Raises ``ValueError``, which does not repeat it."""
    if isinstance(where, Path):
        return sa.URL.create("sqlite", database=str(where))
    url = _parsed(where)
    if url is not None and url.drivername == "sqlite" and url.database not in (None, "", ":memory:"):
        return url
    if url is not None and url.drivername in ("postgresql", "postgresql+psycopg", "postgres"):
        return url.set(drivername="postgresql+psycopg")
    raise ValueError("the database of the keys is named as postgresql://user:password@host/name or sqlite:///file")


def _parsed(text: str) -> sa.URL | None:
    try:
        return sa.make_url(text)
    except (sa.exc.ArgumentError, ValueError):
        return None


def sqlite_engine(url: sa.URL, busy_seconds: float) -> sa.Engine:
    """Connections to a SQLite file. A transaction begins as a writer's, but for those that ``only_reads``."""
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
    # A process that dies loses nothing so; a power cut may lose the last charges, never corrupt the file.
    connection.execute("PRAGMA synchronous = NORMAL")
    connection.execute("PRAGMA foreign_keys = ON")


def _begin_sqlite(connection: sa.Connection) -> None:
    if not connection.get_execution_options().get("only_reads"):
        connection.exec_driver_sql("BEGIN IMMEDIATE")


def use_write_ahead_log(path: Path, busy_seconds: float) -> None:
    """Sets the mode, which stays with the file. While others make the same new file, SQLite refuses without waiting."""
    give_up_at = time.monotonic() + busy_seconds
    connection = sqlite3.connect(path, timeout=busy_seconds, isolation_level=None)
    try:
        while True:
            try:
                connection.execute("PRAGMA journal_mode = WAL")
                return
            except sqlite3.OperationalError as error:
                if (error.sqlite_errorcode & 0xFF) != sqlite3.SQLITE_BUSY or time.monotonic() > give_up_at:
                    raise
                time.sleep(0.01)
    finally:
        connection.close()


def postgresql_engine(url: sa.URL, busy_seconds: float, is_pooled: bool = True) -> sa.Engine:
    """Connections to PostgreSQL: a few that are kept, or each one for itself."""
    pool: dict[str, Any] = {"poolclass": sa.NullPool}
    if is_pooled:
        # asked before use, so that after a restart of the server the next request succeeds
        pool = {"pool_size": _CONNECTIONS, "max_overflow": 0, "pool_timeout": busy_seconds, "pool_pre_ping": True}
    arguments = {name: value for name, value in _ARGUMENTS.items() if name not in url.query}
    engine = sa.create_engine(url, connect_args=arguments, hide_parameters=True, **pool)
    milliseconds = {"busy": max(1, int(busy_seconds * 1_000)), "statement": int((busy_seconds + _ASK_SECONDS) * 1_000)}
    settings = _SESSION.format_map(milliseconds)

    @sa.event.listens_for(engine, "connect")
    def prepare(connection: Any, _: Any) -> None:
        connection.autocommit = True  # else the settings would go with the first rollback
        connection.execute(settings)
        connection.autocommit = False

    return engine


BUSY: Final = "the keys' database is busy"
_UNREACHABLE: Final = "the keys' database can't be reached just now"
_UNUSABLE: Final = "the keys' database can't be used as it is; its operator's log says why"

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
    "password authentication failed": "PostgreSQL does not accept the user and password of the keys' database",
    "no password supplied": "PostgreSQL wants a password for the keys' database",
    "does not exist": "PostgreSQL has no such database or user as the keys' database is named with",
    "no pg_hba.conf entry": "PostgreSQL does not let this host in (pg_hba.conf)",
}


def failure_of(error: Exception) -> KeysBusy | None:
    """What the error means for who asked, or None where it is no failure of the database."""
    cause = error.orig if isinstance(error, sa.exc.DBAPIError) else error
    if isinstance(cause, sqlite3.Error):
        return _sqlite_failure(cause)
    if isinstance(cause, sa.exc.TimeoutError):  # of the pool
        return KeysBusy(BUSY)
    return _postgresql_failure(cause) if hasattr(cause, "sqlstate") else None


def _sqlite_failure(cause: sqlite3.Error) -> KeysBusy | None:
    code = getattr(cause, "sqlite_errorcode", 0) & 0xFF
    if code in _SQLITE_BUSY:
        return KeysBusy(BUSY)
    if code in _SQLITE_UNUSABLE:
        _log.error("the keys' database: %s", cause)
        return DatabaseUnavailable(_UNUSABLE)
    return None


def _postgresql_failure(cause: Any) -> KeysBusy | None:
    state = cause.sqlstate or ""
    if state.startswith(_STATES_BUSY):
        return KeysBusy(BUSY)
    if state.startswith(_STATES_UNUSABLE):
        _log.error("the keys' database: %s (SQLSTATE %s)", cause.diag.message_primary, state)
        return DatabaseUnavailable(_UNUSABLE)
    if state.startswith(_STATES_UNREACHABLE):
        return KeysBusy(_UNREACHABLE)
    if state or not {"OperationalError", "InterfaceError"} & {kind.__name__ for kind in type(cause).__mro__}:
        return None
    for sign, text in _REFUSALS.items():  # before there is a session, there are words alone
        if sign in str(cause):
            return DatabaseUnavailable(text)
    return KeysBusy(_UNREACHABLE)
