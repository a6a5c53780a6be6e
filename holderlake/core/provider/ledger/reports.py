"""Totals and reports of the credit ledger. Amounts are hundredths of a credit."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import date, datetime
from typing import Literal


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
    ledger settled since then. ``uncharged`` is the price of the latest calls that were not charged in the end: a
    balance of that time may lack it, because a provider may set it aside while a call is open. If ``charged`` exceeds
    ``known + reserved + uncharged``, another client uses the key, or the allowance was reduced.
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
class Restored:
    """A call that the ledger lost, with its cost as computed from the archive."""

    endpoint: str
    subject: str | None
    day: date
    cost: int


@dataclass(frozen=True)
class Unsettled:
    """An entry that is still reserved: its call is open, or its outcome is unknown."""

    id: int
    run_id: str
    endpoint: str
    subject: str | None
    day: date
    cost: int
