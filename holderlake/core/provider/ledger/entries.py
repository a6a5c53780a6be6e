"""Operations on the credit ledger, and what its reports consist of. Amounts are hundredths of a credit."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import date, datetime
from typing import Final, Literal, TypeAlias

MOST_CREDITS: Final = 10**15
"""Hundredths of a credit. A larger cost or balance is implausible."""
IMPLAUSIBLE: Final = "implausible_cost"
"""Name of the problem that a header of the answer has an implausible cost or balance."""


@dataclass(frozen=True)
class Reserve:
    """Reserve the cost of a call, and the time at which the rate limit allows it; None for a call without rate limit.

    With ``answer``, its name in the archive, also claim that answer: no other call for it is reserved until this call
    is settled or released.
    """

    run_id: str
    endpoint: str
    subject: str | None
    cost: int
    rate_per_minute: int | None = None
    answer: str | None = None


@dataclass(frozen=True)
class Reservation:
    """Result of ``Reserve``: the id of the ledger entry, and the seconds until the rate limit allows the call."""

    entry: int
    wait: float


@dataclass(frozen=True)
class Claimed:
    """Result of ``Reserve`` if another open call has claimed the same answer. Nothing is reserved."""


@dataclass(frozen=True)
class Settle:
    """Record the charge of the reserved call ``entry``. ``problem`` names the fault of its answer, if any."""

    entry: int
    cost: int
    credits_remaining: int | None = None
    problem: str | None = None


@dataclass(frozen=True)
class MarkBroken:
    """Record that the answer of the call ``entry`` is broken. Its cost stays reserved: it may have been charged."""

    entry: int
    problem: str


@dataclass(frozen=True)
class Release:
    """Release the reservation of the call ``entry``, which was not charged."""

    entry: int


@dataclass(frozen=True)
class Pause:
    """Delay all later calls of all processes on this host by at least ``seconds``, as the provider demands."""

    seconds: float


Operation: TypeAlias = Reserve | Settle | Release | MarkBroken | Pause


@dataclass(frozen=True)
class Ceiling:
    """A ceiling of the budget. ``used`` is spent or reserved; ``limit`` and ``left`` are None if no ceiling is set."""

    name: Literal["per_run", "per_day", "per_month"]
    limit: int | None
    used: int

    @property
    def left(self) -> int | None:
        return None if self.limit is None else max(0, self.limit - self.used)


@dataclass(frozen=True)
class Totals:
    """Credits of the current month, from ``start`` to ``renewal``.

    ``credits_remaining`` is the provider's last balance, at the time ``balance_at``.

    ``charged`` is the decrease of that balance since its first value of the month, ``known`` the charges that this
    ledger settled since then, and those that the first value may lack. ``uncharged`` is the price of the latest calls
    that were not charged in the end: a balance of that time may lack it, because a provider may set it aside while a
    call is open. If ``charged`` exceeds ``known + reserved + uncharged``, another client uses the key, or the allowance
    was reduced.
    """

    spent: int
    reserved: int
    ceilings: tuple[Ceiling, ...]
    start: date
    renewal: date
    credits_remaining: int | None
    balance_at: datetime | None
    charged: int | None = None
    known: int | None = None
    uncharged: int = 0

    @property
    def unexplained(self) -> int:
        """Hundredths of a credit that the provider charged and no call of this ledger explains."""
        return max(0, (self.charged or 0) - (self.known or 0) - self.reserved - self.uncharged)


@dataclass(frozen=True)
class ReportRow:
    """Cost of the calls of one endpoint, day, run or token. ``calls`` counts calls that were or may be charged."""

    name: str
    calls: int
    spent: int
    reserved: int
    uncharged_calls: int


@dataclass(frozen=True)
class Problem:
    """Calls whose answers had the same problem. ``spent`` was charged, ``reserved`` may have been charged."""

    name: str
    calls: int
    spent: int
    reserved: int


@dataclass(frozen=True)
class Unsettled:
    """An entry that is still reserved: its call is open, or its outcome is unknown."""

    id: int
    run_id: str
    endpoint: str
    subject: str | None
    day: date
    cost: int
