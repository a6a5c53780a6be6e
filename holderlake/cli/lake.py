"""``holderlake lake``: copy the lake to and from object storage, and offer it as Iceberg tables or as SQL."""

from __future__ import annotations

import sys
from collections.abc import Callable
from dataclasses import asdict
from typing import TYPE_CHECKING, Annotated

import typer

from holderlake.cli import shared
from holderlake.cli.exit_codes import ExitCode
from holderlake.cli.shared import Json
from holderlake.core.units import counted
from holderlake.presentation import console

if TYPE_CHECKING:
    from holderlake.core.lake.lake import Lake
    from holderlake.core.workspace import Workspace
    from holderlake.scale.bucket.sync import Keep, Moved, Progress

app = typer.Typer(
    help="Copy the lake to and from object storage; offer it as Iceberg tables or SQL.", no_args_is_help=True
)

_CACHE_BYTES = 64_000_000
"""Maximum bytes of the bucket's files in the local cache during a copy.

A small cache suffices: the lake keeps the files.
"""

Ours = Annotated[bool, typer.Option("--ours", help="Of partitions that changed on both sides, keep this lake's.")]
Theirs = Annotated[bool, typer.Option("--theirs", help="Of partitions that changed on both sides, keep the bucket's.")]
Newest = Annotated[bool, typer.Option("--newest", help="Of each such partition, keep the side that was fetched last.")]


@app.command("push")
def push_lake(ours: Ours = False, theirs: Theirs = False, newest: Newest = False, json: Json = False) -> None:
    """Copy partitions from the lake to the bucket, unless it has them. Repeat the command after an interruption.

    Example: holderlake lake push --newest
    """
    from holderlake.scale.bucket.sync import push

    copied = _copied(shared.reading(), push, "pushing partitions", chosen_side(ours, theirs, newest))
    _report("Pushed", "the bucket", copied, json)


@app.command("pull")
def pull_lake(ours: Ours = False, theirs: Theirs = False, newest: Newest = False, json: Json = False) -> None:
    """Copy partitions from the bucket to the lake, unless it has them, and load the warehouse.

    Example: holderlake lake pull
    """
    from holderlake.scale.bucket.sync import pull

    workspace = shared.reading()
    copied = _copied(workspace, pull, "pulling partitions", chosen_side(ours, theirs, newest))
    workspace.warehouse.load(workspace.lake)
    _report("Pulled", "the lake", copied, json)


@app.command("move")
def move_lake(json: Json = False) -> None:
    """Copy lake and archive of this home into the bucket that lake.url names. The local files stay.

    Example: HOLDERLAKE_LAKE__URL=s3://bucket/lake holderlake lake move
    """
    from holderlake.cli.home_reports import moved_report
    from holderlake.operations.maintenance.move_to_bucket import move_home

    workspace = shared.reading()
    report = move_home(workspace)
    moved_report(report, workspace, json)
    if report.refused:
        raise typer.Exit(ExitCode.SOME_FAILED)


@app.command("publish")
def publish_lake(
    json: Json = False,
) -> None:
    """Bring the lake's Iceberg tables to its committed partitions. Repeat the command after an interruption.

    The tables list the lake's own files. Only small files are written again, if lake.iceberg.compact_to is set.

    Example: holderlake lake publish
    """
    from holderlake.core.contract.tables import TABLES
    from holderlake.scale.iceberg.tables import tables_of

    iceberg = tables_of(shared.reading())
    with console.progress("publishing", len(TABLES)) as bar:
        publication = iceberg.publish(lambda _: bar.advance(bar.task_ids[0]))
    if json:
        console.as_json(asdict(publication) | {"is_current": publication.is_current, "place": iceberg.root})
    else:
        changed = [name for name in TABLES if publication.added[name] or publication.removed[name]]
        lines = [(name, publication.added[name], publication.removed[name]) for name in changed]
        if lines:
            console.rows("Published", ("table", "files added", "files removed"), lines)
        console.out.print(f"The Iceberg tables in {iceberg.root} have publication {publication.id}.", soft_wrap=True)
        for path in publication.unreadable:
            text = f"{path} does not match its manifest; 'holderlake home rebuild --damaged' repairs it"
            console.err.print(text, soft_wrap=True)
    if publication.unreadable:
        raise typer.Exit(ExitCode.SOME_FAILED)


@app.command("views")
def lake_views(json: Json = False) -> None:
    """Print SQL that defines the warehouse's tables, views and macros over the lake's Parquet files, for any DuckDB.

    It reads every byte of the lake once, names damaged files on standard error, and leaves their partitions out.

    Example: holderlake lake views > lake.sql
    """
    from holderlake.core.lake.damage import damages
    from holderlake.core.workspace import local_lake
    from holderlake.presentation.lake_views import script

    workspace = shared.reading()
    lake = local_lake(workspace.settings)
    damaged = [damage for damage in damages(lake, every_byte=True) if damage.place]
    sql = script(lake, damaged, workspace.warehouse.transfers, workspace.settings.sql.as_of_warning)
    if json:
        console.as_json({"sql": sql, "left_out": [str(damage) for damage in damaged]})
        return
    for damage in damaged:
        console.err.print(f"Left out as damaged: {damage}", soft_wrap=True)
    if damaged:
        console.err.print("'holderlake home rebuild --damaged' repairs damaged partitions at no cost.", soft_wrap=True)
    sys.stdout.write(sql)


def chosen_side(ours: bool, theirs: bool, newest: bool) -> Keep | None:
    """Return the side of a conflict that the user chose to keep, or None."""
    if ours + theirs + newest > 1:
        raise ValueError("--ours, --theirs and --newest cannot be combined: give one of them")
    return "ours" if ours else "theirs" if theirs else "newest" if newest else None


def _copied(
    workspace: Workspace, copy: Callable[[Lake, Lake, Progress, Keep | None], Moved], title: str, keep: Keep | None
) -> Moved:
    from holderlake.core.settings import SettingsError
    from holderlake.scale.bucket.home import open_bucket
    from holderlake.scale.settings import BucketSettings

    bucket = workspace.settings.section(BucketSettings)
    if bucket.url is None:
        raise SettingsError("no bucket is set; set url under [bucket] in holderlake.toml, for example s3://bucket/lake")
    folder = workspace.settings.bucket_folder(bucket.url)
    other = open_bucket(bucket.url, bucket.endpoint, bucket.region, folder=folder, cache_bytes=_CACHE_BYTES)
    with console.progress(title, 0) as bar:
        return copy(
            workspace.lake,
            other,
            lambda done, total: bar.update(bar.task_ids[0], completed=done, total=total),
            keep,
        )


def _report(did: str, destination: str, result: Moved, as_json: bool) -> None:
    """Print the result of a copy. Raises ``typer.Exit`` if there were conflicts."""
    if as_json:
        console.as_json(vars(result))
    else:
        _print(did, destination, result)
    if not result.is_complete:
        raise typer.Exit(ExitCode.SOME_FAILED)


def _print(did: str, destination: str, result: Moved) -> None:
    for name in result.conflicts:
        console.err.print(f"Skipped, because it changed on both sides: {name}")
    if result.conflicts:
        console.err.print(
            "Repeat the command with --ours (keep this lake's partition), --theirs (keep the bucket's) or --newest "
            "(keep the one that was fetched last). The other one is kept in the folder _quarantine."
        )
    for reason in result.refused:
        console.err.print(f"Skipped: {reason}", soft_wrap=True)
    resolved = f"{counted(len(result.resolved), 'conflict', 'was')} resolved; " if result.resolved else ""
    console.out.print(
        f"{did} {counted(result.partitions, 'partition')}, {result.bytes / 1e6:,.1f} MB; {resolved}"
        f"{destination} had {result.alike:,} already."
    )
