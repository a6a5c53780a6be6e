"""The entities among a token's holders, from the files that ``links`` wrote."""

from __future__ import annotations

import os
from collections import defaultdict
from collections.abc import Collection, Iterable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from datetime import datetime
from functools import lru_cache
from pathlib import Path
from typing import Any, BinaryIO, Final

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

from holderlake.analysis.entities.links import JOINS, LINKS, SEARCHES, AnyArray, connected

FOLDER: Final = "entities"
"""The folder of a store that has the files."""
_MAX_CACHED: Final = 8
"""Number of searches, and of files of links, that a process keeps in memory."""
_ORDER: Final = [("address", "ascending"), ("confidence", "descending"), ("kind", "ascending"), ("link", "ascending")]


@dataclass(frozen=True)
class Known:
    """The least confidence and the instant (UTC) of a search for entities. The instant is None without times."""

    confidence: float
    as_of: datetime | None


def search_at(folder: Path, at: datetime) -> Known | None:
    """Return the newest search as of an instant at or before ``at``, or else the first one. None if there was none."""
    if not (folder / SEARCHES).exists():
        return None
    searches = [Known(row["confidence"], row["as_of"]) for row in pq.read_table(folder / SEARCHES).to_pylist()]
    return next(
        (search for search in reversed(searches) if search.as_of is not None and search.as_of <= at), searches[0]
    )


@dataclass(frozen=True)
class OpenFile:
    """A file that is open for reading. Two are equal if they are the same version of the same file."""

    file: BinaryIO = field(compare=False)
    version: tuple[int, int, int, int]


@contextmanager
def _opened(path: Path) -> Iterator[OpenFile]:
    with path.open("rb") as file:
        status = os.fstat(file.fileno())
        yield OpenFile(file, (status.st_dev, status.st_ino, status.st_mtime_ns, status.st_size))


@dataclass(frozen=True)
class Joins:
    """The joins of one search. A wallet is a place in ``addresses``, which are sorted.

    ``wallets_a`` and ``wallets_b`` (int64) are the wallets of each join, ``confidence`` is its confidence. For each
    wallet, ``entity`` (int64) is the least wallet that joins of any confidence connect it to.
    """

    addresses: AnyArray
    wallets_a: AnyArray
    wallets_b: AnyArray
    confidence: AnyArray
    entity: AnyArray

    def around(self, wallets: AnyArray, confidence: float) -> tuple[AnyArray, AnyArray]:
        """Return the joins of at least a confidence in the entities of these wallets, as two arrays of wallets."""
        concerned = np.zeros(len(self.addresses), np.bool_)
        concerned[self.entity[wallets]] = True
        is_selected = concerned[self.entity[self.wallets_a]] & (self.confidence >= confidence)
        return self.wallets_a[is_selected], self.wallets_b[is_selected]


def entities_among(folder: Path, search: Known, addresses: Collection[str], confidence: float) -> list[list[str]]:
    """Return the groups of two addresses or more that joins of at least ``confidence`` connect, also over others.

    ``search`` is the search whose joins count. Within a group the order is that of ``addresses``, and groups are in the
    order of their first address.
    """
    with _opened(folder / JOINS) as opened:
        joins = _joins(opened, search.as_of)
    address_bytes = _bytes(addresses)
    places = np.searchsorted(joins.addresses, address_bytes)
    is_joined = places < np.searchsorted(joins.addresses, address_bytes, "right")
    values, roots = connected(*joins.around(places[is_joined], confidence))
    entity = dict(zip(joins.addresses[values].tolist(), roots.tolist(), strict=True))
    groups: dict[int, list[str]] = defaultdict(list)
    for address in addresses:
        if (root := entity.get(address.encode())) is not None:
            groups[root].append(address)
    return [group for group in groups.values() if len(group) > 1]


@lru_cache(_MAX_CACHED)
def _joins(opened: OpenFile, as_of: datetime | None) -> Joins:
    table = pq.read_table(opened.file, filters=_is_as_of(as_of))
    ends = pa.chunked_array([*table["address"].chunks, *table["other"].chunks], pa.string())
    coded = ends.combine_chunks().dictionary_encode()
    order = pc.sort_indices(coded.dictionary)
    wallets_a, wallets_b = np.split(np.argsort(order.to_numpy())[coded.indices.to_numpy()], 2)
    _, entity = connected(wallets_a, wallets_b)
    addresses = _bytes(coded.dictionary.take(order).to_pylist())
    return Joins(addresses, wallets_a, wallets_b, table["confidence"].to_numpy(), entity)


def links_of(folder: Path, search: Known, addresses: Collection[str], max_links: int) -> pa.Table:
    """Return the strongest links of each address that ``search`` found, at most ``max_links`` of each.

    The columns are those of ``links.LINKS``. Only row groups of the file that may have the addresses are read.
    """
    with _opened(folder / LINKS) as opened:
        groups = _row_groups(opened)
        parquet = pq.ParquetFile(opened.file, metadata=groups.metadata)
        rows = parquet.read_row_groups(groups.having(addresses, search.as_of))
    condition = pc.field("address").isin(pa.array(addresses, pa.string())) & _is_as_of(search.as_of)
    rows = rows.filter(condition).sort_by(_ORDER)
    _, first_rows, address = np.unique(rows["address"].to_numpy(), return_index=True, return_inverse=True)
    return rows.filter(pa.array(np.arange(rows.num_rows) - first_rows[address] < max_links))


@dataclass(frozen=True)
class RowGroups:
    """The row groups of a file of links: the least and the greatest address (bytes) of each, and its instant (UTC)."""

    metadata: pq.FileMetaData
    least: AnyArray
    greatest: AnyArray
    as_of: list[datetime | None]

    def having(self, addresses: Collection[str], as_of: datetime | None) -> list[int]:
        """Return the numbers of the row groups of an instant that may have some of the addresses."""
        sorted_addresses = np.sort(_bytes(addresses))
        may_have = np.searchsorted(sorted_addresses, self.least, "left") < np.searchsorted(
            sorted_addresses, self.greatest, "right"
        )
        return [number for number in np.flatnonzero(may_have).tolist() if self.as_of[number] == as_of]


@lru_cache(_MAX_CACHED)
def _row_groups(opened: OpenFile) -> RowGroups:
    metadata = pq.ParquetFile(opened.file).metadata
    column = {name: number for number, name in enumerate(metadata.schema.names)}
    groups = [metadata.row_group(number) for number in range(metadata.num_row_groups)]
    addresses = [group.column(column["address"]).statistics for group in groups]
    times = [group.column(column["as_of"]).statistics for group in groups]
    return RowGroups(
        metadata,
        _bytes([statistics.min for statistics in addresses]),
        _bytes([statistics.max for statistics in addresses]),
        [statistics.min if statistics.has_min_max else None for statistics in times],
    )


def _bytes(texts: Iterable[str]) -> AnyArray:
    return np.array([text.encode() for text in texts], np.bytes_)


def _is_as_of(as_of: datetime | None) -> pc.Expression:
    column = pc.field("as_of")
    return column.is_null() if as_of is None else column == pa.scalar(as_of, pa.timestamp("us"))


def plain(table: pa.Table) -> dict[str, list[dict[str, Any]]]:
    """Return links as plain data by address, with times in unix seconds."""
    seconds = {name: table[name].cast(pa.timestamp("s")).cast(pa.int64()) for name in ("first_time", "last_time")}
    for name, column in seconds.items():
        table = table.set_column(table.column_names.index(name), name, column)
    rows: dict[str, list[dict[str, Any]]] = defaultdict(list)
    for row in table.to_pylist():
        rows[row["address"]].append(row)
    return rows
