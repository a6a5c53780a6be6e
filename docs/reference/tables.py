"""The reference page of each table, from its schema: its rows, key, columns, files, and an example query."""

from __future__ import annotations

import re
from collections.abc import Iterable
from typing import Final

import pyarrow as pa

from docs.reference.sql_pages import link
from holderlake.core.contract.tables import AMOUNT_TYPE, INSTANT_TYPE, SIDE_TABLES, TABLES, Table
from holderlake.core.storage.layout import partition_folder, table_name
from holderlake.core.warehouse import schema
from holderlake.core.warehouse.schema import OWN_TABLES, Query, queries
from holderlake.core.warehouse.spending import CREDITS

ALL_TABLES: Final = {**TABLES, **OWN_TABLES}

EXAMPLES: Final = {
    "chains": """
SELECT chain, name, count(*) AS instants
FROM chains
GROUP BY ALL ORDER BY chain
""",
    "tokens": """
SELECT chain, symbol, name, transfers_count, min_date
FROM latest_tokens
ORDER BY transfers_count DESC LIMIT 5
""",
    "holders": """
SELECT symbol, rank, address, amount, share
FROM latest_holders JOIN symbols USING (chain, token_address)
WHERE rank <= 3 ORDER BY symbol, rank LIMIT 6
""",
    "maps": """
SELECT symbol, service_score, top_10_adjusted, nakamoto_coefficient, cexs, dexs
FROM latest_maps JOIN symbols USING (chain, token_address)
WHERE service_score IS NOT NULL ORDER BY service_score LIMIT 5
""",
    "map_nodes": """
SELECT kind, count(*) AS nodes, count(DISTINCT address) AS addresses, count(*) FILTER (is_shown_on_map) AS shown
FROM latest_map_nodes
GROUP BY kind ORDER BY kind
""",
    "grouped_transfers": """
SELECT symbol, from_address, to_address, total_value, total_transfers, first_date, last_date
FROM latest_grouped_transfers JOIN symbols USING (chain, token_address)
WHERE transfer_token = token_address AND time_node IS NULL
ORDER BY total_transfers DESC LIMIT 5
""",
    "clusters": """
SELECT symbol, cluster_id, holder_count, magic_node_count, share
FROM latest_clusters JOIN symbols USING (chain, token_address)
ORDER BY share DESC LIMIT 5
""",
    "cluster_members": """
SELECT symbol, cluster_id, kind, count(*) AS members
FROM latest_cluster_members JOIN symbols USING (chain, token_address)
GROUP BY ALL ORDER BY members DESC LIMIT 5
""",
    "subgraph_transfers": """
SELECT address_set, from_address, to_address, transfer_chain, transfer_token, total_value, total_transfers
FROM subgraph_transfers
ORDER BY timestamp DESC, total_transfers DESC LIMIT 5
""",
    "addresses": """
SELECT chain, address, label, is_cex, is_dex, is_contract, degree
FROM latest_addresses
WHERE label IS NOT NULL ORDER BY degree DESC LIMIT 5
""",
    "failures": """
SELECT endpoint, code, count(*) AS requests, max(fetched_at) AS last_of_them
FROM failures
GROUP BY endpoint, code ORDER BY requests DESC
""",
    "revisions": """
SELECT chain, timestamp, table_name, subject, known_since, fetched_at, rows_gone, rows_new
FROM revisions
ORDER BY fetched_at DESC LIMIT 5
""",
    "partitions": """
SELECT chain, family, count(*) AS instants, min(timestamp) AS first, max(timestamp) AS last, sum(row_count) AS rows
FROM partitions
GROUP BY ALL ORDER BY ALL
""",
    "coverage": """
SELECT chain, subject, count(*) AS instants
FROM coverage
WHERE family = 'maps'
GROUP BY ALL ORDER BY ALL LIMIT 5
""",
    "unanswered": """
SELECT family, chain, count(DISTINCT subject) AS subjects, max(timestamp) AS last
FROM unanswered
GROUP BY ALL ORDER BY ALL
""",
    "comparisons": """
SELECT source_a, source_b, what, cause, count(*) AS differences
FROM comparisons
GROUP BY ALL ORDER BY ALL
""",
    "spending": """
SELECT day, endpoint, sum(calls) AS calls, sum(expected) AS expected, sum(billed) AS billed
FROM spending
GROUP BY ALL ORDER BY ALL
""",
}
"""An example query of each table. A test runs each one on the demo's warehouse."""

_UNITS: Final = {
    INSTANT_TYPE: "time, UTC",
    AMOUNT_TYPE: "token units",
    CREDITS: "credits",
    pa.float64(): "0 to 1",
}
_OTHER_UNITS: Final = {"service_score": "0 to 100"}


def table_page(table: Table) -> str:
    """Return a table's page."""
    name = table.name
    head = f"# {name}\n\nA row is {table.row}. Its key is {_listed(schema.key(table))}.\n"
    example = f"## An example\n\n```sql\n{EXAMPLES[name].strip()}\n```\n"
    others = {"spending": "the credit ledger", "comparisons": "the results of `holderlake compare --keep`"}
    source = others.get(name, "the manifests of the lake's partitions")
    where = _OWN_WHERE.format(source=source) if name in OWN_TABLES else _where(table)
    return "\n".join([head, _columns(table), example, where]) + _used_by(name)


def overview() -> str:
    """Return the list of all tables, each with the meaning of a row."""
    lines = ["| table | a row is |", "|---|---|"]
    lines += [f"| [`{name}`](tables/{name}.md) | {table.row} |" for name, table in ALL_TABLES.items()]
    return "\n".join(lines) + "\n"


_OWN_WHERE: Final = """\
## Files

It is in the warehouse only. A load fills it from {source}.
"""


def _where(table: Table) -> str:
    name = table.name
    file = table_name(name, "<chain>", "<as-of instant>", "<family>")
    token = ", token" if "token_address" in table.key else ""
    filled_by = "each family of tables" if name in SIDE_TABLES else f"the family `{table.family}`"
    return f"""\
## Files

| | |
|---|---|
| filled by | {filled_by} |
| in the lake | `data/lake/{file}` |
| partitioned by | chain and as-of instant, such as `{partition_folder("eth", "20250102T030405Z")}` |
| in the warehouse | table `{name}`, with rows by month, chain{token} and instant |
"""


def _columns(table: Table) -> str:
    lines = ["## Columns\n", "| column | meaning | unit | warehouse | lake |", "|---|---|---|---|---|"]
    for field in table.schema:
        name = schema.column_name(field.name)
        never = "" if field.nullable else " NOT NULL"
        renamed = "" if name == field.name else f"`{field.name}`, "
        lake = "" if table.name in OWN_TABLES else f"{renamed}`{field.type}`"
        about = field.metadata[b"comment"].decode()
        lines.append(f"| `{name}` | {about} | {_unit(field)} | `{schema.sql_type(field)}{never}` | {lake} |")
    return "\n".join(lines) + "\n"


def _unit(field: pa.Field) -> str:
    if field.name.endswith("_exact"):
        return _UNITS[AMOUNT_TYPE]
    return _OTHER_UNITS.get(field.name) or _UNITS.get(field.type, "")


def _used_by(name: str) -> str:
    """Return links to the views and macros that read the table, directly or through a view of its newest rows."""
    through = {name, f"latest_{name}", f"{name}_as_of", f"{name}_known_at"}
    users = [query for query in queries() if through & _words(query)]
    links = [link(query, "../sql/") for query in users]
    return f"\n## Views and macros over it\n\n{', '.join(links)}\n" if links else ""


def _words(query: Query) -> set[str]:
    return {query.name, *re.findall(r"\w+", query.sql)}


def _listed(names: Iterable[str]) -> str:
    return ", ".join(f"`{name}`" for name in names)
