"""Files of one backup: each is copied with its checksum, or linked to the equal file of the backup before it."""

from __future__ import annotations

import errno
import hashlib
import os
import re
import shutil
import sqlite3
import stat
from collections.abc import Callable, Iterator, Mapping
from contextlib import ExitStack, closing, suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Final

import msgspec

from holderlake.core.lake.lake import LakeError
from holderlake.core.storage.atomic_files import plain_file
from holderlake.core.storage.formats import format_fault
from holderlake.core.storage.names import BadName, digest_name, relative_name

LIST: Final = "backup.json"
"""File in the folder of a backup that lists its other files."""
HOME: Final = "home"
"""Folder of a backup for the files of the home."""
STORE: Final = "store"
"""Folder of a backup for an engine's store outside of the home."""
TEMPORARY: Final = re.compile(
    r".*\.(lock|part|tmp|next|running)|.*-(wal|shm|journal)|\..+\.[0-9a-f]{32}(\.\w+)*|\.spill.*"
)
"""Names of files that belong to a running process, or that a killed one left. No backup has them."""
FORMAT: Final = 1
_CHUNK: Final = 1 << 20
_MOST_LIST: Final = 1 << 30
_SQLITE: Final = b"SQLite format 3\0"


@dataclass(frozen=True)
class Entry:
    """A file of a backup: its size in bytes, its SHA-256, and the time of its last change in the home."""

    bytes: int
    sha256: str
    mtime_ns: int


@dataclass(frozen=True)
class Listing:
    """The content of a backup: its files by path, the time it was taken (ISO, UTC), and the home's path.

    ``problems`` are texts about files that were damaged in the home, and ``elsewhere`` the settings that named the
    places of its other parts.
    """

    taken_at: str
    home: str
    files: dict[str, Entry]
    problems: list[str] = field(default_factory=list)
    elsewhere: list[str] = field(default_factory=list)
    format: int = FORMAT


def read_listing(folder: Path) -> Listing:
    """Return the list of a backup's files. Raises ``LakeError`` if ``folder`` is not a complete backup."""
    path = folder / LIST
    try:
        with plain_file(folder, LIST, _MOST_LIST) as file:
            data = file.read(_MOST_LIST)
        number = msgspec.json.decode(data, type=dict[str, Any]).get("format", FORMAT)
        if fault := format_fault(path, number, FORMAT):
            raise LakeError(fault)
        listing = msgspec.json.decode(data, type=Listing)
        _check(listing)
        return listing
    except FileNotFoundError:
        raise LakeError(f"{folder} is not a backup, it has no file {LIST}: give a folder that a backup made") from None
    except (msgspec.DecodeError, UnicodeDecodeError, BadName, TypeError, OSError) as error:
        raise LakeError(f"{path} is damaged ({error}); choose another backup with --backup") from error


def _check(listing: Listing) -> None:
    """Raise ``BadName`` if a listing has a name, a size or a checksum that no backup writes."""
    names = set(listing.files)
    for name, entry in listing.files.items():
        top, *parts = relative_name(name).split("/")
        if top not in (HOME, STORE) or not parts or TEMPORARY.fullmatch(parts[0]) or parts[0].startswith(".restor"):
            raise BadName(f"{name!r} is not a file of a home: names begin with {HOME}/ or {STORE}/")
        if not names.isdisjoint("/".join(Path(name).parts[:depth]) for depth in range(1, len(parts) + 1)):
            raise BadName(f"{name!r} is in a folder that is also a file")
        digest_name(entry.sha256)
        if entry.bytes < 0:
            raise BadName(f"{name!r} has {entry.bytes} bytes: a size can't be negative")


class Copier:
    """Fills the folder of one backup. ``base`` is the folder of an earlier backup with its listing, or None."""

    def __init__(self, folder: Path, base: tuple[Path, Listing] | None) -> None:
        self.folder = folder
        self.files: dict[str, Entry] = {}
        self.problems: list[str] = []
        self.copied_bytes = 0
        self.unsynced: set[Path] = set()
        """The files that are not links, and not synced to disk yet."""
        self._base, self._base_files = base[0] if base else folder, base[1].files if base else {}

    def add(self, source: Path, name: str, sha256: str | None = None) -> bool:
        """Copy a file, or link it if the earlier backup has it. With ``sha256``, return False if the file differs.

        Raises ``FileNotFoundError`` if it is gone.
        """
        stat = source.stat()
        base_entry = self._base_files.get(name)
        is_equal = base_entry is not None and (base_entry.bytes, base_entry.mtime_ns) == (
            stat.st_size,
            stat.st_mtime_ns,
        )
        if base_entry and is_equal and sha256 in (None, base_entry.sha256) and self._link(name, base_entry):
            return True
        target = self._target(name)
        digest, size = hashlib.sha256(), 0
        with source.open("rb") as read, target.open("wb") as target_file:
            while chunk := read.read(_CHUNK):
                digest.update(chunk)
                target_file.write(chunk)
                size += len(chunk)
        if sha256 not in (None, digest.hexdigest()):
            target.unlink()
            self.unsynced.discard(target)
            return False
        _keep(target, stat)
        self.files[name] = Entry(size, digest.hexdigest(), stat.st_mtime_ns)
        self.copied_bytes += size
        return True

    def add_bytes(self, data: bytes, name: str, stat: os.stat_result) -> None:
        """Write a file with this content, and the mode and time of ``stat``; link it if the earlier backup has it."""
        entry = Entry(len(data), hashlib.sha256(data).hexdigest(), stat.st_mtime_ns)
        base_entry = self._base_files.get(name)
        if base_entry and base_entry.sha256 == entry.sha256 and self._link(name, base_entry):
            return
        target = self._target(name)
        target.write_bytes(data)
        _keep(target, stat)
        self.files[name] = entry
        self.copied_bytes += entry.bytes

    def add_database(self, source: Path, name: str) -> None:
        """Copy the committed content of a SQLite file by SQLite's own backup, also while others write to it."""
        target = self._target(name)
        stat = source.stat()
        try:
            with (
                closing(sqlite3.connect(f"{source.absolute().as_uri()}?mode=ro", uri=True, timeout=60)) as read,
                closing(sqlite3.connect(target)) as target_database,
            ):
                read.backup(target_database)
        except sqlite3.DatabaseError as error:
            target.unlink(missing_ok=True)
            self.problems.append(f"{source} is damaged ({error}); its bytes are copied")
            self.add(source, name)
            return
        size, base_entry = target.stat().st_size, self._base_files.get(name)
        entry = Entry(size, checksum(target) or "", stat.st_mtime_ns)
        if not (base_entry and base_entry.sha256 == entry.sha256 and self._link(name, base_entry)):
            _keep(target, stat)
            self.files[name] = entry
            self.copied_bytes += size

    def drop(self, name: str) -> None:
        """Remove a file from the backup, if it was added."""
        if self.files.pop(name, None):
            (self.folder / name).unlink()
        self.unsynced.discard(self.folder / name)

    def _link(self, name: str, entry: Entry) -> bool:
        """Link a file of the earlier backup into this one. Return False if that file is gone or has another size."""
        base = self._base / name
        try:
            status = base.lstat()
            if not stat.S_ISREG(status.st_mode) or status.st_size != entry.bytes:
                return False
            target = self._target(name)
            try:
                target.hardlink_to(base)
                self.unsynced.discard(target)
            except OSError:  # a file system without links
                shutil.copy2(base, target)
                self.copied_bytes += entry.bytes
        except FileNotFoundError:
            return False
        self.files[name] = entry
        return True

    def _target(self, name: str) -> Path:
        target = self.folder / name
        target.parent.mkdir(parents=True, exist_ok=True)
        target.unlink(missing_ok=True)  # it may be a link to a file of another backup
        self.unsynced.add(target)
        return target


def is_database(path: Path) -> bool:
    """Return whether a file is a SQLite database."""
    with path.open("rb") as file:
        return file.read(len(_SQLITE)) == _SQLITE


def damaged(folder: Path, files: Mapping[str, Entry], done: Callable[[], None] = lambda: None) -> Iterator[str]:
    """Yield the paths of a backup's files that are missing or do not match their checksums."""
    for name, entry in files.items():
        if not copied(folder, name, entry):
            yield str(folder / name)
        done()


def copied(folder: Path, name: str, entry: Entry, target: Path | None = None) -> bool:
    """Return whether a backup's file matches its entry. With ``target``, copy it there, with its mode and time.

    No link is followed, and no byte is read beyond the size of the entry.
    """
    digest, size = hashlib.sha256(), 0
    try:
        with plain_file(folder, name, entry.bytes) as read, ExitStack() as opened:
            target_file = opened.enter_context(target.open("xb")) if target else None
            while chunk := read.read(min(_CHUNK, entry.bytes + 1 - size)):
                size += len(chunk)
                if size > entry.bytes:
                    return False
                digest.update(chunk)
                if target_file:
                    target_file.write(chunk)
            status = os.fstat(read.fileno())
    except OSError as error:
        if error.errno in (errno.ENOSPC, errno.EDQUOT):
            raise
        return False
    if target:
        _keep(target, status)
    return digest.hexdigest() == entry.sha256


def checksum(path: Path) -> str | None:
    """Return the SHA-256 of a file; None if it is missing or cannot be read."""
    with suppress(OSError), path.open("rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()
    return None


def _keep(target: Path, stat: os.stat_result) -> None:
    """Give a copy the mode and the time of its source, so that only the same users read it."""
    target.chmod(stat.st_mode & 0o777)
    os.utime(target, ns=(stat.st_atime_ns, stat.st_mtime_ns))
