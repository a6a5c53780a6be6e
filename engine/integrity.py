"""Sizes and checksums of the store's files: written with them, compared before a file is used.

The catalogue's table ``files`` holds both. A checksum is the CRC-32 of the whole file, the fastest in the standard
library (4 GB/s on one core of the machine where it was chosen). A file is read for it once a process, and again when
its size or time changes on disk.
"""

from __future__ import annotations

import sqlite3
import time
import zlib
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Final, NamedTuple

from engine.errors import DamagedFile
from engine.unusable import VERIFY

_BLOCK: Final = 1 << 20
_WITHOUT_SUM: Final = """
SELECT path FROM listed WHERE path NOT IN (SELECT path FROM files WHERE replaced_at IS NULL) ORDER BY path
"""
_RETIRE: Final = "UPDATE files SET replaced_at = ? WHERE replaced_at IS NULL AND path NOT IN (SELECT path FROM listed)"
_SUMS: Final = "SELECT path, size, crc32 FROM files WHERE replaced_at IS NULL"


class Sum(NamedTuple):
    """Size and CRC-32 of a file."""

    size: int
    crc32: int


Sums = Mapping[str, Sum]
"""Sums by path within the store, such as ``arrays/1f….part``."""


def sum_of(path: Path) -> Sum:
    """Read a file once and return its size and checksum."""
    size = crc = 0
    block = bytearray(_BLOCK)
    view = memoryview(block)
    with path.open("rb", buffering=0) as file:
        while read := file.readinto(block):
            crc = zlib.crc32(view[:read], crc)
            size += read
    return Sum(size, crc)


def read_sums(catalog: sqlite3.Connection) -> dict[str, Sum]:
    """Return the sums of all files that the catalogue lists; one of an earlier version has none yet."""
    return {path: Sum(size, crc32) for path, size, crc32 in catalog.execute(_SUMS)}


def record_sums(catalog: sqlite3.Connection, root: Path) -> None:
    """Add the sums of listed files that have none, and note when files were replaced."""
    new = [(path, *_sum_or_none(root / path)) for (path,) in catalog.execute(_WITHOUT_SUM).fetchall()]
    catalog.executemany("INSERT OR REPLACE INTO files (path, size, crc32) VALUES (?, ?, ?)", new)
    catalog.execute(_RETIRE, (int(time.time()),))


def _sum_or_none(path: Path) -> Sum:
    try:
        return sum_of(path)
    except FileNotFoundError:  # lost before sums were kept: reported when it is used
        return Sum(0, 0)


class FileChecks:
    """Compares files of one store with their sums, each once, and again when it changed on disk. For any thread."""

    def __init__(self, root: Path) -> None:
        self._root = root
        self._passed: dict[str, tuple[int, int, int]] = {}

    def path(self, path: str, sums: Sums) -> Path:
        """Return where the file is. Raises ``DamagedFile`` where it is missing or differs from its sum."""
        whole = self._root / path
        try:
            status = whole.stat()
        except OSError as error:
            raise self._damaged(path, "is missing") from error
        signature = (status.st_ino, status.st_size, status.st_mtime_ns)
        if self._passed.get(path) != signature:
            self._check(path, whole, sums.get(path), status.st_size)
            self._passed[path] = signature
        return whole

    def changed(self, path: str) -> bool:
        """Whether a file that passed is another one on disk now. One that was removed since is not."""
        passed = self._passed.get(path)
        try:
            status = (self._root / path).stat()
        except OSError:
            return False
        return passed is not None and passed != (status.st_ino, status.st_size, status.st_mtime_ns)

    def forget(self, paths: Iterable[str]) -> None:
        """Compare these files again at the next use."""
        for path in paths:
            self._passed.pop(path, None)

    def _check(self, path: str, whole: Path, expected: Sum | None, size: int) -> None:
        if expected is None:  # of a store of an earlier version, until its next write
            return
        if size != expected.size:
            raise self._damaged(path, f"has {size:,} bytes instead of {expected.size:,}")
        try:
            found = sum_of(whole)
        except OSError as error:
            raise self._damaged(path, f"can't be read ({error.strerror})") from error
        if found != expected:
            raise self._damaged(path, f"changed since it was written: its checksum is {found.crc32:08x} instead of "
                                      f"{expected.crc32:08x}")  # fmt: skip

    def _damaged(self, path: str, what: str) -> DamagedFile:
        return damaged(self._root, path, what)


def damaged(root: Path, path: str, what: str) -> DamagedFile:
    """Return the error for a damaged file, with the remedy."""
    return DamagedFile(f"{root / path} {what}; {VERIFY}, and 'holderlake store rebuild' to repair it", path)
