"""Connections to DuckDB files, queries on these connections, and their errors."""

from __future__ import annotations

import re
from collections.abc import Container, Mapping, Sequence
from pathlib import Path
from typing import Any, Final

import duckdb
import pyarrow as pa

from holderlake.core.storage.formats import format_fault
from holderlake.core.warehouse import schema

REMEDY: Final = "the next load rebuilds it from the lake, and 'holderlake home rebuild --damaged' does so now"
RELOAD: Final = "'holderlake home rebuild --damaged' makes them again from the store, at no cost"
_LINKED: Final = re.compile(r"\.transfers\b")
_TRANSFERS_REFUSED: Final = (
    "the transfers can't be read, because one of their files is damaged, or the home was moved or copied: "
    f"'holderlake doctor' says which; {RELOAD}"
)
DERIVED_REMEDY: Final = "'holderlake home rebuild --damaged' moves it away and makes it again where it can"
_FILTERED_TOTAL: Final = re.compile(r'"exact_total" is a Macro Function\. "DISTINCT", "FILTER"')
_CORRUPT: Final = "Corrupt database file"
_REFUSED: Final = re.compile("disabled (by|through) configuration")
_UNREADABLE: Final = re.compile(r"\.parquet\b|[Pp]arquet (file|reader|page)|ZSTD|Snappy|decompress|magic bytes")
UTC_SESSION: Final = "SET TimeZone = 'UTC';"
"""SQL without which a session compares and shows times with a zone in the zone of the machine."""
_OFFSET_TIME: Final = (
    r"'\s*\d+-\d\d?-\d\d?[T ]\s*\d\d?:\d\d[\d:.]*\s*"
    r"(?:[+-](?!00?(?::?00)?\s*')\d\d?(?::?\d\d){0,2}|[A-Za-z]+/[\w/+-]+)\s*'"
)
_WITH_ZONE: Final = r"\s*(?:TZ|WITH\s+TIME\s+ZONE)"
_IGNORED_OFFSET: Final = re.compile(
    rf"(?:(?<![:=])=|<|(?<!=)>|\bTIMESTAMP\b|\bDATE\b|\bDATETIME\b|\bBETWEEN\b|\bAND\b|\bIN\s*\()\s*"
    rf"({_OFFSET_TIME})(?!\s*::\s*TIMESTAMP{_WITH_ZONE})"
    rf"|({_OFFSET_TIME})\s*::\s*(?:TIMESTAMP(?!{_WITH_ZONE})|DATE)"
    rf"|\bCAST\s*\(\s*({_OFFSET_TIME})\s+AS\s+(?:TIMESTAMP(?!{_WITH_ZONE})|DATE)",
    re.IGNORECASE,
)
"""Times with an offset that a query compares with a column or casts to a TIMESTAMP. DuckDB ignores their offset."""
_PLACEHOLDER: Final = re.compile(r"'(?:[^']|'')*'|\"[^\"]*\"|--[^\n]*|\?|\$\w+")
"""A placeholder of a query, or a part of it in which there is none."""
TEXT_TYPES: Final = ("INTERVAL", "BIGNUM")
"""Types whose values are text in answers to print and in exported files: intervals, such as 1 month 2 days 03:00:00,
and whole numbers of any size, which are bytes of DuckDB in Arrow."""
_READS: Final = (duckdb.StatementType.SELECT, duckdb.StatementType.MULTI)
"""Types of statements that may only read. A PIVOT is MULTI."""
_FORBIDDEN: Final = ("autoinstall_known_extensions", "autoload_known_extensions", "allow_community_extensions")

Parameters = Sequence[Any] | Mapping[str, Any] | None
"""Values of a query's placeholders: by position (``?``) or by name (``$name``)."""


class WarehouseError(Exception):
    """The warehouse can't be queried or loaded. The message names the reason and the remedy."""


class DamagedWarehouse(WarehouseError):
    """The warehouse's file is damaged, or is not a DuckDB file."""


def attach(
    path: Path, *, files: bool = False, settings: Mapping[str, str | int] | None = None
) -> duckdb.DuckDBPyConnection:
    """Return a read-only connection to a warehouse's file, within bounds (``guard``). Raises ``WarehouseError``.

    With ``files``, queries may read other files. ``settings`` are settings of DuckDB, which queries cannot change.
    The connection is a new in-memory database to which the file is attached. If DuckDB opened the path itself, it would
    reuse a file that this process has open at the path, although a load has replaced the file.
    """
    if not path.exists():
        raise WarehouseError(f"there is no warehouse at {path} yet: run 'holderlake demo' or 'holderlake ingest'")
    connection = prepared(duckdb.connect())
    try:
        for name, value in (settings or {}).items():
            connection.execute(f"SET {name} = {schema.quoted(str(value))}")
        connection.execute(f"ATTACH {schema.quoted(str(path))} AS warehouse (READ_ONLY)")
        connection.execute("USE warehouse")
    except duckdb.Error as error:
        connection.close()
        if "Could not set lock" in str(error):
            raise WarehouseError(
                f"{path} can't be opened, because another program has it open for writing: close it there, or connect "
                f"that program read-only ({error})"
            ) from error
        raise DamagedWarehouse(f"{path} is damaged ({first_line(error)}); {REMEDY}") from error
    try:
        installed = _installed(connection, path)
        fault = linked_fault(path, installed.get("transfers"))
        if fault and files:
            raise WarehouseError(fault)
    except WarehouseError:
        connection.close()
        raise
    return guard(connection, [] if fault else _transfers_folders(path), files=files)


def _installed(connection: duckdb.DuckDBPyConnection, path: Path) -> dict[str, str]:
    """Return the versions that the warehouse records. Raises ``WarehouseError`` if its format is of another version."""
    try:
        installed = dict(connection.execute("SELECT part, sha FROM _internal.installed").fetchall())
    except duckdb.Error:  # not a warehouse, or damaged: the caller's query says so
        return {}
    if fault := format_fault(path, int(installed.get("format", schema.FORMAT)), schema.FORMAT):
        raise WarehouseError(fault)
    return installed


def linked_fault(path: Path, folder: str | None) -> str | None:
    """Return why queries of a warehouse may not read the linked files in ``folder``, with the remedy; None if they may.

    A file whose size or times changed is compared with its checksum.
    """
    if folder is None:
        return None
    if Path(folder).parent not in _transfers_folders(path):
        return f"the home of {path} was moved or copied: its transfers are still those in {folder}; {RELOAD}"
    faults = {
        file: fault
        for part in schema.LINKED_FILES.parts()
        for file, fault in part.faults(Path(folder), is_new=True).items()
    }
    if not faults:
        return None
    file, fault = next(iter(faults.items()))
    others = f", as are {len(faults) - 1:,} other files" if len(faults) > 1 else ""
    return (
        f"{file} is damaged ({fault}){others}; {RELOAD}, and 'holderlake doctor' names the files that it cannot repair"
    )


def _transfers_folders(path: Path) -> list[Path]:
    return [transfers_folder(path), transfers_folder(path.resolve())]


def prepared(connection: duckdb.DuckDBPyConnection) -> duckdb.DuckDBPyConnection:
    """Prepare a connection for queries of users: times in UTC, no progress bar, no Python variables. Return it."""
    connection.execute(UTC_SESSION)
    connection.execute("SET enable_progress_bar = false")
    connection.execute("SET python_enable_replacements = false")
    return connection


def relation_of(
    connection: duckdb.DuckDBPyConnection,
    sql: str,
    parameters: Parameters = None,
    as_text: Container[str] = TEXT_TYPES,
) -> duckdb.DuckDBPyRelation:
    """Return a query's rows with values of the types ``as_text`` as text. Raises as ``one_read``."""
    relation = connection.sql(one_read(connection, sql, parameters), params=parameters)
    columns = [
        f"CAST(#{place} AS VARCHAR) AS {_name(name)}" if str(dtype) in as_text else f"#{place} AS {_name(name)}"
        for place, (name, dtype) in enumerate(zip(relation.columns, relation.types, strict=True), start=1)
    ]
    return relation.project(", ".join(columns)) if any(str(dtype) in as_text for dtype in relation.types) else relation


def _name(column: str) -> str:
    return '"' + column.replace('"', '""') + '"'


def run_query(connection: duckdb.DuckDBPyConnection, sql: str, parameters: Parameters = None) -> pa.Table:
    """Return the rows of a query that a user wrote, with numbers of type BIGNUM as text. The query cannot write
    (``one_read``).

    Raises ``WarehouseError`` with DuckDB's message.
    """
    try:
        return relation_of(connection, sql, parameters, {"BIGNUM"}).to_arrow_table()
    except duckdb.Error as error:
        raise explained(error) from error


def one_read(connection: duckdb.DuckDBPyConnection, sql: str, parameters: Parameters = None) -> str:
    """Return the only statement of a text, without its semicolon, if it only reads; else raise ``WarehouseError``.

    Also refuse a time whose offset DuckDB would ignore.

    DuckDB counts a SELECT whose WITH writes a file or changes rows as a SELECT too, but refuses it as a part of another
    query. So the statement must also be valid as such a part.
    """
    statements = connection.extract_statements(sql)
    if len(statements) != 1:
        raise WarehouseError(f"give one statement; these are {len(statements)}")
    if statements[0].type not in _READS:
        raise WarehouseError(
            f"the statement {statements[0].type.name} is refused: use SELECT, FROM, DESCRIBE, SHOW or SUMMARIZE, or "
            "'holderlake export' to write a file"
        )
    if ignored := _IGNORED_OFFSET.search(with_values(sql, parameters)):
        time = next(filter(None, ignored.groups()))
        raise WarehouseError(f"DuckDB ignores the offset of the time {time} here: write instant({time})")
    text = sql.encode()
    ends = (place for place, _ in duckdb.tokenize(sql) if text[place : place + 1] == b";")
    body = text[: next(ends, len(text))].decode()
    connection.execute(f"EXPLAIN FROM (\n{body}\n)", parameters).fetchall()
    return body


def with_values(sql: str, parameters: Parameters) -> str:
    """Return a query with the texts among the values of its placeholders (``?``, ``$1``, ``$name``) as literals."""
    if not parameters:
        return sql
    values = parameters if isinstance(parameters, Mapping) else dict(enumerate(parameters, start=1))
    by_name = {str(name): value for name, value in values.items()}
    places = iter(by_name)

    def literal(match: re.Match[str]) -> str:
        text = match.group()
        name = next(places, "") if text == "?" else text[1:]
        value = by_name.get(name) if text[0] in "?$" else None
        return schema.quoted(value) if isinstance(value, str) else text

    return _PLACEHOLDER.sub(literal, sql)


def explained(error: duckdb.Error) -> WarehouseError:
    """Return an error of DuckDB as a ``WarehouseError``, with the remedy as far as one is known."""
    if _CORRUPT in str(error):
        return DamagedWarehouse(f"the warehouse is damaged ({first_line(error)}); {REMEDY}")
    if _FILTERED_TOTAL.search(str(error)):
        return WarehouseError("exact_total has no FILTER: write exact_total(…, counted := condition)")
    if "Overflow in HUGEINT addition" in str(error):
        return WarehouseError(
            "the sum is too large for a decimal: write exact_total(amount, amount_exact), for amounts of any size"
        )
    if _REFUSED.search(str(error)):
        return WarehouseError(
            _TRANSFERS_REFUSED
            if _LINKED.search(str(error))
            else f"the query is refused ({first_line(error)}); 'holderlake sql --files' lets a query read files"
        )
    if _UNREADABLE.search(str(error)):
        return WarehouseError(f"{error}; if the file is of the warehouse, {DERIVED_REMEDY}")
    return WarehouseError(str(error))


def transfers_folder(path: Path) -> Path:
    """Return the folder with the transfers of the warehouse at ``path`` (``transfers``)."""
    return path.with_name(f"{path.name}.transfers").absolute()


def guard(
    connection: duckdb.DuckDBPyConnection, folders: Sequence[Path], *, files: bool = False
) -> duckdb.DuckDBPyConnection:
    """Forbid other databases, extensions and changes of settings, by DuckDB settings that can't be reverted.

    Without ``files``, forbid all files outside of ``folders`` too. DuckDB would let statements write to the folders, so
    each statement of a user must also pass ``one_read``. Return the connection.
    """
    allowed = ", ".join(dict.fromkeys(schema.quoted(str(folder)) for folder in folders))
    connection.execute(f"SET allowed_directories = [{allowed}]")
    for name in _FORBIDDEN if files else (*_FORBIDDEN, "enable_external_access"):
        connection.execute(f"SET {name} = false")
    connection.execute("SET lock_configuration = true")
    return connection


def first_line(error: Exception) -> str:
    """Return the first line of an error's message."""
    return str(error).strip().splitlines()[0] if str(error).strip() else type(error).__name__
