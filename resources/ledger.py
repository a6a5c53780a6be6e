"""The credit ledger: what calls cost, reserved before they are made, so that no ceiling is ever passed.

One SQLite file serves all runs and processes of a home. An entry is reserved, then settled (with what was charged) or
released (nothing was). One that stays reserved (a crash, a time-out) counts as spent: the provider may have charged it.
Amounts are hundredths of a credit, days are UTC. Who reserves when stands in ``provider``, prices in the contract.
"""

from __future__ import annotations

import sqlite3
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from datetime import UTC, date, datetime, timedelta
from pathlib import Path
from types import TracebackType
from typing import Final, Literal, Self, TypeAlias

from contract.times import utc_now
from resources.database import Database
from resources.errors import BudgetExceeded

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
    "CREATE TABLE IF NOT EXISTS turns (one INTEGER PRIMARY KEY CHECK (one = 1), asked_at REAL, free_at REAL)",
)
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
    where the first is more than the second and what is reserved, somebody else spends on the same key.
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
class Unsettled:
    """An entry that is still reserved: its call is under way, or its outcome was never learnt."""

    id: int
    run_id: str
    endpoint: str
    subject: str | None
    day: date
    cost: int


@dataclass(frozen=True)
class Reserve:
    """The cost of a call that is about to be made, and its place in the queue at a rate of calls a minute."""

    run_id: str
    endpoint: str
    subject: str | None
    cost: int
    rate_per_minute: int


@dataclass(frozen=True)
class Reserved:
    """An entry, and the seconds after which its call may be made."""

    entry: int
    wait: float


@dataclass(frozen=True)
class Settle:
    """What a reserved call was charged, and what the provider says remains."""

    entry: int
    cost: int
    credits_remaining: int | None = None


@dataclass(frozen=True)
class Release:
    """A reserved call that was not charged."""

    entry: int


@dataclass(frozen=True)
class HoldOff:
    """The provider wants nobody of this host to call for so many seconds."""

    seconds: float


Booking: TypeAlias = Reserve | Settle | Release | HoldOff


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
        self._db = Database(Path(path), _SCHEMA, "FULL")

    def close(self) -> None:
        """Closes the file; the ledger can't be used any more."""
        self._db.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    def carry_out(self, bookings: Sequence[Booking]) -> list[Reserved | Exception | None]:
        """Many bookings in one transaction, in order; each one's result, or the exception that it alone would raise.

        Every commit waits for the disk, so many together cost as much as one.
        """
        results: list[Reserved | Exception | None] = []
        with self._db.transaction() as db:
            for booking in bookings:
                try:
                    results.append(self._book(db, booking))
                except (BudgetExceeded, ValueError) as error:
                    results.append(error)
        return results

    def _book(self, db: sqlite3.Connection, booking: Booking) -> Reserved | None:
        if isinstance(booking, Reserve):
            entry = self._reserve(db, booking.run_id, booking.endpoint, booking.subject, booking.cost)
            return Reserved(entry, self._next_turn(db, booking.rate_per_minute))
        if isinstance(booking, Settle):
            self._settle(db, booking.entry, booking.cost, booking.credits_remaining)
        elif isinstance(booking, HoldOff):
            now = self._seconds()
            db.execute("INSERT OR IGNORE INTO turns VALUES (1, ?, ?)", (now, now))
            db.execute("UPDATE turns SET free_at = max(free_at, ?)", (now + booking.seconds,))
        else:
            self._close_entry(db, booking.entry, "released", 0)
        return None

    def reserve(self, run_id: str, endpoint: str, subject: str | None, cost: int) -> int:
        """Reserves the cost of one call and gives the entry's id. Raises ``BudgetExceeded``; then nothing is kept."""
        with self._db.transaction() as db:
            return self._reserve(db, run_id, endpoint, subject, cost)

    def _reserve(self, db: sqlite3.Connection, run_id: str, endpoint: str, subject: str | None, cost: int) -> int:
        today = self._now().date()
        for ceiling in self._ceilings(db, today, run_id):
            if ceiling.limit is not None and ceiling.used + cost > ceiling.limit:
                way_out = self._way_out(ceiling.name, today)
                raise BudgetExceeded(ceiling.name, ceiling.limit, ceiling.used, cost, way_out)
        added = db.execute(
            "INSERT INTO entries (run_id, endpoint, subject, day, state, cost) VALUES (?, ?, ?, ?, 'reserved', ?)",
            (run_id, endpoint, subject, today.isoformat(), cost),
        )
        return added.lastrowid or 0

    def settle(self, entry: int, cost: int, credits_remaining: int | None = None) -> None:
        """Notes what a reserved call was charged, and what the provider says remains.

        Raises ``ValueError`` where the entry is not reserved.
        """
        with self._db.transaction() as db:
            self._settle(db, entry, cost, credits_remaining)

    def _settle(self, db: sqlite3.Connection, entry: int, cost: int, credits_remaining: int | None) -> None:
        self._close_entry(db, entry, "settled", cost)
        if credits_remaining is not None:
            at = self._now().isoformat()
            db.execute("INSERT OR REPLACE INTO told VALUES (1, ?, ?)", (credits_remaining, at))
            start = self._period(self._now().date())[0].isoformat()
            if not db.execute("SELECT 1 FROM told_first WHERE period = ?", (start,)).fetchone():
                settled, _ = _spent_since(db, start)
                db.execute("INSERT INTO told_first VALUES (?, ?, ?)", (start, credits_remaining, settled))

    def release(self, entry: int) -> None:
        """Notes that a reserved call was not charged. Raises ``ValueError`` where the entry is not reserved."""
        with self._db.transaction() as db:
            self._close_entry(db, entry, "released", 0)

    def next_turn(self, rate_per_minute: int) -> float:
        """Seconds to wait before the next call, so that all processes together keep within the rate.

        Each asking takes one place in the queue; places are a minute / rate apart.
        """
        with self._db.transaction() as db:
            return self._next_turn(db, rate_per_minute)

    def _next_turn(self, db: sqlite3.Connection, rate_per_minute: int) -> float:
        now = self._seconds()
        asked_at, free_at = db.execute("SELECT asked_at, free_at FROM turns").fetchone() or (now, now)
        start = max(now, free_at) if asked_at <= now else now  # the clock was set back: the queue means nothing
        db.execute("INSERT OR REPLACE INTO turns VALUES (1, ?, ?)", (now, start + 60 / rate_per_minute))
        return float(start - now)

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
        charged, known = (first[0] - told, spent - first[1]) if first else (None, None)
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

    @staticmethod
    def _close_entry(db: sqlite3.Connection, entry: int, state: str, cost: int) -> None:
        changed = db.execute(
            "UPDATE entries SET state = ?, cost = ? WHERE id = ? AND state = 'reserved'", (state, cost, entry)
        ).rowcount
        if not changed:
            raise ValueError(f"ledger entry {entry} is not reserved")


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


def _day_of_month(year: int, month: int, day: int) -> date:
    """That day, or the month's last; months 0 and 13 are the neighbouring years'."""
    first = date(year + (month - 1) // 12, (month - 1) % 12 + 1, 1)
    last = (first + timedelta(days=31)).replace(day=1) - timedelta(days=1)
    return first.replace(day=min(day, last.day))
