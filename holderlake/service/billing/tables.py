"""Tables of the database of API keys, for SQLite and PostgreSQL, and errors about keys.

Tables are written with SQLite's types; ``storage.postgresql`` translates them. Amounts are hundredths of a credit; days
and times are ISO texts (UTC).
"""

from __future__ import annotations

from typing import Final

from holderlake.core.storage.owners import OWNERS
from holderlake.core.storage.state import DatabaseKind

FORMAT: Final = 1
"""Format of these tables."""
_CALLS: Final = """
    (
        caller TEXT NOT NULL,
        seconds INTEGER NOT NULL,
        ends REAL NOT NULL,
        calls INTEGER NOT NULL,
        PRIMARY KEY (caller, seconds)
    ) WITHOUT ROWID
"""
"""Calls of a client in a window of ``seconds``, which ``ends`` at a unix time."""
_TABLES: Final = (
    "CREATE TABLE IF NOT EXISTS ledger (one INTEGER PRIMARY KEY CHECK (one = 1), fingerprint TEXT NOT NULL)",
    """
    CREATE TABLE IF NOT EXISTS accounts (
        id INTEGER PRIMARY KEY AUTOINCREMENT,
        name TEXT NOT NULL,
        allowance INTEGER NOT NULL CHECK (allowance >= 0),
        custom_plan INTEGER NOT NULL,
        renewal_day INTEGER NOT NULL CHECK (renewal_day BETWEEN 1 AND 31)
    )
    """,
    """
    CREATE TABLE IF NOT EXISTS keys (
        id INTEGER PRIMARY KEY AUTOINCREMENT,
        account_id INTEGER NOT NULL REFERENCES accounts (id),
        prefix TEXT NOT NULL UNIQUE,
        secret_hash BLOB NOT NULL,
        created_at TEXT NOT NULL,
        ends_at TEXT
    )
    """,
    "CREATE INDEX IF NOT EXISTS keys_by_account ON keys (account_id)",
    # charges summed by day, key and endpoint
    """
    CREATE TABLE IF NOT EXISTS usage (
        account_id INTEGER NOT NULL REFERENCES accounts (id),
        day TEXT NOT NULL,
        key_id INTEGER NOT NULL REFERENCES keys (id),
        endpoint TEXT NOT NULL,
        requests INTEGER NOT NULL,
        credits INTEGER NOT NULL,
        PRIMARY KEY (account_id, day, key_id, endpoint)
    ) WITHOUT ROWID
    """,
    # of running requests, each with the owner that answers it; short-lived, so without foreign keys
    """
    CREATE TABLE IF NOT EXISTS reservations (
        id TEXT PRIMARY KEY,
        account_id INTEGER NOT NULL,
        day TEXT NOT NULL,
        key_id INTEGER NOT NULL,
        endpoint TEXT NOT NULL,
        credits INTEGER NOT NULL CHECK (credits >= 0),
        owner TEXT NOT NULL
    ) WITHOUT ROWID
    """,
    "CREATE INDEX IF NOT EXISTS reservations_by_account ON reservations (account_id, day)",
)
_CALLS_BY_END: Final = "CREATE INDEX IF NOT EXISTS calls_by_end ON calls (ends)"
SCHEMAS: Final[dict[DatabaseKind, tuple[str, ...]]] = {
    "sqlite": (*_TABLES, f"CREATE TABLE IF NOT EXISTS calls {_CALLS}", _CALLS_BY_END),
    "postgresql": (
        *_TABLES,
        *OWNERS,
        # a crash of the server loses at most the counts of a minute
        f"CREATE UNLOGGED TABLE IF NOT EXISTS calls {_CALLS}",
        _CALLS_BY_END,
        # rows live for milliseconds: vacuum without delays
        "ALTER TABLE reservations SET (autovacuum_vacuum_cost_delay = 0)",
    ),
}


class KeysError(Exception):
    """API keys cannot be used or changed as requested. The message gives the reason, and never contains a secret."""


class WrongSecret(KeysError):
    """The service's secret is missing, too short, or not the secret that the keys were made with."""


class UnknownKey(KeysError):
    """No API key has the given prefix or id, or the key has ended."""
