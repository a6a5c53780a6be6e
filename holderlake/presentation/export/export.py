"""Export a table, a view or a query of the warehouse to a file, in batches. The file appears when it is complete.

The file formats are in ``formats``.
"""

from __future__ import annotations

import difflib
import re
import tempfile
import time
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Final, Literal, get_args

import duckdb
import pyarrow as pa

from holderlake.core.storage.atomic_files import SPILL_LOCK, remove_leftovers, whole_file
from holderlake.core.storage.locks import locked
from holderlake.core.warehouse.connections import TEXT_TYPES, explained, one_read
from holderlake.core.warehouse.warehouse import Warehouse
from holderlake.presentation import console
from holderlake.presentation.export.formats import Arrow, Csv, Excel, Format, Parquet

FormatName = Literal["parquet", "csv", "arrow", "xlsx"]

_SPILL: Final = ".export-"
_BATCH_ROWS: Final = 32_768
_FORMATS: Final[Mapping[str, type[Format]]] = {"parquet": Parquet, "csv": Csv, "arrow": Arrow, "xlsx": Excel}
_SUFFIXES: Final[Mapping[str, FormatName]] = {
    ".parquet": "parquet",
    ".csv": "csv",
    ".csv.gz": "csv",
    ".arrow": "arrow",
    ".feather": "arrow",
    ".xlsx": "xlsx",
}
_NAME: Final = re.compile(r"[A-Za-z_]\w*")
_PLAIN: Final = re.compile(
    r"U?(TINY|SMALL|BIG|HUGE)?INT(EGER)?|FLOAT|DOUBLE|BOOLEAN|DATE|VARCHAR|DECIMAL\(\d+, ?\d+\)|TIMESTAMP[A-Z_ ]*"
)
_NESTED: Final = re.compile(r".*\[\d*\]|(STRUCT|MAP|UNION)\(.*", re.DOTALL)


@dataclass(frozen=True)
class Exported:
    """A file that was written. ``rows`` and ``columns`` are its numbers of rows and columns.

    ``bytes`` is its size, ``seconds`` the time that the export took. ``notes`` has the numbers of ``sheets``, of
    numbers that were stored ``as_text``, and of ``defused`` texts, as far as the format has them.
    """

    path: Path
    format: FormatName
    rows: int
    columns: int
    bytes: int
    seconds: float
    notes: Mapping[str, int]


def format_of(path: Path, explicit: FormatName | None) -> FormatName:
    """Return ``explicit`` if it is set, else the format that the path's suffix names.

    Raises ``ValueError`` if the suffix is unknown.
    """
    if explicit is not None:
        return explicit
    names = [name for suffix, name in _SUFFIXES.items() if path.name.lower().endswith(suffix)]
    if not names:
        raise ValueError(
            f"unknown file format of {path.name}; end the name with {', '.join(_SUFFIXES)}, or give --format "
            f"({', '.join(get_args(FormatName))})"
        )
    return names[0]


def export(
    warehouse: Warehouse,
    source: str,
    path: Path,
    format_name: FormatName,
    *,
    replace: bool = False,
    raw: bool = False,
) -> Exported:
    """Write a table, a view or the result of a query to a file. An existing file stays until the new one is complete.

    ``source`` is the name of a table or view, or one SELECT. With ``raw``, texts in CSV that look like formulas get no
    apostrophe in front. Raises ``ValueError`` if the file cannot be written, and ``WarehouseError`` if the query is
    invalid.
    """
    began = time.monotonic()
    if path.is_dir() or not path.parent.is_dir():
        missing = f"the folder {path.parent} does not exist: create it, or give another path"
        raise ValueError(f"{path} is a folder: give the path of a file" if path.is_dir() else missing)
    if path.exists() and not replace:
        raise ValueError(f"{path} exists already: use --force to replace it")
    with _limited(warehouse, path.parent) as connection, whole_file(path) as part:
        answer, total = _selected(connection, source)
        kind = _FORMATS[format_name]
        try:
            reader = _storable(answer, kind.tables).to_arrow_reader(_BATCH_ROWS)
            file = Csv(part, reader.schema, raw) if kind is Csv else kind(part, reader.schema)
            rows = _stream(reader, file, total)
        except duckdb.Error as error:
            raise explained(error) from error
        except OSError as error:
            raise ValueError(f"cannot write {path} ({error.strerror or error}): give another path") from error
    return Exported(
        path, format_name, rows, len(reader.schema), path.stat().st_size, time.monotonic() - began, file.notes
    )


def _stream(reader: pa.RecordBatchReader, file: Format, total: int | None) -> int:
    rows = 0
    with console.progress("exporting rows", total) as bar:
        try:
            for batch in reader:
                file.write(batch)
                rows += batch.num_rows
                bar.update(bar.task_ids[0], completed=rows)
        finally:
            file.close()
    return rows


def _selected(connection: duckdb.DuckDBPyConnection, source: str) -> tuple[duckdb.DuckDBPyRelation, int | None]:
    """Return the rows of a table, view or query, and an estimate of their number; None if it is unknown."""
    try:
        if _NAME.fullmatch(source.strip()):
            name = _existing_name(connection, source.strip())
            sizes = connection.execute(
                "SELECT estimated_size FROM duckdb_tables() WHERE schema_name = 'main' AND table_name = ?", [name]
            )
            total = next((size for (size,) in sizes.fetchall()), None)
            answer = connection.sql(f'FROM "{name}"')
        else:
            answer, total = connection.sql(one_read(connection, source)), None
    except duckdb.Error as error:
        raise explained(error) from error
    twice = sorted({name for name in answer.columns if answer.columns.count(name) > 1})
    if twice:
        raise ValueError(f"the query has two columns {twice[0]}; rename one with AS")
    return answer, total


def _existing_name(connection: duckdb.DuckDBPyConnection, name: str) -> str:
    names = [
        row[0]
        for row in connection.execute(
            "SELECT table_name FROM duckdb_tables() WHERE schema_name = 'main' AND NOT internal "
            "UNION ALL SELECT view_name FROM duckdb_views() WHERE schema_name = 'main' AND NOT internal"
        ).fetchall()
    ]
    if name not in names:
        near = difflib.get_close_matches(name, names, 1)
        advice = f"did you mean {near[0]}?" if near else "'holderlake tables' lists all; a query works too"
        raise ValueError(f"there is no table or view {name}; {advice}")
    return name


def _storable(answer: duckdb.DuckDBPyRelation, tables: bool) -> duckdb.DuckDBPyRelation:
    """Return the rows with every value that the file format cannot store converted to text. Nested values become JSON.

    ``tables`` is true if the format supports nested values (``Format.tables``).
    """
    columns = []
    for name, kind in zip(answer.columns, map(str, answer.types), strict=True):
        column = '"' + name.replace('"', '""') + '"'
        if kind not in TEXT_TYPES if tables else _PLAIN.fullmatch(kind):
            columns.append(column)
        else:
            text = f"to_json({column})" if _NESTED.fullmatch(kind) else column
            columns.append(f"CAST({text} AS VARCHAR) AS {column}")
    return answer.project(", ".join(columns))


@contextmanager
def _limited(warehouse: Warehouse, folder: Path) -> Iterator[duckdb.DuckDBPyConnection]:
    """Open a connection with a memory limit. Larger sorts use temporary files in ``folder``."""
    remove_leftovers(folder, _SPILL)
    with (
        tempfile.TemporaryDirectory(prefix=_SPILL, dir=folder) as spilled,
        locked(Path(spilled, SPILL_LOCK)),
        warehouse.connect({"memory_limit": warehouse.memory_limit, "temp_directory": spilled}) as connection,
    ):
        yield connection
