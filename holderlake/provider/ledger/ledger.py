"""The credit ledger: the cost of calls, reserved before they are made, so that no ceiling is ever passed.

One SQLite file serves all runs and processes of a home. An entry is reserved, then settled (with what was charged) or
released (nothing was). One that stays reserved (a crash, a time-out) counts as spent: the provider may have charged it.
Amounts are hundredths of a credit, days are UTC. Who reserves when stands in ``provider``, prices in the contract.
"""

from __future__ import annotations

import hashlib
import json
import secrets
import sqlite3
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from datetime import UTC, date, datetime, timedelta
from itertools import count
from pathlib import Path
from types import TracebackType
from typing import Final, Literal, Self

from holderlake.contract.times import utc_now
from holderlake.provider.errors import BudgetExceeded
from holderlake.provider.ledger.entries import (
    MOST_CREDITS,
    MarkBroken,
    Operation,
    Pause,
    Release,
    Reservation,
    Reserve,
    Settle,
)
from holderlake.provider.ledger.repair import upgrade
from holderlake.storage.sqlite import Database

_REMEDY: Final = "move it away, and the next command restores from the archive what was spent"
_RESTORE: Final = """
    INSERT INTO entries (run_id, endpoint, subject, day, state, cost) VALUES (?, ?, ?, ?, 'settled', ?)
"""
_SCHEMA: Final = (
    """
    CREATE TABLE IF NOT EXISTS entries (
        id INTEGER PRIMARY KEY AUTOINCREMENT,
        run_id TEXT NOT NULL,
        endpoint TEXT NOT NULL,
        subject TEXT,
        day TEXT NOT NULL,
        state TEXT NOT NULL CHECK (state IN ('reserved', 'settled', 'released')),
        cost INTEGER NOT NULL CHECK (cost >= 0)
    )
    """,
    "CREATE INDEX IF NOT EXISTS entries_by_day ON entries (day)",
    "CREATE INDEX IF NOT EXISTS entries_reserved ON entries (state) WHERE state = 'reserved'",
    # What counts towards the ceilings, kept by triggers: summing a month of entries before each call would be slow.
    "CREATE TABLE IF NOT EXISTS days (name TEXT PRIMARY KEY, cost INTEGER NOT NULL) WITHOUT ROWID",
    "CREATE TABLE IF NOT EXISTS runs (name TEXT PRIMARY KEY, cost INTEGER NOT NULL) WITHOUT ROWID",
    """
    CREATE TRIGGER IF NOT EXISTS entry_added AFTER INSERT ON entries BEGIN
        INSERT INTO days VALUES (NEW.day, NEW.cost) ON CONFLICT (name) DO UPDATE SET cost = cost + excluded.cost;
        INSERT INTO runs VALUES (NEW.run_id, NEW.cost) ON CONFLICT (name) DO UPDATE SET cost = cost + excluded.cost;
    END
    """,
    """
    CREATE TRIGGER IF NOT EXISTS entry_closed AFTER UPDATE OF cost ON entries BEGIN
        UPDATE days SET cost = cost + NEW.cost - OLD.cost WHERE name = NEW.day;
        UPDATE runs SET cost = cost + NEW.cost - OLD.cost WHERE name = NEW.run_id;
    END
    """,
    "CREATE TABLE IF NOT EXISTS told (one INTEGER PRIMARY KEY CHECK (one = 1), credits INTEGER, at TEXT)",
    # The first word of the provider in a period, and what was settled then: what it counts from there on is compared.
    "CREATE TABLE IF NOT EXISTS told_first (period TEXT PRIMARY KEY, credits INTEGER, settled INTEGER) WITHOUT ROWID",
    # Whose allowance that is: a keyed hash of the provider's name and the API key, which cannot be turned back.
    "CREATE TABLE IF NOT EXISTS account (one INTEGER PRIMARY KEY CHECK (one = 1), salt TEXT, mark TEXT)",
    "CREATE TABLE IF NOT EXISTS turns (one INTEGER PRIMARY KEY CHECK (one = 1), asked_at REAL, free_at REAL)",
)
_STILL_RESERVED: Final = """
    SELECT json_group_array(id)
    FROM entries
    WHERE state = 'reserved' AND id IN (SELECT value FROM json_each(?))
"""
_CLOSE: Final = """
    UPDATE entries
    SET state = closed.state, cost = closed.cost, problem = closed.problem
    FROM (
        SELECT json_extract(value, '$[0]') AS id, json_extract(value, '$[1]') AS state,
            json_extract(value, '$[2]') AS cost, json_extract(value, '$[3]') AS problem
        FROM json_each(?)
    ) AS closed
    WHERE entries.id = closed.id
"""
_ADD: Final = """
    INSERT INTO entries (run_id, endpoint, subject, day, state, cost)
    SELECT json_extract(value, '$[0]'), json_extract(value, '$[1]'), json_extract(value, '$[2]'),
        json_extract(value, '$[3]'), 'reserved', json_extract(value, '$[4]')
    FROM json_each(?)
    ORDER BY key
"""
"""Within a transaction the numbers of new entries follow each other."""
_LATE_ANSWERS: Final = 512
"""So many calls may be under way, and their answers arrive in any order."""
_GROUPS: Final = {"endpoint": "endpoint", "day": "day", "run": "run_id", "token": "coalesce(subject, '')"}


@dataclass(frozen=True)
class Ceiling:
    """A ceiling and what counts towards it; ``limit`` and ``left`` are None where none is set."""

    name: Literal["per_run", "per_day", "per_month"]
    limit: int | None
    used: int

    @property
    def left(self) -> int | None:
        return None if self.limit is None else max(0, self.limit - self.used)


@dataclass(frozen=True)
class Totals:
    """The present month (from renewal to renewal), and what the provider last said remains (None: it never did).

    ``charged`` is what the provider counted since its first word this month, ``known`` what was settled here meanwhile:
    where the first is more than the second and what is reserved, another client uses the key, or the allowance was cut.
    """

    spent: int
    reserved: int
    ceilings: tuple[Ceiling, ...]
    renewal: date
    credits_remaining: int | None
    told_at: datetime | None
    charged: int | None = None
    known: int | None = None

    @property
    def unexplained(self) -> int:
        """What the provider counted beyond all that may have been charged to us."""
        return max(0, (self.charged or 0) - (self.known or 0) - self.reserved)


@dataclass(frozen=True)
class ReportRow:
    """What calls of one endpoint, day, run or token cost; ``calls`` leaves out those that were not charged."""

    name: str
    calls: int
    spent: int
    reserved: int
    uncharged_calls: int


@dataclass(frozen=True)
class Problem:
    """Calls whose answers had the same problem. ``spent`` was charged for certain, ``reserved`` possibly."""

    name: str
    calls: int
    spent: int
    reserved: int


@dataclass(frozen=True)
class Restored:
    """A call that the ledger had lost, and what it cost."""

    endpoint: str
    subject: str | None
    day: date
    cost: int


@dataclass(frozen=True)
class Unsettled:
    """An entry that is still reserved: its call is under way, or its outcome was never learnt."""

    id: int
    run_id: str
    endpoint: str
    subject: str | None
    day: date
    cost: int


class CreditLedger:
    """The ledger in the file at ``path``, for any number of threads and processes.

    Ceilings in hundredths of a credit, None for no ceiling. ``renewal_day``: the day of the month on which the
    provider's allowance begins anew; the last one in shorter months.
    """

    def __init__(
        self,
        path: Path | str,
        *,
        per_run: int | None = None,
        per_day: int | None = None,
        per_month: int | None = None,
        renewal_day: int = 1,
        now: Callable[[], datetime] = utc_now,
    ) -> None:
        if not 1 <= renewal_day <= 31:
            raise ValueError(f"the renewal day must be a day of a month, 1 to 31, not {renewal_day}")
        self._limits = {"per_run": per_run, "per_day": per_day, "per_month": per_month}
        self._renewal_day = renewal_day
        self._now = now
        # Every commit reaches the disk: credits that a power cut made us forget would be spent twice.
        self._db = Database(Path(path), _SCHEMA, "FULL", _REMEDY)
        with self._db.transaction() as db:
            upgrade(db)

    def newest_day(self) -> str | None:
        """Return the day of the newest entry; None where there is none."""
        ((day,),) = self._db.rows("SELECT max(day) FROM entries")
        return None if day is None else str(day)

    def restore(self, run_id: str, entries: Sequence[Restored], newest_day: str | None) -> bool:
        """Add settled entries that were lost. Does nothing where another process was first: the newest day differs."""
        rows = [(run_id, one.endpoint, one.subject, one.day.isoformat(), one.cost) for one in entries]
        with self._db.transaction() as db:
            if not rows or db.execute("SELECT max(day) FROM entries").fetchone() != (newest_day,):
                return False
            db.executemany(_RESTORE, rows)
        return True

    def close(self) -> None:
        """Closes the file; the ledger can't be used any more."""
        self._db.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    def apply(self, bookings: Sequence[Operation]) -> list[Reservation | Exception | None]:
        """Many bookings in one transaction: first what closes entries or holds off, then what reserves, in order.

        Gives each one's result, or the exception that it alone would raise. A commit waits for the disk, and a
        statement for its turn at the interpreter: many bookings take hardly more of both than one.
        """
        closing = {place: one for place, one in enumerate(bookings) if isinstance(one, Settle | Release)}
        reserving = {place: one for place, one in enumerate(bookings) if isinstance(one, Reserve)}
        lost = [(one.problem, one.entry) for one in bookings if isinstance(one, MarkBroken)]
        pause = max((one.seconds for one in bookings if isinstance(one, Pause)), default=0.0)
        results: list[Reservation | Exception | None] = [None] * len(bookings)
        with self._db.transaction() as db:
            if closing:
                for place, error in zip(closing, self._close(db, [*closing.values()]), strict=True):
                    results[place] = error
            db.executemany("UPDATE entries SET problem = ? WHERE id = ? AND state = 'reserved'", lost)
            if pause:
                self._waits(db, [], pause)
            if reserving:
                for place, result in zip(reserving, self._reserve(db, [*reserving.values()]), strict=True):
                    results[place] = result
        return results

    def reserve(self, run_id: str, endpoint: str, subject: str | None, cost: int) -> int:
        """Reserves the cost of one call and gives the entry's id. Raises ``BudgetExceeded``; then nothing is kept."""
        reserved = _one(self.apply([Reserve(run_id, endpoint, subject, cost)]))
        return reserved.entry if reserved else 0

    def settle(self, entry: int, cost: int, credits_remaining: int | None = None) -> None:
        """Notes what a reserved call was charged, and what the provider says remains.

        Raises ``ValueError`` where the entry is not reserved.
        """
        _one(self.apply([Settle(entry, cost, credits_remaining)]))

    def release(self, entry: int) -> None:
        """Notes that a reserved call was not charged. Raises ``ValueError`` where the entry is not reserved."""
        _one(self.apply([Release(entry)]))

    def next_turn(self, rate_per_minute: int) -> float:
        """Seconds to wait before the next call, so that all processes together keep within the rate.

        Each asking takes one place in the queue; places are a minute / rate apart.
        """
        with self._db.transaction() as db:
            return self._waits(db, [rate_per_minute])[0]

    def _close(self, db: sqlite3.Connection, closing: Sequence[Settle | Release]) -> list[ValueError | None]:
        (found,) = db.execute(_STILL_RESERVED, (json.dumps([one.entry for one in closing]),)).fetchone()
        still = set(json.loads(found))
        errors: list[ValueError | None] = []
        closed: list[tuple[int, str, int, str | None]] = []
        told = None
        for one in closing:
            if one.entry not in still:
                errors.append(ValueError(f"ledger entry {one.entry} is not reserved"))
                continue
            if isinstance(one, Settle) and not 0 <= one.cost <= MOST_CREDITS:
                errors.append(ValueError(f"{one.cost} hundredths of a credit cannot be the cost of a call"))
                continue
            errors.append(None)
            still.remove(one.entry)
            if isinstance(one, Release):
                closed.append((one.entry, "released", 0, None))
            else:
                closed.append((one.entry, "settled", one.cost, one.problem))
                told = told if one.credits_remaining is None else one.credits_remaining
        db.execute(_CLOSE, (json.dumps(closed),))
        if told is not None and abs(told) <= MOST_CREDITS:
            self._note_told(db, told)
        return errors

    def use_account(self, provider_id: str, key: str) -> None:
        """Note whose allowance the calls are charged to. With another key, what the provider counts begins again."""
        with self._db.transaction() as db:
            salt, mark = db.execute("SELECT salt, mark FROM account").fetchone() or (secrets.token_hex(16), None)
            own = hashlib.blake2b(f"{provider_id} {key}".encode(), key=bytes.fromhex(salt), digest_size=8).hexdigest()
            if mark not in (None, own):
                db.execute("DELETE FROM told_first")
                db.execute("DELETE FROM told")
            db.execute("INSERT OR REPLACE INTO account VALUES (1, ?, ?)", (salt, own))

    def _note_told(self, db: sqlite3.Connection, credits_remaining: int) -> None:
        now = self._now()
        before = db.execute("SELECT credits FROM told").fetchone()
        db.execute("INSERT OR REPLACE INTO told VALUES (1, ?, ?)", (credits_remaining, now.isoformat()))
        start = self._period(now.date())[0].isoformat()
        first = db.execute("SELECT credits, settled FROM told_first WHERE period = ?", (start,)).fetchone()
        is_more = before is not None and credits_remaining > before[0]
        if first is None or (is_more and _was_raised(db, start, sum(first), credits_remaining)):
            settled, _ = _spent_since(db, start)
            db.execute("INSERT OR REPLACE INTO told_first VALUES (?, ?, ?)", (start, credits_remaining, settled))

    def _reserve(self, db: sqlite3.Connection, reserving: Sequence[Reserve]) -> list[Reservation | BudgetExceeded]:
        """Entries and turns of those that fit below the ceilings."""
        today = self._now().date()
        ceilings = {run: list(self._ceilings(db, today, run)) for run in dict.fromkeys(one.run_id for one in reserving)}
        added: Counter[str | None] = Counter()  # by run, and by None for all
        errors: list[BudgetExceeded | None] = []
        fitting: list[Reserve] = []
        for one in reserving:
            error = None
            for ceiling in ceilings[one.run_id]:
                used = ceiling.used + added[one.run_id if ceiling.name == "per_run" else None]
                if ceiling.limit is not None and used + one.cost > ceiling.limit:
                    way_out = self._way_out(ceiling.name, today)
                    error = BudgetExceeded(ceiling.name, ceiling.limit, used, one.cost, way_out)
                    break
            errors.append(error)
            if error is None:
                fitting.append(one)
                added.update({one.run_id: one.cost, None: one.cost})
        rows = [(one.run_id, one.endpoint, one.subject, today.isoformat(), one.cost) for one in fitting]
        last = db.execute(_ADD, (json.dumps(rows),)).lastrowid or 0
        waits = self._waits(db, [one.rate_per_minute for one in fitting])
        reserved = map(Reservation, count(last - len(rows) + 1), waits)
        return [error or next(reserved) for error in errors]

    def _waits(self, db: sqlite3.Connection, rates_per_minute: Sequence[int | None], pause: float = 0.0) -> list[float]:
        """Seconds until each one's turn, nobody's before the pause is over; who has no rate stands in no queue."""
        now = self._seconds()
        asked_at, free_at = db.execute("SELECT asked_at, free_at FROM turns").fetchone() or (now, now)
        # Where the clock was set back, the queue means nothing.
        free_at = max(now + pause, free_at if asked_at <= now else now)
        waits = []
        for rate in rates_per_minute:
            waits.append(free_at - now if rate else 0.0)
            free_at += 60 / rate if rate else 0.0
        db.execute("INSERT OR REPLACE INTO turns VALUES (1, ?, ?)", (now, free_at))
        return waits

    def _seconds(self) -> float:
        return self._now().replace(tzinfo=UTC).timestamp()

    def totals(self, run_id: str | None = None) -> Totals:
        """What is spent and left, of the run's ceiling too where a run is named."""
        with self._db.transaction(write=False) as db:
            today = self._now().date()
            start, renewal = self._period(today)
            spent, reserved = _spent_since(db, start.isoformat())
            told, at = db.execute("SELECT credits, at FROM told").fetchone() or (None, None)
            first = db.execute(
                "SELECT credits, settled FROM told_first WHERE period = ?", (start.isoformat(),)
            ).fetchone()
            ceilings = tuple(self._ceilings(db, today, run_id))
        charged, known = (first[0] - told, spent - first[1]) if first and told is not None else (None, None)
        return Totals(spent, reserved, ceilings, renewal, told, at and datetime.fromisoformat(at), charged, known)

    def left_this_month(self) -> int | None:
        """What the month's ceiling leaves, and not more than the provider said remains; None where neither is known."""
        totals = self.totals()
        known = [ceiling.left for ceiling in totals.ceilings if ceiling.name == "per_month"]
        start, _ = self._period(self._now().date())
        if totals.told_at is not None and totals.told_at.date() >= start:
            known.append(totals.credits_remaining)
        return min((left for left in known if left is not None), default=None)

    def report(self, by: Literal["endpoint", "day", "run", "token"], since: date | None = None) -> list[ReportRow]:
        """Calls and credits of each endpoint, day, run or token: days in order, the others dearest first.

        All time without ``since``.
        """
        name = _GROUPS[by]
        order = "1" if by == "day" else "sum(cost) DESC, 1"
        with self._db.transaction(write=False) as db:
            rows = db.execute(
                f"SELECT {name}, count(*) FILTER (WHERE state != 'released'), "
                "coalesce(sum(cost) FILTER (WHERE state = 'settled'), 0), "
                "coalesce(sum(cost) FILTER (WHERE state = 'reserved'), 0), "
                f"count(*) FILTER (WHERE state = 'released') FROM entries WHERE day >= ? GROUP BY 1 ORDER BY {order}",
                (since.isoformat() if since else "",),
            ).fetchall()
        return [ReportRow(*row) for row in rows]

    def problems(self) -> list[Problem]:
        """Calls whose answers had a problem, by problem: what they cost for certain and at most."""
        with self._db.transaction(write=False) as db:
            rows = db.execute(
                "SELECT problem, count(*), coalesce(sum(cost) FILTER (WHERE state = 'settled'), 0), "
                "coalesce(sum(cost) FILTER (WHERE state = 'reserved'), 0) "
                "FROM entries WHERE problem IS NOT NULL GROUP BY 1 ORDER BY 1"
            ).fetchall()
        return [Problem(*row) for row in rows]

    def unsettled(self) -> list[Unsettled]:
        """Entries that are still reserved, oldest first. Whoever knows one's outcome may settle or release it."""
        with self._db.transaction(write=False) as db:
            rows = db.execute(
                "SELECT id, run_id, endpoint, subject, day, cost FROM entries WHERE state = 'reserved' ORDER BY id"
            ).fetchall()
        return [
            Unsettled(entry, run_id, endpoint, subject, date.fromisoformat(day), cost)
            for entry, run_id, endpoint, subject, day, cost in rows
        ]

    def _ceilings(self, db: sqlite3.Connection, today: date, run_id: str | None) -> Iterator[Ceiling]:
        start, _ = self._period(today)
        if run_id is not None:
            yield Ceiling("per_run", self._limits["per_run"], _used(db, "runs WHERE name = ?", run_id))
        yield Ceiling("per_day", self._limits["per_day"], _used(db, "days WHERE name = ?", today.isoformat()))
        yield Ceiling("per_month", self._limits["per_month"], _used(db, "days WHERE name >= ?", start.isoformat()))

    def _way_out(self, name: str, today: date) -> str:
        waits = {
            "per_run": "start another run",
            "per_day": f"wait until {today + timedelta(days=1)}",
            "per_month": f"wait for the renewal on {self._period(today)[1]}",
        }
        return f"raise budget.{name} or {waits[name]}"

    def _period(self, today: date) -> tuple[date, date]:
        """First day of the present month from renewal to renewal, and the next renewal."""
        this = _day_of_month(today.year, today.month, self._renewal_day)
        if today >= this:
            return this, _day_of_month(today.year, today.month + 1, self._renewal_day)
        return _day_of_month(today.year, today.month - 1, self._renewal_day), this


def _one(results: Sequence[Reservation | Exception | None]) -> Reservation | None:
    """The only result; raises it where it is an exception."""
    (result,) = results
    if isinstance(result, Exception):
        raise result
    return result


def _used(db: sqlite3.Connection, where: str, value: str) -> int:
    return int(db.execute(f"SELECT coalesce(sum(cost), 0) FROM {where}", (value,)).fetchone()[0])


def _spent_since(db: sqlite3.Connection, day: str) -> tuple[int, int]:
    """Settled and reserved from a day on."""
    settled, reserved = db.execute(
        "SELECT coalesce(sum(cost) FILTER (WHERE state = 'settled'), 0), "
        "coalesce(sum(cost) FILTER (WHERE state = 'reserved'), 0) FROM entries WHERE day >= ?",
        (day,),
    ).fetchone()
    return int(settled), int(reserved)


def _was_raised(db: sqlite3.Connection, start: str, allowance: int, credits_remaining: int) -> bool:
    """Return whether more remains than the allowance that was known leaves, whatever the order of late answers."""
    (spent,) = db.execute("SELECT coalesce(sum(cost), 0) FROM days WHERE name >= ?", (start,)).fetchone()
    recent = f"SELECT coalesce(sum(cost), 0) FROM (SELECT cost FROM entries ORDER BY id DESC LIMIT {_LATE_ANSWERS})"
    (late,) = db.execute(recent).fetchone()
    return bool(credits_remaining + spent > allowance + late)


def _day_of_month(year: int, month: int, day: int) -> date:
    """That day, or the month's last; months 0 and 13 are the neighbouring years'."""
    first = date(year + (month - 1) // 12, (month - 1) % 12 + 1, 1)
    last = (first + timedelta(days=31)).replace(day=1) - timedelta(days=1)
    return first.replace(day=min(day, last.day))
