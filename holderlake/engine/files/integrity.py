"""Sizes and checksums of the store's files. They are compared before a file is used.

The catalogue's table ``files`` has the size, checksum and signature of each file. The signature consists of the file's
inode, size and times after it was written. A load of the warehouse makes hard links, which change the time of the
inode, so that time does not count for a file with several links. If a file still has the recorded signature, it is used
without being read, so a process maps only the pages that it needs. Any other file is read and compared once in each
process, and again when its signature changes.

The checksum is the CRC-32 of the complete file, the fastest checksum in the standard library (4 GB/s on one core). A
bit that flips on the disk does not change the signature. ``FileChecks.read_all``, which a service runs when it starts,
and ``store.verify`` find such damage.
"""

from __future__ import annotations

import os
import sqlite3
import time
import zlib
from collections.abc import Mapping
from pathlib import Path
from typing import Final, NamedTuple

from holderlake.engine.errors import DamagedFile
from holderlake.engine.files.disk_errors import VERIFY

_BLOCK: Final = 1 << 20
_WITHOUT_SUM: Final = """
SELECT path FROM listed WHERE path NOT IN (SELECT path FROM files WHERE replaced_at IS NULL) ORDER BY path
"""
_RETIRE: Final = "UPDATE files SET replaced_at = ? WHERE replaced_at IS NULL AND path NOT IN (SELECT path FROM listed)"
_SUMS: Final = "SELECT path, size, crc32, signature FROM files WHERE replaced_at IS NULL"
_ADD: Final = "INSERT OR REPLACE INTO files (path, size, crc32, signature) VALUES (?, ?, ?, ?)"


class Sum(NamedTuple):
    """Size and checksum of a file when it was written: ``size`` in bytes, ``crc32``, and ``signature``.

    ``signature`` is a text from ``signature_of``, or None if it was not recorded. Without a signature, the file is read
    and compared before it is used.
    """

    size: int
    crc32: int
    signature: str | None = None


Sums = Mapping[str, Sum]
"""The ``Sum`` of each file, by path within the store, for example ``arrays/1f….part``."""


def signature_of(path: str) -> str:
    """Return a text with a file's inode, size and modification time (nanoseconds).

    Without other hard links, the inode change time follows. Each write to the file changes this text.
    """
    status = os.stat(path)  # noqa: PTH116 - a map takes dozens of these, and a Path costs more than the call
    signature = f"{status.st_ino} {status.st_size} {status.st_mtime_ns}"
    return signature if status.st_nlink > 1 else f"{signature} {status.st_ctime_ns}"


def is_unchanged(expected: Sum, path: str) -> bool:
    """Return True if a file still has its recorded signature. It may have more or fewer hard links than then."""
    recorded, present = f"{expected.signature} ", f"{signature_of(path)} "
    return recorded.startswith(present) or present.startswith(recorded)


def fault_of(path: Path, expected: Sum, *, every_byte: bool = True) -> str | None:
    """Return how a file differs from its ``Sum``, or None. Unless ``every_byte``, only a changed file is read."""
    try:
        if not every_byte and is_unchanged(expected, str(path)):
            return None
        actual = sum_of(path)
    except FileNotFoundError:
        return "is missing"
    except OSError as error:
        return f"can't be read ({error.strerror})"
    if actual.size != expected.size:
        return f"has {actual.size:,} bytes instead of {expected.size:,}"
    if actual.crc32 != expected.crc32:
        return f"changed since it was written: its checksum is {actual.crc32:08x} instead of {expected.crc32:08x}"
    return None


def sum_of(path: Path) -> Sum:
    """Read a file once, and return its size, checksum and signature."""
    size = crc = 0
    block = bytearray(_BLOCK)
    view = memoryview(block)
    signature = signature_of(str(path))
    with path.open("rb", buffering=0) as file:
        while read := file.readinto(block):
            crc = zlib.crc32(view[:read], crc)
            size += read
    return Sum(size, crc, signature)


def read_sums(catalog: sqlite3.Connection) -> dict[str, Sum]:
    """Return the ``Sum`` of each file in the catalogue's table ``files``, by path."""
    return {path: Sum(*columns) for path, *columns in catalog.execute(_SUMS)}


def record_sums(catalog: sqlite3.Connection, root: Path) -> None:
    """Record the ``Sum`` of listed files that have none. For files that are no longer listed, record the present time
    as ``replaced_at``."""
    rows = [(path, *sum_of(root / path)) for (path,) in catalog.execute(_WITHOUT_SUM).fetchall()]
    catalog.executemany(_ADD, rows)
    catalog.execute(_RETIRE, (int(time.time()),))


class FileChecks:
    """Compares files of a store with their recorded ``Sum``. A file is compared again when its signature changes.

    Thread-safe.
    """

    def __init__(self, root: Path) -> None:
        self._root = root
        self._folder = str(root)
        self._passed: dict[str, str] = {}
        self._differing: dict[str, tuple[str, DamagedFile]] = {}

    def path(self, path: str, sums: Sums) -> Path:
        """Return the full path of a file after comparing the file with its ``Sum``. ``path`` is relative to the store.

        Raises ``DamagedFile`` if the file is missing or damaged.
        """
        full_path = self._root / path
        try:
            signature = signature_of(f"{self._folder}/{path}")
        except OSError as error:
            raise self._damaged(path, "is missing") from error
        self._refuse_differing(path, signature)
        if self._passed.get(path) != signature:
            expected = sums.get(path)  # None for a file that the open import wrote
            if expected and not f"{expected.signature} ".startswith(f"{signature} "):
                self._compare(path, full_path, expected)
            self._passed[path] = signature
        return full_path

    def changed(self, path: str) -> bool:
        """Return True if the file is known to be damaged, or has changed since it was compared with its ``Sum``.

        Return False if the file was removed, or was not compared yet.
        """
        passed = self._passed.get(path)
        if path in self._differing:
            return True
        try:
            return passed is not None and passed != signature_of(f"{self._folder}/{path}")
        except OSError:
            return False

    def read_all(self, sums: Sums) -> list[DamagedFile]:
        """Read every file of ``sums`` and compare it with its ``Sum``. Return an error for each damaged file.

        Files with an unchanged signature are read too. Afterwards, ``path`` raises the error of a damaged file until
        the file is written again. A file that an import removes during the comparison has no error.
        """
        for path, expected in sums.items():
            try:
                signature = signature_of(f"{self._folder}/{path}")
                self._compare(path, self._root / path, expected)
            except DamagedFile as error:
                self._differing[path] = signature, error
            except OSError:
                continue
        return [error for _, error in self._differing.values()]

    def _refuse_differing(self, path: str, signature: str) -> None:
        difference = self._differing.get(path)
        if difference is not None and difference[0] == signature:
            raise difference[1].with_traceback(None)
        self._differing.pop(path, None)

    def _compare(self, path: str, full_path: Path, expected: Sum) -> None:
        if fault := fault_of(full_path, expected):
            raise self._damaged(path, fault)

    def _damaged(self, path: str, predicate: str) -> DamagedFile:
        return damaged(self._root, path, predicate)


def damaged(root: Path, path: str, predicate: str) -> DamagedFile:
    """Return the error for a damaged file. ``predicate`` completes its message, for example ``is missing``."""
    return DamagedFile(f"{root / path} {predicate}; {VERIFY}, and 'holderlake store rebuild' to repair it", path)
