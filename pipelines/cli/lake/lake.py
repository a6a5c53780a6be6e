"""``holderlake lake``: the lake in object storage."""

from __future__ import annotations

import typer

from pipelines.cli import shared
from pipelines.cli.exit_codes import ExitCode
from pipelines.cli.shared import Json

app = typer.Typer(help="The lake in object storage.", no_args_is_help=True)


@app.command("push")
def lake_push(json: Json = False) -> None:
    """Brings what the lake holds and the bucket lacks to the bucket. Killed, it goes on when repeated."""
    from holderlake.errors import extra

    with extra("object-storage"):
        from pipelines.cli.lake.object_storage import push_lake

    if not push_lake(shared.reading(), json):
        raise typer.Exit(ExitCode.SOME_FAILED)


@app.command("pull")
def lake_pull(json: Json = False) -> None:
    """Brings what the bucket holds and the lake lacks to the lake, and loads the warehouse."""
    from holderlake.errors import extra

    with extra("object-storage"):
        from pipelines.cli.lake.object_storage import pull_lake

    if not pull_lake(shared.reading(), json):
        raise typer.Exit(ExitCode.SOME_FAILED)
