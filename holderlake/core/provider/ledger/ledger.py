"""The credit ledger: the cost of each call is reserved before the call, so that no ceiling is ever exceeded.

One SQLite file serves all runs and processes of a home, or one PostgreSQL database those of several hosts. An entry is
reserved, then settled with its charge, or released if there was none. An entry that stays reserved, after a crash or a
time-out, counts as spent, because the provider may have charged it. A reserved entry may claim an answer for its
process, so that no other process pays for the same one. Amounts are hundredths of a credit, days are UTC.
"""

from __future__ import annotations

import hashlib
import secrets
from collections import Counter
from collections.abc import Callable, Collection, Iterator, Sequence
from contextlib import suppress
from dataclasses import asdict
from datetime import UTC, date, datetime, timedelta
from pathlib import Path
from types import SimpleNamespace, TracebackType
from typing import Any, Final, Literal, Self, TypeVar, cast, get_args

from sqlalchemy import ColumnElement, bindparam, delete, func, select, text, update

from holderlake.core.contract.times import utc_now
from holderlake.core.provider.errors import BudgetExceeded, NotAnswer
from holderlake.core.provider.ledger import entries, statements
from holderlake.core.provider.ledger.entries import (
    MOST_CREDITS,
    Claimed,
    Operation,
    Release,
    Reservation,
    Reserve,
    Settle,
)
from holderlake.core.provider.ledger.statements import DAYS, ENTRIES, IS_RESERVED, cost_of, count_of
from holderlake.core.storage.owners import Owner
from holderlake.core.storage.state import Row, StateConnection, Where, inserted, open_state, put, unix_now

T = TypeVar("T")
_REMEDY: Final = "move it away, and the next command restores the costs from the archive"
_NO_ORDER: Final = SimpleNamespace(newest=0, closed=0, alone=0, period=None)
"""Row of ``statements.BALANCE_ORDER`` before the first call."""
_LATE_ANSWERS: Final = 512
"""Maximum calls that can be open at a time. Their answers, with balances, may arrive in any order."""
_PROVEN: Final = ("reset", *get_args(NotAnswer))
"""Problems of calls that are over, so that a later balance proves whether they were charged."""
_ENTRY: Final = ENTRIES.c
_NEWEST: Final = select(func.coalesce(func.max(_ENTRY.id), 0))
_RUN_COST: Final = select(statements.RUNS.c.cost).where(statements.RUNS.c.name == bindparam("name"))
_DAY_COST: Final = select(DAYS.c.cost).where(DAYS.c.name == bindparam("name"))
_COST_SINCE: Final = select(func.sum(DAYS.c.cost)).where(DAYS.c.name >= bindparam("day"))
_MARK_BROKEN: Final = (
    update(ENTRIES).where(_ENTRY.id == bindparam("entry"), IS_RESERVED).values(answer=None, owner=None)
)
_CLOSE: Final = update(ENTRIES).where(_ENTRY.id == bindparam("entry")).values(answer=None, owner=None)
"""Statements that also set the columns of their parameters."""
_GROUPS: Final[dict[str, ColumnElement[Any]]] = {
    "endpoint": _ENTRY.endpoint,
    "day": _ENTRY.day,
    "run": _ENTRY.run_id,
    "token": func.coalesce(_ENTRY.subject, ""),
}


class CreditLedger:
    """The ledger in a SQLite file or in PostgreSQL, for any number of threads, processes and, with PostgreSQL, hosts.

    Ceilings are None for no ceiling. ``renewal_day``: the day of the month on which the provider renews the allowance;
    the last day in shorter months. ``now`` returns the time (naive UTC); by default the rate limit uses the clock of
    the database's server instead. Every method raises ``DatabaseError``.
    """

    def __init__(
        self,
        location: Where | str,
        *,
        per_run: int | None = None,
        per_day: int | None = None,
        per_month: int | None = None,
        renewal_day: int = 1,
        now: Callable[[], datetime] = utc_now,
    ) -> None:
        if not 1 <= renewal_day <= 31:
            raise ValueError(f"invalid renewal day {renewal_day}: use a day of a month, 1 to 31")
        self._limits = {"per_run": per_run, "per_day": per_day, "per_month": per_month}
        self._renewal_day = renewal_day
        self._now = now
        place = Path(location) if isinstance(location, str) else location
        # Every commit is synced: credits that a power cut erased from the ledger would be spent twice.
        self._db = open_state(place, statements.TABLES, "FULL", _REMEDY, statements.FORMAT)
        self._owner = Owner(self._db, place)

    def __str__(self) -> str:
        return str(self._db)

    def change(self, work: Callable[[StateConnection], T]) -> T:
        """Run ``work`` in one transaction that may write to the tables of ``statements``, and return its result."""
        return self._db.run(work)

    def close(self) -> None:
        """End the claims of this object and close the database; the ledger cannot be used afterwards."""
        self._owner.close()
        self._db.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    def apply(self, operations: Sequence[Operation]) -> list[Reservation | Claimed | Exception | None]:
        """Apply operations in one transaction: first those that close entries or pause, then those that reserve.

        Return one result for each operation, in order: None, or what ``Reserve`` results in. An error is returned, not
        raised: ``BudgetExceeded``, or ``ValueError`` for an entry that is not reserved. Many operations take hardly
        longer than one, because most of the time is the wait for the disk at the commit.
        """
        return self._db.run(lambda db: self._apply(db, operations))

    def _apply(
        self, db: StateConnection, operations: Sequence[Operation]
    ) -> list[Reservation | Claimed | Exception | None]:
        closing = {place: each for place, each in enumerate(operations) if isinstance(each, Settle | Release)}
        reserving = {place: each for place, each in enumerate(operations) if isinstance(each, Reserve)}
        broken = [asdict(each) for each in operations if isinstance(each, entries.MarkBroken)]
        pause = max((each.seconds for each in operations if isinstance(each, entries.Pause)), default=0.0)
        results: list[Reservation | Claimed | Exception | None] = [None] * len(operations)
        if broken:
            db.execute(_MARK_BROKEN, broken)
        if closing or broken:
            for place, error in zip(closing, self._close(db, [*closing.values()]), strict=True):
                results[place] = error
        if pause:
            self._waits(db, [], pause)
        if reserving:
            for place, result in zip(reserving, self._reserve(db, [*reserving.values()]), strict=True):
                results[place] = result
        return results

    def _close(self, db: StateConnection, closing: Sequence[Settle | Release]) -> list[ValueError | None]:
        entry_ids = [operation.entry for operation in closing]
        still = {*db.scalars(select(_ENTRY.id).where(IS_RESERVED, _ENTRY.id.in_(entry_ids)))}
        errors: list[ValueError | None] = []
        closed: list[Row] = []
        balances: list[tuple[int, int]] = []
        for operation in closing:
            errors.append(_fault(operation, still))
            if errors[-1] is not None:
                continue
            still.remove(operation.entry)
            is_settled = isinstance(operation, Settle)
            settle = operation if isinstance(operation, Settle) else Settle(operation.entry, 0)
            state = {"state": "settled" if is_settled else "released", "cost": settle.cost, "problem": settle.problem}
            closed.append({"entry": settle.entry} | state)
            if settle.credits_remaining is not None and abs(settle.credits_remaining) <= MOST_CREDITS:
                balances.append((settle.credits_remaining, settle.entry))
        if closed:
            db.execute(_CLOSE, closed)
        order = db.execute(select(statements.BALANCE_ORDER)).first() or _NO_ORDER
        newest = db.scalar(_NEWEST) or 0
        put(db, statements.BALANCE_ORDER, {"closed": newest})
        if balances:
            named = {entry for _, entry in balances}
            unnamed_cost = sum(row["cost"] for row in closed if row["entry"] not in named)
            self._note_balance(db, *min(balances), newest, order, unnamed_cost)
        return errors

    def use_account(self, provider_id: str, key: str) -> None:
        """Record which API key is charged. After a change, the comparison with the provider's balance starts again."""

        def use(db: StateConnection) -> None:
            stored_account = db.execute(select(statements.ACCOUNT.c.salt, statements.ACCOUNT.c.mark)).first()
            salt, mark = stored_account or (secrets.token_hex(16), None)
            key_mark = hashlib.blake2b(
                f"{provider_id} {key}".encode(), key=bytes.fromhex(salt), digest_size=8
            ).hexdigest()
            if mark not in (None, key_mark):
                for table in (statements.FIRST_BALANCES, statements.BALANCE, statements.BALANCE_ORDER):
                    db.execute(delete(table))
            if mark != key_mark:
                put(db, statements.ACCOUNT, {"salt": salt, "mark": key_mark})

        self._db.run(use)

    def _note_balance(
        self, db: StateConnection, credits_remaining: int, entry: int, newest: int, order: Any, unnamed_cost: int
    ) -> None:
        """Store the balance in the answer of the call ``entry``, unless a later balance is stored.

        ``newest`` is the newest call. A call that was reserved after the stored balance came is later for certain. Of
        calls that were open at once, the lowest balance is the latest. A first balance may lack the charges of calls
        that were open with it and whose answers named none, so they count as settled later. ``unnamed_cost`` is the
        cost of those that were closed together with it.
        """
        now = self._now()
        stored_balance = db.scalar(select(statements.BALANCE.c.credits))
        start = self._period(now.date())[0].isoformat()
        first_balance = _first_balance(db, start)
        is_more = stored_balance is not None and credits_remaining > stored_balance
        if first_balance is None or (is_more and _was_raised(db, start, sum(first_balance), credits_remaining)):
            settled = _spent_since(db, start)[0]
            settled -= _late_cost(db, start, entry) if entry <= order.closed else unnamed_cost
            put(db, statements.FIRST_BALANCES, {"period": start, "credits": credits_remaining, "settled": settled})
        elif is_more and entry <= order.newest:
            return  # an answer that was overtaken by a later one
        put(db, statements.BALANCE, {"credits": credits_remaining, "at": now.isoformat()})
        put(db, statements.BALANCE_ORDER, {"newest": newest})
        if entry == newest and entry > order.closed and not _is_any_open(db):
            self._note_exact_balance(db, credits_remaining, entry, start, order)

    def _note_exact_balance(
        self, db: StateConnection, credits_remaining: int, entry: int, start: str, order: Any
    ) -> None:
        """Store the balance of a call that was the only open one, so that it has the charges of all earlier calls.

        If the balance fell since the last such call by exactly the settled charges, release the calls in between that
        got no answer (``_PROVEN``): they were not charged.
        """
        reserved = _sum(db, _ENTRY.cost, IS_RESERVED, _ENTRY.day >= start)
        settled = _cost_since(db, start) - reserved
        if order.period == start and order.credits - credits_remaining == settled - order.settled:
            proven = IS_RESERVED, _ENTRY.problem.in_(_PROVEN), _ENTRY.id > order.alone, _ENTRY.id < entry
            db.execute(update(ENTRIES).where(*proven).values(state="released", cost=0))
        alone = {"alone": entry, "period": start, "credits": credits_remaining, "settled": settled}
        put(db, statements.BALANCE_ORDER, alone)

    def _reserve(
        self, db: StateConnection, reserving: Sequence[Reserve]
    ) -> list[Reservation | Claimed | BudgetExceeded]:
        """Reserve the calls whose answers are unclaimed and whose costs fit the ceilings. Return a result for each."""
        today = self._now().date()
        claimed = self._claimed(db, [call.answer for call in reserving if call.answer])
        ceilings = {
            run: list(self._ceilings(db, today, run)) for run in dict.fromkeys(call.run_id for call in reserving)
        }
        added_costs: Counter[str | None] = Counter()  # by run, and by None for all
        refusals: list[Claimed | BudgetExceeded | None] = []
        fitting: list[Reserve] = []
        for call in reserving:
            refusal: Claimed | BudgetExceeded | None = Claimed() if call.answer in claimed else None
            for ceiling in () if refusal else ceilings[call.run_id]:
                used = ceiling.used + added_costs[call.run_id if ceiling.name == "per_run" else None]
                if ceiling.limit is not None and used + call.cost > ceiling.limit:
                    way_out = self._way_out(ceiling.name, today)
                    refusal = BudgetExceeded(ceiling.name, ceiling.limit, used, call.cost, way_out)
                    break
            refusals.append(refusal)
            if refusal is None:
                fitting.append(call)
                added_costs.update({call.run_id: call.cost, None: call.cost})
                claimed |= {call.answer} - {None}
        reserved = iter(self._add(db, fitting, today) if fitting else ())
        return [refusal or next(reserved) for refusal in refusals]

    def _add(self, db: StateConnection, fitting: Sequence[Reserve], today: date) -> Iterator[Reservation]:
        rows = [
            {
                **{"run_id": call.run_id, "endpoint": call.endpoint, "subject": call.subject},
                **{"day": today.isoformat(), "state": "reserved", "cost": call.cost, "expected": call.cost},
                **{"answer": call.answer, "owner": self._owner.name if call.answer else None},
            }
            for call in fitting
        ]
        waits = self._waits(db, [call.rate_per_minute for call in fitting])
        return map(Reservation, inserted(db, ENTRIES, rows), waits)

    def _claimed(self, db: StateConnection, answers: Sequence[str]) -> set[str | None]:
        """Return those of ``answers`` that open calls of running processes claim. End the claims of other processes."""
        if not answers:
            return set()
        _end_claims(db, self._owner.join(db))
        claims = db.execute(
            select(_ENTRY.answer, _ENTRY.owner).where(_ENTRY.answer.is_not(None), _ENTRY.answer.in_(answers))
        ).all()
        ended = self._owner.ended(db, {owner for _, owner in claims})
        _end_claims(db, ended)
        return {answer for answer, owner in claims if owner not in ended}

    def _waits(self, db: StateConnection, rates_per_minute: Sequence[int | None], pause: float = 0.0) -> list[float]:
        """Return for each call the seconds until the rate limit allows it; 0 if its rate is None, which is no limit.

        The calls of all processes queue; the queue's end is stored. Calls with a rate wait at least ``pause`` seconds.
        """
        now = unix_now(db) if self._now is utc_now else self._now().replace(tzinfo=UTC).timestamp()
        queue = db.execute(select(statements.RATE_QUEUE.c.asked_at, statements.RATE_QUEUE.c.free_at)).first()
        updated_at, free_at = queue or (now, now)
        # If the clock was set back, the queue starts again.
        free_at = max(now + pause, free_at if updated_at <= now else now)
        waits = []
        for rate in rates_per_minute:
            waits.append(free_at - now if rate else 0.0)
            free_at += 60 / rate if rate else 0.0
        put(db, statements.RATE_QUEUE, {"asked_at": now, "free_at": free_at})
        return waits

    def totals(self, run_id: str | None = None) -> entries.Totals:
        """Return the credits of the current month and all ceilings, including the ceiling of ``run_id`` if given."""
        return self._db.run(lambda db: self._totals(db, run_id), write=False)

    def _totals(self, db: StateConnection, run_id: str | None) -> entries.Totals:
        today = self._now().date()
        start, renewal = self._period(today)
        spent, reserved = _spent_since(db, start.isoformat())
        balance, at = db.execute(select(statements.BALANCE.c.credits, statements.BALANCE.c.at)).first() or (None, None)
        first_balance = _first_balance(db, start.isoformat())
        ceilings = tuple(self._ceilings(db, today, run_id))
        charged, ledger_cost = (
            (first_balance[0] - balance, spent - first_balance[1])
            if first_balance and balance is not None
            else (None, None)
        )
        balance_at = None
        with suppress(ValueError):  # of a damaged file
            balance_at = at and datetime.fromisoformat(at)
        newest = db.scalar(select(statements.BALANCE_ORDER.c.newest)) or 0
        uncharged = _uncharged(db, newest, start.isoformat())
        return entries.Totals(
            spent, reserved, ceilings, start, renewal, balance, balance_at, charged, ledger_cost, uncharged
        )

    def left_this_month(self) -> int | None:
        """Return the credits that can still be spent this month, in hundredths; None if unknown.

        They are the rest of the monthly ceiling, or the provider's balance if that is lower.
        """
        totals = self.totals()
        amounts = [ceiling.left for ceiling in totals.ceilings if ceiling.name == "per_month"]
        start, _ = self._period(self._now().date())
        if totals.balance_at is not None and totals.balance_at.date() >= start:
            amounts.append(totals.credits_remaining)
        return min((amount for amount in amounts if amount is not None), default=None)

    def report(
        self, by: Literal["endpoint", "day", "run", "token"], since: date | None = None
    ) -> list[entries.ReportRow]:
        """Return the calls and credits since a day, with one row for each endpoint, day, run or token.

        Days are sorted by date, the others by falling cost.
        """
        name = _GROUPS[by].label("name")
        rows = self._db.rows(
            select(
                name, func.count() - count_of("released"), cost_of("settled"), cost_of("reserved"), count_of("released")
            )
            .where(_ENTRY.day >= (since.isoformat() if since else ""))
            .group_by(name)
            .order_by(*(() if by == "day" else (func.sum(_ENTRY.cost).desc(),)), name)
        )
        return [entries.ReportRow(*row) for row in rows]

    def totals_by_day(self) -> dict[str, tuple[int, int]]:
        """Return two totals of each day (YYYY-MM-DD): hundredths of a credit, settled or reserved, and open calls."""
        calls = self._db.rows(select(_ENTRY.day, func.count()).where(IS_RESERVED).group_by(_ENTRY.day))
        open_calls = dict(calls)
        return {day: (cost, open_calls.get(day, 0)) for day, cost in self._db.rows(select(DAYS))}

    def newest(self) -> int:
        """Return the number of the newest entry; 0 in an empty ledger."""
        return int(self._db.rows(_NEWEST)[0][0])

    def spending(self, day: str) -> list[tuple[Any, ...]]:
        """Return the calls of a day (YYYY-MM-DD) as rows of ``statements.SPENDING``."""
        return self._db.rows(statements.SPENDING.where(_ENTRY.day == day))

    def problems(self) -> list[entries.Problem]:
        """Return the number and cost of calls whose answers had a problem, one row for each kind of problem."""
        problem = _ENTRY.problem
        sums = select(problem, func.count(), cost_of("settled"), cost_of("reserved")).where(problem.is_not(None))
        return [entries.Problem(*row) for row in self._db.rows(sums.group_by(problem).order_by(problem))]

    def unsettled(self) -> list[entries.Unsettled]:
        """Return the entries that are still reserved, oldest first."""
        columns = (_ENTRY.id, _ENTRY.run_id, _ENTRY.endpoint, _ENTRY.subject, _ENTRY.day, _ENTRY.cost)
        rows = self._db.rows(select(*columns).where(IS_RESERVED).order_by(_ENTRY.id))
        return [
            entries.Unsettled(entry, run_id, endpoint, subject, date.fromisoformat(day), cost)
            for entry, run_id, endpoint, subject, day, cost in rows
        ]

    def damage(self) -> str | None:
        """Return an error text if the costs of calls do not add up to the stored sums of days and runs, else None."""
        wrong = self._db.rows(text(statements.WRONG_SUM))
        return f"{self}: the costs of its calls do not add up to its stored sums of days and runs" if wrong else None

    def _ceilings(self, db: StateConnection, today: date, run_id: str | None) -> Iterator[entries.Ceiling]:
        start, _ = self._period(today)
        if run_id is not None:
            yield entries.Ceiling("per_run", self._limits["per_run"], db.scalar(_RUN_COST, {"name": run_id}) or 0)
        yield entries.Ceiling(
            "per_day", self._limits["per_day"], db.scalar(_DAY_COST, {"name": today.isoformat()}) or 0
        )
        yield entries.Ceiling("per_month", self._limits["per_month"], _cost_since(db, start.isoformat()))

    def _way_out(self, name: str, today: date) -> str:
        waits = {
            "per_run": "start another run",
            "per_day": f"wait until {today + timedelta(days=1)}",
            "per_month": f"wait for the renewal on {self._period(today)[1]}",
        }
        return f"raise budget.{name} or {waits[name]}"

    def _period(self, today: date) -> tuple[date, date]:
        """Return the first day of the current month (from renewal to renewal), and the next renewal."""
        this_renewal = _day_of_month(today.year, today.month, self._renewal_day)
        if today >= this_renewal:
            return this_renewal, _day_of_month(today.year, today.month + 1, self._renewal_day)
        return _day_of_month(today.year, today.month - 1, self._renewal_day), this_renewal


def _fault(operation: Settle | Release, reserved: Collection[int]) -> ValueError | None:
    """Return the error of an operation that cannot close its entry; None if it can."""
    if operation.entry not in reserved:
        return ValueError(f"ledger entry {operation.entry} is not reserved: it does not exist or is closed")
    if isinstance(operation, Settle) and not 0 <= operation.cost <= MOST_CREDITS:
        return ValueError(f"the cost of a call cannot be {operation.cost} hundredths of a credit: 0 to {MOST_CREDITS}")
    return None


def _end_claims(db: StateConnection, owners: Collection[str]) -> None:
    if owners:
        claims = _ENTRY.answer.is_not(None), _ENTRY.owner.in_(owners)
        db.execute(update(ENTRIES).where(*claims).values(answer=None, owner=None))


def _is_any_open(db: StateConnection) -> bool:
    """Return whether a call is open, apart from calls whose outcome stays unknown."""
    return db.scalar(select(_ENTRY.id).where(IS_RESERVED, _ENTRY.problem.is_(None)).limit(1)) is not None


def _sum(db: StateConnection, cost: ColumnElement[int], *conditions: ColumnElement[bool]) -> int:
    return int(db.scalar(select(func.sum(cost)).where(*conditions)) or 0)


def _cost_since(db: StateConnection, day: str) -> int:
    """Return the settled or reserved hundredths of a credit since a day (YYYY-MM-DD)."""
    return int(db.scalar(_COST_SINCE, {"day": day}) or 0)


def _first_balance(db: StateConnection, period: str) -> tuple[int, int] | None:
    """Return the first balance of the period, and the sum settled by then; None if no balance came."""
    query = select(statements.FIRST_BALANCES.c.credits, statements.FIRST_BALANCES.c.settled).where(
        statements.FIRST_BALANCES.c.period == period
    )
    return cast("tuple[int, int] | None", db.execute(query).first())


def _uncharged(db: StateConnection, newest: int, day: str) -> int:
    """Return the hundredths of a credit that the last calls up to ``newest`` might have cost and did not."""
    late = select(_ENTRY.state, _ENTRY.cost, _ENTRY.expected).where(_ENTRY.id <= newest, _ENTRY.day >= day)
    call = late.order_by(_ENTRY.id.desc()).limit(_LATE_ANSWERS).subquery("late").c
    return _sum(db, call.expected - call.cost, call.state != "reserved", call.expected > call.cost)


def _late_cost(db: StateConnection, day: str, entry: int) -> int:
    """Return the settled hundredths of a credit of the latest calls, apart from the call ``entry``."""
    late = select(_ENTRY.id, _ENTRY.state, _ENTRY.cost).where(_ENTRY.day >= day)
    call = late.order_by(_ENTRY.id.desc()).limit(_LATE_ANSWERS).subquery("late").c
    return _sum(db, call.cost, call.state == "settled", call.id != entry)


def _spent_since(db: StateConnection, day: str) -> tuple[int, int]:
    """Return the settled and the reserved hundredths of a credit since a day (YYYY-MM-DD)."""
    ((settled, reserved),) = db.execute(select(cost_of("settled"), cost_of("reserved")).where(_ENTRY.day >= day))
    return settled, reserved


def _was_raised(db: StateConnection, start: str, allowance: int, credits_remaining: int) -> bool:
    """Return whether the provider raised the allowance since ``start``, when it was ``allowance``.

    It did if the balance plus all costs since ``start`` exceeds ``allowance`` by more than the costs of the latest
    calls, which the balance may not include yet. Amounts are hundredths of a credit.
    """
    late = select(_ENTRY.cost).order_by(_ENTRY.id.desc()).limit(_LATE_ANSWERS).subquery("late")
    return credits_remaining + _cost_since(db, start) > allowance + _sum(db, late.c.cost)


def _day_of_month(year: int, month: int, day: int) -> date:
    """Return the date of ``day`` in a month, or the month's last day. Months 0 and 13 are in the neighbouring years."""
    month_start = date(year + (month - 1) // 12, (month - 1) % 12 + 1, 1)
    month_end = (month_start + timedelta(days=31)).replace(day=1) - timedelta(days=1)
    return month_start.replace(day=min(day, month_end.day))
