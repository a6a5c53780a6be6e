"""The storage of a lake's files in a folder of this host.

``Lake`` merges, checks and commits rows; its storage reads and writes the files of its partitions.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager
from pathlib import Path, PurePath
from typing import Any, Final, NamedTuple

from holderlake.core.lake import commits
from holderlake.core.lake.manifests import (
    Manifest,
    file_of,
    has_its_files,
    is_intact,
    read_manifest,
)
from holderlake.core.storage.atomic_files import set_aside, whole_file
from holderlake.core.storage.layout import Place, manifest_path

PROVIDER: Final = "_provider.json"


class Latest(NamedTuple):
    """The current state of a partition, which ``commit`` replaces.

    ``manifest`` is None if it is missing or damaged. ``version`` is that of the manifest's object in a bucket.
    ``may_exist`` is False if the partition surely has no files.
    """

    manifest: Manifest | None
    version: Any = None
    may_exist: bool = True


class FolderStorage:
    """The files of a lake in a folder of this host. ``name`` is the folder. ``commits`` has the steps of a commit.

    ``keeps_records`` is True if commit records are kept in manifests, as in a bucket. Another storage is a
    subclass with the same methods.
    """

    keeps_records = False
    is_local = True

    def __init__(self, root: Path) -> None:
        self.root = root
        self.name = str(root)

    def locked(self, chain: str | None) -> AbstractContextManager[None]:
        """Hold the lock of a chain's commits, or the lake's own lock (None), if the storage has locks."""
        return commits.locked(self.root, chain)

    def texts(
        self, chain: str | None = None, timestamp: str | None = None, family: str | None = None
    ) -> Iterator[tuple[PurePath, bytes]]:
        """Yield path and bytes of each manifest, or of one chain, timestamp or family, by chain and timestamp."""
        for path in commits.manifest_paths(self.root, chain, timestamp):
            if family in (None, path.stem):
                try:
                    yield path, path.read_bytes()
                except FileNotFoundError:  # moved to the quarantine by another process
                    continue

    def complete(self, chain: str, timestamps: Collection[str]) -> Iterator[Manifest]:
        """Yield a chain's manifests at some timestamps, without those that lack a file."""
        return commits.complete_manifests(self.root, chain, timestamps)

    def manifest(self, place: Place) -> Manifest | None:
        """Return a partition's manifest; None if it is missing or lacks a file."""
        manifest = read_manifest(commits.settled_manifest_path(self.root, *place))
        return manifest if manifest and has_its_files(self.root, manifest) else None

    def recent(self, place: Place) -> Manifest | None:
        """Return a partition's manifest, in a bucket as of some seconds ago; None if it is missing or lacks a file."""
        return self.manifest(place)

    def latest(self, place: Place) -> Latest:
        """Return a partition's manifest, complete or not, for a commit. The caller holds the chain's lock."""
        path = manifest_path(self.root, *place)
        commits.finish(self.root, path)
        return Latest(read_manifest(path))

    def path(self, manifest: Manifest, table: str) -> Path:
        """Return the path of a table's file on this host, existing or not; download it first from a bucket."""
        return file_of(self.root, manifest, table)

    def drop_copy(self, manifest: Manifest, table: str) -> bool:
        """Delete this host's copy of a table's file in a bucket. Return False if there is none."""
        return False

    def location(self, manifest: Manifest, table: str) -> str:
        """Return the path or URL of a table's file, for messages."""
        return str(self.path(manifest, table))

    def prefetch(self, manifests: Iterable[Manifest]) -> None:
        """Download the files of partitions from a bucket, several at a time. Those of a folder are on this host."""

    def commit(
        self, manifest: Manifest, files: Mapping[str, bytes], expected: Latest, records: Sequence[bytes] = ()
    ) -> bool:
        """Write a partition's files (bytes by table) and its manifest so that they appear together.

        Returns False, and changes nothing that readers see, if another writer has replaced ``expected``. A storage that
        ``keeps_records`` keeps the commit records ``records`` in the manifest.
        """
        commits.commit(self.root, manifest, files)
        return True

    def set_aside(self, place: Place) -> list[str]:
        """Copy or move a damaged partition to the quarantine, and return the new names of its files."""
        return [str(path) for path in commits.set_partition_aside(self.root, manifest_path(self.root, *place))]

    def fault(self, manifest: Manifest, table: str, *, every_byte: bool) -> str | None:
        """Return the fault of a table's file as text, None if there is none. Without ``every_byte`` compare sizes."""
        path, file = self.path(manifest, table), manifest.tables[table]
        try:
            size = path.stat().st_size
            if size != file.bytes:
                return f"has {size:,} bytes instead of {file.bytes:,} as in its manifest"
            if every_byte and not is_intact(path.read_bytes(), file):
                return "has another SHA-256 than in its manifest"
        except FileNotFoundError:
            return "is missing"
        except OSError as error:
            return f"cannot be read: {error.strerror}"
        return None

    def provider_note(self) -> bytes | None:
        """Return the content of the file that names the lake's provider; None if it is missing."""
        try:
            return (self.root / PROVIDER).read_bytes()
        except FileNotFoundError:
            return None

    def note_provider(self, data: bytes) -> None:
        """Write the file that names the lake's provider. The caller holds the lake's own lock."""
        path = self.root / PROVIDER
        if path.exists():
            set_aside(path, self.root, commits.QUARANTINE)
        with whole_file(path) as file:
            file.write_bytes(data)
