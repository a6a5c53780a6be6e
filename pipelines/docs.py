"""Writes ``docs/tables.md`` from the contract's schemas: ``python -m pipelines.docs``. A test holds the page to it."""

from __future__ import annotations

from pathlib import Path

from contract.tables import TABLES, Table

PAGE = Path("docs/tables.md")

_HEAD = """\
# Tables

The lake (Parquet) and the warehouse (DuckDB) have the same tables and columns; the warehouse calls `as_of` `timestamp`.
Times are UTC, shares are parts of the total supply from 0 to 1. Rows have two time axes: `as_of` is the instant that a
row is true as of, `fetched_at` when it was learnt. Endpoints without history mode (chains, tokens, subgraph_transfers,
addresses) tell what is known at `fetched_at`, whatever past the partition is for.

An amount is exact: `amount` is a decimal of 18 places, and where that can't hold the number (10^20 and more, or further
decimals) the exact text stands in `amount_exact`, which is null otherwise. The same goes for `total_value`.
"""


def tables_page() -> str:
    """The page's text."""
    return _HEAD + "".join(_section(table) for table in TABLES.values())


def _section(table: Table) -> str:
    lines = [f"\n## {table.name}\n", f"A row is {table.row}. Key: {', '.join(f'`{name}`' for name in table.key)}.\n"]
    lines.append("| column | type | what it holds |\n|---|---|---|")
    for field in table.schema:
        null = "" if field.nullable else ", never null"
        lines.append(f"| `{field.name}` | {field.type}{null} | {field.metadata[b'comment'].decode()} |")
    return "\n".join(lines) + "\n"


if __name__ == "__main__":
    PAGE.write_text(tables_page())
