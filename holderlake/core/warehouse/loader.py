"""One load of the warehouse: new and changed partitions of the lake, in batches, into an open DuckDB file.

Copying and publishing the file belongs in ``warehouse``.
"""

from __future__ import annotations

import hashlib
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from datetime import datetime
from pathlib import Path
from typing import Final, TypeVar

import duckdb
import pyarrow as pa

from holderlake.core.contract.tables import INSTANT_TYPE, TABLES
from holderlake.core.contract.times import parse_partition, utc_now
from holderlake.core.lake import manifests
from holderlake.core.lake.damage import damaged_files
from holderlake.core.lake.lake import SIDE_TABLES, Lake, Manifest
from holderlake.core.lake.manifests import NO_FILE, DamagedManifest
from holderlake.core.storage.layout import place_of
from holderlake.core.warehouse import schema

_BATCH_PARTITIONS: Final = 256
_BATCH_ROWS: Final = 500_000
"""Maximum rows to sort at once."""
_FEW_INSTANTS: Final = 4
"""Fewest instants of a month and chain in one load. Rows of a smaller load are out of order (``_internal.mixed``)."""
_DELETE: Final = """
DELETE FROM {table}
WHERE (chain, timestamp) IN (SELECT (chain, timestamp) FROM stale)
"""
_INSERT: Final = """
INSERT INTO {table} BY NAME
SELECT * RENAME (as_of AS timestamp)
FROM (
    SELECT COLUMNS(lambda name: name IN ({columns}))
    FROM ({files})
)
{sorting}
"""
"""Insert the rows of Parquet files. Columns that a file lacks are null; columns of a later version are left out."""
_UNSORTED: Final = frozenset({"grouped_transfers"})
"""Tables that are loaded without sorting. Their files already have the rows of a token and instant together.

Sorting would double the time of a load and save 5 % of the bytes. Without sorting, DuckDB need not keep the rows in
memory, so a batch may be large.
"""
_MIXED: Final = """
INSERT INTO _internal.mixed VALUES (?, ?)
ON CONFLICT DO UPDATE SET rows = rows + excluded.rows
"""
_DELETE_STATE: Final = """
DELETE FROM {table}
WHERE (family, chain, timestamp) IN (SELECT (family, chain, timestamp) FROM new)
"""
_INSERT_STATE: Final = {
    "_internal.loaded": "SELECT family, chain, timestamp, manifest_sha, loaded_at FROM new",
    "partitions": "SELECT chain, timestamp, family, provider, written_at, row_count, failures, store_change FROM new",
    "coverage": "SELECT chain, timestamp, family, unnest(covered), unnest(known_since) FROM new",
    "unanswered": "SELECT chain, timestamp, family, unnest(unanswered) FROM new",
}

Item = TypeVar("Item")
File = tuple[str, Path]
"""The chain of a Parquet file, and its path."""
PartitionKey = tuple[str, str, datetime]
"""A partition: its family, chain and instant (naive UTC)."""


@dataclass(frozen=True)
class Pending:
    """A manifest that is not loaded yet. ``sha`` is the SHA-256 of the manifest's file."""

    manifest: Manifest
    sha: str

    @property
    def key(self) -> PartitionKey:
        return (self.manifest.family, self.manifest.chain, self.manifest.as_of)


class Loading:
    """One load: its partitions, its numbers of rows by table, and messages about damaged files.

    ``before`` has the SHA-256 of each manifest that was loaded earlier, by partition.
    """

    def __init__(self, lake: Lake, known_partitions: Mapping[PartitionKey, str], damaged: Sequence[str] = ()) -> None:
        self.lake = lake
        self.known_partitions = known_partitions
        self.loaded: list[Pending] = []
        self.rows: Counter[str] = Counter()
        self.damaged = list(damaged)

    def load_all(self, connection: duckdb.DuckDBPyConnection, links: Path, pending: Sequence[Pending]) -> None:
        """Load the ``pending`` partitions in place of their older rows. ``links`` is an empty folder for hard links."""
        for batch in _batches(pending):
            self._load_batch(connection, links, batch)
        for table in SIDE_TABLES:
            self._load_side_table(connection, links, table)

    def _load_batch(self, connection: duckdb.DuckDBPyConnection, links: Path, batch: Sequence[Pending]) -> None:
        files: dict[str, dict[File, int]] = {}
        stale: dict[str, list[Pending]] = {}
        loaded = []
        self.lake.storage.prefetch(partition.manifest for partition in batch)
        for partition in batch:
            names = partition.manifest.tables.keys() - set(SIDE_TABLES)
            linked = self.lake.link_files(partition.manifest, links, names)
            if linked is None:
                self._note_damage(partition.manifest)
                continue
            loaded.append(partition)
            for name in names:
                rows = partition.manifest.tables[name].rows
                files.setdefault(name, {})[partition.manifest.chain, linked[name]] = rows
                self.rows[name] += rows
                if partition.key in self.known_partitions:
                    stale.setdefault(name, []).append(partition)
        for name, rows_of in files.items():
            _delete(connection, name, stale.get(name, ()))
            _insert(connection, name, [*rows_of])
        if len(loaded) < _FEW_INSTANTS * len(
            {(partition.manifest.timestamp[:6], partition.key[:2]) for partition in loaded}
        ):
            for name, rows_of in files.items():
                connection.execute(_MIXED, [name, sum(rows_of.values())])
        _insert_state(connection, loaded)
        self.loaded += loaded

    def _load_side_table(self, connection: duckdb.DuckDBPyConnection, links: Path, table: str) -> None:
        """Replace the rows of ``table`` (``failures`` or ``revisions``) at all instants of this load.

        A row does not name its family, so the rows of all families at these instants are replaced together.
        """
        partitions = dict.fromkeys((partition.manifest.chain, partition.manifest.as_of) for partition in self.loaded)
        of_instants = [
            manifest
            for chain, as_of in partitions
            for manifest in self.lake.manifests(chain=chain, as_of=as_of)
            if manifest.tables.get(table, NO_FILE).rows
        ]
        linked = [(manifest, self.lake.link_files(manifest, links, [table])) for manifest in of_instants]
        for manifest, files in linked:
            if files is None:
                self._note_damage(manifest)
        _delete(connection, table, self.loaded)
        _insert(connection, table, [(manifest.chain, files[table]) for manifest, files in linked if files])
        self.rows[table] += sum(manifest.tables[table].rows for manifest, files in linked if files)

    def _note_damage(self, manifest: Manifest) -> None:
        """Add messages about a partition's damaged files to ``damaged``.

        If the partition was written again since this load began, it is not damaged; the next load loads it.
        """
        now = self.lake.manifest(manifest.family, manifest.chain, manifest.as_of)
        if now is None or now.commit == manifest.commit:
            self.damaged += map(str, damaged_files(self.lake, manifest, every_byte=True))


def _in_order(partition: Pending) -> tuple[str, str, str]:
    """Return the sort key of a partition, for the order of the warehouse's rows: month, chain, instant."""
    return (partition.manifest.timestamp[:6], partition.manifest.chain, partition.manifest.timestamp)


def pending_of(lake: Lake, loaded: Mapping[PartitionKey, str]) -> tuple[list[Pending], list[str]]:
    """Return the manifests that are new or changed since the last load, and messages about damaged manifests.

    The manifests are sorted by month and chain. ``loaded`` has the SHA-256 of each loaded manifest by partition.
    """
    pending, damaged = [], []
    for path, text in lake.storage.texts():
        family, chain, timestamp = place_of(path)
        try:
            sha = hashlib.sha256(text).hexdigest()
            if loaded.get((family, chain, parse_partition(timestamp))) != sha:
                pending.append(Pending(manifests.parsed_manifest(text, path), sha))
        except (ValueError, DamagedManifest) as error:
            damaged.append(str(error))
    return sorted(pending, key=_in_order), damaged


def _batches(pending: Sequence[Pending]) -> Iterator[list[Pending]]:
    """Yield the partitions in batches of at most ``_BATCH_ROWS`` rows to sort. A larger partition is a batch alone."""
    for group in _bounded({place: _rows_to_sort(partition) for place, partition in enumerate(pending)}):
        for start in range(0, len(group), _BATCH_PARTITIONS):
            yield [pending[place] for place in group[start : start + _BATCH_PARTITIONS]]


def _rows_to_sort(partition: Pending) -> int:
    return sum(table.rows for name, table in partition.manifest.tables.items() if name not in _UNSORTED)


def _bounded(rows_of: Mapping[Item, int]) -> Iterator[list[Item]]:
    """Divide keys into lists whose numbers of rows add up to at most ``_BATCH_ROWS``. A larger key is a list alone.

    ``rows_of`` has the number of rows of each key.
    """
    group: list[Item] = []
    rows = 0
    for item, row_count in rows_of.items():
        if group and rows + row_count > _BATCH_ROWS:
            yield group
            group, rows = [], 0
        group.append(item)
        rows += row_count
    if group:
        yield group


def _delete(connection: duckdb.DuckDBPyConnection, table: str, partitions: Sequence[Pending]) -> None:
    if not partitions:
        return
    stale = pa.table(
        {
            "chain": pa.array([partition.manifest.chain for partition in partitions], pa.string()),
            "timestamp": pa.array([partition.manifest.as_of for partition in partitions], INSTANT_TYPE),
        }
    )
    with _registered(connection, "stale", stale):
        connection.execute(_DELETE.format(table=table))


def _insert(connection: duckdb.DuckDBPyConnection, table: str, files: Sequence[File]) -> None:
    """Insert the rows of Parquet files into a table, and delete the files, which are links."""
    if files:
        sorting = "" if table in _UNSORTED else f"ORDER BY {schema.order(TABLES[table], 'as_of')}"
        columns = ", ".join(map(schema.quoted, TABLES[table].schema.names))
        insert = _INSERT.format(table=table, columns=columns, files=schema.files_sql(files), sorting=sorting)
        connection.execute(insert)
    for _, path in files:
        path.unlink()


def _insert_state(connection: duckdb.DuckDBPyConnection, loaded: Sequence[Pending]) -> None:
    """Record loaded partitions in the tables ``_internal.loaded``, ``partitions``, ``coverage``, ``unanswered``."""
    now = utc_now()
    loaded_manifests = [partition.manifest for partition in loaded]
    state_rows = pa.table(
        {
            "family": pa.array([manifest.family for manifest in loaded_manifests], pa.string()),
            "chain": pa.array([manifest.chain for manifest in loaded_manifests], pa.string()),
            "timestamp": pa.array([manifest.as_of for manifest in loaded_manifests], INSTANT_TYPE),
            "manifest_sha": pa.array([partition.sha for partition in loaded], pa.string()),
            "loaded_at": pa.array([now] * len(loaded), INSTANT_TYPE),
            "provider": pa.array([manifest.provider for manifest in loaded_manifests], pa.string()),
            "written_at": pa.array([manifest.written_at for manifest in loaded_manifests], INSTANT_TYPE),
            "row_count": pa.array([manifest.rows for manifest in loaded_manifests], pa.int64()),
            "failures": pa.array([manifest.failures for manifest in loaded_manifests], pa.int64()),
            "store_change": pa.array([manifest.store_change for manifest in loaded_manifests], pa.int64()),
            "covered": pa.array([sorted(manifest.covered) for manifest in loaded_manifests], pa.list_(pa.string())),
            "unanswered": pa.array(
                [sorted(manifest.unanswered) for manifest in loaded_manifests], pa.list_(pa.string())
            ),
            "known_since": pa.array(
                [
                    [min(manifest.answers.get(subject, ()), default=None) for subject in sorted(manifest.covered)]
                    for manifest in loaded_manifests
                ],
                pa.list_(INSTANT_TYPE),
            ),
        }
    )
    with _registered(connection, "new", state_rows):
        for table, rows in _INSERT_STATE.items():
            connection.execute(_DELETE_STATE.format(table=table))
            connection.execute(f"INSERT INTO {table} {rows}")


@contextmanager
def _registered(connection: duckdb.DuckDBPyConnection, name: str, rows: pa.Table) -> Iterator[None]:
    connection.register(name, rows)
    try:
        yield
    finally:
        connection.unregister(name)
