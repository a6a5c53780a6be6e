"""Options that several commands share, and the settings and workspaces that commands open."""

from __future__ import annotations

import re
from collections.abc import Sequence
from contextlib import ExitStack, closing
from datetime import datetime
from typing import TYPE_CHECKING, Annotated, Final

import typer

from holderlake.core.contract.chains import NATIVE, chain_meant, chain_typed
from holderlake.core.units import counted
from holderlake.presentation import console

if TYPE_CHECKING:
    from holderlake.core.settings import Settings
    from holderlake.core.workspace import Workspace

_SYMBOL: Final = re.compile(r"(?!0[xX])\S{1,25}")
"""Text that may be the symbol of a token: addresses are longer."""
_WITH_SYMBOL: Final = "SELECT token_address FROM known_tokens WHERE chain = ? AND lower(symbol) = lower(?)"

Json = Annotated[bool, typer.Option("--json", help="Print JSON for machines.")]
Yes = Annotated[bool, typer.Option("--yes", help="Do it. Without --yes, only show the effect.")]
Force = Annotated[bool, typer.Option("--force", help="Replace existing files.")]
Chains = Annotated[list[str] | None, typer.Option("--chain", help="Only this chain; may be given again.")]
Tokens = Annotated[
    list[str] | None,
    typer.Option("--token", help="Only this token: address, or symbol in the warehouse; may be given again."),
]
FilledTables = Annotated[
    list[str] | None, typer.Option("--table", help="Only the requests that fill this table; may be given again.")
]
Refresh = Annotated[
    bool,
    typer.Option("--refresh", help="Fetch existing data again, with the options of the settings (costs credits)."),
]
From = Annotated[str | None, typer.Option("--from", help="First instant: ISO date, date-time, unix seconds.")]
To = Annotated[str | None, typer.Option("--to", help="Last instant, included; default: now.")]
Open = Annotated[bool, typer.Option("--open", help="Open the page in the browser.")]
Every = Annotated[str | None, typer.Option("--every", help="Step: 1h, 6h, 1d, 1w or 1mo; default: 1d.")]
Instants = Annotated[
    typer.FileText | None,
    typer.Option(
        "--instants", help="A file with one instant a line, instead; # starts a comment, - is standard input."
    ),
]
AT = typer.Option("--at", help="As-of instant: ISO date, date-time, unix seconds.")
SeveralAt = Annotated[
    list[str] | None,
    typer.Option("--at", help="As-of instant: ISO date, date-time, unix seconds; may be given again."),
]
GROUP_BY = typer.Option("--by", help="Group lines by this.")
HOST = typer.Option("--host", help="Address to listen on.")
PORT = typer.Option("--port", min=0, max=65_535, help="Port to listen on.")
Host = Annotated[str, HOST]
Port = Annotated[int, PORT]
TokenChain = Annotated[str, typer.Argument(metavar="CHAIN", help="The token's chain.")]
TokenAddress = Annotated[
    str, typer.Argument(metavar="TOKEN", help="The token's address, native, or its symbol in the warehouse.")
]
EXPLORE = "holderlake explore --open"
"""The command that shows the fetched data."""

_open = ExitStack()


def settings() -> Settings:
    """Load the settings from file and environment. Raises ``SettingsError``."""
    from holderlake.core.settings import load_settings

    return load_settings()


def workspace(given_settings: Settings | None = None) -> Workspace:
    """Open a workspace with the provider of the settings, and close it when the command ends."""
    from holderlake.core.workspace import make_workspace

    return _closed_at_end(make_workspace(given_settings or settings()))


def reading() -> Workspace:
    """Open a workspace that only reads stored data, and close it when the command ends."""
    from holderlake.core.workspace import reading_workspace

    return _closed_at_end(reading_workspace(settings()))


def load() -> None:
    """Load the warehouse, if there is one: its views of the own store then show the store as it is.

    Print how many partitions were computed before the store changed.
    """
    workspace = reading()
    if workspace.warehouse.version is not None:
        workspace.warehouse.load(workspace.lake)
    if count := len(workspace.stale_partitions()):
        console.err.print(
            f"{counted(count, 'partition', 'was')} computed before your store changed; 'holderlake backfill --stale' "
            "computes them again, free.",
            soft_wrap=True,
        )


def check_period(start: datetime, end: datetime) -> None:
    """Raise ``ValueError`` if the period of ``--from`` and ``--to`` is empty."""
    if start > end:
        raise ValueError(f"--from ({start:%Y-%m-%d %H:%M}) is after --to ({end:%Y-%m-%d %H:%M}): exchange them")


def say_next(command: str, result: str) -> None:
    """Print the next command, and its result."""
    console.out.print(f"Next: {command}  # {result}", soft_wrap=True)


def say_not_done(done: str) -> None:
    """Print that a command without ``--yes`` only showed its work. ``done`` is the work, such as "deleted"."""
    console.err.print(f"Nothing was {done}; add --yes to do it.")


def close() -> None:
    """Close all workspaces that the command opened."""
    _open.close()


def _closed_at_end(opened: Workspace) -> Workspace:
    return _open.enter_context(closing(opened))


def chains_of(workspace: Workspace, chains: list[str] | None, tokens: list[str] | None) -> list[str]:
    """Return the given chains, each once, or else those of the watchlist.

    Raises ``ValueError`` if there is no token to fetch. ``tokens`` are the given tokens. They need a chain.
    """
    watched = workspace.settings.watchlist
    if tokens and not chains:
        raise ValueError("--token needs --chain, because several chains can have a token with the same address")
    chosen_chains = list(dict.fromkeys(chains or sorted(watched)))
    if not chosen_chains:
        raise ValueError(
            "the watchlist is empty; add tokens under [watchlist] in holderlake.toml, or use --chain and --token"
        )
    for chain in chosen_chains:
        if chain not in watched:
            _check_known(chain)
        if not tokens and chain not in watched:
            raise ValueError(
                f"no token of chain {chain} is watched; add it to [watchlist] in holderlake.toml, or use --token"
            )
    return chosen_chains


def _check_known(chain: str) -> None:
    """Raise ``ValueError`` for a chain that is not known, if its name is near to that of a known one."""
    meant = chain_meant(chain)
    if meant not in (None, chain):
        raise ValueError(f"chain {chain} is not known; did you mean {meant}?")


def watched_tokens(chains: Sequence[str], tokens: Sequence[str]) -> dict[str, list[str]]:
    """Return the watchlist of some tokens on each of the chains.

    Raises ``ValueError`` for chain and token in each other's place, for nearly the name of a known chain, and as
    ``tokens_of``.
    """
    for chain in chains:
        if chain_meant(chain) is None and any(chain_meant(token) for token in tokens):
            token = next(token for token in tokens if chain_meant(token))
            raise ValueError(
                f"{chain!r} is no known chain, but {token!r} is: write --chain {chain_meant(token)} --token ADDRESS"
            )
        _check_known(chain)
    return {chain: tokens_of([chain], tokens) or [] for chain in chains}


def token_address(chain: str, token: str) -> str:
    """Return the stored spelling of a token's address, or the address of the token with this symbol. Raises as
    ``tokens_of``.

    Before the first load, a symbol of the user's own store makes one.
    """
    from holderlake.core.contract.chains.addresses import typed_token
    from holderlake.engine.settings import store_folder

    chain_id = chain_typed(chain)
    workspace = reading()
    warehouse = workspace.warehouse
    is_symbol = _SYMBOL.fullmatch(token) and token.lower() != NATIVE
    if is_symbol and warehouse.version is None and store_folder(workspace.settings).exists():
        warehouse.load(workspace.lake)
    if not is_symbol or warehouse.version is None:
        return typed_token(chain_id, token)
    addresses = warehouse.query(_WITH_SYMBOL, [chain_id, token])["token_address"].to_pylist()
    if len(addresses) == 1:
        return str(addresses[0])
    warehouse.query("SELECT token_of(?)", [token])  # raises for a symbol that no or several tokens have
    raise ValueError(f"no token of {chain_id} has the symbol {token}: give another --chain, or the address")


def tokens_of(chains: Sequence[str], tokens: Sequence[str] | None) -> list[str] | None:
    """Return the addresses of tokens, each once, given by address or symbol; None if no tokens are given.

    Raises ``ValueError`` for a token that is not a valid address on each of the chains, and ``WarehouseError`` for a
    symbol that no or several tokens of the warehouse have.
    """
    addresses: list[str] = []
    for token in tokens or ():
        spelt = {token_address(chain, token): chain for chain in chains}
        if len(spelt) > 1:
            raise ValueError(f"--token {token} has different forms on {' and '.join(spelt.values())}: give one --chain")
        addresses += spelt
    return list(dict.fromkeys(addresses)) or None
