"""The lake's Parquet files alone answer as the warehouse does, and frames hold answers exactly."""

from __future__ import annotations

import subprocess
import sys
from datetime import datetime, timedelta
from decimal import Decimal
from pathlib import Path

import duckdb
import pandas as pd
import polars as pl
import pyarrow as pa
import pytest

from contract.tables import TABLES
from resources import frames, lake_views, layout
from resources.lake import Lake
from resources.warehouse import Warehouse, WarehouseError
from tests.resources.lakes import LEARNT, failures, holders, map_tables, rows, transfer, write, write_holders

ROOT = Path(__file__).parents[2]
INSTANTS = [datetime(2024, 12, 1), datetime(2025, 6, 1), datetime(2025, 12, 1), datetime(2026, 6, 1)]
ONE, OTHER, EXCHANGE = (f"0x{digit * 40}" for digit in "129")
HUGE = 2**256 - 1


def fill(lake: Lake) -> None:
    """Two chains, two tokens and four instants, with something for every view to tell."""
    for number, instant in enumerate(INSTANTS):
        for chain in ("eth", "base"):
            held = {ONE: HUGE - number, OTHER: f"{number}.5"} if number != 2 else {ONE: 5, EXCHANGE: 3}
            listed = holders(chain, instant, {OTHER: held, "0xb": {ONE: 1, OTHER: 2}})
            write(lake, "holders", chain, instant, {"holders": listed}, {OTHER, "0xb"})
            fill_map(lake, chain, instant, number)
        token = {"token_address": OTHER, "name": "Name", "symbol": "SYM", "is_indexed": True, "transfers_count": 7}
        write(lake, "tokens", "eth", instant, {"tokens": rows("tokens", "eth", instant, [token])}, {OTHER})
        named = {"address": ONE, "label": f"once {number}", "is_cex": True}
        write(
            lake,
            "addresses",
            "eth",
            instant,
            {"addresses": rows("addresses", "eth", instant, [named])},
            {ONE},
            by="address",
        )
    friends = rows(
        "subgraph_transfers", "eth", INSTANTS[0], [{"address_set": "f"} | transfer(ONE, OTHER, "0x7", "eth")]
    )
    write(lake, "subgraphs", "eth", INSTANTS[0], {"subgraph_transfers": friends}, {"f"}, by="address_set")
    again = holders("eth", INSTANTS[1], {"0xb": {ONE: 9}})
    again = again.set_column(again.num_columns - 1, "fetched_at", [[LEARNT + timedelta(days=1)]])
    write(lake, "holders", "eth", INSTANTS[1], {"holders": again}, {"0xb"}, final=True)
    nobody = TABLES["holders"].schema.empty_table()
    refused = failures("eth", INSTANTS[3], ("holders", "0xb"))
    write(lake, "holders", "eth", INSTANTS[3], {"holders": nobody}, {"0xb"}, refused)


def fill_map(lake: Lake, chain: str, instant: datetime, number: int) -> None:
    clusters = [[ONE, "0xc"], ["0xd", "0xe"]] if number % 2 else [[ONE, "0xc", "0xd"]]
    tables = map_tables(chain, instant, {OTHER: clusters, "0xb": []}, 40.0 + number)
    of_token = {"token_address": OTHER}
    edges = [
        of_token | {"time_node": None} | transfer(ONE, OTHER, "0x7", chain, str(10**30), number + 1),
        of_token | {"time_node": 1} | transfer(ONE, EXCHANGE, "0x7", chain, "4"),
        of_token | {"time_node": 1, "rel_type": "SWAPPED"} | transfer("0xd", EXCHANGE, "0x7", chain, "5") | of_token,
    ]
    nodes = [
        of_token
        | {"kind": "top_holder", "address": EXCHANGE, "is_cex": True, "label": "Bourse", "share": 0.1, "rank": 1},
        of_token | {"kind": "time", "address": EXCHANGE, "time_node": 1},
    ]
    tables["grouped_transfers"] = rows("grouped_transfers", chain, instant, edges)
    tables["map_nodes"] = pa.concat_tables([tables["map_nodes"], rows("map_nodes", chain, instant, nodes)])
    write(lake, "maps", chain, instant, tables, {OTHER, "0xb"})


@pytest.fixture(scope="module")
def home(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A home with a lake, a warehouse loaded from it, and, beside what is committed, a file of no manifest."""
    folder = tmp_path_factory.mktemp("home")
    lake = Lake(folder / "lake")
    fill(lake)
    Warehouse(folder / "warehouse.duckdb").load(lake)
    write_holders(lake, "eth", datetime(2026, 7, 1), {OTHER: {"0xf": 1}})
    lake.root.joinpath("_manifests", "chain=eth", "timestamp=20260701T000000Z", "holders.json").unlink()
    return folder


@pytest.fixture(scope="module")
def alone(home: Path) -> duckdb.DuckDBPyConnection:
    """A DuckDB that knows nothing but the script."""
    connection = duckdb.connect()
    connection.execute(lake_views.script(Lake(home / "lake")))
    return connection


@pytest.mark.parametrize("asked", [*TABLES, *layout.OWN_TABLES])
def test_a_table_has_the_same_rows_columns_and_types_over_parquet(
    home: Path, alone: duckdb.DuckDBPyConnection, asked: str
) -> None:
    query = f"FROM {asked} ORDER BY ALL"
    assert alone.sql(query).to_arrow_table().equals(Warehouse(home / "warehouse.duckdb").query(query))


@pytest.mark.parametrize("query", layout.queries(), ids=lambda query: query.name)
def test_an_example_has_the_same_answer_over_parquet(
    home: Path, alone: duckdb.DuckDBPyConnection, query: layout.Query
) -> None:
    ours = Warehouse(home / "warehouse.duckdb").query(query.example)
    assert ours.num_rows, "the example shows nothing here"
    theirs = alone.sql(query.example).to_arrow_table()
    assert ours.schema == theirs.schema
    assert sorted(map(repr, ours.to_pylist())) == sorted(map(repr, theirs.to_pylist()))


def test_a_table_that_nothing_was_written_of_is_there_and_empty(tmp_path: Path) -> None:
    lake = Lake(tmp_path / "the 'lake'")
    write_holders(lake, "eth", INSTANTS[0], {"0xa": {"0x1": 1}})
    with duckdb.connect() as connection:
        connection.execute(lake_views.script(lake))
        assert connection.sql("FROM revisions").fetchall() == []
        assert len(connection.sql("FROM latest_holders").fetchall()) == 1


# Frames


@pytest.fixture(scope="module", params=["warehouse", "lake"])
def asked(request: pytest.FixtureRequest, home: Path) -> frames.Frames:
    paths = {"warehouse": home / "warehouse.duckdb", "lake": home / "lake"}
    made: frames.Frames = getattr(frames, request.param)(paths[request.param])
    return made


def test_a_frame_of_each_kind_keeps_amounts_exact_and_whole_numbers_whole(asked: frames.Frames) -> None:
    sql = "SELECT amount, rank, is_cex, timestamp FROM holders_as_of(?) WHERE address = ? ORDER BY ALL"
    values = [INSTANTS[0], OTHER]
    in_pandas, in_polars, in_arrow = asked.pandas(sql, values), asked.polars(sql, values), asked.arrow(sql, values)
    expected = [Decimal("0.5"), Decimal("0.5"), Decimal(2), Decimal(2)]
    assert list(in_pandas["amount"]) == in_polars["amount"].to_list() == in_arrow["amount"].to_pylist() == expected
    assert (in_pandas["amount"] * 2).sum() == 10
    assert in_pandas.dtypes["rank"] == pd.Int64Dtype()
    assert in_pandas.dtypes["is_cex"] == pd.BooleanDtype()
    assert in_pandas.dtypes["timestamp"] == "datetime64[us]"
    assert in_polars.schema["amount"] == pl.Decimal(38, 18)
    assert in_polars.schema["timestamp"] == pl.Datetime("us")


def test_a_faulty_query_is_told_in_duckdb_s_words(asked: frames.Frames) -> None:
    with pytest.raises(WarehouseError, match="nothing"):
        asked.pandas("FROM nothing")


def test_who_lacks_polars_is_told_what_to_do(asked: frames.Frames, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "polars", None)
    with pytest.raises(ImportError, match="pip install polars"):
        asked.polars("SELECT 1")


def test_one_line_of_python_needs_no_path(home: Path) -> None:
    line = "from resources.frames import warehouse; print(len(warehouse().pandas('FROM latest_holders')))"
    done = subprocess.run(
        [sys.executable, "-c", line],
        cwd=ROOT,
        env={"HOLDERLAKE_HOME": str(home)},
        capture_output=True,
        text=True,
        check=True,
        timeout=60,
    )
    assert done.stdout == "6\n"
