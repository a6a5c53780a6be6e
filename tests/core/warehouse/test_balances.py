"""Balances of the user's own store in SQL equal a recount in plain Python, in any DuckDB that opens the warehouse."""

from __future__ import annotations

import json
import subprocess
import sys
from collections import Counter, defaultdict
from collections.abc import Iterator, Mapping, Sequence
from datetime import datetime, timedelta
from fractions import Fraction
from pathlib import Path
from random import Random
from typing import Any

import duckdb
import pytest

from holderlake.core.contract.chains import ZERO_ADDRESS
from holderlake.core.contract.times import from_unix
from holderlake.core.warehouse.warehouse import WarehouseError
from holderlake.engine.catalog.corrections import Instant, correction_rows
from holderlake.engine.importing import balance_files
from holderlake.engine.queries.balances import share_of
from holderlake.engine.records import TokenInfo
from holderlake.presentation import lake_views
from holderlake.presentation.query_notes import warehouse_notes
from tests.core.warehouse.test_transfers import BEGIN, DAY, OTHER, TOKEN, Home
from tests.engine.test_items import moved
from tests.engine.test_opening_balances import items, openings
from tests.engine.world import COIN, UINT256, Row, transfer

NAMES = [f"0x{number:040x}" for number in range(1, 13)]
VALUES = (0, 1, 7, 10**18, 10**36 - 1, 10**36, 10**38, UINT256)
DUCKDB = Path(sys.executable).with_name("duckdb")
HELD = "SELECT address, raw_amount FROM balances_at('coin', ?)"


@pytest.fixture
def home(tmp_path: Path) -> Iterator[Home]:
    made = Home(tmp_path)
    with made.store:
        yield made


def random_rows(chance: Random, count: int) -> list[Row]:
    """Transfers of COIN in ten days, a few in each of its seconds, mints and burns among them."""
    rows = []
    for _ in range(count):
        sender, receiver = chance.choice(["mint", *NAMES]), chance.choice(["burn", *NAMES])
        value = chance.choice((chance.choice(VALUES), chance.randrange(1000)))
        second = BEGIN + chance.randrange(10) * DAY + chance.choice((0, 1, DAY - 1, chance.randrange(DAY)))
        rows.append(transfer(f"{sender} -> {receiver}", value, second))
    return rows


def recount(rows: Sequence[Row], second: int) -> dict[str, int]:
    """The balances of all addresses at the end of a second; the zero address has the negative supply."""
    balances: dict[str, int] = defaultdict(int)
    for row in rows:
        if row["block_time"] <= second:
            balances[row["from_address"]] -= int(row["value"])
            balances[row["to_address"]] += int(row["value"])
    return balances


def holders_of(balances: Mapping[str, int]) -> dict[str, int]:
    return {address: balance for address, balance in balances.items() if balance > 0 and address != ZERO_ADDRESS}


def imported(home: Home, seed: int, decimals: int) -> tuple[Random, list[Row]]:
    """Import a random history in several pieces, so that it has a large part and small ones."""
    chance = Random(seed)
    home.store.add_tokens([TokenInfo(*COIN, "Coin", "coin", decimals)])
    rows = random_rows(chance, 200)
    home.add(*rows)
    for _ in range(3):
        later = random_rows(chance, 4)
        home.add(*later)
        rows += later
    home.warehouse.load(home.lake)
    parts = home.store.view().listing.parts_of(COIN)
    assert [part.kind for part in parts] == ["base", "tail", "tail", "tail"]
    return chance, rows


@pytest.mark.later(integration=1)
@pytest.mark.parametrize(("seed", "decimals"), [(1, 0), (2, 6), (3, 18), (4, 24)])
def test_balances_at_any_second_equal_a_recount(home: Home, seed: int, decimals: int) -> None:
    chance, rows = imported(home, seed, decimals)
    seconds = [BEGIN - 1, BEGIN, BEGIN + 10 * DAY]
    seconds += [row["block_time"] + chance.choice((-1, 0, 1)) for row in chance.sample(rows, 20)]
    with home.warehouse.connect() as connection:
        for second in seconds:
            balances = recount(rows, second)
            answer = connection.execute("FROM balances_at('COIN', ?)", [second]).fetchall()
            assert {row[2]: int(row[5]) for row in answer} == holders_of(balances)
            assert len(answer) == len(holders_of(balances))
            supply = -balances[ZERO_ADDRESS]
            for chain, token, _, amount, amount_exact, raw, share, basis in answer:
                assert (chain, token, basis) == (*COIN, "all holders")
                assert (amount is None) != (amount_exact is None)
                assert Fraction(amount_exact or amount) == Fraction(int(raw), 10**decimals)
                assert share == (share_of(int(raw), supply) if supply > 0 else None)


@pytest.mark.integration
@pytest.mark.parametrize("seed", [5, 6])
def test_a_history_has_every_change_of_a_balance(home: Home, seed: int) -> None:
    _, rows = imported(home, seed, 0)
    seconds = sorted({row["block_time"] for row in rows})
    with home.warehouse.connect() as connection:
        for address in [*NAMES[:4], ZERO_ADDRESS]:
            expected, before = [], 0
            for second in seconds:
                balance = recount(rows, second).get(address, 0)
                if balance != before:
                    expected.append((from_unix(second), balance - before, balance))
                before = balance
            answer = connection.execute(
                "SELECT block_time, coalesce(amount_change_exact, amount_change::VARCHAR), raw_amount"
                " FROM balance_history(upper(?), 'coin') ORDER BY block_time",
                [address],
            ).fetchall()
            assert [(at, Fraction(change), int(balance)) for at, change, balance in answer] == expected


@pytest.mark.parametrize("seed", [7, pytest.param(8, marks=pytest.mark.integration)])
def test_holders_are_counted_at_the_end_of_each_day(home: Home, seed: int) -> None:
    _, rows = imported(home, seed, 0)
    expected, before = [], 0
    for day in range(BEGIN // DAY, BEGIN // DAY + 10):
        holders = len(holders_of(recount(rows, day * DAY + DAY - 1)))
        if holders != before:
            expected.append((datetime(1970, 1, 1).date() + timedelta(day), holders, holders - before))
        before = holders
    found = home.query("SELECT day, holders, holders_change FROM holder_counts('coin') ORDER BY day")
    assert found == expected


@pytest.mark.integration
def test_small_row_groups_and_many_ranges_change_nothing(home: Home, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(balance_files, "_ROW_GROUP", 5)
    home.store._memory = 100_000
    chance, rows = imported(home, 9, 0)
    with home.warehouse.connect() as connection:
        for row in chance.sample(rows, 10):
            answer = connection.execute(HELD, [row["block_time"]]).fetchall()
            assert {address: int(raw) for address, raw in answer} == holders_of(recount(rows, row["block_time"]))


def test_transfers_of_nothing_and_of_the_far_future_have_exact_balances(home: Home) -> None:
    home.add(
        transfer("mint -> a", 0, BEGIN, token=OTHER), transfer("mint -> a", 7, 2**33), transfer("a -> b", 2, 2**33 + 1)
    )
    assert home.query("FROM balances_at(?, ?)", OTHER[1], BEGIN) == []
    assert home.query("FROM holder_counts(?)", OTHER[1]) == []
    assert home.query(HELD, 2**33) == [("a", "7")]
    assert home.query(f"{HELD} ORDER BY 1", "2300-01-01") == [("a", "5"), ("b", "2")]


@pytest.mark.integration
def test_opening_balances_and_corrections_count(home: Home) -> None:
    home.store.add_opening_balances(openings(("a", 60), ("b", 40), at=BEGIN))
    home.add(transfer("a -> b", 25, BEGIN + 5), transfer("mint -> c", 1, BEGIN + DAY, token=OTHER))
    parts = home.store.view().listing.parts_of(COIN)
    rows = correction_rows(COIN, Instant(BEGIN + 9, BEGIN + 9), {"a": 3, "b": -65})
    home.store.replace_corrections(COIN, BEGIN + 9, rows, parts)
    found = [home.query(f"{HELD} ORDER BY address", BEGIN + second) for second in (-1, 0, 5, 9, 5 * DAY)]
    last = [("a", "38")]
    assert found == [[], [("a", "60"), ("b", "40")], [("a", "35"), ("b", "65")], last, last]
    assert home.query("SELECT holders FROM holder_counts('coin')") == [(1,)]


def test_a_series_of_days_gives_the_end_of_each_day(home: Home) -> None:
    _, rows = imported(home, 11, 0)
    first = from_unix(BEGIN).date()
    series = f"generate_series(DATE '{first}', DATE '{first + timedelta(9)}', INTERVAL 1 DAY)"
    found = home.query(
        f"SELECT (SELECT count(*) FROM balances_at('coin', day)) FROM {series} AS days(day) ORDER BY day"
    )
    assert found == [(len(holders_of(recount(rows, BEGIN + day * DAY + DAY - 1))),) for day in range(10)]


def test_a_roll_back_and_an_import_change_the_balances_of_the_next_load(home: Home) -> None:
    home.add(transfer("mint -> a", 9, BEGIN), transfer("a -> b", 4, BEGIN + 1), token_of_another())
    assert home.query(f"{HELD} ORDER BY 1", BEGIN + 9) == [("a", "5"), ("b", "4")]
    home.store.roll_back("eth", BEGIN)
    assert home.warehouse.query("SELECT count(*) AS n FROM balances_at('coin', '2030-01-01')")["n"].to_pylist() == [2]
    assert home.query(HELD, BEGIN + 9) == [("a", "9")]
    home.add(transfer("a -> c", 9, BEGIN + 2))
    assert home.query(HELD, BEGIN + 9) == [("c", "9")]


def token_of_another() -> Row:
    return transfer("mint -> z", 1, BEGIN, token=TOKEN)


def test_balances_of_the_warehouse_are_the_files_of_the_store(home: Home) -> None:
    home.add(token_of_another())
    for second in (BEGIN, BEGIN + 1):
        home.add(transfer("mint -> a", 9, second))
        home.warehouse.load(home.lake)
    (stored,) = home.store.balance_files(TOKEN)
    assert len(files_of(home, TOKEN)) == 2
    assert all(path.samefile(stored) for path in files_of(home, TOKEN))


def files_of(home: Home, key: tuple[str, str]) -> list[Path]:
    return list(home.warehouse.path.parent.glob(f"*.transfers/*/balances/chain={key[0]}/token_address={key[1]}/*"))


def test_only_the_token_of_a_damaged_file_of_balances_is_refused(home: Home) -> None:
    home.add(transfer("mint -> a", 9, BEGIN), token_of_another())
    (part,) = home.store.view().listing.parts_of(COIN)
    home.store.root.joinpath(part.paths[2]).write_bytes(b"damaged")
    with pytest.raises((WarehouseError, duckdb.Error), match="is damaged; 'holderlake store rebuild' repairs it"):
        home.query(HELD, BEGIN)
    assert home.query("SELECT address FROM balances_at(?, ?)", TOKEN[1], BEGIN) == [("z",)]


def test_one_token_reads_only_its_files(home: Home) -> None:
    home.add(*(transfer("mint -> a", 5, BEGIN, token=("eth", f"0x{n}")) for n in range(20)))
    ((_, plan),) = home.query("EXPLAIN ANALYZE SELECT max(address) FROM balances_at('0x7', '2030-01-01')")
    files = [line for line in plan.splitlines() if "Total Files Read" in line]
    assert files
    assert "Total Files Read: 20" not in plan
    assert plan.count("token_address=0x7/") == plan.count("token_address=0x")


def test_items_have_owners_at_any_second(home: Home) -> None:
    nft = ("eth", "nft")
    home.store.add_opening_balances(items(("0xa", "7"), ("0xb", "8")))
    home.add(
        moved("0xa -> 0xc", 7, BEGIN, token=COIN),
        moved("0xc -> burn", 7, BEGIN + 9, token=COIN),
        moved("mint -> 0xa", UINT256, BEGIN, UINT256, "erc1155", token=nft),
        moved("0xa -> 0xb", UINT256, BEGIN + 5, 5, "erc1155", token=nft),
        moved("0xa -> 0xa", UINT256, BEGIN + 6, 5, "erc1155", token=nft),
    )
    owners = "SELECT address, quantity, since FROM item_owner_at(?, ?, ?) ORDER BY address"
    assert home.query(owners, COIN[1], 7, from_unix(9)) == []
    assert home.query(owners, COIN[1], 7, BEGIN - 1) == [("0xa", "1", from_unix(10))]
    assert home.query(owners, COIN[1], "7", BEGIN + 8) == [("0xc", "1", from_unix(BEGIN))]
    assert home.query(owners, COIN[1], 7, BEGIN + 9) == []
    assert home.query(owners, COIN[1], 8, BEGIN + 9) == [("0xb", "1", from_unix(10))]
    all_owners = "SELECT token_id, address FROM item_owners_at(?, ?) ORDER BY token_id"
    assert home.query(all_owners, COIN[1], BEGIN + 8) == [("7", "0xc"), ("8", "0xb")]
    assert home.query(all_owners, COIN[1], BEGIN + 9) == [("8", "0xb")]
    assert home.query(owners, nft[1], str(UINT256), BEGIN + 6) == [
        ("0xa", str(UINT256 - 5), from_unix(BEGIN + 6)),
        ("0xb", "5", from_unix(BEGIN + 5)),
    ]


@pytest.mark.integration
def test_another_duckdb_and_the_views_of_the_lake_give_the_same_balances(home: Home, tmp_path: Path) -> None:
    chance, rows = imported(home, 10, 6)
    second = chance.choice(rows)["block_time"]
    query = f"SELECT address, raw_amount FROM balances_at('coin', {second})"
    script = tmp_path / "lake.sql"
    script.write_text(lake_views.script(home.lake, own_folder=home.warehouse.transfers))
    expected = Counter({address: str(raw) for address, raw in holders_of(recount(rows, second)).items()})
    for opened in (["-readonly", str(home.warehouse.path)], ["-init", str(script)]):
        done = subprocess.run([DUCKDB, "-json", *opened, "-c", query], capture_output=True, text=True, check=True)
        answer: list[dict[str, Any]] = json.loads(done.stdout)
        assert {row["address"]: row["raw_amount"] for row in answer} == expected


def test_a_missing_time_items_of_a_coin_lists_and_the_end_are_named(home: Home) -> None:
    home.add(transfer("mint -> a", 9, BEGIN))
    home.query("FROM stored_tokens")
    with pytest.raises(duckdb.Error, match="the time is NULL: give a date"):
        home.query("SELECT count(*) FROM balances_at('coin', NULL)")
    with pytest.raises(duckdb.Error, match="the token is NULL: give its symbol or address"):
        home.query("SELECT count(*) FROM balances_at(NULL, '2026-01-01')")
    with pytest.raises(duckdb.Error, match="a period from NULL to 2026-01-01 has no two ends"):
        home.query("SELECT count(*) FROM net_flows('coin', NULL, '2026-01-01')")
    with pytest.raises(duckdb.Error, match="the token coin has no items: it is fungible, and balances_at has"):
        home.query("FROM item_owner_at('coin', 1, '2026-01-01')")
    for call in ("balances_at('coin', DATE '2030-01-01')", "holders_by_day('coin', '2020-01-01', '2030-01-01')"):
        assert [note.partition(":")[0] for note in warehouse_notes(home.warehouse, f"FROM {call}")] == [
            f"{call.partition('(')[0]} of coin as of 2030-01-01 knows no transfer after 2023-11-14 00"
        ]


@pytest.mark.parametrize(
    ("read", "macro"),
    [
        ("holding_periods", "holding_times(token)"),
        ("latest_holders", "balances_at(token, t)"),
        ("main.holders AS listed", "balances_at(token, t)"),
        ("holders_as_of('2023-11-14')", "balances_at(token, t)"),
        ("tokens JOIN holders_on_maps_as_of('2023-11-14') USING (chain, token_address)", "balances_at(token, t)"),
        ("address_history('0xa')", "balance_history(address, token)"),
    ],
)
def test_what_reads_lists_names_the_macro_with_all_holders(home: Home, read: str, macro: str) -> None:
    home.add(transfer("mint -> a", 9, BEGIN))
    home.query("FROM stored_tokens")
    sql = f"SELECT 'holders' FROM {read} WHERE token_address = 'coin'"
    (note,) = warehouse_notes(home.warehouse, sql)
    assert note.endswith(
        f"reads lists of the largest holders. Your store has all holders of coin: {macro} answers from them"
    )
    assert not warehouse_notes(home.warehouse, "WITH holders AS (FROM balances_at('coin', 0)) SELECT * FROM holders")
