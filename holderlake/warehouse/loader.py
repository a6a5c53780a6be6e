"""One load of the warehouse: the lake's partitions that it does not have yet, batch by batch, into an open DuckDB file.

Which file that is, and when readers see it, is ``warehouse``'s matter.
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
import numpy as np
import pyarrow as pa

from holderlake.contract.tables import INSTANT_TYPE, TABLES
from holderlake.contract.times import parse_partition, partition_text, utc_now
from holderlake.lake import manifests
from holderlake.lake.damage import damaged_files
from holderlake.lake.lake import SIDE_TABLES, Lake, Manifest
from holderlake.lake.manifests import NO_FILE, DamagedManifest
from holderlake.warehouse import schema

_BATCH_PARTITIONS: Final = 256
_BATCH_ROWS: Final = 500_000
"""So many rows are sorted at once, or looked through for duplicates, whatever is to be loaded."""
_MEMORY: Final = "128MB"
_MEMORY_OF_MORE: Final = "256MB"
"""What DuckDB may use to sort a batch; and a single partition of more rows, which it does on disk."""
_IN_A_ROW: Final = 4
"""A load that takes fewer instants of a month and chain than this lays a token's rows of that month apart."""
_DELETE: Final = """
DELETE FROM {table}
WHERE (chain, timestamp) IN (SELECT (chain, timestamp) FROM stale)
"""
_INSERT: Final = """
INSERT INTO {table} BY NAME
SELECT * RENAME (as_of AS timestamp) FROM read_parquet($files, hive_partitioning = false, union_by_name = true)
{sorting}
"""
_UNSORTED: Final = frozenset({"grouped_transfers"})
"""Many rows of a token and instant lie together as they come; sorting them doubles a load for 5 % of the bytes. As they
are not held in memory, many are taken at once: where one batch ends within a row group, the next one writes it anew."""
_KEY_HASHES: Final = "SELECT hash({key}) AS hash FROM read_parquet($files, hive_partitioning = false)"
_SHARED_KEYS: Final = """
SELECT chain, as_of, count(*) - count(DISTINCT hash({key})) AS rows
FROM read_parquet($files, hive_partitioning = false)
GROUP BY chain, as_of
HAVING rows > 0
"""
_MIXED: Final = """
INSERT INTO _mixed VALUES (?, ?)
ON CONFLICT DO UPDATE SET rows = rows + excluded.rows
"""
_FORGET: Final = """
DELETE FROM {table}
WHERE (family, chain, timestamp) IN (SELECT (family, chain, timestamp) FROM learnt)
"""
_REMEMBER: Final = {
    "_loaded": "SELECT family, chain, timestamp, manifest_sha, loaded_at FROM learnt",
    "partitions": "SELECT chain, timestamp, family, provider, written_at, row_count, failures FROM learnt",
    "coverage": "SELECT chain, timestamp, family, unnest(covered) FROM learnt",
}

Item = TypeVar("Item")
Partition = tuple[str, str, datetime]
"""Family, chain and instant."""


@dataclass(frozen=True)
class Pending:
    """A manifest that is not loaded yet, with the SHA-256 of its text."""

    manifest: Manifest
    sha: str

    @property
    def key(self) -> Partition:
        return (self.manifest.family, self.manifest.chain, self.manifest.as_of)


class Loading:
    """One load: what it took from the lake, and what it could not take."""

    def __init__(self, lake: Lake, known: Mapping[Partition, str], damaged: Sequence[str] = ()) -> None:
        self.lake = lake
        self.known = known
        self.taken: list[Pending] = []
        self.rows: Counter[str] = Counter()
        self.damaged = list(damaged)
        self.duplicates: list[str] = []

    def take_all(self, connection: duckdb.DuckDBPyConnection, held: Path, pending: Sequence[Pending]) -> None:
        """Puts the rows of partitions in place of those that the warehouse has of them; ``held`` is a folder for their
        files while that lasts."""
        for batch in _batches(pending):
            rows = sum(map(_rows_to_sort, batch))
            connection.execute(f"SET memory_limit = '{_MEMORY if rows <= _BATCH_ROWS else _MEMORY_OF_MORE}'")
            self._take(connection, held, batch)
        for table in SIDE_TABLES:
            self._take_side(connection, held, table)

    def _take(self, connection: duckdb.DuckDBPyConnection, held: Path, batch: Sequence[Pending]) -> None:
        files: dict[str, dict[Path, int]] = {}
        stale: dict[str, list[Pending]] = {}
        taken = []
        for one in batch:
            names = one.manifest.tables.keys() - set(SIDE_TABLES)
            found = self.lake.link_files(one.manifest, held, names)
            if found is None:
                self._note_damage(one.manifest)
                continue
            taken.append(one)
            for name in names:
                rows = one.manifest.tables[name].rows
                files.setdefault(name, {})[found[name]] = rows
                self.rows[name] += rows
                if one.key in self.known:
                    stale.setdefault(name, []).append(one)
        for name, rows_of in files.items():
            _delete(connection, name, stale.get(name, ()))
            for some in _bounded(rows_of):
                self._note_duplicates(connection, name, some)
            _insert(connection, name, [*rows_of])
        if len(taken) < _IN_A_ROW * len({(one.manifest.timestamp[:6], one.key[:2]) for one in taken}):
            for name, rows_of in files.items():
                connection.execute(_MIXED, [name, sum(rows_of.values())])
        _remember(connection, taken)
        self.taken += taken

    def _take_side(self, connection: duckdb.DuckDBPyConnection, held: Path, table: str) -> None:
        """A side table's rows of the partitions that were touched, of all families: a row may not tell whose it is."""
        partitions = dict.fromkeys((one.manifest.chain, one.manifest.as_of) for one in self.taken)
        manifests = [
            manifest
            for chain, as_of in partitions
            for manifest in self.lake.manifests(chain=chain, as_of=as_of)
            if manifest.tables.get(table, NO_FILE).rows
        ]
        found = [(manifest, self.lake.link_files(manifest, held, [table])) for manifest in manifests]
        for manifest, files in found:
            if files is None:
                self._note_damage(manifest)
        _delete(connection, table, self.taken)
        _insert(connection, table, [files[table] for _, files in found if files])
        self.rows[table] += sum(manifest.tables[table].rows for manifest, files in found if files)

    def _note_damage(self, manifest: Manifest) -> None:
        """Note the damaged files of a partition. One that was just written again is taken by the next load."""
        now = self.lake.manifest(manifest.family, manifest.chain, manifest.as_of)
        if now is None or now.commit == manifest.commit:
            self.damaged += map(str, damaged_files(self.lake, manifest, every_byte=True))

    def _note_duplicates(self, connection: duckdb.DuckDBPyConnection, table: str, files: Sequence[Path]) -> None:
        """Partitions are replaced whole, and a key holds chain and instant: unique here is unique in the warehouse."""
        key, named = ", ".join(TABLES[table].key), {"files": [str(path) for path in files]}
        hashes = np.sort(connection.sql(_KEY_HASHES.format(key=key), params=named).to_arrow_table()["hash"].to_numpy())
        if not (hashes[1:] == hashes[:-1]).any():  # as a rule; to look for them by partition takes many times as long
            return
        for chain, at, rows in connection.execute(_SHARED_KEYS.format(key=key), named).fetchall():
            self.duplicates.append(f"{table} of {chain} at {partition_text(at)}: {rows} rows too many for their key")


def _in_order(one: Pending) -> tuple[str, str, str]:
    """Partitions as rows lie: by month and chain."""
    return (one.manifest.timestamp[:6], one.manifest.chain, one.manifest.timestamp)


def pending_of(lake: Lake, loaded: Mapping[Partition, str]) -> tuple[list[Pending], list[str]]:
    """Return the manifests that the warehouse does not know, or knows with another text, in the order of their rows.

    The second list says which manifests are damaged.
    """
    pending, damaged = [], []
    for path in lake.manifest_paths():
        family, chain, timestamp = manifests.place_of(path)
        try:
            text = path.read_bytes()
            sha = hashlib.sha256(text).hexdigest()
            if loaded.get((family, chain, parse_partition(timestamp))) != sha:
                pending.append(Pending(manifests.parsed_manifest(text, path), sha))
        except FileNotFoundError:  # it was moved to the quarantine meanwhile
            continue
        except (ValueError, DamagedManifest) as error:
            damaged.append(str(error))
    return sorted(pending, key=_in_order), damaged


def _batches(pending: Sequence[Pending]) -> Iterator[list[Pending]]:
    """The partitions in groups of which few rows are sorted; one that has more of them stands alone."""
    for group in _bounded({place: _rows_to_sort(one) for place, one in enumerate(pending)}):
        for first in range(0, len(group), _BATCH_PARTITIONS):
            yield [pending[place] for place in group[first : first + _BATCH_PARTITIONS]]


def _rows_to_sort(one: Pending) -> int:
    return sum(table.rows for name, table in one.manifest.tables.items() if name not in _UNSORTED)


def _bounded(rows_of: Mapping[Item, int]) -> Iterator[list[Item]]:
    """The items in groups of so many rows at most; one of more rows stands alone."""
    group: list[Item] = []
    rows = 0
    for item, own in rows_of.items():
        if group and rows + own > _BATCH_ROWS:
            yield group
            group, rows = [], 0
        group.append(item)
        rows += own
    if group:
        yield group


def _delete(connection: duckdb.DuckDBPyConnection, table: str, partitions: Sequence[Pending]) -> None:
    if not partitions:
        return
    stale = pa.table(
        {
            "chain": pa.array([one.manifest.chain for one in partitions], pa.string()),
            "timestamp": pa.array([one.manifest.as_of for one in partitions], INSTANT_TYPE),
        }
    )
    with _registered(connection, "stale", stale):
        connection.execute(_DELETE.format(table=table))


def _insert(connection: duckdb.DuckDBPyConnection, table: str, files: Sequence[Path]) -> None:
    """Puts files into a table, and removes them."""
    if files:
        sorting = "" if table in _UNSORTED else f"ORDER BY {schema.order(TABLES[table], 'as_of')}"
        connection.execute(_INSERT.format(table=table, sorting=sorting), {"files": [str(path) for path in files]})
    for path in files:
        path.unlink()


def _remember(connection: duckdb.DuckDBPyConnection, taken: Sequence[Pending]) -> None:
    """Notes what the manifests tell: that they are loaded, and for whom they answered."""
    now = utc_now()
    told = [one.manifest for one in taken]
    learnt = pa.table(
        {
            "family": pa.array([one.family for one in told], pa.string()),
            "chain": pa.array([one.chain for one in told], pa.string()),
            "timestamp": pa.array([one.as_of for one in told], INSTANT_TYPE),
            "manifest_sha": pa.array([one.sha for one in taken], pa.string()),
            "loaded_at": pa.array([now] * len(told), INSTANT_TYPE),
            "provider": pa.array([one.provider for one in told], pa.string()),
            "written_at": pa.array([one.written_at for one in told], INSTANT_TYPE),
            "row_count": pa.array([one.rows for one in told], pa.int64()),
            "failures": pa.array([one.failures for one in told], pa.int64()),
            "covered": pa.array([sorted(one.covered) for one in told], pa.list_(pa.string())),
        }
    )
    with _registered(connection, "learnt", learnt):
        for table, rows in _REMEMBER.items():
            connection.execute(_FORGET.format(table=table))
            connection.execute(f"INSERT INTO {table} {rows}")


@contextmanager
def _registered(connection: duckdb.DuckDBPyConnection, name: str, rows: pa.Table) -> Iterator[None]:
    connection.register(name, rows)
    try:
        yield
    finally:
        connection.unregister(name)
