"""Operations on the credit ledger: reserve, settle, release and mark a call, and pause all calls.

Amounts are hundredths of a credit. ``ledger`` stores them.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final, TypeAlias

MOST_CREDITS: Final = 10**15
"""Hundredths of a credit. A larger cost or balance is implausible."""
IMPLAUSIBLE: Final = "implausible_cost"
"""The problem of an answer whose header has an implausible cost or balance."""


@dataclass(frozen=True)
class Reserve:
    """Reserve the cost of a call, and its place in the queue of the rate limit."""

    run_id: str
    endpoint: str
    subject: str | None
    cost: int
    rate_per_minute: int | None = None
    """None for a call without rate limit."""


@dataclass(frozen=True)
class Reservation:
    """The id of a reserved entry, and the seconds until the rate limit allows its call."""

    entry: int
    wait: float


@dataclass(frozen=True)
class Settle:
    """Settle a reserved call with its charge. ``problem`` is the problem of its answer, if there was one."""

    entry: int
    cost: int
    credits_remaining: int | None = None
    problem: str | None = None


@dataclass(frozen=True)
class MarkBroken:
    """Note the problem of a broken answer. The call may have been charged, so it stays reserved."""

    entry: int
    problem: str


@dataclass(frozen=True)
class Release:
    """Release a reserved call that was not charged."""

    entry: int


@dataclass(frozen=True)
class Pause:
    """Delay all later calls of this host by at least this time, as the provider demands."""

    seconds: float


Operation: TypeAlias = Reserve | Settle | Release | MarkBroken | Pause
