"""``holderlake compare``: differences between two warehouses, with their causes."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from holderlake.cli import shared
from holderlake.cli.shared import Json
from holderlake.units import counted

_FILE = "warehouse.duckdb"


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
    force: Annotated[bool, typer.Option("--force", help="Replace existing files.")] = False,
    json: Json = False,
) -> None:
    """Compare two homes over the tokens and instants of both: holders, relationships, clusters, scores, and why.

    Fill each home with its provider first, over the same tokens and instants; 'holderlake plan' says what that costs.
    """
    import pyarrow as pa
    import pyarrow.parquet as pq
    from pyarrow import csv

    from holderlake import console
    from holderlake.comparison.compare import compare as compared
    from holderlake.comparison.compare import counts, write_page
    from holderlake.contract.times import utc_now
    from holderlake.storage.atomic_files import whole_file
    from holderlake.warehouse.comparisons import folder_of as comparisons_folder
    from holderlake.warehouse.comparisons import keep as kept

    paths = [path / _FILE if path.is_dir() else path for path in (a, b)]
    for path in paths:
        if not path.exists():
            raise ValueError(f"there is no warehouse at {path}: run 'holderlake ingest' in that home")
    if out and out.suffix not in {".parquet", ".csv"}:
        raise ValueError(f"{out} must end in .parquet or .csv")
    for file in filter(None, (out, report)):
        if file.exists() and not force:
            raise ValueError(f"{file} exists already: use --force to replace it")
        if not file.parent.is_dir():
            raise ValueError(f"there is no folder {file.parent} for {file.name}: make it first")
    with console.progress("comparing", None):
        differences, equal = compared(*paths)
    if out:
        with whole_file(out) as part:
            (pq.write_table if out.suffix == ".parquet" else csv.write_csv)(differences, part)
    if report:
        write_page(differences, (str(a), str(b)), report, utc_now())
    if keep:
        homes = (paths[0].resolve().parent, paths[1].resolve().parent)
        kept(comparisons_folder(shared.settings().warehouse), homes, pa.concat_tables([differences, equal]), utc_now())
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
