"""Small files, and the transfers of a file without its invalid rows, for tests that expect none."""

from __future__ import annotations

import json
from collections.abc import Mapping
from pathlib import Path

import pyarrow as pa

from holderlake.sources.files.mapping import ColumnMap
from holderlake.sources.files.transfers import FileOptions, FileTransfers, transfers_of
from holderlake.sources.raw_rows import read_raw


def read_file(path: Path, options: FileOptions) -> FileTransfers:
    """Return the transfers of a file and its invalid rows."""
    return transfers_of(read_raw(path, options.rows_at), options)


def written(folder: Path, content: object, name: str = "file.json") -> Path:
    """Write a text, or another value as JSON, and return the path of the file."""
    path = folder / name
    path.write_text(content if isinstance(content, str) else json.dumps(content), encoding="utf-8")
    return path


def read_transfers(
    path: Path,
    format: str | None = None,
    chain: str | None = None,
    column_map: ColumnMap | None = None,
    block_times: Mapping[int, int] | None = None,
) -> pa.Table:
    """Return all transfers of a file. Raises ``BadSource`` for the first invalid row."""
    content = read_file(path, FileOptions(format, chain, column_map or ColumnMap(), block_times or {}))
    if content.rejected is not None:
        raise content.rejected.error()
    return content.transfers
