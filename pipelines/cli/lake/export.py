"""``holderlake export``: tables, views and queries as files."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Literal

import typer

from pipelines.cli import shared
from pipelines.cli.shared import Json


def export(
    what: Annotated[str, typer.Argument(help="A table or view, or a query.")],
    file: Annotated[Path, typer.Argument(help="File to write: .parquet, .csv, .csv.gz, .arrow or .xlsx.")],
    format: Annotated[
        Literal["parquet", "csv", "arrow", "xlsx"] | None,
        typer.Option("--format", help="Format, where the file's name does not say it."),
    ] = None,
    force: Annotated[bool, typer.Option("--force", help="Replace a file that is there.")] = False,
    raw: Annotated[
        bool, typer.Option("--raw", help="CSV: leave texts as they are that a spreadsheet takes for formulas.")
    ] = False,
    json: Json = False,
) -> None:
    """Writes a table, a view or a query's answer to Parquet, CSV, Arrow or Excel; whole or not at all."""
    from holderlake.export.export import export as export_to
    from holderlake.export.export import exported_report, format_of

    chosen = format_of(file, format)
    if raw and chosen != "csv":
        raise ValueError(f"--raw is for CSV; {chosen} holds no formulas")
    done = export_to(shared.reading().warehouse, what, file.expanduser(), chosen, replace=force, raw=raw)
    exported_report(done, json)
