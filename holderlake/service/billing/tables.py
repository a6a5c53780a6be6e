"""Tables of the database of API keys, and errors about keys.

Amounts are hundredths of a credit; days and times are ISO texts (UTC).
"""

from __future__ import annotations

from typing import Any, Final

from sqlalchemy import (
    CheckConstraint,
    Column,
    Connection,
    ForeignKey,
    Identity,
    Index,
    LargeBinary,
    MetaData,
    Table,
    Text,
    event,
)

from holderlake.core.storage.state import WHOLE, single

FORMAT: Final = 1
"""Format of these tables."""
TABLES: Final = MetaData()
LEDGER: Final = single("ledger", TABLES, Column("fingerprint", Text, nullable=False))
ACCOUNTS: Final = Table(
    "accounts",
    TABLES,
    Column("id", WHOLE, Identity(), primary_key=True),
    Column("name", Text, nullable=False),
    Column("allowance", WHOLE, CheckConstraint("allowance >= 0"), nullable=False),
    Column("custom_plan", WHOLE, nullable=False),
    Column("renewal_day", WHOLE, CheckConstraint("renewal_day BETWEEN 1 AND 31"), nullable=False),
    sqlite_autoincrement=True,
)
KEYS: Final = Table(
    "keys",
    TABLES,
    Column("id", WHOLE, Identity(), primary_key=True),
    Column("account_id", WHOLE, ForeignKey(ACCOUNTS.c.id), nullable=False),
    Column("prefix", Text, nullable=False, unique=True),
    Column("secret_hash", LargeBinary, nullable=False),
    Column("created_at", Text, nullable=False),
    Column("ends_at", Text),
    sqlite_autoincrement=True,
)
Index("keys_by_account", KEYS.c.account_id)
# charges summed by day, key and endpoint
USAGE: Final = Table(
    "usage",
    TABLES,
    Column("account_id", WHOLE, ForeignKey(ACCOUNTS.c.id), primary_key=True),
    Column("day", Text, primary_key=True),
    Column("key_id", WHOLE, ForeignKey(KEYS.c.id), primary_key=True),
    Column("endpoint", Text, primary_key=True),
    Column("requests", WHOLE, nullable=False),
    Column("credits", WHOLE, nullable=False),
    sqlite_with_rowid=False,
)
# of running requests, each with the owner that answers it; short-lived, so without foreign keys
RESERVATIONS: Final = Table(
    "reservations",
    TABLES,
    Column("id", Text, primary_key=True),
    Column("account_id", WHOLE, nullable=False),
    Column("day", Text, nullable=False),
    Column("key_id", WHOLE, nullable=False),
    Column("endpoint", Text, nullable=False),
    Column("credits", WHOLE, CheckConstraint("credits >= 0"), nullable=False),
    Column("owner", Text, nullable=False),
    sqlite_with_rowid=False,
)
Index("reservations_by_account", RESERVATIONS.c.account_id, RESERVATIONS.c.day)


@event.listens_for(RESERVATIONS, "after_create")
def _clean_soon(table: Table, db: Connection, **options: Any) -> None:
    """Let PostgreSQL vacuum without delays, because rows live for milliseconds."""
    if db.dialect.name == "postgresql":
        db.exec_driver_sql("ALTER TABLE reservations SET (autovacuum_vacuum_cost_delay = 0)")


class KeysError(Exception):
    """API keys cannot be used or changed as requested. The message gives the reason, and never contains a secret."""


class WrongSecret(KeysError):
    """The service's secret is missing, too short, or not the secret that the keys were made with."""


class UnknownKey(KeysError):
    """No API key has the given prefix or id, or the key has ended."""
