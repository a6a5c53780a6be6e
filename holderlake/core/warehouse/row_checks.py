"""Odd and contradictory rows of some partitions: the rules are the views ``odd_rows`` and ``contradictions``."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Final

import duckdb
import pyarrow as pa
import pyarrow.compute as pc

from holderlake.core.contract.tables import INSTANT_TYPE, TABLES
from holderlake.core.lake.lake import Manifest
from holderlake.core.warehouse.schema import files_sql, queries, quoted
from holderlake.core.warehouse.warehouse import Warehouse

_TABLE: Final = """
CREATE TABLE {name} AS
SELECT * RENAME (as_of AS timestamp)
FROM ({files} FROM _{name})
"""
_LOADED: Final = """
CREATE TEMP VIEW {name} AS
FROM warehouse.{name}
{condition}
"""
_OTHERS_BETWEEN: Final = """
FROM warehouse.partitions
ANTI JOIN _examined USING (chain, timestamp)
WHERE chain IN (SELECT chain FROM _examined)
    AND timestamp BETWEEN (SELECT min(timestamp) FROM _examined) AND (SELECT max(timestamp) FROM _examined)
LIMIT 1
"""
_RULES: Final = ("odd_rows", "contradictions")
"""Views of the warehouse that need no other rows than those of an instant."""


def odd_rows(files: Mapping[str, Collection[tuple[str, Path]]], memory_limit: str) -> pa.Table:
    """Return the rows of the views ``odd_rows`` and ``contradictions`` over some files, without those that only inform.

    ``files`` has the Parquet files of each table as pairs of chain and path; other tables are empty. The files are read
    once, because the views read a table up to ten times. ``memory_limit`` is that of DuckDB, such as 256MB. Columns as
    in ``data_quality``.
    """
    with (
        TemporaryDirectory(prefix="holderlake-") as spilled,
        duckdb.connect(config={"memory_limit": memory_limit, "temp_directory": spilled}) as connection,
    ):
        connection.execute("SET enable_progress_bar = false")
        for name, table in TABLES.items():
            connection.register(f"_{name}", table.schema.empty_table())  # columns that no file has
            read = f"{files_sql(files[name])} UNION ALL BY NAME" if files.get(name) else ""
            connection.execute(_TABLE.format(name=name, files=read))
        return _broken_rules(connection)


def odd_rows_loaded(warehouse: Warehouse, tables: Collection[str], manifests: Collection[Manifest]) -> pa.Table:
    """Return the rows of ``odd_rows`` for some tables of partitions that the warehouse has loaded."""
    partitions = pa.table(
        {
            "chain": pa.array([manifest.chain for manifest in manifests], pa.string()),
            "timestamp": pa.array([manifest.as_of for manifest in manifests], INSTANT_TYPE),
        }
    )
    with (
        TemporaryDirectory(prefix="holderlake-") as spilled,
        warehouse.connect({"memory_limit": warehouse.memory_limit, "temp_directory": spilled}) as connection,
    ):
        connection.register("_examined", partitions)
        condition = _condition(connection, partitions)
        for name in TABLES:
            connection.execute(_LOADED.format(name=name, condition=condition if name in tables else "WHERE false"))
        return _broken_rules(connection)


def _condition(connection: duckdb.DuckDBPyConnection, partitions: pa.Table) -> str:
    """Return the SQL that selects the rows of ``partitions``, which the connection has as ``_examined``.

    If the warehouse has no others of these chains between the first and the last, it is a range, which takes two thirds
    of the time.
    """
    if not partitions.num_rows or connection.execute(_OTHERS_BETWEEN).fetchone():
        return "SEMI JOIN _examined USING (chain, timestamp)"
    chains = ", ".join(map(quoted, sorted(set(partitions["chain"].to_pylist()))))
    ends = pc.min_max(partitions["timestamp"]).as_py()
    return f"WHERE chain IN ({chains}) AND timestamp BETWEEN TIMESTAMP '{ends['min']}' AND TIMESTAMP '{ends['max']}'"


def _broken_rules(connection: duckdb.DuckDBPyConnection) -> pa.Table:
    """Return the rows of the views ``_RULES`` over the connection's tables, without those that only inform."""
    views = [query for query in queries() if query.name in _RULES]
    if not views:  # no part has rules
        return pa.table({"severity": pa.array([], pa.string())})
    for query in views:
        connection.execute(query.sql.replace("CREATE OR REPLACE VIEW", "CREATE OR REPLACE TEMP VIEW", 1))
    rules = " UNION ALL ".join(f"FROM {query.name}" for query in views)
    return connection.sql(f"FROM ({rules}) WHERE severity <> 'info' ORDER BY ALL").to_arrow_table()
