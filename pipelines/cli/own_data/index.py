"""``holderlake index``."""

from __future__ import annotations

from typing import Annotated

import typer

from pipelines.cli import shared
from pipelines.cli.shared import Json


def index(
    chain: Annotated[str | None, typer.Argument(help="Chain of the tokens; all chains where none is given.")] = None,
    tokens: Annotated[list[str] | None, typer.Argument(metavar="[TOKEN]...", help="Addresses, or native.")] = None,
    remove: Annotated[bool, typer.Option("--remove", help="Index these tokens no longer.")] = False,
    json: Json = False,
) -> None:
    """Mark tokens as indexed: their transfers tie holders on every map. Without tokens, list the indexed ones."""
    from holderlake.local.indexed_tokens import change_index, list_index

    if tokens and chain:
        change_index(shared.settings(), chain, tokens, remove, json)
    elif remove:
        raise typer.BadParameter("name the tokens that are to be removed", param_hint="TOKEN")
    else:
        list_index(shared.settings(), chain, json)
