"""``holderlake negative-balances``."""

from __future__ import annotations

from typing import Annotated

import typer

from pipelines.commands import shared
from pipelines.commands.shared import Json


def negative_balances(
    chain: Annotated[str | None, typer.Option(help="Chain of --token.")] = None,
    token: Annotated[str | None, typer.Option(help="Only this token; all tokens of your store by default.")] = None,
    at: Annotated[str, typer.Option(help="As of when: ISO date-time, unix seconds.")] = "now",
    json: Json = False,
) -> None:
    """List the addresses that your imports leave below zero: how far, and since when."""
    from contract.times import parse_when
    from pipelines.negatives import report_negative_balances

    report_negative_balances(shared.settings(), chain, token, parse_when(at), json)
