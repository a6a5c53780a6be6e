"""The service's secret: the key of its hashes and signatures. It also checks the tables' version on opening.

A copy of the database alone is not enough to use or test API keys. For a SQLite file the secret is created in a file
next to it; hosts that share a PostgreSQL database get it from the settings.
"""

from __future__ import annotations

import hashlib
import hmac
import os
import secrets
from dataclasses import dataclass, field
from pathlib import Path
from typing import Final

import sqlalchemy as sa

from holderlake.service.database.connections import Database
from holderlake.service.database.errors import WrongSecret, WrongVersion
from holderlake.service.database.schema import METADATA, ledger

VERSION: Final = 1
"""Version of the tables."""

_BYTES: Final = 32
_MIN_BYTES: Final = 16
_SETTING: Final = "HOLDERLAKE_SERVICE__SECRET"
_OPENING: Final = 0x686F6C6465726C61
"""PostgreSQL's advisory lock for creating the tables."""
_LEDGER: Final = sa.select(ledger.c.version, ledger.c.fingerprint)
_BEGIN_LEDGER: Final = sa.insert(ledger)
_LOCK: Final = sa.select(sa.func.pg_advisory_xact_lock(sa.cast(_OPENING, sa.BigInteger)))


def keyed_hash(secret: bytes, text: str) -> bytes:
    """Return the HMAC-SHA256. A key has 192 random bits, so a slow password hash would add no safety."""
    return hmac.digest(secret, text.encode("utf-8", "surrogatepass"), hashlib.sha256)


def open_tables(database: Database, given: bytes | None) -> bytes:
    """Return the service's secret after checking it against the tables; create both if missing.

    ``given`` takes precedence over the file next to a SQLite database. Raises ``WrongSecret`` and ``WrongVersion``.
    """
    source = _source(database, given)
    found = database.read_with(_kept)
    if found is None:
        return database.write(lambda connection: _begin(connection, source))
    return _checked(found, source)


@dataclass(frozen=True)
class _Given:
    """A secret from the settings."""

    secret: bytes = field(repr=False)
    name: str = _SETTING

    def find(self) -> bytes:
        return self.secret

    make = find


class _File:
    """A secret in a file that only its owner may read."""

    def __init__(self, path: Path) -> None:
        self.name = str(path)
        self._path = path

    def find(self) -> bytes | None:
        try:
            secret = self._path.read_bytes()
        except FileNotFoundError:
            return None
        if len(secret) < _MIN_BYTES:
            raise WrongSecret(f"{self.name} has fewer than {_MIN_BYTES} bytes: restore the original file")
        return secret

    def make(self) -> bytes:
        """Write a new secret atomically; within the transaction that creates the tables, so only one process does."""
        secret = secrets.token_bytes(_BYTES)
        building = self._path.with_name(f"{self._path.name}.{secrets.token_hex(8)}")
        handle = os.open(building, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600)
        with os.fdopen(handle, "wb") as file:
            file.write(secret)
            file.flush()
            os.fsync(file.fileno())
        building.replace(self._path)
        return secret


def _source(database: Database, given: bytes | None) -> _Given | _File:
    if given is not None:
        if len(given) < _MIN_BYTES:
            raise WrongSecret(f"{_SETTING} has fewer than {_MIN_BYTES} bytes: use the output of 'openssl rand -hex 32'")
        return _Given(given)
    if database.path is None:
        raise WrongSecret(
            f"keys in PostgreSQL need a secret shared by all services: set {_SETTING} to a random text of at least "
            f"{_MIN_BYTES} bytes, for example the output of 'openssl rand -hex 32'"
        )
    return _File(database.path.with_suffix(".secret"))


def _kept(connection: sa.Connection) -> tuple[int, str] | None:
    if not sa.inspect(connection).has_table(ledger.name):
        return None
    row = connection.execute(_LEDGER).one()
    return row.version, row.fingerprint


def _begin(connection: sa.Connection, source: _Given | _File) -> bytes:
    if connection.dialect.name == "postgresql":
        connection.execute(_LOCK)
    found = _kept(connection)
    if found is not None:  # another process was faster
        return _checked(found, source)
    secret = source.find() or source.make()
    # Without a check for existing tables: a table of the same name belongs to another program and must be an error.
    METADATA.create_all(connection, checkfirst=False)
    connection.execute(_BEGIN_LEDGER, {"one": 1, "version": VERSION, "fingerprint": _fingerprint(secret)})
    return secret


def _checked(found: tuple[int, str], source: _Given | _File) -> bytes:
    version, fingerprint = found
    if version != VERSION:
        raise WrongVersion(f"the keys' tables have version {version}, but this program needs version {VERSION}")
    secret = source.find()
    if secret is None:
        raise WrongSecret(f"{source.name} is missing, and no key can be checked without it: restore the file")
    if not hmac.compare_digest(_fingerprint(secret), fingerprint):
        raise WrongSecret(f"{source.name} is not the secret that these keys were made with")
    return secret


def _fingerprint(secret: bytes) -> str:
    return keyed_hash(secret, "fingerprint of the service's secret").hex()
