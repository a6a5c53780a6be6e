"""The Iceberg tables of a lake: planned from its partitions, published, compared and cleaned up."""

from __future__ import annotations

import hashlib
import io
import os
import sqlite3
from collections import defaultdict
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, closing, suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Final
from uuid import uuid4

import pyarrow as pa
import pyarrow.parquet as pq
from pyiceberg.catalog import Catalog, load_catalog
from pyiceberg.exceptions import CommitFailedException
from pyiceberg.io.pyarrow import _pyarrow_to_schema_without_ids
from pyiceberg.manifest import DataFile
from pyiceberg.partitioning import PartitionField, PartitionSpec
from pyiceberg.schema import Schema, assign_fresh_schema_ids
from pyiceberg.table import Table
from pyiceberg.transforms import IdentityTransform, MonthTransform

from holderlake.core.contract.tables import TABLES
from holderlake.core.contract.times import utc_now
from holderlake.core.lake.lake import Lake
from holderlake.core.lake.manifests import NO_FILE, LakeError, Manifest
from holderlake.core.storage.locks import locked
from holderlake.core.storage.sqlite import use_write_ahead_log
from holderlake.scale.bucket.objects import in_threads
from holderlake.scale.bucket.storage import BucketStorage, object_name
from holderlake.scale.iceberg.data_files import FileEntries, Month, data_files, footer_of, month_of
from holderlake.scale.iceberg.lake_files import METADATA, BucketFiles, LakeFiles, LinkedFiles, file_address
from holderlake.scale.iceberg.snapshots import (
    NAMESPACE,
    PUBLICATION,
    Change,
    commit,
    delete_unused_files,
    is_tagged,
    last_publication,
    listed_files,
    loaded,
    publication_ids,
)
from holderlake.scale.settings import iceberg_folder

if TYPE_CHECKING:
    from holderlake.core.workspace import Workspace

_CATALOG: Final = "catalog.sqlite"
_BUSY_SECONDS: Final = 30.0
_ATTEMPTS: Final = 3
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
        iceberg_folder(settings),
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
        self._files: LakeFiles
        if isinstance(lake.storage, BucketStorage):
            self._files = BucketFiles(lake, lake.storage)
            self.root = f"{self._files.root}/{METADATA}"
            """Address of the folder with the tables' metadata and merged files. A REST catalogue chooses its own."""
        else:
            self._files = LinkedFiles(lake, self._folder / "files")
            self.root = file_address(self._folder / "tables")

    def publish(self, on_table: Callable[[str], None] = lambda _: None) -> Publication:
        """Bring the tables to the lake's partitions. ``on_table`` is called with the name of each finished table."""
        with self._locked(), closing(self.open_catalog()) as catalog:
            last_id = last_publication(catalog)
            publication = Publication(last_id)
            tables = {name: self.open_table(catalog, name) for name in TABLES}
            changes = self._changes(tables, publication)
            publication.added = {name: len(change.new_files) for name, change in changes.items()}
            publication.removed = {name: len(change.removed) for name, change in changes.items()}
            if not (publication.is_current and all(is_tagged(table, last_id) for table in tables.values())):
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
            comparison = Publication(last_publication(catalog))
            manifests = list(self._lake.manifests())
            for name in TABLES:
                table = loaded(catalog, name)
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
            last_id = last_publication(catalog)
            tables = {name: table for name in TABLES if (table := loaded(catalog, name))}
            if last_id is None or not tables:
                return 0
            complete_ids = sorted(set.intersection(*map(publication_ids, tables.values())))
            kept_ids = {*complete_ids[-(self._keep or 1) :], last_id}
            old_ids = {tag for table in tables.values() for tag in publication_ids(table) if tag < last_id} - kept_ids
            return sum(self._clean_table(name, table, old_ids, dry_run) for name, table in tables.items())

    def _clean_table(self, name: str, table: Table, old_ids: Collection[str], dry_run: bool) -> int:
        """Delete the publications ``old_ids`` of a table. Return the number of deleted files."""
        snapshots = {snapshot.snapshot_id: snapshot for snapshot in table.snapshots()}
        old_tags = publication_ids(table) & {*old_ids}
        kept_snapshots = {ref.snapshot_id for tag, ref in table.refs().items() if tag not in old_tags}
        old_snapshots = snapshots.keys() - kept_snapshots
        all_files = listed_files(table, snapshots.values())
        used_files = listed_files(table, [snapshots[number] for number in kept_snapshots])
        if not dry_run and old_tags:
            with table.manage_snapshots() as update:
                for tag in old_tags:
                    update.remove_tag(tag)
        if not dry_run and old_snapshots:
            table.maintenance.expire_snapshots().by_ids(list(old_snapshots)).commit()
        deleted = delete_unused_files(table, used_files, all_files - used_files, dry_run)
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
        table = loaded(catalog, name)
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

    def _changes(self, tables: Mapping[str, Table], publication: Publication) -> dict[str, Change]:
        """Return the change of each table. Months with unreadable partitions do not change in any table."""
        manifests: list[Manifest] = []
        held_months: set[Month] = set()

        def hold(manifest: Manifest) -> None:
            held_months.add(month_of(manifest))
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
            changes[name] = Change(
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
            family, chain, month = month_of(manifest)
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

        entries = FileEntries(table)

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
            return footer_of(table, address)
        try:
            rows = pa.concat_tables([self._files.rows(manifest, name) for manifest in partitions])
        except _UNREADABLE:
            return None
        rows = rows.sort_by([(rows.column_names[2], "ascending"), ("as_of", "ascending")])  # by subject, over time
        sink = io.BytesIO()
        pq.write_table(rows, sink, compression="zstd")
        with table.io.new_output(address).create(overwrite=True) as stream:
            stream.write(sink.getvalue())
        return footer_of(table, address)


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
