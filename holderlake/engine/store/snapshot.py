"""A consistent copy of a store's catalogue, and the list of its files. It can be made while imports run."""

from __future__ import annotations

from contextlib import closing
from pathlib import Path
from typing import NamedTuple

from holderlake.engine.catalog import catalog as catalogue
from holderlake.engine.catalog import catalog_copy
from holderlake.engine.files.disk_errors import sqlite_failures
from holderlake.engine.files.manifest import read_manifest


class StoreSnapshot(NamedTuple):
    """A committed state of a store: the bytes of the catalogue, the bytes of its copy, and the list of files.

    The files are those that the catalogue lists, as paths within the store.
    """

    catalog: bytes
    copy: bytes
    files: list[str]


def snapshot(root: Path) -> StoreSnapshot:
    """Return the committed state of the store in ``root``. Raises ``UnusableStore`` if the catalogue is damaged."""
    with closing(catalogue.connect(root)) as connection, sqlite_failures(root / catalog_copy.CATALOG):
        connection.execute("BEGIN")
        manifest = read_manifest(connection)
        image = catalog_copy.image_of(connection)
        connection.rollback()
    parts = [path for parts in manifest.parts.values() for part in parts for path in part.paths]
    runs = [f"arrays/{run.file}.run" for run in manifest.runs]
    volumes = [f"arrays/{volume.file}.volume" for volume in manifest.volumes]
    return StoreSnapshot(image.pages, catalog_copy.stored_copy(image), [*parts, *runs, *volumes])
