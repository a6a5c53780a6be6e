"""``holderlake entities``: find wallets that probably have one owner."""

from __future__ import annotations

from contextlib import ExitStack
from pathlib import Path
from typing import Annotated, Literal

import typer

from holderlake.cli import shared
from holderlake.cli.shared import Json
from holderlake.units import counted


def entities(
    files: Annotated[
        list[str] | None,
        typer.Argument(metavar="[FILE]...", help="Parquet or CSV files of transfers; default: your own store."),
    ] = None,
    labels: Annotated[
        Path | None,
        typer.Option(help="A file with addresses that join no wallets, for FILES: address, is_exchange.", exists=True),
    ] = None,
    preset: Annotated[Literal["two-kinds", "one-kind", "bare-edges"], typer.Option(help="The rule.")] = "two-kinds",
    at: Annotated[
        list[str] | None,
        typer.Option(help="An instant, without later transfers: ISO date-time, unix seconds; may be given again."),
    ] = None,
    out: Annotated[
        Path | None,
        typer.Option(help="Folder of the results; default: your store's, which the warehouse loads, or ./entities."),
    ] = None,
    cluster: Annotated[
        bool, typer.Option("--cluster", help="Compute on the cluster of the settings; it must reach the files.")
    ] = False,
    json: Json = False,
) -> None:
    """Find wallets that probably have one owner, by several kinds of evidence. No provider is asked.

    The results are cluster_links.parquet (the evidence, with its confidence) and entities.parquet (the wallets that it
    joins). 'holderlake sql' has those of your store as the tables cluster_links and entities, and as of each instant by
    the macro entities_as_of.
    """
    from holderlake import console
    from holderlake.contract.times import parse_when, to_unix
    from holderlake.entities.clusters import FOLDER
    from holderlake.entities.kinds import PRESETS
    from holderlake.entities.links import find_entities, find_on
    from holderlake.entities.sources import file_marks, store_files, store_marks
    from holderlake.local.store import open_own_store

    rule, instants = PRESETS[preset], {to_unix(parse_when(instant)) for instant in at or ()}
    if labels and not files:
        raise typer.BadParameter("your store has its own labels: 'holderlake labels' adds some", param_hint="--labels")
    if cluster:
        from holderlake.cli.own_data.cluster_jobs import opened_engine as cluster_engine
    with console.progress("Looking for evidence", 1 + max(1, len(instants)) * (len(rule.kinds) + 1)) as bar:

        def advance(note: str) -> None:
            bar.advance(bar.task_ids[0])
            bar.update(bar.task_ids[0], note=note)

        settings = shared.settings()
        folder = out or (Path("entities") if files else settings.engine_store / FOLDER)
        with ExitStack() as stack:
            if files:
                paths, marks = files, file_marks(labels)
            else:
                store = stack.enter_context(open_own_store(settings))
                paths, marks = store_files(store), store_marks(store)
            if cluster:
                engine = stack.enter_context(cluster_engine(settings))
                result = find_on(engine, paths, marks, rule, folder, instants, advance)
            else:
                result = find_entities(paths, marks, rule, folder, instants, advance=advance)
    if not files and out is None:
        shared.load()
    if json:
        console.as_json({**vars(result), "preset": preset, "folder": str(folder), "instants": max(1, len(instants))})
        return
    console.rows("Evidence", ("kind", "links"), [(kind, f"{count:,}") for kind, count in result.links.items()])
    console.out.print(
        f"Entities: {result.entities:,}, with {counted(result.joined, 'wallet')} (preset {preset}), "
        f"from {result.transfers:,} "
        f"transfers between {counted(result.wallets, 'address')}. The results are in {folder}.",
        soft_wrap=True,
    )
