"""The warehouse: the lake's rows in DuckDB, loaded once, published whole, and open to readers all the while."""

from __future__ import annotations

from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from datetime import datetime
from decimal import Decimal
from pathlib import Path
from typing import Any

import duckdb
import pyarrow as pa
import pytest

from holderlake.core.contract.tables import FAMILY_TABLES, TABLES, build
from holderlake.core.lake.lake import Lake
from holderlake.core.warehouse import schema
from holderlake.core.warehouse.warehouse import Warehouse, WarehouseError
from tests.helpers.amounts import exact_amount
from tests.helpers.lakes import (
    DAYS,
    FETCHED_AT,
    count,
    failures,
    holders,
    map_tables,
    query,
    write,
    write_holders,
    write_maps,
)
from tests.helpers.processes import PIPE, run, start

DAY = DAYS[0]


# Loading


@pytest.mark.long
def test_a_load_of_an_empty_lake_creates_all_tables(lake: Lake, new_warehouse: Warehouse) -> None:
    report = new_warehouse.load(lake)
    assert (report.partitions, report.rows) == (0, {})
    assert {name: count(new_warehouse, name) for name in TABLES} == dict.fromkeys(TABLES, 0)


@pytest.mark.later(integration=2, long=4)
@pytest.mark.parametrize("name", TABLES)
def test_a_table_has_the_columns_types_and_comments_of_the_contract(small: Warehouse, name: str) -> None:
    found = query(
        small,
        "SELECT column_name, data_type, is_nullable, comment FROM duckdb_columns() WHERE table_name = ?"
        " ORDER BY column_index",
        name,
    )
    types = {
        pa.string(): "VARCHAR",
        pa.float64(): "DOUBLE",
        pa.int64(): "BIGINT",
        pa.bool_(): "BOOLEAN",
        pa.timestamp("us"): "TIMESTAMP",
        pa.decimal128(38, 18): "DECIMAL(38,18)",
    }
    assert found == [
        (
            "timestamp" if field.name == "as_of" else field.name,
            types[field.type],
            field.nullable,
            field.metadata[b"comment"].decode(),
        )
        for field in TABLES[name].schema
    ]
    ((comment,),) = query(small, "SELECT comment FROM duckdb_tables() WHERE table_name = ?", name)
    assert comment == f"A row is {TABLES[name].row}. Key: {', '.join(schema.key(TABLES[name]))}"


VALUES: dict[pa.DataType, Any] = {
    pa.string(): "é'\n",
    pa.float64(): 0.1,
    pa.int64(): 2**63 - 1,
    pa.bool_(): True,
    pa.timestamp("us"): DAY,
    pa.decimal128(38, 18): Decimal("12345678901234567890.123456789012345678"),
}


def a_row(name: str, nulls: bool) -> pa.Table:
    fields = [field for field in TABLES[name].schema if not (nulls and field.nullable)]
    return build(TABLES[name], [{field.name: VALUES[field.type] for field in fields} | {"chain": "x"}], FETCHED_AT)


@pytest.fixture(scope="module", params=[True, False], ids=["all possible nulls", "no null"])
def one_row_a_table(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> tuple[Warehouse, bool]:
    folder = tmp_path_factory.mktemp("rows")
    lake, loaded = Lake(folder / "lake"), Warehouse(folder / "warehouse.duckdb")
    by = {"chains": "chain", "subgraphs": "address_set", "addresses": "address"}
    for family, names in FAMILY_TABLES.items():
        tables = {name: a_row(name, request.param) for name in names}
        write(lake, family, "x", DAY, tables, set(), by=by.get(family, "token"))
    sides = {"revisions": a_row("revisions", request.param)}
    write(lake, "holders", "x", DAY, sides, set(), a_row("failures", request.param))
    loaded.load(lake)
    return loaded, request.param


@pytest.mark.later(integration=5, long=11)
@pytest.mark.parametrize("name", TABLES)
def test_the_rows_of_a_table_survive_parquet_and_duckdb(one_row_a_table: tuple[Warehouse, bool], name: str) -> None:
    warehouse, nulls = one_row_a_table
    found = warehouse.query(f"FROM {name}")
    assert found.to_pylist() == a_row(name, nulls).rename_columns({"as_of": "timestamp"}).to_pylist()
    assert [field.type for field in found.schema] == [field.type for field in TABLES[name].schema]


def test_an_amount_beyond_the_decimal_column_is_exact_in_its_text(lake: Lake, warehouse: Warehouse) -> None:
    for day, amount in ((DAYS[0], 2**256 - 1), (DAYS[1], 10**20)):
        write_holders(lake, "eth", day, {"0xa": {"0x1": amount}})
    warehouse.load(lake)
    found = warehouse.query("SELECT amount, amount_exact FROM holders ORDER BY timestamp").to_pylist()
    assert [exact_amount(row, "amount") for row in found] == [2**256 - 1, 10**20]


def test_the_load_report_counts_partitions_and_rows(lake: Lake, warehouse: Warehouse) -> None:
    write_holders(lake, "eth", DAY, {"0xa": {"0x1": 2, "0x2": 1}})
    write_maps(lake, "eth", DAY, {"0xa": [["0x1", "0x2"]]})
    report = warehouse.load(lake)
    assert report.partitions == 2
    assert report.rows == {
        "holders": 2,
        "maps": 1,
        "map_nodes": 2,
        "grouped_transfers": 1,
        "clusters": 1,
        "cluster_members": 2,
    }
    assert report.seconds > 0


def test_loading_twice_counts_once_and_leaves_the_file_unchanged(lake: Lake, warehouse: Warehouse) -> None:
    write_holders(lake, "eth", DAY, {"0xa": {"0x1": 1}})
    warehouse.load(lake)
    before = warehouse.path.stat()
    report = warehouse.load(lake)
    assert (report.partitions, count(warehouse, "holders")) == (0, 1)
    assert (warehouse.path.stat().st_ino, warehouse.path.stat().st_mtime_ns) == (before.st_ino, before.st_mtime_ns)


@pytest.mark.integration
def test_a_partition_that_was_written_again_replaces_its_rows_only(lake: Lake, warehouse: Warehouse) -> None:
    for chain in ("eth", "base"):
        for day in DAYS[:3]:
            write_holders(lake, chain, day, {"0xa": {"0x1": 1, "0x2": 1}})
    warehouse.load(lake)
    write_holders(lake, "eth", DAYS[1], {"0xa": {"0x9": 7}})
    assert warehouse.load(lake).partitions == 1
    assert query(warehouse, "SELECT address FROM holders WHERE chain = 'eth' AND timestamp = '2026-11-02'") == [
        ("0x9",)
    ]
    assert count(warehouse, "holders") == 11


@pytest.mark.integration
def test_a_partition_that_is_no_longer_in_the_lake_stays(lake: Lake, warehouse: Warehouse) -> None:
    for day in DAYS[:2]:
        write_holders(lake, "eth", day, {"0xa": {"0x1": 1}})
    warehouse.load(lake)
    next(lake.manifest_paths()).unlink()
    write_holders(lake, "eth", DAYS[2], {"0xa": {"0x1": 1}})
    warehouse.load(lake)
    assert count(warehouse, "holders") == 3


@pytest.mark.integration
def test_failures_of_other_families_stay(lake: Lake, warehouse: Warehouse) -> None:
    nothing = TABLES["holders"].schema.empty_table()
    write(lake, "holders", "eth", DAY, {"holders": nothing}, set(), failures("eth", DAY, ("holders", "0xa")))
    write(lake, "maps", "eth", DAY, map_tables("eth", DAY, {}), set(), failures("eth", DAY, ("map", "0xa")))
    warehouse.load(lake)
    assert query(warehouse, "SELECT endpoint FROM failures ORDER BY 1") == [("holders",), ("map",)]
    write_holders(lake, "eth", DAY, {"0xa": {"0x1": 1}})
    warehouse.load(lake)
    assert query(warehouse, "SELECT endpoint FROM failures") == [("map",)]


@pytest.mark.integration
def test_a_damaged_partition_is_reported_and_others_are_loaded(lake: Lake, warehouse: Warehouse) -> None:
    for day in DAYS[:2]:
        write_holders(lake, "eth", day, {"0xa": {"0x1": 1}})
    path = lake.path("holders", "eth", DAYS[0])
    path.write_bytes(path.read_bytes()[:-1])
    report = warehouse.load(lake)
    size = path.stat().st_size
    assert report.damaged == (f"{path} has {size:,} bytes instead of {size + 1:,} as in its manifest",)
    assert query(warehouse, "SELECT timestamp FROM holders") == [(DAYS[1],)]
    write_holders(lake, "eth", DAYS[0], {"0xa": {"0x1": 1}})
    assert warehouse.load(lake).damaged == ()
    assert count(warehouse, "holders") == 2


def test_a_damaged_manifest_is_reported_and_others_are_loaded(lake: Lake, warehouse: Warehouse) -> None:
    for chain in ("eth", "bsc"):
        write_holders(lake, chain, DAYS[0], {"0xa": {"0x1": 1}})
    path = next(path for path in lake.manifest_paths() if "chain=eth" in str(path))
    path.write_bytes(path.read_bytes()[:-30])
    (damaged,) = warehouse.load(lake).damaged
    assert damaged.startswith(f"{path} is not a valid manifest")
    assert query(warehouse, "SELECT chain FROM holders") == [("bsc",)]


def test_rows_that_share_a_key_are_loaded_and_named(lake: Lake, warehouse: Warehouse) -> None:
    twice = holders("eth", DAY, {"0xa": {"0x1": 1, "0x2": 1}})
    write(lake, "holders", "eth", DAY, {"holders": pa.concat_tables([twice, twice.slice(0, 1)])}, {"0xa"})
    write_holders(lake, "eth", DAYS[1], {"0xa": {"0x1": 1}})
    warehouse.load(lake)
    assert count(warehouse, "holders") == 4
    of_rows = "SELECT timestamp, subject, found FROM data_quality WHERE issue = 'repeated_row'"
    assert query(warehouse, of_rows) == [(DAY, "0xa", 1.0)]


def test_a_load_in_small_batches_loads_every_row(
    lake: Lake, warehouse: Warehouse, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("holderlake.core.warehouse.loader._BATCH_ROWS", 5)
    for day in DAYS[:6]:
        write_maps(lake, "eth", day, {"0xa": [["0x1", "0x2", "0x3", "0x4"]]})
    warehouse.load(lake)
    assert query(warehouse, "SELECT day(timestamp), count(*) FROM grouped_transfers GROUP BY ALL ORDER BY ALL") == [
        (day, 3) for day in range(1, 7)
    ]


def places(warehouse: Warehouse) -> list[tuple[Any, ...]]:
    return query(warehouse, "SELECT chain, token_address, day(timestamp), rank FROM holders ORDER BY rowid")


@pytest.mark.long
def test_rows_are_ordered_by_month_chain_token_and_instant(
    lake: Lake, warehouse: Warehouse, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("holderlake.core.warehouse.warehouse._MIXED_ROWS", 12)
    expected = [
        (chain, token, day.day, rank)
        for chain in ("base", "eth")
        for token in ("0xa", "0xb")
        for day in DAYS[:5]
        for rank in (1, 2)
    ]
    held = {token: {"0x1": 2, "0x2": 1} for token in ("0xb", "0xa")}
    for day in DAYS[2:5]:
        for chain in ("eth", "base"):
            write_holders(lake, chain, day, held)
    warehouse.load(lake)
    assert places(warehouse) == [place for place in expected if place[2] > 2], "one load is in order"
    for day in DAYS[:2]:
        for chain in ("eth", "base"):
            write_holders(lake, chain, day, held)
        warehouse.load(lake)
        assert sorted(places(warehouse)) == [place for place in expected if place[2] > 2 or place[2] <= day.day]
    assert places(warehouse) == expected, "after the small loads the file was written again in order"
    assert warehouse.load(lake).partitions == 0
    assert query(warehouse, "SELECT sum(row_count), count(*) FROM partitions") == [(40, 10)]
    assert sorted(path.name for path in warehouse.path.parent.glob("warehouse*")) == [
        "warehouse.duckdb",
        "warehouse.duckdb.lock",
    ]
    ((comment,),) = query(warehouse, "SELECT comment FROM duckdb_tables() WHERE table_name = 'holders'")
    assert comment.startswith("A row is a holder")


# Concurrent readers and loads


@pytest.mark.integration
def test_an_open_reader_keeps_its_version_and_the_next_sees_the_load(lake: Lake, warehouse: Warehouse) -> None:
    write_holders(lake, "eth", DAYS[0], {"0xa": {"0x1": 1}})
    warehouse.load(lake)
    with warehouse.connect() as reader:
        assert reader.execute("SELECT count(*) FROM holders").fetchall() == [(1,)]
        write_holders(lake, "eth", DAYS[1], {"0xa": {"0x1": 1}})
        assert warehouse.load(lake).partitions == 1
        assert reader.execute("SELECT count(*) FROM holders").fetchall() == [(1,)]
        assert count(warehouse, "holders") == 2


@pytest.mark.long
def test_readers_see_complete_loads_only_even_if_a_load_is_killed(lake: Lake, warehouse: Warehouse) -> None:
    def partitions(days: Sequence[datetime]) -> None:
        for chain in ("eth", "base"):
            for day in days:
                write_holders(lake, chain, day, {"0xa": {f"0x{number}": 9 - number for number in range(5)}})
                write_maps(lake, chain, day, {"0xa": [["0x1", "0x2"]]})

    partitions(DAYS[:1])
    warehouse.load(lake)
    reader = f"""
import time
from pathlib import Path
from holderlake.core.warehouse.warehouse import Warehouse

warehouse = Warehouse(Path({str(warehouse.path)!r}))
print(len(warehouse.query("FROM holders")), flush=True)
reads, whole = 1, set()
while not Path({str(warehouse.path)!r}).with_name("done").exists():
    for row in warehouse.query("SELECT count(*) AS n FROM holders GROUP BY chain, timestamp").to_pylist():
        whole.add(row["n"])
    assert len(warehouse.query("FROM latest_holders")) == 10
    maps = "(SELECT count(*) FROM maps)"
    sums = f"SELECT {{maps}}, (SELECT count(*) FROM cluster_members), (SELECT count(*) FROM partitions)"
    n, members, partitions = warehouse.query(sums).to_pylist()[0].values()
    assert members == 2 * n and partitions == 2 * n, (n, members, partitions)
    reads += 1
    time.sleep(0.2)
print(reads, whole)
"""
    process = start(reader, stdout=PIPE)
    assert process.stdout is not None
    assert process.stdout.readline() == "10\n"
    partitions(DAYS[1:8])
    warehouse.load(lake)
    partitions(DAYS[8:9])
    killed = run(script_of_a_killed_load(lake, warehouse))
    assert killed.returncode == 9
    for day in DAYS[9:11]:
        partitions([day])
        warehouse.load(lake)
    warehouse.path.with_name("done").touch()
    reads, _, rows = process.communicate()[0].partition(" ")
    assert (int(reads) > 1, rows) == (True, "{5}\n")
    assert count(warehouse, "holders") == 10 * 11


def script_of_a_killed_load(lake: Lake, warehouse: Warehouse) -> str:
    """Return a script that loads, and ends before it records the partitions as loaded."""
    return f"""
import os
from pathlib import Path
from holderlake.core.warehouse import loader, warehouse
from holderlake.core.lake.lake import Lake

loader._insert_state = lambda *_: os._exit(9)
warehouse.Warehouse(Path({str(warehouse.path)!r})).load(Lake(Path({str(lake.root)!r})))
"""


@pytest.mark.long
def test_concurrent_loads_wait_for_each_other(lake: Lake, new_warehouse: Warehouse) -> None:
    for day in DAYS[:6]:
        write_holders(lake, "eth", day, {"0xa": {"0x1": 1}})
    with ThreadPoolExecutor(4) as pool:
        reports = list(pool.map(lambda _: Warehouse(new_warehouse.path).load(lake), range(4)))
    assert sorted(report.partitions for report in reports) == [0, 0, 0, 6]
    assert count(new_warehouse, "holders") == 6


class Killed(BaseException):
    """Simulates the end of the process: nothing catches it."""


@pytest.mark.integration
@pytest.mark.parametrize("step", ["os.replace", pytest.param("os.copy_file_range", marks=pytest.mark.long)])
def test_a_killed_load_leaves_the_file_unchanged(
    lake: Lake, warehouse: Warehouse, monkeypatch: pytest.MonkeyPatch, step: str
) -> None:
    write_holders(lake, "eth", DAYS[0], {"0xa": {"0x1": 1}})
    warehouse.load(lake)
    write_holders(lake, "eth", DAYS[1], {"0xa": {"0x1": 1}})

    def die(*_: object) -> None:
        raise Killed

    with monkeypatch.context() as patch:
        patch.setattr(step, die)
        with pytest.raises(Killed):
            warehouse.load(lake)
    assert count(warehouse, "holders") == 1
    assert warehouse.load(lake).partitions == 1
    assert count(warehouse, "holders") == 2


@pytest.mark.integration
def test_a_process_killed_in_a_transaction_leaves_the_file_unchanged(lake: Lake, warehouse: Warehouse) -> None:
    write_holders(lake, "eth", DAYS[0], {"0xa": {"0x1": 1}})
    warehouse.load(lake)
    write_holders(lake, "eth", DAYS[1], {"0xa": {"0x1": 1}})
    script = script_of_a_killed_load(lake, warehouse)
    done = run(script)
    assert done.returncode == 9
    assert (warehouse.path.parent / "warehouse.duckdb.next").exists()
    assert count(warehouse, "holders") == 1
    assert warehouse.load(lake).partitions == 1
    assert count(warehouse, "holders") == 2
    assert sorted(path.name for path in warehouse.path.parent.glob("warehouse*")) == [
        "warehouse.duckdb",
        "warehouse.duckdb.lock",
    ]


# Queries


def test_an_error_about_a_missing_warehouse_names_the_remedy(new_warehouse: Warehouse) -> None:
    with pytest.raises(WarehouseError, match=r"no warehouse at .* yet: run 'holderlake demo' or 'holderlake ingest'"):
        new_warehouse.query("SELECT 1")


@pytest.mark.parametrize(
    ("sql", "words"),
    [
        ("SELEC 1", "syntax error"),
        ("SELECT nothing FROM holders", "nothing"),
        ("DELETE FROM holders", "DELETE is refused"),
        ("DROP TABLE holders", "DROP is refused"),
        ("FROM lake", "lake does not exist"),
    ],
)
def test_a_faulty_query_raises_an_error_with_duckdbs_message(small: Warehouse, sql: str, words: str) -> None:
    with pytest.raises(WarehouseError, match=words):
        small.query(sql)


@pytest.mark.integration
def test_a_sum_of_whole_numbers_is_an_exact_integer(lake: Lake, warehouse: Warehouse) -> None:
    write_maps(lake, "eth", DAY, {"0xa": [["0x1", "0x2"]]})
    warehouse.load(lake)
    total = warehouse.query("SELECT sum(total_transfers) AS n FROM grouped_transfers")
    assert pa.types.is_decimal(total.schema.field("n").type)


@pytest.mark.parametrize(
    ("sql", "parameters"),
    [
        ("SELECT ? + 1 AS a", [41]),
        ("SELECT $a + 1 AS a; -- the end", {"a": 41}),
        ("PIVOT (SELECT 'a' AS k, 42 AS n) ON k USING sum(n)", None),
        ("FROM (VALUES (42)) t(a) -- ; 'é'", None),
    ],
)
def test_a_query_takes_parameters_and_comments(small: Warehouse, sql: str, parameters: Any) -> None:
    assert small.query(sql, parameters).to_pylist() == [{"a": 42}]


@pytest.mark.integration
def test_the_file_has_the_format_of_duckdb_1_5(lake: Lake, new_warehouse: Warehouse) -> None:
    new_warehouse.load(lake)
    with duckdb.connect(str(new_warehouse.path), read_only=True) as connection:
        found = connection.execute(
            "SELECT tags['storage_version'] FROM duckdb_databases() WHERE NOT internal"
        ).fetchone()
    assert found is not None
    assert found[0].startswith("v1.5")


@pytest.mark.integration
def test_an_error_about_a_locked_file_names_the_remedy(lake: Lake, warehouse: Warehouse) -> None:
    warehouse.load(lake)
    tool = f"import duckdb; held = duckdb.connect({str(warehouse.path)!r}); print('open', flush=True); input()"
    with start(tool, stdin=PIPE, stdout=PIPE) as process:
        assert process.stdout is not None
        assert process.stdout.readline() == "open\n"
        for ask in (lambda: query(warehouse, "FROM maps"), lambda: warehouse.load(lake)):
            with pytest.raises(WarehouseError, match="close it there, or connect that program read-only"):
                ask()
        process.communicate("\n")
    assert query(warehouse, "FROM maps") == []


@pytest.mark.long
def test_a_foreign_file_is_refused_and_kept(lake: Lake, new_warehouse: Warehouse) -> None:
    with duckdb.connect(str(new_warehouse.path)) as connection:
        connection.execute("CREATE TABLE mine AS SELECT 1 AS one")
    with pytest.raises(WarehouseError, match="not a warehouse: move it away"):
        new_warehouse.load(lake)
    assert query(new_warehouse, "FROM mine") == [(1,)]
    new_warehouse.path.write_bytes(b"not DuckDB at all")
    new_warehouse.load(lake)
    (moved,) = new_warehouse.path.parent.glob("warehouse.duckdb.damaged-*")
    assert moved.read_bytes() == b"not DuckDB at all"


def altered(warehouse: Warehouse, sql: str) -> None:
    with duckdb.connect(str(warehouse.path)) as connection:
        connection.execute(sql)


@pytest.mark.long
def test_load_adds_columns_that_an_older_warehouse_lacks(lake: Lake, warehouse: Warehouse) -> None:
    write_holders(lake, "eth", DAY, {"0xa": {"0x1": 1}})
    warehouse.load(lake)
    before = warehouse.query("SELECT * EXCLUDE label FROM holders")
    views = warehouse.query("SELECT view_name FROM duckdb_views() WHERE schema_name = 'main' AND NOT internal")[
        "view_name"
    ].to_pylist()
    altered(
        warehouse,
        "".join(f"DROP VIEW {view};" for view in views)
        + "ALTER TABLE holders DROP COLUMN label; DROP TABLE revisions;"
        + "UPDATE _internal.installed SET sha = 'older' WHERE part = 'tables'",
    )
    for path in lake.root.glob("holders/**/*.parquet"):
        path.unlink()  # what the warehouse has stays, even if the lake lost it
    warehouse.load(lake)
    assert warehouse.query("SELECT * EXCLUDE label FROM holders").equals(before)
    assert warehouse.query("SELECT label FROM latest_holders")["label"].to_pylist() == [None]
    assert tuple(warehouse.query("FROM holders").column_names)[1] == "timestamp"


@pytest.mark.long
def test_views_of_an_older_version_are_replaced_without_new_rows(lake: Lake, warehouse: Warehouse) -> None:
    write_holders(lake, "eth", DAY, {"0xa": {"0x1": 1}})
    warehouse.load(lake)
    altered(
        warehouse,
        "CREATE OR REPLACE VIEW latest_holders AS SELECT 'old' AS it;"
        "UPDATE _internal.installed SET sha = 'older' WHERE part = 'views'",
    )
    assert warehouse.load(lake).partitions == 0
    assert count(warehouse, "latest_holders") == 1
    assert "rank" in warehouse.query("FROM latest_holders").column_names


def test_a_query_reads_files_only_with_permission(small: Warehouse, tmp_path: Path) -> None:
    (tmp_path / "x.csv").write_text("one\n1\n")
    sql = f"FROM read_csv('{tmp_path}/x.csv')"
    with pytest.raises(WarehouseError, match="--files' lets a query read files"):
        small.read(sql)
    assert small.read(sql, files=True).to_pylist() == [{"one": 1}]
