"""Reservations and charges of accounts in one database. Amounts are integer hundredths of a credit.

Prices are in ``contract.prices``; keys and accounts are in ``keys``.
"""

from __future__ import annotations

import itertools
import logging
import threading
import time
from calendar import monthrange
from collections import Counter
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import date, datetime
from typing import Any, Final

from sqlalchemy import BindParameter, bindparam, delete, func, insert, select

from holderlake.core.contract.prices import credits_text
from holderlake.core.storage.owners import Owner
from holderlake.core.storage.state import State, StateConnection, put
from holderlake.service.billing.tables import ACCOUNTS, KEYS, RESERVATIONS, USAGE, UnknownKey

_log = logging.getLogger(__name__)
_IDS_AT_ONCE: Final = 1_000
"""Ids of reservations in one statement. An outage of the database may leave any number of them to release."""
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


_USAGE_COLUMNS: Final = ("account_id", "day", "key_id", "endpoint", "requests", "credits")
_PLANS: Final = select(
    KEYS.c.id, KEYS.c.ends_at, KEYS.c.account_id, ACCOUNTS.c.allowance, ACCOUNTS.c.renewal_day
).join_from(KEYS, ACCOUNTS)
# Statements are made once: to make them takes longer than to run them, and holds up the requests meanwhile.
_IDS: Final[BindParameter[Any]] = bindparam("ids", expanding=True)
_PLANS_OF: Final = _PLANS.where(KEYS.c.id.in_(_IDS))
_CLOSE: Final = delete(RESERVATIONS).where(RESERVATIONS.c.id.in_(_IDS)).returning(RESERVATIONS)
_RESERVE: Final = insert(RESERVATIONS).returning(RESERVATIONS.c.id)
"""It returns the ids, because SQLAlchemy then sends all rows in one statement."""
_SUMS: Final = {
    table.name: select(table.c.account_id, func.sum(table.c.credits))
    .where(table.c.account_id.in_(_IDS), table.c.day >= bindparam("start"))
    .group_by(table.c.account_id)
    for table in (USAGE, RESERVATIONS)
}


@dataclass(frozen=True)
class _Plan:
    """A key with the plan of its account: end of the key (ISO, UTC) or None, monthly allowance, day of renewal."""

    key_id: int
    ends_at: str | None
    account_id: int
    allowance: int
    renewal_day: int


class Charges:
    """Reservations and charges in a database; thread-safe. ``owner`` shows other processes that this one runs."""

    def __init__(self, database: State, owner: Owner, now: Callable[[], datetime]) -> None:
        self._database = database
        self._owner = owner
        self._now = now
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
        with self._turn:
            doubtful, self._in_doubt = self._in_doubt, []
        ids = [f"{self._owner.name}-{next(self._numbers):x}" for _ in requested]

        def work(db: StateConnection) -> tuple[list[str], list[Result]]:
            missing = self._close(db, settled, released, doubtful)
            return missing, self._reserve(db, requested, ids) if requested else []

        try:
            missing, results = self._database.run(work)
        except BaseException:
            with self._turn:  # the transaction may have been committed: the next one deletes its reservations
                self._in_doubt += [*doubtful, *ids]
            raise
        self._has_begun |= bool(requested)
        for charge in missing:
            _log.warning("charge %s is not reserved: it was already settled, released or abandoned", charge)
        return results

    def balance(self, key_id: int) -> Balance:
        """Return the credits of a key's account in the current month. Raises ``UnknownKey``."""
        rows = self._database.rows(_PLANS.where(KEYS.c.id == key_id))
        if not rows:
            raise UnknownKey(f"no API key has the id {key_id}: KeyStore.keys returns all keys")
        plan = _Plan(*rows[0])
        balances = self._database.run(lambda db: _balances(db, [plan], self._now().date()), write=False)
        return balances[plan.account_id]

    def _close(
        self, db: StateConnection, settled: Sequence[str], released: Sequence[str], doubtful: Sequence[str]
    ) -> list[str]:
        """End reservations (given by id): charge those in ``settled``, delete those in ``released`` and ``doubtful``.

        Returns the ids in ``settled`` and ``released`` that have no reservation. ``doubtful`` are ids whose commit was
        not confirmed, so their reservations may not exist.
        """
        ids = [*settled, *released, *doubtful]
        if not ids:
            return []
        parts = (ids[start : start + _IDS_AT_ONCE] for start in range(0, len(ids), _IDS_AT_ONCE))
        reservations_by_id = {row.id: row for part in parts for row in db.execute(_CLOSE, {"ids": part})}
        missing = [charge for charge in (*settled, *released) if charge not in reservations_by_id]
        requests: Counter[tuple[int, str, int, str]] = Counter()
        spent: Counter[tuple[int, str, int, str]] = Counter()
        for charge in settled:
            reserved = reservations_by_id.pop(charge, None)
            if reserved is not None:
                place = (reserved.account_id, reserved.day, reserved.key_id, reserved.endpoint)
                requests[place] += 1
                spent[place] += reserved.credits
        rows = [
            dict(zip(_USAGE_COLUMNS, (*place, count, spent[place]), strict=True)) for place, count in requests.items()
        ]
        put(db, USAGE, *rows, adding=True)
        return missing

    def _reserve(self, db: StateConnection, requested: Sequence[ChargeRequest], ids: Sequence[str]) -> list[Result]:
        self._owner.join(db)
        if not self._has_begun:
            self._release_abandoned(db)
        now = self._now()
        key_ids = {request.key_id for request in requested}
        plans = {row[0]: _Plan(*row) for row in db.execute(_PLANS_OF, {"ids": [*key_ids]})}
        results = _decide(requested, ids, plans, _balances(db, plans.values(), now.date()), now)
        if any(isinstance(result, CreditsExhausted) for result in results) and self._may_check():
            self._release_abandoned(db)
            results = _decide(requested, ids, plans, _balances(db, plans.values(), now.date()), now)
        rows = [
            {
                "id": result.id,
                "account_id": plans[request.key_id].account_id,
                "day": now.date().isoformat(),
                "key_id": request.key_id,
                "endpoint": request.endpoint,
                "credits": request.cost,
                "owner": self._owner.name,
            }
            for request, result in zip(requested, results, strict=True)
            if isinstance(result, Charge)
        ]
        if rows:
            db.execute(_RESERVE, rows)
        return results

    def _may_check(self) -> bool:
        with self._turn:
            if time.monotonic() < self._next_check_at:
                return False
            self._next_check_at = time.monotonic() + _CHECK_SECONDS
            return True

    def _release_abandoned(self, db: StateConnection) -> None:
        owner = RESERVATIONS.c.owner
        ended = self._owner.ended(db, {*db.scalars(select(owner).distinct())})
        released = db.execute(delete(RESERVATIONS).where(owner.in_(ended))).rowcount
        if released:
            _log.warning("released %d reservations of ended processes", released)


def _balances(db: StateConnection, plans: Iterable[_Plan], today: date) -> dict[int, Balance]:
    """Return the balances of the accounts of the plans by account id, each in its current month."""
    accounts = {plan.account_id: plan for plan in plans}
    accounts_by_start: dict[str, list[int]] = {}
    for account, plan in accounts.items():
        accounts_by_start.setdefault(period_start(today, plan.renewal_day).isoformat(), []).append(account)
    sums: dict[str, dict[int, int]] = {name: {} for name in _SUMS}
    for start, ids in accounts_by_start.items():
        for name, credits in _SUMS.items():
            rows = db.execute(credits, {"ids": ids, "start": start})
            sums[name].update({account: int(total) for account, total in rows})
    return {
        account: Balance(
            plan.allowance,
            sums["usage"].get(account, 0),
            sums["reservations"].get(account, 0),
            next_renewal(today, plan.renewal_day),
        )
        for account, plan in accounts.items()
    }


def _decide(
    requested: Sequence[ChargeRequest],
    ids: Sequence[str],
    plans: Mapping[int, _Plan],
    balances: Mapping[int, Balance],
    now: datetime,
) -> list[Result]:
    """Return a result for each element of ``requested``, in the same order: a charge, or the error that refuses it.

    ``ids[i]`` becomes the id of the i-th request's charge. ``plans`` are by key id, ``balances`` by account id.
    """
    batch_credits = dict.fromkeys(balances, 0)
    results: list[Result] = []
    for request, charge_id in zip(requested, ids, strict=True):
        if request.cost < 0:
            raise ValueError(f"invalid cost {request.cost}: use zero or more")
        plan = plans.get(request.key_id)
        if plan is None or not is_active(time_of(plan.ends_at), now):
            results.append(KeyEnded())
            continue
        balance = balances[plan.account_id]
        credits_left = balance.remaining - batch_credits[plan.account_id] - request.cost
        if credits_left < 0:
            now_reserved = balance.reserved + batch_credits[plan.account_id]
            results.append(CreditsExhausted(request.cost, replace(balance, reserved=now_reserved)))
        else:
            batch_credits[plan.account_id] += request.cost
            results.append(Charge(charge_id, credits_left))
    return results


def is_active(ends_at: datetime | None, now: datetime) -> bool:
    """Return whether a key is valid at ``now``. ``ends_at`` (UTC) is None for a key without an end."""
    return ends_at is None or now < ends_at


def time_of(text: str | None) -> datetime | None:
    """Return a stored time (ISO, UTC) as a naive ``datetime``."""
    return None if text is None else datetime.fromisoformat(text)


def period_start(today: date, renewal_day: int) -> date:
    """Return the latest renewal date that is not after ``today``; ``renewal_day`` is a day of the month.

    In a month that lacks this day, the period begins on the last day of the month.
    """
    renewal = _in_month(today.year, today.month, renewal_day)
    return renewal if today >= renewal else _in_month(*_month_before(today), renewal_day)


def next_renewal(today: date, renewal_day: int) -> date:
    """Return the first renewal date after ``today``; ``renewal_day`` is a day of the month."""
    renewal = _in_month(today.year, today.month, renewal_day)
    return renewal if today < renewal else _in_month(*_month_after(today), renewal_day)


def _in_month(year: int, month: int, day: int) -> date:
    return date(year, month, min(day, monthrange(year, month)[1]))


def _month_before(today: date) -> tuple[int, int]:
    return (today.year - 1, 12) if today.month == 1 else (today.year, today.month - 1)


def _month_after(today: date) -> tuple[int, int]:
    return (today.year + 1, 1) if today.month == 12 else (today.year, today.month + 1)
