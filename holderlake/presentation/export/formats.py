"""The file formats of exports. Each format writes Arrow batches one by one, in constant memory.

The query, and the replacement of an existing file, are in ``export``.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable
from datetime import date, datetime
from decimal import Context, Decimal
from math import isfinite
from pathlib import Path
from typing import Any, Final

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.csv
import pyarrow.parquet as pq

EXCEL_ROWS: Final = 1_048_576
EXCEL_COLUMNS: Final = 16_384
EXCEL_TEXT: Final = 32_767
_EXACT: Final = Context(prec=80)
_EXACT_DIGITS: Final = 15
"""Maximum digits of a number that Excel stores exactly, because its numbers are 64-bit floats."""
_FIRST_EXCEL_DAY: Final = date(1900, 3, 1)
"""First day that is a date in Excel. Excel treats 1900 as a leap year, so earlier dates are off by one day."""
_FORMULA: Final = r"^[=+\-@\t\r\n\x{FF1D}\x{FF0B}\x{FF0D}\x{FF20}]"
"""Signs that begin a formula, including the full-width ones of East Asian text."""
_NUMBER: Final = r"^[+-]?[0-9]+([.][0-9]+)?$"


class Format(ABC):
    """A file that is being written. ``tables`` is True if the format supports nested values and all types."""

    tables = True

    @abstractmethod
    def __init__(self, path: Path, schema: pa.Schema) -> None: ...

    @abstractmethod
    def write(self, batch: pa.RecordBatch) -> None:
        """Append the rows of an Arrow batch to the file."""

    @abstractmethod
    def close(self) -> None:
        """Write the end of the file and close it."""

    @property
    def notes(self) -> dict[str, int]:
        """Numbers for messages to the user, by the keys of ``export._NOTES``: for example, how many texts changed."""
        return {}


class Parquet(Format):
    """Parquet, compressed with zstd; values are unchanged."""

    def __init__(self, path: Path, schema: pa.Schema) -> None:
        self._writer = pq.ParquetWriter(path, schema, compression="zstd")

    def write(self, batch: pa.RecordBatch) -> None:
        self._writer.write_batch(batch)

    def close(self) -> None:
        self._writer.close()


class Arrow(Format):
    """Arrow's IPC file (Feather), uncompressed, so that any reader can map it into memory."""

    def __init__(self, path: Path, schema: pa.Schema) -> None:
        self._sink = pa.OSFile(str(path), "wb")
        self._writer = pa.ipc.new_file(self._sink, schema)

    def write(self, batch: pa.RecordBatch) -> None:
        self._writer.write_batch(batch)

    def close(self) -> None:
        self._writer.close()
        self._sink.close()


class Csv(Format):
    """CSV in UTF-8 with a header. Text is quoted, null is empty, decimals are exact.

    A text that a spreadsheet would run as a formula gets an apostrophe in front, unless ``raw`` is set.
    """

    tables = False

    def __init__(self, path: Path, schema: pa.Schema, raw: bool = False) -> None:
        self._raw = raw
        self._defused = 0
        sink: Any = pa.CompressedOutputStream(str(path), "gzip") if path.suffix == ".gz" else pa.OSFile(str(path), "wb")
        self._sink = sink
        self._writer = pyarrow.csv.CSVWriter(sink, schema)

    def write(self, batch: pa.RecordBatch) -> None:
        self._writer.write_batch(batch if self._raw else self._harmless(batch))

    def close(self) -> None:
        self._writer.close()
        self._sink.close()

    @property
    def notes(self) -> dict[str, int]:
        return {"defused": self._defused}

    def _harmless(self, batch: pa.RecordBatch) -> pa.RecordBatch:
        columns = []
        for column in batch.columns:
            if not pa.types.is_string(column.type):
                columns.append(column)
                continue
            looks = pc.match_substring_regex(column, _FORMULA)
            is_formula = pc.fill_null(pc.and_(looks, pc.invert(pc.match_substring_regex(column, _NUMBER))), False)
            formula_count = pc.sum(is_formula).as_py() or 0
            self._defused += formula_count
            columns.append(
                pc.if_else(is_formula, pc.binary_join_element_wise("'", column, ""), column)
                if formula_count
                else column
            )
        return pa.RecordBatch.from_arrays(columns, schema=batch.schema)


class Excel(Format):
    """An Excel file with one sheet for each 1,048,575 rows. Text is never a formula or a link.

    Numbers of more than 15 digits are written as text, so that they stay exact. Times have milliseconds.
    """

    tables = False

    def __init__(self, path: Path, schema: pa.Schema) -> None:
        import xlsxwriter

        if len(schema) > EXCEL_COLUMNS:
            raise ValueError(
                f"the result has {len(schema):,} columns, and Excel holds {EXCEL_COLUMNS:,}: select fewer columns, or "
                "export to Parquet or CSV"
            )
        options = {
            "constant_memory": True,
            "tmpdir": str(path.parent),
            "strings_to_formulas": False,
            "strings_to_urls": False,
            "strings_to_numbers": False,
        }
        self._book = xlsxwriter.Workbook(str(path), options)
        self._names = schema.names
        self._bold = self._book.add_format({"bold": True})
        self._formats = [self._book.add_format({"num_format": _number_format(field.type)}) for field in schema]
        self._write = [self._writer_of(field.type) for field in schema]
        self._sheets = 0
        self._as_text = 0
        self._next_sheet()

    def write(self, batch: pa.RecordBatch) -> None:
        for row in zip(*(column.to_pylist() for column in batch.columns), strict=True):
            if self._row == EXCEL_ROWS:
                self._next_sheet()
            for place, value in enumerate(row):
                if value is not None:
                    self._write[place](self._row, place, value)
            self._row += 1

    def close(self) -> None:
        self._book.close()

    @property
    def notes(self) -> dict[str, int]:
        return {"sheets": self._sheets, "as_text": self._as_text}

    def _next_sheet(self) -> None:
        self._sheets += 1
        self._sheet = self._book.add_worksheet("rows" if self._sheets == 1 else f"rows {self._sheets}")
        self._sheet.freeze_panes(1, 0)
        for place, name in enumerate(self._names):
            self._sheet.set_column(place, place, max(12, min(44, len(name) + 2)))
            self._text(0, place, name, self._bold)
        self._row = 1

    def _writer_of(self, kind: pa.DataType) -> Callable[[int, int, Any], None]:
        if pa.types.is_boolean(kind):
            return self._boolean
        if pa.types.is_timestamp(kind) or pa.types.is_date(kind):
            return self._time
        if pa.types.is_integer(kind) or pa.types.is_decimal(kind) or pa.types.is_floating(kind):
            return self._number
        return self._text

    def _boolean(self, row: int, place: int, value: bool) -> None:
        self._sheet.write_boolean(row, place, value)

    def _number(self, row: int, place: int, value: Any) -> None:
        if isinstance(value, float):
            is_exact = isfinite(value)
        else:
            is_exact = len(Decimal(value).normalize(_EXACT).as_tuple().digits) <= _EXACT_DIGITS
        if is_exact:
            self._sheet.write_number(row, place, float(value), self._formats[place])
        else:
            self._as_text += 1
            self._text(row, place, f"{value.normalize(_EXACT):f}" if isinstance(value, Decimal) else str(value))

    def _time(self, row: int, place: int, value: date) -> None:
        day = value.date() if isinstance(value, datetime) else value
        if day < _FIRST_EXCEL_DAY:
            self._text(row, place, value.isoformat())
            return
        plain = value.replace(tzinfo=None) if isinstance(value, datetime) else value
        self._sheet.write_datetime(row, place, plain, self._formats[place])

    def _text(self, row: int, place: int, value: str, style: Any = None) -> None:
        if len(value) > EXCEL_TEXT:
            raise ValueError(
                f"a text of column {self._names[place]} has {len(value):,} characters, and Excel holds {EXCEL_TEXT:,} "
                "in a cell; export to Parquet, CSV or Arrow, or shorten it in the query"
            )
        self._sheet.write_string(row, place, value, style)


def _number_format(kind: pa.DataType) -> str:
    if pa.types.is_timestamp(kind):
        return "yyyy-mm-dd hh:mm:ss.000" if kind.unit != "s" else "yyyy-mm-dd hh:mm:ss"
    return "yyyy-mm-dd" if pa.types.is_date(kind) else "General"
