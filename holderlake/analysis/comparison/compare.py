"""Match the rows of two warehouses, name the cause of each difference, and write the differences as one HTML page."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from datetime import datetime
from functools import cache
from importlib.resources import files
from pathlib import Path
from typing import Final

import duckdb
import pyarrow as pa

from holderlake.analysis.comparison.tables import TABLE
from holderlake.core.storage.atomic_files import whole_file
from holderlake.core.warehouse.connections import guard, prepared
from holderlake.core.warehouse.schema import column_name, quoted
from holderlake.presentation.export.html import html_page

COMPARISONS: Final = pa.schema(
    [
        pa.field(column_name(field.name), field.type, field.nullable)
        for field in TABLE.schema
        if field.name not in {"source_a", "source_b", "compared_at"}
    ]
)
"""Columns of differences, one row for each: those of the table ``comparisons`` without the sources."""
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
FROM (
    SELECT chain, token_address, timestamp FROM scope WHERE list = 'holders'
    UNION SELECT chain, token_address, timestamp FROM drawn
)
ANTI JOIN differences USING (chain, token_address, timestamp)
ANTI JOIN (
    SELECT chain, token_address, timestamp FROM ends WHERE list = 'holders' GROUP BY ALL HAVING count(*) = 1
) AS one_sided USING (chain, token_address, timestamp)
ORDER BY ALL
"""
_MOST_ROWS: Final = 50
_CAUSES: Final = """
PIVOT (SELECT what, cause FROM differences) ON what IN (
    'holder', 'amount', 'share', 'rank', 'label', 'relationship', 'cluster', 'score'
) USING count(*) GROUP BY cause ORDER BY cause
"""
_TOKENS: Final = """
SELECT
    chain, token_address, count(*) AS differences, count(DISTINCT timestamp) AS instants,
    min(timestamp) AS first, max(timestamp) AS last, list_sort(list_distinct(list(cause))) AS causes
FROM differences
GROUP BY chain, token_address
ORDER BY differences DESC, chain, token_address
LIMIT ?
"""
_EXAMPLES: Final = """
SELECT *
FROM differences
QUALIFY row_number() OVER (PARTITION BY what, cause ORDER BY timestamp DESC, token_address, subject) <= 5
ORDER BY cause, what, timestamp DESC, token_address, subject
"""


def compare(a: Path, b: Path) -> tuple[pa.Table, pa.Table]:
    """Return the differences of two warehouse files over the tokens and instants of both, and those that are equal.

    Both tables have the schema ``COMPARISONS``; the second one has a row for each token and instant. Raises
    ``ValueError`` if a file is no warehouse.
    """
    with prepared(duckdb.connect()) as database:
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
    return files("holderlake.analysis.comparison").joinpath("sql", f"{name}.sql").read_text("utf-8")


def write_page(differences: pa.Table, names: tuple[str, str], path: Path, made_at: datetime) -> None:
    """Write a page about differences (schema ``COMPARISONS``) of two homes with ``names``, made at ``made_at`` (UTC).

    The file appears when it is complete. Raises ``OSError``.
    """
    with duckdb.connect() as database:
        database.register("differences", differences)
        causes, tokens, examples = (
            database.sql(query, params=[_MOST_ROWS] if "?" in query else None).to_arrow_table().to_pylist()
            for query in (_CAUSES, _TOKENS, _EXAMPLES)
        )
    page = html_page(
        "holderlake.analysis.comparison",
        "page.html",
        names=names,
        total=differences.num_rows,
        causes=causes,
        tokens=tokens,
        examples=examples,
        made_at=made_at,
    )
    with whole_file(path) as part:
        part.write_text(page, "utf-8")
