"""What is wrong with a file of rows: one error for the file, or the rows that cannot be read, each with its reason."""

from __future__ import annotations

import json
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc

from holderlake.engine.errors import BadSource


def bad_source(
    path: Path, reason: str, *, column: str | None = None, row: int | None = None, line: int | None = None
) -> BadSource:
    """A ``BadSource`` that names the file and, where given, the row (from 1), the line of the file and the column."""
    place = [f"row {row}"] if row is not None else []
    place += [f"line {line}"] if line is not None else []
    place += [f"column {column}"] if column is not None else []
    where = f"{path.name}, {', '.join(place)}" if place else path.name
    return BadSource(f"{where}: {reason}")


@dataclass
class Problems:
    """Rows of a table that cannot be read: for each column with such rows, each row's reason or null."""

    reasons: dict[str, pa.Array] = field(default_factory=dict)
    wrong_checksums: int = 0
    """Distinct values of columns that are EVM addresses with a wrong checksum. They are no problem by themselves."""

    def add(self, column: str, reasons: pa.Array) -> None:
        """Notes the reasons, a text for each bad row and null for the others. The first reason of a row counts."""
        earlier = self.reasons.get(column)
        self.reasons[column] = reasons if earlier is None else pc.coalesce(earlier, reasons)

    def bad_rows(self, rows: int) -> pa.Array:
        """Which of the rows cannot be read."""
        found = pa.repeat(False, rows)
        for reasons in self.reasons.values():
            found = pc.or_(found, pc.is_valid(reasons))
        return found

    def of_row(self, row: int) -> tuple[str, str]:
        """The first column that is wrong in a bad row, and why."""
        return next((column, texts[row].as_py()) for column, texts in self.reasons.items() if texts[row].is_valid)


@dataclass(frozen=True)
class RejectedRow:
    """A row that cannot be read: its number in the file (from 1), the column, the reason and its values."""

    number: int
    column: str
    reason: str
    values: dict[str, Any]


@dataclass(frozen=True)
class Rejected:
    """Rows of one file that cannot be read."""

    path: Path
    rows: tuple[RejectedRow, ...]
    of_rows: int
    """How many rows the file has."""

    def error(self) -> BadSource:
        """The error where nothing of the file is imported; it names the first row and counts them all."""
        first = self.rows[0]
        count = f"{len(self.rows):,} of {self.of_rows:,} rows cannot be read, so the file was not imported"
        remedy = "--rejected FILE writes them to a file and imports the rest"
        return bad_source(self.path, f"{first.reason} ({count}; {remedy})", column=first.column, row=first.number)

    def lines(self) -> Iterator[str]:
        """A JSON object a row: its own values, and the file, row, column and reason of its rejection."""
        for row in self.rows:
            place = {"file": self.path.name, "row": row.number, "column": row.column, "reason": row.reason}
            yield json.dumps(row.values | {f"rejected_{name}": value for name, value in place.items()}) + "\n"
