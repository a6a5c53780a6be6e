"""Answers equal brute force after any division, order, spilling or interruption of imports, also in one pass.

The full run compares 500 random answers: ``HOLDERLAKE_ANSWERS=500 make test-long``.
"""

from __future__ import annotations

import os
import random
import signal
import time
from collections.abc import Callable
from dataclasses import replace
from datetime import datetime
from functools import partial
from pathlib import Path
from random import Random
from typing import Any

import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from holderlake.core.contract.requests import MapOptions
from holderlake.core.contract.rules import Rules
from holderlake.core.contract.tables import MAP_TABLES
from holderlake.core.contract.times import from_unix
from holderlake.engine.errors import NoHolders
from holderlake.engine.maps.batch import holder_batches, map_batches
from holderlake.engine.maps.maps import map_as_of
from holderlake.engine.queries.balances import balances_as_of
from holderlake.engine.queries.holders import HolderPosition, holders_as_of, holders_page
from holderlake.engine.records import TRANSFERS
from holderlake.engine.store.store import Store
from tests.engine.facts import address_facts
from tests.engine.oracle import Oracle
from tests.engine.random_worlds import TOKENS, random_oracle
from tests.engine.test_maps import assert_equal_to_brute_force
from tests.engine.world import (
    COIN,
    END,
    Row,
    a_token,
    draw,
    held,
    histories,
    settled,
    table,
    transfer,
    world,
)
from tests.helpers import flawed_histories
from tests.helpers.amounts import exact_amount
from tests.helpers.processes import PIPE, start

pytestmark = pytest.mark.integration

Build = Callable[..., Store]
DAY = 86_400
ANSWERS = int(os.environ.get("HOLDERLAKE_ANSWERS", "60"))
"""Random answers compared with brute force; the full run has 500."""


def over_days(rows: list[Row], chance: Random) -> list[Row]:
    """The transfers in hours instead of seconds, so that they are on about 20 days."""
    return [row | {"block_time": row["block_time"] * 3_600 + chance.randrange(3_600)} for row in rows]


def random_days(chance: Random) -> Oracle:
    """A random world whose transfers and time windows are measured in hours instead of seconds."""
    oracle = random_oracle(chance)
    rules = oracle.rules.model_copy(update={"time_window": oracle.rules.time_window * 3_600})
    return replace(oracle, transfers=over_days(list(oracle.transfers), chance), rules=rules)


def import_in_pieces(store: Store, rows: list[Row], chance: Random) -> None:
    """Import all rows, shuffled and some of them twice, in imports of random size."""
    rest = chance.sample(rows, len(rows)) + chance.sample(rows, len(rows) // 5)
    while rest:
        number = chance.choice([1, 2, 5, 30, 200])
        store.add_transfers(table(rest[:number]), "piece")
        rest = rest[number:]


# ---------------------------------------------------------------------- brute force


@pytest.mark.later(long=1)
@pytest.mark.parametrize("seed", range(max(1, ANSWERS // 4)))
def test_random_answers_equal_brute_force(seed: int) -> None:
    chance = Random(seed)
    oracle = random_days(chance)
    with world(tokens=oracle.tokens, labels=oracle.labels, rules=oracle.rules) as store:
        import_in_pieces(store, list(oracle.transfers), chance)
        for _ in range(4):
            token = chance.choice(TOKENS)
            at = chance.choice([chance.randint(1, 1_500_000), chance.randint(1, 17) * DAY - chance.randint(0, 1)])
            assert held(store, at, token) == oracle.balances(token, at)[1]
            if not oracle.holders(token, at):
                with pytest.raises(NoHolders):
                    draw(store, at, token)
                continue
            limit, use_magic_nodes = chance.randint(2, 20), chance.random() < 0.8
            for use_time_nodes in (True, False):
                options = {"limit": limit, "use_magic_nodes": use_magic_nodes, "use_time_nodes": use_time_nodes}
                assert_equal_to_brute_force(store, oracle, token, at, **options)
            assert pages(store, token, at, chance.randint(1, 6)) == oracle.holders(token, at)


def pages(store: Store, token: tuple[str, str], at: int, size: int) -> list[tuple[str, int]]:
    """All holders, page by page."""
    found: list[tuple[str, int]] = []
    after: HolderPosition | None = None
    while True:
        page, after = holders_page(store, *token, from_unix(at), size, after)
        found += zip(page["address"].to_pylist(), map(int, page["amount_raw"].to_pylist()), strict=True)
        if after is None:
            return found


@settled(12)
@given(histories(), st.randoms(use_true_random=False), st.integers(1, 120 * 3_600))
def test_any_split_and_order_of_imports_gives_the_same_answers(history: list[Row], chance: Random, at: int) -> None:
    rows = over_days([*history, *(row | {"token_address": "other"} for row in history[::2])], chance)
    with world(*rows) as at_once, world(tokens=[a_token(COIN), a_token(("eth", "other"))]) as in_pieces:
        import_in_pieces(in_pieces, rows, chance)
        assert answers(in_pieces, at) == answers(at_once, at)


def answers(store: Store, at: int) -> list[Any]:
    names = ["a", "b", "c", "d", "e", "f"]
    found: list[Any] = [held(store, at), address_facts(store, names, from_unix(at))]
    try:
        found.append(draw(store, at))
    except NoHolders:
        found.append(None)
    return found


# ---------------------------------------------------------------------- large imports


@pytest.mark.later(long=1)
@pytest.mark.parametrize("seed", range(6))
def test_an_import_larger_than_memory_gives_the_same_store(seed: int, build: Build) -> None:
    chance = Random(seed)
    rows = over_days(list(random_oracle(chance).transfers) * 2, chance)
    whole, spilled = build(), build()
    spilled._memory = 8_000 * chance.randint(1, 9)
    report = whole.add_transfers(table(rows), "file")
    batches = table(chance.sample(rows, len(rows))).to_batches(max_chunksize=7)
    spilled_report = spilled.add_transfers(pa.RecordBatchReader.from_batches(TRANSFERS, batches), "file")
    assert spilled_report == report
    everything = "SELECT * FROM read_parquet($files) ORDER BY ALL"
    assert spilled.query(everything) == whole.query(everything)
    for at in (200 * 3_600, END):
        assert answers(spilled, at) == answers(whole, at)
    assert not list(spilled.root.glob(".spool*"))


@pytest.mark.long
def test_a_store_may_be_in_a_folder_of_any_name(tmp_path: Path) -> None:
    rows = [transfer(f"mint -> a{number % 9}", number, at=number + 1) for number in range(300)]
    with Store(tmp_path / 'it\'s "mine" $x') as store:
        store._memory = 40_000
        for _ in range(2):
            store.add_transfers(table(rows), "file")
        store.roll_back("eth", 200)
        assert sum(held(store).values()) == sum(range(200))


# ---------------------------------------------------------------------- killed

_IMPORT_ON_AND_ON = """
import sys
from pathlib import Path
import pyarrow as pa
from holderlake.engine.catalog.opening_balances import OPENING_BALANCES
from holderlake.engine.store.store import Store
from tests.engine.world import table, transfer
with Store(Path(sys.argv[1])) as store:
    print("ready", flush=True)
    roomy = store._memory
    for number in range(100):
        store._memory = 40_000 if number % 2 else roomy  # every second import spills to disk
        rows = [transfer(f"mint -> {name}{number % 7}", 1, at=number + 1, tx_hash=f"{number}{name}") for name in "abc"]
        other = [row | {"token_address": "other"} for row in rows]
        store.add_transfers(table([*rows, *other]), "file")
        if number % 5 == 4:
            store.roll_back("eth", number)
        opened = {"chain": "eth", "token_address": f"window{number}", "block_number": 1, "block_time": 1}
        balances = [opened | {"address": name, "balance": "5"} for name in "abc"]
        store.add_opening_balances(pa.Table.from_pylist(balances, OPENING_BALANCES))
"""


@pytest.mark.parametrize("kills", [1, pytest.param(4, marks=pytest.mark.long)])
def test_a_killed_process_leaves_complete_imports_only(tmp_path: Path, kills: int) -> None:
    chance = random.Random(1)
    for _ in range(kills):
        importer = start(
            _IMPORT_ON_AND_ON,
            str(tmp_path),
            stdout=PIPE,
        )
        assert importer.stdout is not None
        assert importer.stdout.readline() == "ready\n"
        time.sleep(chance.uniform(0.05, 0.6))
        importer.send_signal(signal.SIGKILL)
        assert importer.wait() == -signal.SIGKILL
        importer.stdout.close()
        with Store(tmp_path) as store:
            stored = store.query("SELECT * FROM read_parquet($files)").to_pylist()
            of_coin, of_other = ([row for row in stored if row["token_address"] == name] for name in ("coin", "other"))
            assert len(of_coin) == len(of_other)
            assert len(of_coin) % 3 == 0
            oracle = Oracle(stored, [])
            for token in (COIN, ("eth", "other")):
                assert held(store, token=token) == oracle.balances(token, END)[1]
            counted = address_facts(store, ["a0"], from_unix(END))["a0"].transfers
            assert counted == sum(row["to_address"] == "a0" for row in stored)
            windowed = [held(store, token=("eth", f"window{number}")) for number in range(100)]
            assert all(balances in ({}, {"a": 5, "b": 5, "c": 5}) for balances in windowed)
            before = len(stored)
            report = store.add_transfers(table([transfer("mint -> z", tx_hash=f"z{before}")]), "after")
            assert report.added == 1
            assert store.roll_back("eth", 0) == before + 1 + 3 * sum(map(bool, windowed))
            assert not list(tmp_path.glob(".spool*"))


@pytest.mark.later(long=1)
@pytest.mark.parametrize("name", flawed_histories.NAMES)
def test_a_flawed_history_in_pieces_equals_brute_force(name: str) -> None:
    chance = Random(name)
    rows, token = flawed_histories.history(name), flawed_histories.token_of(name)
    oracle = Oracle(rows, [a_token(token)])
    seconds = sorted(row["block_time"] for row in rows)
    with world(tokens=oracle.tokens) as store:
        rest = chance.sample(rows, len(rows))
        for number in (len(rows) // 2, len(rows) // 50, len(rows) // 3, len(rows)):
            store.add_transfers(table(rest[:number]), "piece")
            rest = rest[number:]
        for at in chance.sample(seconds, max(2, ANSWERS // 20)):
            assert balances_as_of(store, *token, from_unix(at)).holders == oracle.holders(token, at)


# ---------------------------------------------------------------------- one pass


def random_instants(chance: Random) -> list[datetime]:
    """Random instants in any order, with ends of days, one instant twice, and the time before all transfers."""
    seconds = [chance.randint(0, 400 * 3_600) for _ in range(chance.randint(1, 6))]
    ends_of_days = [chance.randint(0, 17) * DAY - chance.randint(0, 1) for _ in range(chance.randint(1, 4))]
    return [from_unix(max(0, at)) for at in [*seconds, *ends_of_days, seconds[0], END]]


@pytest.mark.long
@pytest.mark.parametrize("seed", range(max(1, ANSWERS // 5)))
def test_a_batch_gives_the_rows_of_single_maps(seed: int) -> None:
    chance = Random(seed)
    oracle = random_days(chance)
    rows = list(oracle.transfers)
    instants, limit = random_instants(chance), chance.choice([1, 2, 3, 5, 10, 80, 250])
    options = MapOptions.model_construct(
        limit=limit,
        use_magic_nodes=chance.random() < 0.8,
        use_time_nodes=chance.random() < 0.8,
        return_decentralization_score=chance.random() < 0.7,
    )
    with world(tokens=oracle.tokens, labels=oracle.labels, rules=oracle.rules) as store:
        import_in_pieces(store, rows, chance)
        passed = list(map_batches(store, TOKENS, instants, options, from_unix(END)))
        singly = [
            tables
            for token in TOKENS
            for at in instants
            for tables in if_held(partial(map_as_of, store, *token, at, options, from_unix(END)))
        ]
        for name in MAP_TABLES:
            expected = pa.concat_tables([tables[name] for tables in singly])
            assert pa.concat_tables([tables[name] for tables in passed]).equals(expected, check_metadata=True), name
        for details in (False, True):
            listed = list(holder_batches(store, TOKENS, instants, limit, details))
            expected = pa.concat_tables(
                [
                    one
                    for token in TOKENS
                    for at in instants
                    for one in if_held(partial(holders_as_of, store, *token, at, limit, details))
                ]
            )
            assert pa.concat_tables(listed).equals(expected, check_metadata=True)


def if_held(ask: Callable[[], Any]) -> list[Any]:
    try:
        return [ask()]
    except NoHolders:
        return []


def test_a_batch_counts_ages_and_transfers_at_each_instant(build: Build) -> None:
    moves = [transfer("mint -> a", 60, at=1), transfer("a -> b", 15, at=2), transfer("a -> b", 15, at=3)]
    store = build(*moves, rules=Rules(hypernode_transfers=2, fresh_wallet_seconds=2))
    passed = list(map_batches(store, [COIN], [from_unix(at) for at in (1, 2, 3, 4)], MapOptions(), from_unix(END)))
    maps, nodes = (pa.concat_tables(tables[name] for tables in passed).to_pylist() for name in ("maps", "map_nodes"))
    assert [row["fresh_wallets"] for row in maps] == [1, 1, 0.5, 0]
    assert [row["is_shown_on_map"] for row in nodes if row["address"] == "a"] == [True, True, False, False]


def test_a_batch_without_holders_or_tokens_gives_nothing(build: Build) -> None:
    store = build(transfer("mint -> a", 5, at=10))
    assert list(map_batches(store, [COIN], [from_unix(9)], MapOptions())) == []
    assert list(map_batches(store, [], [from_unix(9)], MapOptions())) == []


def test_a_batch_reads_the_store_of_its_beginning(build: Build) -> None:
    store = build(transfer("mint -> a", 5, at=10))
    first, *rest = holder_batches(store, [COIN], [from_unix(END)], 80, False)
    assert exact_amount(first.to_pylist()[0], "amount") == 5
    assert not rest
    begun = holder_batches(store, [COIN] * 2, [from_unix(END)] * 300, 80, False)
    sizes = [next(begun).num_rows]
    store.add_transfers(table([transfer("mint -> b", 5, at=20)]), "later")
    sizes += [rows.num_rows for rows in begun]
    assert sum(sizes) == 600
