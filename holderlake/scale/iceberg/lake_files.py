"""The lake's files as Iceberg tables list them: hard links of a lake in a folder, or the objects of a bucket."""

from __future__ import annotations

import shutil
from collections.abc import Collection, Iterable
from datetime import timedelta
from pathlib import Path
from typing import Final, Protocol

import pyarrow as pa
import pyarrow.parquet as pq
from pyiceberg.table import Table

from holderlake.core.lake.lake import Lake
from holderlake.core.lake.manifests import DamagedFile, LakeError, Manifest
from holderlake.core.lake.rows import from_parquet
from holderlake.scale.bucket.storage import BucketStorage, object_name

METADATA: Final = "_iceberg"
"""The folder of a bucket with the tables' metadata and merged files."""
ORPHAN_AGE: Final = timedelta(hours=1)
"""Age from which a file that no snapshot lists is deleted. A publication of another host may be about to list it."""


def file_address(path: Path) -> str:
    """Return the address of a local path. Iceberg's readers do not decode percent signs, so there are none."""
    return f"file://{path}"


class LakeFiles(Protocol):
    """The lake's files as tables list them. ``root`` is the address of their folder."""

    root: str

    def secure(self, manifest: Manifest) -> bool:
        """Protect the files of a partition from changes. Return False if one does not match the manifest."""
        ...

    def footer(self, manifest: Manifest, table: str) -> pq.FileMetaData:
        """Return the Parquet footer of a table's file."""
        ...

    def rows(self, manifest: Manifest, table: str) -> pa.Table:
        """Return the rows of a table's file."""
        ...

    def note_listed(self, table: Table, addresses: Iterable[str]) -> None:
        """Keep the files at ``addresses`` until ``delete_unused``, because the table will list them."""
        ...

    def delete_unused(self, name: str, table: Table, used_files: Collection[str], dry_run: bool) -> int:
        """Delete the files that only the table ``name`` needed, and needs no more. Return their number."""
        ...


class LinkedFiles:
    """Hard links to the files of a lake in a folder."""

    def __init__(self, lake: Lake, folder: Path) -> None:
        self._lake = lake
        self._folder = folder
        self.root = file_address(folder)

    def secure(self, manifest: Manifest) -> bool:
        paths = {name: self._path(manifest, name) for name, file in manifest.tables.items() if file.rows}
        lacking = [name for name, path in paths.items() if not path.exists()]
        if not lacking:
            return True
        new_links = self._folder / ".new"
        new_links.mkdir(parents=True, exist_ok=True)
        links = self._lake.link_files(manifest, new_links, lacking)
        for name, link in (links or {}).items():
            paths[name].parent.mkdir(parents=True, exist_ok=True)
            link.rename(paths[name])
        return links is not None

    def footer(self, manifest: Manifest, table: str) -> pq.FileMetaData:
        return pq.read_metadata(self._path(manifest, table))

    def rows(self, manifest: Manifest, table: str) -> pa.Table:
        return from_parquet(table, self._path(manifest, table).read_bytes(), manifest.chain)

    def note_listed(self, table: Table, addresses: Iterable[str]) -> None:
        """Do nothing: links stay until they are deleted."""

    def delete_unused(self, name: str, table: Table, used_files: Collection[str], dry_run: bool) -> int:
        unused_paths = [
            path for path in (self._folder / name).rglob("*.parquet") if file_address(path) not in used_files
        ]
        if not dry_run:
            shutil.rmtree(self._folder / ".new", ignore_errors=True)
            for path in unused_paths:
                path.unlink()
        return len(unused_paths)

    def _path(self, manifest: Manifest, table: str) -> Path:
        return self._folder / object_name(manifest, table)


class BucketFiles:
    """The objects of a lake in a bucket. They never change, and the lake does not sweep those that tables list."""

    def __init__(self, lake: Lake, store: BucketStorage) -> None:
        if store.name.startswith("az"):
            raise LakeError(
                f"{store.name} cannot be published: Iceberg's readers name the account of an Azure container, and "
                "lake.url does not; use a bucket of S3 or Google, or run 'holderlake lake pull' into a local home"
            )
        self._lake = lake
        self._store = store
        self.root = store.name.rstrip("/") if "://" in store.name else file_address(Path(store.name).resolve())

    def secure(self, manifest: Manifest) -> bool:
        return True

    def footer(self, manifest: Manifest, table: str) -> pq.FileMetaData:
        return self._store.footer(manifest, table)

    def rows(self, manifest: Manifest, table: str) -> pa.Table:
        rows = self._lake.intact_rows(manifest, [table])
        if rows is None:
            raise DamagedFile(f"{self._store.location(manifest, table)} does not match its manifest")
        return rows[table]

    def note_listed(self, table: Table, addresses: Iterable[str]) -> None:
        names = self._names(addresses)
        if names:
            self._store.note_listed(str(table.metadata.table_uuid), names)

    def delete_unused(self, name: str, table: Table, used_files: Collection[str], dry_run: bool) -> int:
        if not dry_run:
            self._store.note_listed(str(table.metadata.table_uuid), self._names(used_files), ORPHAN_AGE)
        return 0

    def _names(self, addresses: Iterable[str]) -> list[str]:
        """Return the names of the lake's objects among ``addresses``."""
        prefix, own_prefix = f"{self.root}/", f"{self.root}/{METADATA}/"
        return [
            address.removeprefix(prefix)
            for address in addresses
            if address.startswith(prefix) and not address.startswith(own_prefix)
        ]
