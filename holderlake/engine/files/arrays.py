"""Files of named numpy arrays. A file is written once, atomically. Any number of processes can memory-map it.

A file has the arrays one after another, then a JSON object, then the length of the JSON object in eight bytes. The JSON
object has the type, shape and offset of each array.
"""

from __future__ import annotations

import json
import math
import mmap
import os
import uuid
from collections.abc import Iterable, Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any, BinaryIO, Final

import numpy as np
import numpy.typing as npt

from holderlake.core.storage.atomic_files import whole_file
from holderlake.engine.numeric.bigint import Array

Arrays = Mapping[str, Array]
"""Arrays by name."""

_ALIGNMENT: Final = 64
_MAPPED_LIMIT: Final = 1 << 29
"""The most bytes of mapped files that this process should keep in memory, see ``exceeds_mapped_limit``."""
_STATM: Final = Path("/proc/self/statm")
"""Path of the Linux file with this process's numbers of memory pages: all, resident, and resident pages of mapped
files."""


class ArrayFile:
    """The arrays of a file that ``array_file`` writes."""

    def __init__(self, path: Path, file: BinaryIO) -> None:
        self._path = path
        self._file = file
        self._contents: dict[str, dict[str, Any]] = {}

    def add(self, name: str, chunks: Array | Iterable[Array]) -> None:
        """Append an array. ``chunks`` is the complete array, or several chunks that differ only in length."""
        self._file.write(bytes(-self._file.tell() % _ALIGNMENT))
        start, rows, dtype, shape = self._file.tell(), 0, "", []
        for chunk in [chunks] if isinstance(chunks, np.ndarray) else chunks:
            self._file.write(_bytes(chunk))
            rows, dtype, shape = rows + len(chunk), chunk.dtype.str, list(chunk.shape[1:])
        self._contents[name] = {"dtype": dtype, "shape": [rows, *shape], "start": start}

    def reserve(self, name: str, dtype: npt.DTypeLike, rows: int, shape: tuple[int, ...] = ()) -> None:
        """Reserve space for an array of ``rows`` rows, each of shape ``shape``. ``fill`` then writes the rows in any
        order."""
        self._file.write(bytes(-self._file.tell() % _ALIGNMENT))
        start = self._file.tell()
        self._file.truncate(start + rows * math.prod(shape) * np.dtype(dtype).itemsize)
        self._file.seek(0, os.SEEK_END)
        self._contents[name] = {"dtype": np.dtype(dtype).str, "shape": [rows, *shape], "start": start}

    def fill(self, name: str, row: int, chunk: Array) -> None:
        """Write ``chunk`` into a reserved array, starting at index ``row``."""
        place = self._contents[name]
        self._file.seek(place["start"] + row * math.prod(place["shape"][1:]) * np.dtype(place["dtype"]).itemsize)
        self._file.write(_bytes(chunk.astype(np.dtype(place["dtype"]), copy=False)))
        self._file.seek(0, os.SEEK_END)

    def map_reserved(self, name: str) -> Array:
        """Map a reserved array that is filled into memory, read-only."""
        place = self._contents[name]
        if not place["shape"][0]:
            return np.empty(place["shape"], place["dtype"])
        self._file.flush()
        mapped: Array = np.memmap(self._path, place["dtype"], "r", place["start"], tuple(place["shape"]))
        return mapped

    def end(self) -> None:
        """Write the list of the arrays, which ends the file."""
        listed = json.dumps(self._contents).encode()
        self._file.write(listed + len(listed).to_bytes(8, "little"))


@contextmanager
def array_file(path: Path, durable: bool = True) -> Iterator[ArrayFile]:
    """Yield a file of arrays to write. It appears at ``path`` when the ``with`` statement ends without an error.

    With ``durable``, the content is forced to the disk before the file gets its name.
    """
    with whole_file(path, durable=durable) as building, building.open("wb") as file:
        arrays = ArrayFile(building, file)
        yield arrays
        arrays.end()


def _bytes(array: Array) -> Any:
    return np.ascontiguousarray(array).reshape(-1).view(np.uint8).data if array.size else b""


def write_arrays(path: Path, arrays: Mapping[str, Array | Iterable[Array]], durable: bool = True) -> None:
    """Write a file of arrays by name. A value is the complete array or its chunks, see ``ArrayFile.add``."""
    with array_file(path, durable) as file:
        for name, array in arrays.items():
            file.add(name, array)


def temporary_arrays(folder: Path, arrays: Mapping[str, Array | Iterable[Array]]) -> dict[str, Array]:
    """Write arrays to a file in ``folder``, and map them into memory, read-only.

    The file is unlinked at once, so the system deletes it when the arrays are no longer used.
    """
    folder.mkdir(exist_ok=True)
    path = folder / uuid.uuid4().hex
    write_arrays(path, arrays, durable=False)
    mapped = read_arrays(path)
    path.unlink()
    return mapped


def read_arrays(path: Path) -> dict[str, Array]:
    """Map the arrays of a file into memory, read-only."""
    mapped = mapped_file(path).base
    assert isinstance(mapped, mmap.mmap)  # noqa: S101 - mapped_file made it
    length = int.from_bytes(mapped[-8:], "little")
    contents = json.loads(mapped[-8 - length : -8])
    return {
        name: np.ndarray(place["shape"], np.dtype(place["dtype"]), mapped, place["start"])
        for name, place in contents.items()
    }


def mapped_file(path: Path) -> Array:
    """Map a file into memory, read-only, and return its bytes."""
    with path.open("rb") as file:
        mapped = mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_READ)
    return np.ndarray(len(mapped), np.uint8, mapped)


def release_pages(arrays: Iterable[Array]) -> None:
    """Release the memory pages of the arrays' files that this process holds, for callers that read many files once.

    Later reads come from the system's page cache, or from the disk.
    """
    bases = {id(array.base): array.base for array in arrays}
    for mapped in bases.values():
        if isinstance(mapped, mmap.mmap) and hasattr(mapped, "madvise"):
            mapped.madvise(mmap.MADV_DONTNEED)


def exceeds_mapped_limit() -> bool:
    """Return whether mapped files use more than ``_MAPPED_LIMIT`` bytes of this process's memory.

    On other systems than Linux the number is not known, so the result is True.
    """
    try:
        return int(_STATM.read_bytes().split()[2]) * mmap.PAGESIZE > _MAPPED_LIMIT
    except (OSError, IndexError):
        return True


def expand_ranges(starts: Array, ends: Array) -> Array:
    """Return all integers of the ranges from ``starts[n]`` to ``ends[n]`` (excluded), one range after another."""
    lengths = np.maximum(ends - starts, 0)
    total = int(lengths.sum())
    if not total:
        return np.empty(0, np.int64)
    firsts = np.cumsum(lengths) - lengths
    places: Array = np.arange(total, dtype=np.int64) + np.repeat(starts - firsts, lengths)
    return places


def are_among(numbers: Array, chosen: Array) -> Array:
    """Return a mask of the ``numbers`` (0 or more) that are in ``chosen``, for address numbers, which are dense."""
    is_chosen = np.zeros(1 + max(int(numbers.max(initial=0)), int(chosen.max(initial=0))), np.bool_)
    is_chosen[chosen] = True
    mask: Array = is_chosen[numbers]
    return mask


def take_or_missing(values: Array, places: Array) -> Array:
    """Return ``values[place]`` for each of ``places``. The result is -1 where the place is -1."""
    elements: Array = np.append(values, -1)[places]
    return elements
