"""``holderlake verify``: compare imported transfers with a node."""

from __future__ import annotations

from typing import Annotated

import typer

from holderlake.cli import shared
from holderlake.cli.shared import Json, Tokens
from holderlake.contract.chains import chain_typed


def verify(  # noqa: PLR0913, PLR0917 - a command's options
    urls: Annotated[
        list[str] | None, typer.Argument(metavar="[URL]...", help="Nodes' addresses; default: the settings'.")
    ] = None,
    chain: Annotated[str | None, typer.Option(help="Chain; default: from the node's chain id.")] = None,
    token: Tokens = None,
    from_block: Annotated[int | None, typer.Option(min=0, help="First block; default: the first imported one.")] = None,
    to_block: Annotated[int | None, typer.Option(min=0, help="Last block; default: the last imported one.")] = None,
    sample: Annotated[
        int | None, typer.Option(min=1, help="Compare so many ranges of blocks, chosen at random, instead of all.")
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

    The result is a row for each token of the view 'verified' of 'holderlake sql'.
    """
    from holderlake.local.nodes.connection import ImportOptions
    from holderlake.local.nodes.verify import verify_with_nodes

    options = ImportOptions(
        chain_typed(chain),
        token or [],
        from_block=from_block,
        to_block=to_block,
        sample=sample,
        against=against or (),
    )
    try:
        verify_with_nodes(shared.settings(), urls or [], options, repair, json)
    finally:
        shared.load()
