"""Changes between two instants: exact balances of all holders, and clusters."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from fractions import Fraction
from random import Random
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from holderlake.core.contract.requests import MapOptions
from holderlake.core.contract.times import from_unix
from holderlake.engine.errors import NoHolders, UnknownToken, UnsupportedToken
from holderlake.engine.maps.changes import CHANGE_COUNTS, CLUSTER_CHANGES, HOLDER_CHANGES, Members, lineage, map_changes
from holderlake.engine.store.store import Store
from tests.engine.oracle import Oracle
from tests.engine.random_worlds import TOKENS, random_oracle
from tests.engine.world import COIN, END, UINT256, Key, Row, a_token, histories, settled, transfer, world
from tests.helpers import flawed_histories

Build = Callable[..., Store]


def changed(
    store: Store, before: int, after: int = END, token: Key = COIN, most: int = END, **options: Any
) -> dict[str, list[Row]]:
    """Return the three tables as rows; ``most`` limits the changes."""
    chosen = MapOptions.model_construct(**options)
    tables = map_changes(store, *token, from_unix(before), from_unix(after), chosen, most)
    return {name: rows.to_pylist() for name, rows in tables.items()}


def moved(rows: Sequence[Row]) -> list[tuple[str, str, int]]:
    return [(row["address"], row["change"], int(row["amount_change_raw"])) for row in rows]


def changes_of(rows: Sequence[Row]) -> list[tuple[str, list[int], list[int]]]:
    return [(row["change"], row["clusters_before"], row["clusters_after"]) for row in rows]


# ---------------------------------------------------------------------- holders, by brute force


def holders_by_brute_force(oracle: Oracle, token: Key, before: int, after: int) -> tuple[list[Row], Row]:
    """Return the rows of all changes and the counts."""
    supplies = [oracle.balances(token, at)[0] for at in (before, after)]
    ranks = [
        {address: rank for rank, (address, _) in enumerate(oracle.holders(token, at), start=1)}
        for at in (before, after)
    ]
    held = [dict(oracle.holders(token, at)) for at in (before, after)]
    rows = []
    for address in {**held[0], **held[1]}:
        early, late = (side.get(address, 0) for side in held)
        words = {(True, False): "entered", (False, True): "left"}
        change = words.get((early == 0, late == 0), "grew" if late > early else "shrank" if late < early else "same")
        rows.append(
            {
                "address": address,
                "change": change,
                "amount_before_raw": str(early),
                "amount_after_raw": str(late),
                "amount_change_raw": str(late - early),
                "rank_before": ranks[0].get(address),
                "rank_after": ranks[1].get(address),
                "share_before": share(early, supplies[0]),
                "share_after": share(late, supplies[1]),
            }
        )
    rows.sort(key=lambda row: (-abs(int(row["amount_change_raw"])), row["address"]))
    kinds = ("entered", "left", "grew", "shrank", "same")
    counts = {kind: sum(row["change"] == kind for row in rows) for kind in kinds}
    return [row for row in rows if row["change"] != "same"], counts | {
        "holders_before": len(held[0]),
        "holders_after": len(held[1]),
    }


def share(amount: int, supply: int) -> float:
    return float(min(Fraction(1), Fraction(amount, supply))) if supply > 0 else 0.0


@pytest.mark.long
@settled(25)
@given(histories(), st.integers(0, 100), st.integers(1, 60), st.integers(0, 5))
def test_changes_of_holders_equal_brute_force(history: list[Row], before: int, later: int, most: int) -> None:
    oracle, after = Oracle(history, [a_token(COIN)]), before + later
    rows, counts = holders_by_brute_force(oracle, COIN, before, after)
    with world(*history) as store:
        if not rows and not counts["same"]:
            with pytest.raises(NoHolders):
                changed(store, before, after)
            return
        found = changed(store, before, after)
        assert found["holders"] == rows
        assert found["counts"] == [counts]
        assert changed(store, before, after, most=most)["holders"] == rows[:most]


def test_changes_of_a_lossy_history_equal_brute_force(flawed_store: Store) -> None:
    history, token = flawed_histories.history("lossy_coin"), flawed_histories.token_of("lossy_coin")
    oracle = Oracle(history, [])
    before, after = (history[place]["block_time"] for place in (150, 400))
    rows, counts = holders_by_brute_force(oracle, token, before, after)
    found = changed(flawed_store, before, after, token)
    assert (found["holders"], found["counts"]) == (rows, [counts])
    assert min(counts[kind] for kind in ("entered", "left", "grew", "shrank")) > 0


# ---------------------------------------------------------------------- holders, by example


def test_amounts_of_256_bits_are_compared_exactly(build: Build) -> None:
    store = build(
        transfer("mint -> a", UINT256, at=1),
        transfer("mint -> b", UINT256 - 1, at=1),
        transfer("mint -> c", UINT256, at=5),
        transfer("a -> b", UINT256, at=5),
    )
    assert moved(changed(store, 1)["holders"]) == [
        ("a", "left", -UINT256),
        ("b", "grew", UINT256),
        ("c", "entered", UINT256),
    ]


def test_all_holders_entered_if_there_were_none_before(build: Build) -> None:
    store = build(*(transfer(f"mint -> {name}", 5, at=9) for name in "ab"), transfer("a -> b", 1, at=9))
    found = changed(store, 8, 9)
    assert moved(found["holders"]) == [("b", "entered", 6), ("a", "entered", 4)]
    assert changes_of(found["clusters"]) == [("born", [], [1])]


def test_all_holders_left_if_there_are_none_after(build: Build) -> None:
    store = build(
        *(transfer(f"mint -> {name}", 5, at=1) for name in "ab"),
        transfer("a -> b", 1, at=1),
        transfer("a -> burn", 4, at=9),
        transfer("b -> burn", 6, at=9),
    )
    found = changed(store, 8, 9)
    assert moved(found["holders"]) == [("b", "left", -6), ("a", "left", -4)]
    assert changes_of(found["clusters"]) == [("died", [1], [])]


def test_changes_have_the_errors_of_a_map(build: Build) -> None:
    store = build(transfer("mint -> a", at=5), tokens=[a_token(("eth", "odd"), unsupported="it rebases")])
    for key, error in ((COIN, NoHolders), (("eth", "no"), UnknownToken), (("eth", "odd"), UnsupportedToken)):
        with pytest.raises(error):
            changed(store, 3, 4, key)


def test_empty_changes_have_the_same_schema(build: Build) -> None:
    store = build(*(transfer(f"mint -> {name}", 5, at=2) for name in "ab"), transfer("a -> b", 1, at=3))
    for before, after, rows in ((3, 4, 0), (1, 3, 2)):
        tables = map_changes(store, *COIN, from_unix(before), from_unix(after), MapOptions(), 80)
        assert tables["holders"].num_rows == rows
        for name, schema in (("holders", HOLDER_CHANGES), ("counts", CHANGE_COUNTS), ("clusters", CLUSTER_CHANGES)):
            assert tables[name].schema.equals(schema, check_metadata=True), name


# ---------------------------------------------------------------------- clusters


@pytest.mark.later(integration=4, long=7)
@pytest.mark.parametrize("seed", range(16))
def test_changes_of_clusters_equal_brute_force(seed: int) -> None:
    chance = Random(2_000 + seed)
    oracle = random_oracle(chance)
    token, before, after = chance.choice(TOKENS), chance.randint(80, 250), chance.randint(251, 450)
    options = {"limit": chance.randint(3, 20), "use_magic_nodes": chance.random() < 0.7}
    options["use_time_nodes"] = chance.random() < 0.7
    if not oracle.holders(token, before) and not oracle.holders(token, after):
        return
    with world(*oracle.transfers, tokens=oracle.tokens, labels=oracle.labels, rules=oracle.rules) as store:
        rows = changed(store, before, after, token, **options)["clusters"]
    earlier, later = (clusters_by_brute_force(oracle, token, at, **options) for at in (before, after))
    changes = lineage([Members(*one) for one in earlier], [Members(*one) for one in later])
    assert changes_of(rows) == [(one.change, one.clusters_before, one.clusters_after) for one in changes]
    for row in rows:
        sides = [
            [side[number - 1] for number in row[name]]
            for name, side in (("clusters_before", earlier), ("clusters_after", later))
        ]
        old, new = ({holder for holders, _ in side for holder in holders} for side in sides)
        assert (row["holders_before"], row["holders_after"]) == (len(old), len(new))
        assert row["shared_holders"] == len(old & new)
        shares = [min(1.0, sum(share for _, share in side)) for side in sides]
        assert [row["share_before"], row["share_after"]] == pytest.approx(shares)


def clusters_by_brute_force(oracle: Oracle, token: Key, at: int, **options: Any) -> list[tuple[dict[str, Any], float]]:
    """Return the amount of each holder, and the share, of each cluster of the map, if there is a map."""
    if not oracle.holders(token, at):
        return []
    drawn = oracle.map(token, at, **options)
    amounts = {row["address"]: row["amount"] for row in drawn["map_nodes"] if row["kind"] == "top_holder"}
    return [
        (
            {
                row["address"]: amounts[row["address"]]
                for row in drawn["cluster_members"]
                if row["cluster_id"] == cluster["cluster_id"] and row["kind"] == "holder"
            },
            cluster["share"],
        )
        for cluster in drawn["clusters"]
    ]


def test_a_cluster_grows_or_shrinks_by_its_share(build: Build) -> None:
    store = build(
        *(transfer(f"mint -> {name}", 10, at=1) for name in ("a1", "a2")),
        *(transfer(f"mint -> {name}", 100, at=1) for name in ("b1", "b2", "b3")),
        *(transfer(f"mint -> {name}", 1_000, at=1) for name in ("c1", "c2", "c3")),
        *(transfer(f"mint -> {name}", 10_000, at=1) for name in ("d1", "d2")),
        *(transfer(path, at=2) for path in ("a1 -> a2", "b1 -> b2", "b2 -> b3", "c1 -> c2", "c2 -> c3", "d1 -> d2")),
        transfer("a1 -> a3", at=5),
        transfer("b3 -> burn", 101, at=5),
        transfer("c3 -> c4", 1_001, at=5),
    )
    rows = changed(store, 4, use_magic_nodes=False)["clusters"]
    # the burn makes the supply smaller: the first cluster keeps its balance and gains share
    assert changes_of(rows) == [("grew", [1], [1]), ("shrank", [2], [2]), ("shrank", [3], [3]), ("grew", [4], [4])]
    assert [(row["holders_before"], row["holders_after"], row["shared_holders"]) for row in rows] == [
        (2, 2, 2),
        (3, 2, 2),
        (3, 2, 2),
        (2, 3, 2),
    ]


def test_a_cluster_splits_when_the_holder_between_leaves(build: Build) -> None:
    store = build(
        *(transfer(f"mint -> {name}", 10, at=1) for name in "abcdx"),
        *(transfer(path, at=2) for path in ("a -> b", "c -> d", "x -> b", "x -> c")),
        transfer("x -> burn", 8, at=5),
    )
    assert changes_of(changed(store, 4, use_magic_nodes=False)["clusters"]) == [("split", [1], [1, 2])]
    assert changes_of(changed(store, 4)["clusters"]) == [("changed", [1], [1])], "a magic node connects them"
