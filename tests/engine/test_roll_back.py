"""A roll back removes the rows of a chain's later blocks from every answer."""

from __future__ import annotations

from collections.abc import Callable
from random import Random

import pytest

from holderlake.engine.errors import NoHolders
from holderlake.engine.store.store import Store
from tests.engine.oracle import Oracle
from tests.engine.random_worlds import random_oracle
from tests.engine.test_maps import assert_equal_to_brute_force
from tests.engine.world import COIN, Row, draw, held, holders, table, transfer, world

Build = Callable[..., Store]
ANOTHER = ("eth", "another")
ELSEWHERE = ("base", "coin")


def test_later_blocks_are_removed_from_all_tokens_of_the_chain_alone(build: Build) -> None:
    store = build(
        transfer("mint -> a", 100, at=10, block_number=1),
        transfer("a -> b", 30, at=20, block_number=2),
        transfer("b -> c", 5, at=30, block_number=3),
        transfer("mint -> a", 7, at=30, block_number=3, token=ANOTHER),
        transfer("mint -> a", 9, at=30, block_number=3, token=ELSEWHERE),
    )
    generation = store.generation()
    assert store.roll_back("eth", 2) == 2
    assert held(store) == {"a": 70, "b": 30}
    assert held(store, token=ELSEWHERE) == {"a": 9}
    assert store.history(*ANOTHER) is None
    assert store.token(*ANOTHER) is not None
    with pytest.raises(NoHolders):
        holders(store, token=ANOTHER)
    history = store.history(*COIN)
    assert history is not None
    assert (history.transfers, history.last_time) == (2, 20)
    assert store.first_change_since(generation) == 30
    assert store.roll_back("eth", 2) == 0


def test_a_roll_back_without_later_blocks_changes_nothing(build: Build) -> None:
    store = build(transfer("mint -> a", 100, at=10, block_number=1))
    generation = store.generation()
    assert store.roll_back("eth", 1) == 0
    assert store.roll_back("base", 0) == 0
    assert store.generation() == generation


def test_a_roll_back_changes_answers_from_its_earliest_removed_row_on(build: Build) -> None:
    store = build(transfer("mint -> a", at=10), transfer("a -> b", at=30), transfer("b -> c", at=20, block_number=25))
    known = store.generation()
    store.roll_back("eth", 24)
    assert (store.generation(), store.first_change_since(known)) == (known + 1, 20)


def test_a_snapshot_keeps_rows_that_are_rolled_back(build: Build) -> None:
    store = build(transfer("mint -> a", 5, at=1), transfer("mint -> b", 9, at=2))
    snapshot = store.snapshot()
    store.roll_back("eth", 1)
    assert (held(snapshot), held(store)) == ({"a": 5, "b": 9}, {"a": 5})


def test_removed_transfers_can_be_imported_again_in_other_blocks(build: Build) -> None:
    first, second = transfer("mint -> a", 5, at=1), transfer("a -> b", 2, at=2)
    store = build(first, second)
    store.roll_back("eth", 1)
    report = store.add_transfers(table([second | {"block_number": 3, "block_time": 3}]), "again")
    assert (report.added, report.conflicts) == (1, 0)
    assert holders(store, at=2) == [("a", 5)]
    assert holders(store, at=3) == [("a", 3), ("b", 2)]


@pytest.mark.later(integration=2, long=3)
@pytest.mark.parametrize("seed", range(12))
def test_maps_after_imports_and_roll_backs_equal_brute_force(seed: int) -> None:
    chance = Random(seed)
    oracle = random_oracle(chance)
    rows = list(oracle.transfers)
    chance.shuffle(rows)
    kept: list[Row] = []
    with world(tokens=oracle.tokens, labels=oracle.labels, rules=oracle.rules) as store:
        while rows:
            number = chance.randint(1, 40)
            some, rows = rows[:number], rows[number:]
            store.add_transfers(table(some), "some")
            kept += some
            if chance.random() < 0.4:
                chain, block = chance.choice(["eth", "bsc"]), chance.randint(100, 400)
                gone = [row for row in kept if row["chain"] == chain and row["block_number"] > block]
                assert store.roll_back(chain, block) == len(gone)
                kept = [row for row in kept if row not in gone]
        left = Oracle(kept, oracle.tokens, oracle.labels, oracle.rules)
        for _ in range(4):
            at = chance.randint(1, 450)
            if left.holders(COIN, at):
                options = {"limit": chance.randint(2, 20), "use_magic_nodes": True, "use_time_nodes": True}
                assert_equal_to_brute_force(store, left, COIN, at, **options)
            else:
                with pytest.raises(NoHolders):
                    draw(store, at)
