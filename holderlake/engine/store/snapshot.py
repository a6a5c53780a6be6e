"""A consistent copy of a store's catalogue, and the list of its files. It can be made while imports run."""

from __future__ import annotations

import shutil
from contextlib import closing
from pathlib import Path
from typing import NamedTuple

from holderlake.engine.catalog import catalog as catalogue
from holderlake.engine.catalog import catalog_copy
from holderlake.engine.files.disk_errors import sqlite_failures
from holderlake.engine.importing.paths import FOLDERS


class StoreSnapshot(NamedTuple):
    """A committed state of a store: the bytes of the catalogue, the bytes of its copy, and the list of files.

    The files are those that the catalogue lists, as paths within the store.
    """

    catalog: bytes
    copy: bytes
    files: list[str]

    def save_catalog(self, folder: Path) -> None:
        """Write the catalogue and its copy into a folder."""
        folder.mkdir(parents=True, exist_ok=True)
        (folder / catalog_copy.CATALOG).write_bytes(self.catalog)
        (folder / catalog_copy.COPY).write_bytes(self.copy)


def link_store(folder: Path, files: Path, catalog: Path) -> None:
    """Make the empty ``folder`` a store with a copy of the catalogue in the folder ``catalog``, and with links to the
    folders of the store's files in ``files``. A writer of this store writes its files there."""
    for name in FOLDERS:
        (folder / name).symlink_to((files / name).resolve())
    for name in (catalog_copy.CATALOG, catalog_copy.COPY):
        shutil.copyfile(catalog / name, folder / name)


def snapshot(root: Path) -> StoreSnapshot:
    """Return the committed state of the store in ``root``. Raises ``UnusableStore`` if the catalogue is damaged."""
    with closing(catalogue.connect(root)) as connection, sqlite_failures(root / catalog_copy.CATALOG):
        connection.execute("BEGIN")
        listed = [path for (path,) in connection.execute("SELECT path FROM listed")]
        image = catalog_copy.image_of(connection)
        connection.rollback()
    return StoreSnapshot(image.pages, catalog_copy.stored_copy(image), listed)
