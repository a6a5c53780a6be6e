"""The service's own secret: what hashes of keys, and signatures, are made with.

Who has a copy of the database alone can neither use a key nor try keys out. Beside a SQLite file it is made by itself;
several hosts at one PostgreSQL database are given the same one.
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

from holderlake.service.database.errors import WrongSecret, WrongVersion
from holderlake.service.database.schema import METADATA, Database, ledger

VERSION: Final = 1
"""Of the tables."""

_BYTES: Final = 32
_LEAST: Final = 16
_SETTING: Final = "HOLDERLAKE_SERVICE__SECRET"
_OPENING: Final = 0x686F6C6465726C61
"""PostgreSQL's lock for who makes the tables."""
_LEDGER: Final = sa.select(ledger.c.version, ledger.c.fingerprint)
_BEGIN_LEDGER: Final = sa.insert(ledger)
_LOCK: Final = sa.select(sa.func.pg_advisory_xact_lock(sa.cast(_OPENING, sa.BigInteger)))


def keyed_hash(secret: bytes, text: str) -> bytes:
    """HMAC-SHA256. A key is 192 random bits, so that a fast hash is as safe as a slow one."""
    return hmac.digest(secret, text.encode("utf-8", "surrogatepass"), hashlib.sha256)


def open_tables(database: Database, given: bytes | None) -> bytes:
    """The service's secret, which fits the tables; both are made where there are none yet.

    ``given`` wins over the file beside a SQLite database. Raises ``WrongSecret`` and ``WrongVersion``.
    """
    source = _source(database, given)
    found = database.read_with(_kept)
    if found is None:
        return database.write(lambda connection: _begin(connection, source))
    return _fitting(found, source)


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
        if len(secret) < _LEAST:
            raise WrongSecret(f"{self.name} does not hold a secret")
        return secret

    def make(self) -> bytes:
        """Whole or not at all; within the transaction that makes the tables, so that of processes that start at once
        only one does."""
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
        if len(given) < _LEAST:
            raise WrongSecret(f"{_SETTING} has fewer than {_LEAST} bytes; 'openssl rand -hex 32' makes a good one")
        return _Given(given)
    if database.path is None:
        raise WrongSecret(
            f"keys in PostgreSQL need a secret that all services share: set {_SETTING} to a random text of at least "
            f"{_LEAST} bytes; 'openssl rand -hex 32' makes one"
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
        return _fitting(found, source)
    secret = source.find() or source.make()
    # All tables are new, so that one of the same name that belongs to something else is an error, not taken for ours.
    METADATA.create_all(connection, checkfirst=False)
    connection.execute(_BEGIN_LEDGER, {"one": 1, "version": VERSION, "fingerprint": _fingerprint(secret)})
    return secret


def _fitting(found: tuple[int, str], source: _Given | _File) -> bytes:
    version, fingerprint = found
    if version != VERSION:
        raise WrongVersion(f"the keys' tables are of version {version}, and this program knows version {VERSION}")
    secret = source.find()
    if secret is None:
        raise WrongSecret(f"{source.name} is not there, and no key can be told without it; bring it back")
    if not hmac.compare_digest(_fingerprint(secret), fingerprint):
        raise WrongSecret(f"{source.name} is not the secret that these keys were made with")
    return secret


def _fingerprint(secret: bytes) -> str:
    return keyed_hash(secret, "fingerprint of the service's secret").hex()
