"""The catalogue's copy: a second file with a checksum. It is replaced after each write of the catalogue.

SQLite does not notice most flipped bits. Therefore the catalogue is compared with the copy's checksum when it is
opened, and again whenever its file changes. If the catalogue is lost, damaged or older than the copy, it is restored
from the copy. Labels and token lists are in no other file.

The last 12 bytes of the copy are the number of the catalogue's last write (8 bytes), and the CRC-32 of the bytes before
them (4 bytes).
"""

from __future__ import annotations

import os
import sqlite3
import zlib
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Final, NamedTuple

from holderlake.core.storage.atomic_files import whole_file
from holderlake.engine.errors import DamagedCatalog
from holderlake.engine.files.disk_errors import REBUILD, disk_failures

CATALOG: Final = "catalog.sqlite"
COPY: Final = "catalog-copy.sqlite"

_COUNT_WRITE: Final = """
INSERT INTO settings VALUES ('writes', '1')
ON CONFLICT (name) DO UPDATE SET value = CAST(value AS INTEGER) + 1
"""
_WRITES: Final = "SELECT CAST(value AS INTEGER) FROM settings WHERE name = 'writes'"
_TRAILER: Final = 12

SIDE_FILES: Final = (f"{CATALOG}-wal", f"{CATALOG}-shm")
"""Names of the files that SQLite keeps next to the catalogue."""

Signature = tuple[tuple[int, int, int], ...]
_checked: Final[dict[Path, Signature]] = {}
"""Signature that each store's catalogue file had at its last comparison in this process, by store folder."""


class Image(NamedTuple):
    """The content of a catalogue: ``pages`` are the bytes of its SQLite pages, ``crc`` is their CRC-32.

    ``write`` is the number of the catalogue's last write.
    """

    pages: bytes
    write: int
    crc: int


class _Trailer(NamedTuple):
    write: int
    crc: int


def count_write(catalog: sqlite3.Connection) -> None:
    """Increase the number of writes in the catalogue by one, within the open transaction."""
    catalog.execute(_COUNT_WRITE)


def save_copy(catalog: sqlite3.Connection, root: Path) -> None:
    """Replace the copy with the committed pages of the catalogue.

    The copy is not forced to the disk. A power cut may damage it, but then its checksum is wrong and the catalogue
    itself is intact.
    """
    _replace(root, COPY, stored_copy(image_of(catalog)), durable=False)


def stored_copy(image: Image) -> bytes:
    """Return the content of the copy's file: the pages of ``image``, then the 12 bytes with the write number and the
    checksum."""
    return image.pages + image.write.to_bytes(8, "little") + image.crc.to_bytes(4, "little")


def _replace(root: Path, name: str, content: bytes, durable: bool) -> None:
    """Write a file of the store atomically. With ``durable``, force its content to the disk first."""
    with disk_failures(root), whole_file(root / name, durable=durable) as building:
        building.write_bytes(content)


def read_copy(root: Path) -> Image | None:
    """Return the content of the copy, or None if the copy is missing or damaged."""
    try:
        content = (root / COPY).read_bytes()
    except OSError:
        return None
    trailer = _trailer(content[-_TRAILER:])
    pages = content[:-_TRAILER]
    return Image(pages, *trailer) if trailer and pages and zlib.crc32(pages) == trailer.crc else None


def check(catalog: sqlite3.Connection, root: Path, always: bool = False) -> None:
    """Compare the catalogue with its copy if its file has changed since the last comparison. With ``always``, compare
    in any case.

    Raises ``DamagedCatalog`` if the catalogue is damaged or older than its copy. If the catalogue has more writes than
    its copy, a process was killed before it wrote the copy. Such a catalogue is accepted if it passes SQLite's
    integrity check. Without a copy, nothing is compared.
    """
    signature = _signature(root)
    if _checked.get(root) == signature and not always:
        return
    trailer = _read_trailer(root)
    image = image_of(catalog)
    if trailer is not None and image.crc != trailer.crc:
        _explain(catalog, root, image, trailer)
    _checked[root] = signature


def restore(root: Path, image: Image) -> None:
    """Write ``image``, the content of a copy, as the catalogue. The caller must first move the damaged files away."""
    _replace(root, CATALOG, image.pages, durable=True)
    _checked.pop(root, None)


def trust(root: Path) -> None:
    """Record that this process wrote the present catalogue file, so that ``check`` skips it.

    Call this after closing the connection.
    """
    _checked[root] = _signature(root)


def _explain(catalog: sqlite3.Connection, root: Path, image: Image, trailer: _Trailer) -> None:
    """Raise ``DamagedCatalog`` for a catalogue that differs from its copy.

    ``image`` is the content of the catalogue, ``trailer`` the end of the copy. Return without an error if the copy is
    older or damaged and the catalogue passes SQLite's integrity check.
    """
    if read_copy(root) is None or image.write > trailer.write:
        (result,) = catalog.execute("PRAGMA integrity_check(1)").fetchone()
        if result == "ok":
            return
    if image.write < trailer.write:
        raise DamagedCatalog(
            f"{root / CATALOG} is older than its copy: the catalogue's last write has number {image.write}, the copy's "
            f"{trailer.write}; {REBUILD} to restore it from the copy"
        )
    raise DamagedCatalog(
        f"{root / CATALOG} is damaged: its checksum is {image.crc:08x} instead of {trailer.crc:08x}; "
        f"{REBUILD} to restore it from its copy"
    )


def image_of(catalog: sqlite3.Connection) -> Image:
    """Return the content of the catalogue, with the changes of a transaction that is open in ``catalog``."""
    with _reading(catalog):
        row = catalog.execute(_WRITES).fetchone()
        pages = catalog.serialize()
    return Image(pages, int(row[0]) if row else 0, zlib.crc32(pages))


@contextmanager
def _reading(catalog: sqlite3.Connection) -> Iterator[None]:
    """Context manager of a read transaction. If ``catalog`` already has an open transaction, that transaction is
    used."""
    if catalog.in_transaction:
        yield
        return
    catalog.execute("BEGIN")
    try:
        yield
    finally:
        catalog.rollback()


def _read_trailer(root: Path) -> _Trailer | None:
    try:
        with (root / COPY).open("rb") as file:
            file.seek(-_TRAILER, os.SEEK_END)
            return _trailer(file.read())
    except OSError:
        return None


def _trailer(data: bytes) -> _Trailer | None:
    if len(data) < _TRAILER:
        return None
    return _Trailer(int.from_bytes(data[:8], "little"), int.from_bytes(data[8:], "little"))


def _signature(root: Path) -> Signature:
    statuses = []
    for name in (CATALOG, f"{CATALOG}-wal", COPY):
        with suppress(FileNotFoundError):
            status = os.stat(f"{root}/{name}")  # noqa: PTH116 - for each connection, and a Path costs more
            statuses.append((status.st_ino, status.st_size, status.st_mtime_ns))
    return tuple(statuses)
