"""``holderlake negative-balances``: list addresses whose balance falls below zero."""

from __future__ import annotations

from typing import Annotated

import typer

from holderlake.cli import shared
from holderlake.cli.shared import Json


def negative_balances(
    chain: Annotated[str | None, typer.Option(help="Chain of --token.")] = None,
    token: Annotated[str | None, typer.Option(help="Only this token; default: all tokens of your store.")] = None,
    at: Annotated[str, typer.Option(help="As-of instant: ISO date-time, unix seconds.")] = "now",
    json: Json = False,
) -> None:
    """List the addresses whose imported balance is below zero, with the amount and the time."""
    from holderlake.contract.times import parse_when
    from holderlake.local.negative_balances import report_negative_balances

    report_negative_balances(shared.settings(), chain, token, parse_when(at), json)
