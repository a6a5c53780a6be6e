"""Forecast of a plan: its calls by month within the ceilings, and the day of the last call.

It assumes that the backfill is started again whenever a ceiling has stopped it. Amounts are hundredths of a credit.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from datetime import date, timedelta
from typing import Any, Final

from holderlake.core.contract.prices import credits_text
from holderlake.core.settings.sections.schedule import Budget

_MONTHS_AT_MOST: Final = 1_200
_MINUTES_A_DAY: Final = 1_440


@dataclass(frozen=True)
class Month:
    """The calls that a plan makes from the day ``start`` to the day before ``renewal``, and their cost.

    ``credits`` (the cost) and ``allowance`` are hundredths of a credit. ``allowance`` is the credit left at the start;
    None without a ceiling.
    """

    start: date
    renewal: date
    allowance: int | None
    calls: int
    credits: int

    def as_json(self) -> dict[str, Any]:
        """Return the month as plain data."""
        return {
            "from": self.start.isoformat(),
            "until": self.renewal.isoformat(),
            "allowance_hundredths": self.allowance,
            "calls": self.calls,
            "credits_hundredths": self.credits,
        }


@dataclass(frozen=True)
class Forecast:
    """The months in which a plan makes its calls. ``finished`` is the day of the last call.

    If the plan would never finish, ``finished`` is None, and ``never`` is a text with the reason.
    """

    months: list[Month]
    finished: date | None
    never: str | None = None


@dataclass(frozen=True)
class Funds:
    """The limits of a plan: the ceilings (``budget``), the credits left, and the most calls a minute.

    ``left_today`` and ``left_this_month`` are hundredths of a credit, or None without a ceiling. ``renewal`` is the day
    on which the next month of credits begins.
    """

    budget: Budget
    left_today: int | None
    left_this_month: int | None
    today: date
    renewal: date
    rate_per_minute: int


def forecast(calls: Iterable[tuple[int, int]], funds: Funds) -> Forecast:
    """Return the forecast of a plan's calls, which are sent in the order of ``calls``.

    Each element is a number of calls, and the cost of one of them in hundredths of a credit.
    """
    waiting = [[count, cost] for count, cost in calls if count]
    never = _never(waiting, funds.budget)
    if never:
        return Forecast([], None, never)
    today, left_today, month_left = funds.today, funds.left_today, funds.left_this_month
    months: list[Month] = []
    start, renewal = today, funds.renewal
    while len(months) < _MONTHS_AT_MOST:
        allowance, month_calls, spent = month_left, 0, 0
        while today < renewal:
            calls_today, cost_today = _spend(waiting, funds.rate_per_minute * _MINUTES_A_DAY, left_today, month_left)
            month_calls, spent, month_left = (
                month_calls + calls_today,
                spent + cost_today,
                None if month_left is None else month_left - cost_today,
            )
            if not waiting:
                return Forecast([*months, Month(start, renewal, allowance, month_calls, spent)], today)
            if month_left is not None and month_left < waiting[0][1]:
                break
            today, left_today = today + timedelta(days=1), funds.budget.per_day
        months.append(Month(start, renewal, allowance, month_calls, spent))
        if funds.budget.per_month is None and allowance is not None:
            reason = (
                f"the provider's allowance after the renewal on {renewal} is not known; "
                "set budget.per_month in holderlake.toml"
            )
            return Forecast(months, None, reason)
        today = start = renewal
        renewal = (renewal.replace(day=1) + timedelta(days=31)).replace(day=renewal.day)
        month_left, left_today = funds.budget.per_month, funds.budget.per_day
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


def _spend(waiting: list[list[int]], call_limit: int, *budgets: int | None) -> tuple[int, int]:
    """Remove up to ``call_limit`` calls from the front of ``waiting``, as far as each of ``budgets`` can pay them.

    ``waiting`` has pairs of a number of calls and the cost of each. Returns the number of removed calls and their total
    cost. Amounts are hundredths of a credit; a budget of None has no limit.
    """
    calls = total_cost = 0
    while waiting:
        count, cost = waiting[0]
        affordable = [(budget - total_cost) // cost for budget in budgets if budget is not None and cost]
        now = min([count, call_limit - calls, *affordable])
        if now <= 0:
            break
        calls, total_cost = calls + now, total_cost + now * cost
        waiting[0][0] -= now
        if waiting[0][0]:
            break
        waiting.pop(0)
    return calls, total_cost
