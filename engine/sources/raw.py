"""A file of rows on disk as an Arrow table, its columns as they stood; what a column means belongs to the layouts.

Parquet, JSON lines and CSV are told apart by content, gzip is undone, and whatever is wrong becomes a ``BadSource``
that names the file, the place and the way out.
"""

from __future__ import annotations

import codecs
import csv
import gzip
import io
import json
import zlib
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import BinaryIO, Final, cast

import pyarrow as pa
import pyarrow.csv
import pyarrow.parquet

from engine.errors import BadSource

_PARQUET_MAGIC: Final = b"PAR1"
_GZIP_MAGIC: Final = b"\x1f\x8b"
_BROKEN: Final = (OSError, EOFError, zlib.error, pa.ArrowException)


@dataclass(frozen=True)
class RawTable:
    """The rows of ``path``. Columns of CSV and JSON lines are all text, where a blank is an empty text (CSV) or null
    (JSON); Parquet columns are as stored."""

    path: Path
    table: pa.Table

    @property
    def columns(self) -> list[str]:
        return list(self.table.column_names)

    def first_of(self, *names: str) -> str | None:
        """The first of the names that is a column, else None."""
        return next((name for name in names if name in self.columns), None)

    def bad(self, reason: str, *, column: str | None = None, row: int | None = None) -> BadSource:
        """The error to raise; ``row`` counts from 0 here and from 1 in the message, header not counted."""
        return bad_source(self.path, reason, column=column, row=None if row is None else row + 1)


def bad_source(
    path: Path, reason: str, *, column: str | None = None, row: int | None = None, line: int | None = None
) -> BadSource:
    """A ``BadSource`` that names the file and, where given, the row (from 1), the line of the file and the column."""
    place = [f"row {row}"] if row is not None else []
    place += [f"line {line}"] if line is not None else []
    place += [f"column {column}"] if column is not None else []
    where = f"{path.name}, {', '.join(place)}" if place else path.name
    return BadSource(f"{where}: {reason}")


def read_raw(path: Path) -> RawTable:
    """The file's rows. Raises ``BadSource`` for a file that is missing, empty, cut short or of another kind."""
    if _is_parquet(path):
        return RawTable(path, _read_parquet(path))
    return RawTable(path, _read_json_lines(path) if _is_json_lines(path) else _read_csv(path))


def read_columns(path: Path) -> list[str]:
    """The names of the file's columns, without reading its rows. Raises ``BadSource`` as ``read_raw`` does."""
    if not _is_parquet(path):
        return _read_json_lines(path).column_names if _is_json_lines(path) else _csv_header(path)
    with _readable(path, "Parquet"):
        return list(pa.parquet.read_schema(path).names)


def read_text(path: Path) -> str:
    """The whole file as text, gzip undone. Raises ``BadSource`` where that can't be done."""
    _magic(path)
    with _readable(path, "text file"), _open_bytes(path) as stream:
        return stream.read().decode("utf-8-sig")


def _is_parquet(path: Path) -> bool:
    return _magic(path) == _PARQUET_MAGIC or path.suffix == ".parquet"


def _magic(path: Path) -> bytes:
    try:
        with path.open("rb") as file:
            magic = file.read(len(_PARQUET_MAGIC))
    except OSError as error:
        raise bad_source(path, f"can't be opened ({error.strerror}); check the path") from error
    if not magic:
        raise bad_source(path, "the file is empty; export it again")
    return magic


@contextmanager
def _readable(path: Path, kind: str) -> Iterator[None]:
    try:
        yield
    except UnicodeDecodeError as error:
        raise bad_source(path, f"not a {kind} in UTF-8 ({error.reason}); give Parquet or CSV") from error
    except (*_BROKEN, csv.Error) as error:
        raise bad_source(
            path, f"not a whole {kind} ({_first_line(error)}); it may be cut short or damaged: fetch it again"
        ) from error


def _first_line(error: BaseException) -> str:
    return (str(error).strip().splitlines() or [type(error).__name__])[0]


def _read_parquet(path: Path) -> pa.Table:
    # ParquetFile and not read_table, which would read "name=value" folders of the path as further columns
    with _readable(path, "Parquet file"), pa.parquet.ParquetFile(path) as file:
        return file.read()


@contextmanager
def _open_bytes(path: Path) -> Iterator[BinaryIO]:
    with path.open("rb") as file:
        if _magic(path)[:2] == _GZIP_MAGIC:
            with gzip.GzipFile(fileobj=file) as unpacked:
                yield cast(BinaryIO, unpacked)
        else:
            yield file


def _csv_header(path: Path) -> list[str]:
    with _readable(path, "CSV"), _open_bytes(path) as stream:
        text = io.TextIOWrapper(stream, "utf-8-sig", newline="")
        names = [name.strip() for name in next(csv.reader(text), [])]
    if not any(names):
        raise bad_source(path, "the file has no header and no rows; export it again")
    repeated = sorted({name for name in names if names.count(name) > 1})
    if repeated:
        raise bad_source(path, f"column {repeated[0]} stands there more than once; leave one of them")
    return names


def _is_json_lines(path: Path) -> bool:
    with _readable(path, "text file"), _open_bytes(path) as stream:
        return stream.read(4).removeprefix(codecs.BOM_UTF8).lstrip()[:1] == b"{"


def _read_json_lines(path: Path) -> pa.Table:
    """An object a line; all values as the text they stand there as, so that no number is rounded."""
    columns: dict[str, list[str | None]] = {}
    rows = 0
    with (
        _readable(path, "JSON lines file"),
        _open_bytes(path) as stream,
        io.TextIOWrapper(stream, "utf-8-sig") as lines,
    ):
        for line, text in enumerate(lines, start=1):
            if not text.strip():
                continue
            for name, value in _json_object(path, line, text).items():
                columns.setdefault(name, [None] * rows).append(value)
            rows += 1
            for values in columns.values():
                values.extend([None] * (rows - len(values)))
    return pa.table({name: pa.array(values, pa.string()) for name, values in columns.items()})


def _json_object(path: Path, line: int, text: str) -> dict[str, str | None]:
    try:
        found = json.loads(text, parse_int=str, parse_float=str)
    except (ValueError, RecursionError):
        raise bad_source(path, "not a whole JSON object; give one object a line", line=line) from None
    if not isinstance(found, dict):
        raise bad_source(path, "not a JSON object; give one object a line", line=line)
    for name, value in found.items():
        if isinstance(value, dict | list):
            raise bad_source(path, "a nested value can't be read; give one plain value", column=name, line=line)
    return {name: None if value is None else str(value) for name, value in found.items()}


def _read_csv(path: Path) -> pa.Table:
    names = _csv_header(path)
    with _readable(path, "CSV"), _open_bytes(path) as stream:
        return pa.csv.read_csv(
            stream,
            read_options=pa.csv.ReadOptions(column_names=names, skip_rows=1),
            # everything stays text: a guessed type would round amounts beyond 64 bits
            convert_options=pa.csv.ConvertOptions(column_types=dict.fromkeys(names, pa.string())),
        )
