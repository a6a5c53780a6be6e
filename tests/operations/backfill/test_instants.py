"""Instants of a plan or a backfill: grids and lists."""

from __future__ import annotations

from collections.abc import Callable
from datetime import datetime
from typing import Any

import pytest

from holderlake.operations.backfill.instants import chosen_instants, grid, listed_instants, past_instants

MAY = datetime(2026, 5, 1)
JUNE = datetime(2026, 6, 1)


@pytest.mark.parametrize(("every", "count"), [("1h", 25), ("6h", 5), ("1d", 2), ("1w", 1)])
def test_a_grid_includes_both_ends(every: str, count: int) -> None:
    instants = grid(MAY, datetime(2026, 5, 2), every)
    assert (len(instants), instants[0]) == (count, MAY)
    assert instants[-1] == (MAY if every == "1w" else datetime(2026, 5, 2))


def test_monthly_instants_keep_the_day_or_take_the_last() -> None:
    found = grid(datetime(2024, 1, 31), datetime(2024, 5, 31), "1mo")
    assert [(when.month, when.day) for when in found] == [(1, 31), (2, 29), (3, 31), (4, 30), (5, 31)]


def test_a_list_of_instants_is_sorted_and_may_have_comments() -> None:
    lines = ["# launches", "2026-06-01  # the second", "", "1777593600", "2026-06-01T00:00:00Z"]
    assert listed_instants(lines) == [MAY, JUNE]


def test_a_grid_without_a_step_is_daily() -> None:
    assert len(chosen_instants("2026-05-01", "2026-06-01", None, None)) == 32


ERRORS: list[tuple[Callable[..., Any], tuple[Any, ...], str]] = [
    *((grid, (MAY, JUNE, every), "1h, 6h, 1d, 1w, 1mo") for every in ("", "1", "d", "0d", "1y", "-1d", "1.5d")),
    (grid, (JUNE, MAY, "1d"), "before the start"),
    (past_instants, (["2026-01-01", "2999-01-01"],), "future"),
    (
        listed_instants,
        (["2026-01-01", "soon", "# 3", "2999-01-01"],),
        r"line 2: .*'soon'.*line 4: 2999-01-01T00:00:00Z lies in the future",
    ),
    (listed_instants, (["x"] * 12,), "line 5: .*and 7 more bad lines"),
    (chosen_instants, ("2026-05-01", None, None, ["2026-05-01"]), "cannot be combined with --from"),
    (chosen_instants, (None, None, "1d", ["2026-05-01"]), "cannot be combined with --from"),
    (chosen_instants, (None, "2026-05-01", None, None), "give --from"),
    (chosen_instants, (None, None, None, ["# nothing"]), "is empty"),
    (chosen_instants, ("2026-05-01", "2999-05-01", "1w", None), "future"),
]


@pytest.mark.parametrize(("choose", "arguments", "message"), ERRORS)
def test_invalid_instants_are_refused(choose: Callable[..., Any], arguments: tuple[Any, ...], message: str) -> None:
    with pytest.raises(ValueError, match=message):
        choose(*arguments)
