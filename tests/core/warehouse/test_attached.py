"""The warehouse attached to another database under another name, as in dbt and in one's own DuckDB files."""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import Path

import duckdb
import pyarrow as pa
import pytest

from holderlake.core.contract.tables import TABLES
from holderlake.core.warehouse import schema
from holderlake.core.warehouse.warehouse import Warehouse

VIEWS = [query for query in schema.queries() if query.kind == "VIEW"]
MACROS = [query for query in schema.queries() if query.kind != "VIEW"]
NAMES = "|".join((*TABLES, *schema.OWN_TABLES, *(query.name for query in schema.queries())))


@pytest.fixture
def mine(small: Warehouse, tmp_path: Path) -> Iterator[duckdb.DuckDBPyConnection]:
    """A user's database with a table named ``holders`` too. The warehouse is attached as ``bubbles``."""
    with duckdb.connect(str(tmp_path / "mine.duckdb")) as connection:
        connection.execute("CREATE TABLE holders AS SELECT 'my own' AS name")
        connection.execute(f"ATTACH '{small.path}' AS bubbles (READ_ONLY)")
        yield connection


def qualified(sql: str) -> str:
    """Return a query with the name of the attached database before the names of tables, views and macros."""
    return re.sub(rf"(?:(?<=FROM )|(?<=JOIN ))({NAMES})\b|\b({NAMES})(?=\()", r"bubbles.\g<0>", sql)


def rows(connection: duckdb.DuckDBPyConnection, sql: str) -> pa.Table:
    return connection.sql(sql).to_arrow_table()


def outcome(connection: duckdb.DuckDBPyConnection, sql: str) -> list[dict[str, object]] | str:
    """Return the rows of a query, or the error: an example about a token of the store has none in this home."""
    try:
        return rows(connection, sql).to_pylist()
    except duckdb.Error as error:
        assert "the token is NULL" in str(error)
        return str(error)


@pytest.mark.later(integration=2, long=5)
@pytest.mark.parametrize("view", VIEWS, ids=lambda view: view.name)
def test_a_view_works_under_another_name(mine: duckdb.DuckDBPyConnection, small: Warehouse, view: schema.Query) -> None:
    assert rows(mine, qualified(view.example)).equals(small.query(view.example))


@pytest.mark.long
def test_macros_work_under_another_name_with_the_search_path(mine: duckdb.DuckDBPyConnection, small: Warehouse) -> None:
    mine.execute("SET search_path = 'bubbles,mine'")
    with small.connect() as own:
        for query in MACROS:
            assert outcome(mine, qualified(query.example)) == outcome(own, query.example), query.name
        mine.execute("CREATE TABLE mine.kept AS FROM bubbles.holders_as_of('2026-12-31')")
        assert rows(mine, "FROM mine.kept").equals(rows(own, "FROM holders_as_of('2026-12-31')"))


def test_programs_see_no_internal_tables_among_those_for_users(small: Warehouse) -> None:
    found = small.query("SELECT table_name FROM information_schema.tables WHERE table_schema = 'main'")
    names = set(found["table_name"].to_pylist())
    views = {query.name for query in schema.queries() if query.kind == "VIEW"}
    assert names == {*TABLES, *schema.OWN_TABLES, *views}
