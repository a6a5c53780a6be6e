"""API keys and what they spend: one SQLite file of hashes, allowances, reservations and charges.

A request reserves its cost before it is answered; the reservation becomes a charge when the answer is there, and
vanishes otherwise. All amounts are integer hundredths of a credit. What a request costs is the contract's to say.
"""

from __future__ import annotations

import hashlib
import hmac
import secrets
import sqlite3
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from datetime import date, datetime
from importlib.resources import files
from pathlib import Path
from typing import Any, Final

from contract.prices import credits_text
from contract.times import utc_now
from service.periods import next_renewal, period_start
from service.presence import Presence, forget, is_present, marks

_SCHEMA: Final = files("service").joinpath("keys.sql").read_text()
_KEY_COLUMNS: Final = "id, prefix, name, allowance, custom_plan, renewal_day, created_at, revoked_at"


@dataclass(frozen=True)
class Key:
    """A key as it may be shown: everything but its secret."""

    id: int
    prefix: str
    name: str
    allowance: int
    custom_plan: bool
    renewal_day: int
    created_at: datetime
    revoked_at: datetime | None


@dataclass(frozen=True)
class Balance:
    """A key's month: the allowance, what is charged and reserved of it, and the day that it is whole again."""

    allowance: int
    spent: int
    reserved: int
    renews_on: date

    @property
    def remaining(self) -> int:
        """What a further request may cost."""
        return self.allowance - self.spent - self.reserved


@dataclass(frozen=True)
class Usage:
    """What a key was charged on a day at an endpoint."""

    day: date
    endpoint: str
    requests: int
    credits: int


class CreditsExhausted(Exception):
    """The month's allowance does not cover the request."""

    def __init__(self, cost: int, balance: Balance) -> None:
        super().__init__(
            f"the request costs {credits_text(cost)} credits and {credits_text(balance.remaining)} are left "
            f"until the renewal on {balance.renews_on.isoformat()}"
        )


class KeysBusy(Exception):
    """Another process has held the key file for too long."""


class UnknownCharge(Exception):
    """There is no such reservation: it was settled or released before."""


class KeyStore:
    """The keys in a file, opened or made; one connection, safe from many threads, beside other processes.

    ``now`` tells the date that charges count at. Close it when done, or use it as a context manager.
    """

    def __init__(self, path: Path, now: Callable[[], datetime] = utc_now, busy_seconds: float = 5.0) -> None:
        path.parent.mkdir(parents=True, exist_ok=True)
        self.path = path
        self._now = now
        self._lock = threading.Lock()
        self._presence: Presence | None = None
        self._db = sqlite3.connect(path, timeout=busy_seconds, isolation_level=None, check_same_thread=False)
        self._db.execute("PRAGMA journal_mode = WAL")
        # A process that dies loses nothing so; a power cut may lose the last charges, never corrupt the file.
        self._db.execute("PRAGMA synchronous = NORMAL")
        self._db.executescript(_SCHEMA)

    def close(self) -> None:
        """Lets go of the file."""
        with self._lock:
            self._db.close()
            if self._presence is not None:
                self._presence.close()
                self._presence = None

    def __enter__(self) -> KeyStore:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    # --------------------------------------------------------------------- keys

    def create(
        self, name: str, allowance_credits_hundredths: int, custom_plan: bool = False, renewal_day: int = 1
    ) -> str:
        """Makes a key and returns its secret, which is not kept and can't be shown again.

        Raises ``ValueError`` on an allowance below zero and on a day that no month has.
        """
        if allowance_credits_hundredths < 0 or not 1 <= renewal_day <= 31:
            raise ValueError("the allowance may not be below zero, and the renewal day is one of 1 to 31")
        prefix, random = secrets.token_hex(4), secrets.token_hex(24)
        secret = f"hl_{prefix}_{random}"
        created_at = self._now().isoformat()
        row = (prefix, _hash(secret), name, allowance_credits_hundredths, custom_plan, renewal_day, created_at)
        with self._transaction() as db:
            db.execute(
                "INSERT INTO keys (prefix, secret_hash, name, allowance, custom_plan, renewal_day, created_at)"
                " VALUES (?, ?, ?, ?, ?, ?, ?)",
                row,
            )
        return secret

    def find(self, secret: str) -> Key | None:
        """The key of a secret, or None where it is unknown or revoked."""
        sql = f"SELECT secret_hash, {_KEY_COLUMNS} FROM keys WHERE prefix = ? AND revoked_at IS NULL"
        found = self._rows(sql, _prefix(secret))
        expected = found[0][0] if found else b""
        matches = hmac.compare_digest(expected, _hash(secret))
        return _key(found[0][1:]) if matches else None

    def keys(self) -> list[Key]:
        """All keys, revoked ones too, oldest first."""
        return [_key(row) for row in self._rows(f"SELECT {_KEY_COLUMNS} FROM keys ORDER BY id")]

    def revoke(self, prefix: str) -> bool:
        """Ends a key named by its prefix. Returns False where there is no such key in force."""
        with self._transaction() as db:
            ended = db.execute(
                "UPDATE keys SET revoked_at = ? WHERE prefix = ? AND revoked_at IS NULL",
                (self._now().isoformat(), prefix),
            )
            return ended.rowcount > 0

    # ------------------------------------------------------------------ charges

    def reserve(self, key_id: int, endpoint: str, cost: int) -> int:
        """Sets the cost of a request aside and returns the charge's id. Raises ``CreditsExhausted``."""
        with self._transaction() as db:
            balance = self._balance(key_id)
            if cost > balance.remaining:
                raise CreditsExhausted(cost, balance)
            ((charge,),) = db.execute(
                "INSERT INTO reservations (key_id, day, endpoint, credits, process)"
                " VALUES (?, ?, ?, ?, ?) RETURNING id",
                (key_id, self._today().isoformat(), endpoint, cost, self._present().name),
            ).fetchall()
            return int(charge)

    def settle(self, charge: int) -> Balance:
        """Turns a reservation into a charge of the day that it was made on, and returns what is left.

        Raises ``UnknownCharge`` the second time, so nothing is ever charged twice.
        """
        with self._transaction() as db:
            taken = db.execute(
                "DELETE FROM reservations WHERE id = ? RETURNING key_id, day, endpoint, credits", (charge,)
            ).fetchall()
            if not taken:
                raise UnknownCharge(f"charge {charge} is not reserved")
            db.execute(
                "INSERT INTO usage VALUES (?, ?, ?, 1, ?) ON CONFLICT (key_id, day, endpoint)"
                " DO UPDATE SET requests = requests + 1, credits = credits + excluded.credits",
                taken[0],
            )
            return self._balance(taken[0][0])

    def release(self, charge: int) -> None:
        """Gives a reservation back; one that is settled or released already stays as it is."""
        with self._transaction() as db:
            db.execute("DELETE FROM reservations WHERE id = ?", (charge,))

    def release_abandoned(self) -> int:
        """Gives back what processes that are gone had reserved: what was not answered is not billed.

        Returns how many reservations there were. To be called when a service starts.
        """
        with self._transaction() as db:  # marks are made within one too, so none is judged half-made
            named = {process for (process,) in db.execute("SELECT DISTINCT process FROM reservations")}
            gone = [name for name in named | marks(self.path) if not is_present(self.path, name)]
            released = sum(db.execute("DELETE FROM reservations WHERE process = ?", (name,)).rowcount for name in gone)
        for name in gone:
            forget(self.path, name)
        return released

    def balance(self, key_id: int) -> Balance:
        """A key's present month."""
        with self._lock, _busy_named():
            return self._balance(key_id)

    def usage(self, key_id: int) -> list[Usage]:
        """What a key was charged, by day and endpoint."""
        sql = "SELECT day, endpoint, requests, credits FROM usage WHERE key_id = ? ORDER BY day, endpoint"
        return [Usage(date.fromisoformat(day), *rest) for day, *rest in self._rows(sql, key_id)]

    # ---------------------------------------------------------------- internals

    def _balance(self, key_id: int) -> Balance:
        """The balance, read within the lock that the caller holds."""
        found = self._db.execute("SELECT allowance, renewal_day FROM keys WHERE id = ?", (key_id,)).fetchall()
        if not found:
            raise KeyError(f"there is no key with id {key_id}")
        allowance, renewal_day = found[0]
        since = (key_id, period_start(self._today(), renewal_day).isoformat())
        (spent,), (reserved,) = self._db.execute(
            "SELECT coalesce(sum(credits), 0) FROM usage WHERE key_id = ? AND day >= ?"
            " UNION ALL SELECT coalesce(sum(credits), 0) FROM reservations WHERE key_id = ? AND day >= ?",
            (*since, *since),
        ).fetchall()
        return Balance(allowance, spent, reserved, next_renewal(self._today(), renewal_day))

    def _today(self) -> date:
        return self._now().date()

    def _present(self) -> Presence:
        if self._presence is None:
            self._presence = Presence(self.path)
        return self._presence

    def _rows(self, sql: str, *values: Any) -> list[Any]:
        with self._lock, _busy_named():
            return self._db.execute(sql, values).fetchall()

    @contextmanager
    def _transaction(self) -> Iterator[sqlite3.Connection]:
        with self._lock, _busy_named():
            self._db.execute("BEGIN IMMEDIATE")
            try:
                yield self._db
                self._db.execute("COMMIT")
            except BaseException:
                self._db.execute("ROLLBACK")
                raise


@contextmanager
def _busy_named() -> Iterator[None]:
    try:
        yield
    except sqlite3.OperationalError as error:
        if error.sqlite_errorcode not in (sqlite3.SQLITE_BUSY, sqlite3.SQLITE_LOCKED):
            raise
        raise KeysBusy("the key file is busy") from error


def _key(row: tuple[Any, ...]) -> Key:
    key_id, prefix, name, allowance, custom_plan, renewal_day, created_at, revoked_at = row
    return Key(
        key_id,
        prefix,
        name,
        allowance,
        bool(custom_plan),
        renewal_day,
        datetime.fromisoformat(created_at),
        datetime.fromisoformat(revoked_at) if revoked_at else None,
    )


def _prefix(secret: str) -> str:
    """The part of a secret that it is looked up by; nothing of a text that is no secret."""
    parts = secret.split("_")
    return parts[1] if len(parts) == 3 and parts[0] == "hl" else ""


def _hash(secret: str) -> bytes:
    # The secret is 192 random bits, so a fast hash is as safe as a slow one.
    return hashlib.sha256(secret.encode()).digest()
