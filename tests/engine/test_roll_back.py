"""What a reorganisation took back goes from every history of the chain at once, and answers know of it."""

from __future__ import annotations

from collections.abc import Callable

from engine.store import Store
from tests.engine.world import COIN, Key, held, table, transfer

OTHER: Key = ("eth", "other")
ELSEWHERE: Key = ("base", "coin")


def test_transfers_of_later_blocks_go_from_all_tokens_of_the_chain_and_no_other(build: Callable[..., Store]) -> None:
    store = build(
        transfer("mint -> a", 100, at=10, block_number=1),
        transfer("a -> b", 30, at=20, block_number=2),
        transfer("b -> c", 5, at=30, block_number=3),
        transfer("mint -> a", 7, at=30, block_number=3, token=OTHER),
        transfer("mint -> a", 9, at=30, block_number=3, token=ELSEWHERE),
    )
    generation = store.generation()
    assert store.roll_back("eth", 2) == 2
    assert held(store) == {"a": 70, "b": 30}
    assert held(store, token=ELSEWHERE) == {"a": 9}
    assert store.history(*OTHER) is None
    history = store.history(*COIN)
    assert history is not None
    assert (history.transfers, history.last_time) == (2, 20)
    assert store.first_change_since(generation) == 30


def test_rolling_back_to_where_nothing_follows_changes_nothing(build: Callable[..., Store]) -> None:
    store = build(transfer("mint -> a", 100, at=10, block_number=1))
    generation = store.generation()
    assert store.roll_back("eth", 1) == 0
    assert store.roll_back("base", 0) == 0
    assert store.generation() == generation


def test_what_was_rolled_back_can_come_again_as_something_else(build: Callable[..., Store]) -> None:
    store = build(transfer("mint -> a", 100, at=10, block_number=1, tx_hash="0x1"))
    store.roll_back("eth", 0)
    again = transfer("mint -> b", 50, at=12, block_number=1, tx_hash="0x1")
    report = store.add_transfers(table([again]), "again")
    assert (report.added, report.conflicts) == (1, 0)
    assert held(store) == {"b": 50}
