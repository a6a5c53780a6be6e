"""Match the rows of two warehouses, and name the cause of each difference."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from functools import cache
from importlib.resources import files
from pathlib import Path
from typing import Final

import duckdb
import pyarrow as pa

from holderlake.warehouse.comparisons import TABLE
from holderlake.warehouse.connections import guard
from holderlake.warehouse.schema import column_name, quoted

COMPARISONS: Final = pa.schema(
    [
        pa.field(column_name(field.name), field.type, field.nullable)
        for field in TABLE.schema
        if field.name not in {"source_a", "source_b", "compared_at"}
    ]
)
"""Columns of differences, one row for each: those of the table ``comparisons`` without the sources."""
EQUAL: Final = "equal"
"""Value of ``what`` in a row about a token and instant without differences. Its ``cause`` is none."""
_ROWS: Final = """
SELECT chain, timestamp, token_address, what, subject, a, b, cause
FROM (
    FROM holder_differences
    UNION ALL FROM relationship_differences
    UNION ALL FROM cluster_differences
    UNION ALL FROM score_differences
)
ORDER BY ALL
"""
_EQUAL: Final = """
SELECT chain, timestamp, token_address, 'equal' AS what, '' AS subject, NULL AS a, NULL AS b, 'none' AS cause
FROM (SELECT chain, token_address, timestamp FROM scope UNION SELECT chain, token_address, timestamp FROM drawn)
ANTI JOIN differences USING (chain, token_address, timestamp)
ANTI JOIN (
    SELECT chain, token_address, timestamp FROM lists_a ANTI JOIN lists_b USING (chain, token_address, timestamp)
    UNION
    SELECT chain, token_address, timestamp FROM lists_b ANTI JOIN lists_a USING (chain, token_address, timestamp)
) AS one_sided USING (chain, token_address, timestamp)
ORDER BY ALL
"""


def compare(a: Path, b: Path) -> tuple[pa.Table, pa.Table]:
    """Return the differences of two warehouse files over the tokens and instants of both, and those that are equal.

    Both tables have the schema ``COMPARISONS``; the second one has a row for each token and instant. Raises
    ``ValueError`` if a file is no warehouse.
    """
    with duckdb.connect() as database:
        for name, path in (("a", a), ("b", b)):
            with _readable(path):
                database.execute(f"ATTACH {quoted(str(path))} AS {name} (READ_ONLY)")
        guard(database, [])  # views of a foreign warehouse could read files
        for name, path in (("a", a), ("b", b)):
            with _readable(path):
                for table in ("holders", "maps", "map_nodes", "grouped_transfers", "cluster_members"):
                    database.sql(f"FROM {name}.{table} LIMIT 0")
        for name in ("scope", "holders", "maps"):
            database.execute(_sql(name))
        differences = database.sql(_ROWS).to_arrow_table().cast(COMPARISONS)
        database.register("differences", differences)
        return differences, database.sql(_EQUAL).to_arrow_table().cast(COMPARISONS)


@contextmanager
def _readable(path: Path) -> Iterator[None]:
    try:
        yield
    except duckdb.Error as error:
        raise ValueError(f"{path} can't be read as a warehouse: {str(error).splitlines()[0]}") from error


def counts(differences: pa.Table) -> pa.Table:
    """Return the number of differences by what differs and cause, with the tokens concerned; most frequent first."""
    grouped = differences.group_by(["what", "cause"]).aggregate(
        [([], "count_all"), ("token_address", "count_distinct")]
    )
    counted_differences = grouped.rename_columns(["what", "cause", "differences", "tokens"])
    return counted_differences.sort_by([("differences", "descending"), ("what", "ascending"), ("cause", "ascending")])


@cache
def _sql(name: str) -> str:
    return files("holderlake.comparison").joinpath("sql", f"{name}.sql").read_text()
