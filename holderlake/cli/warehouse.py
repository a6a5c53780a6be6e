"""Commands that read the warehouse: ``holderlake sql``, ``tables``, ``export``, ``report`` and ``compare``."""

from __future__ import annotations

import sys
from datetime import datetime
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Final, Literal

import typer

from holderlake.cli import shared
from holderlake.cli.shared import Force, From, Json, To, TokenAddress, TokenChain
from holderlake.core.contract.times import parse_end, parse_when, utc_now
from holderlake.core.units import counted
from holderlake.presentation import console

if TYPE_CHECKING:
    from holderlake.core.workspace import Workspace
    from holderlake.presentation.export.export import Exported

_EXPORT_NOTES: Final = {
    "sheets": "A sheet of Excel holds 1,048,576 rows, so the file has {} sheets.",
    "as_text": "{:,} numbers have more digits than Excel's 15 and are stored as text, to stay exact.",
    "defused": "{:,} texts that look like formulas got an apostrophe in front; --raw leaves it out.",
}


def sql(
    query: Annotated[str | None, typer.Argument(help="SQL; by default read from standard input.")] = None,
    files: Annotated[bool, typer.Option("--files", help="Allow the query to read files.")] = False,
    limit: Annotated[int, typer.Option(min=0, help="Maximum rows to print; 0 prints all. --json prints all.")] = 500,
    json: Json = False,
) -> None:
    """Query the warehouse, read-only: no files, no other databases, no extensions.

    Example: holderlake sql "FROM latest_holders LIMIT 5"

    Example: holderlake sql --json < query.sql
    """
    from holderlake.engine.settings import store_folder
    from holderlake.presentation.query_notes import warehouse_notes

    row_limit = None if json or not limit else limit
    workspace = shared.reading()
    if workspace.warehouse.version is None and store_folder(workspace.settings).exists():
        workspace.warehouse.load(workspace.lake)  # nothing was ingested yet, but transfers were imported
    query = sys.stdin.read() if query is None else query
    if not query.strip():
        raise ValueError('there is no SQL: give it, for example holderlake sql "FROM latest_holders LIMIT 5"')
    if json:
        batches = workspace.warehouse.batches(query, files=files)
        console.as_json_list(batch.to_pylist() for batch in batches)
    else:
        answer = workspace.warehouse.read(query, files=files, most=row_limit and row_limit + 1)
    for note in warehouse_notes(workspace.warehouse, query):
        console.err.print(f"Note: {note}.", soft_wrap=True)
    if json:
        return
    console.arrow("", answer.slice(0, row_limit))
    if row_limit and answer.num_rows > row_limit:
        hint = (
            f"These are the first {counted(row_limit, 'row')}. --limit 0 prints all; 'holderlake export' "
            f"writes them to a file."
        )
        console.err.print(hint, soft_wrap=True)


def tables(json: Json = False) -> None:
    """List the warehouse's tables, views and macros, with rows and purpose.

    Example: holderlake tables
    """
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
        console.out.print("docs/sql.md leads to each view and macro; docs/tables.md to each column.")


def export(
    what: Annotated[str, typer.Argument(help="A table or view, or a query.")],
    file: Annotated[Path, typer.Argument(help="File to write: .parquet, .csv, .csv.gz, .arrow or .xlsx.")],
    format: Annotated[
        Literal["parquet", "csv", "arrow", "xlsx"] | None,
        typer.Option("--format", help="File format; default: from the file's name."),
    ] = None,
    force: Force = False,
    raw: Annotated[
        bool, typer.Option("--raw", help="CSV only: do not protect texts that a spreadsheet would run as formulas.")
    ] = False,
    json: Json = False,
) -> None:
    """Write a table, a view or the result of a query to Parquet, CSV, Arrow or Excel.

    Example: holderlake export latest_holders holders.xlsx

    Example: holderlake export "FROM holder_changes('2025-01-01', '2026-01-01')" changes.csv
    """
    from holderlake.presentation.export.export import export as export_to
    from holderlake.presentation.export.export import format_of

    file_format = format_of(file, format)
    if raw and file_format != "csv":
        raise ValueError(f"--raw applies to CSV only, not to {file_format}: leave it out")
    done = export_to(shared.reading().warehouse, what, file.expanduser(), file_format, replace=force, raw=raw)
    _exported_report(done, json)


def _exported_report(exported: Exported, as_json: bool) -> None:
    """Print the result of an export as a sentence or as JSON."""
    from rich.filesize import decimal

    if as_json:
        overrides = {"path": str(exported.path), "seconds": round(exported.seconds, 2)}
        console.as_json({**vars(exported), **overrides, "notes": dict(exported.notes)})
        return
    console.out.print(
        f"{exported.path}: {counted(exported.rows, 'row')}, {exported.columns} columns, {decimal(exported.bytes)}, "
        f"{exported.seconds:.1f} s.",
    )
    for name, sentence in _EXPORT_NOTES.items():
        if exported.notes.get(name, 0) > (name == "sheets"):
            console.out.print(sentence.format(exported.notes[name]))


def report(
    chain: TokenChain,
    token: TokenAddress,
    file: Annotated[Path | None, typer.Argument(help="File to write; default: report-CHAIN-TOKEN.html.")] = None,
    start: From = None,
    end: To = None,
    force: Force = False,
    json: Json = False,
) -> None:
    """Write an HTML page about a token: holders, entries and exits, clusters, concentration, flows, maps.

    It begins with the first instant in the warehouse, unless --from says otherwise. A date alone as --to means its end.

    Example: holderlake report eth 0x6ba6f2207e343923ba692e5cae646fb0f566db8d --from 2025-01-01
    """
    from holderlake.core.storage.names import file_name_part
    from holderlake.presentation.export.token_history import Period
    from holderlake.presentation.export.token_report import write_report

    token = shared.token_address(chain, token)
    since = datetime.min if start is None else parse_when(start)
    until = utc_now() if end is None else parse_end(end)
    shared.check_period(since, until)
    path = (file or Path(f"report-{file_name_part(chain)}-{file_name_part(token[:12])}.html")).expanduser()
    _check_new(path, force)
    with console.progress("writing the report", None):
        page = write_report(shared.reading().warehouse, Period(chain, token, since, until), path, utc_now())
    if json:
        console.as_json(vars(page))
    else:
        console.out.print(
            f"{page.path}: {counted(page.instants, 'instant')} from {page.first:%Y-%m-%d} to "
            f"{page.last:%Y-%m-%d}, "
            f"{page.bytes / 1e6:.1f} MB. Open it in a browser.",
        )


def _check_new(file: Path, force: bool) -> None:
    """Raise ``ValueError`` if a file cannot be written: it exists (without ``force``), or its folder does not."""
    if not file.parent.is_dir():
        raise ValueError(f"the folder {file.parent} does not exist: create it, or give another path")
    if file.exists() and not force:
        raise ValueError(f"{file} exists already: use --force to replace it")


def compare(
    a: Annotated[Path, typer.Argument(metavar="A", help="A home, or its file warehouse.duckdb.", exists=True)],
    b: Annotated[Path, typer.Argument(metavar="B", help="Another one, such as that of another provider.", exists=True)],
    out: Annotated[
        Path | None, typer.Option(help="Write all differences to this file: .parquet or .csv.", dir_okay=False)
    ] = None,
    report: Annotated[
        Path | None, typer.Option(help="Write a page of HTML about the differences to this file.", dir_okay=False)
    ] = None,
    keep: Annotated[
        bool, typer.Option("--keep", help="Add the result to your warehouse: table comparisons, and the explorer.")
    ] = False,
    force: Force = False,
    json: Json = False,
) -> None:
    """Compare two homes over the tokens and instants of both: holders, relationships, clusters, scores, and why.

    Fill each home with its provider first, over the same tokens and instants; 'holderlake plan' says what that costs.

    Example: holderlake compare data other --report differences.html
    """
    import pyarrow as pa
    import pyarrow.parquet as pq
    from pyarrow import csv

    from holderlake.analysis.comparison.compare import compare as compared
    from holderlake.analysis.comparison.compare import counts, write_page
    from holderlake.analysis.comparison.tables import TABLE
    from holderlake.analysis.comparison.tables import keep as kept
    from holderlake.core.storage.atomic_files import whole_file
    from holderlake.core.warehouse.derived import folder_of

    paths = [path / "warehouse.duckdb" if path.is_dir() else path for path in (a, b)]
    for path in paths:
        if not path.exists():
            raise ValueError(f"there is no warehouse at {path}: run 'holderlake ingest' in that home")
    if out and out.suffix not in {".parquet", ".csv"}:
        raise ValueError(f"{out} must end in .parquet or .csv")
    for file in filter(None, (out, report)):
        _check_new(file, force)
    with console.progress("comparing", None):
        differences, equal = compared(*paths)
    if out:
        with whole_file(out) as part:
            (pq.write_table if out.suffix == ".parquet" else csv.write_csv)(differences, part)
    if report:
        write_page(differences, (str(a), str(b)), report, utc_now())
    if keep:
        homes = (paths[0].resolve().parent, paths[1].resolve().parent)
        kept(
            folder_of(shared.settings().warehouse, TABLE.name), homes, pa.concat_tables([differences, equal]), utc_now()
        )
        shared.load()
    written_files = [str(path) for path in (out, report) if path]
    destination = f", written to {' and '.join(written_files)}" if written_files else ""
    if json:
        console.as_json(
            {"differences": differences.num_rows, "counts": counts(differences).to_pylist(), "files": written_files}
        )
        return
    if differences.num_rows:
        console.arrow("Differences", counts(differences))
    console.out.print(f"{counted(differences.num_rows, 'difference')}{destination}.", soft_wrap=True)
