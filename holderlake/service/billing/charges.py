"""What requests cost their accounts: reserved before they are answered, charged when the answer is there.

All amounts are integer hundredths of a credit. What a request costs is the contract's to say; who it is, the keys'.
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
from holderlake.service.database.errors import KeysBusy, UnknownKey
from holderlake.service.database.leases import Presence
from holderlake.service.database.schema import DIALECTS, Database, Dialect, accounts, as_rows, keys, reservations, usage

_log = logging.getLogger(__name__)
_LOOK_SECONDS: Final = 1.0
"""How often at most a process looks for others that are gone, so that refusals stay cheap."""


@dataclass(frozen=True)
class Balance:
    """An account's month: the allowance, what is charged and reserved of it, and the day that it is whole again."""

    allowance: int
    spent: int
    reserved: int
    renews_on: date

    @property
    def remaining(self) -> int:
        """What a further request may cost; below zero where the allowance was made smaller than what is spent."""
        return self.allowance - self.spent - self.reserved


@dataclass(frozen=True)
class Demand:
    """A request that wants an answer for hundredths of a credit. Raises ``ValueError`` on a cost below zero."""

    key_id: int
    endpoint: str
    cost: int

    def __post_init__(self) -> None:
        if self.cost < 0:
            raise ValueError("a cost may not be below zero")


@dataclass(frozen=True)
class Charge:
    """A cost that is set aside; ``remaining`` is what the account may still spend after it."""

    id: str
    remaining: int


class CreditsExhausted(Exception):
    """The month's allowance does not cover the request; ``balance`` is as it was found."""

    def __init__(self, cost: int, balance: Balance) -> None:
        super().__init__(
            f"the request costs {credits_text(cost)} credits and {credits_text(max(0, balance.remaining))} are left "
            f"until the renewal on {balance.renews_on.isoformat()}"
        )
        self.cost = cost
        self.balance = balance


class KeyEnded(Exception):
    """The key was revoked, or its grace is over."""

    def __init__(self) -> None:
        super().__init__("the key has ended")


Result = Charge | CreditsExhausted | KeyEnded


class _Statements:
    """For many rows at once, in a dialect's words."""

    def __init__(self, dialect: Dialect) -> None:
        ids = dialect.given({"id": sa.Text()})
        self.close = (
            sa.delete(reservations)
            .where(reservations.c.id.in_(sa.select(ids.c.id)))
            .returning(*(reservations.c[name] for name in ("id", "account_id", "day", "key_id", "endpoint", "credits")))
        )
        self.charge = _charge(dialect)
        self.lock = _lock(dialect)
        self.month = _month(dialect)
        made = dialect.given({column.name: column.type for column in reservations.columns})
        self.reserve = sa.insert(reservations).from_select([*made.c.keys()], sa.select(*made.c))


def _charge(dialect: Dialect) -> Any:
    given = dialect.given({column.name: column.type for column in usage.columns})
    # in the order of the key, in which everyone locks these rows
    ordered = sa.select(*given.c).order_by(*(given.c[column.name] for column in usage.primary_key))
    statement = dialect.insert(usage).from_select([*given.c.keys()], ordered)
    added = {name: usage.c[name] + statement.excluded[name] for name in ("requests", "credits")}
    return statement.on_conflict_do_update(index_elements=list(usage.primary_key), set_=added)


def _lock(dialect: Dialect) -> Any:
    """Keys with their accounts, which are then nobody else's until the transaction ends: all demands of an account
    are judged one after the other. New rows of usage may still refer to them (``key_share``), else those who settle
    before they reserve would wait for each other."""
    ids = dialect.given({"id": sa.Integer()})
    return (
        sa.select(keys.c.id, keys.c.ends_at, keys.c.account_id, accounts.c.allowance, accounts.c.renewal_day)
        .join_from(accounts, keys)
        .where(keys.c.id.in_(sa.select(ids.c.id)))
        .order_by(accounts.c.id)
        .with_for_update(of=accounts, key_share=True)
    )


def _month(dialect: Dialect) -> Any:
    """Spent and reserved of accounts since a day of each one's own, as of one moment."""
    given = dialect.given({"account_id": sa.Integer(), "since": sa.Date()})
    wanted = sa.select(given.c.account_id, given.c.since).cte("wanted")

    def of(table: sa.Table, spent: Any, reserved: Any) -> Any:
        is_wanted = (table.c.account_id == wanted.c.account_id) & (table.c.day >= wanted.c.since)
        return sa.select(table.c.account_id, spent.label("spent"), reserved.label("reserved")).join_from(
            wanted, table, is_wanted
        )

    nothing = sa.literal_column("0", sa.BigInteger)
    both = sa.union_all(of(usage, usage.c.credits, nothing), of(reservations, nothing, reservations.c.credits))
    rows = both.subquery("both")
    sums = [sa.cast(sa.func.sum(rows.c[name]), sa.BigInteger).label(name) for name in ("spent", "reserved")]
    return sa.select(rows.c.account_id, *sums).group_by(rows.c.account_id)


_STATEMENTS: Final = {name: _Statements(dialect) for name, dialect in DIALECTS.items()}
_ACCOUNT: Final = (
    sa.select(accounts.c.id, accounts.c.allowance, accounts.c.renewal_day)
    .join_from(keys, accounts)
    .where(keys.c.id == sa.bindparam("key_id"))
)
_PROCESSES: Final = sa.select(reservations.c.process).distinct()
_LEFT: Final = sa.select(reservations.c.id).where(reservations.c.process == sa.bindparam("gone"))
# What the server is still doing for a process that is gone (a charge, it may be) is not waited for.
_RELEASE: Final = sa.delete(reservations).where(reservations.c.id.in_(_LEFT.with_for_update(skip_locked=True)))


class Charges:
    """The charges in a database, for many threads; ``now`` tells the date that they count at."""

    def __init__(self, database: Database, presence: Presence, now: Callable[[], datetime]) -> None:
        self._database = database
        self._presence = presence
        self._now = now
        self._statements = _STATEMENTS[database.kind]
        self._numbers = itertools.count()
        self._looks_again_at = 0.0
        self._has_begun = False
        self._in_doubt: list[str] = []
        self._turn = threading.Lock()

    def carry_out(self, settled: Sequence[str], released: Sequence[str], demands: Sequence[Demand]) -> list[Result]:
        """Settles, releases and then reserves in one transaction; a result for each demand, in order.

        A demand that is not covered leaves what is there to those after it. An id that is gone already is logged and
        changes nothing. Raises ``KeysBusy``: then nothing was done, or it will be taken back.
        """
        if not (settled or released or demands):
            return []
        if demands:
            self._begin()
        with self._turn:
            doubtful, self._in_doubt = self._in_doubt, []
        ids = [f"{self._presence.name}-{next(self._numbers):x}" for _ in demands]

        def work(connection: sa.Connection) -> tuple[list[str], list[Result]]:
            gone = self._close(connection, settled, released, doubtful)
            return gone, self._reserve(connection, demands, ids) if demands else []

        try:
            gone, results = self._database.write(work)
        except BaseException as error:
            with self._turn:
                self._in_doubt += doubtful
                if isinstance(error, KeysBusy) and error.in_doubt:
                    self._in_doubt += ids
            raise
        for charge in gone:
            _log.warning("charge %s is not reserved: it was settled, released or given up before", charge)
        return results

    def release_abandoned(self) -> int:
        """Gives back what processes that are gone had reserved: what was not answered is not billed.

        Returns how many reservations there were.
        """
        return self._database.write(self._release_abandoned)

    def balance(self, key_id: int) -> Balance:
        """The present month of a key's account. Raises ``UnknownKey``."""
        found = self._database.read(_ACCOUNT, key_id=key_id)
        if not found:
            raise UnknownKey(f"there is no key with id {key_id}")
        account_id, allowance, renewal_day = found[0]
        today = self._now().date()
        months = self._database.read(self._statements.month, **_months_wanted({account_id: renewal_day}, today))
        return _balances({account_id: (allowance, renewal_day)}, months, today)[account_id]

    def _begin(self) -> None:
        """Before its first reservation a process looks once for what others left."""
        if not self._has_begun:
            self.release_abandoned()
            self._has_begun = True

    def _close(
        self, connection: sa.Connection, settled: Sequence[str], released: Sequence[str], doubtful: Sequence[str]
    ) -> list[str]:
        """Ends reservations, and returns the ids that are gone already."""
        ids = [*settled, *released, *doubtful]
        if not ids:
            return []
        found = connection.execute(self._statements.close, as_rows({"id": one} for one in ids))
        open_ones = {row[0]: row[1:] for row in found}
        gone = [one for one in (*settled, *released) if one not in open_ones]
        requests: Counter[tuple[Any, ...]] = Counter()
        spent: Counter[tuple[Any, ...]] = Counter()
        for one in settled:
            reserved = open_ones.pop(one, None)
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
        return gone

    def _reserve(self, connection: sa.Connection, demands: Sequence[Demand], ids: Sequence[str]) -> list[Result]:
        self._presence.hold()
        now = self._now()
        found = connection.execute(self._statements.lock, as_rows({"id": one} for one in {d.key_id for d in demands}))
        known = {row.id: row for row in found}
        results = _judged(demands, ids, known, self._months(connection, known, now), now)
        if any(isinstance(result, CreditsExhausted) for result in results) and self._may_look():
            self._release_abandoned(connection)
            results = _judged(demands, ids, known, self._months(connection, known, now), now)
        rows = [
            {
                "id": result.id,
                "account_id": known[demand.key_id].account_id,
                "day": now.date(),
                "key_id": demand.key_id,
                "endpoint": demand.endpoint,
                "credits": demand.cost,
                "process": self._presence.name,
            }
            for demand, result in zip(demands, results, strict=True)
            if isinstance(result, Charge)
        ]
        if rows:
            connection.execute(self._statements.reserve, as_rows(rows))
        return results

    def _months(self, connection: sa.Connection, known: Mapping[int, Any], now: datetime) -> dict[int, Balance]:
        plans = {row.account_id: (row.allowance, row.renewal_day) for row in known.values()}
        if not plans:
            return {}
        wanted = _months_wanted({account: renewal_day for account, (_, renewal_day) in plans.items()}, now.date())
        return _balances(plans, connection.execute(self._statements.month, wanted), now.date())

    def _may_look(self) -> bool:
        with self._turn:
            if time.monotonic() < self._looks_again_at:
                return False
            self._looks_again_at = time.monotonic() + _LOOK_SECONDS
            return True

    def _release_abandoned(self, connection: sa.Connection) -> int:
        named = {row.process for row in connection.execute(_PROCESSES)}
        gone = self._presence.gone(connection, named)
        released = sum(connection.execute(_RELEASE, {"gone": name}).rowcount for name in gone)
        if released:
            _log.warning("released %d reservations that processes left when they ended", released)
        return released


def _months_wanted(renewal_days: Mapping[int, int], today: date) -> dict[str, str]:
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


def _judged(
    demands: Sequence[Demand],
    ids: Sequence[str],
    known: Mapping[int, Any],
    balances: Mapping[int, Balance],
    now: datetime,
) -> list[Result]:
    """What becomes of each demand, given the keys and what their accounts have left."""
    taken = dict.fromkeys(balances, 0)
    results: list[Result] = []
    for demand, charge_id in zip(demands, ids, strict=True):
        key = known.get(demand.key_id)
        if key is None or not is_in_force(key.ends_at, now):
            results.append(KeyEnded())
            continue
        balance = balances[key.account_id]
        left = balance.remaining - taken[key.account_id] - demand.cost
        if left < 0:
            found = replace(balance, reserved=balance.reserved + taken[key.account_id])
            results.append(CreditsExhausted(demand.cost, found))
        else:
            taken[key.account_id] += demand.cost
            results.append(Charge(charge_id, left))
    return results


def is_in_force(ends_at: datetime | None, now: datetime) -> bool:
    """Whether a key that ends at that time, or without end, is good now."""
    return ends_at is None or now < ends_at
