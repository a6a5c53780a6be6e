"""Read files of transfers from any tool: other names of columns, and other ways to write numbers and times."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import Final

import duckdb
import pyarrow as pa

from holderlake.analysis.entities.statements import SqlEngine, Statement
from holderlake.engine.errors import BadSource

_COLUMNS: Final = {
    "chain": "''",
    "token_address": "''",
    "tx_hash": "CAST(NULL AS VARCHAR)",
    "block_time": "CAST(NULL AS BIGINT)",
    "value": "CAST(NULL AS DOUBLE)",
    "transfers": "1",
}
"""Columns of transfers that a file may lack, each with the SQL of its value then."""
_OTHER_NAMES: Final = {
    "from_address": ("from", "sender"),
    "to_address": ("to", "receiver", "recipient"),
    "token_address": ("token",),
    "tx_hash": ("transaction_hash", "tx"),
    "block_time": ("block_timestamp", "timestamp"),
    "value": ("amount",),
}
"""Names of columns in files of other tools. The first name that a file has counts, after the column's own name."""


def read_transfers(engine: SqlEngine, paths: Sequence[str], until: int | None) -> None:
    """Make the view ``given`` of transfers in files: ``from_address``, ``to_address``, and the columns ``_COLUMNS``.

    Transfers after ``until`` (unix seconds) are left out. Raises ``BadSource`` if a file can't be read, or lacks a
    column that is needed.
    """
    with errors_of(paths):
        engine.read("files", paths)
        engine.run(Statement("no_rows", "SELECT * FROM files LIMIT 0"), {})
        columns = engine.table("no_rows").schema
    names = {
        column: next((name for name in (column, *_OTHER_NAMES.get(column, ())) if name in columns.names), None)
        for column in ("from_address", "to_address", *_COLUMNS)
    }
    needed = ["from_address", "to_address", *(["block_time"] if until is not None else [])]
    if missing := [column for column in needed if names[column] is None]:
        raise BadSource(f"{names_of(paths)} has no column {' and no column '.join(missing)}")
    listed = ", ".join(
        f"{_COLUMNS[column] if name is None else _sql_of(columns.field(name), column)} AS {column}"
        for column, name in names.items()
    )
    condition = "" if until is None else f" AND block_time <= {until}"
    ends = "from_address IS NOT NULL AND to_address IS NOT NULL"
    engine.run(Statement("given", f"SELECT * FROM (SELECT {listed} FROM files) AS read WHERE {ends}{condition}"), {})


def _sql_of(field: pa.Field, column: str) -> str:
    """Return the SQL that makes a column of transfers from a column of a file.

    A value that can't be read as a number or a time is null.
    """
    name = f'"{field.name}"'
    if column == "value":
        return f"CASE WHEN abs(TRY_CAST({name} AS DOUBLE)) < 1e300 THEN TRY_CAST({name} AS DOUBLE) END"
    if column == "transfers":
        return f"coalesce(TRY_CAST({name} AS BIGINT), 1)"
    if column == "block_time":
        if pa.types.is_integer(field.type) or pa.types.is_floating(field.type):
            return f"TRY_CAST({name} AS BIGINT)"
        if pa.types.is_timestamp(field.type):
            return f"CAST(epoch({name}) AS BIGINT)"
        text = f"CAST({name} AS VARCHAR)"
        return f"coalesce(TRY_CAST({text} AS BIGINT), CAST(epoch(TRY_CAST({text} AS TIMESTAMPTZ)) AS BIGINT))"
    return f"coalesce({plain_text(name)}, '')" if column in ("chain", "token_address") else plain_text(name)


def plain_text(column: str) -> str:
    """Return the SQL of a column as text, with hexadecimal numbers in small letters."""
    text = f"CAST({column} AS VARCHAR)"
    return f"CASE WHEN {text} LIKE '0x%' OR {text} LIKE '0X%' THEN lower({text}) ELSE {text} END"


@contextmanager
def errors_of(paths: Sequence[str]) -> Iterator[None]:
    """Raise ``BadSource``, which names the files, for an error of reading them."""
    try:
        yield
    except (duckdb.Error, FileNotFoundError) as error:
        raise BadSource(f"{names_of(paths)} can't be read as transfers: {str(error).splitlines()[0]}") from error


def names_of(paths: Sequence[str]) -> str:
    """Return the name of a file, or the number of files and the first name."""
    return paths[0] if len(paths) == 1 else f"one of the {len(paths):,} files from {paths[0]} on"
