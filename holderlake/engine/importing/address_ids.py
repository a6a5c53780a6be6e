"""Numbers of addresses during an import: known addresses keep their numbers, new addresses get the next ones.

Few new addresses are kept in memory; many are written to a memory-mapped volume (a file). An import therefore needs
limited memory, however many addresses are new.
"""

from __future__ import annotations

import sqlite3
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Final

import numpy as np
import pyarrow as pa

from holderlake.engine.files.arrays import array_file, read_arrays
from holderlake.engine.files.dictionary import UNKNOWN, Dictionary, Volume, volume_of
from holderlake.engine.files.integrity import Sums
from holderlake.engine.files.listing import OpenFiles, VolumeFile
from holderlake.engine.importing.budget import Budget
from holderlake.engine.numeric.bigint import Array
from holderlake.engine.numeric.hashing import digests

_ADDRESS_BYTES: Final = 80
_MOST_VOLUMES: Final = 16
"""A search compares each volume."""


class AddressIds:
    """The dictionary of addresses during an import. ``volumes`` are those that the catalogue lists.

    ``new_name`` returns a new file name for a volume.
    """

    def __init__(
        self,
        volumes: Sequence[VolumeFile],
        opened: OpenFiles,
        sums: Sums,
        budget: Budget,
        new_name: Callable[[], str],
    ) -> None:
        self._opened = opened
        self._new_name = new_name
        self._chunk = budget.chunk
        self._address_limit = max(budget.memory // 32 // _ADDRESS_BYTES, 16)
        self._stored_volumes = list(volumes)
        self._stored_size = sum(volume.size for volume in volumes)
        self._spilled: list[VolumeFile] = []
        self._fresh: list[Volume] = []
        self._mapped = [opened.volume(volume, sums) for volume in volumes]

    @property
    def dictionary(self) -> Dictionary:
        """The dictionary of all known and new addresses."""
        return Dictionary([*self._mapped, *self._fresh])

    def had(self, texts: Sequence[str]) -> bool:
        """Return whether one of the addresses had a number before the import."""
        numbers = self.dictionary.find(texts)
        return bool(((numbers != UNKNOWN) & (numbers < self._stored_size)).any())

    def numbered(self, rows: pa.Table) -> pa.Table:
        """Return the rows with two more columns, ``sender`` and ``receiver``: the numbers of the two addresses."""
        ends = pa.concat_arrays([*rows["from_address"].chunks, *rows["to_address"].chunks, pa.array([], pa.string())])
        encoded = ends.dictionary_encode()
        numbers = self._number(encoded.dictionary).astype(np.int32)[encoded.indices.to_numpy()]
        senders, receivers = numbers[: rows.num_rows], numbers[rows.num_rows :]
        return rows.append_column("sender", pa.array(senders)).append_column("receiver", pa.array(receivers))

    def _number(self, texts: pa.Array) -> Array:
        """Return the numbers of distinct addresses. New addresses get the next numbers."""
        hashed, dictionary = digests(texts), self.dictionary
        numbers = dictionary.find_hashed(texts, hashed)
        new_places = np.flatnonzero(numbers == UNKNOWN)
        if len(new_places):
            numbers[new_places] = dictionary.size + np.arange(len(new_places))
            self._append(volume_of(dictionary.size, texts.take(pa.array(new_places)), hashed[new_places]))
        return numbers

    def _append(self, volume: Volume) -> None:
        """Add a volume in memory. Write all to a file if they are many, joined with this import's files of at most
        twice their size."""
        self._fresh.append(volume)
        if len(self._fresh) < _MOST_VOLUMES and sum(volume.size for volume in self._fresh) <= self._address_limit:
            return
        following, self._fresh = self._fresh, []
        while self._spilled and self._spilled[-1].size <= 2 * sum(volume.size for volume in following):
            following.insert(0, self._mapped.pop())
            self._opened.path(self._spilled.pop().file, "volume").unlink()  # no reader knows it
        self._spilled.append(self._write(following))
        path = self._opened.path(self._spilled[-1].file, "volume")
        self._mapped.append(Volume(following[0].first_number, **read_arrays(path)))

    def _write(self, volumes: Sequence[Volume]) -> VolumeFile:
        name = self._new_name()
        write_volume(self._opened.path(name, "volume"), volumes, self._chunk)
        return VolumeFile(name, volumes[0].first_number, sum(volume.size for volume in volumes))

    def save(self, catalog: sqlite3.Connection) -> None:
        """List the new addresses in the catalogue as one volume.

        Earlier volumes that are at most twice as large as the new one are merged into it, and are no longer listed.
        """
        if not self._fresh and not self._spilled:
            return
        volumes, stored_volumes = [*self._mapped[len(self._stored_volumes) :], *self._fresh], list(self._stored_volumes)
        mapped = self._mapped[: len(stored_volumes)]
        while stored_volumes and stored_volumes[-1].size <= 2 * sum(volume.size for volume in volumes):
            volumes.insert(0, mapped.pop())
            catalog.execute("DELETE FROM volumes WHERE file = ?", (stored_volumes.pop().file,))
        if len(volumes) == len(self._spilled) == 1:
            saved = self._spilled[0]
        else:
            saved = self._write(volumes)
            for spilled in self._spilled:
                self._opened.path(spilled.file, "volume").unlink()
        catalog.execute("INSERT INTO volumes VALUES (?, ?, ?)", (saved.file, saved.first_number, saved.size))


def write_volume(path: Path, volumes: Sequence[Volume], chunk: int) -> None:
    """Write consecutive volumes as one file, ``chunk`` values at a time."""
    size = sum(volume.size for volume in volumes)
    with array_file(path) as file:
        file.add("texts", (texts for volume in volumes for texts in _slices(volume.texts, 64 * chunk)))
        file.add("starts", _starts(volumes, chunk))
        file.add("heads", (heads for volume in volumes for heads in _slices(volume.heads, chunk)))
        file.reserve("hashes", np.uint64, size)
        file.reserve("places", np.int32, size)
        row = 0
        for hashed, places in _by_hash(volumes, chunk):
            file.fill("hashes", row, hashed)
            file.fill("places", row, places)
            row += len(hashed)


def _slices(array: Array, size: int) -> Iterator[Array]:
    for start in range(0, max(len(array), 1), size):
        yield array[start : start + size]


def _starts(volumes: Sequence[Volume], chunk: int) -> Iterator[Array]:
    offset = 0
    for volume in volumes:
        for starts in _slices(volume.starts[:-1], chunk):
            yield starts + offset
        offset += len(volume.texts)
    yield np.array([offset], np.int64)


def _by_hash(volumes: Sequence[Volume], chunk: int) -> Iterator[tuple[Array, Array]]:
    """Yield two arrays in chunks of about equal size: the hashes of all volumes, ascending, and each hash's address
    position.

    The position is the address's number less the number of the first address.
    """
    parts = 1 + 2 * sum(volume.size for volume in volumes) // chunk
    edges = np.array([number * 2**64 // parts for number in range(1, parts)], np.uint64)
    cuts = [[0, *np.searchsorted(volume.hashes, edges).tolist(), volume.size] for volume in volumes]
    first_number = volumes[0].first_number
    for part in range(parts):
        spans = [slice(bounds[part], bounds[part + 1]) for bounds in cuts]
        hashed = np.concatenate([volume.hashes[span] for volume, span in zip(volumes, spans, strict=True)])
        places = [
            volume.places[span] + (volume.first_number - first_number)
            for volume, span in zip(volumes, spans, strict=True)
        ]
        order = np.argsort(hashed)
        yield hashed[order], np.concatenate(places)[order].astype(np.int32)
