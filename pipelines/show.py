"""What the commands print: aligned tables for people, JSON for machines."""

from __future__ import annotations

import json
import re
import sys
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from datetime import date, datetime
from decimal import Decimal
from typing import TYPE_CHECKING, Any

from rich.console import Console
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeElapsedColumn, TimeRemainingColumn
from rich.table import Table

if TYPE_CHECKING:
    import pyarrow as pa

_PIPED_WIDTH = 500
"""Nobody wraps a pipe or a file for a narrow terminal."""

out = Console(highlight=False, width=None if sys.stdout.isatty() else _PIPED_WIDTH)
err = Console(stderr=True, highlight=False)

_NUMBER = re.compile(r"-|-?[\d,]+(\.\d+)?")
_FEW_COLUMNS = 4
"""So many columns fold well within a terminal."""


def as_json(value: Any) -> None:
    """Prints a value as JSON: exact decimals as text, times in ISO 8601."""
    out.print_json(json.dumps(value, default=_plain))


def rows(title: str, columns: Sequence[str], lines: Iterable[Sequence[Any]]) -> None:
    """Prints an aligned table, numbers to the right; where it is wider than the terminal, a block for each row."""
    texts = [[_text(value) for value in line] for line in lines]
    widths = [max(map(len, column)) for column in zip(columns, *texts, strict=True)]
    if title:
        out.print(title, style="bold")
    if sum(widths) + 2 * len(widths) > out.width and len(columns) > _FEW_COLUMNS:
        _blocks(columns, texts)
        return
    table = Table(box=None, pad_edge=False)
    for place, column in enumerate(columns):
        numeric = bool(texts) and all(_NUMBER.fullmatch(line[place]) for line in texts)
        table.add_column(column, justify="right" if numeric else "left", overflow="fold")
    for line in texts:
        table.add_row(*line)
    out.print(table)


def _blocks(columns: Sequence[str], texts: Sequence[Sequence[str]]) -> None:
    width = max(map(len, columns))
    for number, line in enumerate(texts, start=1):
        out.print(f"row {number}", style="dim")
        for column, text in zip(columns, line, strict=True):
            out.print(f"  {column.ljust(width)}  {text}", soft_wrap=True)


def arrow(title: str, table: pa.Table) -> None:
    """Prints an Arrow table."""
    rows(title, table.column_names, (tuple(row.values()) for row in table.to_pylist()))


@contextmanager
def progress(what: str, total: int | None) -> Iterator[Progress]:
    """A progress bar on standard error with counts and times; without an end where the total is not known."""
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
