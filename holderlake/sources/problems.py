"""Errors in a file of rows: ``BadSource`` for the file, or a list of its invalid rows with their reasons."""

from __future__ import annotations

import json
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Final

import pyarrow as pa
import pyarrow.compute as pc

from holderlake.engine.errors import BadSource

_NOT_IMPORTED: Final = "so the file was not imported; --rejected FILE writes them to a file and imports the rest"


def bad_source(path: Path, reason: str, **places: str | int | None) -> BadSource:
    """Return a ``BadSource`` with the file, the reason and the given places in it: ``page``, ``row``, ``line`` (from 1)
    and ``column``."""
    place = [f"{kind} {places[kind]}" for kind in ("page", "row", "line", "column") if places.get(kind) is not None]
    location = f"{path.name}, {', '.join(place)}" if place else path.name
    return BadSource(f"{location}: {reason}")


@dataclass
class Problems:
    """Invalid rows of a table.

    ``reasons`` has an array for each column with invalid values. The array has the reason for each invalid row, and
    null for the other rows.
    """

    reasons: dict[str, pa.Array] = field(default_factory=dict)
    wrong_checksums: int = 0
    """Number of distinct EVM addresses with a wrong checksum, summed over the columns. Their rows are valid."""

    def add(self, column: str, reasons: pa.Array) -> None:
        """Record the reasons for which values of a column are invalid. ``reasons`` is null in rows with a valid value.

        A row for which this column already has a reason keeps it.
        """
        earlier = self.reasons.get(column)
        self.reasons[column] = reasons if earlier is None else pc.coalesce(earlier, reasons)

    def bad_rows(self, rows: int) -> pa.Array:
        """Return a mask of the invalid rows. ``rows`` is the number of rows of the table."""
        is_bad = pa.repeat(False, rows)
        for reasons in self.reasons.values():
            is_bad = pc.or_(is_bad, pc.is_valid(reasons))
        return is_bad

    def of_row(self, row: int) -> tuple[str, str]:
        """Return the name of the first invalid column of a row, and the reason. ``row`` is a position, from 0."""
        return next((column, texts[row].as_py()) for column, texts in self.reasons.items() if texts[row].is_valid)


@dataclass(frozen=True)
class RejectedRow:
    """An invalid row of a file. ``number`` is its number in the file (from 1).

    ``column`` is the first invalid column, ``reason`` the problem, and ``values`` has all values of the row by column.
    """

    number: int
    column: str
    reason: str
    values: dict[str, Any]


@dataclass(frozen=True)
class Rejected:
    """The invalid rows of a file. ``of_rows`` is the number of all rows of the file."""

    path: Path
    rows: tuple[RejectedRow, ...]
    of_rows: int

    def error(self, effect: str = _NOT_IMPORTED) -> BadSource:
        """Return the error for a file that is not imported. It has the first invalid row, and the number of invalid
        rows."""
        first_row = self.rows[0]
        count = f"{len(self.rows):,} of {self.of_rows:,} rows cannot be read, {effect}"
        return bad_source(self.path, f"{first_row.reason} ({count})", column=first_row.column, row=first_row.number)

    def lines(self) -> Iterator[str]:
        """Yield a line of JSON for each invalid row: its values, and its file, row, column and reason."""
        for row in self.rows:
            place = {"file": self.path.name, "row": row.number, "column": row.column, "reason": row.reason}
            yield json.dumps(row.values | {f"rejected_{name}": value for name, value in place.items()}) + "\n"
