"""Manifests: the files of one partition with their rows, bytes and checksums.

A partition is a family of tables at one chain and instant. Readers trust manifests only. ``commits`` writes them.
"""

from __future__ import annotations

import hashlib
import os
from dataclasses import dataclass, field, replace
from datetime import datetime
from pathlib import Path, PurePath
from typing import Any, Final

import msgspec

from holderlake.core.contract.tables import FAMILY_TABLES, SIDE_TABLES
from holderlake.core.contract.times import parse_partition
from holderlake.core.storage.formats import format_fault
from holderlake.core.storage.layout import Place, manifest_path, partition_folder, place_of, table_name
from holderlake.core.storage.names import BadName, chain_name, commit_name, digest_name, family_name, timestamp_name

FAILURES: Final = "failures"
REVISIONS: Final = "revisions"
FORMAT: Final = 1
"""Format of the partitions that this version writes and reads."""


class LakeError(Exception):
    """A file or partition of the lake cannot be read or written. The message names the fault and the remedy."""


class DamagedManifest(LakeError):
    """A manifest cannot be read, or contains an invalid name. The message names the file and the fault."""


class DamagedFile(LakeError):
    """A partition cannot be copied, because a file does not match its manifest."""


@dataclass(frozen=True)
class TableFile:
    """A table's file in a partition: its number of rows, size in bytes, and SHA-256 in hexadecimal.

    A side table (``SIDE_TABLES``) without rows has no file; its entry is ``NO_FILE``.
    """

    rows: int
    bytes: int
    sha256: str


NO_FILE: Final = TableFile(0, 0, "")


@dataclass(frozen=True)
class Manifest:
    """The content of a partition. ``timestamp`` is its instant as in paths (20261120T000000Z), ``written_at`` is UTC.

    ``covered`` are the subjects (tokens, address sets, …) that were answered, also those without rows. ``options`` are
    the request options of all covered subjects. ``commit`` is a random id of the commit. ``answers``
    are the times of answers that no row shows, by subject (see ``versions``).
    """

    family: str
    chain: str
    timestamp: str
    provider: str
    written_at: datetime
    commit: str
    tables: dict[str, TableFile]
    covered: frozenset[str]
    options: dict[str, Any] = field(default_factory=dict)
    answers: dict[str, list[datetime]] = field(default_factory=dict)
    format: int = FORMAT
    unanswered: frozenset[str] = frozenset()
    """Subjects that were to be requested and have no answer: the request failed, or the run stopped before it."""
    store_change: int | None = None
    """Number of a change of your store that all rows include; None for another provider."""
    checksum: str = field(default="", compare=False)
    """SHA-256 of the manifest without this field, see ``sealed``."""

    @property
    def place(self) -> Place:
        return self.family, self.chain, self.timestamp

    @property
    def as_of(self) -> datetime:
        """The partition's instant."""
        return parse_partition(self.timestamp)

    @property
    def answered(self) -> frozenset[str]:
        """The covered subjects; empty if the partition was written before its instant: its rows are not final."""
        return frozenset() if self.written_at < self.as_of else self.covered

    @property
    def rows(self) -> int:
        """The number of rows of the family's own tables."""
        return sum(file.rows for table, file in self.tables.items() if table not in SIDE_TABLES)

    @property
    def failures(self) -> int:
        """The number of rows of the table ``failures``."""
        return self.tables[FAILURES].rows

    @property
    def revisions(self) -> int:
        """The number of rows of the table ``revisions``: changes found when the same instant was fetched again."""
        return self.tables[REVISIONS].rows


def sealed(manifest: Manifest) -> Manifest:
    """Return the manifest with its checksum, as it is written."""
    plain = msgspec.json.encode(replace(manifest, checksum=""), order="sorted")
    return replace(manifest, checksum=hashlib.sha256(plain).hexdigest())


def content(manifest: Manifest) -> tuple[object, ...]:
    """Return provider, files and covered subjects. They are equal if a partition has the same rows in two lakes."""
    return manifest.provider, manifest.tables, manifest.covered


def checked_place(path: PurePath) -> Place:
    """Return the family, chain and timestamp in a foreign manifest's path. Raises ``DamagedManifest`` for others."""
    family, chain, timestamp = place_of(path)
    try:
        return family_name(family), chain_name(chain), timestamp_name(timestamp)
    except BadName as error:
        raise DamagedManifest(f"{path} is not a valid manifest: {error}") from error


def read_manifest(path: Path) -> Manifest | None:
    """Return a manifest; None if it is missing or damaged."""
    try:
        return parsed_manifest(path.read_bytes(), path)
    except (FileNotFoundError, DamagedManifest):
        return None


def parsed_manifest(data: bytes, path: PurePath) -> Manifest:
    """Decode a manifest and check every name in it against its own path and the contract's tables.

    Paths are made from these names, and files at them are replaced and deleted. Raises ``DamagedManifest``, and
    ``LakeError`` for another format than this version reads.
    """
    try:
        if fault := format_fault(str(path), msgspec.json.decode(data, type=_Numbered).format, FORMAT):
            raise LakeError(fault)
        manifest = msgspec.json.decode(data, type=Manifest)
        _check_names(manifest, path)
    except (msgspec.DecodeError, BadName, UnicodeDecodeError) as error:
        raise DamagedManifest(f"{path} is not a valid manifest: {error}") from error
    return manifest


class _Numbered(msgspec.Struct):
    format: int


def _check_names(manifest: Manifest, path: PurePath) -> None:
    """Raise ``BadName`` if a manifest was changed, or a name in it differs from its path or is not in the contract."""
    folder = partition_folder(chain_name(manifest.chain), timestamp_name(manifest.timestamp))
    if [*folder.split("/"), family_name(manifest.family)] != [*path.parts[-3:-1], path.stem]:
        raise BadName(
            f"the manifest belongs to {manifest.family} of {manifest.chain} at {manifest.timestamp}, not to its path"
        )
    commit_name(manifest.commit)
    family_tables = FAMILY_TABLES.get(manifest.family, ())
    for name, file in manifest.tables.items():
        if name not in family_tables and name not in SIDE_TABLES:
            raise BadName(f"the manifest names the table {name!r}, which the family {manifest.family} does not have")
        if file == NO_FILE and name in SIDE_TABLES:
            continue
        digest_name(file.sha256)
        if file.rows < 0 or file.bytes < 0:
            raise BadName(
                f"the manifest lists {file.rows} rows and {file.bytes} bytes of {name}: neither number can be negative"
            )
    if manifest.checksum != sealed(manifest).checksum:
        raise BadName("its content does not match its checksum")


def file_of(root: Path, manifest: Manifest, table: str) -> Path:
    """Return the path of a table's file in a partition."""
    return root / table_name(table, manifest.chain, manifest.timestamp, manifest.family)


def files_of(root: Path, manifest: Manifest) -> list[Path]:
    """Return the paths of all files of a partition: its manifest and its tables' files."""
    path = manifest_path(root, manifest.family, manifest.chain, manifest.timestamp)
    return [path, *(file_of(root, manifest, name) for name, file in manifest.tables.items() if file != NO_FILE)]


def has_its_files(root: Path, manifest: Manifest) -> bool:
    """Return True if each file of a manifest exists with the recorded size. The files are not read.

    Paths are text: a ``Path`` is much slower for tens of thousands of files.
    """
    return all(
        _size(f"{root}/{table_name(table, manifest.chain, manifest.timestamp, manifest.family)}") == file.bytes
        for table, file in manifest.tables.items()
        if file != NO_FILE
    )


def is_intact(data: bytes, file: TableFile) -> bool:
    """Return True if ``data`` has the size and the SHA-256 that a manifest records for ``file``."""
    return len(data) == file.bytes and hashlib.sha256(data).hexdigest() == file.sha256


def table_file(rows: int, data: bytes) -> TableFile:
    """Return the ``TableFile`` of a file with a number of rows and the bytes ``data``."""
    return TableFile(rows, len(data), hashlib.sha256(data).hexdigest())


def _size(path: str) -> int:
    try:
        return os.stat(path).st_size  # noqa: PTH116 - the path is text
    except FileNotFoundError:
        return -1
