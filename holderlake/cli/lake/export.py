"""``holderlake export``: tables, views and queries as files."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Literal

import typer

from holderlake.cli import shared
from holderlake.cli.shared import Json


def export(
    what: Annotated[str, typer.Argument(help="A table or view, or a query.")],
    file: Annotated[Path, typer.Argument(help="File to write: .parquet, .csv, .csv.gz, .arrow or .xlsx.")],
    format: Annotated[
        Literal["parquet", "csv", "arrow", "xlsx"] | None,
        typer.Option("--format", help="File format; default: from the file's name."),
    ] = None,
    force: Annotated[bool, typer.Option("--force", help="Replace an existing file.")] = False,
    raw: Annotated[
        bool, typer.Option("--raw", help="CSV only: do not protect texts that a spreadsheet would run as formulas.")
    ] = False,
    json: Json = False,
) -> None:
    """Write a table, a view or the result of a query to Parquet, CSV, Arrow or Excel."""
    from holderlake.export.export import export as export_to
    from holderlake.export.export import exported_report, format_of

    file_format = format_of(file, format)
    if raw and file_format != "csv":
        raise ValueError(f"--raw applies to CSV only, not to {file_format}: leave it out")
    done = export_to(shared.reading().warehouse, what, file.expanduser(), file_format, replace=force, raw=raw)
    exported_report(done, json)
