"""The table ``spending`` has the ledger's calls, however the ledger grew between loads."""

from __future__ import annotations

import random
from collections import defaultdict
from collections.abc import Iterator
from datetime import datetime, timedelta
from decimal import Decimal
from pathlib import Path
from typing import Any

import pytest

from holderlake.core.lake.lake import Lake
from holderlake.core.warehouse.warehouse import Warehouse
from holderlake.operations.maintenance.restore_ledger import LostCall, add_lost
from tests.core.provider.credit_ledger import OneCallLedger
from tests.helpers.lakes import DAYS, write_holders

pytestmark = pytest.mark.integration

START = datetime(2026, 11, 1, 12)


class Books:
    """A ledger at a settable time, and a warehouse that is loaded with it."""

    def __init__(self, folder: Path) -> None:
        self.now = START
        self.ledger = OneCallLedger(folder / "ledger.sqlite", now=lambda: self.now)
        self.lake = Lake(folder / "lake")
        self.warehouse = Warehouse(folder / "warehouse.duckdb", ledger=lambda: self.ledger)

    def query(self, sql: str) -> list[tuple[Any, ...]]:
        self.warehouse.load(self.lake)
        with self.warehouse.connect() as connection:
            return connection.execute(sql).fetchall()


@pytest.fixture
def books(tmp_path: Path) -> Iterator[Books]:
    made = Books(tmp_path)
    with made.ledger:
        yield made


@pytest.mark.long
def test_a_row_has_the_calls_of_a_run_about_a_token(books: Books) -> None:
    ledger = books.ledger
    ledger.settle(ledger.reserve("run", "map", "eth/0xaa", 2500), 2500)
    ledger.settle(ledger.reserve("run", "map", "eth/0xaa", 2500), 3000)
    ledger.release(ledger.reserve("run", "map", "eth/0xaa", 2500))
    ledger.reserve("run", "chains", None, 1)
    assert books.query("FROM spending ORDER BY endpoint DESC") == [
        (START.date(), "run", "map", "eth", "0xaa", 2, 0, 1, 0, Decimal("75.00"), Decimal("55.00"), Decimal("0.00")),
        (START.date(), "run", "chains", None, None, 0, 1, 0, 0, Decimal("0.01"), Decimal("0.00"), Decimal("0.01")),
    ]


@pytest.mark.long
def test_a_load_without_new_calls_writes_nothing(books: Books) -> None:
    books.ledger.reserve("run", "map", "eth/0xaa", 2500)
    books.warehouse.load(books.lake)
    version = books.warehouse.version
    books.warehouse.load(books.lake)
    assert books.warehouse.version == version


def test_an_uncharged_call_of_the_newest_loaded_day_is_added(books: Books) -> None:
    books.ledger.settle(books.ledger.reserve("run", "map", "eth/0xaa", 2500), 2500)
    books.warehouse.load(books.lake)
    books.ledger.release(books.ledger.reserve("run", "map", "eth/0xaa", 2500))
    assert books.query("SELECT calls, uncharged_calls FROM spending") == [(1, 1)]


@pytest.mark.long
def test_calls_that_are_restored_to_an_earlier_day_are_added(books: Books) -> None:
    books.ledger.settle(books.ledger.reserve("run", "map", "eth/0xaa", 2500), 2500)
    assert books.query("SELECT sum(billed) FROM spending") == [(Decimal(25),)]
    lost = LostCall("holders", "eth/0xbb", START.date() - timedelta(days=40), 5000)
    assert add_lost(books.ledger, "restored", [lost], START.date().isoformat())
    assert books.query("SELECT sum(billed), min(day) FROM spending") == [(Decimal(75), lost.day)]


@pytest.mark.long
def test_the_rows_survive_a_rewrite_of_the_file(books: Books, monkeypatch: pytest.MonkeyPatch) -> None:
    books.ledger.settle(books.ledger.reserve("run", "map", "eth/0xaa", 2500), 2500)
    books.warehouse.load(books.lake)
    write_holders(books.lake, "eth", DAYS[0], {"0xaa": {"0x1": 1}})
    monkeypatch.setattr("holderlake.core.warehouse.warehouse._is_mixed", lambda _: True)
    assert books.query("SELECT (SELECT count(*) FROM holders), sum(billed) FROM spending") == [(1, Decimal(25))]


@pytest.mark.long
@pytest.mark.parametrize("seed", range(4))
def test_the_table_equals_a_recount_after_any_history(books: Books, seed: int) -> None:
    chance = random.Random(seed)
    counted: dict[tuple[Any, ...], list[int]] = defaultdict(lambda: [0] * 6)
    still_open: list[tuple[int, tuple[Any, ...], int]] = []
    for _ in range(60):
        books.now += timedelta(hours=chance.choice([0, 1, 30]))
        key = (
            books.now.date(),
            chance.choice("ab"),
            chance.choice(["map", "holders"]),
            chance.choice(["0xaa", "0xbb"]),
        )
        cost = chance.choice([100, 2500])
        entry = books.ledger.reserve(*key[1:3], f"eth/{key[3]}", cost)
        still_open.append((entry, key, cost))
        count(counted[key], open=1, expected=cost, reserved=cost)
        while still_open and chance.random() < 0.6:
            entry, key, cost = still_open.pop(chance.randrange(len(still_open)))
            charged = chance.choice([None, cost, cost + 1])
            count(counted[key], open=-1, reserved=-cost)
            if charged is None:
                books.ledger.release(entry)
                count(counted[key], uncharged=1)
            else:
                books.ledger.settle(entry, charged)
                count(counted[key], calls=1, billed=charged)
        if chance.random() < 0.2:
            books.warehouse.load(books.lake)
    books.ledger.reserve("last", "chains", None, 1)  # so that the last load sees a change
    found = books.query(
        "SELECT day, run_id, endpoint, token_address, calls, open_calls, uncharged_calls, 100 * expected, 100 * billed,"
        " 100 * open FROM spending WHERE run_id <> 'last' ORDER BY ALL"
    )
    assert found == sorted((*key, *counts) for key, counts in counted.items())


def count(counts: list[int], **changes: int) -> None:
    names = ("calls", "open", "uncharged", "expected", "billed", "reserved")
    for name, change in changes.items():
        counts[names.index(name)] += change
