"""The columns of views and macros with their types and meanings, for the reference pages."""

from __future__ import annotations

import re
import tomllib
from dataclasses import dataclass
from functools import cache
from importlib.resources import files

import duckdb

from holderlake.core.contract.figures import FIGURES
from holderlake.core.contract.tables import TABLES
from holderlake.core.warehouse import schema
from holderlake.core.warehouse.schema import OWN_TABLES, Query, column_name


@dataclass(frozen=True)
class Column:
    """A column: its name, DuckDB's type, and its meaning."""

    name: str
    type: str
    meaning: str


@cache
def view_columns() -> dict[str, list[Column]]:
    """Return the columns of all views and table macros, by the name of the view or macro.

    Types come from DuckDB. Meanings come from ``sql/columns.toml``, the figures, and the tables' columns of that name.
    Raises ``KeyError`` for a column without a meaning.
    """
    with duckdb.connect() as connection:
        schema.install(connection)
        return {
            query.name: [Column(name, dtype, _meaning(query, name)) for name, dtype in _described(connection, query)]
            for query in schema.queries()
            if query.kind != "MACRO"
        }


def _described(connection: duckdb.DuckDBPyConnection, query: Query) -> list[tuple[str, str]]:
    """Return pairs (name, type) of a query's columns. A macro is called with the arguments in its example."""
    call = re.search(rf"\b{query.name}(\((?:[^()]|\((?:[^()]|\([^()]*\))*\))*\))?", query.example)
    source = query.name if query.kind == "VIEW" or call is None else call.group()
    rows = connection.execute(f"DESCRIBE FROM {source}").fetchall()
    return [(name, dtype) for name, dtype, *_ in rows]


def _meaning(query: Query, column: str) -> str:
    if query.snapshot_of and (query.snapshot_of, column) in _table_meanings():
        return _table_meanings()[query.snapshot_of, column]
    for part in (query.name, "common"):
        if column in _meanings().get(part, {}):
            return _meanings()[part][column]
    if column in FIGURES:
        return FIGURES[column].explanation
    meanings = {meaning for (_, name), meaning in _table_meanings().items() if name == column}
    if len(meanings) != 1:
        raise KeyError(f"{query.name}.{column} has no meaning: add it to sql/columns.toml")
    return meanings.pop()


@cache
def _meanings() -> dict[str, dict[str, str]]:
    return tomllib.loads(files("holderlake.core.warehouse").joinpath("sql", "columns.toml").read_text())


@cache
def _table_meanings() -> dict[tuple[str, str], str]:
    return {
        (table.name, column_name(field.name)): field.metadata[b"comment"].decode()
        for table in (*TABLES.values(), *OWN_TABLES.values())
        for field in table.schema
    }
