"""``holderlake import-balances``."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from holderlake.cli import shared
from holderlake.cli.shared import Json
from holderlake.contract.chains import chain_typed


def import_balances(  # noqa: PLR0913, PLR0917 - a command's options
    files: Annotated[list[Path] | None, typer.Argument(help="Balance lists: Parquet, CSV or JSON.")] = None,
    chain: Annotated[str | None, typer.Option(help="Chain, if the file does not name it.")] = None,
    token: Annotated[str | None, typer.Option(help="Token address or native, if the file does not name it.")] = None,
    block: Annotated[int | None, typer.Option(min=0, help="Block after which these balances are true.")] = None,
    at: Annotated[str | None, typer.Option(help="Time of the balances: ISO date-time, unix seconds.")] = None,
    standard: Annotated[
        str | None, typer.Option(help="erc20, erc721, erc1155 or native; default: erc20, or erc1155 with token_id.")
    ] = None,
    mapped: Annotated[
        list[str] | None,
        typer.Option("--map", help="Our column and the file's, such as balance=amount; may be given again."),
    ] = None,
    constants: Annotated[
        list[str] | None,
        typer.Option("--set", help="Our column and its value in every row: decimals=18; may be given again."),
    ] = None,
    thousands: Annotated[
        str | None,
        typer.Option(
            "--thousands",
            metavar="LETTER",
            help="Separator of thousands in balances; with . a comma is the decimal mark.",
        ),
    ] = None,
    rows: Annotated[
        str | None, typer.Option("--rows", metavar="PATH", help="Path to the rows within JSON: data.holders")
    ] = None,
    blocks: Annotated[
        list[Path] | None, typer.Option("--blocks", help="A file of blocks with their times; may be given again.")
    ] = None,
    remove: Annotated[
        bool, typer.Option("--remove", help="Remove the balances of --token on --chain, instead.")
    ] = False,
    json: Json = False,
) -> None:
    """Import balances at one block or time, if you lack earlier transfers. Importing a list again changes nothing."""
    from holderlake.contract.times import parse_when, to_unix
    from holderlake.engine.sources.balance_lists import BalanceOptions, balance_map
    from holderlake.local import opening_balances

    if remove:
        if files or not chain or not token:
            raise typer.BadParameter("--remove needs --chain and --token, and no files", param_hint="--remove")
        opening_balances.remove_balances(shared.settings(), chain, token, json)
        return
    if not files:
        raise typer.BadParameter("give at least one file with balances", param_hint="FILES")
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
    opening_balances.import_balances(shared.settings(), files, options, blocks or [], json)
