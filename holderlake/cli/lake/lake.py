"""``holderlake lake``: publish the lake as Iceberg tables, and copy it to and from object storage."""

from __future__ import annotations

from typing import Annotated

import typer

from holderlake.cli import shared
from holderlake.cli.exit_codes import ExitCode
from holderlake.cli.shared import Json
from holderlake.units import parse_duration

app = typer.Typer(help="Publish the lake as Iceberg tables; copy it to and from object storage.", no_args_is_help=True)


Ours = Annotated[bool, typer.Option("--ours", help="Of partitions that changed on both sides, keep this lake's.")]
Theirs = Annotated[bool, typer.Option("--theirs", help="Of partitions that changed on both sides, keep the bucket's.")]
Newest = Annotated[bool, typer.Option("--newest", help="Of each such partition, keep the side that was fetched last.")]


@app.command("push")
def lake_push(ours: Ours = False, theirs: Theirs = False, newest: Newest = False, json: Json = False) -> None:
    """Copy partitions from the lake to the bucket, unless it has them. Repeat the command after an interruption."""
    from holderlake.cli.lake.object_storage import chosen_side, push_lake

    if not push_lake(shared.reading(), chosen_side(ours, theirs, newest), json):
        raise typer.Exit(ExitCode.SOME_FAILED)


@app.command("pull")
def lake_pull(ours: Ours = False, theirs: Theirs = False, newest: Newest = False, json: Json = False) -> None:
    """Copy partitions from the bucket to the lake, unless it has them, and load the warehouse."""
    from holderlake.cli.lake.object_storage import chosen_side, pull_lake

    if not pull_lake(shared.reading(), chosen_side(ours, theirs, newest), json):
        raise typer.Exit(ExitCode.SOME_FAILED)


@app.command("move")
def lake_move(json: Json = False) -> None:
    """Copy lake and archive of this home into the bucket that lake.url names. The local files stay."""
    from holderlake.maintenance.move import move_command

    if not move_command(shared.reading(), json):
        raise typer.Exit(ExitCode.SOME_FAILED)


@app.command("clean")
def lake_clean(
    older_than: Annotated[str, typer.Option(help="Least age of a file to delete.")] = "1d", json: Json = False
) -> None:
    """Delete old files of a lake in a bucket that no partition uses: replaced ones, and those of killed commits."""
    from holderlake.cli.lake.object_storage import clean_lake

    clean_lake(shared.reading(), parse_duration(older_than), json)


@app.command("publish")
def lake_publish(
    clean: Annotated[
        bool, typer.Option("--clean", help="Also drop earlier snapshots, and the links to files that only they have.")
    ] = False,
    json: Json = False,
) -> None:
    """Bring the lake's Iceberg tables to its committed partitions. Repeat the command after an interruption.

    No row is written again: the catalogue lists links to the lake's Parquet files.
    """
    from holderlake.cli.lake.iceberg import publish_lake

    if not publish_lake(shared.reading(), clean, json):
        raise typer.Exit(ExitCode.SOME_FAILED)
