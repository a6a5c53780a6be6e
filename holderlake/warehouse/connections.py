"""Connections to DuckDB files, queries on these connections, and their errors."""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import suppress
from pathlib import Path
from typing import Any, Final

import duckdb
import pyarrow as pa

from holderlake.storage.formats import too_new
from holderlake.warehouse import schema

REMEDY: Final = "the next load rebuilds it from the lake, and 'holderlake rebuild --damaged' does so now"
_CORRUPT: Final = "Corrupt database file"


class WarehouseError(Exception):
    """The warehouse can't be queried or loaded. The message names the reason and the remedy."""


class DamagedWarehouse(WarehouseError):
    """The warehouse's file is damaged, or is not a DuckDB file."""


def attach(path: Path) -> duckdb.DuckDBPyConnection:
    """Return a read-only connection to a warehouse's file. Raises ``WarehouseError``.

    The connection is a new in-memory database to which the file is attached. If DuckDB opened the path itself, it would
    reuse a file that this process has open at the path, although a load has replaced the file.
    """
    if not path.exists():
        raise WarehouseError(f"there is no warehouse at {path} yet: run 'holderlake demo' or 'holderlake ingest'")
    connection = quiet(duckdb.connect())
    try:
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
        _refuse_newer(connection, path)
    except WarehouseError:
        connection.close()
        raise
    return connection


def _refuse_newer(connection: duckdb.DuckDBPyConnection, path: Path) -> None:
    """Raise ``WarehouseError`` if a later version of Holderlake made the warehouse in a format unknown to this one."""
    with suppress(duckdb.Error):  # not a warehouse, or damaged: the caller's query says so
        found = connection.execute("SELECT sha FROM _internal.installed WHERE part = 'format'").fetchall()
        for (number,) in found:
            if int(number) > schema.FORMAT:
                raise WarehouseError(too_new(path, number, schema.FORMAT))


def quiet(connection: duckdb.DuckDBPyConnection) -> duckdb.DuckDBPyConnection:
    """Turn off progress bars, and SQL access to Python variables, on a connection. Return the connection."""
    connection.execute("SET enable_progress_bar = false")
    connection.execute("SET python_enable_replacements = false")
    return connection


def run_query(
    connection: duckdb.DuckDBPyConnection,
    sql: str,
    parameters: Sequence[Any] | None = None,
    *,
    most: int | None = None,
) -> pa.Table:
    """Return the rows of a query, or the first ``most``. Raises ``WarehouseError`` with DuckDB's message."""
    try:
        relation = connection.sql(sql, params=parameters)
        if relation is None:
            return pa.table({})
        return (relation if most is None else relation.limit(most)).to_arrow_table()
    except duckdb.Error as error:
        if _CORRUPT in str(error):
            raise DamagedWarehouse(f"the warehouse is damaged ({first_line(error)}); {REMEDY}") from error
        raise WarehouseError(str(error)) from error


def run_foreign_query(
    connection: duckdb.DuckDBPyConnection, sql: str, *, files: bool, most: int | None = None
) -> pa.Table:
    """Return the rows of a query that a user wrote. The query cannot write, and reads files only if ``files`` is True.

    ``most`` is the largest number of rows to return; None returns all. Raises ``WarehouseError``.
    """
    if files:
        _check_only_reads(connection, sql)
    else:
        forbid_files(connection)
    try:
        return run_query(connection, sql, most=most)
    except WarehouseError as error:
        if "disabled by configuration" in str(error) or "disabled through configuration" in str(error):
            reason = f"the query is refused ({first_line(error)})"
            raise WarehouseError(f"{reason}; add --files to let the query read files") from error
        raise


def transfers_folder(path: Path) -> Path:
    """Return the folder with the transfers of the warehouse at ``path`` (``transfers``)."""
    return path.with_name(f"{path.name}.transfers").absolute()


def forbid_files(connection: duckdb.DuckDBPyConnection) -> None:
    """Forbid files, other databases and extensions on a connection, by DuckDB settings that cannot be reverted.

    Only the transfers of the attached warehouse can be read.
    """
    for (path,) in connection.execute("SELECT path FROM duckdb_databases() WHERE path IS NOT NULL").fetchall():
        connection.execute("SET allowed_directories = [$folder]", {"folder": str(transfers_folder(Path(path)))})
    for name in ("autoinstall_known_extensions", "autoload_known_extensions", "enable_external_access"):
        connection.execute(f"SET {name} = false")
    connection.execute("SET lock_configuration = true")


def first_line(error: Exception) -> str:
    """Return the first line of an error's message."""
    return str(error).strip().splitlines()[0] if str(error).strip() else type(error).__name__


def _check_only_reads(connection: duckdb.DuckDBPyConnection, sql: str) -> None:
    """Raise ``WarehouseError`` for any statement that is not a SELECT (or FROM, DESCRIBE, SHOW)."""
    try:
        types = {statement.type for statement in connection.extract_statements(sql)}
    except duckdb.Error as error:
        raise WarehouseError(str(error)) from error
    odd = sorted(one.name for one in types - {duckdb.StatementType.SELECT})
    if odd:
        raise WarehouseError(
            f"the statement {', '.join(odd)} is refused: use a SELECT, or 'holderlake export' to write a file"
        )
