"""Entries for the credit ledger: calls reserved, settled, released or lost, and pauses that a provider asks for.

Amounts are hundredths of a credit. ``ledger`` stores them.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final, TypeAlias

MOST_CREDITS: Final = 10**15
"""Hundredths of a credit: no cost and no balance is larger."""
IMPLAUSIBLE: Final = "implausible_cost"
"""The problem of an answer whose header named a cost or a balance that cannot be true."""


@dataclass(frozen=True)
class Reserve:
    """The cost of a call that is about to be made, and its place in the queue at a rate of calls a minute."""

    run_id: str
    endpoint: str
    subject: str | None
    cost: int
    rate_per_minute: int | None = None
    """None for a call that waits in no queue."""


@dataclass(frozen=True)
class Reservation:
    """An entry, and the seconds after which its call may be made."""

    entry: int
    wait: float


@dataclass(frozen=True)
class Settle:
    """The charge of a reserved call, the balance that the provider names, and what was wrong with the answer."""

    entry: int
    cost: int
    credits_remaining: int | None = None
    problem: str | None = None


@dataclass(frozen=True)
class MarkBroken:
    """A reserved call whose answer broke in the way ``problem``: it may have been charged, so it stays reserved."""

    entry: int
    problem: str


@dataclass(frozen=True)
class Release:
    """A reserved call that was not charged."""

    entry: int


@dataclass(frozen=True)
class Pause:
    """The provider wants nobody of this host to call for so many seconds."""

    seconds: float


Operation: TypeAlias = Reserve | Settle | Release | MarkBroken | Pause
