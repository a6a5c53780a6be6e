"""The choice of the missing days to request again now: one growing wait, and one limit of attempts."""

from __future__ import annotations

from collections.abc import Collection, Sequence
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from itertools import takewhile
from typing import Final

from holderlake.core.settings.sections.schedule import Healing
from holderlake.operations.healing.missing import Day, MissingDay

WAITS: Final = (timedelta(minutes=15), timedelta(hours=1), timedelta(hours=4), timedelta(hours=12), timedelta(days=1))
"""Wait after the first, second, … failed attempt: of a day, and of a chain in an outage. The last is for all others."""
OUTAGES: Final = frozenset(
    {
        *("unreachable", "unavailable", "internal_error", "too_slow", "rate_limited", "limit_reached"),
        *("invalid_key", "missing_key", "forbidden", "redirected", "credits_exhausted", "budget_exceeded"),
        *("cancelled", "answer_not_kept", "SettingsError", "DatabaseError", "ConnectionLost", "Unreachable"),
        "Unavailable",
    }
)
"""Codes of errors that concern all partitions, not one: of the provider, the key, the credits, the settings.

They count against no day's limit. A day that has only outages waits until it is older than ``healing.days``.
"""


@dataclass(frozen=True)
class Attempt:
    """A run of Dagster that was to fetch some days, by hand, by the schedule, by a backfill or by the sensor.

    ``ended`` is naive UTC, None for a run that is queued or running. ``error`` is the error code of a failed run, else
    empty. ``is_limited``: the run was to fetch some tokens or tables only, so its success does not complete a day.
    """

    days: frozenset[Day]
    ended: datetime | None
    error: str
    is_repetition: bool = False
    is_limited: bool = False

    @property
    def is_success(self) -> bool:
        return self.ended is not None and not self.error


@dataclass
class Choice:
    """The missing days to request again ``now``, those that are given up (with the reason), and how many wait."""

    now: list[MissingDay] = field(default_factory=list)
    given_up: list[tuple[MissingDay, str]] = field(default_factory=list)
    waiting: int = 0


def choose(
    missing: Sequence[MissingDay], attempts: Collection[Attempt], now: datetime, limits: Healing, credits: int | None
) -> Choice:
    """Choose the missing days to request again now. ``missing`` has the newest day first.

    ``credits``: hundredths of a credit left today; None without a limit. A day with a queued or running run waits, and
    so do all days of a chain while its repetition runs, or after an outage.
    """
    choice = Choice()
    by_chain = {
        chain: sorted(
            (attempt for attempt in attempts if any(day[0] == chain for day in attempt.days)),
            key=lambda attempt: attempt.ended or datetime.max,
            reverse=True,
        )
        for chain in {day.chain for day in missing}
    }
    waiting = {chain: _waits(chain_attempts, now) for chain, chain_attempts in by_chain.items()}
    for day in missing:
        own = [attempt for attempt in by_chain[day.chain] if day.key in attempt.days]
        failed = list(takewhile(lambda attempt: not attempt.is_success or attempt.is_limited, own))
        count = sum(bool(attempt.ended and attempt.error) and attempt.error not in OUTAGES for attempt in failed)
        if count >= limits.attempts:
            choice.given_up.append((day, f"{limits.attempts} attempts did not complete it"))
        elif limits.credits_per_day is not None and day.credits > limits.credits_per_day:
            choice.given_up.append((day, "it costs more than healing.credits_per_day"))
        elif waiting[day.chain] or not _may_start(own, count, now) or (credits is not None and day.credits > credits):
            choice.waiting += 1
        else:
            choice.now.append(day)
            credits = None if credits is None else credits - day.credits
    return choice


def _waits(chain_attempts: Sequence[Attempt], now: datetime) -> bool:
    """Return whether all days of a chain with these attempts, newest first, wait: for a repetition, or in an outage."""
    if any(attempt.is_repetition and attempt.ended is None for attempt in chain_attempts):
        return True
    ended = [(attempt.ended, attempt.error) for attempt in chain_attempts if attempt.ended]
    outages = list(takewhile(lambda attempt: attempt[1] in OUTAGES, ended))
    return bool(outages) and now < outages[0][0] + _wait(len(outages))


def _may_start(own: Sequence[Attempt], count: int, now: datetime) -> bool:
    """Return whether a day has no active run, and waited long enough after the last of ``count`` failed attempts."""
    return all(attempt.ended is not None and now >= attempt.ended + _wait(count) for attempt in own)


def _wait(attempts: int) -> timedelta:
    return WAITS[min(max(attempts, 1), len(WAITS)) - 1]
