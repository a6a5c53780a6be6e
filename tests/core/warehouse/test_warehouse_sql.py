"""Views and macros over small histories: correct rows, on several chains, and with amounts beyond the decimals."""

from __future__ import annotations

import re
import tomllib
from collections.abc import Collection, Iterator
from datetime import datetime, timedelta
from decimal import Decimal
from itertools import pairwise
from pathlib import Path
from random import Random

import pytest

from docs.reference.view_columns import view_columns
from holderlake.core.contract.tables import TABLES
from holderlake.core.contract.times import to_unix
from holderlake.core.lake.lake import Lake
from holderlake.core.settings.sections.lake import SqlSettings
from holderlake.core.warehouse import schema
from holderlake.core.warehouse.warehouse import Warehouse, WarehouseError
from tests.core.warehouse.test_transfers import Home
from tests.engine.test_items import moved
from tests.engine.world import transfer as stored_transfer
from tests.helpers.lakes import (
    DAYS,
    FETCHED_AT,
    count,
    failures,
    holders,
    map_tables,
    query,
    rows,
    transfer,
    write,
    write_holders,
    write_maps,
)

DAY = DAYS[0]


# Views and macros

ONE, TWO, ITEM = (f"0x{digit * 40}" for digit in "123")
OF_STORE = [view for view in schema.queries() if re.search(r"min\(token_address\)|FROM transfers\b", view.example)]


@pytest.fixture(scope="module")
def with_store(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Warehouse]:
    """A warehouse over a store: a token with a new holder, and a new item, in each month from January to June 2026."""
    home = Home(tmp_path_factory.mktemp("store"))
    with home.store:
        for month in range(1, 7):
            at = to_unix(datetime(2026, month, 15))
            for path, value in ((f"mint -> {ONE}", 500), (f"{ONE} -> {TWO}", 300), (f"mint -> 0x{month:040x}", 40)):
                home.add(stored_transfer(path, value, at, token=("eth", ONE)))
            home.add(moved(f"mint -> {TWO}", month, at, token=("eth", ITEM)))
        write_maps(home.lake, "eth", DAY, {ONE: [[ONE, TWO]]})
        named = rows("tokens", "eth", DAY, [{"token_address": ONE, "symbol": "ONE"}])
        write(home.lake, "tokens", "eth", DAY, {"tokens": named}, {ONE})
        home.warehouse.load(home.lake)
        yield home.warehouse


@pytest.mark.integration
@pytest.mark.parametrize("view", OF_STORE, ids=lambda view: view.name)
def test_an_example_about_the_store_has_rows(with_store: Warehouse, view: schema.Query) -> None:
    rows_of_example = with_store.query(view.example).to_pylist()
    assert any(value is not None for row in rows_of_example for value in row.values())


@pytest.mark.parametrize("view", schema.queries(), ids=lambda view: view.name)
def test_a_view_or_macro_has_a_comment_and_an_example_that_runs(small: Warehouse, view: schema.Query) -> None:
    assert view.comment.partition("Example: ")[0].strip()
    if view not in OF_STORE:
        small.query(view.example)
    source = (
        "duckdb_views() WHERE schema_name = 'main' AND view_name"
        if view.kind == "VIEW"
        else "duckdb_functions() WHERE function_name"
    )
    ((comment,),) = query(small, f"SELECT DISTINCT comment FROM {source} = ?", view.name)
    assert comment == view.comment


@pytest.mark.long
def test_each_column_of_a_view_or_macro_has_a_type_and_a_meaning(small: Warehouse) -> None:
    columns = view_columns()
    assert set(columns) == {view.name for view in schema.queries() if view.kind != "MACRO"}
    for name, listed in columns.items():
        assert listed, name
        assert all(column.type and column.meaning for column in listed), name
    for view in schema.queries():
        if view.snapshot_of:
            table = small.query(f"DESCRIBE {view.snapshot_of}").to_pylist()
            more = ["known_until"] if view.name.startswith("replaced_") else []
            more += ["requested", "days_earlier", "is_outdated"] if view.kind == "MACRO TABLE" else []
            assert [column.name for column in columns[view.name]] == [row["column_name"] for row in table] + more


@pytest.mark.long
def test_each_documented_meaning_belongs_to_a_column() -> None:
    meanings = tomllib.loads((Path(schema.__file__).parent / "sql" / "columns.toml").read_text())
    columns = {name: {column.name for column in listed} for name, listed in view_columns().items()}
    assert meanings.pop("common").keys() <= set().union(*columns.values())
    assert {name: set(own) - columns[name] for name, own in meanings.items() if set(own) - columns[name]} == {}


@pytest.mark.long
def test_latest_and_as_of_use_each_tokens_newest_partition(lake: Lake, warehouse: Warehouse) -> None:
    for day, held in ((1, {"0xa": {"0x1": 1}, "0xb": {"0x1": 2}}), (5, {"0xa": {"0x1": 3}}), (9, {"0xa": {"0x1": 4}})):
        write_holders(lake, "eth", DAYS[day - 1], held)
        write_maps(lake, "eth", DAYS[day - 1], {token: [] for token in held}, score=day)
    write_holders(lake, "base", DAYS[1], {"0xa": {"0x1": 5}})
    warehouse.load(lake)
    latest = "SELECT chain, token_address, amount FROM {} ORDER BY ALL"
    assert query(warehouse, latest.format("latest_holders")) == [
        ("base", "0xa", 5),
        ("eth", "0xa", 4),
        ("eth", "0xb", 2),
    ]
    assert query(warehouse, latest.format("holders_as_of('2026-11-08 23:59:59')")) == [
        ("base", "0xa", 5),
        ("eth", "0xa", 3),
        ("eth", "0xb", 2),
    ]
    assert query(warehouse, latest.format("holders_as_of(TIMESTAMP '2026-11-01')")) == [
        ("eth", "0xa", 1),
        ("eth", "0xb", 2),
    ]
    assert count(warehouse, "holders_as_of('2026-10-31')") == 0
    assert query(warehouse, "SELECT token_address, service_score FROM latest_maps ORDER BY 1") == [
        ("0xa", 9.0),
        ("0xb", 1.0),
    ]
    assert query(warehouse, "SELECT service_score FROM maps_as_of('2026-11-05') ORDER BY 1") == [(1.0,), (5.0,)]


def test_latest_clusters_are_empty_if_the_newest_map_has_none(lake: Lake, warehouse: Warehouse) -> None:
    write_maps(lake, "eth", DAYS[0], {"0xa": [["0x1", "0x2"]], "0xb": [["0x1", "0x2"]]})
    write_maps(lake, "eth", DAYS[1], {"0xa": []})
    warehouse.load(lake)
    assert query(warehouse, "SELECT token_address FROM latest_clusters") == [("0xb",)]


def test_holder_changes_are_entered_left_grew_or_shrank(lake: Lake, warehouse: Warehouse) -> None:
    write_holders(lake, "eth", DAYS[0], {"0xa": {"0x1": "10", "0x2": "8", "0x3": "5", "0x4": "1"}, "0xb": {"0x1": 1}})
    write_holders(lake, "eth", DAYS[5], {"0xa": {"0x2": "9.5", "0x1": "7", "0x3": "5", "0x5": "2"}})
    warehouse.load(lake)
    found = query(
        warehouse,
        "SELECT address, change, amount_change, rank_before, rank_after FROM holder_changes(?, ?) ORDER BY address",
        "2026-11-03",
        DAYS[9],
    )
    assert found == [
        ("0x1", "shrank", Decimal(-3), 1, 2),
        ("0x2", "grew", Decimal("1.5"), 2, 1),
        ("0x4", "left", Decimal(-1), 4, None),
        ("0x5", "entered", Decimal(2), None, 4),
    ]


def test_holder_changes_compare_amounts_beyond_the_decimal(lake: Lake, warehouse: Warehouse) -> None:
    huge, tiny = 10**60, "0.0000000000000000000001"
    write_holders(lake, "eth", DAYS[0], {"0xa": {"0x1": huge, "0x2": 10**19, "0x3": tiny, "0x4": huge}})
    write_holders(lake, "eth", DAYS[1], {"0xa": {"0x1": huge + 1, "0x2": 10**21, "0x3": "0", "0x4": huge}})
    warehouse.load(lake)
    changes = query(
        warehouse, "SELECT address, change FROM holder_changes('2026-11-01', '2026-11-02') ORDER BY address"
    )
    assert changes == [("0x1", "grew"), ("0x2", "grew"), ("0x3", "shrank")]


def test_an_address_below_the_end_of_the_shorter_list_entered_or_left(lake: Lake, warehouse: Warehouse) -> None:
    short = {f"0x{number}": 1000 - number for number in range(80)}
    held = sorted((short | {"0x79": 7, "0x99": 950.5}).items(), key=lambda one: -one[1])
    longer = holders("eth", DAYS[1], {"0xa": dict(held)})
    write_holders(lake, "eth", DAYS[0], {"0xa": short})
    of_250 = rows("holders", "eth", DAYS[1], [row | {"holder_limit": 250} for row in longer.to_pylist()])
    write(lake, "holders", "eth", DAYS[1], {"holders": of_250}, {"0xa"})
    write_holders(lake, "eth", DAYS[2], {"0xa": short})
    warehouse.load(lake)
    changes = "SELECT address, change, amount_change, rank_before, rank_after FROM holder_changes(?, ?) ORDER BY ALL"
    assert query(warehouse, changes, DAYS[0], DAYS[1]) == [
        ("0x79", "left", 7 - 921, 80, 81),
        ("0x99", "entered", None, None, 51),
    ]
    assert query(warehouse, changes, DAYS[1], DAYS[2]) == [
        ("0x79", "entered", 921 - 7, 81, 80),
        ("0x99", "left", None, 51, None),
    ]


def test_holder_changes_need_a_partition_at_both_times(lake: Lake, warehouse: Warehouse) -> None:
    write_holders(lake, "eth", DAYS[4], {"0xa": {"0x1": 1}})
    warehouse.load(lake)
    assert count(warehouse, "holder_changes('2026-11-01', '2026-11-09')") == 0
    assert count(warehouse, "holder_changes('2026-11-06', '2026-11-09')") == 0


@pytest.mark.integration
def test_concentration_history_has_the_top_ten_of_each_instant(lake: Lake, warehouse: Warehouse) -> None:
    for day, score in ((0, 40.0), (1, 45.5), (2, 42.0)):
        write_maps(lake, "eth", DAYS[day], {"0xa": []}, score)
    write_holders(lake, "eth", DAYS[0], {"0xa": {f"0x{number}": 1 for number in range(12)}})
    warehouse.load(lake)
    found = query(
        warehouse,
        "SELECT service_score, score_change, round(top_10_share, 9), holders_listed FROM concentration_history"
        " ORDER BY timestamp",
    )
    assert found == [(40.0, None, 1.0, 12), (45.5, 5.5, None, None), (42.0, -3.5, None, None)]


@pytest.mark.integration
def test_cluster_lineage_follows_a_cluster_by_its_members(lake: Lake, warehouse: Warehouse) -> None:
    history = [
        [["a1", "a2", "a3"], ["b1", "b2"]],
        [["b1", "b2", "b3"], ["a1", "a2", "a3"]],
        [["a1", "a2"], ["b1", "b2", "b9"], ["c1", "c2"]],
        [["c1", "c2"]],
    ]
    for day, clusters in zip(DAYS, history, strict=False):
        write_maps(lake, "eth", day, {"0xa": clusters})
    warehouse.load(lake)
    found = query(
        warehouse,
        "SELECT day(timestamp), cluster_id, previous_cluster_id, round(overlap, 3), event FROM cluster_lineage"
        " ORDER BY 1, 2 NULLS LAST, 3",
    )
    assert found == [
        (1, 1, None, None, "first"),
        (1, 2, None, None, "first"),
        (2, 1, 2, 0.667, "grew"),
        (2, 2, 1, 1.0, "same"),
        (3, 1, 2, 0.667, "shrank"),
        (3, 2, 1, 0.5, "changed"),
        (3, 3, None, None, "born"),
        (4, 1, 3, 1.0, "same"),
        (4, None, 1, None, "died"),
        (4, None, 2, None, "died"),
    ]


def test_cluster_lineage_weighs_members_by_their_share(lake: Lake, warehouse: Warehouse) -> None:
    """The cluster's only large holder, with exactly half of its share, is with three others on the next map."""
    for day, shares in enumerate(
        ({"whale": 0.12, "a": 0.04, "b": 0.04, "c": 0.04}, {"whale": 0.12, "x": 0.1, "y": 0.1, "z": 0.1})
    ):
        tables = map_tables("eth", DAYS[day], {"0xa": [[*shares]]}, shares=shares)
        write(lake, "maps", "eth", DAYS[day], tables, {"0xa"})
    warehouse.load(lake)
    found = query(
        warehouse,
        "SELECT event, previous_cluster_id, round(previous_share, 2), round(share, 2), members, shared_members"
        " FROM cluster_lineage WHERE timestamp = ?",
        DAYS[1],
    )
    assert found == [("grew", 1, 0.24, 0.42, 4, 1)]


def _lineage(before: list[set[str]], after: list[set[str]]) -> Iterator[tuple[str, tuple[int, ...], tuple[int, ...]]]:
    """Yield each change with the numbers of its earlier and later clusters. All members have equal shares."""
    related = [
        (origin, heir)
        for origin, old in enumerate(before, start=1)
        for heir, new in enumerate(after, start=1)
        if 2 * len(old & new) >= min(len(old), len(new))
    ]
    for number in range(1, len(after) + 1):
        origins = tuple(origin for origin, heir in related if heir == number)
        if len(origins) != 1:
            yield "merged" if origins else "born", origins, (number,)
    for number, old in enumerate(before, start=1):
        heirs = tuple(heir for origin, heir in related if origin == number)
        if len(heirs) != 1:
            yield "split" if heirs else "died", (number,), heirs
        elif [origin for origin, heir in related if heir == heirs[0]] == [number]:
            new = after[heirs[0] - 1]
            growth = len(new) - len(old)
            kind = "grew" if growth > 0 else "shrank" if growth else "same" if old == new else "changed"
            yield kind, (number,), heirs


@pytest.mark.later(long=1)
@pytest.mark.integration
@pytest.mark.parametrize("seed", range(3))
def test_cluster_lineage_equals_its_definition(lake: Lake, warehouse: Warehouse, seed: int) -> None:
    random = Random(seed)
    maps = []
    for day in range(6):
        letters = random.sample("abcdefghijklmnop", 12)
        cuts = sorted(random.sample(range(2, 11, 2), 3))
        clusters = [letters[first:last] for first, last in pairwise([0, *cuts])]
        write_maps(lake, "eth", DAYS[day], {"0xa": clusters})
        maps.append([{*one} for one in clusters])
    warehouse.load(lake)
    found = query(
        warehouse,
        "SELECT timestamp, cluster_id, event, merged_from, split_from, previous_cluster_id FROM cluster_lineage"
        " WHERE previous_timestamp IS NOT NULL",
    )
    ours = set()
    for when, cluster, event, merged, split, previous in found:
        if merged:
            ours.add((when, "merged", tuple(merged), (cluster,)))
        if split:
            parts = sorted(row[1] for row in found if row[0] == when and row[4] == split)
            ours.add((when, "split", (split,), tuple(parts)))
        if not merged and not split:
            ours.add((when, event, (previous,) if event != "born" else (), (cluster,) if event != "died" else ()))
    expected = {(DAYS[day], *one) for day in range(1, 6) for one in _lineage(maps[day - 1], maps[day])}
    assert {one for one in ours if one[1] != "split"} == {one for one in expected if one[1] != "split"}
    assert {(one[0], one[2]) for one in ours if one[1] == "split"} <= {(one[0], one[2]) for one in expected}


@pytest.mark.integration
def test_cluster_lineage_keeps_tokens_and_chains_apart(lake: Lake, warehouse: Warehouse) -> None:
    write_maps(lake, "eth", DAYS[0], {"0xa": [["a1", "a2"]]})
    write_maps(lake, "eth", DAYS[1], {"0xb": [["a1", "a2"]]})
    write_maps(lake, "base", DAYS[1], {"0xa": [["a1", "a2"]]})
    warehouse.load(lake)
    assert query(warehouse, "SELECT DISTINCT event FROM cluster_lineage") == [("first",)]


def test_flows_between_uses_the_row_with_most_transfers_by_direction(lake: Lake, warehouse: Warehouse) -> None:
    one, other = "0x" + "a" * 40, "0x" + "b" * 40
    for day, sent in ((0, "5"), (1, "9")):
        edges = [
            {"token_address": "0x7", "time_node": None} | transfer(one, other, "0x7", "eth", sent, day + 1),
            {"token_address": "0x7", "time_node": 1} | transfer(one, other, "0x7", "eth", "1", 99),
        ]
        tables = {"grouped_transfers": rows("grouped_transfers", "eth", DAYS[day], edges)}
        write(lake, "maps", "eth", DAYS[day], tables, {"0x7"})
    back = {"address_set": "friends"} | transfer(other, one, "0x7", "eth", "2", 1)
    write(
        lake,
        "subgraphs",
        "eth",
        DAYS[0],
        {"subgraph_transfers": rows("subgraph_transfers", "eth", DAYS[0], [back])},
        {"friends"},
        by="address_set",
    )
    warehouse.load(lake)
    found = query(
        warehouse,
        "SELECT from_address, total_value, timestamp FROM flows_between(?, ?) ORDER BY 1",
        other.upper().replace("0X", "0x"),
        one,
    )
    assert found == [(one, Decimal(9), DAYS[1]), (other, Decimal(2), DAYS[0])]


# Two time axes


def test_an_answer_without_rows_ends_the_latest_holders(lake: Lake, warehouse: Warehouse) -> None:
    write_holders(lake, "eth", DAYS[0], {"0xa": {"0x1": 1}, "0xb": {"0x1": 1}})
    no_holders = TABLES["holders"].schema.empty_table()
    write(
        lake, "holders", "eth", DAYS[1], {"holders": no_holders}, {"0xa"}, failures("eth", DAYS[1], ("holders", "0xa"))
    )
    warehouse.load(lake)
    assert query(warehouse, "SELECT token_address FROM latest_holders") == [("0xb",)]
    assert query(warehouse, "SELECT token_address FROM holders_as_of('2026-11-01') ORDER BY 1") == [("0xa",), ("0xb",)]
    assert query(warehouse, "SELECT address, left_at FROM holding_periods WHERE token_address = '0xa'") == [
        ("0x1", DAYS[1])
    ]


@pytest.mark.parametrize(
    ("text", "meant"),
    [
        ("'2026-11-02'", datetime(2026, 11, 2, 23, 59, 59, 999999)),
        ("'2026-11-02T06:30:00Z'", datetime(2026, 11, 2, 6, 30)),
        ("'2026-11-02 06:30:00+02:00'", datetime(2026, 11, 2, 4, 30)),
        ("TIMESTAMPTZ '2026-11-02 06:30:00+02'", datetime(2026, 11, 2, 4, 30)),
        ("DATE '2026-11-02'", datetime(2026, 11, 2, 23, 59, 59, 999999)),
        ("TIMESTAMP '2026-11-02'", datetime(2026, 11, 2, 23, 59, 59, 999999)),
        ("'2026-11-02T00:00'", datetime(2026, 11, 2, 23, 59, 59, 999999)),
        ("'2026-11-02T00:00:00Z'", datetime(2026, 11, 2)),
        ("timezone('UTC', TIMESTAMP '2026-11-02')", datetime(2026, 11, 2)),
        ("TIMESTAMP '2026-11-02 00:00:01'", datetime(2026, 11, 2, 0, 0, 1)),
        ("1793577600", datetime(2026, 11, 2)),
        ("'1793577600'", datetime(2026, 11, 2)),
        ("'2026-11-02 06:30:00 Europe/Berlin'", datetime(2026, 11, 2, 5, 30)),
    ],
)
def test_an_instant_is_read_from_dates_and_unix_seconds(small: Warehouse, text: str, meant: datetime) -> None:
    assert query(small, f"SELECT instant({text})") == [(meant,)]


@pytest.mark.parametrize(
    "text",
    [
        "2026",
        "'2026'",
        "20260630",
        "''",
        "'2026-06'",
        "'yesterday'",
        "'2026-06-30T25:00:00Z'",
        "'2026-06-31'",
        "'1.2.2026'",
    ],
)
def test_a_year_and_text_that_is_no_time_are_refused(small: Warehouse, text: str) -> None:
    with pytest.raises(WarehouseError, match="is not a time: write a date such as"):
        query(small, f"FROM holders_as_of({text})")


@pytest.fixture(scope="module")
def told_twice(tmp_path_factory: pytest.TempPathFactory) -> Warehouse:
    """Day 1 was fetched on December 1, changed on the 5th and confirmed on the 6th; day 2 was fetched on the 3rd."""
    folder = tmp_path_factory.mktemp("twice")
    lake, loaded = Lake(folder / "lake"), Warehouse(folder / "warehouse.duckdb")
    for day, passed, amount in ((0, 0, 1), (0, 4, 5), (0, 5, 5), (1, 2, 2)):
        listed = holders("eth", DAYS[day], {"0xa": {"0x1": amount, "0x2": 1}})
        at = FETCHED_AT + timedelta(days=passed)
        write(lake, "holders", "eth", DAYS[day], {"holders": listed}, {"0xa"}, final=True, at=at)
    loaded.load(lake)
    return loaded


@pytest.mark.later(integration=2)
@pytest.mark.parametrize(
    ("t", "known", "amounts"),
    [
        ("2026-11-01", "2026-11-30", []),  # nothing was known yet
        ("2026-11-01", "2026-12-02", [1, 1]),  # as known before the change
        ("2026-11-01", "2026-12-06", [5, 1]),
        ("2026-11-02", "2026-12-02", [1, 1]),  # only day 1 was known
        ("2026-11-02", "2026-12-04", [2, 1]),
        ("2026-11-02", "2026-12-06", [2, 1]),
    ],
)
def test_known_at_returns_the_rows_of_that_time(told_twice: Warehouse, t: str, known: str, amounts: list[int]) -> None:
    found = query(told_twice, "SELECT amount FROM holders_known_at(?, ?) ORDER BY rank", t, known)
    assert found == [(amount,) for amount in amounts]


def test_knowledge_begins_with_the_first_answer_and_confirmations_do_not_move_it(told_twice: Warehouse) -> None:
    since, changed = FETCHED_AT, FETCHED_AT + timedelta(days=4)
    found = query(told_twice, "SELECT known_since, as_it_stands_since FROM knowledge WHERE timestamp = ?", DAYS[0])
    assert found == [(since, changed)]
    replaced = query(told_twice, "SELECT address, amount, fetched_at, known_until FROM replaced_holders")
    assert replaced == [("0x1", 1, since, changed)]
    assert query(told_twice, "SELECT address, fetched_at FROM holders WHERE timestamp = ? ORDER BY 1", DAYS[0]) == [
        ("0x1", changed),
        ("0x2", since),
    ]


# Exact amounts


def test_amounts_of_any_size_add_up_exactly(lake: Lake, warehouse: Warehouse) -> None:
    huge = 2**256 - 1
    held = {
        "0xa": {"0x1": huge, "0x2": "60000000000000000000.5", "0x3": "60000000000000000000.25", "0x4": "0.1"},
        "0xb": {"0x1": "1.5", "0x2": "2.5"},
        "0xc": {"0x1": "0.00000000000000000000001", "0x2": 1},
    }
    write_holders(lake, "eth", DAY, held)
    warehouse.load(lake)
    totals = (
        "SELECT exact_total(amount, amount_exact) AS total FROM holders GROUP BY token_address ORDER BY token_address"
    )
    assert query(warehouse, totals) == [
        (f"{huge + 120 * 10**18}.85",),
        ("4",),
        ("1.00000000000000000000001",),
    ]
    ordered = "SELECT address FROM holders WHERE token_address = '0xa' ORDER BY exact_number(amount, amount_exact)"
    assert query(warehouse, ordered) == [("0x4",), ("0x3",), ("0x2",), ("0x1",)]
    assert query(warehouse, f"SELECT as_amount(total), as_exact(total) FROM ({totals})") == [
        (None, f"{huge + 120 * 10**18}.85"),
        (Decimal(4), None),
        (None, "1.00000000000000000000001"),
    ]


# Holders through time


@pytest.fixture(scope="module")
def changing_holders(tmp_path_factory: pytest.TempPathFactory) -> Warehouse:
    """Four days of a token on Solana, whose addresses differ in case only; and a token of another chain."""
    folder = tmp_path_factory.mktemp("comings")
    lake, loaded = Lake(folder / "lake"), Warehouse(folder / "warehouse.duckdb")
    lists = [{"Ab": 9, "aB": 5}, {"Ab": 9, "AB": 3}, {"Ab": 4, "aB": 6}, {"aB": 6}]
    for day, held in zip(DAYS, lists, strict=False):
        write_holders(lake, "solana", day, {"Tok": held})
    for day in (DAYS[0], DAYS[3]):
        write_holders(lake, "eth", day, {"Tok": {"Ab": 1}})
    write(lake, "maps", "solana", DAYS[2], map_tables("solana", DAYS[2], {"Tok": [["Ab", "aB"]]}), {"Tok"})
    loaded.load(lake)
    return loaded


@pytest.mark.long
def test_entries_and_exits_are_listed_by_partition(changing_holders: Warehouse) -> None:
    changes = " FROM holder_changes(?, ?, each_list := true) WHERE change = '{}' AND chain = 'solana' ORDER BY ALL"
    entries = "SELECT day(to_timestamp), address, day(from_timestamp), amount_after" + changes.format("entered")
    assert query(changing_holders, entries, DAYS[0], DAYS[9]) == [(2, "AB", 1, 3), (3, "aB", 2, 6)]
    assert query(changing_holders, entries, DAYS[1], DAYS[9]) == [(3, "aB", 2, 6)]
    exits = "SELECT day(to_timestamp), address, day(from_timestamp), amount_before" + changes.format("left")
    assert query(changing_holders, exits, "2026-11-01", "2026-11-03") == [(2, "aB", 1, 5), (3, "AB", 2, 3)]
    assert query(changing_holders, exits, "2026-11-03", "2026-11-04") == [(4, "Ab", 3, 4)]


@pytest.mark.long
def test_a_holding_period_ends_when_the_list_lacks_the_address(changing_holders: Warehouse) -> None:
    found = query(
        changing_holders,
        "SELECT chain, address, period, day(entered_at), day(last_seen_at), day(left_at), days, partitions,"
        " from_the_start, first_amount, last_amount FROM holding_periods ORDER BY ALL",
    )
    assert found == [
        ("eth", "Ab", 1, 1, 4, None, 3, 2, True, 1, 1),
        ("solana", "AB", 1, 2, 2, 3, 0, 1, False, 3, 3),
        ("solana", "Ab", 1, 1, 3, 4, 2, 3, True, 9, 4),
        ("solana", "aB", 1, 1, 1, 2, 0, 1, True, 5, 5),
        ("solana", "aB", 2, 3, 4, None, 1, 2, False, 6, 6),
    ]


def test_address_history_covers_every_chain(changing_holders: Warehouse) -> None:
    found = query(
        changing_holders,
        "SELECT chain, day(timestamp), is_listed, amount, amount_change, role, cluster_id, cluster_holders"
        " FROM address_history('Ab') ORDER BY ALL",
    )
    assert found == [
        ("eth", 1, True, 1, None, None, None, None),
        ("eth", 4, True, 1, 0, None, None, None),
        ("solana", 1, True, 9, None, None, None, None),
        ("solana", 2, True, 9, 0, None, None, None),
        ("solana", 3, True, 4, -5, "top_holder", 1, 2),
    ]
    assert count(changing_holders, "address_history('AB')") == 1


def test_overlap_lists_each_pair_once_and_separates_exchanges(lake: Lake, warehouse: Warehouse) -> None:
    of_token = {"0xa": ["w1", "w2", "ex"], "0xb": ["w2", "ex", "w3", "w4"], "0xc": ["w9"]}
    listed = [
        {
            "token_address": token,
            "rank": rank,
            "address": address,
            "share": 0.1 * rank,
            "amount": Decimal(1),
            "is_cex": address == "ex",
            "is_dex": False,
            "is_contract": False,
        }
        for token, addresses in of_token.items()
        for rank, address in enumerate(addresses, 1)
    ]
    write(lake, "holders", "eth", DAY, {"holders": rows("holders", "eth", DAY, listed)}, set(of_token))
    warehouse.load(lake)
    found = query(
        warehouse,
        "SELECT token_a, token_b, common_holders, common_wallets, holders_of_a, holders_of_b, overlap,"
        " round(share_of_a_at_least, 9), round(share_of_b_at_least, 9), wallets_share_of_a_at_least"
        " FROM holder_overlap('2026-11-02')",
    )
    assert found == [("0xa", "0xb", 2, 1, 3, 4, 0.4, 0.5, 0.3, 0.2)]


def test_overlap_counts_a_wallet_if_it_is_one_on_both_chains(lake: Lake, warehouse: Warehouse) -> None:
    for chain, contract in (("bsc", "0x1"), ("eth", "0x2")):
        listed = [
            {"token_address": "0xa", "rank": rank, "address": address, "is_contract": address == contract}
            for rank, address in enumerate(("0x1", "0x2", "0x3"), 1)
        ]
        write(lake, "holders", chain, DAY, {"holders": rows("holders", chain, DAY, listed)}, {"0xa"})
    warehouse.load(lake)
    found = query(warehouse, "SELECT holders_at_least, wallets_at_least FROM holder_overlap('2026-11-02')")
    assert found == [(3, 1)]


# Clusters through time


@pytest.mark.long
def test_cluster_lineage_finds_mergers_and_splits(lake: Lake, warehouse: Warehouse) -> None:
    history = [
        [["a1", "a2", "a3", "a4"], ["b1", "b2"]],
        [["a1", "a2", "a3", "a4", "b1", "b2"]],
        [["a1", "a2", "a3"], ["a4", "b1", "b2"], ["c1", "c2"]],
    ]
    for day, clusters in zip(DAYS, history, strict=False):
        write_maps(lake, "eth", day, {"0xa": clusters})
    write(
        lake, "maps", "eth", DAYS[3], map_tables("eth", DAYS[3], {}), {"0xa"}, failures("eth", DAYS[3], ("map", "0xa"))
    )
    warehouse.load(lake)
    found = query(
        warehouse,
        "SELECT day(timestamp), cluster_id, previous_cluster_id, event, merged_from, split_from, round(overlap, 3)"
        " FROM cluster_lineage ORDER BY 1, 2 NULLS LAST, 3",
    )
    assert found == [
        (1, 1, None, "first", None, None, None),
        (1, 2, None, "first", None, None, None),
        (2, 1, 1, "merged", [1, 2], None, 0.667),
        (3, 1, 1, "split", None, 1, 0.5),
        (3, 2, None, "split", None, 1, None),
        (3, 3, None, "born", None, None, None),
        (4, None, 1, "died", None, None, None),
        (4, None, 2, "died", None, None, None),
        (4, None, 3, "died", None, None, None),
    ]
    lines = query(
        warehouse,
        "SELECT lineage, list(cluster_id ORDER BY timestamp), list(members ORDER BY timestamp)"
        " FROM cluster_history('0xA') GROUP BY lineage ORDER BY lineage",
    )
    assert lines == [
        ("2026-11-01 00:00:00/1", [1, 1, 1], [4, 6, 3]),
        ("2026-11-01 00:00:00/2", [2], [2]),
        ("2026-11-03 00:00:00/2", [2], [3]),
        ("2026-11-03 00:00:00/3", [3], [2]),
    ]


# Times


def test_a_date_alone_means_the_last_answer_of_the_day(lake: Lake, warehouse: Warehouse) -> None:
    for hours in (6, 18, 30):
        write_holders(lake, "eth", DAY + timedelta(hours=hours), {"0xa": {"0x1": hours}})
    warehouse.load(lake)
    found = query(warehouse, "SELECT amount, requested, days_earlier, is_outdated FROM holders_as_of('2026-11-01')")
    assert found == [(18, datetime(2026, 11, 1, 23, 59, 59, 999999), 0.25, False)]
    assert query(warehouse, "SELECT amount FROM holders_as_of('2026-11-01T00:00Z')") == []


def test_an_answer_is_outdated_beyond_the_setting(lake: Lake, new_warehouse: Warehouse) -> None:
    write_holders(lake, "eth", DAYS[0], {"0xa": {"0x1": 1}})
    asked = "SELECT days_earlier, is_outdated FROM holders_as_of('2026-11-04T00:00Z')"
    new_warehouse.load(lake)
    assert query(new_warehouse, asked) == [(3, True)]
    patient = Warehouse(new_warehouse.path, sql=SqlSettings(as_of_warning=timedelta(days=3)))
    patient.load(lake)
    assert query(patient, asked) == [(3, False)]


@pytest.mark.parametrize(
    "sql",
    [
        "FROM holder_changes('2026-11-05', '2026-11-04')",
        "FROM flows('one', 'day', since := '2026-11-05', until := '2026-11-04')",  # of a store without transfers
    ],
)
def test_a_period_that_ends_before_it_begins_is_an_error(named: Warehouse, sql: str) -> None:
    with pytest.raises(
        WarehouseError, match="the period ends at 2026-11-04, before it begins at 2026-11-05: swap them"
    ):
        query(named, sql)


def test_holders_on_maps_have_one_row_each(lake: Lake, warehouse: Warehouse) -> None:
    for day in DAYS[:3]:
        write_maps(lake, "eth", day, {"0xa": [["0x1", "0x2"]]}, score=day.day)
        write_holders(lake, "eth", day, {"0xa": {"0x1": 2, "0x2": 1, "0x3": 1}})
    write_holders(lake, "eth", DAYS[3], {"0xa": {"0x1": 2}})
    warehouse.load(lake)
    asked = "SELECT address, has_map, cluster_id, service_score FROM holders_on_maps_as_of(?) ORDER BY ALL"
    assert query(warehouse, asked, DAYS[2]) == [("0x1", True, 1, 3), ("0x2", True, 1, 3), ("0x3", True, None, 3)]
    assert query(warehouse, asked, DAYS[3]) == [("0x1", False, None, None)]


# Flows


@pytest.mark.long
def test_cluster_flows_sums_clusters_exchanges_and_wallets(lake: Lake, warehouse: Warehouse) -> None:
    def at(day: datetime, times: int) -> None:
        tables = map_tables("eth", day, {"0x7": [["a1", "a2"], ["b1", "b2"]]})
        of_token = {"token_address": "0x7"}
        moved = [
            ("a1", "b1", None, 10),
            ("a2", "b2", None, 20),
            ("a1", "ex", 1, 100),
            ("a2", "ex", 1, 200),
            ("ex", "b1", 1, 7),
            ("w1", "ex", 1, 1),
        ]
        edges = [
            of_token | {"time_node": node} | transfer(one, other, "0x7", "eth", str(value * times))
            for one, other, node, value in moved
        ]
        edges.append(of_token | {"time_node": None} | transfer("w1", "a1", "0x7", "eth", str(10**60 * times)))
        nodes = [
            of_token | {"kind": "top_holder", "address": "ex", "is_cex": True, "label": "Bourse"},
            of_token | {"kind": "time", "address": "ex", "time_node": 1},
        ]
        tables |= {
            "grouped_transfers": rows("grouped_transfers", "eth", day, edges),
            "map_nodes": rows("map_nodes", "eth", day, nodes),
        }
        write(lake, "maps", "eth", day, tables, {"0x7"})

    at(DAYS[0], 1)
    at(DAYS[1], 3)
    warehouse.load(lake)
    found = query(
        warehouse,
        "SELECT from_kind, coalesce(from_cluster_id::VARCHAR, from_exchange), to_kind,"
        " coalesce(to_cluster_id::VARCHAR, to_exchange), total_value, total_value_exact, total_transfers, senders"
        " FROM cluster_flows('2026-11-01') ORDER BY ALL",
    )
    assert found == [
        ("cluster", "1", "cluster", "2", 30, None, 4, 2),
        ("cluster", "1", "exchange", "Bourse", 300, None, 4, 2),
        ("exchange", "Bourse", "cluster", "2", 7, None, 2, 1),
        ("wallet", None, "cluster", "1", None, str(10**60), 2, 1),
        ("wallet", None, "exchange", "Bourse", 1, None, 2, 1),
    ]
    of_exchange = (
        "SELECT exchange, cluster_id, deposits, withdrawals, net, deposit_count FROM exchange_flows(?) ORDER BY 2"
    )
    assert query(warehouse, of_exchange, DAYS[5]) == [
        ("Bourse", 1, 900, 0, 900, 4),
        ("Bourse", 2, 0, 21, -21, 0),
        ("Bourse", None, 3, 0, 3, 2),
    ]
    sent = query(
        warehouse,
        "SELECT direction, counterparty, total_value, total_value_exact, is_window FROM address_transfers('a1')"
        " ORDER BY ALL",
    )
    assert sent == [
        ("received", "w1", None, str(3 * 10**60), False),
        ("sent", "b1", 30, None, False),
        ("sent", "ex", 300, None, True),
    ]


# Data quality


@pytest.mark.long
def test_data_quality_lists_each_kind_of_problem(lake: Lake, warehouse: Warehouse) -> None:
    def listed(day: datetime, *tokens: str, share: float = 0.1, unsent: Collection[str] = ()) -> None:
        held = [
            {"token_address": token, "rank": 1, "address": "0x1", "share": share, "amount": Decimal(1)}
            for token in tokens
        ]
        table = rows("holders", "eth", day, held)
        write(lake, "holders", "eth", day, {"holders": table}, set(tokens), final=True, unsent=unsent)

    listed(DAYS[0], "0xa", "0xb", "0xold")
    listed(DAYS[1], "0xa", unsent={"0xb"})
    listed(DAYS[2], "0xa", "0xb", share=1.5)
    listed(DAYS[6], "0xa", "0xb")
    listed(DAYS[6], "0xb", share=0.2)
    write(lake, "holders", "eth", DAYS[6], {}, set(), failures("eth", DAYS[6], ("holders", "0xnot")))
    odd = {"token_address": "0xa", "time_node": None} | transfer("0x1", "0x2", "0xa", "eth") | {"rel_type": "SWAPPED"}
    tables = map_tables("eth", DAYS[0], {"0xa": []})
    tables["grouped_transfers"] = rows("grouped_transfers", "eth", DAYS[0], [odd])
    write(lake, "maps", "eth", DAYS[0], tables, {"0xa"})
    warehouse.load(lake)
    found = query(
        warehouse,
        "SELECT issue, severity, day(timestamp), subject, round(found, 3) FROM data_quality "
        "WHERE issue <> 'odd_address' ORDER BY ALL NULLS FIRST",
    )
    assert found == [
        ("gap", "warning", 2, "0xb", None),
        ("missing_instant", "warning", 7, None, 3.0),
        ("no_holders", "info", 7, "0xnot", 1.0),
        ("revision", "info", 7, "0xb", 2.0),
        ("share_range", "error", 3, "0xa", 1.5),
        ("share_range", "error", 3, "0xb", 1.5),
        ("share_sum", "error", 3, "0xa", 1.5),
        ("share_sum", "error", 3, "0xb", 1.5),
        ("stale_token", "info", 1, "0xold", 6.0),
        ("unknown_relationship", "info", 1, "0xa", 1.0),
    ]


def test_lost_and_missing_content_is_named_by_token(lake: Lake, warehouse: Warehouse) -> None:
    lists = {"0xlost": (20, 9), "0xhalf": (20, 10), "0xsmall": (19, 1), "0xgone": (20, 0)}
    for place, day in enumerate(DAYS[:2]):
        held = {token: {f"0x{n}": 1 for n in range(counts[place])} for token, counts in lists.items()}
        lack = {"endpoint": "holders", "subject": "0xgone", "code": "missing_content", "reason": "the list is empty"}
        failed = rows("failures", "eth", day, [lack | {"place": "$"}] if place else [])
        write(lake, "holders", "eth", day, {"holders": holders("eth", day, held)}, set(lists), failed)
    warehouse.load(lake)
    found = (
        "SELECT issue, severity, day(timestamp), subject, found FROM data_quality WHERE issue IN (?, ?) ORDER BY ALL"
    )
    assert query(warehouse, found, "content_lost", "missing_content") == [
        ("content_lost", "warning", 2, "0xgone", 0),
        ("content_lost", "warning", 2, "0xlost", 9),
        ("missing_content", "warning", 2, "0xgone", None),
    ]


@pytest.mark.integration
def test_a_gap_is_a_token_that_was_requested_and_not_one_that_a_run_left_out(lake: Lake, warehouse: Warehouse) -> None:
    def listed(day: int, *tokens: str, unsent: Collection[str] = ()) -> None:
        table = holders("eth", DAYS[day], {token: {"0x1": 1} for token in tokens})
        write(lake, "holders", "eth", DAYS[day], {"holders": table}, set(tokens), unsent=unsent)

    listed(0, "0xa", "0xb")
    listed(1, "0xa")  # as with --token 0xa
    listed(2, "0xa", unsent={"0xb"})
    failed = {"endpoint": "holders", "subject": "0xb", "code": "unreachable", "reason": "timed out"}
    write(lake, "holders", "eth", DAYS[3], {}, set(), rows("failures", "eth", DAYS[3], [failed]))
    listed(4, "0xa", unsent={"0xb"})
    listed(4, "0xb")  # the run was resumed
    listed(5, "0xa", unsent={"0xnever"})
    listed(6, "0xa", unsent={"0xb"})
    warehouse.load(lake)
    found = "SELECT issue, severity, day(timestamp), subject, what FROM data_quality WHERE issue IN (?, ?) ORDER BY ALL"
    assert query(warehouse, found, "gap", "stale_token") == [
        ("gap", "warning", 3, "0xb", "the run stopped before the request"),
        ("gap", "warning", 4, "0xb", "the request failed"),
        ("gap", "warning", 6, "0xnever", "the run stopped before the request"),
        (
            *("stale_token", "warning", 5, "0xb"),
            "days older than the newest of its chain; requested since without an answer",
        ),
    ]


@pytest.mark.long
def test_a_token_without_holders_yet_is_one_fact_and_no_failure(lake: Lake, warehouse: Warehouse) -> None:
    def refused(family: str, day: datetime) -> None:
        endpoint = {"holders": "holders", "maps": "map"}[family]
        write(lake, family, "eth", day, {}, {"0xa"}, failures("eth", day, (endpoint, "0xa")))

    for day in DAYS[:3]:
        refused("holders", day)
        refused("maps", day)
    write_holders(lake, "eth", DAYS[3], {"0xa": {"0x1": 1}})
    refused("holders", DAYS[4])
    write_holders(lake, "eth", DAYS[5], {"0xa": {"0x1": 1}})
    refused("holders", DAYS[6])
    warehouse.load(lake)
    listed = "SELECT family, severity, day(timestamp), found FROM data_quality WHERE issue = 'no_holders' ORDER BY ALL"
    assert query(warehouse, listed) == [
        ("holders", "info", 3, 3.0),
        ("holders", "info", 7, 1.0),
        ("holders", "warning", 5, 1.0),
        ("maps", "info", 3, 3.0),
    ]
    assert query(warehouse, "SELECT * FROM data_quality WHERE issue = 'failure'") == []


@pytest.mark.long
def test_data_quality_names_the_families_as_the_table_of_partitions_does(lake: Lake, warehouse: Warehouse) -> None:
    endpoints = {"tokens": "tokens_metadata", "maps": "map", "subgraphs": "subgraph", "addresses": "addresses_metadata"}
    for family, endpoint in endpoints.items():
        failed = {"endpoint": endpoint, "subject": "0xa", "code": "unreachable", "reason": "no answer"}
        write(lake, family, "eth", DAY, {}, set(), rows("failures", "eth", DAY, [failed]), by="token")
    warehouse.load(lake)
    listed = query(warehouse, "SELECT DISTINCT family FROM data_quality ORDER BY ALL")
    assert listed == query(warehouse, "SELECT DISTINCT family FROM partitions ORDER BY ALL")
    assert {family for (family,) in listed} == set(endpoints)


@pytest.mark.integration
def test_the_end_of_the_data_comes_from_metadata_fetched_after_the_instant(lake: Lake, warehouse: Warehouse) -> None:
    def known(day: datetime, fetched_at: datetime) -> None:
        of_token = {"token_address": "0xa", "transfers_count": 100, "min_date": DAYS[0], "max_date": DAYS[1]}
        write(lake, "tokens", "eth", day, {"tokens": rows("tokens", "eth", day, [of_token], fetched_at)}, {"0xa"})

    write_maps(lake, "eth", DAYS[20], {"0xa": []})
    known(DAYS[1], DAYS[2])
    warehouse.load(lake)
    assert query(warehouse, "FROM after_source_end") == []  # later transfers were possible
    known(DAYS[20], DAYS[21])
    warehouse.load(lake)
    flagged = "SELECT timestamp, family, last_transfer, days_after FROM after_source_end"
    assert query(warehouse, flagged) == [(DAYS[20], "maps", DAYS[1], 19)]


# Answers to print


def test_an_exact_total_counts_rows_of_a_condition(lake: Lake, warehouse: Warehouse) -> None:
    write_holders(lake, "eth", DAYS[0], {"0xa": {"0x1": "5", "0x2": "2.5", "0x3": f"{10**30}"}})
    warehouse.load(lake)
    total = "SELECT exact_total(amount, amount_exact, counted := address <> {left_out}) FROM holders"
    assert query(warehouse, total.format(left_out="'0x3'")) == [("7.5",)]
    assert query(warehouse, total.format(left_out="'0x2'")) == [(f"{10**30 + 5}",)]
    with pytest.raises(WarehouseError, match="counted := condition"):
        query(warehouse, "SELECT exact_total(amount, amount_exact) FILTER (rank = 1) FROM holders")


def test_an_answer_to_print_has_intervals_as_text(small: Warehouse) -> None:
    answer = small.read('SELECT INTERVAL \'26 hours\' AS "a ""b""", INTERVAL 2 MONTH AS b, 1 AS n')
    assert answer.to_pylist() == [{'a "b"': "26:00:00", "b": "2 months", "n": 1}]


def test_whole_numbers_of_any_size_are_text(small: Warehouse) -> None:
    sql = f"SELECT sum('{10**60}'::BIGNUM) AS total FROM range(3)"
    assert small.read(sql).to_pylist() == small.query(sql).to_pylist() == [{"total": f"{3 * 10**60}"}]


def test_a_sum_beyond_the_decimal_names_the_exact_sum(small: Warehouse) -> None:
    with pytest.raises(WarehouseError, match="write exact_total"):
        query(small, "SELECT sum((9e19 + range)::DECIMAL(38, 18)) FROM range(3)")


def test_an_answer_comes_in_batches(small: Warehouse) -> None:
    sizes = [batch.num_rows for batch in small.batches("FROM range(25_000)")]
    assert (sizes[0], sum(sizes)) == (0, 25_000)
    assert len(sizes) > 2


# Symbols


@pytest.mark.long
def test_a_macro_takes_a_symbol_that_one_token_has(named: Warehouse) -> None:
    by_address = query(named, "FROM cluster_history('0xaa') ORDER BY ALL")
    assert len(by_address) == 2
    assert query(named, "FROM cluster_history('one') ORDER BY ALL") == by_address


@pytest.mark.long
def test_a_symbol_that_several_tokens_have_is_an_error(named: Warehouse) -> None:
    with pytest.raises(WarehouseError, match="several tokens have the symbol TWO: give the address of one"):
        query(named, "FROM cluster_history('two')")


@pytest.mark.parametrize(
    ("given", "error"),
    [
        ("onne", "no token has the symbol onne; similar: ONE, TWO"),
        ("0xab", "no token has the address 0xab; similar: 0xaa, 0xbb, 0xcc"),
        ("0x" + "9" * 40, "no token has the address 0x9{40}. The view known_tokens lists all"),
    ],
)
def test_an_unknown_token_is_an_error_with_similar_ones(named: Warehouse, given: str, error: str) -> None:
    macros = (
        "cluster_history(?)",
        "flows(?, 'day')",
        "balances_at(?, '2026-01-01')",
        "balance_history('a', ?)",
        "holder_counts(?)",
    )
    for sql in ("SELECT token_of(?)", *(f"FROM {macro}" for macro in macros)):
        with pytest.raises(WarehouseError, match=error):
            query(named, sql, given)


@pytest.mark.parametrize("macro", ["balance_history('w1', ?)", "holder_counts(?)", "item_owner_at(?, 1, '2026-11-01')"])
def test_a_token_without_stored_transfers_is_an_error(named: Warehouse, macro: str) -> None:
    with pytest.raises(WarehouseError, match=r"your store has no transfers of one\. The view stored_tokens lists its"):
        query(named, f"FROM {macro}", "one")


@pytest.mark.parametrize("macro", ["address_history", "address_transfers", "transfers_of"])
def test_a_text_that_is_no_address_is_an_error(named: Warehouse, macro: str) -> None:
    for given in ("Northgate 7", "0x" + "a" * 39, "w3"):
        with pytest.raises(WarehouseError, match=f"'{given}' is no address, and no row has it: .* address_names"):
            query(named, f"FROM {macro}(?)", given)
    for unknown in ("0x" + "A" * 40, "native", "ZZ5e8o4D8Zdir9Fq3EHRMywEesTHBivZcNKReKqU1Zh"):
        assert query(named, f"FROM {macro}(?)", unknown) == []


def test_an_address_of_a_row_is_known_in_any_form(named: Warehouse) -> None:
    assert len(query(named, "FROM address_history('w1')")) == 6


@pytest.fixture(scope="module")
def named(tmp_path_factory: pytest.TempPathFactory) -> Warehouse:
    """Three tokens with a cluster each; two of them have the same symbol."""
    folder = tmp_path_factory.mktemp("named")
    lake, loaded = Lake(folder / "lake"), Warehouse(folder / "warehouse.duckdb")
    symbols = {"0xaa": "ONE", "0xbb": "TWO", "0xcc": "TWO"}
    for day in DAYS[:2]:
        listed = [{"token_address": address, "symbol": symbol} for address, symbol in symbols.items()]
        write(lake, "tokens", "eth", day, {"tokens": rows("tokens", "eth", day, listed)}, set(symbols))
        tables = map_tables("eth", day, {address: [["w1", "w2"]] for address in symbols})
        write(lake, "maps", "eth", day, tables, set(symbols))
    loaded.load(lake)
    return loaded
