"""API keys and the accounts that they spend of, in SQLite or PostgreSQL; the one door to all that is kept of them.

An account has an allowance and a plan; keys are the secrets that spend of it. A request reserves its cost before it is
answered; the reservation becomes a charge when the answer is there, and vanishes otherwise. All amounts are integer
hundredths of a credit. What a request costs is the contract's to say.
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
from holderlake.service.billing.call_counts import Calls
from holderlake.service.billing.charges import Balance, Charge, Charges, CreditsExhausted, Demand, KeyEnded, is_in_force
from holderlake.service.billing.secret import keyed_hash, open_tables
from holderlake.service.database.errors import (
    DatabaseUnavailable,
    KeysBusy,
    KeysError,
    UnknownKey,
    WrongSecret,
    WrongVersion,
)
from holderlake.service.database.leases import presence_at
from holderlake.service.database.schema import Database, accounts, keys, ledger, usage

__all__ = [
    "Balance",
    "Charge",
    "CreditsExhausted",
    "DatabaseUnavailable",
    "Demand",
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
_MOST_CREDITS: Final = 10**15
_NO_HASH: Final = bytes(32)
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
    """A key as it may be shown, everything but its secret, with its account's plan. Without end: None."""

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
    """What a key was charged on a day at an endpoint."""

    prefix: str
    name: str
    day: date
    endpoint: str
    requests: int
    credits: int


class KeyStore:
    """The keys and charges in a database, opened or made; for many threads, beside other processes and hosts.

    ``where`` is the path of a SQLite file, or a URL: ``postgresql://user:password@host/name``, ``sqlite:///file``.
    ``secret`` is the service's; without it the file beside the SQLite file is read or made (``<stem>.secret``).
    ``now`` tells the date that charges count at and whether a key has ended. ``busy_seconds`` is how long to wait for
    other writers. Close it when done, or use it as a context manager. PostgreSQL is to be reached directly, or by a
    pool that keeps whole sessions.

    Raises ``WrongSecret``, ``WrongVersion``, ``KeysBusy``, and ``ValueError`` on a URL that is none; all other methods
    raise ``KeysBusy``, too.
    """

    def __init__(
        self,
        where: Path | str,
        secret: bytes | None = None,
        now: Callable[[], datetime] = utc_now,
        busy_seconds: float = 5.0,
    ) -> None:
        self._database = Database(where, busy_seconds)
        try:
            self.secret = open_tables(self._database, secret)
        except BaseException:
            self._database.close()
            raise
        self.path = self._database.path
        self._now = now
        self._presence = presence_at(self._database)
        self._charges = Charges(self._database, self._presence, now)
        self._calls = Calls(self._database, self.secret)

    def close(self) -> None:
        """Lets go of the database. What is still reserved counts as left behind."""
        self._presence.close()
        self._database.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    def ping(self) -> None:
        """Asks the database whether it can be written, too. Raises ``KeysBusy`` or ``DatabaseUnavailable``."""
        self._database.write(lambda connection: connection.execute(_PING).one())

    # --------------------------------------------------------------------- keys

    def create(
        self, name: str, allowance_credits_hundredths: int, custom_plan: bool = False, renewal_day: int = 1
    ) -> str:
        """Opens an account and returns its first key's secret, which is not kept and can't be shown again.

        Raises ``ValueError`` on an allowance below zero or beyond all sense, a day that no month has, and a name that
        can't be shown.
        """
        if not name.strip() or not name.isprintable():
            raise ValueError("the name of a key is a line of text that can be shown")
        plan = _plan(allowance_credits_hundredths, custom_plan, renewal_day)

        def work(connection: sa.Connection) -> str:
            account = connection.execute(_OPEN_ACCOUNT, {"name": name, **plan}).scalar_one()
            return self._add_key(connection, account)

        return self._database.write(work)

    def find(self, secret: str) -> Key | None:
        """The key of a secret, or None where it is unknown or has ended."""
        shape = _SECRET.fullmatch(secret)
        found = self._database.read(_KEY_AND_HASH, prefix=shape[1] if shape else "")
        *columns, expected = found[0] if found else (_NO_HASH,)
        is_right = hmac.compare_digest(expected, keyed_hash(self.secret, secret))
        if not found or not is_right:
            return None
        key = Key(*columns)
        return key if is_in_force(key.ends_at, self._now()) else None

    def keys(self) -> list[Key]:
        """All keys, ended ones too, oldest first."""
        return [Key(*row) for row in self._database.read(_ALL_KEYS)]

    def revoke(self, prefix: str) -> bool:
        """Ends a key named by its prefix. Returns False where there is no such key in force."""
        now = self._now()
        return self._database.write(lambda connection: self._end_key(connection, prefix, now))

    def rotate(self, prefix: str, grace: timedelta = timedelta(0)) -> str:
        """Makes another key of the same account and returns its secret; the old key ends after the grace.

        Raises ``UnknownKey`` where there is no such key in force, and ``ValueError`` on a grace below zero.
        """
        if grace < timedelta(0):
            raise ValueError("the grace of a key that is rotated may not be below zero")
        now = self._now()

        def work(connection: sa.Connection) -> str:
            key = self._key(connection, prefix)
            if not is_in_force(key.ends_at, now):
                raise UnknownKey(f"the key with prefix {key.prefix} has ended")
            self._end_key(connection, prefix, now + grace)  # one that is to end sooner keeps its end
            return self._add_key(connection, key.account)

        return self._database.write(work)

    def change(
        self,
        prefix: str,
        allowance: int | None = None,
        custom_plan: bool | None = None,
        renewal_day: int | None = None,
    ) -> Key:
        """Changes the plan of a key's account, for all of its keys; what is None stays.

        The month that is under way is counted by the new renewal day. Raises ``UnknownKey``, and ``ValueError`` as
        ``create`` does.
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
        found = connection.execute(_KEY, {"prefix": _known_shape(prefix)}).one_or_none()
        if found is None:
            raise UnknownKey("there is no key with such a prefix")
        return Key(*found)

    def _end_key(self, connection: sa.Connection, prefix: str, at: datetime) -> bool:
        return connection.execute(_END_KEY, {"of": _known_shape(prefix), "at": at}).rowcount > 0

    # ------------------------------------------------------------------ charges

    def carry_out(
        self, settled: Sequence[str], released: Sequence[str], demands: Sequence[Demand]
    ) -> list[Charge | CreditsExhausted | KeyEnded]:
        """Settles, releases and then reserves in one transaction; a result for each demand, in order.

        A demand that is not covered leaves what is there to those after it. An id that is gone already is logged and
        changes nothing. Raises ``KeysBusy``: then nothing was done, or it will be taken back.
        """
        return self._charges.carry_out(settled, released, demands)

    def reserve(self, key_id: int, endpoint: str, cost: int) -> str:
        """Sets the cost of one request aside and returns the charge's id.

        Raises ``CreditsExhausted`` and ``KeyEnded``.
        """
        (result,) = self.carry_out((), (), (Demand(key_id, endpoint, cost),))
        if isinstance(result, Charge):
            return result.id
        raise result

    def settle(self, charge: str) -> None:
        """Turns a reservation into a charge of the day that it was made on."""
        self.carry_out((charge,), (), ())

    def release(self, charge: str) -> None:
        """Gives a reservation back."""
        self.carry_out((), (charge,), ())

    def release_abandoned(self) -> int:
        """Gives back what processes that are gone had reserved: what was not answered is not billed.

        Done by itself before a process's first reservation, and before a demand is refused. Returns how many there
        were.
        """
        return self._charges.release_abandoned()

    def balance(self, key_id: int) -> Balance:
        """The present month of a key's account. Raises ``UnknownKey``."""
        return self._charges.balance(key_id)

    def usage(self, prefix: str | None = None, since: date | None = None, until: date | None = None) -> list[Usage]:
        """What keys, or one, were charged from a day to a day (included), by day, key and endpoint.

        Raises ``UnknownKey``.
        """
        days: dict[str, Any] = {"since": since or date.min, "until": until or date.max}
        if prefix is None:
            return [Usage(*row) for row in self._database.read(_USAGE, **days)]
        shape = _known_shape(prefix)
        if not self._database.read(_KEY, prefix=shape):
            raise UnknownKey("there is no key with such a prefix")
        return [Usage(*row) for row in self._database.read(_USAGE_OF_KEY, **days, prefix=shape)]

    # -------------------------------------------------------------------- calls

    def count_calls(self, callers: Sequence[str], seconds: int) -> list[tuple[int, float]]:
        """Adds a call for each caller to its window of so many seconds, which begins at its first call.

        Returns for each the calls in the window, this one included, and the unix time at which the window ends. A
        caller that stands there several times is counted up.
        """
        return self._calls.count(callers, seconds)


def _known_shape(prefix: str) -> str:
    """The prefix where it may be one; else nothing, which no key has. PostgreSQL takes no text of any characters."""
    return prefix if _PREFIX.fullmatch(prefix) else ""


def _plan(allowance: int, custom_plan: bool, renewal_day: int) -> dict[str, int | bool]:
    if not 0 <= allowance <= _MOST_CREDITS or not 1 <= renewal_day <= 31:
        raise ValueError(
            f"the allowance is one of 0 to {_MOST_CREDITS // 100:,} credits, and the renewal day one of 1 to 31"
        )
    return {"allowance": allowance, "custom_plan": custom_plan, "renewal_day": renewal_day}
