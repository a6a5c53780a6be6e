"""PostgreSQL: places, connections, and errors with a remedy. ``state.py`` runs transactions."""

from __future__ import annotations

import re
import threading
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

from pydantic import SecretStr

from holderlake.core.storage.sqlite import DatabaseBusy, DatabaseError

if TYPE_CHECKING:
    import psycopg

_DEAD_SECONDS: Final = 25
"""Time after which client or server closes a connection whose other side does not respond."""
_ARGUMENTS: Final[dict[str, int | str]] = {
    "connect_timeout": 5,
    "keepalives_idle": 10,
    "tcp_user_timeout": _DEAD_SECONDS * 1_000,
    "application_name": "holderlake",
}
_SESSION: Final = """
    SET client_min_messages = warning;
    SET lock_timeout = {busy}; SET statement_timeout = {busy};
    -- a stopped process must not keep the others waiting
    SET idle_in_transaction_session_timeout = {busy};
    -- release the locks of a host that lost its power
    SET tcp_keepalives_idle = 10; SET tcp_keepalives_interval = 5; SET tcp_keepalives_count = 3;
    -- rows of claims change all the time, so that statistics are never right: only index scans stay fast
    SET enable_seqscan = off; SET enable_hashjoin = off; SET enable_mergejoin = off; SET jit = off
"""
_RETRIED: Final = ("40001", "40P01")
_LOCKED: Final = ("55P03", "57014")
_REASONS: Final = {
    "password authentication failed": "the server rejects the user or password",
    "no password supplied": "the server requires a password",
    "no pg_hba.conf entry": "pg_hba.conf of the server does not allow this host",
    "does not exist": "the database or user does not exist",
    "Connection refused": "connection refused",
    "timeout expired": "it did not answer in time",
    "could not translate host name": "its host name cannot be resolved",
    "failed to resolve host": "its host name cannot be resolved",
}
_AWAY: Final = (
    "Connection refused",
    "timeout expired",
    "resolve host",
    "translate host name",
    "starting up",
    "too many clients",
)
"""Words of errors after which a later connection may succeed."""
_SCHEME: Final = re.compile(r"^postgres(ql)?(\+psycopg)?://")


@dataclass(frozen=True)
class Postgres:
    """Place of the state of several hosts: a schema of a PostgreSQL database.

    Processes of one host also lock files next to the path ``files``; their names begin with its name.
    """

    url: SecretStr
    files: Path
    schema: str | None = "holderlake"
    """Name of the schema, which is created; None for the one that the connection has by default."""
    lease_seconds: float = 60.0
    """Time after which other hosts take over the claims of a host that does not respond."""
    bridged_seconds: float = 30.0
    """Time for which a lost connection is opened again before a transaction fails; at least one attempt is made."""
    setting: str = "state.url (HOLDERLAKE_STATE__URL)"
    """The setting that has the URL, for texts of errors."""

    def __str__(self) -> str:
        url = self.parameters()
        host = str(url.get("host", "localhost")).rpartition("@")[2]  # before it: a part of a password with an "@"
        return f"PostgreSQL at {host}:{url.get('port', 5432)}/{url.get('dbname', '')}"

    def parameters(self) -> dict[str, Any]:
        """Return the parameters of a connection. The ``DatabaseError`` about an invalid URL does not quote it."""
        from psycopg import ProgrammingError
        from psycopg.conninfo import conninfo_to_dict

        try:
            return conninfo_to_dict(_SCHEME.sub("postgresql://", self.url.get_secret_value()))
        except ProgrammingError:
            pass
        raise DatabaseError(
            f"invalid URL of a database: use postgresql://user:password@host/database in {self.setting}"
        )


class Unreachable(DatabaseBusy):
    """The server accepted no first connection: it is down, starting, or on another network. A retry may succeed."""


class ConnectionLost(DatabaseBusy):
    """The connection broke. ``transaction`` is the id of a transaction that may have been committed, else None."""

    transaction: str | None = None


def connect(place: Postgres, busy_seconds: float, opened: threading.Event) -> psycopg.Connection:
    """Open a connection, and create the schema if it is missing. The first success sets ``opened``.

    A server that cannot be reached raises ``ConnectionLost`` if ``opened`` is set, else another ``DatabaseError``.
    """
    import psycopg

    raw = _opened(place, is_again=opened.is_set())
    try:
        raw.execute(_SESSION.format(busy=max(1, round(busy_seconds * 1_000))).encode())
        if place.schema is not None:
            quoted = place.schema.replace('"', '""')
            raw.execute(f'SET search_path = "{quoted}"'.encode())
            if raw.execute("SELECT to_regnamespace(quote_ident(%s))", (place.schema,)).fetchall() == [(None,)]:
                with suppress(psycopg.errors.UniqueViolation, psycopg.errors.DuplicateSchema):
                    raw.execute(f'CREATE SCHEMA IF NOT EXISTS "{quoted}"'.encode())
        raw.autocommit = False
    except psycopg.Error as error:
        is_lost = raw.closed
        raw.close()
        raise explained(place, error, busy_seconds, is_lost=is_lost) from None
    opened.set()
    return raw


def _opened(place: Postgres, *, is_again: bool) -> psycopg.Connection:
    import psycopg

    parameters = place.parameters()
    try:
        return psycopg.connect(**{**_ARGUMENTS, **parameters}, autocommit=True)
    except psycopg.Error as error:
        text = str(error)
    reason = next((reason for words, reason in _REASONS.items() if words in text), "no connection")
    kind = Unreachable if any(words in text for words in _AWAY) else DatabaseError
    failure = ConnectionLost if is_again else kind
    # Outside the handler, without a cause: the driver's text may contain a part of the URL.
    raise failure(f"{place} cannot be used: {reason}; check {place.setting} and the server, then try again")


def explained(
    place: Postgres, error: BaseException | None, busy_seconds: float, *, is_lost: bool = False
) -> DatabaseError:
    """Return the ``DatabaseError`` for an error of a connection, which is closed if ``is_lost``."""
    import psycopg

    state = (isinstance(error, psycopg.Error) and error.sqlstate) or ""
    if is_lost or state in _RETRIED:
        return ConnectionLost(f"the connection to {place} was lost; check the server and the network, then try again")
    if state in _LOCKED:
        return locked(place, busy_seconds)
    text = isinstance(error, psycopg.Error) and error.diag.message_primary
    message = (text or type(error).__name__).strip()
    return DatabaseError(f"{place} cannot be used: {message} (SQLSTATE {state}); check {place.setting}")


def locked(place: Postgres, busy_seconds: float) -> DatabaseBusy:
    """Return the error about a database that other processes write to."""
    return DatabaseBusy(
        f"{place} was locked by another process for {busy_seconds:g} s; end sessions that are idle in a transaction, "
        "then try again"
    )
