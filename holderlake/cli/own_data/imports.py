"""``holderlake import``, ``import-rpc`` and ``labels``: fill the engine's store with your transfers and labels."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from holderlake.cli import shared
from holderlake.cli.shared import Json, Tokens
from holderlake.contract.chains import chain_typed


def import_files(  # noqa: PLR0913, PLR0917 - a command's options
    files: Annotated[list[Path], typer.Argument(help="Transfer files, or token lists (JSON).")],
    format: Annotated[
        str | None,
        typer.Option("--format", help="Layout of the files, if their columns do not decide it: logs, etherscan, …"),
    ] = None,
    chain: Annotated[str | None, typer.Option(help="Chain, if the file does not name it.")] = None,
    mapped: Annotated[
        list[str] | None,
        typer.Option("--map", help="Our column and the file's, such as value=amount; may be given again."),
    ] = None,
    constants: Annotated[
        list[str] | None,
        typer.Option("--set", help="Our column and its value in every row: token_standard=erc721; may be given again."),
    ] = None,
    map_file: Annotated[
        Path | None,
        typer.Option("--map-file", help=r"A TOML file with these pairs under \[columns] and \[constants]."),
    ] = None,
    blocks: Annotated[
        list[Path] | None,
        typer.Option("--blocks", help="A file of blocks with their times, if transfers have none; may be given again."),
    ] = None,
    rows: Annotated[
        str | None, typer.Option("--rows", metavar="PATH", help="Path to the rows within JSON: data.transfers")
    ] = None,
    thousands: Annotated[
        str | None,
        typer.Option(
            "--thousands",
            metavar="LETTER",
            help="Separator of thousands in numbers. With . the comma is the decimal mark.",
        ),
    ] = None,
    empty_is_zero: Annotated[
        bool, typer.Option("--empty-is-zero", help="Read an empty sender as a mint, an empty receiver as a burn.")
    ] = False,
    rejected: Annotated[
        Path | None,
        typer.Option("--rejected", metavar="FILE", help="Write unreadable rows to this file and import the others."),
    ] = None,
    json: Json = False,
) -> None:
    """Import raw transfers or token lists into the engine's store. Importing a file again changes nothing."""
    from holderlake.engine.sources.files.mapping import ColumnMap, parse_map, read_map
    from holderlake.engine.sources.files.transfers import FileOptions
    from holderlake.local.imports import Reading, import_paths

    file_map = read_map(map_file) if map_file else ColumnMap()
    column_map = parse_map(mapped or (), constants or ()).over(file_map)
    options = FileOptions(
        format,
        chain=chain_typed(chain),
        column_map=column_map,
        rows_at=rows,
        thousands=thousands,
        empty_is_zero=empty_is_zero,
    )
    import_paths(shared.settings(), files, Reading(options, blocks or (), rejected), json)
    shared.load()


def import_rpc(  # noqa: PLR0913, PLR0917 - a command's options
    urls: Annotated[
        list[str] | None,
        typer.Argument(
            metavar="[URL]...",
            help="Nodes' addresses; default: the settings', which is the place for addresses with keys.",
        ),
    ] = None,
    chain: Annotated[str | None, typer.Option(help="Chain; default: from the node's chain id.")] = None,
    token: Tokens = None,
    all_tokens: Annotated[bool, typer.Option("--all-tokens", help="Import every token of the chain.")] = False,
    native: Annotated[
        bool, typer.Option("--native", help="Import the chain's own coin, in addition to any --token.")
    ] = False,
    traces: Annotated[
        bool | None, typer.Option(help="Include native transfers of contracts; default: the settings'.")
    ] = None,
    from_block: Annotated[int | None, typer.Option(min=0, help="First block; default: the settings'.")] = None,
    to_block: Annotated[int | None, typer.Option(min=0, help="Last block; default: the newest final one.")] = None,
    confirmations: Annotated[
        int | None,
        typer.Option(
            min=0, help="Blocks that must follow a block before it is read; default: the settings', or 0 to follow."
        ),
    ] = None,
    follow: Annotated[
        bool,
        typer.Option(
            "--follow", help="Go on with each new block until Ctrl-C; answers of 'serve' and alerts follow at once."
        ),
    ] = False,
    balances_at: Annotated[
        list[str] | None,
        typer.Option(
            "--balances-at",
            metavar="TIME",
            help="Read the balances of each --token from its contract at this time, too: for tokens that change "
            "balances without transfers; needs an archive node; may be given again.",
        ),
    ] = None,
    verify: Annotated[
        bool, typer.Option("--verify", help="Then compare what is stored with the node, as 'holderlake verify' does.")
    ] = False,
    json: Json = False,
) -> None:
    """Import transfers from an EVM chain's node. Repeat it after an interruption; reorgs are rolled back."""
    from holderlake.contract.times import parse_when
    from holderlake.local.nodes.connection import ImportOptions
    from holderlake.local.nodes.follow import follow_nodes
    from holderlake.local.nodes.imports import import_from_nodes
    from holderlake.local.nodes.verify import verify_with_nodes

    options = ImportOptions(
        chain_typed(chain),
        token or [],
        all_tokens,
        native,
        traces,
        from_block,
        to_block,
        confirmations,
        balances_at=[parse_when(text) for text in balances_at or ()],
    )
    if follow and balances_at:
        raise typer.BadParameter("--follow does not end; import without it first", param_hint="--balances-at")
    if follow and to_block is not None:
        raise typer.BadParameter("--follow has no last block; leave out --to-block", param_hint="--to-block")
    if follow and verify:
        raise typer.BadParameter("--follow does not end; use 'holderlake verify' besides it", param_hint="--verify")
    if follow:
        follow_nodes(shared.reading(), urls or [], options, json)
    else:
        import_from_nodes(shared.settings(), urls or [], options, json)
    try:
        if verify:
            verify_with_nodes(shared.settings(), urls or [], options, repairs=False, as_json=json)
    finally:
        shared.load()


def labels(files: Annotated[list[Path], typer.Argument(help="Label files.")], json: Json = False) -> None:
    """Import address labels into the engine's store."""
    from holderlake.local.imports import label_paths

    label_paths(shared.settings(), files, json)
    shared.load()
