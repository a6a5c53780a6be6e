"""Read a file of rows as an Arrow table with the columns of the file.

Parquet, JSON and CSV are recognised by their content; gzip and zstd are decompressed. A ``BadSource`` error names the
file and the row or line, and says how to correct it. ``json_rows`` reads JSON.
"""

from __future__ import annotations

import codecs
import csv
import gzip
import io
import json
import re
import zlib
from collections import Counter
from collections.abc import Collection, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from itertools import islice
from pathlib import Path
from typing import Any, BinaryIO, Final, cast

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.csv
import pyarrow.parquet

from holderlake.core.contract.chains.addresses import is_any_address, shown
from holderlake.core.contract.text import printable
from holderlake.engine.errors import BadSource
from holderlake.sources.envelopes import Pages
from holderlake.sources.formats import FORMATS_TABLE
from holderlake.sources.json_rows import read_json
from holderlake.sources.problems import Problems, Rejected, RejectedRow, bad_source

_PARQUET_MAGIC: Final = b"PAR1"
_GZIP_MAGIC: Final = b"\x1f\x8b"
_ZSTD_MAGIC: Final = b"\x28\xb5\x2f\xfd"
_FOREIGN: Final = {bytes.fromhex(begin): reason for begin, reason in FORMATS_TABLE["foreign"].items()}
_PROGRAMS: Final = {pattern.encode(): reason for pattern, reason in FORMATS_TABLE["programs"].values()}
_NUMBER: Final = re.compile(r"[\"']?-?[0-9][0-9.,eE+' _-]*[\"']?")
_DELIMITERS: Final = (",", ";", "\t", "|")
_MOST_UNPACKED: Final = 256 << 20
"""Bytes that each file may have unpacked. A file may have more, up to ``_MOST_RATIO`` times its packed size."""
_MOST_RATIO: Final = 200
_MOST_TEXT: Final = 32 << 20
"""Bytes of a file of labels or tokens, which is in memory as a whole."""
_ROWS_OF_BATCH: Final = 1_024
_BROKEN: Final = (OSError, EOFError, zlib.error, pa.ArrowException)


@dataclass(frozen=True)
class RawTable:
    """The rows of a file, and the problems found in them so far.

    All columns of CSV and JSON are text; a blank is an empty text (CSV) or null (JSON). Parquet columns have their
    stored types, and fields of structs have dotted names.
    """

    path: Path
    table: pa.Table
    problems: Problems = field(default_factory=Problems)
    numbers: pa.Array | None = None
    """The position of each row in the file, from 0; None if the table has all rows of the file."""
    passed_over: int = 0
    """Number of rows of the file that are not transfers and were left out."""
    partly_indexed: Mapping[str, int] = field(default_factory=dict)
    """Number of Transfer events with one indexed address, which can't be read, by token."""
    theirs: Mapping[str, str] = field(default_factory=dict)
    """The file's name of each column that was renamed, by our name. Messages name the file's column."""
    notices: tuple[str, ...] = ()
    """Sentences about the file that its reader must know."""
    is_evm: bool = False
    """True if only EVM chains have files of this kind. Addresses of unknown chains are then read as EVM addresses."""

    @property
    def columns(self) -> list[str]:
        return list(self.table.column_names)

    def first_of(self, *names: str) -> str | None:
        """Return the first of ``names`` that is a column of the file; None if none is."""
        return next((name for name in names if name in self.columns), None)

    def bad(self, reason: str, *, column: str | None = None, row: int | None = None) -> BadSource:
        """Return an error about the file. ``row`` is a position in the table, from 0.

        The message counts the rows of the file from 1, without the header.
        """
        number = None if row is None else self.number(row)
        return bad_source(self.path, reason, column=self.theirs.get(column or "", column), row=number)

    def number(self, row: int) -> int:
        """Return the number of a row in the file (from 1, without the header). ``row`` is a position in the table, from
        0."""
        return (row if self.numbers is None else int(self.numbers[row].as_py())) + 1

    def over(self, table: pa.Table) -> RawTable:
        """Return a copy of this object that has ``table`` as its rows. ``table`` has the same rows, and any columns."""
        return replace(self, table=table)


def read_raw(path: Path, rows_at: str | None = None) -> RawTable:
    """Return the rows of a file. ``rows_at`` is the dotted path to the rows of a JSON file, for example ``data.items``.

    Raises ``BadSource`` for a file that is missing, empty, incomplete or of another format.
    """
    if _magic(path) == _PARQUET_MAGIC or path.suffix == ".parquet":
        return RawTable(path, _read_parquet(path))
    if not _begin(path).startswith((b"{", b"[")):
        return _without_blank_rows(RawTable(path, _read_csv(path)))
    pages = Pages()
    with _readable(path, "JSON file"), _open_bytes(path) as stream, io.TextIOWrapper(stream, "utf-8-sig") as text:
        table = read_json(path, text, rows_at, pages)
    return RawTable(path, table, notices=tuple(pages.notices(path.name)))


def read_text(path: Path) -> str:
    """Return the decompressed file as text. Raises ``BadSource`` if it cannot be read, or is too long for the
    memory."""
    if _magic(path) == _PARQUET_MAGIC:
        raise bad_source(path, "this is a Parquet file, and text is read here; save it as CSV or JSON")
    with _readable(path, "text file"), _open_bytes(path) as stream:
        text = stream.read(_MOST_TEXT + 1)
        if len(text) > _MOST_TEXT:
            raise bad_source(
                path, f"the file has more than {_MOST_TEXT >> 20:,} MiB of text; split it into several files"
            )
        return text.decode("utf-8-sig")


def _magic(path: Path) -> bytes:
    try:
        if path.exists() and not (path.is_file() or path.is_dir()):
            raise bad_source(path, "this is a pipe or a device; save its content to a file, and import that")
        with path.open("rb") as file:
            magic = file.read(len(_PARQUET_MAGIC))
    except IsADirectoryError:
        raise bad_source(path, f"this is a folder; name its files, for example {path.name}/*.parquet") from None
    except OSError as error:
        is_pattern = any(letter in str(path) for letter in "*?[")
        remedy = "no file matches this pattern" if is_pattern else "check the path"
        raise bad_source(path, f"cannot be opened ({error.strerror}); {remedy}") from error
    if not magic:
        raise bad_source(path, "the file is empty; export it again")
    for begin, reason in _FOREIGN.items():
        if magic.startswith(begin):
            raise bad_source(path, reason)
    return magic


@contextmanager
def _readable(path: Path, kind: str) -> Iterator[None]:
    try:
        yield
    except UnicodeDecodeError as error:
        raise bad_source(path, f"not a {kind} in UTF-8 ({error.reason}); save it in UTF-8, or as Parquet") from error
    except (*_BROKEN, csv.Error) as error:
        reason = f"not a complete {kind} ({_first_line(error)}); it may be damaged: fetch the file again"
        raise bad_source(path, reason) from error


def _first_line(error: BaseException) -> str:
    return (str(error).strip().splitlines() or [type(error).__name__])[0]


def _read_parquet(path: Path) -> pa.Table:
    # read_table would turn "name=value" folders of the path into further columns
    with _readable(path, "Parquet file"), pa.parquet.ParquetFile(path) as file:
        table = _bounded_table(path, file)
        table.validate(full=True)  # a damaged file may have invalid text
        table = _flattened(table)
    _refuse_repeated(path, table.column_names)
    return table


def _bounded_table(path: Path, file: pa.parquet.ParquetFile) -> pa.Table:
    """Return the rows of a Parquet file. Raises ``BadSource`` if they are far larger than the file."""
    metadata = file.metadata
    groups = (metadata.row_group(number) for number in range(metadata.num_row_groups))
    pages = sum(group.column(number).total_uncompressed_size for group in groups for number in range(group.num_columns))
    _refuse_bomb(path, pages)
    size, batches = 0, []
    for batch in file.iter_batches(_ROWS_OF_BATCH):
        size += batch.nbytes
        _refuse_bomb(path, size)
        batches.append(batch)
    return pa.Table.from_batches(batches, file.schema_arrow)


def _refuse_bomb(path: Path, size: int) -> None:
    """Raise ``BadSource`` if the content of a file (``size`` bytes) is far larger than the file itself."""
    packed = path.stat().st_size
    if size > max(_MOST_UNPACKED, _MOST_RATIO * packed):
        raise bad_source(
            path,
            f"its {packed:,} bytes unpack to more than {_MOST_UNPACKED >> 20} MiB, {_MOST_RATIO} times as much; unpack "
            "it and check what it has",
        )


class _Unpacked(io.RawIOBase):
    """The bytes of a compressed file, as far as they are not far more than the file."""

    def __init__(self, path: Path, stream: Any) -> None:
        self._path, self._stream, self._size = path, stream, 0

    def readable(self) -> bool:
        return True

    def readinto(self, buffer: Any) -> int:
        piece = self._stream.read(len(buffer))
        self._size += len(piece)
        _refuse_bomb(self._path, self._size)
        buffer[: len(piece)] = piece
        return len(piece)


def _flattened(table: pa.Table) -> pa.Table:
    """Return the table with a column for each field of a struct, named ``column.field``."""
    while any(pa.types.is_struct(field.type) for field in table.schema):
        table = table.flatten()
    return table


@contextmanager
def _open_bytes(path: Path) -> Iterator[BinaryIO]:
    magic = _magic(path)
    if magic == _ZSTD_MAGIC:
        with pa.OSFile(str(path)) as file, pa.CompressedInputStream(file, "zstd") as unpacked:
            yield cast(BinaryIO, io.BufferedReader(_Unpacked(path, unpacked), 1 << 20))
        return
    with path.open("rb") as file:
        if magic[:2] == _GZIP_MAGIC:
            with gzip.GzipFile(fileobj=file) as unpacked:
                yield cast(BinaryIO, io.BufferedReader(_Unpacked(path, unpacked), 1 << 20))
        else:
            yield file


def _csv_header(path: Path) -> tuple[list[str], str]:
    """Return the column names and the delimiter of a CSV file. Of all delimiters, the one that gives the most columns
    is used."""
    with _readable(path, "CSV"), _open_bytes(path) as stream:
        text = io.TextIOWrapper(stream, "utf-8-sig", newline="")
        line = text.readline()
        if line.count('"') % 2:  # a name with a line break
            line += text.readline()
        delimiter = max(_DELIMITERS, key=lambda letter: len(next(csv.reader([line], delimiter=letter), [])))
        names = [name.strip() for name in next(csv.reader([line], delimiter=delimiter), [])]
    if not any(names):
        raise bad_source(path, "the file has no header and no rows; export it again")
    if len(names) == 1 and any(letter in names[0] for letter in _DELIMITERS):
        raise bad_source(
            path,
            f"each line is one value in quotation marks, also the header {shown(names[0])}; remove the quotation marks "
            "at the beginning and the end of the lines",
        )
    _refuse_data_as_header(path, names, delimiter)
    _refuse_repeated(path, names)
    return names, delimiter


def _refuse_data_as_header(path: Path, names: list[str], delimiter: str) -> None:
    """Raise ``BadSource`` if the first line has an address. It is a row, which would be lost as a header."""
    address = next((name for name in names if is_any_address(name)), None)
    if address is not None:
        kinds = ["address" if is_any_address(name) else "balance" if _NUMBER.fullmatch(name) else "" for name in names]
        header = [kind or f"column{place}" for place, kind in enumerate(kinds, start=1)]
        names = [f"{name}{place}" if header.count(name) > 1 else name for place, name in enumerate(header, start=1)]
        example = f", for example {delimiter.join(names)}" if len(names) > 1 else ""
        raise bad_source(
            path,
            f"the file has no header line, because its first line has the address {shown(address)}; add a first line "
            f"with the names of the columns{example}",
        )


def _refuse_repeated(path: Path, names: list[str]) -> None:
    repeated = sorted(name for name, count in Counter(names).items() if count > 1)
    if repeated:
        raise bad_source(
            path, f"column {repeated[0] or 'without a name'} occurs more than once; remove the repetitions"
        )


def _begin(path: Path) -> bytes:
    """Return the first bytes of a text file. Raises ``BadSource`` if it is a program or a web page."""
    with _readable(path, "text file"), _open_bytes(path) as stream:
        begin = stream.read(4096).removeprefix(codecs.BOM_UTF8).lstrip()
    for pattern, reason in _PROGRAMS.items():
        if re.match(pattern, begin, re.IGNORECASE):
            raise bad_source(path, reason)
    return begin


def _read_csv(path: Path) -> pa.Table:
    names, delimiter = _csv_header(path)
    with _readable(path, "CSV"), _open_bytes(path) as stream:
        return pa.csv.read_csv(
            stream,
            parse_options=pa.csv.ParseOptions(delimiter=delimiter),
            read_options=pa.csv.ReadOptions(column_names=names, skip_rows=1),
            # all columns are text, because a guessed type would round amounts beyond 64 bits
            convert_options=pa.csv.ConvertOptions(column_types=dict.fromkeys(names, pa.string())),
        )


def _without_blank_rows(raw: RawTable) -> RawTable:
    """Return the file without its rows of separators alone, which spreadsheets write below a table."""
    is_blank = pa.repeat(True, raw.table.num_rows)
    for column in raw.table.columns:
        if not pc.any(is_blank).as_py():
            return raw
        is_blank = pc.and_(is_blank, pc.equal(pc.utf8_trim_whitespace(column), "")).combine_chunks()
    places = pc.indices_nonzero(pc.invert(is_blank))
    return replace(raw, table=raw.table.take(places), numbers=places)


def listed(names: Collection[str]) -> str:
    """Return the names of columns as a text, which is short for a file of thousands of columns."""
    return ", ".join(printable(name)[:60] for name in islice(names, _MOST_LISTED)) + (
        f", … ({len(names):,} columns)" if len(names) > _MOST_LISTED else ""
    )


_MOST_LISTED: Final = 30


def rows_where(raw: RawTable, is_kept: pa.Array) -> RawTable:
    """Return the file with the rows for which the mask is true. The others count as passed over."""
    places = pc.indices_nonzero(is_kept)
    if len(places) == raw.table.num_rows:
        return raw
    numbers = places if raw.numbers is None else raw.numbers.take(places)
    passed_over = raw.passed_over + raw.table.num_rows - len(places)
    return replace(raw, table=raw.table.take(places), numbers=numbers, passed_over=passed_over)


def rejected_rows(raw: RawTable) -> Rejected | None:
    """Return the invalid rows of a file with their values and reasons, or None if all rows are valid."""
    if not raw.problems.reasons:
        return None
    places = pc.indices_nonzero(raw.problems.bad_rows(raw.table.num_rows)).to_pylist()
    found = ((place, *raw.problems.of_row(place)) for place in places)
    rows = (
        RejectedRow(
            raw.number(place),
            raw.theirs.get(column, column),
            reason,
            {name: _plain(raw.table[name][place].as_py()) for name in raw.columns},
        )
        for place, column, reason in found
    )
    return Rejected(raw.path, tuple(rows), raw.table.num_rows) if places else None


def nested_column(raw: RawTable) -> str | None:
    """Return the first column with JSON lists of objects, else the first one with lists that have exactly one address.

    If columns are named by addresses, return the name of the object that they belong to. Return None if there is none.
    """
    for name in raw.columns:
        parts = name.split(".")
        place = next((place for place, part in enumerate(parts) if is_any_address(part)), 0)
        if place:
            return ".".join(parts[:place])
    texts = {name: raw.table.column(name) for name in raw.columns if pa.types.is_string(raw.table.column(name).type)}
    for name, column in texts.items():
        if pc.any(pc.starts_with(column, "[{")).as_py():
            return name
    for name, column in texts.items():
        first_value = next((text for text in column.to_pylist() if text), "")
        if first_value.startswith("[") and _addresses_in(first_value) == 1:
            return name
    return None


def _addresses_in(text: str) -> int:
    """Return the number of addresses in the text of a JSON list; 0 for any other text."""
    try:
        cells = json.loads(text)
    except ValueError:
        return 0
    return sum(isinstance(cell, str) and is_any_address(cell) for cell in cells)


_PLAIN: Final = (str, int, float, bool, type(None))


def _plain(value: Any) -> Any:
    """Return a value that JSON writes without loss: bytes as hexadecimal text, integers and other types as text."""
    if isinstance(value, bytes):
        return f"0x{value.hex()}"
    if isinstance(value, bool) or not isinstance(value, int):
        return value if isinstance(value, _PLAIN) else str(value)
    return str(value)
