"""``holderlake index``: choose the tokens whose transfers link holders on every map."""

from __future__ import annotations

from typing import Annotated

import typer

from holderlake.cli import shared
from holderlake.cli.shared import Json


def index(
    chain: Annotated[str | None, typer.Argument(help="Chain of the tokens; default: list all chains.")] = None,
    tokens: Annotated[
        list[str] | None, typer.Argument(metavar="[TOKEN]...", help="Token addresses, or native.")
    ] = None,
    remove: Annotated[bool, typer.Option("--remove", help="Stop indexing these tokens.")] = False,
    json: Json = False,
) -> None:
    """Index tokens, so that their transfers link holders on every map. Without tokens, list the indexed ones."""
    from holderlake.local.indexed_tokens import change_index, list_index

    if tokens and chain:
        change_index(shared.settings(), chain, tokens, remove, json)
    elif remove:
        raise typer.BadParameter("give the addresses of the tokens to remove", param_hint="TOKEN")
    else:
        list_index(shared.settings(), chain, json)
