"""Entries of a table's data files, made from their Parquet footers, and the months that they belong to."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace

import pyarrow.parquet as pq
from pyiceberg.io.pyarrow import (
    MetricModeTypes,
    MetricsMode,
    compute_statistics_plan,
    data_file_statistics_from_parquet_metadata,
    parquet_path_to_id_mapping,
)
from pyiceberg.manifest import DataFile, DataFileContent, FileFormat
from pyiceberg.table import Table
from pyiceberg.typedef import Record

from holderlake.core.contract.tables import TABLES
from holderlake.core.lake.manifests import Manifest

Month = tuple[str, str, int]
"""The partitions of a family and chain in one month, counted from January 1970."""


def month_of(manifest: Manifest) -> Month:
    """Return the month of a partition."""
    year, month = int(manifest.timestamp[:4]), int(manifest.timestamp[4:6])
    return manifest.family, manifest.chain, (year - 1970) * 12 + month - 1


def month_of_file(name: str, file: DataFile) -> Month:
    """Return the month of a data file of the table ``name``. Side tables have the family in the file's name."""
    family = TABLES[name].family or file.file_path.rpartition("/")[2].split("-")[1]
    return family, file.partition[0], file.partition[1]


def data_files(table: Table) -> dict[str, DataFile]:
    """Return the files of a table's present snapshot by address."""
    return {file.file_path: file for file in _data_files(table)}


def _data_files(table: Table) -> Iterator[DataFile]:
    snapshot = table.current_snapshot()
    for manifest in snapshot.manifests(table.io) if snapshot else ():
        for entry in manifest.fetch_manifest_entry(table.io, discard_deleted=True):
            yield entry.data_file


def footer_of(table: Table, address: str) -> tuple[pq.FileMetaData, int]:
    """Return the Parquet footer of a file of a table, and its size in bytes."""
    file = table.io.new_input(address)
    with file.open() as stream:
        return pq.read_metadata(stream), len(file)


class FileEntries:
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
            partition=Record(manifest.chain, month_of(manifest)[2]),
            file_size_in_bytes=size,
            equality_ids=None,
            sort_order_id=None,
            spec_id=self._spec_id,
            **statistics | {"value_counts": dict.fromkeys(statistics["column_sizes"], footer.num_rows)},
        )
