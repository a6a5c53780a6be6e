"""Operations on the credit ledger: reserve, settle and release a call, mark its answer as broken, pause all calls.

``CreditLedger.apply`` executes them. Amounts are hundredths of a credit.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final, TypeAlias

MOST_CREDITS: Final = 10**15
"""Hundredths of a credit. A larger cost or balance is implausible."""
IMPLAUSIBLE: Final = "implausible_cost"
"""Name of the problem that a header of the answer has an implausible cost or balance."""


@dataclass(frozen=True)
class Reserve:
    """Reserve the cost of a call, and the time at which the rate limit allows it.

    With ``answer``, also claim that answer: no other call for it is reserved until this call is settled or released.
    """

    run_id: str
    endpoint: str
    subject: str | None
    cost: int
    rate_per_minute: int | None = None
    """Calls a minute that the rate limit allows; None for a call without a rate limit."""
    answer: str | None = None
    """Name of the answer in the archive; None to claim nothing."""


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
