"""The dictionary of addresses: gives each address of the store a permanent number, in the order of arrival.

A volume has the addresses of consecutive numbers, and an index by hash. Volumes are files; during an import, some are
in memory. A look-up compares hashes and then texts, so two addresses with the same hash are never confused.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, fields
from typing import Final

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from holderlake.engine.files.arrays import Arrays, expand_ranges
from holderlake.engine.numeric.bigint import Array
from holderlake.engine.numeric.hashing import digests_of_few

UNKNOWN: Final = -1
"""Number of an address that the store does not have."""


@dataclass(frozen=True)
class Volume:
    """Addresses with consecutive numbers. ``first_number`` is the number of the first address.

    - ``texts`` are the bytes of all addresses. The address with number ``first_number + n`` is
      ``texts[starts[n]:starts[n + 1]]``.
    - ``heads`` are the first eight bytes of each address as an integer, for sorting.
    - ``hashes`` are the hashes of the addresses, ascending. The address with the hash ``hashes[m]`` has the number
      ``first_number + places[m]``.
    """

    first_number: int
    texts: Array
    starts: Array
    heads: Array
    hashes: Array
    places: Array

    @property
    def size(self) -> int:
        """The number of addresses."""
        return len(self.heads)

    def arrays(self) -> Arrays:
        """Return the arrays to write to the volume's file, by name."""
        return {field.name: getattr(self, field.name) for field in fields(self)[1:]}

    def text_array(self, places: Array) -> pa.Array:
        """Return the addresses at the positions ``places`` (from 0) of this volume, as an array of large strings."""
        buffers = [None, pa.py_buffer(self.starts), pa.py_buffer(self.texts)]
        return pa.Array.from_buffers(pa.large_string(), self.size, buffers).take(pa.array(places))

    def find(self, texts: pa.Array, hashes: Array) -> Array:
        """Return the number of each of the addresses ``texts``; ``UNKNOWN`` (-1) if it is not in this volume.

        ``hashes`` has the hash of each text (``hashing.digests``).
        """
        numbers = np.full(len(hashes), UNKNOWN, np.int64)
        order = np.argsort(hashes)  # sorted look-ups use the processor's cache better
        ordered = hashes[order]
        starts = np.searchsorted(self.hashes, ordered)
        ends = starts.copy()
        while True:  # runs once, unless hashes collide
            colliding = np.flatnonzero(ends < self.size)
            colliding = colliding[self.hashes[ends[colliding]] == ordered[colliding]]
            if not len(colliding):
                break
            ends[colliding] += 1
        text_places = np.repeat(order, ends - starts)
        if len(text_places):
            places = self.places[expand_ranges(starts, ends)]
            equal = pc.equal(self.text_array(places), texts.take(pa.array(text_places)).cast(pa.large_string()))
            is_equal = equal.to_numpy(zero_copy_only=False)
            numbers[text_places[is_equal]] = places[is_equal] + self.first_number
        return numbers


def volume_of(first_number: int, texts: pa.Array, hashes: Array) -> Volume:
    """Make a volume of the distinct addresses ``texts``, with numbers from ``first_number`` on. ``hashes`` has the hash
    of each text (``hashing.digests``)."""
    large = texts.cast(pa.large_string())
    if large.offset:
        large = pa.concat_arrays([large, pa.array([], pa.large_string())])
    _, offsets, data = large.buffers()
    starts = np.frombuffer(offsets, np.int64)[: len(large) + 1]
    letters = np.frombuffer(data, np.uint8)[: int(starts[-1])] if data is not None else np.empty(0, np.uint8)
    order = np.argsort(hashes)
    heads = _heads_of(letters, starts)
    return Volume(first_number, letters, starts, heads, hashes[order], order.astype(np.int32))


def _heads_of(letters: Array, starts: Array) -> Array:
    """Return the first eight bytes of each text as a big-endian integer. Missing bytes are 0.

    Text n is ``letters`` from ``starts[n]`` to ``starts[n + 1]`` (excluded).
    """
    heads = np.zeros(len(starts) - 1, np.uint64)
    padded = np.append(letters, np.zeros(8, np.uint8))
    for place in range(8):
        inside = starts[:-1] + place < starts[1:]
        heads = (heads << np.uint64(8)) | np.where(inside, padded[starts[:-1] + place], 0).astype(np.uint64)
    return heads


class Dictionary:
    """Finds numbers by address, and addresses by number. ``volumes`` are in the order of their numbers, from 0 without
    gaps."""

    def __init__(self, volumes: Iterable[Volume]) -> None:
        self.volumes = list(volumes)

    @property
    def size(self) -> int:
        """Number of addresses."""
        return self.volumes[-1].first_number + self.volumes[-1].size if self.volumes else 0

    def find(self, texts: Sequence[str]) -> Array:
        """Return the number of each address, given as text; ``UNKNOWN`` (-1) if the store does not have it."""
        return self.find_hashed(pa.array(texts, pa.string()), digests_of_few(texts))

    def find_hashed(self, texts: pa.Array, hashes: Array) -> Array:
        """Return the number of each address; -1 if the store does not have it. ``hashes`` has the hash of each of the
        addresses ``texts`` (``hashing.digests``)."""
        numbers = np.full(len(hashes), UNKNOWN, np.int64)
        for volume in self.volumes:
            missing = np.flatnonzero(numbers == UNKNOWN)
            if not len(missing):
                break
            if len(missing) == len(numbers):
                numbers = volume.find(texts, hashes)
            else:
                numbers[missing] = volume.find(texts.take(pa.array(missing)), hashes[missing])
        return numbers

    def texts(self, numbers: Array) -> list[str]:
        """Return the addresses with the given numbers."""
        return list(self.text_array(numbers).to_pylist())

    def text_array(self, numbers: Array) -> pa.Array:
        """Return the addresses with the given numbers as an Arrow array of large strings."""
        if len(self.volumes) == 1:
            return self.volumes[0].text_array(numbers)
        volume_places = self._volume_places(numbers)
        pieces, order = [pa.array([], pa.large_string())], [np.empty(0, np.int64)]
        for number, volume in enumerate(self.volumes):
            mine = np.flatnonzero(volume_places == number)
            if len(mine):
                pieces.append(volume.text_array(numbers[mine] - volume.first_number))
                order.append(mine)
        back = np.empty(len(numbers), np.int64)
        back[np.concatenate(order)] = np.arange(len(numbers))
        return pa.concat_arrays(pieces).take(pa.array(back))

    def heads(self, numbers: Array) -> Array:
        """Return the first eight bytes of each address as an integer. Sorting the integers sorts the addresses by these
        bytes."""
        volume_places, heads = self._volume_places(numbers), np.empty(len(numbers), np.uint64)
        for number, volume in enumerate(self.volumes):
            mine = np.flatnonzero(volume_places == number)
            heads[mine] = volume.heads[numbers[mine] - volume.first_number]
        return heads

    def _volume_places(self, numbers: Array) -> Array:
        return np.searchsorted(np.array([volume.first_number for volume in self.volumes]), numbers, side="right") - 1

    def ranks(self, numbers: Array) -> Array:
        """Return the position (from 0) of each address in the alphabetical order of all given addresses.

        ``numbers`` are the numbers of the addresses, without repetitions.
        """
        order = pc.sort_indices(self.text_array(numbers)).to_numpy()
        ranks = np.empty(len(order), np.int64)
        ranks[order] = np.arange(len(order))
        return ranks
