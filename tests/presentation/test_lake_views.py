"""Views over the lake's Parquet files return the same rows as the warehouse, and data frames are exact."""

from __future__ import annotations

import json
import subprocess
import sys
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from decimal import Decimal
from pathlib import Path
from typing import Any

import duckdb
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

import holderlake
from holderlake.analysis.entities.links import MARKED, find_entities
from holderlake.core.contract.tables import TABLES
from holderlake.core.lake.damage import Damage, damages
from holderlake.core.lake.lake import Lake
from holderlake.core.warehouse import schema
from holderlake.core.warehouse.connections import run_query
from holderlake.core.warehouse.warehouse import Warehouse, WarehouseError
from holderlake.engine.records import TRANSFERS, Label, TokenInfo
from holderlake.engine.store.store import Store
from holderlake.presentation import lake_views
from holderlake.presentation.dataframes import DataFrames, QueryNote
from holderlake.sources.rpc.undone import record_undone
from holderlake.sources.rpc.verified import record
from holderlake.sources.rpc.verify import NodeCheck
from holderlake.sources.store import stored_transfers
from tests.engine.world import transfer as raw_transfer
from tests.helpers.lakes import FETCHED_AT, failures, holders, map_tables, rows, transfer, write, write_holders
from tests.helpers.processes import HOLDERLAKE

ROOT = Path(__file__).parents[3]
INSTANTS = [datetime(2024, 12, 1), datetime(2025, 6, 1), datetime(2025, 12, 1), datetime(2026, 6, 1)]
ONE, OTHER, EXCHANGE = (f"0x{digit * 40}" for digit in "129")
HUGE = 2**256 - 1


def fill(lake: Lake) -> None:
    """Write two chains, two tokens and four instants, with rows for every view."""
    earlier = FETCHED_AT - timedelta(days=1)
    once = rows("tokens", "eth", INSTANTS[0], [{"token_address": OTHER, "name": "Once"}])
    write(lake, "tokens", "eth", INSTANTS[0], {"tokens": once}, {OTHER}, at=earlier)
    other_map = map_tables("eth", INSTANTS[0], {OTHER: [[EXCHANGE, "0xf"]]}, 1.0)
    write(lake, "maps", "eth", INSTANTS[0], other_map, {OTHER}, at=earlier)
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
    ended = {"token_address": "0xb", "max_date": INSTANTS[0] - timedelta(days=30)}
    write(lake, "tokens", "base", INSTANTS[3], {"tokens": rows("tokens", "base", INSTANTS[3], [ended])}, {"0xb"})
    friends = rows(
        "subgraph_transfers", "eth", INSTANTS[0], [{"address_set": "f"} | transfer(ONE, OTHER, "0x7", "eth")]
    )
    write(lake, "subgraphs", "eth", INSTANTS[0], {"subgraph_transfers": friends}, {"f"}, by="address_set")
    again = holders("eth", INSTANTS[1], {"0xb": {ONE: 9}})
    write(
        lake, "holders", "eth", INSTANTS[1], {"holders": again}, {"0xb"}, final=True, at=FETCHED_AT + timedelta(days=1)
    )
    no_holders = TABLES["holders"].schema.empty_table()
    refused = failures("eth", INSTANTS[3], ("holders", "0xb"))
    write(lake, "holders", "eth", INSTANTS[3], {"holders": no_holders}, {"0xb"}, refused)


def own_transfer(sender: str, receiver: str, raw: int, token: str = ONE) -> dict[str, Any]:
    second = int(INSTANTS[3].replace(tzinfo=UTC).timestamp())
    return raw_transfer(f"{sender} -> {receiver}", raw, second, token=("eth", token))


def fill_map(lake: Lake, chain: str, instant: datetime, number: int) -> None:
    clusters = [[ONE, "0xc"], ["0xe", "0xf"]] if number % 2 else [[ONE, "0xc", "0xd"]]
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
    """A home with a lake, a warehouse loaded from it, and a file that is in no manifest."""
    folder = tmp_path_factory.mktemp("home")
    lake = Lake(folder / "lake")
    fill(lake)
    with Store(folder / "engine") as store:
        store.add_tokens([TokenInfo("eth", ONE, "One", "ONE", 2)])
        store.add_labels([Label(f"0x{'4' * 40}", None, "test", "Ann", valid_to=1_767_225_600)])
        moved = [("mint", ONE, 9 * 10**40), (ONE, OTHER, 25), (OTHER, ONE, 5)]
        item = own_transfer("mint", ONE, 1, token=f"0x{'3' * 40}") | {"token_id": "1", "token_standard": "erc721"}
        transfers = [*(own_transfer(*one) for one in moved), item]
        store.add_transfers(pa.Table.from_pylist(transfers, TRANSFERS), "test")
        of_the_coin = pa.Table.from_pylist([own_transfer(*one, token="native") for one in moved], TRANSFERS)
        pq.write_table(of_the_coin, folder / "coin.parquet")
        own_entities = folder / "engine" / "entities"
        find_entities([str(folder / "coin.parquet")], MARKED.empty_table(), own_entities, confidence=0.3)
    checked = NodeCheck("eth", [OTHER], "node", first=1, last=9, as_of=datetime(2026, 6, 1))
    record(store.root, checked, datetime(2026, 6, 2))
    with Store(store.root) as store:
        record_undone(store, "eth", 0, datetime(2026, 6, 3))
    Warehouse(folder / "warehouse.duckdb", lambda: stored_transfers(store.root)).load(lake)
    write_holders(lake, "eth", datetime(2026, 7, 1), {OTHER: {"0xf": 1}})
    lake.root.joinpath("_manifests", "chain=eth", "timestamp=20260701T000000Z", "holders.json").unlink()
    return folder


@pytest.fixture(scope="module")
def alone(home: Path) -> duckdb.DuckDBPyConnection:
    """A DuckDB that knows nothing but the script."""
    connection = duckdb.connect()
    connection.execute(
        lake_views.script(Lake(home / "lake"), own_folder=Warehouse(home / "warehouse.duckdb").transfers)
    )
    return connection


@pytest.mark.later(integration=4, long=8)
@pytest.mark.parametrize("asked", [*TABLES, *schema.OWN_TABLES])
def test_a_table_has_the_same_rows_columns_and_types_over_parquet(
    home: Path, alone: duckdb.DuckDBPyConnection, asked: str
) -> None:
    query = f"FROM {asked} ORDER BY ALL"
    assert alone.sql(query).to_arrow_table().equals(Warehouse(home / "warehouse.duckdb").query(query))


@pytest.mark.later(integration=2, long=5)
@pytest.mark.parametrize("query", schema.queries(), ids=lambda query: query.name)
def test_an_example_has_the_same_answer_over_parquet(
    home: Path, alone: duckdb.DuckDBPyConnection, query: schema.Query
) -> None:
    ours = Warehouse(home / "warehouse.duckdb").query(query.example)
    assert ours.num_rows, "the example shows nothing here"
    theirs = run_query(alone, query.example)
    assert ours.schema == theirs.schema
    assert sorted(map(repr, ours.to_pylist())) == sorted(map(repr, theirs.to_pylist()))


@pytest.mark.long
def test_a_table_without_files_is_empty(tmp_path: Path) -> None:
    lake = Lake(tmp_path / "the 'lake'")
    write_holders(lake, "eth", INSTANTS[0], {"0xa": {"0x1": 1}})
    with duckdb.connect() as connection:
        connection.execute(lake_views.script(lake))
        assert connection.sql("FROM revisions").fetchall() == []
        assert len(connection.sql("FROM latest_holders").fetchall()) == 1


# Damage


@pytest.fixture
def two_days(tmp_path: Path) -> Lake:
    """A lake with a partition of holders, with a failure, on each of two days."""
    lake = Lake(tmp_path / "lake")
    for number, instant in enumerate(INSTANTS[:2]):
        held = holders("eth", instant, {"0xa": {f"0x{number}": 1}})
        write(lake, "holders", "eth", instant, {"holders": held}, {"0xa"}, failures("eth", instant, ("holders", "0xb")))
    return lake


def first_file(lake: Lake, table: str, instant: datetime = INSTANTS[0]) -> Path:
    (path,) = lake.root.glob(f"{table}/chain=eth/timestamp={instant:%Y%m%dT%H%M%SZ}/*")
    return path


def listed(lake: Lake, every_byte: bool = False) -> list[tuple[str]]:
    """Addresses of holders, after all tables and views were read."""
    found = damages(lake, every_byte=True) if every_byte else ()
    with duckdb.connect() as connection:
        connection.execute(lake_views.script(lake, found))
        for table in (*TABLES, *schema.OWN_TABLES, "latest_holders", "data_quality"):
            connection.sql(f"FROM {table}").fetchall()
        assert (
            connection.sql("SELECT count(*) FROM failures").fetchall()
            == connection.sql("SELECT count(*) FROM partitions").fetchall()
        )
        return connection.sql("SELECT address FROM holders ORDER BY ALL").fetchall()


def changed(name: str, value: Any) -> Callable[[bytes], bytes]:
    return lambda data: json.dumps(json.loads(data) | {name: value}).encode()


ODD_MANIFESTS: Mapping[str, Callable[[bytes], bytes]] = {
    "truncated": lambda data: data[:50],
    "empty": lambda _: b"",
    "binary": lambda _: bytes(range(256)),
    "zeros": lambda data: bytes(len(data)),
    "flipped bit": lambda data: bytes([data[0] ^ 4]) + data[1:],
    "flipped text": lambda data: data.replace(b"eth", b"e\xe4h"),
    "list": lambda _: b"[1, 2]",
    "null": lambda _: b"null",
    "deep": lambda _: b"[" * 20_000,
    "other chain": changed("chain", "base"),
    "other family": changed("family", "tokens"),
    "unknown family": changed("family", "../../x"),
    "odd timestamp": changed("timestamp", "yesterday"),
    "odd time": changed("written_at", "never"),
    "number of provider": changed("provider", None),
    "tables as list": changed("tables", [1]),
    "tables of texts": changed("tables", {"holders": "x"}),
    "negative rows": changed("tables", {"holders": {"rows": -1, "bytes": 5, "sha256": "x"}}),
    "other table": changed("tables", {"tokens": {"rows": 1, "bytes": 5, "sha256": "x"}}),
    "path as table": changed("tables", {"../../etc": {"rows": 0, "bytes": 0, "sha256": ""}}),
    "covered as number": changed("covered", 3),
}


ODD_FILES = [(table, kind) for table in ("holders", "failures") for kind in ("truncate", "empty", "delete", "junk")]


@dataclass(frozen=True)
class DamagedLake:
    """A lake in which each partition but one is damaged in its own way, and the holders that its views show."""

    lake: Lake
    paths: Mapping[str, Path]
    """Damaged file by the name of its damage."""
    listed: Sequence[tuple[str]]
    """Addresses of the listed holders. The address in a damaged partition is the name of its damage."""
    damages: Sequence[Damage]


@pytest.fixture(scope="module")
def damaged(tmp_path_factory: pytest.TempPathFactory) -> DamagedLake:
    lake = Lake(tmp_path_factory.mktemp("damaged") / "lake")
    names = ["intact", *ODD_MANIFESTS, *(f"{table} {kind}" for table, kind in ODD_FILES)]
    instants = {name: INSTANTS[0] + timedelta(days=day) for day, name in enumerate(names)}
    for name, instant in instants.items():
        failed = failures("eth", instant, ("holders", "0xb"))
        write(
            lake, "holders", "eth", instant, {"holders": holders("eth", instant, {"0xa": {name: 1}})}, {"0xa"}, failed
        )
    paths = {name: first_file(lake, "_manifests", instants[name]) for name in ODD_MANIFESTS}
    for name, odd in ODD_MANIFESTS.items():
        paths[name].write_bytes(odd(paths[name].read_bytes()))
    for table, kind in ODD_FILES:
        path = paths[f"{table} {kind}"] = first_file(lake, table, instants[f"{table} {kind}"])
        data = {"truncate": path.read_bytes()[:-20], "empty": b"", "junk": b"not Parquet"}
        path.unlink() if kind == "delete" else path.write_bytes(data[kind])
    return DamagedLake(lake, paths, listed(lake), list(damages(lake, every_byte=True)))


@pytest.mark.later(integration=1)
@pytest.mark.parametrize("odd", ODD_MANIFESTS)
def test_a_damaged_manifest_hides_its_own_partition_only(damaged: DamagedLake, odd: str) -> None:
    assert (odd,) not in damaged.listed
    assert ("intact",) in damaged.listed
    path = damaged.paths[odd]
    (found,) = [one for one in damaged.damages if one.path == path]
    assert f"-- Left out, because it is damaged: {path}" in lake_views.script(damaged.lake, [found])


@pytest.mark.parametrize(("table", "kind"), ODD_FILES)
def test_a_damaged_parquet_file_hides_its_own_partition_only(damaged: DamagedLake, table: str, kind: str) -> None:
    assert (f"{table} {kind}",) not in damaged.listed
    assert ("intact",) in damaged.listed


@pytest.mark.long
def test_a_manifest_with_a_table_twice_does_not_break_the_script(two_days: Lake) -> None:
    path = first_file(two_days, "_manifests")
    twice = b'"tables":{"holders":{"rows":1,"bytes":2,"sha256":""},'
    path.write_bytes(path.read_bytes().replace(b'"tables":{', twice))
    assert ("0x1",) in listed(two_days)


@pytest.mark.long
def test_a_damaged_file_of_the_right_size_is_left_out(two_days: Lake) -> None:
    path = first_file(two_days, "holders")
    path.write_bytes(bytes(path.stat().st_size))
    assert listed(two_days, every_byte=True) == [("0x1",)]
    with pytest.warns(QueryNote, match="its partition is left out"):
        opened = holderlake.open_lake(two_days.root)
    assert opened.arrow("SELECT address FROM holders").to_pylist() == [{"address": "0x1"}]


@pytest.mark.long
def test_a_manifest_with_a_wrong_digest_is_left_out(two_days: Lake) -> None:
    path = first_file(two_days, "_manifests")
    path.write_bytes(path.read_bytes().replace(b'"sha256":"', b'"sha256":"?'))
    assert listed(two_days, every_byte=True) == [("0x1",)]


@pytest.mark.long
def test_a_damaged_partition_is_shown_after_it_is_written_again(two_days: Lake) -> None:
    path = first_file(two_days, "holders")
    path.write_bytes(bytes(path.stat().st_size))
    script = lake_views.script(two_days, damages(two_days, every_byte=True))
    write_holders(two_days, "eth", INSTANTS[0], {"0xa": {"0x0": 1}})
    with duckdb.connect() as connection:
        connection.execute(script)
        assert connection.sql("SELECT address FROM holders ORDER BY ALL").fetchall() == [("0x0",), ("0x1",)]


@pytest.mark.long
def test_a_table_with_damaged_files_only_is_empty(two_days: Lake) -> None:
    for path in two_days.root.glob("holders/*/*/part-0.parquet"):
        path.write_bytes(b"not Parquet")
    assert listed(two_days) == []


@pytest.mark.long
def test_a_script_finds_later_damage_and_commits_each_time_it_is_read(two_days: Lake) -> None:
    script = lake_views.script(two_days)
    write_holders(two_days, "eth", INSTANTS[2], {"0xa": {"0x2": 1}})
    first_file(two_days, "holders").write_bytes(b"not Parquet")
    with duckdb.connect() as connection:
        connection.execute(script)
        assert connection.sql("SELECT address FROM holders ORDER BY ALL").fetchall() == [("0x1",), ("0x2",)]
        write_holders(two_days, "eth", INSTANTS[0], {"0xa": {"0x0": 1}})
        connection.execute(script)
        assert len(connection.sql("FROM holders").fetchall()) == 3


@pytest.mark.long
def test_lake_views_names_damaged_files_on_standard_error(two_days: Lake) -> None:
    path = first_file(two_days, "holders")
    path.write_bytes(b"not Parquet")
    done = subprocess.run(
        [sys.executable, "-c", HOLDERLAKE, "lake", "views"],
        cwd=ROOT,
        env={"HOLDERLAKE_HOME": str(two_days.root.parent)},
        capture_output=True,
        text=True,
        check=True,
    )
    assert f"Left out as damaged: {path}" in done.stderr
    assert "rebuild --damaged" in done.stderr
    with duckdb.connect() as connection:
        connection.execute(done.stdout)
        assert connection.sql("SELECT address FROM holders").fetchall() == [("0x1",)]


# Data frames


@pytest.fixture(scope="module", params=["warehouse", "lake"])
def frames(request: pytest.FixtureRequest, home: Path) -> DataFrames:
    if request.param == "lake":
        return holderlake.open_lake(home / "lake")
    return holderlake.open_warehouse(home / "warehouse.duckdb")


def test_the_warehouse_of_a_home_opens_by_the_homes_folder(home: Path) -> None:
    query = "SELECT count(*) AS rows FROM tokens"
    assert holderlake.open_warehouse(home).arrow(query) == holderlake.open_warehouse(home / "warehouse.duckdb").arrow(
        query
    )


@pytest.mark.long
def test_data_frames_keep_amounts_exact_and_whole_numbers_whole(frames: DataFrames) -> None:
    import pandas as pd
    import polars as pl

    sql = "SELECT amount, rank, is_cex, timestamp FROM holders_as_of(?) WHERE address = ? ORDER BY ALL"
    values = [INSTANTS[0], OTHER]
    in_pandas, in_polars, in_arrow = frames.pandas(sql, values), frames.polars(sql, values), frames.arrow(sql, values)
    expected = [Decimal("0.5"), Decimal("0.5"), Decimal(2), Decimal(2)]
    assert list(in_pandas["amount"]) == in_polars["amount"].to_list() == in_arrow["amount"].to_pylist() == expected
    assert (in_pandas["amount"] * 2).sum() == 10
    assert in_pandas.dtypes["rank"] == pd.Int64Dtype()
    assert in_pandas.dtypes["is_cex"] == pd.BooleanDtype()
    assert in_pandas.dtypes["timestamp"] == "datetime64[us]"
    assert in_polars.schema["amount"] == pl.Decimal(38, 18)
    assert in_polars.schema["timestamp"] == pl.Datetime("us")


@pytest.mark.later(integration=1)
def test_a_faulty_query_raises_an_error_with_duckdbs_message(frames: DataFrames) -> None:
    with pytest.raises(WarehouseError, match="nothing"):
        frames.pandas("FROM nothing")


@pytest.mark.integration
def test_an_error_without_polars_says_how_to_install_it(frames: DataFrames, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "polars", None)
    with pytest.raises(ImportError, match="pip install polars"):
        frames.polars("SELECT 1")


@pytest.mark.long
def test_one_line_of_python_opens_the_warehouse_of_the_settings(home: Path) -> None:
    line = "import holderlake; print(len(holderlake.open_warehouse().pandas('FROM latest_holders')))"
    done = subprocess.run(
        [sys.executable, "-c", line],
        cwd=ROOT,
        env={"HOLDERLAKE_HOME": str(home)},
        capture_output=True,
        text=True,
        check=True,
    )
    assert done.stdout == "6\n"
