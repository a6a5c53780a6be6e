"""Snapshots and tags of a table: a publication is written, found and deleted by them."""

from __future__ import annotations

import re
from collections.abc import Collection, Iterable, Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

from pyarrow.fs import FileSelector
from pyiceberg.catalog import Catalog
from pyiceberg.exceptions import NoSuchTableError
from pyiceberg.io.pyarrow import PyArrowFileIO
from pyiceberg.manifest import DataFile
from pyiceberg.table import Table
from pyiceberg.table.update.snapshot import ManageSnapshots

from holderlake.core.contract.times import utc_now
from holderlake.scale.iceberg.data_files import Month, month_of_file
from holderlake.scale.iceberg.lake_files import ORPHAN_AGE

if TYPE_CHECKING:
    from pyiceberg.table import Snapshot


NAMESPACE: Final = "holderlake"
PUBLICATION: Final = "holderlake.publication"
"""Property with the id of a publication: of the namespace the last complete one, of a snapshot the one that made it."""
_ID: Final = re.compile(r"\d{8}T\d{6}Z-\d{6}[0-9a-f]{4}")
"""Ids begin with the time to the microsecond, so a later publication has a greater one."""


@dataclass(frozen=True)
class Change:
    """Data files to add to a table and to remove from it, by address."""

    new_files: dict[str, DataFile]
    removed: dict[str, DataFile]

    def without(self, name: str, months: Collection[Month]) -> Change:
        """Return the change of the table ``name`` without the files of some months."""

        def outside(files: Mapping[str, DataFile]) -> dict[str, DataFile]:
            return {address: file for address, file in files.items() if month_of_file(name, file) not in months}

        return Change(outside(self.new_files), outside(self.removed))


def commit(table: Table, change: Change, publication: str) -> None:
    """Write one snapshot that adds and removes files, if there are any, and tag the table's present snapshot.

    ``publication`` is the name of the tag.
    """
    present = table.current_snapshot()
    with table.transaction() as transaction:
        snapshot_id = present.snapshot_id if present else None
        if change.new_files or change.removed or snapshot_id is None:
            update = transaction.update_snapshot(snapshot_properties={PUBLICATION: publication})
            with update.overwrite() if change.removed else update.merge_append() as snapshot:
                for file in change.removed.values():
                    snapshot.delete_data_file(file)
                for file in change.new_files.values():
                    snapshot.append_data_file(file)
            snapshot_id = snapshot.snapshot_id
        with ManageSnapshots(transaction) as tags:
            tags.create_tag(snapshot_id, publication)


def last_publication(catalog: Catalog) -> str | None:
    """Return the id of the last complete publication; None if there is none."""
    publication: str | None = catalog.load_namespace_properties(NAMESPACE).get(PUBLICATION)
    return publication


def publication_ids(table: Table) -> set[str]:
    """Return the ids of the publications that a table has a tag of."""
    return {name for name in table.refs() if _ID.fullmatch(name)}


def is_tagged(table: Table, publication: str | None) -> bool:
    """Return whether the present snapshot of a table has the tag of a publication."""
    snapshot = table.current_snapshot()
    ref = table.refs().get(publication or "")
    return bool(snapshot and ref and ref.snapshot_id == snapshot.snapshot_id)


def loaded(catalog: Catalog, name: str) -> Table | None:
    """Return a table of the catalogue; None if it is missing."""
    try:
        return catalog.load_table((NAMESPACE, name))
    except NoSuchTableError:
        return None


def listed_files(table: Table, snapshots: Iterable[Snapshot]) -> set[str]:
    """Return the addresses of all files of snapshots: manifest lists, manifests and data files."""
    addresses: set[str] = set()
    for snapshot in snapshots:
        addresses.add(snapshot.manifest_list)
        for manifest in snapshot.manifests(table.io):
            if manifest.manifest_path not in addresses:
                addresses.add(manifest.manifest_path)
                entries = manifest.fetch_manifest_entry(table.io, discard_deleted=True)
                addresses.update(entry.data_file.file_path for entry in entries)
    return addresses


def delete_unused_files(table: Table, used_files: Collection[str], old_files: Collection[str], dry_run: bool) -> int:
    """Delete a table's ``old_files``, and files that no snapshot ever listed, below its location. Return the number."""
    location = table.location()
    scheme, place, path = PyArrowFileIO.parse_location(location)
    storage = table.io.fs_by_scheme(scheme, place)
    newest = utc_now() - ORPHAN_AGE
    unused_paths = []
    for info in storage.get_file_info(FileSelector(path, allow_not_found=True, recursive=True)):
        address = location.removesuffix(path) + info.path
        is_unused = info.extension in ("avro", "parquet") and address not in used_files
        if is_unused and (address in old_files or info.mtime.replace(tzinfo=None) < newest):
            unused_paths.append(info.path)
    for unused_path in () if dry_run else unused_paths:
        storage.delete_file(unused_path)
    return len(unused_paths)
