"""Convert a store of format 1, which has balances as arrays: write them as Parquet."""

from __future__ import annotations

from pathlib import Path

from holderlake.engine.catalog import catalog as catalogue
from holderlake.engine.catalog.changelog import EVERY_PAST, note_change
from holderlake.engine.files.disk_errors import disk_failures
from holderlake.engine.files.integrity import FileChecks
from holderlake.engine.importing.change import Change
from holderlake.engine.importing.paths import FOLDERS, ImportFolder
from holderlake.engine.store.store import DuckDB


def convert(root: Path, memory: int) -> None:
    """Give the store in ``root`` the present format, in one transaction. ``memory`` is the memory budget in bytes.

    A conversion that was killed is repeated. Raises ``DamagedFile`` if a file that it reads is damaged.
    """
    with disk_failures(root), ImportFolder(root).opened() as folder, catalogue.transaction(root) as catalog:
        catalog.execute("BEGIN IMMEDIATE")
        for name in FOLDERS:
            (root / name).mkdir(exist_ok=True)
        change = Change(folder, catalog, DuckDB(root, memory).cursor, FileChecks(root), memory)
        change.write_all_balances()
        catalogue.update_tables(catalog)
        change.record_files()
        note_change(catalog, EVERY_PAST)
