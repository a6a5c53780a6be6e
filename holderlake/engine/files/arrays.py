"""Files of named numpy arrays: written once, whole or not at all, then read through memory maps by any number of
processes. A file is the arrays one after another, then what they are as JSON, then the length of that.
"""

from __future__ import annotations

import json
import math
import mmap
import os
import uuid
from collections.abc import Iterable, Mapping
from pathlib import Path
from types import TracebackType
from typing import Any, Final

import numpy as np
import numpy.typing as npt

from holderlake.engine.numeric.bigint import Array

Arrays = Mapping[str, Array]

_ALIGNMENT: Final = 64
_MUCH: Final = 1 << 29
"""Bytes of mapped files in memory."""
_PAGES: Final = Path("/proc/self/statm")
"""Linux's: pages of this process, those in memory, and of these the ones that files are mapped to."""


class ArrayFile:
    """A file that is being written: named arrays, each whole or bit by bit. At the end of its block it is there to
    stay, unless it need not be ``durable``; where the block fails it is not there."""

    def __init__(self, path: Path, durable: bool = True) -> None:
        self._durable = durable
        self._path = path
        self._building = path.with_name(f".{path.name}.{uuid.uuid4().hex}")
        self._file = self._building.open("wb")
        self._contents: dict[str, dict[str, Any]] = {}

    def add(self, name: str, chunks: Array | Iterable[Array]) -> None:
        """Appends an array: the chunks one after another, which agree in all but their length; at least one."""
        self._file.write(bytes(-self._file.tell() % _ALIGNMENT))
        start, rows, dtype, shape = self._file.tell(), 0, "", []
        for chunk in [chunks] if isinstance(chunks, np.ndarray) else chunks:
            self._file.write(_bytes(chunk))
            rows, dtype, shape = rows + len(chunk), chunk.dtype.str, list(chunk.shape[1:])
        self._contents[name] = {"dtype": dtype, "shape": [rows, *shape], "start": start}

    def reserve(self, name: str, dtype: npt.DTypeLike, rows: int, shape: tuple[int, ...] = ()) -> None:
        """Makes room for an array of so many rows of a shape, to be filled in any order."""
        self._file.write(bytes(-self._file.tell() % _ALIGNMENT))
        start = self._file.tell()
        self._file.truncate(start + rows * math.prod(shape) * np.dtype(dtype).itemsize)
        self._file.seek(0, os.SEEK_END)
        self._contents[name] = {"dtype": np.dtype(dtype).str, "shape": [rows, *shape], "start": start}

    def fill(self, name: str, row: int, chunk: Array) -> None:
        """Puts a chunk of a reserved array where it belongs."""
        place = self._contents[name]
        self._file.seek(place["start"] + row * math.prod(place["shape"][1:]) * np.dtype(place["dtype"]).itemsize)
        self._file.write(_bytes(chunk.astype(np.dtype(place["dtype"]), copy=False)))
        self._file.seek(0, os.SEEK_END)

    def filled_in(self, name: str) -> Array:
        """A reserved array as it is in the file, to be written to and read from in place."""
        place = self._contents[name]
        if not place["shape"][0]:
            return np.empty(place["shape"], place["dtype"])
        self._file.flush()
        if hasattr(os, "posix_fallocate"):  # a full disk is an error here, and a signal that kills while mapped
            size = math.prod(place["shape"]) * np.dtype(place["dtype"]).itemsize
            os.posix_fallocate(self._file.fileno(), place["start"], size)
        mapped: Array = np.memmap(self._building, place["dtype"], "r+", place["start"], tuple(place["shape"]))
        return mapped

    def __enter__(self) -> ArrayFile:
        return self

    def __exit__(self, kind: type[BaseException] | None, error: object, trace: TracebackType | None) -> None:
        try:
            if kind is None:
                listed = json.dumps(self._contents).encode()
                self._file.write(listed + len(listed).to_bytes(8, "little"))
                self._file.flush()
                if self._durable:
                    os.fsync(self._file.fileno())
        finally:
            self._file.close()
        if kind is None:
            self._building.replace(self._path)
        else:
            self._building.unlink(missing_ok=True)


def _bytes(array: Array) -> Any:
    return np.ascontiguousarray(array).reshape(-1).view(np.uint8).data if array.size else b""


def write_arrays(path: Path, arrays: Mapping[str, Array | Iterable[Array]], durable: bool = True) -> None:
    """Writes a file of arrays, each whole or bit by bit."""
    with ArrayFile(path, durable) as file:
        for name, array in arrays.items():
            file.add(name, array)


def read_arrays(path: Path) -> dict[str, Array]:
    """The arrays of a file, mapped into memory and not to be written to."""
    with path.open("rb") as file:
        mapped = mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_READ)
    length = int.from_bytes(mapped[-8:], "little")
    contents = json.loads(mapped[-8 - length : -8])
    return {name: _view(mapped, **place) for name, place in contents.items()}


def _view(mapped: mmap.mmap, dtype: str, shape: list[int], start: int) -> Array:
    return np.ndarray(shape, np.dtype(dtype), mapped, start)


def release_pages(arrays: Iterable[Array]) -> None:
    """Takes the arrays' files out of this process's memory. What is read of them again comes from the system's cache,
    for as long as that has them. For who reads much of very many files once."""
    bases = {id(array.base): array.base for array in arrays}
    for mapped in bases.values():
        if isinstance(mapped, mmap.mmap) and hasattr(mapped, "madvise"):
            mapped.madvise(mmap.MADV_DONTNEED)


def exceeds_mapped_limit() -> bool:
    """Return whether files take so much of this process's memory that those that are read should be let go of: what they take
    is told by Linux alone, so elsewhere always."""
    return _mapped() > _MUCH


def _mapped() -> float:
    """Bytes of files that are mapped and in this process's memory."""
    try:
        return int(_PAGES.read_bytes().split()[2]) * mmap.PAGESIZE
    except (OSError, IndexError):
        return math.inf


def sync_folder(folder: Path) -> None:
    """Makes sure that the folder's entries are there to stay."""
    opened = os.open(folder, os.O_RDONLY)
    try:
        os.fsync(opened)
    finally:
        os.close(opened)


def expand_ranges(starts: Array, ends: Array) -> Array:
    """All places of the half-open spans, one span after another."""
    lengths = np.maximum(ends - starts, 0)
    whole = int(lengths.sum())
    if not whole:
        return np.empty(0, np.int64)
    firsts = np.cumsum(lengths) - lengths
    places: Array = np.arange(whole, dtype=np.int64) + np.repeat(starts - firsts, lengths)
    return places


def take_or_missing(values: Array, places: Array) -> Array:
    """The values at the places, -1 where a place is -1."""
    found: Array = np.append(values, -1)[places]
    return found


def count_until(times: Array, second: int, side: str = "right") -> int:
    """How many of the rising times are at or before the second (``side="left"``: before it)."""
    limits = np.iinfo(times.dtype)
    if second < limits.min or second > limits.max:
        return 0 if second < limits.min else len(times)
    return int(np.searchsorted(times, times.dtype.type(second), side=side))  # type: ignore[call-overload]
