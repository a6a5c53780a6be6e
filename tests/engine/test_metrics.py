"""Concentration of concentration: against exact fractions, by hand, and monotone where the score promises it."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from random import Random

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from holderlake.engine.maps import metrics
from holderlake.engine.numeric.aggregates import descending_places
from holderlake.engine.numeric.bigint import from_ints, width_for
from holderlake.engine.queries.balance_rows import BalanceSpans
from holderlake.engine.store.store import Store
from tests.engine import oracle
from tests.engine.world import UINT256, Row, cex, draw, figures, settled, transfer

Build = Callable[..., Store]
DAY = 86_400

_sizes_of_one = st.one_of(st.integers(1, 50), st.integers(1, UINT256))
_sizes = st.lists(_sizes_of_one, min_size=1, max_size=40)


def falling(sizes: list[int]) -> list[int]:
    return sorted(sizes, reverse=True)


def concentration(sizes: list[int]) -> metrics.Concentration:
    return metrics.concentration_of(metrics.groups_of(falling(sizes)))


def score(sizes: list[int]) -> float | None:
    return concentration(sizes).service_score


# ---------------------------------------------------------------------- by definition


@settled(100)
@given(_sizes.map(falling))
def test_metrics_equal_their_definitions_within_their_scales(sizes: list[int]) -> None:
    found = concentration(sizes)
    assert found.gini_index == float(oracle.gini(sizes))
    assert found.herfindahl_hirschman_index == float(oracle.hhi(sizes))
    assert found.nakamoto_coefficient == oracle.nakamoto(sizes)
    assert found.service_score == pytest.approx(oracle.service_score(sizes), abs=0.011)
    assert 0 <= found.gini_index < 1
    assert 0 < found.herfindahl_hirschman_index <= 1
    assert 1 <= found.nakamoto_coefficient <= len(sizes)
    assert found.service_score is None if len(sizes) < 2 else 0 <= found.service_score <= 100


@settled(50)
@given(_sizes.map(falling), st.integers(2, 10**30))
def test_metrics_do_not_depend_on_the_unit(sizes: list[int], factor: int) -> None:
    assert concentration([size * factor for size in sizes]) == concentration(sizes)


@pytest.mark.parametrize(
    ("sizes", "gini", "hhi"),
    [([], 0, 0), ([5], 0, 1), ([5, 5], 0, 0.5), ([3, 1], 0.25, 0.625), ([1] * 4, 0, 0.25), ([6, 2, 1, 1], 0.4, 0.42)],
)
def test_gini_and_hhi_by_hand(sizes: list[int], gini: float, hhi: float) -> None:
    assert concentration(sizes).gini_index == pytest.approx(gini)
    assert concentration(sizes).herfindahl_hirschman_index == pytest.approx(hhi)


@pytest.mark.parametrize(
    ("sizes", "expected"), [([], 0), ([9], 1), ([5, 5], 1), ([4, 3, 3], 2), ([1] * 10, 5), ([1] * 11, 6), ([51, 49], 1)]
)
def test_nakamoto_is_the_least_number_that_reaches_half(sizes: list[int], expected: int) -> None:
    assert concentration(sizes).nakamoto_coefficient == expected


# ---------------------------------------------------------------------- the score


@pytest.mark.parametrize(
    ("sizes", "expected"),
    [
        ([], None),
        ([5], None),
        ([7, 7], 10.03),
        ([10**24, 10**24, *[1] * 10_000], 10.03),
        ([1] * 10, 33.33),
        ([3] * 100, 66.67),
        ([1] * 1_000, 100),
        ([1] * 1_500, 100),
    ],
)
def test_the_score_of_equal_groups_with_and_without_dust(sizes: list[int], expected: float | None) -> None:
    assert score(sizes) == expected


@st.composite
def _sizes_and_two(draw: st.DrawFn) -> tuple[list[int], int, int]:
    """Sizes, and the places of two groups of which the first is no richer."""
    sizes = sorted(draw(st.lists(st.one_of(st.integers(1, 50), st.integers(1, UINT256)), min_size=3, max_size=40)))
    poorer = draw(st.integers(0, len(sizes) - 2))
    return sizes, poorer, draw(st.integers(poorer + 1, len(sizes) - 1))


@settled(200)
@given(_sizes_and_two())
def test_a_merger_of_two_groups_never_raises_the_score(case: tuple[list[int], int, int]) -> None:
    sizes, one, other = case
    merged = [size for place, size in enumerate(sizes) if place not in (one, other)] + [sizes[one] + sizes[other]]
    assert score(merged) <= score(sizes)


@settled(200)
@given(_sizes_and_two(), st.integers(0, 1_000))
def test_a_gift_from_a_poorer_to_a_richer_group_never_raises_the_score(
    case: tuple[list[int], int, int], permille: int
) -> None:
    sizes, poorer, richer = case
    gift = sizes[poorer] * permille // 1_000
    after = list(sizes)
    after[poorer] -= gift
    after[richer] += gift
    assert score([size for size in after if size]) <= score(sizes)


# ---------------------------------------------------------------------- over all holders at many instants


@st.composite
def _crowds(draw: st.DrawFn) -> tuple[list[tuple[int, int, int]], int, int, list[set[int]]]:
    """Holders over some instants (size, first and last instant), how many are shown, and clusters among these."""
    instants, shown = draw(st.integers(1, 6)), draw(st.integers(1, 12))
    while_held = st.tuples(_sizes_of_one, st.integers(0, instants - 1), st.integers(1, instants))
    rows = [row for row in draw(st.lists(while_held, max_size=200)) if row[1] < row[2]]
    places = draw(st.lists(st.integers(0, shown - 1), unique=True, max_size=shown))
    return sorted(rows, reverse=True), instants, shown, [set(places[:3]), set(places[3:5]), set(places[5:])]


@settled(60)
@given(_crowds())
def test_groups_at_every_instant_are_those_counted_one_by_one(
    case: tuple[list[tuple[int, int, int]], int, int, list[set[int]]],
) -> None:
    rows, instants, limit, groups = case
    sizes, firsts, lasts = zip(*rows, strict=True) if rows else ((), (), ())
    free = BalanceSpans(
        np.arange(len(rows)),
        from_ints(sizes, width_for(max(sizes, default=0))),
        np.array(firsts, np.int32),
        np.array(lasts, np.int32),
    )
    shown, expected = [], []
    for now in range(instants):
        held = [size for size, first, last in rows if first <= now < last]
        members = [place for group in groups for place in group if place < len(held)]
        amounts = [sum(held[place] for place in group if place < len(held)) for group in groups]
        clusters = falling([amount for amount in amounts if amount])
        alone = [size for place, size in enumerate(held) if place not in members]
        mine = [size for place, size in enumerate(held[:limit]) if place not in members]
        shown.append(metrics.Shown(held[:limit], mine, clusters))
        expected.append(falling([*alone, *clusters]))
    for groups, every in zip(metrics.groups_at(free, shown), expected, strict=True):
        assert replace(groups, largest=every) == metrics.groups_of(every)
        assert groups.largest[:10] == every[:10]


@pytest.mark.parametrize("bits", [31, 256])
def test_sums_over_more_than_a_million_holders_are_exact(bits: int) -> None:
    """Limbs as large as can be, across the place where the loop carries: once for a million rows."""
    size, count = 2**bits - 1, (1 << 20) + 3
    once = np.zeros(count, np.int32)
    free = BalanceSpans(np.arange(count), np.repeat(from_ints([size], width_for(size)), count, axis=0), once, once + 1)
    (groups,) = metrics.groups_at(free, [metrics.Shown([], [], [])])
    assert (groups.count, groups.total, groups.squares) == (count, count * size, count * size**2)
    assert (groups.weighted, groups.half) == (size * count * (count + 1) // 2, (count + 1) // 2)


@pytest.mark.parametrize("bits", [20, 255])
def test_sums_stay_exact_while_very_many_holders_come_and_go(bits: int) -> None:
    """More than any one sum is over, some of the largest and the smallest among them, all and none at the end."""
    chance, rows, instants = np.random.default_rng(bits), 20_000, 6
    sizes = falling([1 + (int(word) << (bits - 20)) for word in chance.integers(0, 2**20, rows)])
    firsts, lasts = np.sort(chance.integers(0, instants, (2, rows)), axis=0).astype(np.int32)
    whole = BalanceSpans(np.arange(rows), from_ints(sizes, width_for(sizes[0])), firsts, lasts)
    none_shown = [metrics.Shown([], [], [])] * instants
    for now, groups in enumerate(metrics.groups_at(whole, none_shown)):
        holds = ((firsts <= now) & (now < lasts)).tolist()
        held = [size for size, here in zip(sizes, holds, strict=True) if here]
        assert replace(groups, largest=held) == metrics.groups_of(held)


# ---------------------------------------------------------------------- figures of a map


def mints(**sizes: int) -> list[Row]:
    return [transfer(f"mint -> {name}", size) for name, size in sizes.items()]


def test_the_score_is_null_where_it_was_not_asked_for_and_the_rest_is_told(build: Build) -> None:
    store = build(*mints(a=5, b=5))
    values = figures(draw(store, return_decentralization_score=False))
    assert (values["service_score"], values["herfindahl_hirschman_index"]) == (None, 0.5)


@pytest.mark.parametrize("width", [1, 2, 5])
def test_numbers_are_sorted_in_descending_order_and_equal_ones_stay(width: int) -> None:
    chance = Random(width)
    numbers = [chance.choice((1, -1)) * chance.getrandbits(chance.choice((1, 12, 64 * width - 1))) for _ in range(500)]
    expected = sorted(range(len(numbers)), key=lambda place: -numbers[place])
    assert descending_places(from_ints(numbers, width)).tolist() == expected


def test_bundles_is_the_part_of_the_ten_largest_clusters(build: Build) -> None:
    pairs = [
        row
        for number in range(11)
        for row in (transfer(f"mint -> p{number}", 10), transfer(f"p{number} -> q{number}", 4))
    ]
    store = build(*pairs, *mints(alone=80, exchange=10), labels=[cex("exchange")])
    assert figures(draw(store))["bundles"] == 0.5


@pytest.mark.parametrize(("age", "fresh"), [(10 * DAY - 1, 0.25), (10 * DAY, 0), (0, 0.25)])
def test_fresh_wallets_are_under_ten_days_old(build: Build, age: int, fresh: float) -> None:
    now = 100 * DAY
    store = build(transfer("mint -> old", 75, at=1), transfer("mint -> young", 25, at=now - age))
    assert figures(draw(store, now))["fresh_wallets"] == fresh
