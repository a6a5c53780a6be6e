"""When a plan's calls can be paid for: day by day and month by month within the ceilings, and the day of the last one.

It follows a backfill that is started again whenever a ceiling has stopped it. Amounts are hundredths of a credit.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from datetime import date, timedelta
from typing import Any, Final

from holderlake.contract.prices import credits_text
from holderlake.settings.sections.schedule import Budget

_MONTHS_AT_MOST: Final = 1_200
_MINUTES_A_DAY: Final = 1_440


@dataclass(frozen=True)
class Month:
    """From ``start`` to the renewal (not included): the allowance that is left, None without one, and what is made."""

    start: date
    renewal: date
    allowance: int | None
    calls: int
    credits: int

    def as_json(self) -> dict[str, Any]:
        """The month as plain data."""
        return {
            "from": self.start.isoformat(),
            "until": self.renewal.isoformat(),
            "allowance_hundredths": self.allowance,
            "calls": self.calls,
            "credits_hundredths": self.credits,
        }


@dataclass(frozen=True)
class Forecast:
    """The months that a plan takes; ``finished`` is the day of its last call, None with the reason why it has none."""

    months: list[Month]
    finished: date | None
    never: str | None = None


@dataclass(frozen=True)
class Purse:
    """What may be spent: the ceilings, what is left of them today and this month, and calls a minute."""

    budget: Budget
    left_today: int | None
    left_this_month: int | None
    today: date
    renewal: date
    rate_per_minute: int


def forecast(calls: Iterable[tuple[int, int]], purse: Purse) -> Forecast:
    """When calls, given as (how many, hundredths each) in the order in which they are made, can be paid for."""
    waiting = [[count, cost] for count, cost in calls if count]
    never = _never(waiting, purse.budget)
    if never:
        return Forecast([], None, never)
    today, left_today, left = purse.today, purse.left_today, purse.left_this_month
    months: list[Month] = []
    start, renewal = today, purse.renewal
    while len(months) < _MONTHS_AT_MOST:
        allowance, made, spent = left, 0, 0
        while today < renewal:
            turns = purse.rate_per_minute * _MINUTES_A_DAY
            done, paid = _spend(waiting, turns, left_today, left)
            made, spent, left = made + done, spent + paid, None if left is None else left - paid
            if not waiting:
                return Forecast([*months, Month(start, renewal, allowance, made, spent)], today)
            if left is not None and left < waiting[0][1]:
                break
            today, left_today = today + timedelta(days=1), purse.budget.per_day
        months.append(Month(start, renewal, allowance, made, spent))
        if purse.budget.per_month is None and allowance is not None:
            why = (
                f"what the provider allows after the renewal on {renewal} is not known here; "
                "set budget.per_month in holderlake.toml"
            )
            return Forecast(months, None, why)
        today = start = renewal
        renewal = (renewal.replace(day=1) + timedelta(days=31)).replace(day=renewal.day)
        left, left_today = purse.budget.per_month, purse.budget.per_day
    return Forecast(
        months, None, f"it would take more than {_MONTHS_AT_MOST // 12} years; raise the ceilings under [budget]"
    )


def _never(waiting: Sequence[Sequence[int]], budget: Budget) -> str | None:
    dearest = max((cost for _, cost in waiting), default=0)
    for name in ("per_run", "per_day", "per_month"):
        ceiling = getattr(budget, name)
        if ceiling is not None and ceiling < dearest:
            return (
                f"one call costs {credits_text(dearest)} credits, and budget.{name} is {credits_text(ceiling)}; "
                "raise it in holderlake.toml"
            )
    return None


def _spend(waiting: list[list[int]], turns: int, *purses: int | None) -> tuple[int, int]:
    """Makes the first of the waiting calls that all purses can pay for; gives how many, and what they cost."""
    made = paid = 0
    while waiting:
        count, cost = waiting[0]
        affordable = [(left - paid) // cost for left in purses if left is not None and cost]
        now = min([count, turns - made, *affordable])
        if now <= 0:
            break
        made, paid = made + now, paid + now * cost
        waiting[0][0] -= now
        if waiting[0][0]:
            break
        waiting.pop(0)
    return made, paid
