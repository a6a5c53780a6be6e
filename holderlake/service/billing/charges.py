"""Reservations and charges of accounts in one database. Amounts are integer hundredths of a credit.

Prices are in ``contract.prices``; keys and accounts are in ``keys``.
"""

from __future__ import annotations

import itertools
import logging
import threading
import time
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import date, datetime
from typing import Any, Final

import sqlalchemy as sa

from holderlake.contract.prices import credits_text
from holderlake.service.billing.periods import next_renewal, period_start
from holderlake.service.database.connections import Database
from holderlake.service.database.errors import KeysBusy, UnknownKey
from holderlake.service.database.leases import Lease
from holderlake.service.database.schema import DIALECTS, Dialect, accounts, as_rows, keys, reservations, usage

_log = logging.getLogger(__name__)
_CHECK_SECONDS: Final = 1.0
"""Seconds for which the search for abandoned reservations is not repeated, because refusals must be cheap."""


@dataclass(frozen=True)
class Balance:
    """Credits of an account in the current month, all in hundredths of a credit.

    ``allowance`` is the month's allowance, ``spent`` the sum of the charges, ``reserved`` the sum of the open
    reservations. ``renews_on`` is the date on which the allowance begins again.
    """

    allowance: int
    spent: int
    reserved: int
    renews_on: date

    @property
    def remaining(self) -> int:
        """Hundredths of a credit that are left. Negative if the allowance was reduced below the charges."""
        return self.allowance - self.spent - self.reserved


@dataclass(frozen=True)
class ChargeRequest:
    """A cost to reserve for one request.

    ``key_id`` is the API key's id, ``endpoint`` the name under which usage is counted. ``cost`` is in hundredths of a
    credit, zero or more.
    """

    key_id: int
    endpoint: str
    cost: int


@dataclass(frozen=True)
class Charge:
    """A reservation of a request's cost. ``id`` identifies it.

    ``remaining`` is the account's credit after this reservation, in hundredths of a credit.
    """

    id: str
    remaining: int


class CreditsExhausted(Exception):
    """The remaining credits of the account in this month do not cover the request."""

    def __init__(self, cost: int, balance: Balance) -> None:
        super().__init__(
            f"the request costs {credits_text(cost)} credits and {credits_text(max(0, balance.remaining))} are left "
            f"until the renewal on {balance.renews_on.isoformat()}"
        )
        self.cost = cost
        self.balance = balance


class KeyEnded(Exception):
    """The key was revoked, or its grace period is over."""

    def __init__(self) -> None:
        super().__init__("the key was revoked, or its grace period is over")


Result = Charge | CreditsExhausted | KeyEnded


class _Statements:
    """SQL statements of one dialect that reserve and settle many requests at once."""

    def __init__(self, dialect: Dialect) -> None:
        ids = dialect.parameter_rows({"id": sa.Text()})
        self.close = (
            sa.delete(reservations)
            .where(reservations.c.id.in_(sa.select(ids.c.id)))
            .returning(*(reservations.c[name] for name in ("id", "account_id", "day", "key_id", "endpoint", "credits")))
        )
        self.charge = _charge(dialect)
        self.lock = _lock(dialect)
        self.month = _month(dialect)
        reservation_rows = dialect.parameter_rows({column.name: column.type for column in reservations.columns})
        self.reserve = sa.insert(reservations).from_select([*reservation_rows.c.keys()], sa.select(*reservation_rows.c))


def _charge(dialect: Dialect) -> Any:
    usage_rows = dialect.parameter_rows({column.name: column.type for column in usage.columns})
    # ordered by the primary key, so that all transactions lock these rows in the same order
    ordered = sa.select(*usage_rows.c).order_by(*(usage_rows.c[column.name] for column in usage.primary_key))
    statement = dialect.insert(usage).from_select([*usage_rows.c.keys()], ordered)
    sums = {name: usage.c[name] + statement.excluded[name] for name in ("requests", "credits")}
    return statement.on_conflict_do_update(index_elements=list(usage.primary_key), set_=sums)


def _lock(dialect: Dialect) -> Any:
    """Return a statement that selects keys with their accounts and locks the accounts.

    Because of the lock, two transactions cannot reserve for the same account at once. The lock is a ``FOR NO KEY
    UPDATE`` (``key_share``), which lets other transactions insert usage rows that refer to the account. A full lock
    would cause deadlocks with transactions that settle before they reserve.
    """
    ids = dialect.parameter_rows({"id": sa.Integer()})
    return (
        sa.select(keys.c.id, keys.c.ends_at, keys.c.account_id, accounts.c.allowance, accounts.c.renewal_day)
        .join_from(accounts, keys)
        .where(keys.c.id.in_(sa.select(ids.c.id)))
        .order_by(accounts.c.id)
        .with_for_update(of=accounts, key_share=True)
    )


def _month(dialect: Dialect) -> Any:
    """Return a statement that sums the spent and the reserved credits of accounts.

    Its parameters are pairs of an account and the day from which its credits count.
    """
    account_rows = dialect.parameter_rows({"account_id": sa.Integer(), "since": sa.Date()})
    months = sa.select(account_rows.c.account_id, account_rows.c.since).cte("months")

    def of(table: sa.Table, spent: Any, reserved: Any) -> Any:
        in_month = (table.c.account_id == months.c.account_id) & (table.c.day >= months.c.since)
        return sa.select(table.c.account_id, spent.label("spent"), reserved.label("reserved")).join_from(
            months, table, in_month
        )

    nothing = sa.literal_column("0", sa.BigInteger)
    union = sa.union_all(of(usage, usage.c.credits, nothing), of(reservations, nothing, reservations.c.credits))
    rows = union.subquery("both")
    sums = [sa.cast(sa.func.sum(rows.c[name]), sa.BigInteger).label(name) for name in ("spent", "reserved")]
    return sa.select(rows.c.account_id, *sums).group_by(rows.c.account_id)


_STATEMENTS: Final = {name: _Statements(dialect) for name, dialect in DIALECTS.items()}
_ACCOUNT: Final = (
    sa.select(accounts.c.id, accounts.c.allowance, accounts.c.renewal_day)
    .join_from(keys, accounts)
    .where(keys.c.id == sa.bindparam("key_id"))
)
_PROCESSES: Final = sa.select(reservations.c.process).distinct()
_ABANDONED: Final = sa.select(reservations.c.id).where(reservations.c.process == sa.bindparam("ended"))
# A statement of an ended process may still run on the server and lock its rows: skip them.
_RELEASE: Final = sa.delete(reservations).where(reservations.c.id.in_(_ABANDONED.with_for_update(skip_locked=True)))


class Charges:
    """Reservations and charges in a database; thread-safe. ``lease`` proves to other processes that this one runs."""

    def __init__(self, database: Database, lease: Lease, now: Callable[[], datetime]) -> None:
        self._database = database
        self._lease = lease
        self._now = now
        self._statements = _STATEMENTS[database.kind]
        self._numbers = itertools.count()
        self._next_check_at = 0.0
        self._has_begun = False
        self._in_doubt: list[str] = []
        self._turn = threading.Lock()

    def book(self, settled: Sequence[str], released: Sequence[str], requested: Sequence[ChargeRequest]) -> list[Result]:
        """Charge the reservations ``settled`` (ids), delete those in ``released``, then reserve ``requested``.

        All in one transaction. The result has one element for each of ``requested``, in the same order: a ``Charge``,
        or the error for which the reservation is refused (``CreditsExhausted`` or ``KeyEnded``).
        """
        if not (settled or released or requested):
            return []
        if requested:
            self._begin()
        with self._turn:
            doubtful, self._in_doubt = self._in_doubt, []
        ids = [f"{self._lease.name}-{next(self._numbers):x}" for _ in requested]

        def work(connection: sa.Connection) -> tuple[list[str], list[Result]]:
            missing = self._close(connection, settled, released, doubtful)
            return missing, self._reserve(connection, requested, ids) if requested else []

        try:
            missing, results = self._database.write(work)
        except BaseException as error:
            with self._turn:
                self._in_doubt += doubtful
                if isinstance(error, KeysBusy) and error.in_doubt:
                    self._in_doubt += ids
            raise
        for charge in missing:
            _log.warning("charge %s is not reserved: it was already settled, released or abandoned", charge)
        return results

    def release_abandoned(self) -> int:
        """Release the reservations of ended processes. Return their number."""
        return self._database.write(self._release_abandoned)

    def balance(self, key_id: int) -> Balance:
        """Return the credits of a key's account in the current month. Raises ``UnknownKey``."""
        rows = self._database.read(_ACCOUNT, key_id=key_id)
        if not rows:
            raise UnknownKey(f"no API key has the id {key_id}: KeyStore.keys returns all keys")
        account_id, allowance, renewal_day = rows[0]
        today = self._now().date()
        months = self._database.read(self._statements.month, **_month_parameters({account_id: renewal_day}, today))
        return _balances({account_id: (allowance, renewal_day)}, months, today)[account_id]

    def _begin(self) -> None:
        """Release abandoned reservations once, before this process's first reservation."""
        if not self._has_begun:
            self.release_abandoned()
            self._has_begun = True

    def _close(
        self, connection: sa.Connection, settled: Sequence[str], released: Sequence[str], doubtful: Sequence[str]
    ) -> list[str]:
        """End reservations (given by id): charge those in ``settled``, delete those in ``released`` and ``doubtful``.

        Returns the ids in ``settled`` and ``released`` that have no reservation. ``doubtful`` are ids whose commit was
        not confirmed, so their reservations may not exist.
        """
        ids = [*settled, *released, *doubtful]
        if not ids:
            return []
        closed = connection.execute(self._statements.close, as_rows({"id": charge} for charge in ids))
        reservations_by_id = {row[0]: row[1:] for row in closed}
        missing = [charge for charge in (*settled, *released) if charge not in reservations_by_id]
        requests: Counter[tuple[Any, ...]] = Counter()
        spent: Counter[tuple[Any, ...]] = Counter()
        for charge in settled:
            reserved = reservations_by_id.pop(charge, None)
            if reserved is not None:
                requests[reserved[:-1]] += 1
                spent[reserved[:-1]] += reserved[-1]
        if requests:
            names = ("account_id", "day", "key_id", "endpoint")
            rows = (
                dict(zip(names, place, strict=True)) | {"requests": count, "credits": spent[place]}
                for place, count in requests.items()
            )
            connection.execute(self._statements.charge, as_rows(rows))
        return missing

    def _reserve(
        self, connection: sa.Connection, requested: Sequence[ChargeRequest], ids: Sequence[str]
    ) -> list[Result]:
        self._lease.acquire()
        now = self._now()
        ids_of_keys = {request.key_id for request in requested}
        parameters = as_rows({"id": key_id} for key_id in ids_of_keys)
        locked = connection.execute(self._statements.lock, parameters)
        key_rows = {row.id: row for row in locked}
        results = _decide(requested, ids, key_rows, self._months(connection, key_rows, now), now)
        if any(isinstance(result, CreditsExhausted) for result in results) and self._may_check():
            self._release_abandoned(connection)
            results = _decide(requested, ids, key_rows, self._months(connection, key_rows, now), now)
        rows = [
            {
                "id": result.id,
                "account_id": key_rows[request.key_id].account_id,
                "day": now.date(),
                "key_id": request.key_id,
                "endpoint": request.endpoint,
                "credits": request.cost,
                "process": self._lease.name,
            }
            for request, result in zip(requested, results, strict=True)
            if isinstance(result, Charge)
        ]
        if rows:
            connection.execute(self._statements.reserve, as_rows(rows))
        return results

    def _months(self, connection: sa.Connection, key_rows: Mapping[int, Any], now: datetime) -> dict[int, Balance]:
        plans = {row.account_id: (row.allowance, row.renewal_day) for row in key_rows.values()}
        if not plans:
            return {}
        months = _month_parameters({account: renewal_day for account, (_, renewal_day) in plans.items()}, now.date())
        return _balances(plans, connection.execute(self._statements.month, months), now.date())

    def _may_check(self) -> bool:
        with self._turn:
            if time.monotonic() < self._next_check_at:
                return False
            self._next_check_at = time.monotonic() + _CHECK_SECONDS
            return True

    def _release_abandoned(self, connection: sa.Connection) -> int:
        processes = {row.process for row in connection.execute(_PROCESSES)}
        ended = self._lease.expired(connection, processes)
        released = sum(connection.execute(_RELEASE, {"ended": name}).rowcount for name in ended)
        if released:
            _log.warning("released %d reservations of ended processes", released)
        return released


def _month_parameters(renewal_days: Mapping[int, int], today: date) -> dict[str, str]:
    return as_rows(
        {"account_id": account, "since": period_start(today, renewal_day)}
        for account, renewal_day in renewal_days.items()
    )


def _balances(plans: Mapping[int, tuple[int, int]], months: Any, today: date) -> dict[int, Balance]:
    sums = {row.account_id: (row.spent, row.reserved) for row in months}
    return {
        account: Balance(allowance, *sums.get(account, (0, 0)), next_renewal(today, renewal_day))
        for account, (allowance, renewal_day) in plans.items()
    }


def _decide(
    requested: Sequence[ChargeRequest],
    ids: Sequence[str],
    key_rows: Mapping[int, Any],
    balances: Mapping[int, Balance],
    now: datetime,
) -> list[Result]:
    """Return a result for each element of ``requested``, in the same order: a charge, or the error that refuses it.

    ``ids[i]`` becomes the id of the i-th request's charge. ``key_rows`` has the database rows of keys by key id,
    ``balances`` the balances by account id.
    """
    batch_credits = dict.fromkeys(balances, 0)
    results: list[Result] = []
    for request, charge_id in zip(requested, ids, strict=True):
        if request.cost < 0:
            raise ValueError(f"invalid cost {request.cost}: use zero or more")
        key = key_rows.get(request.key_id)
        if key is None or not is_active(key.ends_at, now):
            results.append(KeyEnded())
            continue
        balance = balances[key.account_id]
        credits_left = balance.remaining - batch_credits[key.account_id] - request.cost
        if credits_left < 0:
            now_reserved = balance.reserved + batch_credits[key.account_id]
            results.append(CreditsExhausted(request.cost, replace(balance, reserved=now_reserved)))
        else:
            batch_credits[key.account_id] += request.cost
            results.append(Charge(charge_id, credits_left))
    return results


def is_active(ends_at: datetime | None, now: datetime) -> bool:
    """Return whether a key is valid at ``now``. ``ends_at`` (UTC) is None for a key without an end."""
    return ends_at is None or now < ends_at
