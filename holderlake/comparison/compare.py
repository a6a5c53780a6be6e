"""Match the rows of two warehouses, and name the cause of each difference."""

from __future__ import annotations

from functools import cache
from importlib.resources import files
from pathlib import Path
from typing import Final

import duckdb
import pyarrow as pa

COMPARISONS: Final = pa.schema(
    [
        pa.field("chain", pa.string(), nullable=False),
        pa.field("timestamp", pa.timestamp("us"), nullable=False),
        pa.field("token_address", pa.string(), nullable=False),
        pa.field("what", pa.string(), nullable=False),
        pa.field("subject", pa.string(), nullable=False),
        pa.field("a", pa.string()),
        pa.field("b", pa.string()),
        pa.field("cause", pa.string(), nullable=False),
    ]
)
"""Columns of differences, one row for each.

``what`` is holder (in one list only), amount, rank, label, relationship, cluster or score; ``subject`` is the address,
pair of addresses or the first members. ``a`` and ``b`` are the values of both sides as text, null if a side has none.
``cause`` is transfers (missing or extra ones), other decimals, other labels, other thresholds, other limits, ties,
lateness or unknown.
"""
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


def compare(a: Path, b: Path) -> pa.Table:
    """Return the differences of two warehouse files (schema ``COMPARISONS``) over the tokens and instants of both."""
    with duckdb.connect() as database:
        for name, path in (("a", a), ("b", b)):
            quoted = str(path).replace("'", "''")
            database.execute(f"ATTACH '{quoted}' AS {name} (READ_ONLY)")
        for name in ("scope", "holders", "maps"):
            database.execute(_sql(name))
        return database.sql(_ROWS).to_arrow_table().cast(COMPARISONS)


def counts(differences: pa.Table) -> pa.Table:
    """Return the number of differences by what differs and cause, with the tokens concerned; most frequent first."""
    grouped = differences.group_by(["what", "cause"]).aggregate(
        [([], "count_all"), ("token_address", "count_distinct")]
    )
    named = grouped.rename_columns(["what", "cause", "differences", "tokens"])
    return named.sort_by([("differences", "descending"), ("what", "ascending"), ("cause", "ascending")])


@cache
def _sql(name: str) -> str:
    return files("holderlake.comparison").joinpath("sql", f"{name}.sql").read_text()
