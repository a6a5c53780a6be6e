"""No door of the warehouse writes: not to the user's own transfers, which it links, and not elsewhere."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import duckdb
import pytest

from holderlake.analysis.comparison.compare import compare
from holderlake.core.warehouse.warehouse import WarehouseError
from holderlake.presentation.dataframes import open_lake, open_warehouse
from holderlake.presentation.export.export import export
from holderlake.presentation.mcp.sandbox import Bounds, Refused, answer
from tests.core.warehouse.test_transfers import BEGIN, TOKEN, Home
from tests.engine.world import transfer

pytestmark = pytest.mark.integration

DOORS: dict[str, Callable[[Home, str], Any]] = {
    "sql": lambda home, sql: home.warehouse.read(sql),
    "sql --files": lambda home, sql: home.warehouse.read(sql, files=True),
    "sql --limit": lambda home, sql: home.warehouse.read(sql, most=1),
    "open_warehouse": lambda home, sql: open_warehouse(home.warehouse.path).arrow(sql),
    "open_lake": lambda home, sql: open_lake(home.lake.root).arrow(sql),
    "export": lambda home, sql: export(home.warehouse, sql, home.warehouse.path.with_name("x.csv"), "csv"),
    "mcp": lambda home, sql: answer(home.warehouse.path, sql, 10, Bounds()),
}
WRITES = {
    "copy": "COPY (SELECT 1 AS a) TO '{own}' (USE_TMP_FILE false)",
    "copy in WITH": "WITH x AS (COPY (SELECT 1 AS a) TO '{own}' (USE_TMP_FILE false)) FROM x",
    "copy in a query": "FROM query('WITH x AS (COPY (SELECT 1 AS a) TO ''{own}'') FROM x')",
    "copy in EXPLAIN": "EXPLAIN ANALYZE COPY (SELECT 1 AS a) TO '{own}' (USE_TMP_FILE false)",
    "copy after a parenthesis": "SELECT 1 a); COPY (SELECT 1 a) TO '{own}' (USE_TMP_FILE false); FROM (SELECT 1 a",
    "copy after a comment": "SELECT 1 AS a /* ; */ ; COPY (SELECT 1 AS a) TO '{own}' (USE_TMP_FILE false)",
    "insert in WITH": "WITH x AS (INSERT INTO holders FROM holders RETURNING 1 AS a) FROM x",
    "labels": "COPY (SELECT 'x' AS address, 'cex' AS kind, 'forged' AS label) TO '{labels}' (USE_TMP_FILE false)",
    "attach": "ATTACH '{folder}/other.duckdb' AS other",
    "export": "EXPORT DATABASE '{folder}'",
    "log": "FROM enable_logging(storage = 'file', storage_path = '{folder}/log')",
    "profile": "FROM enable_profiling(save_location = '{folder}/profile.json')",
    "setting": "SET lock_configuration = false",
    "pragma": "PRAGMA enable_profiling = 'json'",
    "extension": "INSTALL httpfs",
    "table": "CREATE TABLE t AS SELECT 1 AS a",
    "rows": "DELETE FROM holders",
}


@pytest.fixture(scope="module")
def home(tmp_path_factory: pytest.TempPathFactory) -> Home:
    made = Home(tmp_path_factory.mktemp("home"))
    with made.store:
        made.add(transfer("mint -> a", 5, BEGIN, token=TOKEN))
        made.warehouse.load(made.lake)
    return made


def contents(root: Path) -> dict[Path, bytes]:
    return {path: path.read_bytes() for path in root.rglob("*") if path.is_file()}


@pytest.mark.later(long=4)
@pytest.mark.parametrize("write", WRITES.values(), ids=WRITES)
@pytest.mark.parametrize("door", DOORS)
def test_no_statement_writes_through_any_door(home: Home, door: str, write: str) -> None:
    root = home.warehouse.path.parent
    (own,) = root.glob("warehouse.duckdb.transfers/*/transfers/*/*/*.parquet")
    assert own.stat().st_nlink > 1, "it is the original"
    sql = write.format(own=own, labels=next(root.glob("*.transfers/*/labels.parquet")), folder=own.parent)
    before = contents(root)
    with pytest.raises((WarehouseError, Refused)):
        DOORS[door](home, sql)
    assert contents(root) == before


@pytest.mark.parametrize(
    "door",
    ["sql", "sql --limit", "open_warehouse", pytest.param("open_lake", marks=pytest.mark.long), "export", "mcp"],
)
def test_no_door_reads_a_file_without_permission(home: Home, tmp_path: Path, door: str) -> None:
    (tmp_path / "secret.csv").write_text("a\n1\n")
    with pytest.raises((WarehouseError, Refused), match="file system operations are disabled"):
        DOORS[door](home, f"FROM read_csv('{tmp_path}/secret.csv')")


def test_a_foreign_warehouse_reads_no_file_when_it_is_compared(home: Home, tmp_path: Path) -> None:
    (tmp_path / "secret.csv").write_text("a\n1\n")
    foreign = tmp_path / "warehouse.duckdb"
    with duckdb.connect(str(foreign)) as connection:
        for table in ("maps", "map_nodes", "grouped_transfers", "cluster_members"):
            connection.execute(f"CREATE TABLE {table} (a INT)")
        connection.execute(f"CREATE VIEW holders AS FROM read_csv('{tmp_path}/secret.csv')")
    with pytest.raises(ValueError, match="file system operations are disabled"):
        compare(home.warehouse.path, foreign)
