"""The plan: a grid of instants, and what filling it will cost, told before it costs it."""

from __future__ import annotations

from datetime import datetime
from pathlib import Path

import pytest

from assets.definitions import FAMILIES
from pipelines.plan import grid, make_plan, past_instants
from tests.filling import MakeWorkspace, fill

MAY = datetime(2026, 5, 1)
JUNE = datetime(2026, 6, 1)


@pytest.mark.parametrize(
    ("every", "count", "last"),
    [
        ("1h", 25, datetime(2026, 5, 2)),
        ("6h", 5, datetime(2026, 5, 2)),
        ("1d", 2, datetime(2026, 5, 2)),
        ("1w", 1, datetime(2026, 5, 1)),
    ],
)
def test_a_grid_holds_both_ends_where_the_step_meets_them(every: str, count: int, last: datetime) -> None:
    instants = grid(MAY, datetime(2026, 5, 2), every)
    assert (len(instants), instants[0], instants[-1]) == (count, MAY, last)


def test_months_keep_the_day_or_take_the_months_last() -> None:
    found = grid(datetime(2024, 1, 31), datetime(2024, 5, 31), "1mo")
    assert [(when.month, when.day) for when in found] == [(1, 31), (2, 29), (3, 31), (4, 30), (5, 31)]


@pytest.mark.parametrize("every", ["", "1", "d", "0d", "1y", "-1d", "1.5d"])
def test_a_step_that_is_none_is_refused_with_the_forms_that_are(every: str) -> None:
    with pytest.raises(ValueError, match="1h, 6h, 1d, 1w, 1mo"):
        grid(MAY, JUNE, every)


def test_a_grid_that_ends_before_it_starts_is_refused() -> None:
    with pytest.raises(ValueError, match="before the start"):
        grid(JUNE, MAY, "1d")


def test_an_instant_in_the_future_is_refused() -> None:
    with pytest.raises(ValueError, match="future"):
        past_instants(["2026-01-01", "2999-01-01"])


def test_the_plan_is_what_filling_then_costs(make_workspace: MakeWorkspace) -> None:
    workspace = make_workspace()
    chains = ["eth", "base"]
    fill(workspace, FAMILIES[2], "eth", MAY)  # holders of May are there already
    before = workspace.ledger.totals().spent
    for chain in chains:  # so that the addresses to ask about are known
        fill(workspace, FAMILIES[2], chain, MAY, JUNE)
    planned = make_plan(workspace, "sample", chains, [MAY, JUNE])
    spent = workspace.ledger.totals().spent
    calls = 0
    for chain in chains:
        for family in FAMILIES:
            calls += sum(one.calls for one in fill(workspace, family, chain, MAY, JUNE))
    assert before < spent
    assert workspace.ledger.totals().spent - spent == planned.credits - _refused(workspace, chains) * 100_00
    assert calls == planned.calls


def _refused(workspace: object, chains: list[str]) -> int:
    """Maps that were planned and then refused, which costs nothing."""
    lake = workspace.lake  # type: ignore[attr-defined]
    rows = [row for chain in chains for when in (MAY, JUNE) for row in lake.read("failures", chain, when).to_pylist()]
    return sum(row["endpoint"] == "map" for row in rows)


def test_a_finished_grid_costs_nothing(make_workspace: MakeWorkspace) -> None:
    workspace = make_workspace()
    for family in FAMILIES:
        fill(workspace, family, "solana", MAY)
    planned = make_plan(workspace, "sample", ["solana"], [MAY])
    assert (planned.calls, planned.credits) == (0, 0)
    assert all(line.whole == line.partitions for line in planned.lines)


def test_answers_in_the_archive_cost_nothing(make_workspace: MakeWorkspace, tmp_path: Path) -> None:
    workspace = make_workspace()
    fill(workspace, FAMILIES[3], "eth", MAY)
    _remove(tmp_path / "lake")
    planned = make_plan(workspace, "sample", ["eth"], [MAY])
    maps = next(line for line in planned.lines if line.family == "maps")
    assert (maps.calls, maps.credits) == (0, 0)
    assert maps.archived > 0


def test_before_holders_are_known_the_plan_names_the_most_that_addresses_can_cost(
    make_workspace: MakeWorkspace,
) -> None:
    workspace = make_workspace()
    planned = make_plan(workspace, "sample", ["eth"], [MAY])
    for family in FAMILIES:
        fill(workspace, family, "eth", MAY)
    assert workspace.ledger.totals().spent <= planned.credits


def _remove(folder: Path) -> None:
    for path in sorted(folder.rglob("*"), reverse=True):
        path.rmdir() if path.is_dir() else path.unlink()
