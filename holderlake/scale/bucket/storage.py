"""A lake in a bucket. Several hosts may read it and commit to it at the same time.

Objects have the names of a lake's files, with the SHA-256 in the name of a table's file. So a partition's new files
are next to the old ones until its manifest, one object with a conditional put, replaces the old manifest: readers that
trust manifests see all tables of a commit, or none. If another writer was faster, the put has no effect: the writer
reads the partition again, and merges its rows with those of the other writer. A killed writer leaves files that no
manifest lists; ``sweep`` deletes them, as well as replaced files, when they are old. A storage that ignores conditional
puts is refused before anything is written, because several do so silently.

Each host keeps copies of manifests and files (``cache``). A listing shows which copies of manifests are old.
"""

from __future__ import annotations

import re
import time
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import AbstractContextManager, nullcontext, suppress
from datetime import timedelta
from pathlib import Path, PurePath, PurePosixPath
from threading import Barrier
from typing import Final, NamedTuple
from uuid import uuid4

import msgspec
import pyarrow as pa
import pyarrow.parquet as pq

from holderlake.core.contract.tables import TABLES
from holderlake.core.contract.times import utc_now
from holderlake.core.lake.commits import QUARANTINE
from holderlake.core.lake.manifests import (
    NO_FILE,
    DamagedManifest,
    LakeError,
    Manifest,
    is_intact,
    parsed_manifest,
    sealed,
)
from holderlake.core.lake.storage import PROVIDER, FolderStorage, Latest
from holderlake.core.storage import layout
from holderlake.core.storage.layout import Place
from holderlake.scale.bucket.cache import BucketCache, Copy
from holderlake.scale.bucket.objects import Folder, Objects, TooLarge, Version, in_threads

_WRITERS: Final = 8
_CHUNK: Final = 500
_RECENT_SECONDS: Final = 10.0
CACHE_BYTES: Final = 2_000_000_000
_PROBED: Final = "probed"
ARCHIVE: Final = "_archive"
"""The folder of the bucket with the archive of answers."""
_LISTED: Final = "_listed"
"""The folder of the bucket with the names of files that Iceberg tables list, in a folder for each table."""
_FOOTER_BYTES: Final = 64 << 10
_SWEPT: Final = re.compile(layout.OBJECT)
"""Names of the objects that ``sweep`` may delete."""


class BucketError(LakeError):
    """The bucket cannot be used. The message names the reason and the remedy."""


class _Present(NamedTuple):
    """The object of a partition's manifest: its version (None if it does not exist), and its commit records."""

    version: Version | None
    records: tuple[bytes, ...] = ()


class _Records(msgspec.Struct):
    records: tuple[bytes, ...] = ()


class BucketStorage(FolderStorage):
    """The objects of a lake, and this host's copies of them in ``folder``. Safe for any number of threads.

    ``check_writer`` is called before each write, and raises if this host may not write.
    """

    keeps_records = True
    is_local = False

    def __init__(
        self,
        objects: Objects,
        folder: Path,
        cache_bytes: int = CACHE_BYTES,
        check_writer: Callable[[], object] = lambda: None,
    ) -> None:
        super().__init__(folder)
        self.objects = objects
        self.name = objects.url
        self.folder = folder
        self._cache = BucketCache(folder, cache_bytes)
        self.check_writer = check_writer
        self._provider: bytes | None = None
        self._refreshed: dict[str, float] = {}

    def probe(self) -> None:
        """Raise ``BucketError`` if the storage ignores conditional puts. To test it, threads write one object."""
        name, start = f"_probe/{uuid4().hex}", Barrier(_WRITERS)

        def write(number: int) -> bool:
            start.wait()
            return self.objects.put_if(name, str(number).encode(), None) is not None

        with ThreadPoolExecutor(_WRITERS) as pool:
            winners = sum(pool.map(write, range(_WRITERS)))
        stale = self.objects.put_if(name, b"stale", Version('"00000000000000000000000000000000"', "1"))
        self.objects.delete([name])
        if winners != 1 or stale is not None:
            raise BucketError(
                f"the storage of {self.name} ignores conditional puts ({winners} of {_WRITERS} writers won instead of "
                "one): two writers could undo each other silently; use a storage that supports them, such as S3 itself"
            )

    def locked(self, chain: str | None) -> AbstractContextManager[None]:
        """Do nothing: conditional puts decide between writers."""
        return nullcontext()

    def texts(
        self, chain: str | None = None, timestamp: str | None = None, family: str | None = None
    ) -> Iterator[tuple[PurePath, bytes]]:
        prefix = f"{layout.manifest_folder(chain, timestamp)}/"
        self.refresh(prefix)
        for name, text in self._cache.texts(prefix):
            path = PurePosixPath(name)
            if family in (None, path.stem) and timestamp in (None, layout.place_of(path)[2]):
                yield path, text

    def refresh(self, prefix: str = f"{layout.MANIFESTS}/") -> dict[str, str]:
        """Download the new and changed manifests with this prefix, and return the ETag of each by its name."""
        cached_e_tags = self._cache.e_tags(prefix)
        listed = {
            listed_object.name: listed_object.e_tag
            for listed_object in self.objects.list(prefix)
            if listed_object.name.endswith(".json")
        }
        changed = [name for name, e_tag in listed.items() if not e_tag or cached_e_tags.get(name) != e_tag]
        for start in range(0, len(changed), _CHUNK):
            self._cache.update(
                copy for copy in in_threads(self._download_manifest, changed[start : start + _CHUNK]) if copy
            )
        self._cache.update([], cached_e_tags.keys() - listed.keys())
        return listed

    def _download_manifest(self, name: str) -> Copy | None:
        stored_object = self.objects.get(name)
        return Copy(name, stored_object[1], stored_object[0]) if stored_object else None

    def complete(self, chain: str, timestamps: Collection[str]) -> Iterator[Manifest]:
        """Yield a chain's manifests at some timestamps. All their files exist, because they are written first."""
        for path, text in self.texts(chain, next(iter(timestamps)) if len(timestamps) == 1 else None):
            if layout.place_of(path)[2] in timestamps:
                try:
                    yield parsed_manifest(text, path)
                except DamagedManifest:
                    continue

    def manifest(self, place: Place) -> Manifest | None:
        return self.latest(place).manifest

    def recent(self, place: Place) -> Manifest | None:
        """Return a partition's manifest, at most ten seconds old: one listing serves all partitions of a chain."""
        prefix = f"{layout.manifest_folder(place[1])}/"
        if time.monotonic() - self._refreshed.get(prefix, float("-inf")) > _RECENT_SECONDS:
            began = time.monotonic()
            self.refresh(prefix)
            self._refreshed[prefix] = began
        name = layout.manifest_name(*place)
        text = self._cache.text(name)
        try:
            return parsed_manifest(text, PurePosixPath(name)) if text else None
        except DamagedManifest:
            return None

    def latest(self, place: Place) -> Latest:
        name = layout.manifest_name(*place)
        stored_object = self.objects.get(name)
        if stored_object is None:
            return Latest(None, _Present(None), may_exist=False)
        text, version = stored_object
        try:
            manifest = parsed_manifest(text, PurePosixPath(name))
        except DamagedManifest:
            return Latest(None, _Present(version))
        return Latest(manifest, _Present(version, msgspec.json.decode(text, type=_Records).records))

    def path(self, manifest: Manifest, table: str) -> Path:
        file = manifest.tables[table]
        if file != NO_FILE and not self._cache.use(file.sha256):
            data = self._download(manifest, table)
            if data is not None:
                self._cache.add({file.sha256: data})
        return self._cache.path(file.sha256)

    def _download(self, manifest: Manifest, table: str) -> bytes | None:
        """Return the bytes of a table's object; None if it is missing or does not match the manifest."""
        file = manifest.tables[table]
        with suppress(TooLarge):
            stored_object = self.objects.get(object_name(manifest, table), file.bytes)
            return stored_object[0] if stored_object and is_intact(stored_object[0], file) else None
        return None

    def footer(self, manifest: Manifest, table: str) -> pq.FileMetaData:
        """Return the Parquet footer of a table's file. Only the end of an object is downloaded.

        Raises ``OSError`` and ``ArrowException``.
        """
        file = manifest.tables[table]
        if self._cache.use(file.sha256):
            with suppress(OSError, pa.ArrowException):  # the copy is damaged
                return pq.read_metadata(self._cache.path(file.sha256))
        length = min(_FOOTER_BYTES, file.bytes)
        for _ in range(2):
            end = self.objects.part(object_name(manifest, table), file.bytes - length, length)
            footer_bytes = int.from_bytes(end[-8:-4], "little") + 8
            if footer_bytes <= length:
                break
            length = min(footer_bytes, file.bytes)
        return pq.read_metadata(pa.BufferReader(end))

    def note_listed(self, table_id: str, names: Iterable[str], replaced_age: timedelta | None = None) -> None:
        """Record that the Iceberg table ``table_id`` lists files, so that they are not swept.

        The table lists no other files if ``replaced_age`` is given: its records of this age are deleted.
        """
        folder = f"{_LISTED}/{table_id}/"
        oldest = utc_now() - replaced_age if replaced_age is not None else None
        old_records = [record.name for record in self.objects.list(folder) if oldest and record.changed < oldest]
        if oldest and not old_records:
            return
        self.objects.put(f"{folder}{uuid4().hex}.txt", "\n".join(names).encode())
        self.objects.delete(old_records)

    def drop_copy(self, manifest: Manifest, table: str) -> bool:
        return self._cache.drop(manifest.tables[table].sha256)

    def location(self, manifest: Manifest, table: str) -> str:
        return f"{self.name}/{object_name(manifest, table)}"

    def prefetch(self, manifests: Iterable[Manifest]) -> None:
        files = [
            (manifest, table) for manifest in manifests for table, file in manifest.tables.items() if file != NO_FILE
        ]
        in_threads(lambda file: self.path(*file), files)

    def commit(
        self, manifest: Manifest, files: Mapping[str, bytes], expected: Latest, records: Sequence[bytes] = ()
    ) -> bool:
        self.check_writable()
        old_objects = set(objects_of(expected.manifest)) if expected.manifest else set()
        new_objects = {object_name(manifest, table): data for table, data in files.items()}
        in_threads(lambda name: self.objects.put(name, new_objects[name]), new_objects.keys() - old_objects)
        present: _Present = expected.version
        name = layout.manifest_name(*manifest.place)
        text = _with_records(manifest, (*present.records, *records))
        version = self.objects.put_if(name, text, present.version) or self._own_version(manifest)
        if version is None:
            return False
        self._cache.update([Copy(name, version, text)])
        self._cache.add({manifest.tables[table].sha256: data for table, data in files.items()})
        return True

    def _own_version(self, manifest: Manifest) -> Version | None:
        """Return the version of ``manifest`` in the bucket; None if the bucket has another manifest of the partition.

        It is called after a put without an answer, to find out whether the put worked.
        """
        latest = self.latest(manifest.place)
        version: Version | None = latest.version.version
        return version if latest.manifest and latest.manifest.commit == manifest.commit else None

    def check_writable(self) -> None:
        """Raise ``LakeError`` if this host may not write, or if the storage ignores conditional puts.

        The storage is tested once a host.
        """
        self.check_writer()
        noted = self.folder / _PROBED
        if not isinstance(self.objects, Folder) and not noted.exists():
            self.probe()
            noted.parent.mkdir(parents=True, exist_ok=True)
            noted.touch()

    def set_aside(self, place: Place) -> list[str]:
        """Copy the manifest and the files of a damaged partition to the quarantine. Return the new names."""
        name = layout.manifest_name(*place)
        manifest = self.latest(place).manifest
        folder = f"{QUARANTINE}/{uuid4().hex[:12]}"
        new_names = []
        for source in (name, *(objects_of(manifest) if manifest else ())):
            stored_object = self.objects.get(source)
            if stored_object:
                self.objects.put(f"{folder}/{source}", stored_object[0])
                new_names.append(f"{self.name}/{folder}/{source}")
        return new_names

    def fault(self, manifest: Manifest, table: str, *, every_byte: bool) -> str | None:
        """Return the fault of a table's object as text, None if there is none. Only ``every_byte`` sends a request."""
        if not every_byte or self._download(manifest, table) is not None:
            return None
        with suppress(TooLarge):
            if self.objects.get(object_name(manifest, table), manifest.tables[table].bytes) is None:
                return "is missing"
        return "has another SHA-256 than in its manifest"

    def provider_note(self) -> bytes | None:
        if self._provider is None:
            stored_object = self.objects.get(PROVIDER)
            self._provider = stored_object[0] if stored_object else None
        return self._provider

    def note_provider(self, data: bytes) -> None:
        self.check_writable()
        stored_object = self.objects.get(PROVIDER)
        if stored_object:
            self.objects.put(f"{QUARANTINE}/{uuid4().hex[:12]}/{PROVIDER}", stored_object[0])
        self.objects.put_if(PROVIDER, data, stored_object[1] if stored_object else None)
        self._provider = None

    def files(self, table: str) -> list[str]:
        """Return the URLs of a table's committed files, for tools that read Parquet."""
        manifests = (parsed_manifest(text, path) for path, text in self.texts())
        return [
            self.location(manifest, table) for manifest in manifests if manifest.tables.get(table, NO_FILE) != NO_FILE
        ]

    def records(self, place: Place | None = None) -> Iterator[tuple[Place, Sequence[bytes]]]:
        """Yield each partition with its commit records, oldest first; only the partition ``place`` if it is given."""
        family, chain, timestamp = place or (None, None, None)
        for path, text in self.texts(chain, timestamp, family):
            try:
                parsed_manifest(text, path)
            except DamagedManifest:
                continue
            yield layout.place_of(path), msgspec.json.decode(text, type=_Records).records

    def sweep(self, age: timedelta) -> int:
        """Delete the unused files (see ``unused``). Return their number."""
        names = self.unused(age)
        self.objects.delete(names)
        return len(names)

    def unused(self, age: timedelta) -> set[str]:
        """Return the names of files that no manifest and no Iceberg table lists and that did not change for ``age``.

        ``age`` must be longer than a commit takes, because its files are written before its manifest.
        """
        oldest = utc_now() - age
        unused_names = {
            listed_object.name
            for table in TABLES
            for listed_object in self.objects.list(f"{table}/")
            if listed_object.changed < oldest and _SWEPT.fullmatch(listed_object.name)
        }
        for path, text in self.texts():  # read after the listing of files: newer manifests list newer files only
            try:
                unused_names -= set(objects_of(parsed_manifest(text, path)))
            except DamagedManifest:
                folder = layout.partition_folder(*layout.partition_of(path))
                unused_names = {name for name in unused_names if f"/{folder}/" not in name}
        if unused_names:
            records = [record.name for record in self.objects.list(f"{_LISTED}/")]
            for stored_object in in_threads(self.objects.get, records):
                unused_names -= {*stored_object[0].decode().split("\n")} if stored_object else set()
        return unused_names


def object_name(manifest: Manifest, table: str) -> str:
    """Return the name of the object of a table's file in a partition."""
    file = manifest.tables[table]
    return layout.object_name(table, manifest.chain, manifest.timestamp, manifest.family, file.sha256)


def objects_of(manifest: Manifest) -> list[str]:
    """Return the names of the objects of a partition's files."""
    return [object_name(manifest, table) for table, file in manifest.tables.items() if file != NO_FILE]


def _with_records(manifest: Manifest, records: Sequence[bytes]) -> bytes:
    """Encode a manifest together with the records of its commits."""
    return msgspec.json.encode(
        {**msgspec.to_builtins(sealed(manifest), order="sorted"), "records": records}, order="sorted"
    )
