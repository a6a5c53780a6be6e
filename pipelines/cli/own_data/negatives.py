"""``holderlake negative-balances``."""

from __future__ import annotations

from typing import Annotated

import typer

from pipelines.cli import shared
from pipelines.cli.shared import Json


def negative_balances(
    chain: Annotated[str | None, typer.Option(help="Chain of --token.")] = None,
    token: Annotated[str | None, typer.Option(help="Only this token; all tokens of your store by default.")] = None,
    at: Annotated[str, typer.Option(help="As of when: ISO date-time, unix seconds.")] = "now",
    json: Json = False,
) -> None:
    """List the addresses that your imports leave below zero: how far, and since when."""
    from holderlake.contract.times import parse_when
    from holderlake.local.negative_balances import report_negative_balances

    report_negative_balances(shared.settings(), chain, token, parse_when(at), json)
