"""The store records the earliest second that each import changed. All processes see it at once and in order."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from threading import Thread

import pytest
from hypothesis import given
from hypothesis import strategies as st

from holderlake.engine.catalog.catalog import transaction
from holderlake.engine.catalog.changelog import note_change
from holderlake.engine.errors import UnusableStore
from holderlake.engine.records import TRANSFERS, Label, TokenInfo
from holderlake.engine.store.store import Store
from tests.engine.world import COIN, Row, a_token, settled, table, transfer, world
from tests.helpers.processes import run

Build = Callable[..., Store]
OTHER = ("bsc", "other")


def test_a_new_store_has_no_change(build: Build) -> None:
    store = build()
    assert store.generation() == 0
    assert store.first_change_since(0) is None


EARLY = transfer("mint -> a", at=10)


@pytest.mark.parametrize(
    ("rows", "first"),
    [
        ([transfer("a -> b", at=30), transfer("a -> b", at=20)], 20),
        ([transfer("a -> b", at=5)], 5),
        ([EARLY, transfer("a -> b", at=40)], 40),
        ([transfer("mint -> a", at=60), transfer("mint -> a", at=50, token=OTHER)], 50),
    ],
    ids=["later", "earlier", "overlapping", "two tokens"],
)
def test_an_import_is_one_change_from_its_first_new_row_on(build: Build, rows: list[Row], first: int) -> None:
    store = build(EARLY, transfer("mint -> a", at=10, token=OTHER))
    known = store.generation()
    store.add_transfers(table(rows), "more")
    assert (store.generation(), store.first_change_since(known)) == (known + 1, first)


def test_transfers_that_are_known_change_nothing(build: Build) -> None:
    row = transfer("mint -> a", at=10)
    store = build(row)
    known = store.generation()
    store.add_transfers(table([row, row | {"value": "9"}]), "again")
    store.add_transfers(TRANSFERS.empty_table(), "empty")
    assert store.generation() == known


def test_an_import_that_fails_changes_nothing(build: Build, monkeypatch: pytest.MonkeyPatch) -> None:
    store = build(transfer("mint -> a", at=10))
    known = store.generation()

    def full(_: int) -> None:
        raise OSError(28, "No space left on device")

    with monkeypatch.context() as broken:
        broken.setattr("os.fsync", full)
        with pytest.raises(UnusableStore, match="the disk is full"):
            store.add_transfers(table([transfer("mint -> b", at=5)]), "file")
    assert (store.generation(), store.first_change_since(known)) == (known, None)


TOKEN, LABEL = a_token(COIN), Label("a", None, "s", name="Ann")


@pytest.mark.parametrize(
    "changed",
    [
        *(replace(TOKEN, **{name: value}) for name, value in (("name", "other"), ("symbol", "OTHER"), ("decimals", 6))),
        replace(TOKEN, is_indexed=True),
        replace(TOKEN, img_url="https://img.example/coin.png"),
        replace(TOKEN, unsupported="its balances rebase"),
        *(replace(LABEL, name=name) for name in ("Bob", None)),
        *(replace(LABEL, **{name: "bsc"}) for name in ("entity_id", "chain")),
        replace(LABEL, is_cex=True),
        replace(LABEL, precedence=2),
    ],
    ids=str,
)
def test_changed_metadata_changes_answers_at_any_instant(build: Build, changed: TokenInfo | Label) -> None:
    store = build(transfer("mint -> a", at=10), tokens=[TOKEN], labels=[LABEL])
    known = store.generation()
    store.add_labels([changed]) if isinstance(changed, Label) else store.add_tokens([changed])
    assert (store.generation(), store.first_change_since(known)) == (known + 1, 0)


def test_the_same_metadata_and_labels_again_change_nothing(build: Build) -> None:
    tokens = [a_token(COIN), a_token(COIN, name="the last one counts"), a_token(OTHER, is_indexed=True)]
    labels = [Label("a", None, "s", name="Ann"), Label("a", "eth", "s", entity_id="ann"), Label("a", None, "s")]
    store = build(tokens=tokens, labels=labels)
    known = store.generation()
    assert (store.add_tokens(tokens), store.add_labels(labels)) == (3, 3)
    store.add_tokens([])
    store.add_labels([])
    assert store.generation() == known
    assert store.token(*COIN) == tokens[1]


def test_a_new_token_whose_contract_was_a_wallet_changes_all_answers(build: Build) -> None:
    store = build(transfer("mint -> other", at=10))
    known = store.generation()
    store.add_transfers(table([transfer("mint -> a", at=50, token=OTHER)]), "of a new token")
    assert store.first_change_since(known) == 0
    store.add_transfers(table([transfer("mint -> a", at=60, token=("eth", "native"))]), "without a contract")
    assert store.first_change_since(known + 1) == 60


def test_a_new_token_whose_contract_was_no_wallet_changes_answers_from_its_first_row_on(build: Build) -> None:
    store = build(transfer("mint -> a", at=10))
    known = store.generation()
    store.add_transfers(table([transfer("mint -> other", at=50, token=OTHER)]), "of a new token")
    assert store.first_change_since(known) == 50


def test_the_first_import_changes_answers_from_its_first_row_on() -> None:
    with world() as store:
        store.add_transfers(table([transfer("mint -> a", at=50)]), "first")
        assert store.first_change_since(0) == 50


@settled(60)
@given(st.lists(st.integers(0, 9), max_size=12), st.integers(0, 4))
def test_the_first_change_since_any_generation_is_the_least_of_all_since(times: list[int], asked_at_first: int) -> None:
    with world() as store:
        for number, first_time in enumerate(times, start=1):
            with transaction(store.root) as catalog:
                note_change(catalog, first_time)
            if number == asked_at_first:
                assert store.generation() == number
        assert store.generation() == len(times)
        for since in range(len(times) + 2):
            assert store.first_change_since(since) == min(times[since:], default=None)


# ---------------------------------------------------------------------- other processes, other threads

_IMPORT = """
import sys
from pathlib import Path
from holderlake.engine.store.store import Store
from tests.engine.world import table, transfer
with Store(Path(sys.argv[1])) as store:
    store.add_transfers(table([transfer("mint -> b", at=40, tx_hash="elsewhere")]), "elsewhere")
    print(store.generation())
"""


@pytest.mark.long
def test_an_import_of_another_process_is_seen_at_once(build: Build) -> None:
    store = build(transfer("mint -> a", at=10))
    known = store.generation()
    imported = run(_IMPORT, str(store.root))
    assert store.generation() == int(imported.stdout) == known + 1
    assert store.first_change_since(known) == 40
    assert store.snapshot().generation() == known + 1


def test_an_import_of_another_opening_in_this_process_is_seen_at_once(build: Build) -> None:
    store = build(transfer("mint -> a", at=10))
    with Store(store.root) as other:
        for number in range(3):
            known = store.generation()
            assert other.generation() == known > 0
            assert other.first_change_since(0) == store.first_change_since(0)
            other.add_transfers(table([transfer("mint -> a", at=20 + number)]), "other")
            assert (store.generation(), store.first_change_since(known)) == (known + 1, 20 + number)


def test_a_known_change_is_one_of_the_last_look(build: Build) -> None:
    store = build(transfer("mint -> a", at=10))
    known = store.generation()
    store.add_transfers(table([transfer("mint -> a", at=20)]), "later")
    assert store.known_change_since(known) is None
    store.generation()
    assert store.known_change_since(known) == store.first_change_since(known) == 20


def test_many_threads_see_generations_rise_and_all_see_the_last(build: Build) -> None:
    store = build(transfer("mint -> a", at=10))
    done: list[bool] = []
    seen: list[list[int]] = [[] for _ in range(4)]

    def watch(mine: list[int]) -> None:
        while not done:
            mine.append(store.generation())
            store.first_change_since(mine[-1])
        mine.append(store.generation())

    watchers = [Thread(target=watch, args=(mine,)) for mine in seen]
    for watcher in watchers:
        watcher.start()
    for number in range(15):
        store.add_labels([Label("a", None, "s", name=f"name {number}")])
    done.append(True)
    for watcher in watchers:
        watcher.join()
    last = store.generation()
    assert all(mine == sorted(mine) and mine[-1] == last for mine in seen)


# ---------------------------------------------------------------------- snapshots


def size(store: Store) -> int:
    (row,) = store.query("SELECT count(*) AS size FROM read_parquet($files)").to_pylist()
    return int(row["size"])


def test_a_snapshot_keeps_its_generation_and_its_files(build: Build) -> None:
    store = build(transfer("mint -> a", at=10))
    known = store.generation()
    snapshot = store.snapshot()
    store.add_transfers(table([transfer("mint -> a", at=5)]), "late")
    assert (snapshot.generation(), size(snapshot)) == (known, 1)
    assert (store.generation(), size(store)) == (known + 1, 2)
    assert snapshot.first_change_since(snapshot.generation()) == 5
    assert snapshot.snapshot().generation() == known


def test_a_snapshot_of_an_empty_store_has_generation_nought(build: Build) -> None:
    store = build()
    snapshot = store.snapshot()
    store.add_transfers(table([transfer("mint -> a", at=5)]), "first")
    assert (snapshot.generation(), size(snapshot)) == (0, 0)


@pytest.mark.integration
def test_a_snapshot_has_the_files_of_its_generation_during_imports(build: Build) -> None:
    store = build(transfer("mint -> a", at=10))
    before = store.generation()

    def import_one_by_one() -> None:
        with Store(store.root) as opened_again:
            for number in range(12):
                opened_again.add_transfers(table([transfer("mint -> a", at=20 + number)]), "one more")

    importer = Thread(target=import_one_by_one)
    importer.start()
    while importer.is_alive():
        store.generation()
        snapshot = store.snapshot()
        assert size(snapshot) == 1 + snapshot.generation() - before
    importer.join()
    assert store.generation() == before + 12


def test_a_closed_store_keeps_no_connection(build: Build) -> None:
    store = build(transfer("mint -> a"))
    with Store(store.root) as closed:
        closed.generation()
    with pytest.raises(Exception, match="closed database"):
        closed.generation()
