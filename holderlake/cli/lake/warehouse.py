"""``holderlake sql``, ``tables`` and ``lake-views``: queries of the warehouse and of the lake."""

from __future__ import annotations

import sys
from typing import TYPE_CHECKING, Annotated

import typer

from holderlake import console
from holderlake.cli import shared
from holderlake.cli.shared import Json
from holderlake.units import counted

if TYPE_CHECKING:
    from holderlake.workspace import Workspace


def sql(
    query: Annotated[str | None, typer.Argument(help="SQL; by default read from standard input.")] = None,
    files: Annotated[bool, typer.Option("--files", help="Allow the query to read files.")] = False,
    limit: Annotated[int, typer.Option(min=0, help="Most rows to print; 0 prints all. --json prints all.")] = 500,
    json: Json = False,
) -> None:
    """Query the warehouse, read-only: no files, no other databases, no extensions."""
    row_limit = None if json or not limit else limit
    workspace = shared.reading()
    if workspace.warehouse.version is None and workspace.settings.engine_store.exists():
        workspace.warehouse.load(workspace.lake)  # nothing was ingested yet, but transfers were imported
    query = query or sys.stdin.read()
    answer = workspace.warehouse.read(query, files=files, most=row_limit and row_limit + 1)
    for note in workspace.warehouse.notes(query):
        console.err.print(f"Note: {note}.", soft_wrap=True)
    if json:
        console.as_json(answer.to_pylist())
        return
    console.arrow("", answer.slice(0, row_limit))
    if row_limit and answer.num_rows > row_limit:
        hint = (
            f"These are the first {counted(row_limit, 'row')}. --limit 0 prints all; 'holderlake export' "
            f"writes them to a file."
        )
        console.err.print(hint, soft_wrap=True)


def tables(json: Json = False) -> None:
    """List the warehouse's tables, views and macros, with rows and purpose."""
    _report_tables(shared.reading(), json)


def _report_tables(workspace: Workspace, as_json: bool) -> None:
    objects = workspace.warehouse.query(
        """
        SELECT table_name AS name, 'table' AS kind, estimated_size AS rows, comment FROM duckdb_tables()
        WHERE schema_name = 'main' AND NOT internal
        UNION ALL
        SELECT view_name, 'view', NULL, comment FROM duckdb_views() WHERE schema_name = 'main' AND NOT internal
        UNION ALL
        SELECT DISTINCT function_name || '(' || array_to_string(parameters, ', ') || ')', 'macro', NULL, comment
        FROM duckdb_functions() WHERE NOT internal AND function_type IN ('table_macro', 'macro')
        ORDER BY kind, name
        """
    )
    if as_json:
        console.as_json(objects.to_pylist())
    else:
        lines = [list(row.values()) for row in objects.to_pylist()]
        first_sentences = [[*line[:-1], (line[-1] or "").partition(". ")[0].partition("\n")[0]] for line in lines]
        console.rows("The warehouse", ("name", "kind", "rows", "purpose"), first_sentences)
        console.out.print("docs/sql.md explains each view and macro; docs/tables.md each column.")


def lake_views() -> None:
    """Print SQL that defines the warehouse's tables, views and macros over the lake's Parquet files, for any DuckDB.

    It reads every byte of the lake once, names damaged files on standard error, and leaves their partitions out.
    """
    from holderlake.lake.damage import damages
    from holderlake.warehouse.dataframes import local_lake
    from holderlake.warehouse.lake_views import script

    workspace = shared.reading()
    lake = local_lake(workspace.settings)
    damaged = [damage for damage in damages(lake, every_byte=True) if damage.place]
    for damage in damaged:
        console.err.print(f"Left out as damaged: {damage}", soft_wrap=True)
    if damaged:
        console.err.print("'holderlake rebuild --damaged' repairs damaged partitions at no cost.", soft_wrap=True)
    sys.stdout.write(script(lake, damaged, workspace.warehouse.transfers, workspace.settings.sql.as_of_warning))
