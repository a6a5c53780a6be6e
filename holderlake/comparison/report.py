"""Write the differences of two homes as one HTML page."""

from __future__ import annotations

from datetime import datetime
from pathlib import Path
from typing import Final

import duckdb
import pyarrow as pa

from holderlake.export.html import html_page
from holderlake.storage.atomic_files import whole_file

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
        "holderlake.comparison",
        names=names,
        total=differences.num_rows,
        causes=causes,
        tokens=tokens,
        examples=examples,
        made_at=made_at,
    )
    with whole_file(path) as part:
        part.write_text(page)
