"""The warehouse's layout: tables after the contract's schemas, with their comments, and the views and macros of
``warehouse_sql``.

Which rows are in them is the warehouse's matter.
"""

from __future__ import annotations

import hashlib
import re
from collections.abc import Iterator
from dataclasses import dataclass
from importlib.resources import files
from itertools import takewhile
from typing import Final

import duckdb
import pyarrow as pa

from contract.tables import AMOUNT_TYPE, INSTANT_TYPE, TABLES, Table

_TYPES: Final = {
    pa.string(): "VARCHAR",
    pa.float64(): "DOUBLE",
    pa.int64(): "BIGINT",
    pa.bool_(): "BOOLEAN",
    INSTANT_TYPE: "TIMESTAMP",
    AMOUNT_TYPE: "DECIMAL(38, 18)",
}
_OWN_TABLES: Final = """
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
"""
_NAMED: Final = re.compile(r"^CREATE OR REPLACE (VIEW|MACRO) (\w+)", re.MULTILINE)


@dataclass(frozen=True)
class Query:
    """A view or macro: its SQL, and the comment above it, which says what it is and shows an example."""

    name: str
    kind: str
    comment: str
    sql: str


def queries() -> list[Query]:
    """The views and macros by name."""
    folder = files("resources").joinpath("warehouse_sql")
    texts = sorted((file.name, file.read_text()) for file in folder.iterdir() if file.name.endswith(".sql"))
    return [_query(text) for _, text in texts]


def tables_sha() -> str:
    """Tells layouts of tables apart: names, types and order of columns."""
    return hashlib.sha256("".join(map(_create, TABLES.values())).encode()).hexdigest()


def views_sha() -> str:
    """Tells versions of views, macros and comments apart."""
    text = "".join(query.sql for query in queries()) + "".join(_comments())
    return hashlib.sha256(text.encode()).hexdigest()


def column_name(name: str) -> str:
    """A lake's column as the warehouse names it."""
    return "timestamp" if name == "as_of" else name


def quoted(text: str) -> str:
    """A text as an SQL literal."""
    return "'" + text.replace("'", "''") + "'"


def install(connection: duckdb.DuckDBPyConnection) -> None:
    """Makes what is missing of the tables, and all views, macros and comments anew, in one transaction."""
    connection.execute("BEGIN")
    connection.execute(_OWN_TABLES)
    for statement in (*map(_create, TABLES.values()), *(query.sql for query in queries()), *_comments()):
        connection.execute(statement)
    connection.execute(
        "INSERT OR REPLACE INTO _installed VALUES ('tables', ?), ('views', ?)", [tables_sha(), views_sha()]
    )
    connection.execute("COMMIT")


def _create(table: Table) -> str:
    columns = ",\n".join(
        f"    {column_name(field.name)} {_TYPES[field.type]}{'' if field.nullable else ' NOT NULL'}"
        for field in table.schema
    )
    return f"CREATE TABLE IF NOT EXISTS {table.name} (\n{columns}\n);\n"


def _comments() -> Iterator[str]:
    for table in TABLES.values():
        yield f"COMMENT ON TABLE {table.name} IS {quoted(f'A row is {table.row}')};"
        for field in table.schema:
            comment = quoted(field.metadata[b"comment"].decode())
            yield f"COMMENT ON COLUMN {table.name}.{column_name(field.name)} IS {comment};"
    for query in queries():
        yield f"COMMENT ON {query.kind} {query.name} IS {quoted(query.comment)};"


def _query(text: str) -> Query:
    found = _NAMED.search(text)
    if found is None:
        raise ValueError(f"no view or macro is made by: {text[:60]}")
    kind, name = found.groups()
    above = [line.removeprefix("--").strip() for line in takewhile(lambda line: line[:2] == "--", text.splitlines())]
    comment = " ".join(above).replace(" Example: ", "\nExample: ")
    return Query(name, "MACRO TABLE" if kind == "MACRO" else kind, comment, text)
