"""``compare`` names why two homes of a generated history differ, and leaves unknown causes unexplained."""

from __future__ import annotations

from collections import Counter

import pytest

from benchmarks.compare import CAUSES, Comparisons, generated

pytestmark = pytest.mark.integration


@pytest.fixture(scope="module")
def comparisons(tmp_path_factory: pytest.TempPathFactory) -> Comparisons:
    return Comparisons(tmp_path_factory.mktemp("homes"), "generated", generated(seed=5), seed=5)


def verdicts(comparisons: Comparisons, *causes: str) -> Counter[str]:
    counted: Counter[str] = Counter()
    for (verdict, _, _), count in comparisons.judged(*causes).items():
        counted[verdict] += count
    return counted


@pytest.mark.later(long=12)
@pytest.mark.parametrize("cause", sorted(CAUSES.keys() - {"transport"}))
def test_a_single_cause_is_named_or_unexplained_if_it_is_unknown(comparisons: Comparisons, cause: str) -> None:
    counted = verdicts(comparisons, cause)
    assert counted["right"] >= 0.99 * counted.total() > 0
    assert not counted["wrong"]


@pytest.mark.later(long=1)
@pytest.mark.parametrize(
    "causes",
    [
        ("1 % of transfers missing", "blocks an hour late"),
        ("a step late", "1 % of transfers missing"),
        ("decimals", "1 % of transfers missing", "blocks an hour late"),
        ("1 % of transfers missing", "half of the labels", "limit 80"),
        ("fewer magic nodes", "indexed transfers missing"),
        ("time thresholds", "1 % of transfers missing", "no labels"),
    ],
)
def test_each_difference_of_a_mixture_has_a_cause_that_makes_it(
    comparisons: Comparisons, causes: tuple[str, ...]
) -> None:
    counted = verdicts(comparisons, *causes)
    assert counted["unexplained"] <= 0.005 * counted.total() > 0
    assert counted["wrong"] <= 0.01 * counted.total()


def test_homes_that_were_filled_over_another_transport_are_equal(comparisons: Comparisons) -> None:
    assert not comparisons.differences("transport")
