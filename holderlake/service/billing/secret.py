"""The service's secret, the key of its hashes and signatures. It is checked when the tables are opened.

A copy of the database alone is not enough to use or test API keys. For a SQLite file the secret is created in a file
next to it; hosts that share a PostgreSQL database read it from the settings.
"""

from __future__ import annotations

import hashlib
import hmac
import os
import secrets
from pathlib import Path
from typing import Final

import sqlalchemy as sa

from holderlake.service.database.connections import Database
from holderlake.service.database.errors import WrongSecret, WrongVersion
from holderlake.service.database.schema import METADATA, ledger
from holderlake.storage.atomic_files import write_whole

VERSION: Final = 1
"""Version of the tables in the database of keys."""

_BYTES: Final = 32
_MIN_BYTES: Final = 16
_SETTING: Final = "HOLDERLAKE_SERVICE__SECRET"
_OPENING: Final = 0x686F6C6465726C61
"""Number of the PostgreSQL advisory lock for creating the tables."""
_LEDGER: Final = sa.select(ledger.c.version, ledger.c.fingerprint)
_ADD_LEDGER: Final = sa.insert(ledger)
_LOCK: Final = sa.select(sa.func.pg_advisory_xact_lock(sa.cast(_OPENING, sa.BigInteger)))


def keyed_hash(secret: bytes, text: str) -> bytes:
    """Return the HMAC-SHA256 of a text. API keys have 192 random bits, so a slow password hash would add no safety."""
    return hmac.digest(secret, text.encode("utf-8", "surrogatepass"), hashlib.sha256)


def open_tables(database: Database, secret: bytes | None) -> bytes:
    """Check the service's secret against the tables, and return it. Create secret and tables if they are missing.

    ``secret`` is the secret in the settings; None reads it from the file next to a SQLite database. Raises
    ``WrongSecret`` and ``WrongVersion``.
    """
    if secret is None and database.path is None:
        raise WrongSecret(
            f"keys in PostgreSQL need a secret shared by all services: set {_SETTING} to a random text of at least "
            f"{_MIN_BYTES} bytes, for example the output of 'openssl rand -hex 32'"
        )
    if secret is not None and len(secret) < _MIN_BYTES:
        raise WrongSecret(f"{_SETTING} has fewer than {_MIN_BYTES} bytes: use the output of 'openssl rand -hex 32'")
    source = database.path.with_suffix(".secret") if secret is None and database.path else secret or b""
    ledger_row = database.read_with(_read_ledger)
    if ledger_row is None:
        return database.write(lambda connection: _create(connection, source))
    return _checked(ledger_row, source)


def _read(source: bytes | Path) -> bytes | None:
    """Return the secret: ``source`` itself, or the content of the file ``source``. None if the file is missing."""
    if isinstance(source, bytes):
        return source
    try:
        secret = source.read_bytes()
    except FileNotFoundError:
        return None
    if len(secret) < _MIN_BYTES:
        raise WrongSecret(f"{source} has fewer than {_MIN_BYTES} bytes: restore the original file")
    return secret


def _read_ledger(connection: sa.Connection) -> tuple[int, str] | None:
    if not sa.inspect(connection).has_table(ledger.name):
        return None
    row = connection.execute(_LEDGER).one()
    return row.version, row.fingerprint


def _create(connection: sa.Connection, source: bytes | Path) -> bytes:
    if connection.dialect.name == "postgresql":
        connection.execute(_LOCK)
    ledger_row = _read_ledger(connection)
    if ledger_row is not None:  # another process was faster
        return _checked(ledger_row, source)
    # The secret is made within this transaction, so that only one process makes it.
    secret = _read(source)
    if secret is None:
        secret = secrets.token_bytes(_BYTES)
        write_whole(Path(os.fsdecode(source)), secret)  # readable by its owner only
    # Without a check for existing tables: a table of the same name belongs to another program and must be an error.
    METADATA.create_all(connection, checkfirst=False)
    connection.execute(_ADD_LEDGER, {"one": 1, "version": VERSION, "fingerprint": _fingerprint(secret)})
    return secret


def _checked(ledger_row: tuple[int, str], source: bytes | Path) -> bytes:
    version, fingerprint = ledger_row
    name = _SETTING if isinstance(source, bytes) else source
    if version != VERSION:
        raise WrongVersion(
            f"the tables of API keys have version {version}, but this program needs version {VERSION}: "
            "run the release of Holderlake that made them"
        )
    secret = _read(source)
    if secret is None:
        raise WrongSecret(f"{name} is missing, and no key can be checked without it: restore the file")
    if not hmac.compare_digest(_fingerprint(secret), fingerprint):
        raise WrongSecret(f"{name} is not the secret that these keys were made with: restore the original secret")
    return secret


def _fingerprint(secret: bytes) -> str:
    return keyed_hash(secret, "fingerprint of the service's secret").hex()
