"""The warehouse's layout: tables from the contract's schemas with their comments, and the views and macros in ``sql/``.

The same views and macros work over the lake's Parquet files. Loading rows belongs in ``loader``.
"""

from __future__ import annotations

import hashlib
import json
import re
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from datetime import timedelta
from functools import cache
from graphlib import TopologicalSorter
from importlib.resources import files
from itertools import takewhile
from pathlib import Path
from types import ModuleType
from typing import Any, Final, Protocol

import duckdb
import pyarrow as pa

from holderlake.core.contract.chains import BURN_ADDRESSES
from holderlake.core.contract.tables import AMOUNT_TYPE, INSTANT_TYPE, TABLES, Table, column
from holderlake.core.registry import Kind
from holderlake.core.warehouse import spending


class LinkedFiles(Protocol):
    """A module about files that the warehouse reads where they lie."""

    def link(self, root: Path, read: Callable[[], Any]) -> str | None:
        """Make a folder in ``root`` with links to the present files, and return its name; None without files."""

    def views(self, folder: Path | None) -> str:
        """Return SQL that creates the views of a folder's files, or views without rows."""

    def faults(self, folder: Path, *, every_byte: bool = False, is_new: bool = False) -> dict[Path, str]:
        """Return the damaged files of a folder, with the difference; with ``is_new`` those damaged since it was made.

        Unless ``every_byte`` is true, only files with another size or time are read.
        """

    def remove_old(self, root: Path) -> None:
        """Remove the folders of links that no reader has open."""


class OwnTable(Protocol):
    """A module with a table of the warehouse whose rows are files next to it."""

    TABLE: Table
    REMEDY: str
    """How a damaged file is repaired."""


VIEWS: Final[Kind[ModuleType]] = Kind("views")
"""Packages with SQL files of views and macros."""
OWN_TABLE: Final[Kind[OwnTable]] = Kind("tables")
LINKED_FILES: Final[Kind[LinkedFiles]] = Kind("linked_files")
FORMAT: Final = 1
"""Format of the warehouse's internal tables (schema ``_internal``)."""
_TYPES: Final = {
    pa.string(): "VARCHAR",
    pa.float64(): "DOUBLE",
    pa.int64(): "BIGINT",
    pa.bool_(): "BOOLEAN",
    pa.date32(): "DATE",
    spending.CREDITS: "DECIMAL(18, 2)",
    INSTANT_TYPE: "TIMESTAMP",
    AMOUNT_TYPE: "DECIMAL(38, 18)",
}
_INTERNAL_TABLES: Final = """
CREATE SCHEMA IF NOT EXISTS _internal;
CREATE TABLE IF NOT EXISTS _internal.loaded (
    family VARCHAR NOT NULL,
    chain VARCHAR NOT NULL,
    timestamp TIMESTAMP NOT NULL,
    manifest_sha VARCHAR NOT NULL,
    loaded_at TIMESTAMP NOT NULL,
    PRIMARY KEY (family, chain, timestamp)
);
CREATE TABLE IF NOT EXISTS _internal.installed (
    part VARCHAR PRIMARY KEY,
    sha VARCHAR NOT NULL
);
CREATE TABLE IF NOT EXISTS _internal.mixed (
    table_name VARCHAR PRIMARY KEY,
    rows BIGINT NOT NULL
);
"""
_SNAPSHOTS: Final = {
    "tokens": (
        "Name, symbol and transfer count, as known at fetched_at, because tokens have no history,",
        "SELECT chain, symbol, name, transfers_count FROM {name} ORDER BY ALL",
    ),
    "holders": (
        "Listed holders (balances_at has all holders of a token of your store)",
        "SELECT chain, token_address, rank, address, share FROM {name} WHERE rank <= 10"
        " ORDER BY chain, token_address, rank",
    ),
    "maps": ("The map", "SELECT chain, token_address, service_score, cexs FROM {name} ORDER BY service_score"),
    "map_nodes": (
        "Nodes of the map",
        "SELECT token_address, label, share FROM {name} WHERE is_cex ORDER BY share DESC, token_address, label",
    ),
    "grouped_transfers": (
        "Relationships of the map, with sums since the first transfer,",
        "SELECT from_address, to_address, total_value FROM {name} WHERE time_node IS NULL ORDER BY ALL LIMIT 5",
    ),
    "clusters": (
        "Clusters of the map",
        "SELECT chain, token_address, cluster_id, share FROM {name} WHERE share > 0.05"
        " ORDER BY share DESC, token_address",
    ),
    "cluster_members": (
        "Members of the clusters of the map",
        "SELECT chain, token_address, cluster_id, count(*) AS members FROM {name} GROUP BY ALL ORDER BY ALL",
    ),
}
"""Values for ``snapshots.sql.template`` by table: a phrase that describes the rows, and an example query.

Another table about tokens has the phrase and the example of ``_snapshots``.
"""
_IS_BURN: Final = """\
-- True for an address without an owner: mints come from it, burns go to it.
-- Example: SELECT is_burn('0x000000000000000000000000000000000000dead') AS dead;
CREATE OR REPLACE MACRO is_burn(address) AS address IN ({addresses});
"""
_STATEMENT_END: Final = re.compile(r"(?<=;)\n\n(?=--)")
_NAMED_STATEMENT: Final = re.compile(r"^CREATE OR REPLACE (VIEW|MACRO) (\w+)(?:\(.*\) AS (TABLE)?)?", re.MULTILINE)


_COMMON: Final = (
    column("chain", pa.string(), "Chain id"),
    column("as_of", INSTANT_TYPE, "The partition's instant, UTC"),
    column("family", pa.string(), "Family of tables that is fetched together: tokens, holders, maps, …"),
)
OWN_TABLES: Final = {
    table.name: table
    for table in (
        Table(
            "partitions",
            "a partition: the fetched rows of a family of tables, for one chain and instant",
            pa.schema(
                [
                    *_COMMON,
                    column("provider", pa.string(), "Provider of the rows"),
                    column("written_at", INSTANT_TYPE, "When the partition was last written to the lake, UTC"),
                    column("row_count", pa.int64(), "Rows of all tables of the family"),
                    column("failures", pa.int64(), "Requests, rows and values that could not be read"),
                    column(
                        "store_change",
                        pa.int64(),
                        "Number of a change of your store that all rows include; null for another provider",
                        required=False,
                    ),
                ]
            ),
            ("family", "chain", "as_of"),
        ),
        Table(
            "coverage",
            "a subject (a token, an address set, an address) that a partition has an answer for, with or without rows",
            pa.schema(
                [
                    *_COMMON,
                    column("subject", pa.string(), "The token, address set or address"),
                    column(
                        "known_since",
                        INSTANT_TYPE,
                        "Time of the first answer that gave no row, UTC; null if all gave rows, or if unknown",
                        required=False,
                    ),
                ]
            ),
            ("family", "chain", "as_of", "subject"),
        ),
        Table(
            "unanswered",
            "a subject that was to be requested and has no answer: the request failed, or the run stopped before it",
            pa.schema([*_COMMON, column("subject", pa.string(), "The token, address set or address")]),
            ("family", "chain", "as_of", "subject"),
        ),
        spending.TABLE,
        *(part.TABLE for part in OWN_TABLE.parts()),
    )
}
"""Tables of the warehouse that the lake does not have. A load fills them from the manifests, the ledger and others."""


@dataclass(frozen=True)
class Query:
    """A view or macro: its SQL, and its description with an example (``comment``).

    ``kind`` is VIEW, MACRO or MACRO TABLE; ``signature`` is the name with its parameters.
    """

    name: str
    kind: str
    comment: str
    sql: str
    signature: str = ""

    @property
    def example(self) -> str:
        """An example query that uses the view or macro."""
        return self.comment.partition("Example: ")[2]

    @property
    def snapshot_of(self) -> str | None:
        """The table with the columns of ``latest_…``, ``…_as_of``, ``…_known_at`` or ``replaced_…``; else None.

        ``replaced_…`` has the column ``known_until`` too.
        """
        table = re.sub(r"^latest_|^replaced_|_as_of$|_known_at$", "", self.name)
        return table if table != self.name and table in TABLES else None


@cache
def queries() -> tuple[Query, ...]:
    """Return all views and macros, sorted by name."""
    folders = [
        files("holderlake.core.warehouse").joinpath("sql"),
        *(files(package.__name__) for package in VIEWS.parts()),
    ]
    found = (file for folder in folders for file in folder.iterdir())
    texts = [file.read_text("utf-8") for file in found if file.name.endswith(".sql")]
    texts.append(_IS_BURN.format(addresses=", ".join(map(quoted, sorted(BURN_ADDRESSES)))))
    texts += [_snapshots(table) for table in TABLES.values() if table.family and "token_address" in table.key]
    statements = [_query(part) for text in texts for part in _STATEMENT_END.split(text)]
    return tuple(sorted(statements, key=lambda query: query.name))


def tables_sha() -> str:
    """Return a SHA-256 of the table definitions: names, types and order of columns."""
    return hashlib.sha256("".join(map(_create, _tables())).encode()).hexdigest()


def views_sha() -> str:
    """Return a SHA-256 of the SQL of all views, macros and comments."""
    text = "".join(query.sql for query in queries()) + "".join(comment_statements("TABLE"))
    return hashlib.sha256(text.encode()).hexdigest()


def column_name(name: str) -> str:
    """Return the name that a column of the lake has in the warehouse: ``timestamp`` for ``as_of``, else the same."""
    return "timestamp" if name == "as_of" else name


def sql_type(field: pa.Field) -> str:
    """Return DuckDB's name of a column's type."""
    return _TYPES[field.type]


def key(table: Table) -> tuple[str, ...]:
    """Return the names of a table's key columns in the warehouse."""
    return tuple(map(column_name, table.key))


def order(table: Table, instant: str) -> str:
    """Return the ORDER BY columns of a table: month, chain, token, instant, then the rest of its key.

    ``instant`` is the name of the column with the instant.
    """
    columns_left = [name for name in table.key if name not in {"chain", "as_of", "token_address"}]
    token = ["token_address"] if "token_address" in table.key else []
    rank = ["rank"] if "rank" in table.schema.names else []
    return ", ".join([f"date_trunc('month', {instant})", "chain", *token, instant, *rank, *columns_left])


def quoted(text: str) -> str:
    """Return a text as an SQL literal."""
    return "'" + text.replace("'", "''") + "'"


def files_sql(files: Iterable[tuple[str, Path]]) -> str:
    """Return SQL that reads Parquet files of one table, given as pairs of chain and path.

    The chain is in the path of a lake's file, but not in that of a copy. Columns that some files lack are null.
    """
    paths: dict[str, list[str]] = {}
    for chain, path in files:
        paths.setdefault(chain, []).append(quoted(str(path)))
    return " UNION ALL BY NAME ".join(
        f"SELECT {quoted(chain)} AS chain, * "
        f"FROM read_parquet([{', '.join(listed)}], hive_partitioning = false, union_by_name = true)"
        for chain, listed in paths.items()
    )


def install(connection: duckdb.DuckDBPyConnection) -> None:
    """Create missing tables and replace all views, macros and comments, in one transaction."""
    connection.execute("BEGIN")
    connection.execute(_INTERNAL_TABLES)
    for part in LINKED_FILES.parts():
        connection.execute(part.views(None))
    for statement in (*map(_create, _tables()), *view_statements(), *comment_statements("TABLE")):
        connection.execute(statement)
    connection.execute(
        "INSERT OR REPLACE INTO _internal.installed VALUES ('tables', ?), ('views', ?), ('format', ?)",
        [tables_sha(), views_sha(), str(FORMAT)],
    )
    connection.execute("COMMIT")


def as_of_warning(age: timedelta) -> str:
    """Return SQL that sets the age beyond which answers as of an instant are outdated."""
    comment = next(query.comment for query in queries() if query.name == "as_of_warning")
    return (
        f"CREATE OR REPLACE MACRO as_of_warning() AS to_seconds({age.total_seconds():.0f});\n"
        f"COMMENT ON MACRO as_of_warning IS {quoted(comment)};\n"
    )


def view_statements() -> Iterator[str]:
    """Yield SQL statements that create all views and macros over the tables."""
    yield from (query.sql for query in _in_order())


def _tables() -> tuple[Table, ...]:
    return (*TABLES.values(), *OWN_TABLES.values())


def _create(table: Table) -> str:
    columns = ",\n".join(
        f"    {column_name(field.name)} {sql_type(field)}{'' if field.nullable else ' NOT NULL'}"
        for field in table.schema
    )
    return f"CREATE TABLE IF NOT EXISTS {table.name} (\n{columns}\n);\n"


def comment_statements(tables_are: str) -> Iterator[str]:
    """Yield SQL statements that describe all tables, views, macros and columns.

    ``tables_are`` is the kind of the contract's tables in the database: ``TABLE`` in the warehouse, ``VIEW`` over the
    lake.
    """
    for table in _tables():
        about = f"A row is {table.row}. Key: {', '.join(key(table))}"
        yield f"COMMENT ON {tables_are} {table.name} IS {quoted(about)};"
        for field in table.schema:
            comment = quoted(field.metadata[b"comment"].decode())
            yield f"COMMENT ON COLUMN {table.name}.{column_name(field.name)} IS {comment};"
    for query in queries():
        yield f"COMMENT ON {query.kind} {query.name} IS {quoted(query.comment)};"


def _in_order() -> list[Query]:
    """Return the views and macros so that each comes after those that it uses.

    DuckDB resolves the names in a view or macro when it creates it.
    """
    by_name = {query.name: query for query in queries()}
    uses = {name: by_name.keys() & set(re.findall(r"\w+", query.sql)) - {name} for name, query in by_name.items()}
    return [by_name[name] for name in TopologicalSorter(uses).static_order()]


def _snapshots(table: Table) -> str:
    """Return the SQL of a table's ``latest_`` view and its ``_as_of`` and ``_known_at`` macros."""
    name = table.name
    rows, example = _SNAPSHOTS.get(name, (f"Rows of {name}", "FROM {name} ORDER BY ALL LIMIT 5"))
    template = files("holderlake.core.warehouse").joinpath("sql", "snapshots.sql.template").read_text("utf-8")
    fields = [field for field in table.schema if field.name not in {"chain", "as_of", "token_address"}]
    return template.format(
        table=name,
        family=table.family,
        rows=rows,
        example_latest=example.format(name=f"latest_{name}"),
        example_as_of=example.format(name=f"{name}_as_of('2026-06-30')"),
        columns=", ".join(map(column_name, table.schema.names)),
        structure=json.dumps({field.name: sql_type(field) for field in fields}),
        example_replaced=f"SELECT chain, token_address, timestamp, fetched_at, known_until FROM replaced_{name} "
        "ORDER BY ALL LIMIT 5",
        example_known_at=example.format(name=f"{name}_known_at('2026-06-30', '2027-01-01')"),
    )


def _query(text: str) -> Query:
    match = _NAMED_STATEMENT.search(text)
    if match is None:
        raise ValueError(f"this SQL has no CREATE OR REPLACE VIEW or MACRO; add one: {text[:60]}")
    kind, name, is_table = match.groups()
    sql = text[match.start() :].strip() + "\n"
    above = [line.removeprefix("--").strip() for line in takewhile(lambda line: line[:2] == "--", text.splitlines())]
    comment = " ".join(above).replace(" Example: ", "\nExample: ")
    signature = re.match(r"\w+(?:\([^)]*\))?", sql.partition(f"{kind} ")[2])
    kind = "MACRO TABLE" if is_table else kind
    return Query(name, kind, comment, sql, signature.group() if signature else name)
