"""Two backfills at once in one home: together they stay below one ceiling, and do not pay for the same."""

from __future__ import annotations

import sys
from datetime import datetime, timedelta
from pathlib import Path

import pytest

from holderlake.core.contract.prices import credits_text
from tests.end_to_end.backfills import (
    CONCURRENCY,
    Backfill,
    Service,
    ended,
    same_lake,
    warehouse_holds_the_lake,
)
from tests.end_to_end.filler import STOPPED_BY_A_CEILING

pytestmark = pytest.mark.long

INSTANTS = [datetime(2026, 10, 1) - timedelta(days=7 * back) for back in range(2)]


def test_two_backfills_share_one_ceiling_and_a_third_completes(
    service: Service, undisturbed: Backfill, tmp_path: Path
) -> None:
    ceiling = undisturbed.customer.spent // 2
    per_day = {"HOLDERLAKE_BUDGET__PER_DAY": credits_text(ceiling).replace(",", "")}
    low = Backfill(tmp_path / "home", service.customer(), INSTANTS, per_day)
    for process in [low.start("one"), low.start("other")]:
        ended(process, STOPPED_BY_A_CEILING)
    assert ceiling // 2 < low.customer.spent <= ceiling
    assert low.totals.spent == low.customer.spent
    assert not low.in_flight()

    high = Backfill(low.home, low.customer, INSTANTS)
    high.finish("third")
    _paid_twice_at_most_for_what_was_in_flight(high, undisturbed)


def test_two_backfills_of_the_same_share_the_work(service: Service, undisturbed: Backfill, tmp_path: Path) -> None:
    both = Backfill(tmp_path / "home", service.customer(), INSTANTS)
    for process in [both.start("one"), both.start("other")]:
        ended(process)
    _paid_twice_at_most_for_what_was_in_flight(both, undisturbed)


def _paid_twice_at_most_for_what_was_in_flight(backfill: Backfill, undisturbed: Backfill) -> None:
    once, billed = undisturbed.customer.billed, backfill.customer.billed
    same_lake(backfill, undisturbed)
    warehouse_holds_the_lake(backfill)
    assert backfill.answers == undisturbed.answers
    assert backfill.totals.spent == backfill.customer.spent
    assert billed >= once
    twice = billed - once
    sys.stdout.write(f"\n{once.total()} requests: {billed.total()} calls billed, a second time {dict(twice)}\n")
    assert twice.total() <= CONCURRENCY
