"""Output of the commands: aligned tables for people, JSON for machines.

Names, reasons and other texts come from providers and chains and are untrusted. They are printed without markup, emoji
codes or terminal control sequences.
"""

from __future__ import annotations

import io
import json
import logging
import os
import re
import sys
import threading
from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager, nullcontext, suppress
from datetime import datetime
from decimal import Decimal
from typing import TYPE_CHECKING, Any, TextIO, cast

import msgspec
from rich.console import Console
from rich.progress import (
    BarColumn,
    MofNCompleteColumn,
    Progress,
    TaskID,
    TextColumn,
    TimeElapsedColumn,
    TimeRemainingColumn,
)
from rich.table import Column, Table
from rich.text import Text

from holderlake.core.contract import exact_json
from holderlake.core.contract.text import printable

if TYPE_CHECKING:
    import pyarrow as pa

_LINE_SECONDS = 5.0
"""Seconds between two lines of progress where no bar is shown."""
_PIPED_WIDTH = 500
"""Characters in a line of output to a pipe or a file. The number is large, so that lines are hardly ever wrapped."""


class _TextConsole(Console):
    """A console without markup that escapes unprintable characters."""

    def __init__(self, **options: Any) -> None:
        super().__init__(highlight=False, markup=False, emoji=False, **options)

    def render_str(self, text: str, **options: Any) -> Text:
        return super().render_str(printable(text, exempt="\n"), **options)


out = _TextConsole(width=None if sys.stdout.isatty() else _PIPED_WIDTH)
err = _TextConsole(stderr=True)

_NUMBER = re.compile(r"-|-?[\d,]+(\.\d+)?(e[+-]\d+)?")
_SMALL = 0.001
"""Floats below this value are shown with four significant digits."""
_LARGE = 2**53
"""Floats from this value on are shown with the 15 digits that they have, because more would be false."""
_FEW_ROWS = 100
"""A table with more rows is printed without line breaks within cells."""
_FEW_COLUMNS = 4
"""A table with at most this many columns is printed as a table, even if it is wider than the terminal."""


def prepare_streams() -> None:
    """Set up standard output and standard error: characters that they cannot encode are written as escapes.

    Warnings of libraries are then logged as plain text on standard error.
    """
    for stream in (sys.stdout, sys.stderr):
        if isinstance(stream, io.TextIOWrapper):
            with suppress(OSError):  # a parent process replaced the stream's file by a pipe
                stream.reconfigure(errors="backslashreplace")
    handler = logging.StreamHandler()
    handler.setFormatter(_TextFormatter())
    handler.setLevel(logging.WARNING)
    logging.lastResort = handler


class _TextFormatter(logging.Formatter):
    def format(self, record: logging.LogRecord) -> str:
        return printable(super().format(record), exempt="\n")


def as_json(value: Any, one_line: bool = False) -> None:
    """Print a value as JSON. Decimals, NaN and infinity become text, times are in ISO 8601.

    ``one_line`` is for a command that prints a value after the other; each is written at once.
    """
    out.file.write(_json(value, 0 if one_line else 2) + "\n")
    if one_line:
        out.file.flush()


def _json(value: Any, indent: int = 2) -> str:
    raw = exact_json.encode(value, "text")
    return _escaped(msgspec.json.format(raw, indent=indent).decode())


def as_json_list(batches: Iterable[Sequence[Any]]) -> None:
    """Print the values of all batches as one JSON list, a batch at a time. Values are as in ``as_json``."""
    is_first = True
    for batch in batches:
        if batch:
            out.file.write("[\n" if is_first else ",\n")
            out.file.write(_json(batch).removeprefix("[\n").removesuffix("\n]"))
            is_first = False
    out.file.write("[]\n" if is_first else "\n]\n")


def rows(title: str, columns: Sequence[str], lines: Iterable[Sequence[Any]]) -> None:
    """Print a table with the headings ``columns``. Each element of ``lines`` is a row.

    A table of over four columns that is wider than the terminal is printed row by row, with one value per line.
    """
    columns = [printable(column) for column in columns]
    texts = [[_text(value) for value in line] for line in lines]
    widths = [max(map(len, column)) for column in zip(columns, *texts, strict=True)]
    if title:
        out.print(title, style="bold")
    if sum(widths) + 2 * len(widths) > out.width and len(columns) > _FEW_COLUMNS:
        _blocks(columns, texts)
        return
    numbers = [bool(texts) and all(map(_NUMBER.fullmatch, column)) for column in zip(*texts, strict=True)]
    if len(texts) > _FEW_ROWS:
        _lines([columns, *texts], widths, numbers)
        return
    table = Table(box=None, pad_edge=False)
    for column, numeric in zip(columns, numbers or [False] * len(columns), strict=True):
        table.add_column(column, justify="right" if numeric else "left", overflow="fold")
    for line in texts:
        table.add_row(*line)
    out.print(table)


def _blocks(columns: Sequence[str], texts: Sequence[Sequence[str]]) -> None:
    width = max(map(len, columns))
    for number, line in enumerate(texts, start=1):
        values = "".join(f"  {column.ljust(width)}  {text}\n" for column, text in zip(columns, line, strict=True))
        out.file.write(f"row {number}\n{values}")


def _lines(lines: Iterable[Sequence[str]], widths: Sequence[int], numbers: Sequence[bool]) -> None:
    """Print lines of aligned texts, columns of numbers to the right. Rich needs milliseconds a row for the same."""
    for line in lines:
        cells = (
            text.rjust(width) if number else text.ljust(width)
            for text, width, number in zip(line, widths, numbers, strict=True)
        )
        out.file.write("  ".join(cells).rstrip() + "\n")


def arrow(title: str, table: pa.Table) -> None:
    """Print an Arrow table with ``title`` and its column names as headings, or row by row if it is too wide."""
    rows(title, table.column_names, (tuple(row.values()) for row in table.to_pylist()))


@contextmanager
def progress(text: str, total: int | None) -> Iterator[Progress]:
    """Show a progress bar on standard error while the ``with`` block runs.

    ``text`` is the text in front of the bar. ``total`` is the number of steps, None if it is unknown.
    """
    columns = (
        TextColumn("{task.description}", markup=False, table_column=Column(no_wrap=True)),
        BarColumn(bar_width=16),
        MofNCompleteColumn(table_column=Column(no_wrap=True)),
        TimeElapsedColumn(table_column=Column(no_wrap=True)),
        TimeRemainingColumn(table_column=Column(no_wrap=True)),
        # the last one, which a narrow terminal cuts
        TextColumn("{task.fields[note]}", markup=False, table_column=Column(no_wrap=True, ratio=1)),
    )
    with _own_standard_error(), Progress(*columns, console=err, transient=not err.is_terminal, expand=True) as bar:
        bar.add_task(text, total=total, note="")
        with nullcontext() if err.is_terminal else _progress_lines(bar):
            yield bar


@contextmanager
def _progress_lines(bar: Progress) -> Iterator[None]:
    """Print changed progress as a line every few seconds while the ``with`` block runs: files and pipes show no bar."""
    ended = threading.Event()

    def report() -> None:
        printed: dict[TaskID, str] = {}
        while not ended.wait(_LINE_SECONDS):
            for task in bar.tasks:
                of = "" if task.total is None else f" of {task.total:,.0f}"
                line = f"{task.description}: {task.completed:,.0f}{of} {task.fields['note']}".rstrip()
                if line != printed.get(task.id):
                    err.print(line)
                printed[task.id] = line

    reporter = threading.Thread(target=report, daemon=True)
    reporter.start()
    try:
        yield
    finally:
        ended.set()
        reporter.join()


@contextmanager
def _own_standard_error() -> Iterator[None]:
    """Let ``err`` write to a copy of standard error's descriptor, because Dagster redirects that of a running step."""
    try:
        descriptor = os.dup(sys.stderr.fileno())
    except (AttributeError, OSError, ValueError):  # a stream without a descriptor, as in notebooks
        yield
        return
    with os.fdopen(descriptor, "w", encoding=sys.stderr.encoding, errors=sys.stderr.errors) as copy:
        copy.reconfigure(line_buffering=True)
        err.file = copy
        try:
            yield
        finally:
            err.file = cast(TextIO, None)  # whatever sys.stderr is then


def _text(value: Any) -> str:
    if value is None:
        return "-"
    if isinstance(value, bool):
        return "yes" if value else "no"
    if isinstance(value, float):
        digits = ".4g" if 0 < abs(value) < _SMALL else ".15g" if abs(value) >= _LARGE else ",.4f"
        text = format(value, digits)
        return text.rstrip("0").rstrip(".") if digits == ",.4f" else text
    if isinstance(value, Decimal | int):
        text = f"{value:,f}" if isinstance(value, Decimal) else f"{value:,}"
        return text.rstrip("0").rstrip(".") if "." in text else text
    if isinstance(value, datetime):
        return f"{value:%Y-%m-%d %H:%M:%S}"
    is_nested = isinstance(value, list | tuple | dict)
    return printable(exact_json.encode(value, "text").decode() if is_nested else str(value))


def _escaped(text: str) -> str:
    """Return JSON text with a ``\\u`` escape for every unprintable character."""
    if text.isprintable():
        return text
    return "".join(
        character if character.isprintable() or character == "\n" else _escape(character) for character in text
    )


def _escape(letter: str) -> str:
    return f"\\u{ord(letter):04x}" if letter.isascii() else json.dumps(letter)[1:-1]
