"""Forecast of a plan: calls by month within the ceilings."""

from __future__ import annotations

from datetime import date

import pytest

from holderlake.core.settings.sections.schedule import Budget
from holderlake.operations.backfill.forecast import Funds, forecast


def _funds(budget: Budget, left: int | None, left_today: int | None = None, rate: int = 10_000) -> Funds:
    return Funds(budget, left_today, left, date(2026, 11, 20), date(2026, 12, 5), rate)


def test_credits_spent_this_month_are_not_spent_again() -> None:
    found = forecast([(10, 100)], _funds(Budget(per_month=5), left=200))
    assert [(month.calls, month.credits) for month in found.months] == [(2, 200), (5, 500), (3, 300)]
    assert [month.start for month in found.months] == [date(2026, 11, 20), date(2026, 12, 5), date(2027, 1, 5)]
    assert found.finished == date(2027, 1, 5)


def test_a_call_is_not_split_between_months() -> None:
    found = forecast([(3, 200)], _funds(Budget(per_month=3), left=300))
    assert [month.calls for month in found.months] == [1, 1, 1]


@pytest.mark.parametrize(
    ("calls", "funds", "day"),
    [
        ((10, 100), _funds(Budget(per_day=3), left=None, left_today=100), 23),
        ((3_000, 1), _funds(Budget(per_month=100), left=10_000, rate=1), 22),
        ((3, 100), _funds(Budget(per_day=2), left=300, left_today=200), 21),
    ],
    ids=["daily ceiling", "rate limit", "rest of the month for one call"],
)
def test_a_daily_limit_delays_the_end_by_days(calls: tuple[int, int], funds: Funds, day: int) -> None:
    found = forecast([calls], funds)
    assert (found.finished, len(found.months)) == (date(2026, 11, day), 1)


def test_a_call_dearer_than_a_ceiling_is_never_made() -> None:
    found = forecast([(1, 100), (1, 15_000)], _funds(Budget(per_month=100), left=10_000))
    assert found.finished is None
    assert "one call costs 150.00 credits, and budget.per_month is 100.00" in str(found.never)


def test_an_unknown_allowance_of_the_next_month_is_not_guessed() -> None:
    found = forecast([(5, 100)], _funds(Budget(), left=250))
    assert (found.finished, found.months[0].calls) == (None, 2)
    assert "budget.per_month" in str(found.never)
