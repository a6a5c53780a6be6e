"""Decoded rows of a large partition on disk, so that memory does not grow with its number of tokens."""

from __future__ import annotations

import tempfile
from collections.abc import Mapping
from pathlib import Path

import pyarrow as pa


def spilled(folder: Path, tables: Mapping[str, pa.Table]) -> dict[str, pa.Table]:
    """Write tables to temporary files in ``folder``, and return the same tables, which read these files.

    The files have no names: the system deletes them when the tables are deleted, or after a kill.
    """
    return {name: _spilled(folder, rows) for name, rows in tables.items()}


def _spilled(folder: Path, rows: pa.Table) -> pa.Table:
    with tempfile.TemporaryFile(dir=folder) as file:
        with pa.ipc.new_file(file, rows.schema) as writer:
            writer.write_table(rows)
        file.flush()
        with pa.memory_map(f"/dev/fd/{file.fileno()}") as mapped:
            return pa.ipc.open_file(mapped).read_all()
