"""``holderlake import``: fill the engine's store with your transfers, balances and labels, and verify transfers."""

from __future__ import annotations

import os
from collections.abc import Collection
from pathlib import Path
from typing import Annotated

import typer

from holderlake.cli import shared
from holderlake.cli.shared import AT, Json, Tokens
from holderlake.core.contract.chains import chain_typed

app = typer.Typer(
    help="Import transfers, balances and labels into the engine's store. Importing them again changes nothing.",
    no_args_is_help=True,
)

Chain = Annotated[str | None, typer.Option("--chain", help="Chain; default: the one that the file or node names.")]
ColumnMaps = Annotated[
    list[str] | None,
    typer.Option("--map", metavar="OURS=THEIRS", help="Our column and the file's; may be given again."),
]
Constants = Annotated[
    list[str] | None,
    typer.Option("--set", metavar="OURS=VALUE", help="Our column and its value in every row; may be given again."),
]
Rows = Annotated[
    str | None, typer.Option("--rows", metavar="PATH", help="Path to the rows within JSON, such as data.items.")
]
Thousands = Annotated[
    str | None,
    typer.Option(
        "--thousands", metavar="LETTER", help="Separator of thousands in numbers. With . the comma is the decimal mark."
    ),
]
Blocks = Annotated[
    list[Path] | None,
    typer.Option("--blocks", help="A file of blocks with their times, if rows have none; may be given again."),
]
Urls = Annotated[
    list[str] | None,
    typer.Argument(
        metavar="[URL]...", help="Nodes' addresses; default: the settings', which is the place for addresses with keys."
    ),
]
FromBlock = Annotated[int | None, typer.Option("--from-block", min=0, help="First block.")]
_OLD = 2 * 86_400
"""Seconds after which the first map stands at the last transfer of a history instead of now."""
ToBlock = Annotated[int | None, typer.Option("--to-block", min=0, help="Last block, included.")]


@app.command("files")
def import_files(  # noqa: PLR0913, PLR0917 - a command's options
    files: Annotated[list[Path], typer.Argument(help="Transfer files, or token lists.")],
    format: Annotated[
        str | None,
        typer.Option("--format", help="Layout of the files, if their columns do not decide it: logs, etherscan, …"),
    ] = None,
    chain: Chain = None,
    mapped: ColumnMaps = None,
    constants: Constants = None,
    map_file: Annotated[
        Path | None, typer.Option("--map-file", help=r"A TOML file with these pairs under \[columns] and \[constants].")
    ] = None,
    blocks: Blocks = None,
    rows: Rows = None,
    thousands: Thousands = None,
    empty_is_zero: Annotated[
        bool, typer.Option("--empty-is-zero", help="Read an empty sender as a mint, an empty receiver as a burn.")
    ] = False,
    rejected: Annotated[
        Path | None,
        typer.Option("--rejected", metavar="FILE", help="Write unreadable rows to this file and import the others."),
    ] = None,
    json: Json = False,
) -> None:
    """Import raw transfers or token lists into the engine's store.

    Example: holderlake import files transfers/*.parquet

    Example: holderlake import files export.csv --chain eth --map value=amount --set token_standard=erc721
    """
    from holderlake.cli.import_files import Reading, import_paths
    from holderlake.sources.files.mapping import ColumnMap, parse_map, read_map
    from holderlake.sources.files.transfers import FileOptions

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
    keys = import_paths(shared.settings(), files, Reading(options, blocks or (), rejected), json)
    _finish(json, keys)


@app.command("node")
def import_node(  # noqa: PLR0913, PLR0917 - a command's options
    urls: Urls = None,
    chain: Chain = None,
    token: Tokens = None,
    all_tokens: Annotated[bool, typer.Option("--all-tokens", help="Import every token of the chain.")] = False,
    native: Annotated[
        bool, typer.Option("--native", help="Import the chain's own coin, in addition to any --token.")
    ] = False,
    traces: Annotated[
        bool | None, typer.Option(help="Include native transfers of contracts; default: the settings'.")
    ] = None,
    from_block: FromBlock = None,
    to_block: ToBlock = None,
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
        bool,
        typer.Option("--verify", help="Then compare what is stored with the node, as 'holderlake import verify' does."),
    ] = False,
    json: Json = False,
) -> None:
    """Import transfers from an EVM chain's node. Repeat it after an interruption; reorgs are rolled back.

    By default it reads from the block of the settings to the newest final one.

    Example: holderlake import node http://127.0.0.1:8545 --token 0x6ba6f2207e343923ba692e5cae646fb0f566db8d

    Example: holderlake import node --chain eth --all-tokens --follow
    """
    from holderlake.cli.import_nodes import follow_nodes, import_blocks
    from holderlake.cli.verify_nodes import verify_with_nodes
    from holderlake.core.contract.times import parse_when
    from holderlake.sources.nodes.connection import ImportOptions

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
        raise typer.BadParameter(
            "--follow does not end; use 'holderlake import verify' besides it", param_hint="--verify"
        )
    if follow:
        follow_nodes(shared.reading(), urls or [], options, json)
    else:
        import_blocks(shared.settings(), urls or [], options, json)
    try:
        if verify:
            verify_with_nodes(shared.settings(), urls or [], options, repairs=False, as_json=json)
    finally:
        shared.load()
    _say_next(json)


@app.command("portal")
def import_portal(
    url: Annotated[str, typer.Argument(metavar="URL", help="Address of a dataset of an SQD portal.")],
    chain: Chain = None,
    token: Tokens = None,
    all_tokens: Annotated[bool, typer.Option("--all-tokens", help="Import every token of the chain.")] = False,
    from_block: FromBlock = None,
    to_block: ToBlock = None,
    json: Json = False,
) -> None:
    """Import transfers of final blocks from an SQD portal, without a node. Repeat it after an interruption.

    A portal does not name its chain, so --chain is required. By default it reads from the block of the
    settings to the newest final one.

    Example: holderlake import portal https://portal.sqd.dev/datasets/ethereum-mainnet --chain eth --all-tokens
    """
    from holderlake.cli.import_nodes import import_blocks
    from holderlake.sources.nodes.connection import ImportOptions

    if chain is None:
        raise typer.BadParameter("a portal does not name its chain; add for example --chain eth", param_hint="--chain")
    options = ImportOptions(
        chain_typed(chain), token or [], all_tokens, from_block=from_block, to_block=to_block, is_portal=True
    )
    import_blocks(shared.settings(), [url], options, json)
    _finish(json)


@app.command("balances")
def import_balances(  # noqa: PLR0913, PLR0917 - a command's options
    files: Annotated[list[Path], typer.Argument(help="Balance lists: Parquet, CSV or JSON.")],
    chain: Chain = None,
    token: Annotated[str | None, typer.Option(help="Token address or native, if the file does not name it.")] = None,
    block: Annotated[int | None, typer.Option(min=0, help="Block after which these balances are true.")] = None,
    at: Annotated[str | None, AT] = None,
    standard: Annotated[
        str | None, typer.Option(help="erc20, erc721, erc1155 or native; default: erc20, or erc1155 with token_id.")
    ] = None,
    mapped: ColumnMaps = None,
    constants: Constants = None,
    thousands: Thousands = None,
    rows: Rows = None,
    blocks: Blocks = None,
    json: Json = False,
) -> None:
    """Import balances at one block or time, if you lack earlier transfers.

    Example: holderlake import balances holders.csv --chain eth --token native --block 19000000

    Example: holderlake import balances holders.json --rows data.holders --map balance=amount --at 2026-05-01
    """
    from holderlake.cli import opening_balances
    from holderlake.core.contract.times import parse_when, to_unix
    from holderlake.sources.balance_lists import BalanceOptions, balance_map

    second = to_unix(parse_when(at)) if at else None
    options = BalanceOptions(
        chain_typed(chain),
        token,
        standard,
        block,
        second,
        balance_map(mapped or [], constants or []),
        rows_at=rows,
        thousands=thousands,
    )
    _finish(json, opening_balances.import_balances(shared.settings(), files, options, blocks or [], json))


@app.command("labels")
def import_labels(files: Annotated[list[Path], typer.Argument(help="Label files.")], json: Json = False) -> None:
    """Import address labels into the engine's store.

    Example: holderlake import labels labels/*.csv
    """
    from holderlake.cli.import_files import label_paths

    label_paths(shared.settings(), files, json)
    _finish(json)


@app.command("verify")
def verify_imports(  # noqa: PLR0913, PLR0917 - a command's options
    urls: Urls = None,
    chain: Chain = None,
    token: Tokens = None,
    from_block: FromBlock = None,
    to_block: ToBlock = None,
    ranges: Annotated[
        int | None,
        typer.Option("--ranges", min=1, help="Compare this number of random ranges of blocks, instead of all."),
    ] = None,
    against: Annotated[
        list[str] | None,
        typer.Option(metavar="URL", help="Compare with the events of this node instead; may be given again."),
    ] = None,
    repair: Annotated[
        bool, typer.Option("--repair", help="Ask again for all blocks from the first that differs on.")
    ] = False,
    json: Json = False,
) -> None:
    """Compare imported transfers with a node: events, missing blocks, supplies and sampled balances.

    By default it compares all imported blocks. The result is a row for each token of the view
    'verified' of 'holderlake sql'.

    Example: holderlake import verify http://127.0.0.1:8545

    Example: holderlake import verify --chain eth --ranges 20 --repair
    """
    from holderlake.cli.verify_nodes import verify_with_nodes
    from holderlake.sources.nodes.connection import ImportOptions

    options = ImportOptions(
        chain_typed(chain), token or [], from_block=from_block, to_block=to_block, sample=ranges, against=against or ()
    )
    try:
        verify_with_nodes(shared.settings(), urls or [], options, repair, json)
    finally:
        shared.load()


def _finish(as_json: bool, keys: Collection[tuple[str, str]] = ()) -> None:
    """Load the warehouse, and print the next command. ``keys`` are the imported tokens (chain, address)."""
    shared.load()
    _say_next(as_json, keys)


def _say_next(as_json: bool, keys: Collection[tuple[str, str]] = ()) -> None:
    if not as_json:
        shared.say_next(*_next_step(keys))


def _next_step(keys: Collection[tuple[str, str]]) -> tuple[str, str]:
    """Return the command that leads from the imported tokens ``keys``, or from all of the store, to a map, and its
    result."""
    from holderlake.core.contract.times import from_unix, to_unix, utc_now
    from holderlake.core.settings import CONFIG_NAME, CONFIG_VARIABLE
    from holderlake.sources.store import open_own_store

    settings = shared.settings()
    with open_own_store(settings) as store:
        histories = [one for one in store.histories() if not keys or (one.chain, one.token_address) in keys]
        largest = max(histories, key=lambda history: history.transfers, default=None)
    if largest is None and not keys:
        return "holderlake import files FILE", "the transfers of a token"
    if settings.provider.url is not None:
        return "holderlake serve", "the API over your transfers"
    chain, address = (largest.chain, largest.token_address) if largest else min(keys)
    token = f" --chain {chain} --token {address}"
    is_old = largest is not None and to_unix(utc_now()) - largest.last_time > _OLD
    at = f" --at {from_unix(largest.last_time):%Y-%m-%dT%H:%M:%SZ}" if largest and is_old else ""
    if settings.provider.local == "store":
        is_watched = address in settings.watchlist.get(chain, ())
        return f"holderlake ingest{'' if is_watched and not at else token}{at}", "holders and maps of your transfers"
    path = Path(os.environ.get(CONFIG_VARIABLE) or CONFIG_NAME)
    if path.exists():
        return f"holderlake ingest{token}{at}", f'after you set local = "store" under [provider] in {path}'
    return f"holderlake init --own-data{token}", "settings for maps of your transfers"
