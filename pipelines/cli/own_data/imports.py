"""``holderlake import``, ``import-rpc`` and ``labels``: transfers and labels of one's own into the engine's store."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from holderlake.contract.chains import chain_typed
from pipelines.cli import shared
from pipelines.cli.shared import Json, Tokens


def import_files(  # noqa: PLR0913, PLR0917 - a command's options
    files: Annotated[list[Path], typer.Argument(help="Transfer files, or token lists (JSON).")],
    format: Annotated[
        str | None, typer.Option("--format", help="Layout, where the columns fit several or none: logs, etherscan, …")
    ] = None,
    chain: Annotated[str | None, typer.Option(help="Chain, where the file does not name it.")] = None,
    mapped: Annotated[
        list[str] | None, typer.Option("--map", help="Our column and the file's: value=amount; may be given again.")
    ] = None,
    constants: Annotated[
        list[str] | None,
        typer.Option(
            "--set", help="Our column and what it is in every row: token_standard=erc721; may be given again."
        ),
    ] = None,
    map_file: Annotated[
        Path | None,
        typer.Option("--map-file", help=r"A TOML file with such pairs under \[columns] and \[constants]."),
    ] = None,
    blocks: Annotated[
        list[Path] | None,
        typer.Option("--blocks", help="A file of blocks with their times, where transfers have none; again for more."),
    ] = None,
    rows: Annotated[
        str | None, typer.Option("--rows", metavar="PATH", help="Path to the rows within JSON: data.transfers")
    ] = None,
    thousands: Annotated[
        str | None, typer.Option("--thousands", metavar="LETTER", help="What separates thousands in numbers, such as ,")
    ] = None,
    empty_is_zero: Annotated[
        bool, typer.Option("--empty-is-zero", help="An empty sender is a mint, an empty receiver a burn.")
    ] = False,
    rejected: Annotated[
        Path | None,
        typer.Option(
            "--rejected", metavar="FILE", help="Write rows that can't be read to this file and import the others."
        ),
    ] = None,
    json: Json = False,
) -> None:
    """Import raw transfers or token lists into the engine's store. Importing a file again changes nothing."""
    from holderlake.engine.sources.files.mapping import ColumnMap, parse_map, read_map
    from holderlake.engine.sources.files.transfers import FileOptions
    from holderlake.local.imports import Reading, import_paths

    written = read_map(map_file) if map_file else ColumnMap()
    column_map = parse_map(mapped or (), constants or ()).over(written)
    options = FileOptions(
        format,
        chain=chain_typed(chain),
        column_map=column_map,
        rows_at=rows,
        thousands=thousands,
        empty_is_zero=empty_is_zero,
    )
    import_paths(shared.settings(), files, Reading(options, blocks or (), rejected), json)


def import_rpc(  # noqa: PLR0913, PLR0917 - a command's options
    urls: Annotated[
        list[str] | None,
        typer.Argument(metavar="[URL]...", help="Nodes' addresses; the settings' by default, where keys belong."),
    ] = None,
    chain: Annotated[str | None, typer.Option(help="Chain; that of the node's chain id by default.")] = None,
    token: Tokens = None,
    all_tokens: Annotated[bool, typer.Option("--all-tokens", help="Every token of the chain.")] = False,
    native: Annotated[
        bool, typer.Option("--native", help="The chain's own coin; besides tokens where --token is given.")
    ] = False,
    traces: Annotated[
        bool | None, typer.Option(help="Of native, what contracts move too; the settings' by default.")
    ] = None,
    from_block: Annotated[int | None, typer.Option(min=0, help="First block; the settings' by default.")] = None,
    to_block: Annotated[int | None, typer.Option(min=0, help="Last block; the newest final one by default.")] = None,
    confirmations: Annotated[
        int | None, typer.Option(min=0, help="Blocks that must follow one; the settings' by default.")
    ] = None,
    json: Json = False,
) -> None:
    """Imports transfers from an EVM chain's node. Interrupted, it goes on where it stopped; reorgs are rolled back."""
    from holderlake.local.nodes import ImportOptions, import_from_nodes

    asked = ImportOptions(
        chain_typed(chain), token or [], all_tokens, native, traces, from_block, to_block, confirmations
    )
    import_from_nodes(shared.settings(), urls or [], asked, json)


def labels(files: Annotated[list[Path], typer.Argument(help="Label files.")], json: Json = False) -> None:
    """Imports address labels into the engine's store."""
    from holderlake.local.imports import label_paths

    label_paths(shared.settings(), files, json)
