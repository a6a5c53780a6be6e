"""Parquet files next to the warehouse's file, from which it has some of its tables and views.

Most can be made again: tokens and labels of the store, and tables of other parts. Others are links to files of the
user's own store, which repairs them. While a linked file is damaged, no query reads any of them.
"""

from __future__ import annotations

from pathlib import Path
from typing import Final
from uuid import uuid4

import duckdb
import pyarrow.parquet as pq

from holderlake.core.contract.tables import Table
from holderlake.core.storage.parquet import parquet_fault
from holderlake.core.warehouse.connections import transfers_folder
from holderlake.core.warehouse.schema import LINKED_FILES, OWN_TABLE

REMEDY: Final = "'holderlake home rebuild --damaged' moves it away and makes it again"
OF_STORE: Final = "'holderlake store verify' names the store's own file and how to repair it"


def folder_of(warehouse: Path, table: str) -> Path:
    """Return the folder next to a warehouse's file with the Parquet files of a part's table."""
    return warehouse.with_name(table)


def table_versions(warehouse: Path) -> dict[str, str | None]:
    """Return, by name of a part's table, a text that changes with its files; None for a table without files."""
    files = {
        part.TABLE.name: sorted(folder_of(warehouse, part.TABLE.name).glob("*.parquet")) for part in OWN_TABLE.parts()
    }
    return {
        name: " ".join(f"{path.name} {path.stat().st_mtime_ns}" for path in paths) or None
        for name, paths in files.items()
    }


def refresh_table(connection: duckdb.DuckDBPyConnection, warehouse: Path, table: Table) -> None:
    """Replace the rows of a part's table by those of its files."""
    connection.execute(f"DELETE FROM {table.name}")
    for path in sorted(folder_of(warehouse, table.name).glob("*.parquet")):
        connection.register("kept", pq.read_table(path, schema=table.schema, page_checksum_verification=True))
        connection.execute(f"INSERT INTO {table.name} BY NAME SELECT * RENAME (as_of AS timestamp) FROM kept")
        connection.unregister("kept")


def _remedies(warehouse: Path) -> dict[Path, str]:
    """Return how a damaged file is repaired, by the folder of a part's table."""
    return {folder_of(warehouse, part.TABLE.name): part.REMEDY for part in OWN_TABLE.parts()}


def derived_files(warehouse: Path) -> list[Path]:
    """Return the Parquet files of the warehouse in the file ``warehouse``, without those that were moved away."""
    linked = (path for folder in _linked_folders(warehouse) for path in folder.rglob("*.parquet"))
    of_parts = (path for folder in _remedies(warehouse) for path in folder.glob("*.parquet"))
    return sorted([*linked, *of_parts])


def _linked_folders(warehouse: Path) -> list[Path]:
    return sorted(transfers_folder(warehouse).glob("[!.]*"))


def remedy(warehouse: Path, path: Path) -> str:
    """Return how a damaged derived file is repaired."""
    if path.parent in (remedies := _remedies(warehouse)):
        return remedies[path.parent]
    return OF_STORE if _is_of_store(path) else REMEDY


def _is_of_store(path: Path) -> bool:
    """Return whether a file is a link to a file of the store, or was left out because that file is damaged."""
    return not path.exists() or path.stat().st_nlink > 1


def damaged(warehouse: Path, *, every_byte: bool = True) -> dict[Path, str]:
    """Return the damaged derived files of a warehouse, with their faults."""
    faults = {
        path: fault
        for part in LINKED_FILES.parts()
        for folder in _linked_folders(warehouse)
        for path, fault in part.faults(folder, every_byte=every_byte).items()
    }
    for folder in _remedies(warehouse):
        for path in folder.glob("*.parquet"):
            if fault := parquet_fault(path, every_byte=every_byte):
                faults[path] = fault
    return faults


def set_aside(warehouse: Path) -> dict[Path, str]:
    """Move damaged derived files away. Return them, with a message about each.

    Of linked files the complete folder is moved, so that the next load makes it again.
    """
    messages, root = {}, transfers_folder(warehouse)
    for path, reason in damaged(warehouse).items():
        messages[path] = f"{path} is damaged ({reason}); {remedy(warehouse, path)}"
        if path.parent in _remedies(warehouse):
            path.rename(path.with_name(f"{path.name}.damaged-{uuid4().hex[:12]}"))
        elif (folder := root / path.relative_to(root).parts[0]).exists():
            folder.rename(root / f".damaged-{uuid4().hex[:12]}")
    return messages
