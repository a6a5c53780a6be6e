"""The choice of the days to repeat now: waits, the limit of attempts, and outages of the provider."""

from __future__ import annotations

from collections.abc import Collection, Sequence
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from itertools import takewhile
from typing import Final

from holderlake.core.settings.sections.schedule import Healing
from holderlake.operations.healing.missing import Day, MissingDay

WAITS: Final = (timedelta(minutes=15), timedelta(hours=1), timedelta(hours=4), timedelta(hours=12), timedelta(days=1))
"""Wait between the end of a day's last run and its next repetition, after 0, 1, 2, … repetitions."""
AT_ONCE: Final = 4
"""Most repetitions that are queued or running at a time, so that scheduled runs do not wait long for them."""
OUTAGES: Final = frozenset(
    {
        *("unreachable", "unavailable", "internal_error", "too_slow", "rate_limited", "limit_reached"),
        *("invalid_key", "missing_key", "forbidden", "redirected", "credits_exhausted", "budget_exceeded"),
        *("cancelled", "answer_not_kept", "SettingsError", "DatabaseError", "ConnectionLost", "Unreachable"),
        "Unavailable",
    }
)
"""Codes of errors that concern all partitions, not one: of the provider, the key, the credits, the settings."""
_OUTAGE_WAITS: Final = (timedelta(minutes=15), timedelta(minutes=30), timedelta(hours=1))
_NEAR: Final = timedelta(days=1)
_OF_ALL: Final = 5
"""A day has at most this many times ``healing.attempts`` repetitions, those during outages included."""


@dataclass(frozen=True)
class Attempt:
    """A run of Dagster for a chain and day. ``ended`` is naive UTC, None for a run that is queued or running.

    ``error`` is the error code of a failed run, else empty. ``is_repetition``: the sensor ``healing`` launched it.
    ``is_limited``: the run fetched some tokens only, so its success does not complete the day.
    """

    day: Day
    ended: datetime | None
    error: str
    is_repetition: bool
    is_limited: bool = False

    @property
    def chain(self) -> str:
        return self.day[0]


@dataclass
class Choice:
    """The missing days to fetch again ``now``, those that are given up (with the reason), and how many wait."""

    now: list[MissingDay] = field(default_factory=list)
    given_up: list[tuple[MissingDay, str]] = field(default_factory=list)
    waiting: int = 0


def choose(
    missing: Sequence[MissingDay], attempts: Collection[Attempt], now: datetime, limits: Healing, credits: int | None
) -> Choice:
    """Choose the missing days to fetch again now. ``missing`` has the newest day first.

    ``credits``: hundredths of a credit left today; None without a limit. A day with a queued or running run waits.
    After an outage, one day of the chain is tried at a time, first the one with the fewest attempts.
    """
    choice = Choice()
    room = AT_ONCE - sum(attempt.is_repetition and attempt.ended is None for attempt in attempts)
    successes = [attempt for attempt in attempts if attempt.ended and not attempt.error]
    by_day = {day.key: [attempt for attempt in attempts if attempt.day == day.key] for day in missing}
    by_chain = {chain: [attempt for attempt in attempts if attempt.chain == chain] for chain, _ in by_day}
    rooms = {chain: _room(chain_attempts, now) for chain, chain_attempts in by_chain.items()}
    for day in sorted(missing, key=lambda day: len(by_day[day.key]) if rooms[day.chain] < AT_ONCE else 0):
        day_attempts = by_day[day.key]
        attempt_count = sum(_is_counted(attempt, successes) for attempt in day_attempts)
        if (
            attempt_count >= limits.attempts
            or sum(attempt.is_repetition for attempt in day_attempts) >= _OF_ALL * limits.attempts
        ):
            choice.given_up.append((day, f"{limits.attempts} repetitions did not complete it"))
        elif limits.credits_per_day is not None and day.credits > limits.credits_per_day:
            choice.given_up.append((day, "it costs more than healing.credits_per_day"))
        elif (
            min(room, rooms[day.chain]) > 0
            and (credits is None or day.credits <= credits)
            and _may_start(day_attempts, attempt_count, now)
        ):
            choice.now.append(day)
            room -= 1
            rooms[day.chain] -= 1
            credits = None if credits is None else credits - day.credits
        else:
            choice.waiting += 1
    return choice


def _is_counted(attempt: Attempt, successes: Sequence[Attempt]) -> bool:
    """Return whether an attempt counts against the setting ``healing.attempts``: an ended repetition.

    An outage (``OUTAGES``) counts only if a run of another chain succeeded less than a day before or after it.
    """
    if not attempt.is_repetition or attempt.ended is None:
        return False
    return attempt.error not in OUTAGES or any(
        success.chain != attempt.chain and success.ended is not None and abs(success.ended - attempt.ended) <= _NEAR
        for success in successes
    )


def _may_start(day_attempts: Sequence[Attempt], attempt_count: int, now: datetime) -> bool:
    """Return whether a day has no active run and waited long enough after the last one."""
    wait = WAITS[min(attempt_count, len(WAITS) - 1)]
    return all(attempt.ended is not None and now >= attempt.ended + wait for attempt in day_attempts)


def _room(chain_attempts: Sequence[Attempt], now: datetime) -> int:
    """Return how many days of a chain with these runs may start now; after an outage at most one."""
    ended = sorted(
        ((attempt.ended, attempt) for attempt in chain_attempts if attempt.ended),
        key=lambda pair: pair[0],
        reverse=True,
    )
    failed = list(takewhile(lambda pair: pair[1].error in OUTAGES, ended))
    if not failed:
        return AT_ONCE
    wait = _OUTAGE_WAITS[min(sum(attempt.is_repetition for _, attempt in failed), len(_OUTAGE_WAITS) - 1)]
    is_running = any(attempt.is_repetition and attempt.ended is None for attempt in chain_attempts)
    return 1 if now >= failed[0][0] + wait and not is_running else 0
