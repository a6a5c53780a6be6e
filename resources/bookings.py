"""What is written into the credit ledger: calls reserved, settled or released, and pauses that a provider asks for.

Amounts are hundredths of a credit. How the ledger keeps them stands in ``ledger``.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TypeAlias


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
