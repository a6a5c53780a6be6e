"""Start and end of a monthly billing period.

In a month that lacks the renewal day, the period starts on the last day of the month.
"""

from __future__ import annotations

from calendar import monthrange
from datetime import date


def period_start(today: date, renewal_day: int) -> date:
    """Return the latest renewal date that is not after ``today``; ``renewal_day`` is a day of the month."""
    renewal = _in_month(today.year, today.month, renewal_day)
    return renewal if today >= renewal else _in_month(*_month_before(today), renewal_day)


def next_renewal(today: date, renewal_day: int) -> date:
    """Return the first renewal date after ``today``; ``renewal_day`` is a day of the month."""
    renewal = _in_month(today.year, today.month, renewal_day)
    return renewal if today < renewal else _in_month(*_month_after(today), renewal_day)


def _in_month(year: int, month: int, day: int) -> date:
    return date(year, month, min(day, monthrange(year, month)[1]))


def _month_before(today: date) -> tuple[int, int]:
    return (today.year - 1, 12) if today.month == 1 else (today.year, today.month - 1)


def _month_after(today: date) -> tuple[int, int]:
    return (today.year + 1, 1) if today.month == 12 else (today.year, today.month + 1)
