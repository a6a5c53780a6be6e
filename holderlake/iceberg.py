"""Publish the lake's committed partitions as snapshots of Iceberg tables.

A publication has an id. Each table that changed gets one snapshot, with the id in its summary, and every table gets a
tag of that name. When all tables have it, the namespace's property ``PUBLICATION`` gets the id: readers of several
tables take the snapshots of one tag. A publication that was killed does not change the property, and the next one
completes it.

The tables list the lake's own files. In a bucket a file never changes. In a folder the lake replaces its files, so the
tables list hard links, with the names that the files have in a bucket. Small files of past months may be merged into
new files next to a table's metadata.
"""

from __future__ import annotations

import hashlib
import io
import os
import re
import shutil
import sqlite3
from collections import defaultdict
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, closing, suppress
from dataclasses import dataclass, field, replace
from datetime import timedelta
from pathlib import Path
from typing import TYPE_CHECKING, Final, Protocol
from uuid import uuid4

import pyarrow as pa
import pyarrow.parquet as pq
from pyarrow.fs import FileSelector
from pyiceberg.catalog import Catalog, load_catalog
from pyiceberg.exceptions import CommitFailedException, NoSuchTableError
from pyiceberg.io.pyarrow import (
    MetricModeTypes,
    MetricsMode,
    PyArrowFileIO,
    _pyarrow_to_schema_without_ids,
    compute_statistics_plan,
    data_file_statistics_from_parquet_metadata,
    parquet_path_to_id_mapping,
)
from pyiceberg.manifest import DataFile, DataFileContent, FileFormat
from pyiceberg.partitioning import PartitionField, PartitionSpec
from pyiceberg.schema import Schema, assign_fresh_schema_ids
from pyiceberg.table import Table
from pyiceberg.table.update.snapshot import ManageSnapshots
from pyiceberg.transforms import IdentityTransform, MonthTransform
from pyiceberg.typedef import Record

from holderlake.contract.tables import TABLES
from holderlake.contract.times import utc_now
from holderlake.lake.bucket_storage import BucketStorage, object_name
from holderlake.lake.lake import Lake
from holderlake.lake.manifests import NO_FILE, DamagedFile, LakeError, Manifest
from holderlake.lake.rows import from_parquet
from holderlake.storage.locks import locked
from holderlake.storage.objects import in_threads
from holderlake.storage.sqlite import use_write_ahead_log

if TYPE_CHECKING:
    from pyiceberg.catalog import Catalog
    from pyiceberg.table import Snapshot, Table

    from holderlake.workspace import Workspace

NAMESPACE: Final = "holderlake"
PUBLICATION: Final = "holderlake.publication"
"""Property with the id of a publication: of the namespace the last complete one, of a snapshot the one that made it."""
_ID: Final = re.compile(r"\d{8}T\d{6}Z-\d{6}[0-9a-f]{4}")
"""Ids begin with the time to the microsecond, so a later publication has a greater one."""
_CATALOG: Final = "catalog.sqlite"
_METADATA: Final = "_iceberg"
"""The folder of a bucket with the tables' metadata and merged files."""
_BUSY_SECONDS: Final = 30.0
_ATTEMPTS: Final = 3
_ORPHAN_AGE: Final = timedelta(hours=1)
"""Age from which a file that no snapshot lists is deleted. A publication of another host may be about to list it."""
_PROPERTIES: Final = {
    "format-version": "2",
    "commit.retry.num-retries": "0",  # a retry after a commit of another host would list files twice
    "commit.manifest-merge.enabled": "true",
    "write.metadata.delete-after-commit.enabled": "true",
    "write.metadata.previous-versions-max": "10",
}
_UNREADABLE: Final = (FileNotFoundError, LakeError, pa.ArrowException)
"""Errors of a missing or damaged file. Others, such as a bucket that cannot be reached, end the publication."""

# One thread: those of pyiceberg 0.12 share the object that compares partitions, and then miss files to remove.
os.environ.setdefault("PYICEBERG_MAX_WORKERS", "1")

Month = tuple[str, str, int]
"""The partitions of a family and chain in one month, counted from January 1970."""


@dataclass
class Publication:
    """Result of a publication, or of a comparison: files by table that are, or are to be, added and removed.

    ``id`` is the id of the last complete publication; None if nothing was ever published. ``snapshots`` are the ids of
    its snapshots by table; a comparison has none. ``unreadable`` are partitions with a missing or damaged file; the
    last published files of their months stay listed.
    """

    id: str | None
    added: dict[str, int] = field(default_factory=dict)
    removed: dict[str, int] = field(default_factory=dict)
    unreadable: list[str] = field(default_factory=list)
    snapshots: dict[str, int] = field(default_factory=dict)

    @property
    def is_current(self) -> bool:
        """True if nothing was, or is, to be changed."""
        return not (any(self.added.values()) or any(self.removed.values()))


def tables_of(workspace: Workspace) -> IcebergTables:
    """Return the Iceberg tables of a workspace's lake, as the settings describe them."""
    settings = workspace.settings
    region = settings.lake.region or os.environ.get("AWS_REGION") or ("us-east-1" if settings.lake.endpoint else None)
    storage = {"s3.endpoint": settings.lake.endpoint, "s3.region": region}
    iceberg = settings.lake.iceberg
    return IcebergTables(
        workspace.lake,
        settings.iceberg_folder,
        iceberg.catalog,
        keep=iceberg.keep,
        compact_bytes=iceberg.compact_bytes,
        storage={name: text for name, text in storage.items() if text and not workspace.lake.is_local},
    )


class IcebergTables:
    """The Iceberg tables of a lake.

    - ``folder``: the folder of links, of the default catalogue and, if the lake is not in a bucket, of metadata.
    - ``address``: the address of the catalogue. With ``http`` it is a REST catalogue; another one is a database for
      SQLAlchemy, by default an SQLite file in ``folder``.
    - ``keep``: the number of publications to keep; None keeps all.
    - ``compact_bytes``: small files of past months are merged into files of at most this size; None merges nothing.
    - ``storage``: pyiceberg's properties of the bucket.

    Methods raise ``OSError``, ``LakeError`` and the errors of pyiceberg.
    """

    def __init__(
        self,
        lake: Lake,
        folder: Path,
        address: str | None = None,
        *,
        keep: int | None = None,
        compact_bytes: int | None = None,
        storage: Mapping[str, str] | None = None,
    ) -> None:
        self._lake = lake
        self._folder = folder.resolve()
        self._address = address
        self._keep = keep
        self._compact_bytes = compact_bytes
        self._storage = dict(storage or {})
        self._files: _Files
        if isinstance(lake.storage, BucketStorage):
            self._files = _Objects(lake, lake.storage)
            self.root = f"{self._files.root}/{_METADATA}"
            """Address of the folder with the tables' metadata and merged files. A REST catalogue chooses its own."""
        else:
            self._files = _Links(lake, self._folder / "files")
            self.root = _address(self._folder / "tables")

    def publish(self, on_table: Callable[[str], None] = lambda _: None) -> Publication:
        """Bring the tables to the lake's partitions. ``on_table`` is called with the name of each finished table."""
        with self._locked(), closing(self.open_catalog()) as catalog:
            last_id = _last_id(catalog)
            publication = Publication(last_id)
            tables = {name: self.open_table(catalog, name) for name in TABLES}
            changes = self._changes(tables, publication)
            publication.added = {name: len(change.new_files) for name, change in changes.items()}
            publication.removed = {name: len(change.removed) for name, change in changes.items()}
            if not (publication.is_current and all(_is_tagged(table, last_id) for table in tables.values())):
                publication.id = f"{utc_now():%Y%m%dT%H%M%SZ-%f}{uuid4().hex[:4]}"
                for name, table in tables.items():
                    self._files.note_listed(table, changes[name].new_files)
                    try:
                        commit(table, changes[name], publication.id)
                    except CommitFailedException:
                        raise LakeError(
                            f"the table {name} was changed by another program meanwhile, so this publication stopped; "
                            "repeat 'holderlake lake publish'"
                        ) from None
                    on_table(name)
                catalog.update_namespace_properties(NAMESPACE, updates={PUBLICATION: publication.id})
            publication.snapshots = {name: table.metadata.current_snapshot_id for name, table in tables.items()}
        if self._keep is not None and publication.id != last_id:
            self.clean_up()
        return publication

    def compare(self) -> Publication:
        """Return what ``publish`` would add and remove. Nothing is written, but for an empty catalogue."""
        with closing(self.open_catalog()) as catalog:
            comparison = Publication(_last_id(catalog))
            manifests = list(self._lake.manifests())
            for name in TABLES:
                table = _loaded(catalog, name)
                listed = data_files(table).keys() if table else set()
                planned = self._planned(name, manifests, table.location() if table else "").keys()
                comparison.added[name] = len(planned - listed)
                comparison.removed[name] = len(listed - planned)
        return comparison

    def clean_up(self, dry_run: bool = False) -> int:
        """Delete the publications but the last ``keep``, or but the last one, and the files that only they list.

        Return the number of files; ``dry_run`` only counts them. The lake's own files stay. A reader of a deleted
        publication then fails.
        """
        with self._locked(), closing(self.open_catalog()) as catalog:
            last_id = _last_id(catalog)
            tables = {name: table for name in TABLES if (table := _loaded(catalog, name))}
            if last_id is None or not tables:
                return 0
            complete_ids = sorted(set.intersection(*map(_ids, tables.values())))
            kept_ids = {*complete_ids[-(self._keep or 1) :], last_id}
            old_ids = {tag for table in tables.values() for tag in _ids(table) if tag < last_id} - kept_ids
            return sum(self._clean_table(name, table, old_ids, dry_run) for name, table in tables.items())

    def _clean_table(self, name: str, table: Table, old_ids: Collection[str], dry_run: bool) -> int:
        """Delete the publications ``old_ids`` of a table. Return the number of deleted files."""
        snapshots = {snapshot.snapshot_id: snapshot for snapshot in table.snapshots()}
        old_tags = _ids(table) & {*old_ids}
        kept_snapshots = {ref.snapshot_id for tag, ref in table.refs().items() if tag not in old_tags}
        old_snapshots = snapshots.keys() - kept_snapshots
        all_files = _listed_files(table, snapshots.values())
        used_files = _listed_files(table, [snapshots[number] for number in kept_snapshots])
        if not dry_run and old_tags:
            with table.manage_snapshots() as update:
                for tag in old_tags:
                    update.remove_tag(tag)
        if not dry_run and old_snapshots:
            table.maintenance.expire_snapshots().by_ids(list(old_snapshots)).commit()
        deleted = _delete_unused(table, used_files, all_files - used_files, dry_run)
        return deleted + self._files.delete_unused(name, table, used_files, dry_run)

    def open_catalog(self) -> Catalog:
        """Open the catalogue, and make its namespace if it is missing."""
        self._folder.mkdir(parents=True, exist_ok=True)
        if self._address is None:
            with closing(sqlite3.connect(self._folder / _CATALOG)) as database:
                use_write_ahead_log(database, _BUSY_SECONDS)
        uri = self._address or f"sqlite:///{self._folder / _CATALOG}"
        catalog = load_catalog(NAMESPACE, type="rest" if self._is_rest else "sql", uri=uri, **self._storage)
        catalog.create_namespace_if_not_exists(NAMESPACE)
        return catalog

    def open_table(self, catalog: Catalog, name: str) -> Table:
        """Return a table of the lake. It is made if it is missing or in another place, and gets the present columns."""
        columns = _schema(name)
        table = _loaded(catalog, name)
        if table and not self._is_rest and not table.location().startswith(f"{self.root}/"):
            catalog.drop_table((NAMESPACE, name))  # the lake was moved to a bucket, or out of it
            table = None
        if table is None:
            schema = assign_fresh_schema_ids(columns)
            location = None if self._is_rest else f"{self.root}/{name}-{uuid4().hex[:12]}"
            table = catalog.create_table(
                (NAMESPACE, name), schema, location, partition_spec=_partitions(schema), properties=_PROPERTIES
            )
        if not set(columns.column_names) <= set(table.schema().column_names):
            with table.update_schema() as update:
                update.union_by_name(columns)
        mapping = table.schema().name_mapping.model_dump_json()
        if table.properties.get("schema.name-mapping.default") != mapping:
            with table.transaction() as transaction:
                transaction.set_properties({"schema.name-mapping.default": mapping})
        return table

    @property
    def _is_rest(self) -> bool:
        return (self._address or "").startswith("http")

    def _locked(self) -> AbstractContextManager[None]:
        return locked(self._folder / ".publish.lock")

    def _changes(self, tables: Mapping[str, Table], publication: Publication) -> dict[str, _Change]:
        """Return the change of each table. Months with unreadable partitions do not change in any table."""
        manifests: list[Manifest] = []
        held_months: set[Month] = set()

        def hold(manifest: Manifest) -> None:
            held_months.add(_month(manifest))
            text = f"{manifest.family} of {manifest.chain} at {manifest.timestamp}"
            if text not in publication.unreadable:
                publication.unreadable.append(text)

        for manifest in self._lake.manifests():
            current_manifest = self._secured(manifest)
            manifests += [current_manifest] if current_manifest else []
            if current_manifest is None:
                hold(manifest)
        changes = {}
        for name, table in tables.items():
            listed = data_files(table)
            planned = self._planned(name, manifests, table.location())
            new_files = {}
            lacking = [(address, partitions) for address, partitions in planned.items() if address not in listed]
            for (address, partitions), file in zip(lacking, self._data_files(name, table, lacking), strict=True):
                if file is None:
                    for manifest in partitions:
                        hold(manifest)
                else:
                    new_files[address] = file
            changes[name] = _Change(
                new_files, {address: file for address, file in listed.items() if address not in planned}
            )
        return {name: change.without(name, held_months) for name, change in changes.items()}

    def _secured(self, manifest: Manifest) -> Manifest | None:
        """Return the manifest of a partition whose files will not change any more; None if a file is damaged.

        It is a later manifest if the lake replaces the partition meanwhile.
        """
        current_manifest: Manifest | None = manifest
        for _ in range(_ATTEMPTS):
            if current_manifest is None or self._files.secure(current_manifest):
                return current_manifest
            current_manifest = self._lake.manifest(manifest.family, manifest.chain, manifest.as_of)
        return None

    def _planned(self, name: str, manifests: Collection[Manifest], location: str) -> dict[str, tuple[Manifest, ...]]:
        """Return the partitions of each data file that the table ``name`` has to list, by the file's address.

        Merged files are below the table's ``location``.
        """
        months: dict[Month, list[Manifest]] = defaultdict(list)
        last_months: dict[tuple[str, str], int] = {}
        for manifest in manifests:
            family, chain, month = _month(manifest)
            last_months[family, chain] = max(month, last_months.get((family, chain), month))
            if manifest.tables.get(name, NO_FILE).rows:
                months[family, chain, month].append(manifest)
        planned = {}
        for (family, chain, month), partitions in months.items():
            limit = self._compact_bytes if month < last_months[family, chain] else None
            for group in _groups(name, partitions, limit):
                if len(group) == 1:
                    address = f"{self._files.root}/{object_name(group[0], name)}"
                else:
                    checksums = "".join(manifest.tables[name].sha256 for manifest in group)
                    digest = hashlib.sha256(checksums.encode()).hexdigest()[:24]
                    address = (
                        f"{location}/data/chain={chain}/month={group[0].timestamp[:6]}/part-{family}-{digest}.parquet"
                    )
                planned[address] = tuple(group)
        return planned

    def _data_files(
        self, name: str, table: Table, planned: Sequence[tuple[str, Sequence[Manifest]]]
    ) -> list[DataFile | None]:
        """Return the entries of data files, with their addresses and partitions; None for one that is unreadable."""

        entries = _Entries(table)

        def entry(address: str, partitions: Sequence[Manifest]) -> DataFile | None:
            manifest = partitions[0]
            if len(partitions) > 1:
                merged_file = self._merge(name, table, address, partitions)
                return merged_file and entries.entry(address, manifest, *merged_file)
            try:
                return entries.entry(address, manifest, self._files.footer(manifest, name), manifest.tables[name].bytes)
            except _UNREADABLE:
                return None

        single_files = [(address, partitions) for address, partitions in planned if len(partitions) == 1]
        single_entries = in_threads(lambda file: entry(*file), single_files)
        known_entries = {address: file for (address, _), file in zip(single_files, single_entries, strict=True)}
        return [
            known_entries[address] if len(partitions) == 1 else entry(address, partitions)
            for address, partitions in planned
        ]

    def _merge(
        self, name: str, table: Table, address: str, partitions: Sequence[Manifest]
    ) -> tuple[pq.FileMetaData, int] | None:
        """Write the rows of partitions as one file, unless it exists. Return its footer, and its size in bytes.

        Return None if a file of the partitions is unreadable.
        """
        with suppress(*_UNREADABLE):  # it is missing, or a killed publication wrote only a part of it
            return _footer(table, address)
        try:
            rows = pa.concat_tables([self._files.rows(manifest, name) for manifest in partitions])
        except _UNREADABLE:
            return None
        rows = rows.sort_by([(rows.column_names[2], "ascending"), ("as_of", "ascending")])  # by subject, over time
        sink = io.BytesIO()
        pq.write_table(rows, sink, compression="zstd")
        with table.io.new_output(address).create(overwrite=True) as stream:
            stream.write(sink.getvalue())
        return _footer(table, address)


@dataclass(frozen=True)
class _Change:
    """Data files to add to a table and to remove from it, by address."""

    new_files: dict[str, DataFile]
    removed: dict[str, DataFile]

    def without(self, name: str, months: Collection[Month]) -> _Change:
        """Return the change of the table ``name`` without the files of some months."""

        def outside(files: Mapping[str, DataFile]) -> dict[str, DataFile]:
            return {address: file for address, file in files.items() if _month_of(name, file) not in months}

        return _Change(outside(self.new_files), outside(self.removed))


class _Files(Protocol):
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


class _Links:
    """Hard links to the files of a lake in a folder."""

    def __init__(self, lake: Lake, folder: Path) -> None:
        self._lake = lake
        self._folder = folder
        self.root = _address(folder)

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
        unused_paths = [path for path in (self._folder / name).rglob("*.parquet") if _address(path) not in used_files]
        if not dry_run:
            shutil.rmtree(self._folder / ".new", ignore_errors=True)
            for path in unused_paths:
                path.unlink()
        return len(unused_paths)

    def _path(self, manifest: Manifest, table: str) -> Path:
        return self._folder / object_name(manifest, table)


class _Objects:
    """The objects of a lake in a bucket. They never change, and the lake does not sweep those that tables list."""

    def __init__(self, lake: Lake, store: BucketStorage) -> None:
        if store.name.startswith("az"):
            raise LakeError(
                f"{store.name} cannot be published: Iceberg's readers name the account of an Azure container, and "
                "lake.url does not; use a bucket of S3 or Google, or run 'holderlake lake pull' into a local home"
            )
        self._lake = lake
        self._store = store
        self.root = store.name.rstrip("/") if "://" in store.name else _address(Path(store.name).resolve())

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
            self._store.note_listed(str(table.metadata.table_uuid), self._names(used_files), _ORPHAN_AGE)
        return 0

    def _names(self, addresses: Iterable[str]) -> list[str]:
        """Return the names of the lake's objects among ``addresses``."""
        prefix, own_prefix = f"{self.root}/", f"{self.root}/{_METADATA}/"
        return [
            address.removeprefix(prefix)
            for address in addresses
            if address.startswith(prefix) and not address.startswith(own_prefix)
        ]


class _Entries:
    """Makes the entries of a table's data files from their Parquet footers."""

    def __init__(self, table: Table) -> None:
        self._columns = parquet_path_to_id_mapping(table.schema())
        self._plan = compute_statistics_plan(table.schema(), {})
        no_bounds = MetricsMode(MetricModeTypes.NONE)
        self._plan_without = {number: replace(column, mode=no_bounds) for number, column in self._plan.items()}
        self._spec_id = table.spec().spec_id

    def entry(self, address: str, manifest: Manifest, footer: pq.FileMetaData, size: int) -> DataFile:
        """Return the entry of a file of ``size`` bytes, with rows of a partition or of others of its chain and month.

        Bounds and counts of nulls are of the columns that the footer has statistics of. Files lack the column
        ``chain``: readers take it from the entry's partition, as the specification of Iceberg says.
        """
        plan = dict(self._plan)
        groups = [footer.row_group(number) for number in range(footer.num_row_groups)]
        for place in range(footer.num_columns):
            number = self._columns[groups[0].column(place).path_in_schema]
            if not all(group.column(place).is_stats_set for group in groups):
                plan[number] = self._plan_without[number]
        statistics = data_file_statistics_from_parquet_metadata(footer, plan, self._columns).to_serialized_dict()
        return DataFile.from_args(
            content=DataFileContent.DATA,
            file_path=address,
            file_format=FileFormat.PARQUET,
            partition=Record(manifest.chain, _month(manifest)[2]),
            file_size_in_bytes=size,
            equality_ids=None,
            sort_order_id=None,
            spec_id=self._spec_id,
            **statistics | {"value_counts": dict.fromkeys(statistics["column_sizes"], footer.num_rows)},
        )


def data_files(table: Table) -> dict[str, DataFile]:
    """Return the files of a table's present snapshot by address."""
    return {file.file_path: file for file in _files(table)}


def _files(table: Table) -> Iterator[DataFile]:
    snapshot = table.current_snapshot()
    for manifest in snapshot.manifests(table.io) if snapshot else ():
        for entry in manifest.fetch_manifest_entry(table.io, discard_deleted=True):
            yield entry.data_file


def commit(table: Table, change: _Change, publication: str) -> None:
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


def snapshot_of(table: Table, publication: str) -> int:
    """Return the id of a table's snapshot in a publication. Raises ``KeyError`` for an unknown one."""
    return int(table.refs()[publication].snapshot_id)


def _last_id(catalog: Catalog) -> str | None:
    """Return the id of the last complete publication; None if there is none."""
    publication: str | None = catalog.load_namespace_properties(NAMESPACE).get(PUBLICATION)
    return publication


def _ids(table: Table) -> set[str]:
    """Return the ids of the publications that a table has a tag of."""
    return {name for name in table.refs() if _ID.fullmatch(name)}


def _is_tagged(table: Table, publication: str | None) -> bool:
    """Return whether the present snapshot of a table has the tag of a publication."""
    snapshot = table.current_snapshot()
    ref = table.refs().get(publication or "")
    return bool(snapshot and ref and ref.snapshot_id == snapshot.snapshot_id)


def _loaded(catalog: Catalog, name: str) -> Table | None:
    try:
        return catalog.load_table((NAMESPACE, name))
    except NoSuchTableError:
        return None


def _listed_files(table: Table, snapshots: Iterable[Snapshot]) -> set[str]:
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


def _delete_unused(table: Table, used_files: Collection[str], old_files: Collection[str], dry_run: bool) -> int:
    """Delete a table's ``old_files``, and files that no snapshot ever listed, below its location. Return the number."""
    location = table.location()
    scheme, place, path = PyArrowFileIO.parse_location(location)
    storage = table.io.fs_by_scheme(scheme, place)
    newest = utc_now() - _ORPHAN_AGE
    unused_paths = []
    for info in storage.get_file_info(FileSelector(path, allow_not_found=True, recursive=True)):
        address = location.removesuffix(path) + info.path
        is_unused = info.extension in ("avro", "parquet") and address not in used_files
        if is_unused and (address in old_files or info.mtime.replace(tzinfo=None) < newest):
            unused_paths.append(info.path)
    for unused_path in () if dry_run else unused_paths:
        storage.delete_file(unused_path)
    return len(unused_paths)


def _footer(table: Table, address: str) -> tuple[pq.FileMetaData, int]:
    file = table.io.new_input(address)
    with file.open() as stream:
        return pq.read_metadata(stream), len(file)


def _groups(name: str, partitions: Collection[Manifest], limit: int | None) -> Iterator[list[Manifest]]:
    """Yield lists of partitions in order of time whose files of a table have at most ``limit`` bytes together."""
    group: list[Manifest] = []
    size = 0
    for manifest in sorted(partitions, key=lambda manifest: manifest.timestamp):
        size += manifest.tables[name].bytes
        if group and (limit is None or size > limit):
            yield group
            group, size = [], manifest.tables[name].bytes
        group.append(manifest)
    if group:
        yield group


def _month(manifest: Manifest) -> Month:
    year, month = int(manifest.timestamp[:4]), int(manifest.timestamp[4:6])
    return manifest.family, manifest.chain, (year - 1970) * 12 + month - 1


def _month_of(name: str, file: DataFile) -> Month:
    """Return the month of a data file of the table ``name``. Side tables have the family in the file's name."""
    family = TABLES[name].family or file.file_path.rpartition("/")[2].split("-")[1]
    return family, file.partition[0], file.partition[1]


def _address(path: Path) -> str:
    """Return the address of a local path. Iceberg's readers do not decode percent signs, so there are none."""
    return f"file://{path}"


def _schema(name: str) -> Schema:
    """Return a table's columns without field ids. Readers refuse a required column that a file lacks, as ``chain``."""
    columns = TABLES[name].schema.remove_metadata()
    place = columns.get_field_index("chain")
    return _pyarrow_to_schema_without_ids(columns.set(place, columns.field(place).with_nullable(nullable=True)))


def _partitions(schema: Schema) -> PartitionSpec:
    chain, as_of = schema.find_field("chain").field_id, schema.find_field("as_of").field_id
    return PartitionSpec(
        PartitionField(chain, 1_000, IdentityTransform(), "chain"),
        PartitionField(as_of, 1_001, MonthTransform(), "as_of_month"),
    )
