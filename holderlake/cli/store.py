"""``holderlake store``: check, repair and index the engine's store, and find wallets of one owner in it."""

from __future__ import annotations

from contextlib import ExitStack
from functools import partial
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Annotated

import typer

from holderlake.analysis.entities.kinds import LEAST_CONFIDENCE
from holderlake.cli import shared
from holderlake.cli.shared import AT, Json, SeveralAt
from holderlake.core.units import counted
from holderlake.presentation import console

app = typer.Typer(help="Index, analyse, check and repair the engine's store of transfers.", no_args_is_help=True)


@app.command("index")
def index_tokens(
    chain: Annotated[str | None, typer.Argument(help="Chain of the tokens; default: list all chains.")] = None,
    tokens: Annotated[
        list[str] | None, typer.Argument(metavar="[TOKEN]...", help="Token addresses, or native.")
    ] = None,
    remove: Annotated[bool, typer.Option("--remove", help="Stop indexing these tokens.")] = False,
    json: Json = False,
) -> None:
    """Index tokens, so that their transfers link holders on every map. Without tokens, list the indexed ones.

    Example: holderlake store index eth native

    Example: holderlake store index eth native --remove
    """
    from holderlake.cli.indexed_tokens import change_index, list_index

    if tokens and chain:
        change_index(shared.settings(), chain, tokens, remove, json)
    elif remove:
        raise typer.BadParameter("give the addresses of the tokens to remove", param_hint="TOKEN")
    else:
        list_index(shared.settings(), chain, json)


@app.command("negative-balances")
def list_negative_balances(
    chain: Annotated[str | None, typer.Argument(help="The token's chain; default: all tokens of your store.")] = None,
    token: Annotated[str | None, typer.Argument(help="The token's address or symbol, or native.")] = None,
    at: Annotated[str, AT] = "now",
    json: Json = False,
) -> None:
    """List the addresses whose imported balance is below zero, with the amount and the time.

    Example: holderlake store negative-balances

    Example: holderlake store negative-balances eth native --at 2026-05-01
    """
    from holderlake.cli.negative_balances import report_negative_balances
    from holderlake.core.contract.times import parse_when

    report_negative_balances(shared.settings(), chain, token, parse_when(at), json)


@app.command("entities")
def find_wallets(
    files: Annotated[
        list[str] | None,
        typer.Argument(metavar="[FILE]...", help="Parquet or CSV files of transfers; default: your own store."),
    ] = None,
    labels: Annotated[
        Path | None,
        typer.Option(help="A file with addresses that join no wallets, for FILES: address, is_exchange.", exists=True),
    ] = None,
    confidence: Annotated[
        float, typer.Option(help="Minimum confidence of evidence that joins two wallets.", min=0, max=1)
    ] = LEAST_CONFIDENCE,
    at: SeveralAt = None,
    out: Annotated[
        Path | None,
        typer.Option(help="Folder of the results; default: your store's, which the warehouse loads, or ./entities."),
    ] = None,
    cluster: Annotated[
        bool, typer.Option("--cluster", help="Compute on the cluster of the settings; it must reach the files.")
    ] = False,
    groups: Annotated[
        Path | None,
        typer.Option(
            help="A file of wallets whose owner you know (address, owner): measure the confidences on them first."
        ),
    ] = None,
    json: Json = False,
) -> None:
    """Find wallets that probably have one owner, by several kinds of evidence. It sends no request to a provider.

    It uses all transfers; --at names instants whose later transfers do not count.

    The results are cluster_links.parquet (the evidence, with its confidence) and entities.parquet (the wallets that it
    joins). 'holderlake sql' has those of your store as the tables cluster_links and entities, and as of each instant by
    the macro entities_as_of.

    With --groups, the confidence of each level of evidence is the share of right pairs among those of your wallets that
    it links, if it links 100 pairs or more.

    Example: holderlake store entities --at 2026-06-01

    Example: holderlake store entities edges.parquet --labels labels.parquet --confidence 0.9

    Example: holderlake store entities --groups groups.csv
    """
    from holderlake.analysis.entities.calibration import calibrated, interval, measured_pairs, read_owners
    from holderlake.analysis.entities.clusters import FOLDER
    from holderlake.analysis.entities.kinds import EVIDENCE_KINDS, LEVELS
    from holderlake.analysis.entities.links import LINKS, find_entities, find_on
    from holderlake.analysis.entities.sources import file_marks, store_files, store_marks
    from holderlake.core.contract.times import parse_when, to_unix
    from holderlake.engine.settings import store_folder
    from holderlake.sources.store import open_own_store

    instants = {to_unix(parse_when(instant)) for instant in at or ()}
    if labels and not files:
        raise typer.BadParameter(
            "your store has its own labels: 'holderlake import labels' adds some", param_hint="--labels"
        )
    if cluster:
        from holderlake.cli.cluster_jobs import opened_engine as cluster_engine
    owners = read_owners(groups) if groups else {}
    steps = 1 + max(1, len(instants)) * (len(EVIDENCE_KINDS) + 1) + bool(owners) * (len(EVIDENCE_KINDS) + 2)
    with console.progress("Looking for evidence", steps) as bar:

        def advance(note: str) -> None:
            bar.advance(bar.task_ids[0])
            bar.update(bar.task_ids[0], note=note)

        settings = shared.settings()
        folder = out or (Path("entities") if files else store_folder(settings) / FOLDER)
        with ExitStack() as stack:
            if files:
                paths, marks = files, file_marks(labels)
            else:
                store = stack.enter_context(open_own_store(settings))
                paths, marks = store_files(store), store_marks(store)
            find = partial(find_on, stack.enter_context(cluster_engine(settings))) if cluster else find_entities
            confidences, measured = LEVELS, {}
            if owners:
                spare = Path(stack.enter_context(TemporaryDirectory(prefix="holderlake-groups-")))
                find(paths, marks, spare, sorted(instants)[-1:], 0.0, advance)
                measured = measured_pairs(spare / LINKS, owners)
                confidences = calibrated([measured])
            result = find(paths, marks, folder, instants, confidence, advance, confidences)
    if not files and out is None:
        shared.load()
    rows = [
        (kind, level, LEVELS[kind, level], confidences[kind, level], right, pairs)
        for (kind, level), (right, pairs) in sorted(measured.items())
    ]
    if json:
        names = ("kind", "level", "stated", "used", "right", "pairs")
        levels = [dict(zip(names, row, strict=True)) for row in rows]
        known = {"confidence": confidence, "folder": str(folder), "instants": max(1, len(instants))}
        console.as_json({**vars(result), **known} | ({"confidences": levels} if groups else {}))
        return
    if groups:
        shown = [
            (kind, level, stated, used, f"{right / pairs:.3f} ({low:.3f} to {high:.3f}) of {pairs:,}")
            for kind, level, stated, used, right, pairs in rows
            for low, high in [interval(right, pairs)]
        ]
        console.rows("Confidences", ("kind", "level", "stated", "used", "right pairs of your groups"), shown)
    console.rows("Evidence", ("kind", "links"), [(kind, f"{count:,}") for kind, count in result.links.items()])
    console.out.print(
        f"Entities: {result.entities:,}, with {counted(result.joined, 'wallet')} (confidence {confidence:g} or more), "
        f"from {result.transfers:,} "
        f"transfers between {counted(result.wallets, 'address')}. The results are in {folder}.",
        soft_wrap=True,
    )


@app.command("verify")
def store_verify(json: Json = False) -> None:
    """Compare every file of the store with its checksum, and list damaged files with the remedy.

    Example: holderlake store verify
    """
    from holderlake.cli.store_care import verify_store

    verify_store(shared.settings(), json)


@app.command("rebuild")
def store_rebuild(json: Json = False) -> None:
    """Repair the store: restore the catalogue from its copy or the files, and derived files from the transfers.

    Example: holderlake store rebuild
    """
    from holderlake.cli.store_care import rebuild_store

    rebuild_store(shared.settings(), json)
