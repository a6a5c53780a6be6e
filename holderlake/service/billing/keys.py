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
from sqlalchemy import bindparam, insert, or_, select, update

from holderlake.core.contract.times import utc_now
from holderlake.core.storage.owners import Owner
from holderlake.core.storage.postgresql import Postgres
from holderlake.core.storage.state import StateConnection, Where, inserted, open_state
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
from holderlake.service.billing.tables import (
    ACCOUNTS,
    FORMAT,
    KEYS,
    LEDGER,
    TABLES,
    USAGE,
    KeysError,
    UnknownKey,
    WrongSecret,
)

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
_KEYS: Final = select(
    *(KEYS.c.id, KEYS.c.account_id, KEYS.c.prefix, ACCOUNTS.c.name, ACCOUNTS.c.allowance, ACCOUNTS.c.custom_plan),
    *(ACCOUNTS.c.renewal_day, KEYS.c.created_at, KEYS.c.ends_at),
).join_from(KEYS, ACCOUNTS)
_KEY_AND_HASH: Final = _KEYS.add_columns(KEYS.c.secret_hash).where(KEYS.c.prefix == bindparam("key_prefix"))
_USAGE: Final = (
    select(KEYS.c.prefix, ACCOUNTS.c.name, USAGE.c.day, USAGE.c.endpoint, USAGE.c.requests, USAGE.c.credits)
    .join_from(USAGE, KEYS)
    .join(ACCOUNTS, ACCOUNTS.c.id == KEYS.c.account_id)
    .order_by(USAGE.c.day, KEYS.c.id, USAGE.c.endpoint)
)
_PING: Final = update(LEDGER).where(LEDGER.c.one == 0).values(fingerprint=LEDGER.c.fingerprint)
"""Statement that changes nothing, but fails if the database cannot be written."""


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
        self._database = open_state(place, TABLES, "NORMAL", _REMEDY, FORMAT, busy_seconds)
        try:
            self.secret = open_secret(self._database, source)
        except BaseException:
            self._database.close()
            raise
        self._now = now
        self._owner = Owner(self._database, place)
        self._charges = Charges(self._database, self._owner, now)

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
            accounts_of_name = select(ACCOUNTS.c.id).where(ACCOUNTS.c.name == name).order_by(ACCOUNTS.c.id).limit(1)
            account = db.scalar(accounts_of_name) if reuse_account else None
            if account is None:
                (account,) = inserted(db, ACCOUNTS, [{"name": name, **plan}])
            return self._add_key(db, account)

        return self._database.run(work)

    def find(self, secret: str) -> Key | None:
        """Return the key of a secret, or None if the key is unknown or has ended."""
        shape = _SECRET.fullmatch(secret)
        rows = self._database.rows(_KEY_AND_HASH, {"key_prefix": shape[1] if shape else ""})
        *columns, expected = rows[0] if rows else (_NO_HASH,)
        matches = hmac.compare_digest(expected, keyed_hash(self.secret, secret))
        if not rows or not matches:
            return None
        key = _key(columns)
        return key if is_active(key.ends_at, self._now()) else None

    def keys(self) -> list[Key]:
        """Return all keys, also ended ones, oldest first."""
        return [_key(row) for row in self._database.rows(_KEYS.order_by(KEYS.c.id))]

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
            db.execute(update(ACCOUNTS).where(ACCOUNTS.c.id == key.account).values(plan))
            return _key_with(db, prefix)

        return self._database.run(work)

    def _add_key(self, db: StateConnection, account: int) -> str:
        prefix = secrets.token_hex(4)
        secret = f"hl_{prefix}_{secrets.token_hex(24)}"
        secret_hash, now = keyed_hash(self.secret, secret), _text_of(self._now())
        row = {"account_id": account, "prefix": prefix, "secret_hash": secret_hash, "created_at": now}
        db.execute(insert(KEYS), row)
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

    def balance(self, key_id: int) -> Balance:
        """Return the credits of a key's account in its current month. Raises ``UnknownKey``."""
        return self._charges.balance(key_id)

    def usage(self, prefix: str | None = None, since: date | None = None, until: date | None = None) -> list[Usage]:
        """Return the usage of all keys or of one, by day, key and endpoint. ``since`` and ``until`` are inclusive.

        Raises ``UnknownKey``.
        """
        shape = "" if prefix is None else _valid_prefix(prefix)
        if prefix is not None and not self._database.rows(_KEYS.where(KEYS.c.prefix == shape)):
            raise UnknownKey(f"no API key has the prefix {shape or _NO_PREFIX}; {_LIST}")
        days = USAGE.c.day.between((since or date.min).isoformat(), (until or date.max).isoformat())
        usage = _USAGE.where(days, *([] if prefix is None else [KEYS.c.prefix == shape]))
        return [
            Usage(key_prefix, name, date.fromisoformat(day), *counts)
            for key_prefix, name, day, *counts in self._database.rows(usage)
        ]


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
    row = db.execute(_KEYS.where(KEYS.c.prefix == shape)).first()
    if row is None:
        raise UnknownKey(f"no API key has the prefix {shape or _NO_PREFIX}; {_LIST}")
    return _key(row)


def _end_key(db: StateConnection, prefix: str, at: datetime) -> bool:
    text = _text_of(at)
    is_active_key = KEYS.c.prefix == _valid_prefix(prefix), or_(KEYS.c.ends_at.is_(None), KEYS.c.ends_at > text)
    return db.execute(update(KEYS).where(*is_active_key).values(ends_at=text)).rowcount > 0


def _text_of(when: datetime) -> str:
    """Return a time as a text of fixed length, so that texts compare as times do."""
    return when.isoformat(timespec="microseconds")


def _valid_prefix(prefix: str) -> str:
    """Return the prefix of a key if it is well-formed, else an empty text, which matches no key.

    PostgreSQL would refuse a text with a NUL character.
    """
    return prefix if _PREFIX.fullmatch(prefix) else ""


def _plan(allowance: int, custom_plan: bool, renewal_day: int) -> dict[str, int]:
    if not 0 <= allowance <= _MAX_ALLOWANCE or not 1 <= renewal_day <= 31:
        raise ValueError(
            f"invalid plan with {allowance / 100:,.2f} credits and renewal day {renewal_day}: "
            f"use an allowance of 0 to {_MAX_ALLOWANCE // 100:,} credits and a renewal day of 1 to 31"
        )
    return {"allowance": allowance, "custom_plan": int(custom_plan), "renewal_day": renewal_day}
