"""Forty questions of analysts over five real histories, asked in SQL as the docs say, and recounted in plain Python."""

from __future__ import annotations

from bisect import bisect_right
from collections import Counter, defaultdict
from collections.abc import Callable, Iterator
from datetime import UTC, date, datetime, timedelta
from functools import cached_property
from pathlib import Path
from statistics import mean, median
from typing import Any
from zoneinfo import ZoneInfo

import pyarrow.parquet as pq
import pytest

from holderlake.core.contract.chains import ZERO_ADDRESS
from holderlake.engine.records import TokenInfo
from tests.core.warehouse.test_all_holders import gini
from tests.core.warehouse.test_transfers import Home
from tests.sources.reading import read_transfers

pytestmark = pytest.mark.long

DAY, DEAD = 86_400, "0x000000000000000000000000000000000000dead"
FILES = {
    "HLS": ("helios_eth", 18),
    "QUIDD": ("quidd_bsc", 18),
    "PUNKV1": ("cryptopunks_v1_eth", 0),
    "MCAT": ("mooncats_eth", 0),
    "KONGZ": ("cyberkongz_eth", 0),
}


def second(text: str, zone: str = "UTC") -> int:
    """The last second of a day, or the second of a date-time."""
    at = datetime.fromisoformat(text)
    return int((at if "T" in text else at + timedelta(1)).replace(tzinfo=ZoneInfo(zone)).timestamp()) - (
        "T" not in text
    )


class History:
    """The transfers of a token in their order, and the balance of each address after each second of a change."""

    def __init__(self, rows: list[dict[str, Any]]) -> None:
        sides = {side: str.lower for side in ("from_address", "to_address")}
        rows = [row | {side: lower(row[side]) for side, lower in sides.items()} for row in rows]
        self.rows = sorted(rows, key=lambda row: (row["block_number"], row["log_index"]))

    @cached_property
    def steps(self) -> dict[str, list[tuple[int, int]]]:
        """Second and balance after it, by address, without seconds that change nothing but by transfers to itself."""
        changes: dict[str, dict[int, int]] = defaultdict(lambda: defaultdict(int))
        for row in self.rows:
            if row["from_address"] != row["to_address"] and int(row["value"]):
                changes[row["from_address"]][row["block_time"]] -= int(row["value"])
                changes[row["to_address"]][row["block_time"]] += int(row["value"])
        found: dict[str, list[tuple[int, int]]] = {}
        for address, of_address in changes.items():
            total, found[address] = 0, []
            for at in sorted(of_address):
                total += of_address[at]
                found[address].append((at, total))
        return found

    def balances(self, at: int) -> dict[str, int]:
        """The balances of all addresses at the end of a second, also below zero and of the zero address."""
        places = {address: bisect_right(steps, (at, 2**300)) for address, steps in self.steps.items()}
        return {address: self.steps[address][place - 1][1] for address, place in places.items() if place}

    def held(self, day: str, zone: str = "UTC") -> dict[str, int]:
        found = self.balances(second(day, zone))
        return {address: balance for address, balance in found.items() if balance > 0 and address != ZERO_ADDRESS}

    def supply(self, day: str) -> int:
        return -self.balances(second(day))[ZERO_ADDRESS]

    @cached_property
    def stays(self) -> list[tuple[str, int, int | None]]:
        """Address, first second and end of each time in which it holds; None for one that lasts."""
        found: list[tuple[str, int, int | None]] = []
        for address, steps in self.steps.items():
            begun = None
            for at, balance in steps if address != ZERO_ADDRESS else ():
                if balance > 0 and begun is None:
                    begun = at
                elif balance <= 0 and begun is not None:
                    found.append((address, begun, at))
                    begun = None
            found += [(address, begun, None)] if begun is not None else []
        return found

    def days(self, ended: bool | None = None) -> list[float]:
        last = max(row["block_time"] for row in self.rows)
        return [((end or last) - begun) / DAY for _, begun, end in self.stays if ended in (None, end is not None)]

    def net(self, first: str, last: str) -> dict[str, int]:
        found = Counter[str]()
        for row in self.between(first, last):
            found[row["to_address"]] += int(row["value"])
            found[row["from_address"]] -= int(row["value"])
        return dict(found)

    def between(self, first: str, last: str) -> list[dict[str, Any]]:
        begun, ended = int(datetime.fromisoformat(first).replace(tzinfo=UTC).timestamp()), second(last)
        return [row for row in self.rows if begun <= row["block_time"] <= ended]

    def owners(self, item: str, until: int = 2**40) -> list[str]:
        return [row["to_address"] for row in self.rows if row["token_id"] == item and row["block_time"] <= until]

    def cohort(self, first: str, last: str) -> set[str]:
        begun, ended = int(datetime.fromisoformat(first).replace(tzinfo=UTC).timestamp()), second(last)
        firsts: dict[str, int] = {}
        for address, at, _ in self.stays:
            firsts[address] = min(at, firsts.get(address, at))
        return {address for address, at in firsts.items() if begun <= at <= ended}

    def unmoved(self, day: str, days: int) -> dict[str, int]:
        at, held = second(day), self.held(day)
        last = {address: max(step for step, _ in self.steps[address] if step <= at) for address in held}
        return {address: amount for address, amount in held.items() if at - last[address] >= days * DAY}


World = dict[str, History]


@pytest.fixture(scope="module")
def world(shared_data: Path) -> World:
    paths = {symbol: shared_data / "transfers" / f"{name}.parquet" for symbol, (name, _) in FILES.items()}
    return {symbol: History(pq.read_table(path).to_pylist()) for symbol, path in paths.items()}


@pytest.fixture(scope="module")
def home(world: World, shared_data: Path, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Home]:
    made = Home(tmp_path_factory.mktemp("analysts"))
    with made.store:
        for symbol, (name, decimals) in FILES.items():
            row = world[symbol].rows[0]
            standard = row["token_standard"]
            key = row["chain"], row["token_address"].lower()
            made.store.add_transfers(read_transfers(shared_data / "transfers" / f"{name}.parquet"), name)
            made.store.add_tokens([TokenInfo(*key, symbol, symbol, decimals, standard)])
        made.warehouse.load(made.lake)
        yield made


def dates(first: str, count: int) -> list[str]:
    return [f"{date.fromisoformat(first) + timedelta(day)}" for day in range(count)]


def top(amounts: dict[str, int], count: int = 10) -> int:
    return sum(sorted(amounts.values())[-count:])


def fewest(amounts: dict[str, int]) -> int:
    ordered = sorted(amounts.values(), reverse=True)
    return next(count for count in range(1, len(ordered) + 1) if 2 * sum(ordered[:count]) >= sum(ordered))


def first_receipts(history: History) -> dict[str, str]:
    found: dict[str, str] = {}
    for row in history.rows:
        if row["from_address"] != row["to_address"] and int(row["value"]):
            found.setdefault(row["to_address"], row["from_address"])
    return found


def richest(history: History, day: str) -> str:
    held = history.held(day)
    return max(held, key=lambda address: held[address])


MONTHS = ["2021-04-30", "2021-05-31", "2021-06-30", "2021-07-15"]
HLS_DAYS = dates("2025-12-08", 15)
CONCENTRATION = "FROM concentration_by_period('{}', '{}', '{}', '{}') WHERE holders = 'all holders' ORDER BY day"
QUESTIONS: dict[str, tuple[str, Callable[[World], list[tuple[Any, ...]]]]] = {
    "holders at the end of each month": (
        "SELECT number " + CONCENTRATION.format("MCAT", "month", "2021-04-01", "2021-07-15"),
        lambda world: [(len(world["MCAT"].held(day)),) for day in MONTHS],
    ),
    "who is still there after two months": (
        "SELECT count(*) FROM balances_at('MCAT', '2021-05-01') JOIN balances_at('MCAT', '2021-07-01') "
        "USING (chain, token_address, address)",
        lambda world: [(len(world["MCAT"].held("2021-05-01").keys() & world["MCAT"].held("2021-07-01").keys()),)],
    ),
    "who is still there after a year": (
        "SELECT count(*) FROM balances_at('PUNKV1', '2021-12-31') JOIN balances_at('PUNKV1', '2022-12-31') "
        "USING (chain, token_address, address)",
        lambda world: [(len(world["PUNKV1"].held("2021-12-31").keys() & world["PUNKV1"].held("2022-12-31").keys()),)],
    ),
    "median holding time": (
        "SELECT median(days) FROM holding_times('MCAT')",
        lambda world: [(median(world["MCAT"].days()),)],
    ),
    "median holding time of stays that ended": (
        "SELECT median(days) FROM holding_times('KONGZ') WHERE held_until IS NOT NULL",
        lambda world: [(median(world["KONGZ"].days(ended=True)),)],
    ),
    "wallets that hold two tokens": (
        "SELECT count(*) FROM balances_at('MCAT', '2021-07-10') JOIN balances_at('KONGZ', '2021-07-10') "
        "USING (chain, address)",
        lambda world: [(len(world["MCAT"].held("2021-07-10").keys() & world["KONGZ"].held("2021-07-10").keys()),)],
    ),
    "share of the ten largest by day": (
        "SELECT top_10_share " + CONCENTRATION.format("HLS", "day", HLS_DAYS[0], HLS_DAYS[-1]),
        lambda world: [(top(held) / world["HLS"].supply(day),) for day in HLS_DAYS if (held := world["HLS"].held(day))],
    ),
    "Gini index by day": (
        "SELECT gini_index " + CONCENTRATION.format("QUIDD", "day", "2021-11-16", "2021-11-19"),
        lambda world: [
            (gini(list(held.values())),) for day in dates("2021-11-16", 4) if (held := world["QUIDD"].held(day))
        ],
    ),
    "Herfindahl index by year": (
        "SELECT herfindahl_hirschman_index " + CONCENTRATION.format("PUNKV1", "year", "2018-01-01", "2025-12-31"),
        lambda world: [
            (sum((amount / sum(held.values())) ** 2 for amount in held.values()),)
            for year in range(2018, 2026)
            if (held := world["PUNKV1"].held(f"{year}-12-31"))
        ],
    ),
    "Nakamoto coefficient by month": (
        "SELECT nakamoto_coefficient " + CONCENTRATION.format("KONGZ", "month", "2021-04-01", "2021-06-30"),
        lambda world: [(fewest(world["KONGZ"].held(day)),) for day in MONTHS[:3]],
    ),
    "a cohort of a month three months later": (
        "SELECT number, remaining FROM retention('MCAT', 'month', '2021-04-01', '2021-07-15') "
        "WHERE holders = 'all holders' AND cohort = '2021-04-01' AND period = '2021-07-01'",
        lambda world: [
            (
                len(cohort := world["MCAT"].cohort("2021-04-01", "2021-04-30")),
                len(cohort & world["MCAT"].held("2021-07-15").keys()),
            )
        ],
    ),
    "a cohort of a week two weeks later": (
        "SELECT number, remaining FROM retention('HLS', 'week', '2025-12-08', '2025-12-28') "
        "WHERE holders = 'all holders' AND cohort = '2025-12-08' AND period = '2025-12-22'",
        lambda world: [
            (
                len(cohort := world["HLS"].cohort("2025-12-08", "2025-12-14")),
                len(cohort & world["HLS"].held("2025-12-28").keys()),
            )
        ],
    ),
    "holders that have not moved for 90 days": (
        "SELECT number FROM supply_age('KONGZ', 'year', '2021-01-01', '2021-12-31') "
        "WHERE holders = 'all holders' AND at_least_days = 90",
        lambda world: [(len(world["KONGZ"].unmoved("2021-12-31", 90)),)],
    ),
    "part of the supply that has not moved for a year": (
        "SELECT share FROM supply_age('PUNKV1', 'year', '2025-01-01', '2025-12-31') "
        "WHERE holders = 'all holders' AND at_least_days = 365",
        lambda world: [
            (sum(world["PUNKV1"].unmoved("2025-12-31", 365).values()) / world["PUNKV1"].supply("2025-12-31"),)
        ],
    ),
    "the largest net buyer of a day": (
        "SELECT address, raw_net FROM net_flows('QUIDD', '2021-11-17', '2021-11-17') WHERE kind IS NULL "
        "ORDER BY net DESC LIMIT 1",
        lambda world: [
            (address, str(amount))
            for address, amount in sorted(
                world["QUIDD"].net("2021-11-17", "2021-11-17").items(), key=lambda one: -one[1]
            )
            if address not in (ZERO_ADDRESS, DEAD)
        ][:1],
    ),
    "mints less burns": (
        "SELECT raw_net FROM net_flows('HLS', '2025-12-01', '2025-12-31') "
        "WHERE address = '0x0000000000000000000000000000000000000000'",
        lambda world: [(str(-world["HLS"].supply("2025-12-31")),)],
    ),
    "the three largest net buyers of three days": (
        "SELECT address FROM net_flows('HLS', '2025-12-19', '2025-12-21') WHERE kind IS NULL ORDER BY net DESC LIMIT 3",
        lambda world: [
            (address,)
            for address, _ in sorted(world["HLS"].net("2025-12-19", "2025-12-21").items(), key=lambda one: -one[1])
            if address not in (ZERO_ADDRESS, DEAD)
        ][:3],
    ),
    "net flows add up to nothing": (
        "SELECT sum(raw_net::BIGNUM)::VARCHAR FROM net_flows('QUIDD', '2021-11-16', '2021-11-19')",
        lambda world: [(str(sum(world["QUIDD"].net("2021-11-16", "2021-11-19").values())),)],
    ),
    "net flow of the wallet furthest below zero": (
        "SELECT address, raw_net FROM net_flows('HLS', '2025-12-01', '2025-12-31') WHERE kind IS NULL "
        "ORDER BY raw_net::BIGNUM LIMIT 1",
        lambda world: [
            min(
                (
                    (one, str(amount))
                    for one, amount in world["HLS"].net("2025-12-01", "2025-12-31").items()
                    if one != ZERO_ADDRESS
                ),
                key=lambda row: int(row[1]),
            )
        ],
    ),
    "wallets below zero are no holders": (
        "SELECT (SELECT count(*) FROM net_flows('HLS', '2025-12-01', '2025-12-31') "
        "WHERE raw_net::BIGNUM < 0::BIGNUM AND kind IS NULL), count(*) FROM balances_at('HLS', '2025-12-31')",
        lambda world: [
            (
                sum(
                    amount < 0 and address != ZERO_ADDRESS
                    for address, amount in world["HLS"].balances(second("2025-12-31")).items()
                ),
                len(world["HLS"].held("2025-12-31")),
            )
        ],
    ),
    "the owner of an item at the end of a year": (
        "SELECT address FROM item_owner_at('PUNKV1', 0, '2020-12-31')",
        lambda world: [(world["PUNKV1"].owners("0", second("2020-12-31"))[-1],)],
    ),
    "the owner of the item with the largest number": (
        f"SELECT address FROM item_owner_at('PUNKV1', '{2**256 - 1}', '2026-06-30')",
        lambda world: [(world["PUNKV1"].owners(str(2**256 - 1))[-1],)],
    ),
    "the owner of an item at the second of its second transfer": (
        "SELECT address FROM item_owner_at('KONGZ', 7, {kongz_7})",
        lambda world: [(world["KONGZ"].owners("7")[1],)],
    ),
    "how many owners an item had": (
        "SELECT count(DISTINCT to_address) FROM transfers WHERE symbol = 'KONGZ' AND token_id = '1'",
        lambda world: [(len(set(world["KONGZ"].owners("1"))),)],
    ),
    "transfers of three days": (
        "SELECT count(*) FROM transfers WHERE symbol = 'QUIDD' "
        "AND block_time >= '2021-11-16' AND block_time < '2021-11-19'",
        lambda world: [(len(world["QUIDD"].between("2021-11-16", "2021-11-18")),)],
    ),
    "transfers since a midnight in Tokyo": (
        "SELECT count(*) FROM transfers WHERE symbol = 'QUIDD' AND block_time >= instant('2021-11-19T00:00:00+09:00')",
        lambda world: [(sum(row["block_time"] >= second("2021-11-18T15:00:00") for row in world["QUIDD"].rows),)],
    ),
    "holders by day": (
        "SELECT holders FROM holders_by_day('QUIDD', '2021-11-16', '2021-11-19') ORDER BY day",
        lambda world: [(len(world["QUIDD"].held(day)),) for day in dates("2021-11-16", 4)],
    ),
    "holders by day in Tokyo": (
        "SELECT holders FROM holders_by_day('QUIDD', '2021-11-16', '2021-11-19', zone := 'Asia/Tokyo') ORDER BY day",
        lambda world: [(len(world["QUIDD"].held(day, "Asia/Tokyo")),) for day in dates("2021-11-16", 4)],
    ),
    "holders by day when New York changes to summer time": (
        "SELECT holders FROM holders_by_day('PUNKV1', '2022-03-11', '2022-03-15', zone := 'America/New_York') "
        "ORDER BY day",
        lambda world: [(len(world["PUNKV1"].held(day, "America/New_York")),) for day in dates("2022-03-11", 5)],
    ),
    "the new holders of a month": (
        "SELECT count(*) FROM balances_at('KONGZ', '2021-05-31') "
        "ANTI JOIN balances_at('KONGZ', '2021-04-30') USING (chain, address)",
        lambda world: [(len(world["KONGZ"].held("2021-05-31").keys() - world["KONGZ"].held("2021-04-30").keys()),)],
    ),
    "the holders that left in a month": (
        "SELECT count(*) FROM balances_at('MCAT', '2021-05-31') "
        "ANTI JOIN balances_at('MCAT', '2021-06-30') USING (chain, address)",
        lambda world: [(len(world["MCAT"].held("2021-05-31").keys() - world["MCAT"].held("2021-06-30").keys()),)],
    ),
    "the largest wallet without special addresses": (
        "SELECT address, raw_amount FROM balances_at('HLS', '2025-12-20') "
        "ANTI JOIN special_addresses_as_of('2025-12-20') USING (chain, address) ORDER BY share DESC LIMIT 1",
        lambda world: [
            max(
                ((one, str(amount)) for one, amount in world["HLS"].held("2025-12-20").items() if one != DEAD),
                key=lambda row: int(row[1]),
            )
        ],
    ),
    "the supply by day": (
        "SELECT raw FROM supply_by_period('QUIDD', 'day', '2021-11-16', '2021-11-19') ORDER BY day",
        lambda world: [(float(minted),) for day in dates("2021-11-16", 4) if (minted := world["QUIDD"].supply(day))],
    ),
    "the burnt share": (
        f"SELECT share FROM balances_at('HLS', '2025-12-31') WHERE address = '{DEAD}'",
        lambda world: [(world["HLS"].held("2025-12-31")[DEAD] / world["HLS"].supply("2025-12-31"),)],
    ),
    "who funded the largest cat owner": (
        "SELECT address, funder FROM wallet_funding WHERE asset = 'token' AND chain = 'bsc' AND address = "
        "(SELECT arg_max(address, share) FROM balances_at('QUIDD', '2021-11-19'))",
        lambda world: [(one := richest(world["QUIDD"], "2021-11-19"), first_receipts(world["QUIDD"])[one])],
    ),
    "how many wallets the first receiver funded": (
        "SELECT count(*) FROM wallet_funding WHERE chain = 'bsc' AND funder = (SELECT arg_min(to_address, "
        "(block_number, log_index)) FROM transfers WHERE symbol = 'QUIDD')",
        lambda world: [
            (
                sum(
                    funder == world["QUIDD"].rows[0]["to_address"] and address not in (ZERO_ADDRESS, DEAD)
                    for address, funder in first_receipts(world["QUIDD"]).items()
                ),
            )
        ],
    ),
    "the balance after the third change": (
        "SELECT raw_amount FROM balance_history('{quidd_1}', 'QUIDD') ORDER BY block_time LIMIT 1 OFFSET 2",
        lambda world: [(str(world["QUIDD"].steps[richest(world["QUIDD"], "2021-11-19")][2][1]),)],
    ),
    "mean holding time of holders that left": (
        "SELECT avg(days) FROM holding_times('PUNKV1') WHERE held_until IS NOT NULL",
        lambda world: [(mean(world["PUNKV1"].days(ended=True)),)],
    ),
    "mints on the busiest day": (
        "SELECT max(mints) FROM (SELECT block_time::DATE, count(*) AS mints FROM transfers WHERE symbol = 'MCAT' "
        "AND from_address = '0x0000000000000000000000000000000000000000' GROUP BY ALL)",
        lambda world: [
            (
                max(
                    Counter(
                        row["block_time"] // DAY for row in world["MCAT"].rows if row["from_address"] == ZERO_ADDRESS
                    ).values()
                ),
            )
        ],
    ),
    "the share that moved within a week": (
        "SELECT 1 - max(share) FILTER (at_least_days = 7) / max(share) FILTER (at_least_days = 0) "
        "FROM supply_age('HLS', 'day', '2025-12-22', '2025-12-22') WHERE holders = 'all holders'",
        lambda world: [
            (1 - sum(world["HLS"].unmoved("2025-12-22", 7).values()) / sum(world["HLS"].held("2025-12-22").values()),)
        ],
    ),
}


@pytest.mark.parametrize("question", QUESTIONS)
def test_the_answer_to_each_question_equals_a_recount(question: str, home: Home, world: World) -> None:
    sql, recount = QUESTIONS[question]
    of_item = [row["block_time"] for row in world["KONGZ"].rows if row["token_id"] == "7"]
    values = {"kongz_7": of_item[1], "quidd_1": richest(world["QUIDD"], "2021-11-19")}
    for name, value in values.items():
        sql = sql.replace("{" + name + "}", str(value))
    with home.warehouse.connect() as connection:
        found, expected = connection.execute(sql).fetchall(), recount(world)
    assert len(found) == len(expected) > 0
    for row, exact in zip(found, expected, strict=True):
        assert row == tuple(pytest.approx(value, rel=1e-9) if isinstance(value, float) else value for value in exact)
