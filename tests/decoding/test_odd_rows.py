"""Odd rows land as the provider said them, and analysts see each in the view ``data_quality``."""

from __future__ import annotations

from datetime import datetime
from typing import Any

import pytest
from msgspec import Raw
from msgspec.json import encode

from holderlake import decoding
from holderlake.contract.tables import TABLES, with_fetched_at
from holderlake.lake.lake import Lake
from holderlake.warehouse.warehouse import Warehouse
from tests.contract.answers import ALICE, BOB, CAROL, TOKEN, details, holder, scores, token_map, transfer
from tests.lakes import write

AS_OF = datetime(2026, 11, 20)
LEARNT = datetime(2026, 11, 21)
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
    "a negative amount": (holders_of(holder(CAROL, 3, amount=-1)), "negative_amount", "error"),
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


def found(lake: Lake, warehouse: Warehouse, plain: Any) -> list[tuple[Any, ...]]:
    """Problems of a lake with one answer."""
    raws = [encode(plain)]
    family = "holders" if isinstance(plain, list) else "maps"
    decode = decoding.holder_rows if family == "holders" else decoding.map_tables
    tables = decode(raws, "eth", [TOKEN], AS_OF).tables
    stamped = {name: with_fetched_at(TABLES[name], rows, LEARNT) for name, rows in tables.items()}
    write(lake, family, "eth", AS_OF, stamped, {TOKEN})
    warehouse.load(lake)
    listed = warehouse.query("SELECT issue, severity, family, subject, what FROM data_quality ORDER BY ALL")
    return [tuple(row.values()) for row in listed.to_pylist()]


@pytest.mark.parametrize(("plain", "issue", "severity"), ODD.values(), ids=ODD.keys())
def test_an_odd_row_is_listed_with_its_severity(
    lake: Lake, warehouse: Warehouse, plain: Any, issue: str, severity: str
) -> None:
    rows = found(lake, warehouse, plain)
    family = "holders" if isinstance(plain, list) else "maps"
    assert (issue, severity, family, TOKEN) in [row[:4] for row in rows]
    assert all(row[4] for row in rows)


@pytest.mark.parametrize("plain", [token_map(), [holder(ALICE, 1), holder(BOB, 2)]], ids=["map", "holders"])
def test_an_ordinary_answer_has_no_problems(lake: Lake, warehouse: Warehouse, plain: Any) -> None:
    assert found(lake, warehouse, plain) == []
