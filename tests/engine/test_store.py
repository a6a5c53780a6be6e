"""The store keeps complete histories: imports are idempotent, atomic and safe for concurrent readers."""

from __future__ import annotations

import os
import time
from collections.abc import Callable
from itertools import permutations
from pathlib import Path
from threading import Thread

import numpy as np
import pytest

from holderlake.core.contract.rules import Rules
from holderlake.engine.catalog import catalog as catalogue
from holderlake.engine.errors import UnusableStore
from holderlake.engine.files.adjacency import Run
from holderlake.engine.files.listing import View
from holderlake.engine.records import TRANSFERS, Label, TokenInfo
from holderlake.engine.store.store import Store
from tests.engine.world import COIN, END, Row, a_token, held, holders, table, transfer, world

Build = Callable[..., Store]
OTHER = ("bsc", "other")


def contents(store: Store) -> list[Row]:
    """Every stored row."""
    return store.query("SELECT * FROM read_parquet($files) ORDER BY ALL").to_pylist()


def files(store: Store) -> set[str]:
    return {path.name for path in (store.root / "transfers").glob("*.parquet")}


# ---------------------------------------------------------------------- importing


def test_importing_twice_stores_once_and_writes_no_file(build: Build) -> None:
    rows = [transfer("mint -> a", 5), transfer("a -> b", 2)]
    store = build(*rows)
    before = contents(store), files(store)
    report = store.add_transfers(table(rows), "again")
    assert (report.rows, report.added, report.duplicates, report.conflicts) == (2, 0, 2, 0)
    assert (contents(store), files(store)) == before


def test_a_repeated_row_of_a_file_is_stored_once_and_counted(build: Build) -> None:
    row = transfer("mint -> a", 5)
    store = build()
    report = store.add_transfers(table([row, row, row]), "file")
    assert (report.rows, report.added, report.duplicates) == (3, 1, 2)
    assert holders(store) == [("a", 5)]


def test_a_report_names_the_source_and_the_tokens(build: Build) -> None:
    report = build().add_transfers(table([transfer("mint -> a"), transfer("mint -> a", token=OTHER)]), "file.csv")
    assert report.source == "file.csv"
    assert report.tokens == ("bsc/other", "eth/coin")


@pytest.mark.parametrize(
    "changed", [{"value": "6"}, {"to_address": "x"}, {"from_address": "x"}], ids=["value", "receiver", "sender"]
)
def test_other_content_for_a_known_transfer_is_a_conflict(build: Build, changed: Row) -> None:
    row = transfer("mint -> a", 5)
    store = build(row)
    report = store.add_transfers(table([row | changed]), "liar")
    assert (report.added, report.duplicates, report.conflicts) == (0, 0, 1)
    assert contents(store) == [row]


def test_two_contents_for_one_transfer_in_one_file_are_a_conflict(build: Build) -> None:
    row = transfer("mint -> a", 5)
    store = build()
    report = store.add_transfers(table([row, row | {"value": "6"}]), "file")
    assert (report.added, report.conflicts) == (1, 1)
    assert len(contents(store)) == 1


def test_one_transaction_moves_many_items_by_log_index_and_by_token_id(build: Build) -> None:
    one = transfer("mint -> a", tx_hash="0x1", log_index=0, token_id="7", token_standard="erc1155")
    store = build(one, one | {"log_index": 1}, one | {"token_id": str(2**256 - 1)})
    assert holders(store) == [("a", 3)]


def test_one_transaction_moves_many_tokens(build: Build) -> None:
    store = build(transfer("mint -> a", 5, tx_hash="0x1"), transfer("mint -> a", 6, tx_hash="0x1", token=OTHER))
    assert (holders(store), holders(store, token=OTHER)) == ([("a", 5)], [("a", 6)])


def test_transfers_without_a_transaction_are_keyed_by_block_and_addresses(build: Build) -> None:
    rows = [
        transfer("mint -> a", 5, tx_hash=None),
        transfer("mint -> b", 5, tx_hash=None),
        transfer("mint -> a", 5, at=2, tx_hash=None),
    ]
    store = build(*rows)
    assert store.add_transfers(table(rows), "again").duplicates == 3
    assert holders(store) == [("a", 10), ("b", 5)]


def test_an_exact_time_replaces_an_estimate_in_any_order_of_import(build: Build) -> None:
    guessed = transfer("mint -> a", 5, at=90, time_kind="estimated", block_number=1)
    known = guessed | {"block_time": 100, "time_kind": "exact"}
    later = known | {"block_time": 101}
    for rows in permutations([guessed, known, later]):
        with world(*rows) as store:
            assert contents(store) == [known]


def test_rows_are_stored_in_order_of_block_and_log_index(build: Build) -> None:
    late, early = transfer("a -> b", at=9), transfer("mint -> a", at=3)
    second = early | {"log_index": 1}
    store = build(late, second, early)
    in_file = store.query("SELECT block_number, log_index FROM read_parquet($files)").to_pylist()
    assert [tuple(row.values()) for row in in_file] == [(3, 0), (3, 1), (9, 0)]


def test_every_column_is_stored_unchanged(build: Build) -> None:
    row = transfer(
        "mint -> a", 2**256 - 1, 77, token_id=str(2**256 - 1), log_index=4, block_number=2**40, time_kind="none"
    )
    store = build(row)
    stored = store.query("SELECT * FROM read_parquet($files)")
    assert stored.to_pylist() == [row]
    assert stored.schema.names == TRANSFERS.names


def test_an_import_of_nothing_changes_nothing(build: Build) -> None:
    store = build(transfer("mint -> a", 5))
    report = store.add_transfers(TRANSFERS.empty_table(), "empty")
    assert (report.rows, report.added, report.tokens) == (0, 0, ())
    assert holders(store) == [("a", 5)]


# ---------------------------------------------------------------------- all or nothing


def fail_at(call: int) -> Callable[[int], None]:
    """An fsync that fails the nth time, as a full disk does."""
    calls = iter(range(1, END))

    def fsync(_: int) -> None:
        if next(calls) == call:
            raise OSError(28, "No space left on device")

    return fsync


@pytest.mark.parametrize("call", [1, 2, 3])
def test_a_failed_import_leaves_nothing_and_can_be_repeated(
    build: Build, monkeypatch: pytest.MonkeyPatch, call: int
) -> None:
    store = build(transfer("mint -> a", 5))
    more = table([transfer("mint -> b", 9, token=token) for token in (COIN, OTHER, ("eth", "third"))])
    before = (contents(store), store.histories())
    with monkeypatch.context() as broken:
        broken.setattr("os.fsync", fail_at(call))
        with pytest.raises(UnusableStore, match="the disk is full, nothing was stored"):
            store.add_transfers(more, "file")
    assert (contents(store), store.histories()) == before
    assert store.token(*OTHER) is None
    assert store.add_transfers(more, "again").added == 3


def test_transfers_without_a_required_column_are_refused_whole(build: Build) -> None:
    store = build(transfer("mint -> a", 5))
    with pytest.raises(KeyError):
        store.add_transfers(table([transfer("mint -> b", 9)]).drop_columns(["value"]), "file")
    assert holders(store) == [("a", 5)]


# ---------------------------------------------------------------------- reading during an import


def test_a_reader_sees_nothing_of_a_running_import(build: Build, monkeypatch: pytest.MonkeyPatch) -> None:
    store = build(transfer("mint -> a", 5), transfer("mint -> a", 5, token=OTHER))
    seen = []
    monkeypatch.setattr("os.fsync", lambda _: seen.append((holders(store), holders(store, token=OTHER))))
    store.add_transfers(table([transfer("mint -> b", 9), transfer("mint -> b", 9, token=OTHER)]), "file")
    assert seen
    assert all(view == ([("a", 5)], [("a", 5)]) for view in seen)
    assert holders(store) == holders(store, token=OTHER) == [("b", 9), ("a", 5)]


def test_a_reader_keeps_the_file_it_began_with(build: Build, monkeypatch: pytest.MonkeyPatch) -> None:
    store = build(transfer("mint -> a", 5))
    read = Store.view

    def then_two_imports(self: Store) -> View:
        began_with = read(self)
        monkeypatch.setattr(Store, "view", read)
        for path in self.root.glob("*/*"):
            os.utime(path, (0, 0))  # a history that nothing was added to for long
        store.add_transfers(table([transfer("mint -> b", 9)]), "replaces the file")
        store.add_transfers(table([transfer("mint -> c", 7)]), "removes abandoned files")
        return began_with

    monkeypatch.setattr(Store, "view", then_two_imports)
    assert holders(store) == [("a", 5)]
    assert holders(store) == [("b", 9), ("c", 7), ("a", 5)]


@pytest.mark.integration
def test_readers_see_each_import_whole(build: Build) -> None:
    store = build(transfer("mint -> a"), transfer("mint -> a", token=OTHER))

    def import_in_pairs() -> None:
        for _ in range(8):
            store.add_transfers(table([transfer("mint -> a"), transfer("mint -> a", token=OTHER)]), "pair")

    importer = Thread(target=import_in_pairs)
    importer.start()
    sizes = []
    while importer.is_alive():
        counted = "SELECT chain, count(*) AS size FROM read_parquet($files) GROUP BY chain"
        sizes.append({row["size"] for row in store.query(counted).to_pylist()})
    importer.join()
    assert all(len(size) == 1 for size in sizes)
    assert len(contents(store)) == 18


def test_imports_from_two_openings_of_a_store_queue(build: Build) -> None:
    store = build()

    def import_alone(name: str) -> None:
        with Store(store.root) as opened:
            for _ in range(5):
                opened.add_transfers(table([transfer(f"mint -> {name}")]), name)

    importers = [Thread(target=import_alone, args=(name,)) for name in ("a", "b")]
    for importer in importers:
        importer.start()
    for importer in importers:
        importer.join()
    assert held(store) == {"a": 5, "b": 5}


# ---------------------------------------------------------------------- files


def stray(store: Store, age: int) -> Path:
    """An unlisted file, last written ``age`` seconds ago."""
    path = store.root / "balances" / f"stray-{age}.parquet"
    path.write_bytes(b"half a file")
    then = time.time() - age
    os.utime(path, (then, then))
    return path


def test_unlisted_files_are_moved_to_quarantine_after_the_grace(build: Build, caplog: pytest.LogCaptureFixture) -> None:
    store = build()
    old, young = stray(store, age=2 * 3_600), stray(store, age=60)
    store.add_transfers(table([transfer("mint -> a", 5)]), "file")
    assert (old.exists(), young.exists()) == (False, True)
    assert holders(store) == [("a", 5)]
    assert (store.root / "quarantine" / "balances" / old.name).read_bytes() == b"half a file"
    assert "move it back and run 'holderlake store rebuild'" in caplog.text


def test_the_spool_of_a_killed_import_is_removed_by_the_next(build: Build) -> None:
    store = build()
    spool = store.root / ".spool-of-the-killed"
    spool.mkdir()
    (spool / "1.parquet").write_bytes(b"half a file")
    store.add_transfers(table([transfer("mint -> a")]), "file")
    assert not spool.exists()


def test_a_replaced_file_is_deleted_after_the_grace(build: Build) -> None:
    store = build(transfer("mint -> a", 5))
    (replaced,) = files(store)
    store.add_transfers(table([transfer("mint -> b", 9)]), "file")
    assert replaced in files(store)
    with catalogue.transaction(store.root) as catalog:
        catalog.execute("UPDATE files SET replaced_at = 0 WHERE replaced_at IS NOT NULL")
    store.add_transfers(table([transfer("mint -> c", 7)]), "file")
    assert replaced not in files(store)
    assert len(contents(store)) == 3


def test_a_listed_file_of_any_age_is_kept(build: Build) -> None:
    store = build(transfer("mint -> a", 5))
    for name in files(store):
        os.utime(store.root / "transfers" / name, (0, 0))
    store.add_transfers(table([transfer("mint -> a", token=OTHER)]), "file")
    assert holders(store) == [("a", 5)]


# ---------------------------------------------------------------------- opening


def test_a_reopened_store_has_its_transfers_and_labels(tmp_path: Path) -> None:
    with Store(tmp_path) as store:
        store.add_transfers(table([transfer("mint -> a", 5)]), "file")
        store.add_labels([Label("a", None, "test", name="Ann")])
        store.add_tokens([a_token(COIN)])
    with Store(tmp_path) as store:
        assert holders(store) == [("a", 5)]
        assert store.labels(["a"])["a"].name == "Ann"


def test_a_run_with_a_value_for_every_address_is_read(build: Build) -> None:
    (run,) = build(transfer("x -> y", 0), transfer("mint -> a"), transfer("a -> b")).view().runs
    counts, begun = (
        np.full(run.addresses[-1] + 1, empty, kind) for empty, kind in ((0, "int64"), (2**32 - 1, "uint32"))
    )
    counts[run.addresses], begun[run.addresses] = run.entry_counts, run.begun
    dense = {"addresses": run.addresses[:0], "starts": np.append(0, np.cumsum(counts)), "begun": begun}
    read = Run.of({name: getattr(run, name) for name in ("others", "kinds", "times", "firsts", "sums")} | dense)
    assert len(counts) > len(run.addresses)
    assert all(np.array_equal(getattr(read, name), getattr(run, name)) for name in dense)


def test_rules_are_kept_until_others_are_chosen(tmp_path: Path) -> None:
    rules = Rules(supernode_degree=3, time_window=60, time_allowed=frozenset({"router", "bridge"}))
    for chosen, expected in ((None, Rules()), (rules, rules), (None, rules), (Rules(supernode_degree=4),) * 2):
        with Store(tmp_path, chosen) as store:
            assert store.rules == expected


# ---------------------------------------------------------------------- metadata


@pytest.mark.parametrize(
    ("key", "standard", "assumed"),
    [
        (("eth", "0xc0ffee0000"), "erc20", ("0xc0ffee0000", "0xc0ffee", 18)),
        (("eth", "0xc0ffee0000"), "erc721", ("0xc0ffee0000", "0xc0ffee", 0)),
        (("solana", "native"), "native", ("Solana", "SOL", 9)),
        (("nochain", "native"), "native", ("nochain", "NOCHAIN", 18)),
    ],
)
def test_a_token_without_metadata_gets_an_assumed_one(
    build: Build, key: tuple[str, str], standard: str, assumed: tuple[str, str, int]
) -> None:
    store = build()
    store.add_transfers(table([transfer("mint -> a", token=key, token_standard=standard)]), "file")
    token = store.token(*key)
    assert (token.name, token.symbol, token.decimals, token.standard) == (*assumed, standard)
    assert not token.is_indexed


def test_assumed_metadata_is_replaced_by_real(build: Build) -> None:
    store = build()
    store.add_transfers(table([transfer("mint -> a")]), "file")
    real = TokenInfo(*COIN, name="Coin", symbol="CN", decimals=6, is_indexed=True, img_url="https://img.example/cn.png")
    store.add_tokens([real])
    assert store.token(*COIN) == real


def test_real_metadata_is_not_replaced_by_assumed(build: Build) -> None:
    real = a_token(COIN, name="Coin", symbol="CN", decimals=6)
    store = build(tokens=[real])
    store.add_transfers(table([transfer("mint -> a")]), "file")
    assert store.token(*COIN) == real


def test_a_history_has_size_and_period(build: Build) -> None:
    store = build(transfer("mint -> a", at=3), transfer("a -> b", at=9), transfer("mint -> a", at=5, token=OTHER))
    history = store.history(*COIN)
    assert (history.transfers, history.first_time, history.last_time) == (2, 3, 9)
    assert [(one.chain, one.transfers) for one in store.histories()] == [("bsc", 1), ("eth", 2)]
    assert store.history("eth", "nothing") is None
