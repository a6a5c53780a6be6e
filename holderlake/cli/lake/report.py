"""``holderlake report``: an HTML page about one token and period."""

from __future__ import annotations

import re
from datetime import datetime, timedelta
from pathlib import Path
from typing import Annotated

import typer

from holderlake import console
from holderlake.cli import shared
from holderlake.cli.shared import Json
from holderlake.contract.chains.addresses import typed_token
from holderlake.contract.times import parse_when, utc_now
from holderlake.units import counted


def report(
    chain: Annotated[str, typer.Argument(help="The token's chain.")],
    token: Annotated[str, typer.Argument(help="The token's address, or native.")],
    file: Annotated[Path | None, typer.Argument(help="File to write; default: report-CHAIN-TOKEN.html.")] = None,
    start: Annotated[
        str | None, typer.Option("--from", help="First instant; default: the first in the warehouse.")
    ] = None,
    end: Annotated[
        str | None,
        typer.Option("--to", help="Last instant, included; a date means its end; default: the last in the warehouse."),
    ] = None,
    force: Annotated[bool, typer.Option("--force", help="Replace an existing file.")] = False,
    json: Json = False,
) -> None:
    """Write an HTML page about a token: holders, entries and exits, clusters, concentration, flows, maps."""
    from holderlake.export.token_report.page import write_report
    from holderlake.storage.names import file_name_part
    from holderlake.warehouse.token_history import Period

    token = typed_token(chain, token)
    period = Period(
        chain,
        token,
        datetime.min if start is None else parse_when(start),
        utc_now() if end is None else _end(end),
    )
    path = (file or Path(f"report-{file_name_part(chain)}-{file_name_part(token[:12])}.html")).expanduser()
    if period.since > period.until:
        raise ValueError(
            f"--from ({period.since:%Y-%m-%d %H:%M}) is after --to ({period.until:%Y-%m-%d %H:%M}): exchange them"
        )
    if not path.parent.is_dir():
        raise ValueError(f"the folder {path.parent} does not exist: create it, or give another path")
    if path.exists() and not force:
        raise ValueError(f"{path} exists already: use --force to replace it")
    with console.progress("writing the report", None):
        page = write_report(shared.reading().warehouse, period, path, utc_now())
    if json:
        console.as_json(vars(page))
    else:
        console.out.print(
            f"{page.path}: {counted(page.instants, 'instant')} from {page.first:%Y-%m-%d} to "
            f"{page.last:%Y-%m-%d}, "
            f"{page.bytes / 1e6:.1f} MB. Open it in a browser.",
        )


def _end(text: str) -> datetime:
    """Return the instant of a text; the last second of the day for a date alone."""
    is_date = re.fullmatch(r"\s*\d{4}-?\d\d-?\d\d\s*", text)
    return parse_when(text) + (timedelta(days=1, seconds=-1) if is_date else timedelta(0))
