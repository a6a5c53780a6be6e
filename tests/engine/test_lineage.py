"""Changes of clusters, by the balances of their common holders, by example and by brute force."""

from __future__ import annotations

from fractions import Fraction

import pytest
from hypothesis import given
from hypothesis import strategies as st

from holderlake.engine.maps.changes import ClusterChange, Members, lineage
from tests.engine.world import settled

Change = tuple[str, list[int], list[int]]


def clusters_of(texts: list[str]) -> list[Members]:
    """Return clusters that are written as the letters of their holders. A lower-case letter holds 1, a capital 10."""
    amounts = [{letter.lower(): 10 if letter.isupper() else 1 for letter in text} for text in texts]
    return [Members(one, sum(one.values()) / 100) for one in amounts]


def changes_of(before: list[str], after: list[str]) -> list[Change]:
    return [
        (one.change, one.clusters_before, one.clusters_after)
        for one in lineage(clusters_of(before), clusters_of(after))
    ]


@pytest.mark.parametrize(
    ("before", "after", "expected"),
    [
        ([], [], []),
        (["ab"], ["ba"], [("same", [1], [1])]),
        (["ab"], ["abc"], [("grew", [1], [1])]),
        (["abc"], ["bc"], [("shrank", [1], [1])]),
        (["ab"], ["bc"], [("changed", [1], [1])]),
        (["abcd"], ["dxy"], [("born", [], [1]), ("died", [1], [])]),
        (["abcD"], ["Dxy"], [("shrank", [1], [1])]),
        (["Abc"], ["Abx"], [("changed", [1], [1])]),
        (["ab"], ["Ab"], [("grew", [1], [1])]),
        (["Abcdefghijk"], ["Axyz", "bcdefghijk"], [("split", [1], [1, 2])]),
        (["Abcdefghijkl"], ["axy", "bcd"], [("shrank", [1], [2]), ("born", [], [1])]),
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
def maps(draw: st.DrawFn) -> list[Members]:
    """Generate disjoint clusters of at least two of twelve addresses, with balances from 1 to 4."""
    places = draw(st.lists(st.integers(0, 4), min_size=12, max_size=12))
    balances = draw(st.lists(st.integers(1, 4), min_size=12, max_size=12))
    clusters = [
        {letter: amount for letter, place, amount in zip("abcdefghijkl", places, balances, strict=True) if place == of}
        for of in range(4)
    ]
    return [Members(cluster, sum(cluster.values()) / 50) for cluster in clusters if len(cluster) > 1]


@pytest.mark.integration
@settled(300)
@given(maps(), maps())
def test_changes_of_random_clusters_equal_brute_force(before: list[Members], after: list[Members]) -> None:
    changes = lineage(before, after)
    assert sorted(map(repr, changes)) == sorted(map(repr, by_brute_force(before, after)))
    for side, numbers in ((before, [p.clusters_before for p in changes]), (after, [p.clusters_after for p in changes])):
        assert {number for listed in numbers for number in listed} == set(range(1, len(side) + 1))


def by_brute_force(before: list[Members], after: list[Members]) -> list[ClusterChange]:
    """Apply the definitions of ``ClusterChange`` to each cluster."""

    def are_related(one: Members, other: Members) -> bool:
        common = one.amounts.keys() & other.amounts.keys()
        parts = [
            Fraction(sum(amounts[holder] for holder in common), sum(amounts.values()))
            for amounts in (one.amounts, other.amounts)
        ]
        return bool(common) and max(parts) >= Fraction(1, 2)

    found = []
    for place, cluster in enumerate(after, start=1):
        origins = [number for number, other in enumerate(before, start=1) if are_related(other, cluster)]
        if not origins:
            found.append(ClusterChange("born", [], [place]))
        if len(origins) >= 2:
            found.append(ClusterChange("merged", origins, [place]))
    for place, cluster in enumerate(before, start=1):
        heirs = [number for number, other in enumerate(after, start=1) if are_related(cluster, other)]
        if not heirs:
            found.append(ClusterChange("died", [place], []))
        if len(heirs) >= 2:
            found.append(ClusterChange("split", [place], heirs))
        if len(heirs) == 1 and sum(are_related(other, after[heirs[0] - 1]) for other in before) == 1:
            heir = after[heirs[0] - 1]
            if heir.share != cluster.share:
                change = "grew" if heir.share > cluster.share else "shrank"
            else:
                change = "same" if set(heir.amounts) == set(cluster.amounts) else "changed"
            found.append(ClusterChange(change, [place], heirs))
    return found
