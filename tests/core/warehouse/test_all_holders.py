"""Figures about all holders through time equal a recount in plain Python: days, weeks and months of any zone."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator
from datetime import date, datetime, timedelta
from itertools import pairwise
from pathlib import Path
from random import Random
from typing import Any, NamedTuple
from zoneinfo import ZoneInfo

import pytest

from holderlake.core.contract.chains import ZERO_ADDRESS
from holderlake.core.contract.times import from_unix
from holderlake.engine.records import Label, TokenInfo
from tests.core.warehouse.test_transfers import DAY, Home
from tests.engine.test_items import moved
from tests.engine.world import COIN, DEAD, UINT256, Row, transfer

BEGIN = int(datetime(2023, 10, 25).timestamp()) // DAY * DAY
"""Four days before the end of summer time in Berlin."""
NAMES = [f"0x{number:040x}" for number in range(1, 9)]
EXCHANGE, LATER_EXCHANGE = NAMES[2], NAMES[4]
PERIODS = [("day", "UTC"), ("day", "Europe/Berlin"), ("week", "Asia/Tokyo"), ("month", "America/New_York")]
FIRST, LAST = date(2023, 10, 27), date(2023, 11, 12)
HISTORIES = ["fungible", "large", "items"]


class World(NamedTuple):
    """A loaded home, its transfers, and the balance of each address after each second in which it changed."""

    home: Home
    rows: list[Row]
    balances: dict[str, dict[int, int]]

    def held(self, second: int) -> dict[str, tuple[int, int]]:
        """Return amount and second of the last change of each holder at the end of a second."""
        found = {}
        for address, changes in self.balances.items():
            passed = [at for at in changes if at <= second]
            if address != ZERO_ADDRESS and passed and changes[max(passed)] > 0:
                found[address] = changes[max(passed)], max(passed)
        return found

    def supply(self, second: int) -> int:
        return -sum(
            int(row["value"]) * ((row["to_address"] == ZERO_ADDRESS) - (row["from_address"] == ZERO_ADDRESS))
            for row in self.rows
            if row["block_time"] <= second
        )


def fungible(chance: Random, values: list[int]) -> list[Row]:
    """Transfers of twenty days, several in a second, mints, burns and spending below zero among them."""
    rows = [transfer(f"mint -> {name}", values[-1] * 3, BEGIN) for name in NAMES[:4]]
    for _ in range(160):
        sender, receiver = chance.choice(["mint", *NAMES]), chance.choice(["burn", DEAD, *NAMES])
        at = BEGIN + chance.randrange(20) * DAY + chance.choice((0, 1, 82_799, 82_800, DAY - 1, chance.randrange(DAY)))
        rows.append(transfer(f"{sender} -> {receiver}", chance.choice(values), at))
    return rows


def items(chance: Random) -> list[Row]:
    """Transfers of twenty items, each of which its owner sends on."""
    owners = [chance.choice(NAMES) for _ in range(20)]
    rows = [moved(f"mint -> {owner}", item, BEGIN, token=COIN) for item, owner in enumerate(owners)]
    for at in sorted(BEGIN + chance.randrange(20 * DAY) for _ in range(80)):
        item, receiver = chance.randrange(20), chance.choice(NAMES)
        rows.append(moved(f"{owners[item]} -> {receiver}", item, at, token=COIN))
        owners[item] = receiver
    return rows


@pytest.fixture(scope="module", params=HISTORIES)
def known(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Iterator[World]:
    """A history, imported in two pieces, with labels."""
    chance, home = Random(request.param), Home(tmp_path_factory.mktemp("world"))
    with home.store:
        home.store.add_tokens([TokenInfo(*COIN, "Coin", "coin", 3)])
        home.store.add_labels(
            [
                Label(EXCHANGE, None, "s", is_cex=True),
                Label(LATER_EXCHANGE, None, "s", is_dex=True, valid_from=BEGIN + 8 * DAY + 5),
            ]
        )
        values = [0, 1, 5, 40, 1000] if request.param == "fungible" else [10**30, 10**37, 3 * 10**37]
        rows = items(chance) if request.param == "items" else fungible(chance, values)
        home.add(*rows[:-6])
        home.add(*rows[-6:])
        home.warehouse.load(home.lake)
        balances: dict[str, dict[int, int]] = defaultdict(dict)
        running: dict[str, int] = defaultdict(int)
        for second in sorted({row["block_time"] for row in rows}):
            for row in rows:
                if row["block_time"] == second and row["from_address"] != row["to_address"] and int(row["value"]):
                    for side, sign in (("from_address", -1), ("to_address", 1)):
                        running[row[side]] += sign * int(row["value"])
                        balances[row[side]][second] = running[row[side]]
        yield World(home, rows, balances)


def ask(world: World, sql: str) -> list[tuple[Any, ...]]:
    with world.home.warehouse.connect() as connection:
        return connection.execute(sql).fetchall()


def periods(each: str, zone: str) -> Iterator[tuple[date, date, int]]:
    """Yield first day, last day and last second of each period from ``FIRST`` to ``LAST``."""
    start = {"day": FIRST, "week": FIRST - timedelta(FIRST.weekday()), "month": FIRST.replace(day=1)}[each]
    while start <= LAST:
        following = {
            "day": start + timedelta(1), "week": start + timedelta(7), "month": (start + timedelta(31)).replace(day=1)
        }[each]  # fmt: skip
        last = min(following - timedelta(1), LAST)
        midnight = datetime.combine(last + timedelta(1), datetime.min.time(), ZoneInfo(zone))
        yield start, last, int(midnight.timestamp()) - 1
        start = following


def is_special(address: str, second: int) -> bool:
    return address in {EXCHANGE, DEAD} or (address == LATER_EXCHANGE and second >= BEGIN + 8 * DAY + 5)


def counted(held: dict[str, tuple[int, int]], second: int) -> Iterator[tuple[str, dict[str, tuple[int, int]]]]:
    yield "all holders", held
    yield "wallets", {address: one for address, one in held.items() if not is_special(address, second)}


def gini(amounts: list[int]) -> float:
    """The mean difference of all pairs, divided by twice the mean."""
    differences = sum(abs(a - b) for a in amounts for b in amounts)
    return differences / (2 * len(amounts) * sum(amounts))


@pytest.mark.parametrize(("each", "zone"), PERIODS)
def test_concentration_of_each_period_equals_a_recount(known: World, each: str, zone: str) -> None:
    expected = []
    for start, last, second in periods(each, zone):
        for holders, held in counted(known.held(second), second):
            amounts = sorted((amount for amount, _ in held.values()), reverse=True)
            if not amounts:
                continue
            total, supply = sum(amounts), known.supply(second)
            most = [sum(amounts[:count]) / supply if supply > 0 else None for count in (1, 10, 100)]
            parts = sum((amount / total) ** 2 for amount in amounts)
            half = next(count for count in range(1, 99) if 2 * sum(amounts[:count]) >= total)
            expected.append((start, last, *COIN, holders, len(amounts), *most, gini(amounts), parts, half))
    sql = f"FROM concentration_by_period('coin', '{each}', '{FIRST}', '{LAST}', zone := '{zone}')"
    found = ask(known, f"SELECT * EXCLUDE (basis) {sql} ORDER BY period, holders")
    assert [row[:6] for row in found] == [row[:6] for row in expected]
    for row, exact in zip(found, expected, strict=True):
        for figure, exact_figure in zip(row[6:], exact[6:], strict=True):
            assert figure == (None if exact_figure is None else pytest.approx(exact_figure, rel=1e-9, abs=1e-12))


@pytest.mark.parametrize(("each", "zone"), PERIODS)
def test_the_age_of_the_supply_equals_a_recount(known: World, each: str, zone: str) -> None:
    expected = {}
    for _, last, second in periods(each, zone):
        for holders, held in counted(known.held(second), second):
            for days in (0, 1, 3, 12) if held else ():
                old = [amount for amount, since in held.values() if second - since >= days * DAY]
                supply = known.supply(second)
                share = sum(old) / supply if supply > 0 else None
                expected[last, holders, days] = len(old), pytest.approx(share, rel=1e-9, abs=1e-12)
    columns = "day, holders, at_least_days, number, share"
    asked = f"'coin', '{each}', '{FIRST}', '{LAST}', days := [0, 1, 3, 12], zone := '{zone}'"
    assert {row[:3]: row[3:] for row in ask(known, f"SELECT {columns} FROM supply_age({asked})")} == expected


@pytest.mark.parametrize(("each", "zone"), PERIODS)
def test_retention_by_cohort_equals_a_recount(known: World, each: str, zone: str) -> None:
    bounds = list(periods(each, zone))
    (*_, end), cohorts = bounds[-1], defaultdict(list)
    begun = int(datetime.combine(bounds[0][0], datetime.min.time(), ZoneInfo(zone)).timestamp())
    for address, changes in known.balances.items():
        first = min((second for second, balance in changes.items() if balance > 0), default=begun - 1)
        if address != ZERO_ADDRESS and begun <= first <= end:
            cohorts[next(start for start, _, second in bounds if first <= second)].append(address)
    last_second = int(datetime.combine(LAST, datetime.max.time(), ZoneInfo("UTC")).timestamp())
    expected = {}
    for cohort, members in cohorts.items():
        wallets = [address for address in members if not is_special(address, last_second)]
        for start, _, second in bounds:
            for holders, listed in (("all holders", members), ("wallets", wallets)):
                if start >= cohort and listed:
                    left = len(known.held(second).keys() & set(listed))
                    expected[holders, cohort, start] = len(listed), left, left / len(listed)
    sql = f"FROM retention('coin', '{each}', '{FIRST}', '{LAST}', zone := '{zone}')"
    found = ask(known, f"SELECT holders, cohort, period, number, remaining, retention {sql}")
    assert {row[:3]: row[3:] for row in found} == expected


@pytest.mark.parametrize("zone", ["UTC", "Europe/Berlin", "America/New_York"])
def test_holders_of_every_day_equal_a_recount(known: World, zone: str) -> None:
    expected = [(last, len(known.held(second))) for _, last, second in periods("day", zone)]
    sql = f"SELECT day, holders FROM holders_by_day('coin', '{FIRST}', '{LAST}', zone := '{zone}') ORDER BY day"
    assert ask(known, sql) == expected


def test_holding_times_equal_a_recount(known: World) -> None:
    last, expected = max(row["block_time"] for row in known.rows), []
    for address, changes in known.balances.items():
        begun = None
        for second in sorted(changes) if address != ZERO_ADDRESS else ():
            if changes[second] > 0 and begun is None:
                begun = second
            elif changes[second] <= 0 and begun is not None:
                expected.append((address, from_unix(begun), from_unix(second), (second - begun) / DAY))
                begun = None
        if begun is not None:
            expected.append((address, from_unix(begun), None, (last - begun) / DAY))
    found = ask(known, "SELECT address, held_from, held_until, days FROM holding_times('coin')")
    assert sorted(found, key=str) == sorted(expected, key=str)


@pytest.mark.parametrize(
    ("start", "end"),
    [
        (f"'{FIRST}'", f"'{LAST}'"),
        (f"DATE '{FIRST}'", f"TIMESTAMP '{FIRST}'"),
        (f"'{FIRST}T06:00:00Z'", f"'{FIRST + timedelta(1)}T00:00:00Z'"),
    ],
)
def test_net_flows_are_the_sums_of_the_transfers(known: World, start: str, end: str) -> None:
    ((begun, ended),) = ask(known, f"SELECT start_of_period({start}), instant({end})")
    sums: dict[str, list[int]] = defaultdict(lambda: [0, 0, 0, 0])
    for row in known.rows:
        if begun <= from_unix(row["block_time"]) <= ended:
            for side, place in (("to_address", 0), ("from_address", 1)):
                sums[row[side]][place] += 1
                sums[row[side]][2 + place] += int(row["value"])
    exact = ", ".join(f"exact_amount({name}, {name}_exact)" for name in ("received", "sent"))
    found = ask(known, f"SELECT address, receipts, payments, {exact}, raw_net FROM net_flows('coin', {start}, {end})")
    assert {row[0]: (*row[1:3], *(round(float(text) * 1000) for text in row[3:5]), int(row[5])) for row in found} == {
        address: (receipts, payments, pytest.approx(received), pytest.approx(sent), received - sent)
        for address, (receipts, payments, received, sent) in sums.items()
    }
    assert sum(int(row[5]) for row in found) == 0


def test_the_supply_of_each_day_is_exact(known: World) -> None:
    expected = [(last, str(known.supply(second))) for _, last, second in periods("day", "UTC") if known.supply(second)]
    sql = f"SELECT day, raw_amount FROM supply_by_period('coin', 'day', '{FIRST}', '{LAST}') ORDER BY day"
    assert ask(known, sql) == expected


def test_a_period_of_another_kind_is_refused(known: World) -> None:
    with pytest.raises(Exception, match="'hour' is no kind of period here: write day, week, month, quarter or year"):
        ask(known, f"FROM concentration_by_period('coin', 'hour', '{FIRST}', '{LAST}')")


def test_funding_goes_back_three_hops_and_ends_at_an_exchange(tmp_path: Path) -> None:
    home, coin = Home(tmp_path), ("eth", "native")
    names = ["ex", "a", "b", "c", "d", "e"]
    with home.store:
        home.store.add_labels([Label("b", "eth", "s", "Kite", is_cex=True, valid_to=BEGIN + 1)])
        home.add(
            *(transfer(f"{a} -> {b}", 9, BEGIN + 10 * at, token=coin) for at, (a, b) in enumerate(pairwise(names))),
            transfer("z -> e", 9, BEGIN + 900, token=coin),
            transfer("poison -> e", 0, BEGIN - 1, token=coin),
            transfer("e -> e", 5, BEGIN - 1, token=coin),
            transfer("mint -> e", UINT256, BEGIN + 5, token=COIN),
            *(transfer(f"{name} -> f", 9, BEGIN + 5, token=COIN) for name in "zyx"),
        )
        home.warehouse.load(home.lake)
        sql = "SELECT hop, asset, address, funder, kind, block_time FROM funding_of('e') ORDER BY ALL"
        rows = home.query(sql)
        assert [row[:5] for row in rows] == [
            (1, "coin", "e", "d", None),
            (1, "token", "e", ZERO_ADDRESS, "burn"),
            (2, "coin", "d", "c", None),
            (3, "coin", "c", "b", None),
        ]
        home.store.add_labels([Label("c", "eth", "s", "Kite", is_cex=True)])
        assert [row[:5] for row in home.query(sql)][2:] == [(2, "coin", "d", "c", "cex")]
        assert home.query("SELECT address FROM wallet_funding WHERE funder = 'a'") == [("b",)]
        assert home.query("SELECT funder FROM wallet_funding WHERE address = 'f'") == [("x",)]
