"""``holderlake lake``: copy the lake to and from object storage."""

from __future__ import annotations

import typer

from pipelines.cli import shared
from pipelines.cli.exit_codes import ExitCode
from pipelines.cli.shared import Json

app = typer.Typer(help="Copy the lake to and from object storage.", no_args_is_help=True)


@app.command("push")
def lake_push(json: Json = False) -> None:
    """Copy the partitions that the bucket lacks from the lake. Repeat the command after an interruption."""
    from holderlake.errors import extra

    with extra("object-storage"):
        from pipelines.cli.lake.object_storage import push_lake

    if not push_lake(shared.reading(), json):
        raise typer.Exit(ExitCode.SOME_FAILED)


@app.command("pull")
def lake_pull(json: Json = False) -> None:
    """Copy the partitions that the lake lacks from the bucket, and load the warehouse."""
    from holderlake.errors import extra

    with extra("object-storage"):
        from pipelines.cli.lake.object_storage import pull_lake

    if not pull_lake(shared.reading(), json):
        raise typer.Exit(ExitCode.SOME_FAILED)
