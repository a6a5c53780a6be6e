"""Views and macros over lists of holders never contradict the complete balances, however short the lists are."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from datetime import datetime
from decimal import Decimal
from pathlib import Path
from random import Random
from typing import Any

import pytest

from holderlake.core.contract.tables import TABLES, amount_columns
from holderlake.core.lake.lake import Lake
from holderlake.core.warehouse.warehouse import Warehouse, WarehouseError
from tests.helpers.lakes import DAYS, failures, rows, write, write_holders

TOKENS = [f"0x{number:02d}" for number in range(1, 21)]
ADDRESSES = [f"0xa{number}" for number in range(14)]
LIMITS = (3, 6, 11, 20)
Balances = Mapping[str, Decimal]


@dataclass(frozen=True)
class History:
    """A warehouse of lists of different limits, and the complete balances of each token and instant behind them."""

    warehouse: Warehouse
    balances: Mapping[tuple[str, datetime], Balances]

    def ask(self, sql: str) -> list[dict[str, Any]]:
        return self.warehouse.query(sql).to_pylist()


@pytest.fixture(scope="module")
def history(tmp_path_factory: pytest.TempPathFactory) -> History:
    folder, random = tmp_path_factory.mktemp("lists"), Random(41)
    lake, warehouse = Lake(folder / "lake"), Warehouse(folder / "warehouse.duckdb")
    balances = {}
    for token in TOKENS:
        unit = random.choice([Decimal(1), Decimal("1e-18"), Decimal(10) ** 40])
        holding = dict.fromkeys(ADDRESSES, Decimal(0))
        for day in DAYS[:6]:
            for address in random.sample(ADDRESSES, 6):
                holding[address] = random.choice([0, 0, 1, 2, 3, 4, 5, 6, 7, 8]) * unit
            balances[token, day] = {address: amount for address, amount in holding.items() if amount}
    for day in DAYS[:6]:
        lists: dict[str, list[dict[str, Any]]] = {"holders": [], "maps": []}
        nodes, covered, empty = [], {"holders": set(), "maps": set()}, []
        for token in random.sample(TOKENS, 17):
            family = random.choice(["holders", "holders", "maps"])
            limit, held = random.choice(LIMITS), balances[token, day]
            ranked = sorted(held.items(), key=lambda item: (-item[1], item[0]))[:limit]
            total = sum(held.values())
            of_token = [
                {"token_address": token, "rank": rank, "address": address, "share": float(amount / total)}
                | amount_columns("amount", amount)
                for rank, (address, amount) in enumerate(ranked, 1)
            ]
            covered[family].add(token)
            if not held:
                empty.append((family, token))
            elif family == "holders":
                lists[family] += [row | {"holder_limit": limit} for row in of_token]
            else:
                lists[family].append({"token_address": token, "holder_limit": limit})
                nodes += [row | {"kind": "top_holder"} for row in of_token]
        for family, listed in lists.items():
            tables = {family: rows(family, "eth", day, listed)}
            tables |= {"map_nodes": rows("map_nodes", "eth", day, nodes)} if family == "maps" else {}
            failed = failures("eth", day, *(failure for failure in empty if failure[0] == family))
            write(lake, family, "eth", day, tables, covered[family], failed)
    warehouse.load(lake)
    return History(warehouse, balances)


def exact(row: Mapping[str, Any], name: str) -> Decimal | None:
    text = row[f"{name}_exact"]
    return Decimal(text) if text is not None else row[name]


def test_a_complete_list_has_every_holder_and_a_full_one_bounds_the_others(history: History) -> None:
    lists = history.ask("FROM holder_lists")
    for row in lists:
        held = history.balances[row["token_address"], row["timestamp"]]
        assert row["is_complete"] == (row["holders_total"] is not None)
        assert row["holders_total"] in {None, len(held)}
        listed = set(sorted(held, key=lambda address: (-held[address], address))[: row["holders_listed"]])
        most = exact(row, "unlisted_at_most")
        assert most is not None
        assert all(amount <= most for address, amount in held.items() if address not in listed)
    assert {row["is_complete"] for row in lists} == {True, False}
    assert {row["source"] for row in lists} == {"holders", "maps"}


def check_change(history: History, row: Mapping[str, Any]) -> None:
    before = history.balances[row["token_address"], row["from_timestamp"]].get(row["address"], Decimal(0))
    after = history.balances[row["token_address"], row["to_timestamp"]].get(row["address"], Decimal(0))
    for name, amount in (("before", before), ("after", after)):
        assert exact(row, f"amount_{name}") in {None, amount}
        most = row[f"amount_{name}_at_most"]
        assert (most is None) == (row[f"rank_{name}"] is not None)
        assert most is None or amount <= Decimal(most)
        assert (exact(row, f"amount_{name}") is None) == (row[f"share_{name}"] is None)
    assert exact(row, "amount_change") in {None, after - before}
    if row["change"] in {"grew", "shrank"}:
        assert (row["change"] == "grew") == (after > before)


@pytest.mark.later(integration=1)
@pytest.mark.parametrize("seed", range(100))
def test_changes_between_two_instants_equal_the_balances_or_are_unknown(history: History, seed: int) -> None:
    random = Random(seed)
    token, (start, end) = random.choice(TOKENS), sorted(random.sample(DAYS[:6], 2))
    changes = history.ask(f"FROM holder_changes('{start}', '{end}') WHERE token_address = '{token}'")
    for row in changes:
        check_change(history, row)
    shown = history.ask(
        "SELECT bool_and(is_complete) AS is_complete, min(timestamp) AS first, max(timestamp) AS last"
        f" FROM holder_lists WHERE token_address = '{token}' AND timestamp IN"
        f" (SELECT max(timestamp) FROM list_instants WHERE token_address = '{token}' AND timestamp <= '{start}' UNION"
        f" SELECT max(timestamp) FROM list_instants WHERE token_address = '{token}' AND timestamp <= '{end}')"
    )[0]
    if shown["is_complete"] and shown["first"] < shown["last"] and shown["first"] <= start:
        before, after = (history.balances[token, shown[end]] for end in ("first", "last"))
        assert {row["address"] for row in changes} == {
            address for address in before.keys() | after if before.get(address) != after.get(address)
        }


def test_changes_from_list_to_list_equal_the_balances_or_are_unknown(history: History) -> None:
    changes = history.ask("FROM holder_changes('2026-11-01', '2026-11-30', each_list := true)")
    for row in changes:
        check_change(history, row)
    assert {row["change"] for row in changes} == {"entered", "left", "grew", "shrank"}
    assert {exact(row, "amount_change") is None for row in changes} == {True, False}


def test_an_overlap_is_exact_or_a_lower_bound(history: History) -> None:
    pairs = history.ask("FROM holder_overlap('2026-11-04')")
    for row in pairs:
        a, b = (history.balances[row[f"token_{side}"], row[f"timestamp_{side}"]] for side in "ab")
        common = a.keys() & b
        assert row["holders_at_least"] <= len(common)
        assert row["common_holders"] in {None, len(common)}
        assert row["holders_of_a"] in {None, len(a)}
        assert row["overlap"] is None or row["overlap"] == pytest.approx(len(common) / len(a.keys() | b))
        assert row["share_of_a_at_least"] <= float(sum(a[address] for address in common) / sum(a.values())) + 1e-9
    assert {row["common_holders"] is None for row in pairs} == {True, False}


def test_a_holding_period_bounds_what_the_address_holds_after_it(history: History) -> None:
    periods = [row for row in history.ask("FROM holding_periods") if row["left_at"] is not None]
    for row in periods:
        amount = history.balances[row["token_address"], row["left_at"]].get(row["address"], Decimal(0))
        assert amount <= Decimal(row["left_at_most"])
    assert any(row["left_at_most"] != "0" for row in periods)


def test_the_largest_ten_are_null_where_the_list_is_shorter(history: History) -> None:
    for row in history.ask("FROM holder_lists WHERE holders_listed > 0"):
        held = history.balances[row["token_address"], row["timestamp"]]
        ten = float(sum(sorted(held.values(), reverse=True)[:10]) / sum(held.values()))
        assert row["top_10_share"] is None or row["top_10_share"] == pytest.approx(ten)


def test_a_list_with_an_unreadable_row_is_not_complete(tmp_path: Path) -> None:
    lake, warehouse = Lake(tmp_path / "lake"), Warehouse(tmp_path / "warehouse.duckdb")
    held = [{"token_address": "0xa", "rank": 2, "address": "0x2", "share": 0.1, "holder_limit": 80}]
    unread = {
        "endpoint": "holders",
        "subject": "0xa",
        "code": "unreadable_row",
        "reason": "no address",
        "place": "$[0]",
    }
    failed = rows("failures", "eth", DAYS[0], [unread])
    write(lake, "holders", "eth", DAYS[0], {"holders": rows("holders", "eth", DAYS[0], held)}, {"0xa"}, failed)
    write(lake, "holders", "eth", DAYS[1], {"holders": TABLES["holders"].schema.empty_table()}, {"0xa"})
    warehouse.load(lake)
    found = warehouse.query("SELECT is_complete, holders_total, unlisted_at_most FROM holder_lists").to_pylist()
    assert found == [{"is_complete": False, "holders_total": None, "unlisted_at_most": None}] * 2


def test_figures_of_a_token_without_transfers_are_from_its_lists(tmp_path: Path) -> None:
    lake, warehouse = Lake(tmp_path / "lake"), Warehouse(tmp_path / "warehouse.duckdb")
    for day, addresses in ((0, ["0x1", "0x2", "0x3"]), (2, ["0x1", "0x3"]), (4, ["0x2"])):
        write_holders(lake, "eth", DAYS[day], {"0xa": dict.fromkeys(addresses, 1)})
    warehouse.load(lake)

    def ask(sql: str) -> list[tuple[Any, ...]]:
        return [tuple(row.values()) for row in warehouse.query(sql).to_pylist()]

    held = "SELECT address, basis FROM balances_at('0xa', '2026-11-04') ORDER BY address"
    assert ask(held) == [("0x1", "list of at most 80"), ("0x3", "list of at most 80")]
    assert ask("SELECT address, days, held_until, basis FROM holding_times('0xa') ORDER BY address, held_from") == [
        ("0x1", 4, DAYS[4], "lists of at most 80"),
        ("0x2", 2, DAYS[2], "lists of at most 80"),
        ("0x2", 0, None, "lists of at most 80"),
        ("0x3", 4, DAYS[4], "lists of at most 80"),
    ]
    period = "'0xa', 'day', '2026-11-01', '2026-11-05'"
    kept = f"SELECT number, remaining, basis FROM retention({period}) WHERE holders = 'wallets' ORDER BY period"
    assert ask(kept) == [(3, remaining, "lists of at most 80") for remaining in (3, 3, 2, 2, 1)]
    shares = f"SELECT number, top_1_share, top_10_share, basis FROM concentration_by_period({period})"
    assert ask(f"{shares} WHERE holders = 'wallets' ORDER BY period") == [
        (number, 0.1, None, "lists of at most 80") for number in (3, 3, 2, 2, 1)
    ]
    with pytest.raises(WarehouseError, match="your store has no transfers of 0xa"):
        ask(f"FROM supply_age({period})")
