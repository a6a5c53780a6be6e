"""Publish the lake's committed partitions as snapshots of Iceberg tables.

A publication has an id. Each table that changed gets one snapshot whose summary has the id (``holderlake.commit``).
When all are written, the namespace's properties get the id and the snapshot of every table: readers of several tables
take these snapshots together. A publication that was killed leaves the properties as they were, and the next one
completes it.

Files are hard links to the lake's, under names with the commit of their partition: the lake replaces its files, and
snapshots must not change.
"""

from __future__ import annotations

import json
import os
import sqlite3
from collections.abc import Callable, Collection, Iterator, Mapping
from contextlib import closing
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Final
from urllib.parse import quote, unquote, urlsplit
from uuid import uuid4

from pyiceberg.catalog import Catalog, load_catalog
from pyiceberg.exceptions import NoSuchTableError
from pyiceberg.io.pyarrow import _pyarrow_to_schema_without_ids
from pyiceberg.manifest import DataFile, DataFileContent, FileFormat
from pyiceberg.partitioning import PartitionField, PartitionSpec
from pyiceberg.schema import Schema, assign_fresh_schema_ids
from pyiceberg.table import Table
from pyiceberg.transforms import IdentityTransform
from pyiceberg.typedef import Record

from holderlake.contract.tables import TABLES
from holderlake.contract.times import parse_partition, to_unix
from holderlake.lake.lake import Lake
from holderlake.lake.manifests import Manifest, TableFile
from holderlake.storage.locks import locked
from holderlake.storage.sqlite import use_write_ahead_log

if TYPE_CHECKING:
    from pyiceberg.catalog import Catalog
    from pyiceberg.table import Table

COMMIT: Final = "holderlake.commit"
SNAPSHOTS: Final = "holderlake.snapshots"
_FILES: Final = "files"
_ATTEMPTS: Final = 3


NAMESPACE: Final = "holderlake"
_CATALOG: Final = "catalog.sqlite"
_MICROSECONDS: Final = 1_000_000
_BUSY_SECONDS: Final = 30.0


@dataclass
class Publication:
    """Result of a publication, or of a comparison: files by table that are, or are to be, added and removed.

    ``commit`` is the id in the namespace's properties; None if nothing was ever published. ``unreadable`` are
    partitions whose files do not match their manifest; they stay as they were published.
    """

    commit: str | None
    added: dict[str, int] = field(default_factory=dict)
    removed: dict[str, int] = field(default_factory=dict)
    unreadable: list[str] = field(default_factory=list)

    @property
    def is_current(self) -> bool:
        """True if nothing was, or is, to be changed."""
        return not (any(self.added.values()) or any(self.removed.values()))


def publish(
    lake: Lake, folder: Path, address: str | None, on_table: Callable[[str], None] = lambda _: None
) -> Publication:
    """Bring the tables of the catalogue ``address`` to the lake's partitions. Links and metadata are below ``folder``.

    ``on_table`` is called with the name of each finished table. Raises ``OSError``, and the errors of pyiceberg.
    """
    folder.mkdir(parents=True, exist_ok=True)
    with locked(folder / ".publish.lock"), closing(open_catalog(folder, address)) as catalog:
        properties = catalog.load_namespace_properties(NAMESPACE)
        publication, new_commit = Publication(properties.get(COMMIT)), uuid4().hex
        snapshots: dict[str, int | None] = {}
        linked_files, kept_partitions = _linked(lake, folder, publication)
        for name in TABLES:
            table = open_table(catalog, name)
            _publish_table(table, name, linked_files[name], kept_partitions, new_commit, publication)
            snapshots[name] = _present(table)
            on_table(name)
        if properties.get(SNAPSHOTS) != json.dumps(snapshots):
            publication.commit = new_commit
            catalog.update_namespace_properties(
                NAMESPACE, updates={COMMIT: new_commit, SNAPSHOTS: json.dumps(snapshots)}
            )
        return publication


def _publish_table(
    table: Table,
    name: str,
    linked_files: Mapping[str, Manifest],
    kept_partitions: Collection[str],
    new_commit: str,
    publication: Publication,
) -> None:
    """Write a snapshot of one table that has the files in ``linked_files`` (manifests by address), if it differs.

    Published files of ``kept_partitions`` stay.
    """
    present = data_files(table)
    new_files = {
        path: data_file(path, manifest.tables[name], manifest.chain, manifest.timestamp)
        for path, manifest in linked_files.items()
        if path not in present
    }
    removed = {
        path: file
        for path, file in present.items()
        if path not in linked_files and _partition(path) not in kept_partitions
    }
    if new_files or removed:
        commit(table, new_files, removed, {COMMIT: new_commit})
    publication.added[name], publication.removed[name] = len(new_files), len(removed)


def compare(lake: Lake, folder: Path, address: str | None) -> Publication:
    """Return what ``publish`` would add and remove. Nothing is written, but for an empty catalogue."""
    with closing(open_catalog(folder, address)) as catalog:
        properties = catalog.load_namespace_properties(NAMESPACE)
        publication = Publication(properties.get(COMMIT))
        published = json.loads(properties.get(SNAPSHOTS, "{}"))
        lake_files = _empty()
        for manifest in lake.manifests():
            for name, path in _paths(folder, manifest).items():
                lake_files[name][path] = manifest
        for name in TABLES:
            present = data_files(open_table(catalog, name)).keys() if published.get(name) is not None else set()
            publication.added[name] = len(lake_files[name].keys() - present)
            publication.removed[name] = len(present - lake_files[name].keys())
    return publication


def snapshots_of(catalog: Catalog) -> dict[str, int | None]:
    """Return the snapshot of every table in the last complete publication; empty if there is none."""
    snapshots: dict[str, int | None] = json.loads(catalog.load_namespace_properties(NAMESPACE).get(SNAPSHOTS, "{}"))
    return snapshots


LinkedFiles = dict[str, dict[str, Manifest]]
"""The manifests of files, by table and by address of the file."""


def _linked(lake: Lake, folder: Path, publication: Publication) -> tuple[LinkedFiles, set[str]]:
    """Link the files of all partitions. Return the linked files, and the partitions that cannot be linked.

    All files of a partition are of one manifest, also if the lake replaces the partition meanwhile.
    """
    (folder / _FILES).mkdir(exist_ok=True)
    linked_files, kept_partitions = _empty(), set()
    for manifest in lake.manifests():
        current: Manifest | None = manifest
        for _ in range(_ATTEMPTS):
            if current is None or _is_linked(lake, folder, current):
                break
            current = lake.manifest(manifest.family, manifest.chain, manifest.as_of)
        else:
            publication.unreadable.append(f"{manifest.family} of {manifest.chain} at {manifest.timestamp}")
            kept_partitions.add(_partition(_file_name(manifest)))
            continue
        if current is not None:
            for name, path in _paths(folder, current).items():
                linked_files[name][path] = current
    return linked_files, kept_partitions


def _is_linked(lake: Lake, folder: Path, manifest: Manifest) -> bool:
    """Link the files of a partition to their addresses. False if a file does not match the manifest."""
    paths = {name: _path_of(address) for name, address in _paths(folder, manifest).items()}
    lacking = [name for name, path in paths.items() if not path.exists()]
    if not lacking:
        return True
    links = lake.link_files(manifest, folder / _FILES, lacking)
    for name, link in (links or {}).items():
        paths[name].parent.mkdir(parents=True, exist_ok=True)
        link.rename(paths[name])
    return links is not None


def _empty() -> LinkedFiles:
    return {name: {} for name in TABLES}


def _paths(folder: Path, manifest: Manifest) -> dict[str, str]:
    """Return the addresses of a partition's files with rows, by table."""
    root = (folder / _FILES).resolve().as_uri()
    return {name: f"{root}/{name}/{_file_name(manifest)}" for name, file in manifest.tables.items() if file.rows}


def _file_name(manifest: Manifest) -> str:
    return f"chain={quote(manifest.chain, safe='')}/{manifest.timestamp}/{manifest.family}-{manifest.commit}.parquet"


def _partition(path: str) -> str:
    """Return the part of a file's address that names its partition and family."""
    return "/".join(path.rpartition("-")[0].split("/")[-3:])


def clean_up(folder: Path, address: str | None, dry_run: bool = False) -> int:
    """Drop all snapshots but those of the last complete publication, and the links that only they have.

    Returns the number of links; ``dry_run`` only counts them. A reader of an earlier snapshot then fails. Raises the
    errors of pyiceberg.
    """
    with locked(folder / ".publish.lock"), closing(open_catalog(folder, address)) as catalog:
        used: set[Path] = set()
        for name in snapshots_of(catalog):
            table = open_table(catalog, name)
            used |= {_path_of(path) for path in data_files(table)}
            old_snapshots = [
                snapshot.snapshot_id for snapshot in table.snapshots() if snapshot.snapshot_id != _present(table)
            ]
            if old_snapshots and not dry_run:
                table.maintenance.expire_snapshots().by_ids(old_snapshots).commit()
        unused = [path for path in (folder / _FILES).resolve().rglob("*.parquet") if path not in used]
        if not used:
            return 0
        for path in () if dry_run else unused:
            path.unlink(missing_ok=True)
        return len(unused)


def _present(table: Table) -> int | None:
    snapshot = table.current_snapshot()
    return snapshot.snapshot_id if snapshot else None


def _path_of(address: str) -> Path:
    return Path(unquote(urlsplit(address).path))


# One thread: those of pyiceberg 0.12 share the object that compares partitions, and then miss files to remove.
os.environ.setdefault("PYICEBERG_MAX_WORKERS", "1")


def open_catalog(folder: Path, address: str | None) -> Catalog:
    """Open the catalogue at ``address``, and make its namespace if it is missing.

    An address with ``http`` is a REST catalogue; another one is a database for SQLAlchemy, by default an SQLite file in
    ``folder``. New tables' metadata is written below ``folder``.
    """
    folder.mkdir(parents=True, exist_ok=True)
    folder = folder.resolve()
    if address is None:
        with closing(sqlite3.connect(folder / _CATALOG)) as database:
            use_write_ahead_log(database, _BUSY_SECONDS)
    uri = address or f"sqlite:///{folder / _CATALOG}"
    kind = "rest" if uri.startswith("http") else "sql"
    catalog = load_catalog(NAMESPACE, type=kind, uri=uri, warehouse=folder.as_uri())
    catalog.create_namespace_if_not_exists(NAMESPACE)
    return catalog


def open_table(catalog: Catalog, name: str) -> Table:
    """Return a table of the lake, made or brought to the present columns if necessary."""
    columns = _schema(name)
    try:
        table = catalog.load_table((NAMESPACE, name))
    except NoSuchTableError:
        schema = assign_fresh_schema_ids(columns)
        table = catalog.create_table(
            (NAMESPACE, name), schema, partition_spec=_partitions(schema), properties={"format-version": "2"}
        )
    if not set(columns.column_names) <= set(table.schema().column_names):
        with table.update_schema() as update:
            update.union_by_name(columns)
    mapping = table.schema().name_mapping.model_dump_json()
    if table.properties.get("schema.name-mapping.default") != mapping:
        with table.transaction() as transaction:
            transaction.set_properties({"schema.name-mapping.default": mapping})
    return table


def _schema(name: str) -> Schema:
    """Return a table's columns without field ids. Readers refuse a required column that a file lacks, as ``chain``."""
    columns = TABLES[name].schema.remove_metadata()
    place = columns.get_field_index("chain")
    return _pyarrow_to_schema_without_ids(columns.set(place, columns.field(place).with_nullable(nullable=True)))


def _partitions(schema: Schema) -> PartitionSpec:
    columns = ("chain", "as_of")
    return PartitionSpec(
        *(
            PartitionField(schema.find_field(name).field_id, 1_000 + place, IdentityTransform(), name)
            for place, name in enumerate(columns)
        )
    )


def data_file(path: str, file: TableFile, chain: str, timestamp: str) -> DataFile:
    """Return the entry of a file of the partition ``chain`` and ``timestamp``, from what the manifest says of it.

    Files lack the column ``chain``: readers take it from the partition, as the specification of Iceberg says.
    """
    return DataFile.from_args(
        content=DataFileContent.DATA,
        file_path=path,
        file_format=FileFormat.PARQUET,
        partition=Record(chain, to_unix(parse_partition(timestamp)) * _MICROSECONDS),
        record_count=file.rows,
        file_size_in_bytes=file.bytes,
        column_sizes={},
        value_counts={},
        null_value_counts={},
        nan_value_counts={},
        lower_bounds={},
        upper_bounds={},
        split_offsets=None,
        equality_ids=None,
        sort_order_id=None,
        spec_id=0,
    )


def data_files(table: Table) -> dict[str, DataFile]:
    """Return the files of a table's present snapshot by path."""
    return {file.file_path: file for file in _files(table)}


def _files(table: Table) -> Iterator[DataFile]:
    snapshot = table.current_snapshot()
    for manifest in snapshot.manifests(table.io) if snapshot else ():
        for entry in manifest.fetch_manifest_entry(table.io, discard_deleted=True):
            yield entry.data_file


def commit(
    table: Table, new_files: Mapping[str, DataFile], removed: Mapping[str, DataFile], summary: dict[str, str]
) -> None:
    """Write one snapshot that adds and removes files, with ``summary`` among its properties."""
    with table.transaction() as transaction:
        update = transaction.update_snapshot(snapshot_properties=summary)
        with update.overwrite() if removed else update.fast_append() as snapshot:
            for file in removed.values():
                snapshot.delete_data_file(file)
            for file in new_files.values():
                snapshot.append_data_file(file)
