"""The service's secret, the key of its hashes and signatures. It is checked when the database is opened.

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

from sqlalchemy import insert, select

from holderlake.core.storage.atomic_files import write_whole
from holderlake.core.storage.state import State, StateConnection, Where
from holderlake.service.billing.tables import LEDGER, WrongSecret

_SECRET_BYTES: Final = 32
_MIN_BYTES: Final = 16
_SETTING: Final = "HOLDERLAKE_SERVICE__SECRET"
_FINGERPRINT: Final = select(LEDGER.c.fingerprint)


def keyed_hash(secret: bytes, text: str) -> bytes:
    """Return the HMAC-SHA256 of a text. API keys have 192 random bits, so a slow password hash would add no safety."""
    return hmac.digest(secret, text.encode("utf-8", "surrogatepass"), hashlib.sha256)


def source_of_secret(place: Where, secret: bytes | None) -> bytes | Path:
    """Return the secret of the settings, or the file next to a SQLite database. Raises ``WrongSecret``."""
    if secret is None:
        if isinstance(place, Path):
            return place.with_suffix(".secret")
        raise WrongSecret(
            f"keys in PostgreSQL need a secret shared by all services: set {_SETTING} to a random text of at least "
            f"{_MIN_BYTES} bytes, for example the output of 'openssl rand -hex 32'"
        )
    if len(secret) < _MIN_BYTES:
        raise WrongSecret(f"{_SETTING} has fewer than {_MIN_BYTES} bytes: use the output of 'openssl rand -hex 32'")
    return secret


def open_secret(database: State, source: bytes | Path) -> bytes:
    """Check the service's secret against the database, and return it. Make it if neither has one.

    Raises ``WrongSecret``.
    """
    stored = database.rows(_FINGERPRINT)
    return _checked(stored[0][0], source) if stored else database.run(lambda db: _create(db, source))


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


def _create(db: StateConnection, source: bytes | Path) -> bytes:
    stored = db.scalar(_FINGERPRINT)
    if stored is not None:  # another process was faster
        return _checked(stored, source)
    # The secret is made within this transaction, so that only one process makes it.
    secret = _read(source)
    if secret is None:
        secret = secrets.token_bytes(_SECRET_BYTES)
        write_whole(Path(os.fsdecode(source)), secret)  # readable by its owner only
    db.execute(insert(LEDGER), {"fingerprint": _fingerprint(secret)})
    return secret


def _checked(fingerprint: str, source: bytes | Path) -> bytes:
    name = _SETTING if isinstance(source, bytes) else source
    secret = _read(source)
    if secret is None:
        raise WrongSecret(f"{name} is missing, and no key can be checked without it: restore the file")
    if not hmac.compare_digest(_fingerprint(secret), fingerprint):
        raise WrongSecret(f"{name} is not the secret that these keys were made with: restore the original secret")
    return secret


def _fingerprint(secret: bytes) -> str:
    return keyed_hash(secret, "fingerprint of the service's secret").hex()
