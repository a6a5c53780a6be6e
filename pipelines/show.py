"""What the commands print: aligned tables for people, JSON for machines."""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from datetime import date, datetime
from decimal import Decimal
from typing import Any

import pyarrow as pa
from rich.console import Console
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeElapsedColumn, TimeRemainingColumn
from rich.table import Table

out = Console(soft_wrap=False, highlight=False)
err = Console(stderr=True, highlight=False)

_NUMBERS = (int, float, Decimal)


def as_json(value: Any) -> None:
    """Prints a value as JSON: exact decimals as text, times in ISO 8601."""
    out.print_json(json.dumps(value, default=_plain))


def rows(title: str, columns: Sequence[str], lines: Iterable[Sequence[Any]]) -> None:
    """Prints an aligned table; numbers stand to the right."""
    listed = [list(line) for line in lines]
    table = Table(title=title or None, title_justify="left", title_style="bold", box=None, pad_edge=False)
    for place, column in enumerate(columns):
        numeric = bool(listed) and all(isinstance(line[place], _NUMBERS) or line[place] is None for line in listed)
        table.add_column(column, justify="right" if numeric else "left", overflow="fold")
    for line in listed:
        table.add_row(*(_text(value) for value in line))
    out.print(table)


def arrow(title: str, table: pa.Table) -> None:
    """Prints an Arrow table."""
    rows(title, table.column_names, (tuple(row.values()) for row in table.to_pylist()))


@contextmanager
def progress(what: str, total: int) -> Iterator[Progress]:
    """A progress bar on standard error with counts and times."""
    columns = (
        TextColumn("{task.description}"),
        BarColumn(),
        MofNCompleteColumn(),
        TextColumn("{task.fields[note]}"),
        TimeElapsedColumn(),
        TimeRemainingColumn(),
    )
    with Progress(*columns, console=err, transient=not err.is_terminal) as bar:
        bar.add_task(what, total=total, note="")
        yield bar


def _text(value: Any) -> str:
    if value is None:
        return "-"
    if isinstance(value, bool):
        return "yes" if value else "no"
    if isinstance(value, float):
        return f"{value:,.4f}".rstrip("0").rstrip(".")
    if isinstance(value, Decimal | int):
        text = f"{value:,f}" if isinstance(value, Decimal) else f"{value:,}"
        return text.rstrip("0").rstrip(".") if "." in text else text
    if isinstance(value, datetime):
        return f"{value:%Y-%m-%d %H:%M:%S}"
    return str(value).replace("[", r"\[")


def _plain(value: Any) -> Any:
    if isinstance(value, datetime | date):
        return value.isoformat()
    if isinstance(value, Mapping):
        return dict(value)
    return str(value)
