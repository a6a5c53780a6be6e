"""Changes of clusters, by the holders that they share, by example and by brute force."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from holderlake.engine.maps.lineage import ClusterChange, lineage
from tests.engine.world import settled

Change = tuple[str, list[int], list[int]]


def changes_of(before: list[str], after: list[str]) -> list[Change]:
    """Return the changes of clusters, which are written as the letters of their holders."""
    return [(one.change, one.before, one.after) for one in lineage(before, after)]


@pytest.mark.parametrize(
    ("before", "after", "expected"),
    [
        ([], [], []),
        (["ab"], ["ba"], [("same", [1], [1])]),
        (["ab"], ["abc"], [("grew", [1], [1])]),
        (["abc"], ["bc"], [("shrank", [1], [1])]),
        (["ab"], ["bc"], [("changed", [1], [1])]),
        (["abcd"], ["dxy"], [("shrank", [1], [1])]),
        ([], ["ab"], [("born", [], [1])]),
        (["ab"], [], [("died", [1], [])]),
        (["ab"], ["cd"], [("born", [], [1]), ("died", [1], [])]),
        (["ab", "cd"], ["abcd"], [("merged", [1, 2], [1])]),
        (["ab", "cd"], ["bcx"], [("merged", [1, 2], [1])]),
        (["abcd"], ["ab", "cd"], [("split", [1], [1, 2])]),
        (["abcd", "ef"], ["ab", "cdef"], [("split", [1], [1, 2]), ("merged", [1, 2], [2])]),
        (
            ["abc", "def"],
            ["ad", "be", "cf"],
            [
                ("merged", [1, 2], [1]),
                ("split", [1], [1, 2, 3]),
                ("split", [2], [1, 2, 3]),
                ("merged", [1, 2], [2]),
                ("merged", [1, 2], [3]),
            ],
        ),
        (
            ["ab", "cd", "ef"],
            ["ef", "gh", "ab"],
            [
                ("same", [3], [1]),
                ("born", [], [2]),
                ("same", [1], [3]),
                ("died", [2], []),
            ],
        ),
    ],
)
def test_changes_of_clusters_by_example(before: list[str], after: list[str], expected: list[Change]) -> None:
    assert sorted(changes_of(before, after)) == sorted(expected)


def test_changes_are_ordered_by_later_then_earlier_cluster() -> None:
    assert changes_of(["ab", "cd", "ef", "gh"], ["gh", "abcd", "xy"]) == [
        ("same", [4], [1]),
        ("merged", [1, 2], [2]),
        ("born", [], [3]),
        ("died", [3], []),
    ]


@st.composite
def partitions(draw: st.DrawFn) -> list[set[str]]:
    """Generate disjoint clusters of at least two of twelve addresses."""
    places = draw(st.lists(st.integers(0, 4), min_size=12, max_size=12))
    clusters = [
        {letter for letter, place in zip("abcdefghijkl", places, strict=True) if place == of} for of in range(4)
    ]
    return [cluster for cluster in clusters if len(cluster) > 1]


@settled(300)
@given(partitions(), partitions())
def test_changes_of_random_clusters_equal_brute_force(before: list[set[str]], after: list[set[str]]) -> None:
    changes = lineage(before, after)
    assert sorted(map(repr, changes)) == sorted(map(repr, by_brute_force(before, after)))
    for side, numbers in ((before, [p.before for p in changes]), (after, [p.after for p in changes])):
        assert {number for listed in numbers for number in listed} == set(range(1, len(side) + 1))


def by_brute_force(before: list[set[str]], after: list[set[str]]) -> list[ClusterChange]:
    """Apply the definitions of ``ClusterChange`` to each cluster."""
    found = []
    for place, holders in enumerate(after, start=1):
        origins = [number for number, others in enumerate(before, start=1) if holders & others]
        if not origins:
            found.append(ClusterChange("born", [], [place]))
        if len(origins) >= 2:
            found.append(ClusterChange("merged", origins, [place]))
    for place, holders in enumerate(before, start=1):
        offspring = [number for number, others in enumerate(after, start=1) if holders & others]
        if not offspring:
            found.append(ClusterChange("died", [place], []))
        if len(offspring) >= 2:
            found.append(ClusterChange("split", [place], offspring))
        if len(offspring) == 1:
            heir = after[offspring[0] - 1]
            if not any(heir & others for others in before if others is not holders):
                more = (len(heir) > len(holders)) - (len(heir) < len(holders))
                change = "same" if heir == holders else {-1: "shrank", 0: "changed", 1: "grew"}[more]
                found.append(ClusterChange(change, [place], offspring))
    return found
