"""Rows that contradict each other or themselves are listed with their token, and correct rows are not."""

from __future__ import annotations

from collections.abc import Iterator
from datetime import timedelta
from pathlib import Path

import duckdb
import pytest

from holderlake.core.lake.lake import Lake
from holderlake.core.warehouse.warehouse import Warehouse
from tests.helpers.lakes import DAYS, map_tables, rows, write

AT = DAYS[0]
TOKEN = "0x7"
FOUND = "SELECT what, found FROM data_quality WHERE issue = 'contradiction' AND severity = 'error'"


@pytest.fixture(scope="module")
def loaded(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The warehouse of a token with three holders, two of them in a cluster, whose rows agree."""
    folder = tmp_path_factory.mktemp("agreeing")
    lake, of_token = Lake(folder / "lake"), {"token_address": TOKEN}
    held = {"0xa": 50, "0xb": 30, "0xc": 20}
    listed = [
        of_token
        | {"rank": rank, "address": address, "share": amount / 100, "amount": amount}
        | {"degree": 3, "inward_relations": 2, "outward_relations": 2}
        for rank, (address, amount) in enumerate(held.items(), 1)
    ]
    write(lake, "holders", "eth", AT, {"holders": rows("holders", "eth", AT, listed)}, {TOKEN})
    tables = map_tables("eth", AT, {TOKEN: [["0xa", "0xb"]]})
    nodes = [
        of_token
        | {"kind": "top_holder", "address": address, "is_shown_on_map": True, "share": amount / 100}
        | {"rank": rank, "amount": amount}
        for rank, (address, amount) in enumerate(held.items(), 1)
    ]
    cluster = {"cluster_id": 1, "share": 0.8, "amount": 80, "holder_count": 2, "magic_node_count": 0}
    tables["map_nodes"] = rows("map_nodes", "eth", AT, nodes)
    tables["clusters"] = rows("clusters", "eth", AT, [of_token | cluster])
    write(lake, "maps", "eth", AT, tables, {TOKEN})
    dates = {"min_date": AT - timedelta(days=9), "max_date": AT, "transfers_count": 9}
    write(lake, "tokens", "eth", AT, {"tokens": rows("tokens", "eth", AT, [of_token | dates])}, {TOKEN})
    Warehouse(folder / "warehouse.duckdb").load(lake)
    return folder / "warehouse.duckdb"


@pytest.fixture
def warehouse(loaded: Path) -> Iterator[duckdb.DuckDBPyConnection]:
    """A connection whose changes are undone."""
    with duckdb.connect(str(loaded)) as connection:
        connection.begin()
        yield connection
        connection.rollback()


@pytest.mark.long
def test_rows_that_agree_are_not_listed(warehouse: duckdb.DuckDBPyConnection) -> None:
    assert warehouse.sql(FOUND).fetchall() == []


@pytest.mark.later(integration=2, long=5)
@pytest.mark.parametrize(
    ("wrong", "what"),
    [
        ("UPDATE holders SET amount = 60, share = 0.6 WHERE rank = 2", "holders with more than the rank before"),
        ("UPDATE holders SET share = 0.2 WHERE rank = 2", "shares that do not fit the amounts"),
        ("UPDATE holders SET degree = 9 WHERE rank = 2", "addresses whose degree does not fit their relations"),
        ("UPDATE map_nodes SET amount = 51 WHERE rank = 1", "largest holders who differ from the list"),
        ("UPDATE clusters SET holder_count = 3", "clusters with other counts than their members"),
        ("UPDATE clusters SET share = 0.7", "clusters with another share than their members"),
        ("DELETE FROM map_nodes WHERE address = '0xb'", "clusters with members that are no holder on the map"),
        ("UPDATE grouped_transfers SET to_address = from_address", "transfers of an address with itself"),
        ("UPDATE grouped_transfers SET total_transfers = 0", "relationships without a transfer"),
        (
            "UPDATE grouped_transfers SET total_transfers = 1, last_date = first_date + INTERVAL 1 HOUR",
            "single transfers with two dates",
        ),
        ("UPDATE grouped_transfers SET last_date = timestamp + INTERVAL 2 DAY", "transfers after the instant"),
        ("UPDATE tokens SET min_date = max_date + INTERVAL 1 DAY", "tokens with a first transfer after the last"),
        ("UPDATE tokens SET transfers_count = 0", "tokens with dates of transfers, but without transfers"),
    ],
)
def test_a_contradiction_is_listed_with_its_number_of_cases(
    warehouse: duckdb.DuckDBPyConnection, wrong: str, what: str
) -> None:
    warehouse.execute(wrong)
    found = warehouse.sql(FOUND).fetchall()
    assert [(sentence.startswith(what), cases) for sentence, cases in found] == [(True, 1)], found
