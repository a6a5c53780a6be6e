"""API keys and their accounts, in SQLite or PostgreSQL. ``KeyStore`` is the only access to them.

An account has an allowance and a plan; its keys spend the allowance. A request first reserves its cost. Sending the
answer settles the reservation, and a failure releases it. Amounts are integer hundredths of a credit.
"""

from __future__ import annotations

import hmac
import re
import secrets
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from datetime import date, datetime, timedelta
from pathlib import Path
from types import TracebackType
from typing import Any, Final, Self

from pydantic import SecretStr

from holderlake.core.contract.times import utc_now
from holderlake.core.storage.owners import Owner
from holderlake.core.storage.postgresql import Postgres
from holderlake.core.storage.state import StateConnection, Where, inserted, kind_of, open_state
from holderlake.service.billing.call_counts import CallCounts
from holderlake.service.billing.charges import (
    Balance,
    Charge,
    ChargeRequest,
    Charges,
    CreditsExhausted,
    KeyEnded,
    is_active,
    time_of,
)
from holderlake.service.billing.secret import keyed_hash, open_secret, source_of_secret
from holderlake.service.billing.tables import FORMAT, SCHEMAS, KeysError, UnknownKey, WrongSecret

__all__ = [
    "Balance",
    "Charge",
    "ChargeRequest",
    "CreditsExhausted",
    "Key",
    "KeyEnded",
    "KeyStore",
    "KeysError",
    "UnknownKey",
    "Usage",
    "WrongSecret",
    "postgresql_place",
]

_PREFIX: Final = re.compile(r"[0-9a-f]{8}")
_SECRET: Final = re.compile(r"hl_([0-9a-f]{8})_[0-9a-f]{48}")
_MAX_ALLOWANCE: Final = 10**15
_NO_HASH: Final = bytes(32)
_NO_PREFIX: Final = "given, which is not 8 hexadecimal digits"  # it may be a secret, so it is not quoted
_REMEDY: Final = "restore it from a backup, or move it away to begin without keys"
_LIST: Final = "'holderlake keys list' shows all keys"
_COLUMNS: Final = "keys.id, account_id, prefix, name, allowance, custom_plan, renewal_day, created_at, ends_at"
_KEYS: Final = "FROM keys JOIN accounts ON accounts.id = account_id"
_ALL_KEYS: Final = f"SELECT {_COLUMNS} {_KEYS} ORDER BY keys.id"
_KEY: Final = f"SELECT {_COLUMNS} {_KEYS} WHERE prefix = ?"
_KEY_AND_HASH: Final = f"SELECT {_COLUMNS}, secret_hash {_KEYS} WHERE prefix = ?"
_OPEN_ACCOUNT: Final = "INSERT INTO accounts (name, allowance, custom_plan, renewal_day) VALUES (?, ?, ?, ?)"
_ACCOUNT_NAMED: Final = "SELECT id FROM accounts WHERE name = ? ORDER BY id LIMIT 1"
_ADD_KEY: Final = "INSERT INTO keys (account_id, prefix, secret_hash, created_at) VALUES (?, ?, ?, ?)"
_END_KEY: Final = "UPDATE keys SET ends_at = ? WHERE prefix = ? AND (ends_at IS NULL OR ends_at > ?)"
_CHANGE: Final = "UPDATE accounts SET allowance = ?, custom_plan = ?, renewal_day = ? WHERE id = ?"
_USAGE: Final = """
    SELECT prefix, name, day, endpoint, requests, credits
    FROM usage JOIN keys ON keys.id = usage.key_id JOIN accounts ON accounts.id = keys.account_id
    WHERE day BETWEEN ? AND ? AND (prefix = ? OR ? = '')
    ORDER BY day, keys.id, endpoint
"""
_PING: Final = "UPDATE ledger SET fingerprint = fingerprint WHERE one = 0"
"""SQL that changes nothing, but fails if the database cannot be written."""


@dataclass(frozen=True)
class Key:
    """An API key without its secret, and the plan of its account.

    ``prefix`` is a part of the secret, 8 hexadecimal digits, by which operators name the key. ``allowance`` is in
    hundredths of a credit a month. ``ends_at`` (UTC) is None for a key without an end.
    """

    id: int
    account: int
    prefix: str
    name: str
    allowance: int
    custom_plan: bool
    renewal_day: int
    created_at: datetime
    ends_at: datetime | None


@dataclass(frozen=True)
class Usage:
    """The usage of one key at one endpoint on one day (UTC).

    ``requests`` is the number of charged requests, ``credits`` their cost in hundredths of a credit. ``prefix`` and
    ``name`` are those of the key.
    """

    prefix: str
    name: str
    day: date
    endpoint: str
    requests: int
    credits: int


class KeyStore:
    """API keys, accounts and charges in a database. Several threads, processes and hosts may share it.

    ``place`` is the path of a SQLite file, or a database of PostgreSQL (see ``postgresql_place``). Missing tables are
    created. A PostgreSQL pooler must keep sessions (no transaction pooling).

    ``secret`` is the service's secret. By default it is in a file next to the SQLite file (``<stem>.secret``), which is
    created if it is missing. ``now`` returns the current time (UTC). ``busy_seconds`` limits the wait for other
    writers.

    A ``KeyStore`` is a context manager; without ``with``, call ``close``. The constructor raises ``WrongSecret``. All
    methods raise ``DatabaseError``; if a retry may succeed, it is ``DatabaseBusy``.
    """

    def __init__(
        self,
        place: Where,
        secret: bytes | None = None,
        now: Callable[[], datetime] = utc_now,
        busy_seconds: float = 5.0,
    ) -> None:
        source = source_of_secret(place, secret)
        # A crash of the process loses nothing; a power cut may lose the last charges, but never corrupts the file.
        self._database = open_state(place, SCHEMAS[kind_of(place)], "NORMAL", _REMEDY, FORMAT, busy_seconds)
        try:
            self.secret = open_secret(self._database, source)
        except BaseException:
            self._database.close()
            raise
        self._now = now
        self._owner = Owner(self._database, place)
        self._charges = Charges(self._database, self._owner, now)
        self._calls = CallCounts(self._database, self.secret)

    def close(self) -> None:
        """Close the database. Other processes release the reservations that are still open."""
        self._owner.close()
        self._database.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    def ping(self) -> None:
        """Check that the database can be read and written. Raises ``DatabaseError``."""
        self._database.run(lambda db: db.execute(_PING))

    # --------------------------------------------------------------------- keys

    def create(
        self,
        name: str,
        allowance_credits_hundredths: int,
        custom_plan: bool = False,
        renewal_day: int = 1,
        reuse_account: bool = False,
    ) -> str:
        """Open an account and return the secret of its first key. Only a hash of the secret is stored.

        With ``reuse_account``, an existing account of that name gets one more key instead, and keeps its plan.

        ``renewal_day`` is the day of the month on which the allowance begins again. Raises ``ValueError`` for an
        invalid name, allowance or renewal day.
        """
        if not name.strip() or not name.isprintable():
            raise ValueError(f"invalid name {name!r}: use one line of printable text")
        plan = _plan(allowance_credits_hundredths, custom_plan, renewal_day)

        def work(db: StateConnection) -> str:
            accounts = db.execute(_ACCOUNT_NAMED, (name,)).fetchall() if reuse_account else []
            account = accounts[0][0] if accounts else inserted(db, _OPEN_ACCOUNT, (name, *plan))[0]
            return self._add_key(db, account)

        return self._database.run(work)

    def find(self, secret: str) -> Key | None:
        """Return the key of a secret, or None if the key is unknown or has ended."""
        shape = _SECRET.fullmatch(secret)
        rows = self._database.rows(_KEY_AND_HASH, (shape[1] if shape else "",))
        *columns, expected = rows[0] if rows else (_NO_HASH,)
        matches = hmac.compare_digest(expected, keyed_hash(self.secret, secret))
        if not rows or not matches:
            return None
        key = _key(columns)
        return key if is_active(key.ends_at, self._now()) else None

    def keys(self) -> list[Key]:
        """Return all keys, also ended ones, oldest first."""
        return [_key(row) for row in self._database.rows(_ALL_KEYS)]

    def revoke(self, prefix: str) -> bool:
        """End the key with this prefix. Return False if there is no active key with it."""
        now = self._now()
        return self._database.run(lambda db: _end_key(db, prefix, now))

    def rotate(self, prefix: str, grace: timedelta = timedelta(0)) -> str:
        """Replace the key with this prefix by a new key of the same account. Return the new key's secret.

        The old key stays valid until ``grace`` has passed.

        Raises ``UnknownKey`` if there is no active key with this prefix, and ``ValueError`` for a negative grace
        period.
        """
        if grace < timedelta(0):
            raise ValueError(f"invalid grace period {grace}: use zero or more")
        now = self._now()

        def work(db: StateConnection) -> str:
            key = _key_with(db, prefix)
            if not is_active(key.ends_at, now):
                raise UnknownKey(f"the key with prefix {key.prefix} has ended; {_LIST}")
            _end_key(db, prefix, now + grace)  # keeps an earlier end
            return self._add_key(db, key.account)

        return self._database.run(work)

    def change(
        self,
        prefix: str,
        allowance: int | None = None,
        custom_plan: bool | None = None,
        renewal_day: int | None = None,
    ) -> Key:
        """Change the plan of a key's account, for all keys of the account. None leaves a value unchanged.

        ``allowance`` is in hundredths of a credit a month. The new renewal day applies to the current month too.
        Raises ``UnknownKey``, and ``ValueError`` for an invalid allowance or renewal day.
        """

        def work(db: StateConnection) -> Key:
            key = _key_with(db, prefix)
            plan = _plan(
                key.allowance if allowance is None else allowance,
                key.custom_plan if custom_plan is None else custom_plan,
                key.renewal_day if renewal_day is None else renewal_day,
            )
            db.execute(_CHANGE, (*plan, key.account))
            return _key_with(db, prefix)

        return self._database.run(work)

    def _add_key(self, db: StateConnection, account: int) -> str:
        prefix = secrets.token_hex(4)
        secret = f"hl_{prefix}_{secrets.token_hex(24)}"
        db.execute(_ADD_KEY, (account, prefix, keyed_hash(self.secret, secret), _text_of(self._now())))
        return secret

    # ------------------------------------------------------------------ charges

    def book(
        self, settled: Sequence[str], released: Sequence[str], requested: Sequence[ChargeRequest]
    ) -> list[Charge | CreditsExhausted | KeyEnded]:
        """Settle, release and then reserve in one transaction. Return a result for each of ``requested``, in the same
        order.

        ``settled`` and ``released`` are ids of charges; an unknown id is logged and ignored. If an account cannot pay a
        request, its result is the error, and the later requests are still tried. If the method raises an error, the
        reservations do not exist, or the next call of ``book`` releases them.
        """
        return self._charges.book(settled, released, requested)

    def reserve(self, key_id: int, endpoint: str, cost: int) -> str:
        """Reserve ``cost`` hundredths of a credit for one request. Return the id of the charge.

        ``key_id`` is ``Key.id``, ``endpoint`` the name under which usage is counted. Raises ``CreditsExhausted`` and
        ``KeyEnded``.
        """
        (result,) = self.book((), (), (ChargeRequest(key_id, endpoint, cost),))
        if isinstance(result, Charge):
            return result.id
        raise result

    def settle(self, charge: str) -> None:
        """Turn the reservation with this id into a charge. Its date is the day of the reservation."""
        self.book((charge,), (), ())

    def release(self, charge: str) -> None:
        """Delete the reservation with this id, so that its credits are available again."""
        self.book((), (charge,), ())

    def release_abandoned(self) -> int:
        """Release the reservations of ended processes, whose answers were not sent. Return their number.

        This happens automatically before a process's first reservation, and before a request is refused.
        """
        return self._charges.release_abandoned()

    def balance(self, key_id: int) -> Balance:
        """Return the credits of a key's account in its current month. Raises ``UnknownKey``."""
        return self._charges.balance(key_id)

    def usage(self, prefix: str | None = None, since: date | None = None, until: date | None = None) -> list[Usage]:
        """Return the usage of all keys or of one, by day, key and endpoint. ``since`` and ``until`` are inclusive.

        Raises ``UnknownKey``.
        """
        shape = "" if prefix is None else _valid_prefix(prefix)
        if prefix is not None and not self._database.rows(_KEY, (shape,)):
            raise UnknownKey(f"no API key has the prefix {shape or _NO_PREFIX}; {_LIST}")
        days = ((since or date.min).isoformat(), (until or date.max).isoformat())
        return [
            Usage(key_prefix, name, date.fromisoformat(day), *counts)
            for key_prefix, name, day, *counts in self._database.rows(_USAGE, (*days, shape, shape))
        ]

    def count_calls(self, callers: Sequence[str], seconds: int) -> list[tuple[int, float]]:
        """Count one call for each of ``callers``, which are IP addresses or networks as text.

        A caller's time window of ``seconds`` begins at its first call. Returns a pair for each caller, in the same
        order: the number of its calls in the window so far, and the end of the window in unix seconds.
        """
        return self._calls.count(callers, seconds)


def postgresql_place(url: SecretStr, files: Path) -> Postgres:
    """Return the place of the keys in PostgreSQL. Processes of one host also lock files next to the path ``files``.

    The tables are in the schema that the URL's connections have by default. Callers of the service do not wait for a
    server that is away.
    """
    return Postgres(url, files, None, bridged_seconds=0.0, setting="service.database (HOLDERLAKE_SERVICE__DATABASE)")


def _key(row: Sequence[Any]) -> Key:
    key_id, account, prefix, name, allowance, custom_plan, renewal_day, created_at, ends_at = row
    plan = (allowance, bool(custom_plan), renewal_day)
    return Key(key_id, account, prefix, name, *plan, datetime.fromisoformat(created_at), time_of(ends_at))


def _key_with(db: StateConnection, prefix: str) -> Key:
    shape = _valid_prefix(prefix)
    rows = db.execute(_KEY, (shape,)).fetchall()
    if not rows:
        raise UnknownKey(f"no API key has the prefix {shape or _NO_PREFIX}; {_LIST}")
    return _key(rows[0])


def _end_key(db: StateConnection, prefix: str, at: datetime) -> bool:
    text = _text_of(at)
    return db.execute(_END_KEY, (text, _valid_prefix(prefix), text)).rowcount > 0


def _text_of(when: datetime) -> str:
    """Return a time as a text of fixed length, so that texts compare as times do."""
    return when.isoformat(timespec="microseconds")


def _valid_prefix(prefix: str) -> str:
    """Return the prefix of a key if it is well-formed, else an empty text, which matches no key.

    PostgreSQL would refuse a text with a NUL character.
    """
    return prefix if _PREFIX.fullmatch(prefix) else ""


def _plan(allowance: int, custom_plan: bool, renewal_day: int) -> tuple[int, int, int]:
    if not 0 <= allowance <= _MAX_ALLOWANCE or not 1 <= renewal_day <= 31:
        raise ValueError(
            f"invalid plan with {allowance / 100:,.2f} credits and renewal day {renewal_day}: "
            f"use an allowance of 0 to {_MAX_ALLOWANCE // 100:,} credits and a renewal day of 1 to 31"
        )
    return allowance, int(custom_plan), renewal_day
