"""Iceberg tables: their catalogue, schemas and partitions, and the data files of a snapshot."""

from __future__ import annotations

import os
import sqlite3
from collections.abc import Iterator, Mapping
from contextlib import closing
from pathlib import Path
from typing import Final

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
from holderlake.lake.manifests import TableFile
from holderlake.storage.sqlite import use_write_ahead_log

NAMESPACE: Final = "holderlake"
_CATALOG: Final = "catalog.sqlite"
_MICROSECONDS: Final = 1_000_000
_BUSY_SECONDS: Final = 30.0

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
