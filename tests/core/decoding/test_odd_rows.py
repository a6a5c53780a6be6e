"""Odd rows are stored unchanged, and the view ``data_quality`` lists each of them."""

from __future__ import annotations

from datetime import datetime, timedelta
from typing import Any

import pytest
from msgspec import Raw
from msgspec.json import encode

from holderlake.core.contract.tables import TABLES, with_fetched_at
from holderlake.core.decoding.answers import holder_rows, map_tables
from holderlake.core.lake.lake import Lake
from holderlake.core.warehouse.warehouse import Warehouse
from tests.core.contract.answers import ALICE, BOB, CAROL, TOKEN, details, holder, scores, token_map, transfer
from tests.helpers.lakes import write

pytestmark = pytest.mark.integration

AS_OF = datetime(2026, 11, 20)
FETCHED_AT = datetime(2026, 11, 21)
METRICS = token_map()["metrics"]
CLUSTER = token_map()["clusters"][0]


def map_of(**changed: Any) -> Any:
    """A map that differs from an ordinary one in some blocks."""
    return token_map(**changed)


def holders_of(*odd: Any) -> Any:
    """A list of two ordinary holders and some others."""
    return [holder(ALICE, 1), holder(BOB, 2), *odd]


def edges(**changed: Any) -> Any:
    return token_map(relationships=[transfer(ALICE, BOB, **changed)])


def nodes(*top: Any) -> Any:
    return token_map(nodes={"top_holders": [one | {"is_shown_on_map": True} for one in top]}, clusters=None)


ODD: dict[str, tuple[Any, str, str]] = {
    "a share above 1 by rounding": (holders_of(holder(CAROL, 3, share=1.0000000000000002)), "share_range", "info"),
    "a share below 0 by rounding": (holders_of(holder(CAROL, 3, share=-1e-19)), "share_range", "info"),
    "a share of 1.5": (holders_of(holder(CAROL, 3, share=1.5)), "share_range", "error"),
    "a node's share": (nodes(holder(ALICE, 1, share=-0.5)), "share_range", "error"),
    "a cluster's share": (map_of(clusters=[CLUSTER | {"share": 2}]), "share_range", "error"),
    "a share of supply": (map_of(metrics=METRICS | {"supply_stats": {"cexs": 1.1}}), "share_range", "error"),
    "a score of 101": (map_of(metrics=METRICS | {"scores": scores(service_score=101)}), "score_range", "error"),
    "a gini of 1.2": (map_of(metrics=METRICS | {"scores": scores(gini_index=1.2)}), "score_range", "error"),
    "two scores": (map_of(metrics=METRICS | {"scores": scores(x_score=1)}), "several_scores", "info"),
    "rank 0": (holders_of(holder(CAROL, 0)), "rank_gap", "error"),
    "equal ranks": ([holder(ALICE, 1), holder(BOB, 1), holder(CAROL, 3)], "rank_gap", "error"),
    "no ranks": ([{"address": ALICE}], "rank_gap", "error"),
    "no amount": ([holder(ALICE, 1, amount=None)], "missing_value", "warning"),  # type: ignore[arg-type]
    "a transfer without data": (
        map_of(relationships=[{"from_address": ALICE, "to_address": BOB}]),
        "missing_value",
        "warning",
    ),
    "a cluster without a share": (map_of(clusters=[CLUSTER | {"share": None}]), "missing_value", "warning"),
    "a map without a time": (map_of(metadata={}), "missing_value", "warning"),
    "a negative amount": (holders_of(holder(CAROL, 3, amount=-1)), "negative", "error"),
    "a negative degree": (nodes(holder(ALICE, 1, address_details=details(degree=-1))), "negative", "error"),
    "a negative number of transfers": (edges(total_transfers=-1), "negative", "error"),
    "a repeated holder": (holders_of(holder(ALICE, 3)), "repeated_row", "error"),
    "a repeated node": (nodes(holder(ALICE, 1), holder(ALICE, 2)), "repeated_row", "error"),
    "a repeated relationship": (map_of(relationships=[transfer(ALICE, BOB)] * 2), "repeated_row", "error"),
    "a repeated member": (map_of(clusters=[CLUSTER | {"holders": [ALICE, ALICE]}]), "repeated_row", "error"),
    "clusters that overlap": (map_of(clusters=[CLUSTER, CLUSTER]), "repeated_row", "error"),
    "dates in the wrong order": (edges(first_date=20, last_date=10), "date_order", "error"),
    "a date ahead": (edges(last_date=4_000_000_000), "date_ahead", "warning"),
    "a short address": (holders_of(holder("0x12", 3)), "odd_address", "warning"),
    "a name for an address": (edges(token_key={"chain": "eth", "address": "a b"}), "odd_address", "warning"),
    "an odd chain": (edges(token_key={"chain": "chain/1", "address": TOKEN}), "odd_address", "warning"),
    "a control character": (
        holders_of(holder(CAROL, 3, address_details=details(label="a\x1b[31m"))),
        "odd_text",
        "warning",
    ),
    "a replaced character": (
        holders_of(holder(CAROL, 3, address_details=details(label=Raw(b'"\\ud800"')))),
        "odd_text",
        "warning",
    ),
}


ORDINARY = {"an ordinary map": token_map(), "ordinary holders": [holder(ALICE, 1), holder(BOB, 2)]}
CASES = {name: plain for name, (plain, _, _) in ODD.items()} | ORDINARY


def family_of(plain: Any) -> str:
    return "holders" if isinstance(plain, list) else "maps"


@pytest.fixture(scope="module")
def problems(tmp_path_factory: pytest.TempPathFactory) -> dict[str, list[tuple[Any, ...]]]:
    """Problems by case, in a lake with one case a day."""
    folder = tmp_path_factory.mktemp("odd")
    lake, warehouse = Lake(folder / "lake"), Warehouse(folder / "warehouse.duckdb")
    days = {name: AS_OF - timedelta(days=number) for number, name in enumerate(CASES)}
    for name, plain in CASES.items():
        decode = holder_rows if family_of(plain) == "holders" else map_tables
        tables = decode([encode(plain)], "eth", [TOKEN], days[name]).tables
        stamped = {table: with_fetched_at(TABLES[table], rows, FETCHED_AT) for table, rows in tables.items()}
        write(lake, family_of(plain), "eth", days[name], stamped, {TOKEN})
    warehouse.load(lake)
    listed = warehouse.query("SELECT timestamp, issue, severity, family, subject, what FROM data_quality ORDER BY ALL")
    return {
        name: [tuple(row.values())[1:] for row in listed.to_pylist() if row["timestamp"] == day]
        for name, day in days.items()
    }


@pytest.mark.parametrize("name", ODD)
def test_an_odd_row_is_listed_with_its_severity(problems: dict[str, list[tuple[Any, ...]]], name: str) -> None:
    plain, issue, severity = ODD[name]
    assert (issue, severity, family_of(plain), TOKEN) in [row[:4] for row in problems[name]]
    assert all(row[4] for row in problems[name])


@pytest.mark.parametrize("name", ORDINARY)
def test_an_ordinary_answer_has_no_problems(problems: dict[str, list[tuple[Any, ...]]], name: str) -> None:
    assert problems[name] == []
