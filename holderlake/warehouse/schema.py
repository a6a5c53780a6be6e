"""The warehouse's layout: tables after the contract's schemas, with their comments, and the views and macros of
``warehouse_sql``; and the same layout over the lake's Parquet files alone.

Which rows are in them is the warehouse's matter.
"""

from __future__ import annotations

import hashlib
import re
from collections.abc import Iterator
from dataclasses import dataclass
from functools import cache
from graphlib import TopologicalSorter
from importlib.resources import files
from itertools import takewhile
from typing import Final

import duckdb
import pyarrow as pa

from holderlake.contract.tables import AMOUNT_TYPE, INSTANT_TYPE, TABLES, Table

_TYPES: Final = {
    pa.string(): "VARCHAR",
    pa.float64(): "DOUBLE",
    pa.int64(): "BIGINT",
    pa.bool_(): "BOOLEAN",
    INSTANT_TYPE: "TIMESTAMP",
    AMOUNT_TYPE: "DECIMAL(38, 18)",
}
_BOOKS: Final = """
CREATE TABLE IF NOT EXISTS _loaded (
    family VARCHAR NOT NULL,
    chain VARCHAR NOT NULL,
    timestamp TIMESTAMP NOT NULL,
    manifest_sha VARCHAR NOT NULL,
    loaded_at TIMESTAMP NOT NULL,
    PRIMARY KEY (family, chain, timestamp)
);
CREATE TABLE IF NOT EXISTS _installed (
    part VARCHAR PRIMARY KEY,
    sha VARCHAR NOT NULL
);
CREATE TABLE IF NOT EXISTS _mixed (
    table_name VARCHAR PRIMARY KEY,
    rows BIGINT NOT NULL
);
"""
_STATEMENT_END: Final = re.compile(r"(?<=;)\n\n(?=--)")
_NAMED: Final = re.compile(r"^CREATE OR REPLACE (VIEW|MACRO) (\w+)(?:\(.*\) AS (TABLE)?)?", re.MULTILINE)


def _column(name: str, dtype: pa.DataType, comment: str, *, required: bool = True) -> pa.Field:
    return pa.field(name, dtype, nullable=not required, metadata={"comment": comment})


_COMMON: Final = (
    _column("chain", pa.string(), "Chain id"),
    _column("as_of", INSTANT_TYPE, "The partition's instant, UTC"),
    _column("family", pa.string(), "Family of tables that is fetched together: tokens, holders, maps, …"),
)
OWN_TABLES: Final = {
    table.name: table
    for table in (
        Table(
            "partitions",
            "a partition: what was fetched of a family of tables, of one chain, as of one instant",
            pa.schema(
                [
                    *_COMMON,
                    _column("provider", pa.string(), "Whose answers they are"),
                    _column("written_at", INSTANT_TYPE, "When the partition was last written to the lake, UTC"),
                    _column("row_count", pa.int64(), "Rows of all tables of the family"),
                    _column("failures", pa.int64(), "Requests, rows and values that could not be read"),
                ]
            ),
            ("family", "chain", "as_of"),
        ),
        Table(
            "coverage",
            "a subject (a token, an address set, an address) that a partition answered for, with rows or without",
            pa.schema([*_COMMON, _column("subject", pa.string(), "The token, address set or address")]),
            ("family", "chain", "as_of", "subject"),
        ),
    )
}
"""What the warehouse knows of partitions, from their manifests."""


@dataclass(frozen=True)
class Query:
    """A view or macro: its SQL, and the comment above it, which says what it is and shows an example."""

    name: str
    kind: str
    comment: str
    sql: str
    signature: str = ""

    @property
    def example(self) -> str:
        """A query that shows its use."""
        return self.comment.partition("Example: ")[2]


@cache
def queries() -> tuple[Query, ...]:
    """The views and macros by name."""
    folder = files("holderlake.warehouse").joinpath("sql")
    texts = [file.read_text() for file in folder.iterdir() if file.name.endswith(".sql")]
    found = [_query(part) for text in texts for part in _STATEMENT_END.split(text)]
    return tuple(sorted(found, key=lambda query: query.name))


def tables_sha() -> str:
    """Tells layouts of tables apart: names, types and order of columns."""
    return hashlib.sha256("".join(map(_create, _tables())).encode()).hexdigest()


def views_sha() -> str:
    """Tells versions of views, macros and comments apart."""
    text = "".join(query.sql for query in queries()) + "".join(_comments("TABLE"))
    return hashlib.sha256(text.encode()).hexdigest()


def column_name(name: str) -> str:
    """A lake's column as the warehouse names it."""
    return "timestamp" if name == "as_of" else name


def sql_type(field: pa.Field) -> str:
    """DuckDB's name of a column's type."""
    return _TYPES[field.type]


def key(table: Table) -> tuple[str, ...]:
    """The columns that tell a table's rows apart, as the warehouse names them."""
    return tuple(map(column_name, table.key))


def order(table: Table, instant: str) -> str:
    """The order in which rows lie: by month, chain, token and instant (named so), then by the rest of its key."""
    rest = [name for name in table.key if name not in {"chain", "as_of", "token_address"}]
    token = ["token_address"] if "token_address" in table.key else []
    rank = ["rank"] if "rank" in table.schema.names else []
    return ", ".join([f"date_trunc('month', {instant})", "chain", *token, instant, *rank, *rest])


def quoted(text: str) -> str:
    """A text as an SQL literal."""
    return "'" + text.replace("'", "''") + "'"


def install(connection: duckdb.DuckDBPyConnection) -> None:
    """Makes what is missing of the tables, and all views, macros and comments anew, in one transaction."""
    connection.execute("BEGIN")
    connection.execute(_BOOKS)
    for statement in (*map(_create, _tables()), *asking("TABLE")):
        connection.execute(statement)
    connection.execute(
        "INSERT OR REPLACE INTO _installed VALUES ('tables', ?), ('views', ?)", [tables_sha(), views_sha()]
    )
    connection.execute("COMMIT")


def asking(tables_are: str) -> Iterator[str]:
    """Statements that make all views and macros over the tables (``TABLE``s or ``VIEW``s), and all comments."""
    yield from (query.sql for query in _in_order())
    yield from _comments(tables_are)


def _tables() -> tuple[Table, ...]:
    return (*TABLES.values(), *OWN_TABLES.values())


def _create(table: Table) -> str:
    columns = ",\n".join(
        f"    {column_name(field.name)} {sql_type(field)}{'' if field.nullable else ' NOT NULL'}"
        for field in table.schema
    )
    return f"CREATE TABLE IF NOT EXISTS {table.name} (\n{columns}\n);\n"


def _comments(tables_are: str) -> Iterator[str]:
    for table in _tables():
        about = f"A row is {table.row}. Key: {', '.join(key(table))}"
        yield f"COMMENT ON {tables_are} {table.name} IS {quoted(about)};"
        for field in table.schema:
            comment = quoted(field.metadata[b"comment"].decode())
            yield f"COMMENT ON COLUMN {table.name}.{column_name(field.name)} IS {comment};"
    for query in queries():
        yield f"COMMENT ON {query.kind} {query.name} IS {quoted(query.comment)};"


def _in_order() -> list[Query]:
    """Each after those that it uses: DuckDB looks names up when a view or macro is made."""
    named = {query.name: query for query in queries()}
    uses = {name: named.keys() & set(re.findall(r"\w+", query.sql)) - {name} for name, query in named.items()}
    return [named[name] for name in TopologicalSorter(uses).static_order()]


def _query(text: str) -> Query:
    found = _NAMED.search(text)
    if found is None:
        raise ValueError(f"no view or macro is made by: {text[:60]}")
    kind, name, is_table = found.groups()
    sql = text[found.start() :].strip() + "\n"
    above = [line.removeprefix("--").strip() for line in takewhile(lambda line: line[:2] == "--", text.splitlines())]
    comment = " ".join(above).replace(" Example: ", "\nExample: ")
    signature = re.match(r"\w+(?:\([^)]*\))?", sql.partition(f"{kind} ")[2])
    kind = "MACRO TABLE" if is_table else kind
    return Query(name, kind, comment, sql, signature.group() if signature else name)
