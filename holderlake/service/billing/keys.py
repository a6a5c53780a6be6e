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

import sqlalchemy as sa

from holderlake.contract.times import utc_now
from holderlake.service.billing.call_counts import CallCounts
from holderlake.service.billing.charges import (
    Balance,
    Charge,
    ChargeRequest,
    Charges,
    CreditsExhausted,
    KeyEnded,
    is_active,
)
from holderlake.service.billing.secret import keyed_hash, open_tables
from holderlake.service.database.connections import Database
from holderlake.service.database.errors import (
    DatabaseUnavailable,
    KeysBusy,
    KeysError,
    UnknownKey,
    WrongSecret,
    WrongVersion,
)
from holderlake.service.database.leases import open_lease
from holderlake.service.database.schema import accounts, keys, ledger, usage

__all__ = [
    "Balance",
    "Charge",
    "ChargeRequest",
    "CreditsExhausted",
    "DatabaseUnavailable",
    "Key",
    "KeyEnded",
    "KeyStore",
    "KeysBusy",
    "KeysError",
    "UnknownKey",
    "Usage",
    "WrongSecret",
    "WrongVersion",
]

_PREFIX: Final = re.compile(r"[0-9a-f]{8}")
_SECRET: Final = re.compile(r"hl_([0-9a-f]{8})_[0-9a-f]{48}")
_MAX_ALLOWANCE: Final = 10**15
_NO_HASH: Final = bytes(32)
_NO_PREFIX: Final = "given, which is not 8 hexadecimal digits"  # it may be a secret, so it is not quoted
_LIST: Final = "'holderlake keys list' shows all keys"
_KEYS: Final = sa.select(
    keys.c.id,
    keys.c.account_id,
    keys.c.prefix,
    accounts.c.name,
    accounts.c.allowance,
    accounts.c.custom_plan,
    accounts.c.renewal_day,
    keys.c.created_at,
    keys.c.ends_at,
).join_from(keys, accounts)
_ALL_KEYS: Final = _KEYS.order_by(keys.c.id)
_KEY: Final = _KEYS.where(keys.c.prefix == sa.bindparam("prefix"))
_KEY_AND_HASH: Final = _KEY.add_columns(keys.c.secret_hash)
_OPEN_ACCOUNT: Final = sa.insert(accounts).returning(accounts.c.id)
_ACCOUNT_NAMED: Final = (
    sa.select(accounts.c.id).where(accounts.c.name == sa.bindparam("of")).order_by(accounts.c.id).limit(1)
)
_ADD_KEY: Final = sa.insert(keys)
_END_KEY: Final = (
    sa.update(keys)
    .where(keys.c.prefix == sa.bindparam("of"), keys.c.ends_at.is_(None) | (keys.c.ends_at > sa.bindparam("at")))
    .values(ends_at=sa.bindparam("at"))
)
_CHANGE: Final = (
    sa.update(accounts)
    .where(accounts.c.id == sa.bindparam("of"))
    .values({name: sa.bindparam(f"new_{name}") for name in ("allowance", "custom_plan", "renewal_day")})
)
_USAGE: Final = (
    sa.select(keys.c.prefix, accounts.c.name, usage.c.day, usage.c.endpoint, usage.c.requests, usage.c.credits)
    .select_from(usage.join(keys, usage.c.key_id == keys.c.id).join(accounts, keys.c.account_id == accounts.c.id))
    .where(usage.c.day.between(sa.bindparam("since"), sa.bindparam("until")))
    .order_by(usage.c.day, keys.c.id, usage.c.endpoint)
)
_USAGE_OF_KEY: Final = _USAGE.where(keys.c.prefix == sa.bindparam("prefix"))
_PING: Final = sa.select(ledger.c.version).where(ledger.c.one == 1).with_for_update()


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

    ``where`` is the path of a SQLite file, or a URL: ``postgresql://user:password@host/name``, ``sqlite:///file``.
    Missing tables are created. A PostgreSQL pooler must keep sessions (no transaction pooling).

    ``secret`` is the service's secret. By default it is in a file next to the SQLite file (``<stem>.secret``), which is
    created if it is missing. ``now`` returns the current time (UTC). ``busy_seconds`` limits the wait for other
    writers.

    A ``KeyStore`` is a context manager; without ``with``, call ``close``. The constructor raises ``WrongSecret``,
    ``WrongVersion``, ``KeysBusy``, and ``ValueError`` for an invalid URL. All methods raise ``KeysBusy``.
    """

    def __init__(
        self,
        location: Path | str,
        secret: bytes | None = None,
        now: Callable[[], datetime] = utc_now,
        busy_seconds: float = 5.0,
    ) -> None:
        self._database = Database(location, busy_seconds)
        try:
            self.secret = open_tables(self._database, secret)
        except BaseException:
            self._database.close()
            raise
        self.path = self._database.path
        self._now = now
        self._lease = open_lease(self._database)
        self._charges = Charges(self._database, self._lease, now)
        self._calls = CallCounts(self._database, self.secret)

    def close(self) -> None:
        """Close the database. Other processes release the reservations that are still open."""
        self._lease.close()
        self._database.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    def ping(self) -> None:
        """Check that the database can be read and written. Raises ``KeysBusy`` or ``DatabaseUnavailable``."""
        self._database.write(lambda connection: connection.execute(_PING).one())

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

        def work(connection: sa.Connection) -> str:
            account = connection.execute(_ACCOUNT_NAMED, {"of": name}).scalar() if reuse_account else None
            if account is None:
                account = connection.execute(_OPEN_ACCOUNT, {"name": name, **plan}).scalar_one()
            return self._add_key(connection, account)

        return self._database.write(work)

    def find(self, secret: str) -> Key | None:
        """Return the key of a secret, or None if the key is unknown or has ended."""
        shape = _SECRET.fullmatch(secret)
        rows = self._database.read(_KEY_AND_HASH, prefix=shape[1] if shape else "")
        *columns, expected = rows[0] if rows else (_NO_HASH,)
        matches = hmac.compare_digest(expected, keyed_hash(self.secret, secret))
        if not rows or not matches:
            return None
        key = Key(*columns)
        return key if is_active(key.ends_at, self._now()) else None

    def keys(self) -> list[Key]:
        """Return all keys, also ended ones, oldest first."""
        return [Key(*row) for row in self._database.read(_ALL_KEYS)]

    def revoke(self, prefix: str) -> bool:
        """End the key with this prefix. Return False if there is no active key with it."""
        now = self._now()
        return self._database.write(lambda connection: self._end_key(connection, prefix, now))

    def rotate(self, prefix: str, grace: timedelta = timedelta(0)) -> str:
        """Replace the key with this prefix by a new key of the same account. Return the new key's secret.

        The old key stays valid until ``grace`` has passed.

        Raises ``UnknownKey`` if there is no active key with this prefix, and ``ValueError`` for a negative grace
        period.
        """
        if grace < timedelta(0):
            raise ValueError(f"invalid grace period {grace}: use zero or more")
        now = self._now()

        def work(connection: sa.Connection) -> str:
            key = self._key(connection, prefix)
            if not is_active(key.ends_at, now):
                raise UnknownKey(f"the key with prefix {key.prefix} has ended; {_LIST}")
            self._end_key(connection, prefix, now + grace)  # keeps an earlier end
            return self._add_key(connection, key.account)

        return self._database.write(work)

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

        def work(connection: sa.Connection) -> Key:
            key = self._key(connection, prefix)
            plan = _plan(
                key.allowance if allowance is None else allowance,
                key.custom_plan if custom_plan is None else custom_plan,
                key.renewal_day if renewal_day is None else renewal_day,
            )
            connection.execute(_CHANGE, {"of": key.account, **{f"new_{name}": value for name, value in plan.items()}})
            return self._key(connection, prefix)

        return self._database.write(work)

    def _add_key(self, connection: sa.Connection, account: int) -> str:
        prefix = secrets.token_hex(4)
        secret = f"hl_{prefix}_{secrets.token_hex(24)}"
        row = {"account_id": account, "prefix": prefix, "created_at": self._now(), "ends_at": None}
        connection.execute(_ADD_KEY, {**row, "secret_hash": keyed_hash(self.secret, secret)})
        return secret

    def _key(self, connection: sa.Connection, prefix: str) -> Key:
        row = connection.execute(_KEY, {"prefix": _valid_prefix(prefix)}).one_or_none()
        if row is None:
            raise UnknownKey(f"no API key has the prefix {_valid_prefix(prefix) or _NO_PREFIX}; {_LIST}")
        return Key(*row)

    def _end_key(self, connection: sa.Connection, prefix: str, at: datetime) -> bool:
        return connection.execute(_END_KEY, {"of": _valid_prefix(prefix), "at": at}).rowcount > 0

    # ------------------------------------------------------------------ charges

    def book(
        self, settled: Sequence[str], released: Sequence[str], requested: Sequence[ChargeRequest]
    ) -> list[Charge | CreditsExhausted | KeyEnded]:
        """Settle, release and then reserve in one transaction. Return a result for each of ``requested``, in the same
        order.

        ``settled`` and ``released`` are ids of charges; an unknown id is logged and ignored. If an account cannot pay a
        request, its result is the error, and the later requests are still tried. If the method raises ``KeysBusy``, the
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
        days: dict[str, Any] = {"since": since or date.min, "until": until or date.max}
        if prefix is None:
            return [Usage(*row) for row in self._database.read(_USAGE, **days)]
        shape = _valid_prefix(prefix)
        if not self._database.read(_KEY, prefix=shape):
            raise UnknownKey(f"no API key has the prefix {shape or _NO_PREFIX}; {_LIST}")
        return [Usage(*row) for row in self._database.read(_USAGE_OF_KEY, **days, prefix=shape)]

    def count_calls(self, callers: Sequence[str], seconds: int) -> list[tuple[int, float]]:
        """Count one call for each of ``callers``, which are IP addresses or networks as text.

        A caller's time window of ``seconds`` begins at its first call. Returns a pair for each caller, in the same
        order: the number of its calls in the window so far, and the end of the window in unix seconds.
        """
        return self._calls.count(callers, seconds)


def _valid_prefix(prefix: str) -> str:
    """Return the prefix of a key if it is well-formed, else an empty text, which matches no key.

    PostgreSQL would refuse a text with a NUL character.
    """
    return prefix if _PREFIX.fullmatch(prefix) else ""


def _plan(allowance: int, custom_plan: bool, renewal_day: int) -> dict[str, int | bool]:
    if not 0 <= allowance <= _MAX_ALLOWANCE or not 1 <= renewal_day <= 31:
        raise ValueError(
            f"invalid plan with {allowance / 100:,.2f} credits and renewal day {renewal_day}: "
            f"use an allowance of 0 to {_MAX_ALLOWANCE // 100:,} credits and a renewal day of 1 to 31"
        )
    return {"allowance": allowance, "custom_plan": custom_plan, "renewal_day": renewal_day}
