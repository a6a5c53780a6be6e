"""What commands have in common: their options, and the settings and workspaces that they open."""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import ExitStack, closing
from typing import TYPE_CHECKING, Annotated

import typer

from holderlake.contract.chains import chain_typed
from holderlake.contract.chains.addresses import typed_token

if TYPE_CHECKING:
    from holderlake.settings import Settings
    from holderlake.workspace import Workspace


Json = Annotated[bool, typer.Option("--json", help="Print JSON for machines.")]
Chains = Annotated[list[str] | None, typer.Option("--chain", help="Only this chain; may be given again.")]
Tokens = Annotated[
    list[str] | None,
    typer.Option("--token", help="Only this token's address; may be given again."),
]
FilledTables = Annotated[
    list[str] | None, typer.Option("--table", help="Only what fills this table; may be given again.")
]
Refresh = Annotated[
    bool,
    typer.Option("--refresh", help="Fetch existing data again, with the options of the settings (costs credits)."),
]
From = Annotated[str | None, typer.Option("--from", help="First instant: ISO date, date-time, unix seconds.")]
To = Annotated[str | None, typer.Option("--to", help="Last instant, included; now by default.")]
Every = Annotated[str | None, typer.Option("--every", help="Step: 1h, 6h, 1d, 1w, 1mo; 1d by default.")]
Instants = Annotated[
    typer.FileText | None,
    typer.Option("--instants", help="A file of instants instead, one a line, # for comments; - is standard input."),
]

_open = ExitStack()


def settings() -> Settings:
    """The settings of file and environment. Raises ``SettingsError`` where the home is no folder."""
    from holderlake.settings import SettingsError, load_settings

    loaded = load_settings()
    for path in (loaded.home, *loaded.home.absolute().parents):
        if path.exists() and not path.is_dir():
            raise SettingsError(f"HOLDERLAKE_HOME is {loaded.home}, and {path} is a file; name a folder")
    return loaded


def workspace(chosen: Settings | None = None) -> Workspace:
    """The workspace of the settings, with the provider that they name; closed when the command ends."""
    from holderlake.local.embedded import make_workspace

    return _until_the_end(make_workspace(chosen or settings()))


def reading() -> Workspace:
    """The workspace for reading what is there; closed when the command ends."""
    from holderlake.local.embedded import reading_workspace

    return _until_the_end(reading_workspace(settings()))


def close() -> None:
    """Closes what the command opened."""
    _open.close()


def _until_the_end(opened: Workspace) -> Workspace:
    return _open.enter_context(closing(opened))


def chains_of(workspace: Workspace, chains: list[str] | None, tokens: list[str] | None) -> list[str]:
    """The chains asked for, or the watchlist's. Raises ``ValueError`` with the way out when there is nothing to ask."""
    watched = workspace.settings.watchlist
    if tokens and not chains:
        raise ValueError("--token needs --chain, for the same address can be a token on several chains")
    chosen = chains or sorted(watched)
    if not chosen:
        raise ValueError(
            "the watchlist is empty; name tokens under [watchlist] in holderlake.toml, or use --chain and --token"
        )
    for chain in chosen:
        if not tokens and chain not in watched:
            raise ValueError(
                f"no token of chain {chain} is watched; add it to [watchlist] in holderlake.toml, or use --token"
            )
    return chosen


def tokens_of(chains: Sequence[str], tokens: Sequence[str] | None) -> list[str] | None:
    """The tokens as the chains spell them, None for none.

    Raises ``ValueError`` for one that is not an address of each chain.
    """
    found: list[str] = []
    for token in tokens or ():
        spelt = {typed_token(chain_typed(chain), token): chain for chain in chains}
        if len(spelt) > 1:
            raise ValueError(f"--token {token} is spelt differently on {' and '.join(spelt.values())}; name one chain")
        found += spelt
    return found or None
