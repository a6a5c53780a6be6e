"""The lake in object storage: push committed partitions to a bucket, and pull them from it.

Objects have the names of the lake's files, with the SHA-256 in the name of a table's file. So a partition's new files
are next to the old ones until its manifest, one object with a conditional put, replaces the old manifest: readers that
trust manifests always see a complete partition. If two writers push different partitions, one wins, and the other
reports a conflict. A storage that ignores conditional puts is refused before anything is written, because several do
so silently.

A lake records the last state that it had in common with a bucket. A partition that changed on one side since then is
copied to the other side. One that changed on both sides is a conflict, which a person has to solve.
"""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from pathlib import Path, PurePosixPath
from threading import Barrier
from typing import Any, Final
from uuid import uuid4

import msgspec
import obstore
import pyarrow as pa
from obstore.exceptions import AlreadyExistsError, BaseError, NotFoundError, PreconditionError
from obstore.store import from_url

from holderlake.lake import commits
from holderlake.lake.lake import Lake, LakeError
from holderlake.lake.manifests import (
    MANIFESTS,
    NO_FILE,
    SIDE_TABLES,
    DamagedManifest,
    Manifest,
    file_of,
    is_intact,
    manifest_path,
    parsed_manifest,
    read_manifest,
)
from holderlake.lake.rows import empty, from_parquet
from holderlake.storage.atomic_files import whole_file

_WRITERS: Final = 8
_STATE: Final = "_buckets"
_READ_ATTEMPTS: Final = 5
Progress = Callable[[int, int], None]


class BucketError(LakeError):
    """The bucket cannot be read or written. The message names the reason and the remedy."""


class DamagedFile(BucketError):
    """A partition cannot be copied, because a file does not match its manifest."""


@dataclass(frozen=True)
class StoredManifest:
    """A manifest in the bucket, with the storage's ETag of the object."""

    manifest: Manifest
    e_tag: str | None


@dataclass
class Moved:
    """Result of a push or pull: numbers of partitions and bytes copied, and of partitions that were equal (``alike``).

    ``conflicts`` are names of manifests that changed on both sides, and ``refused`` are messages about
    partitions that were not copied because a manifest or a file is damaged.
    """

    partitions: int = 0
    bytes: int = 0
    alike: int = 0
    conflicts: list[str] = field(default_factory=list)
    refused: list[str] = field(default_factory=list)

    @property
    def is_complete(self) -> bool:
        """True if every partition was copied or equal, so that lake and bucket agree."""
        return not self.conflicts and not self.refused


def open_bucket(
    url: str, endpoint: str | None = None, region: str | None = None, secrets: Mapping[str, str] | None = None
) -> Bucket:
    """Open the bucket (and folder) of a URL such as ``s3://bucket/folder``.

    Keys come from ``secrets``, or from the environment under the storage's own names. ``endpoint`` is the address of
    a server other than Amazon's.
    """
    config: dict[str, Any] = dict(secrets or {})
    if url.startswith("s3") and endpoint:
        config |= {"endpoint": endpoint, "virtual_hosted_style_request": False}
    if url.startswith("s3") and region:
        config["region"] = region
    options = {"allow_http": True} if (endpoint or "").startswith("http://") else {}
    return Bucket(from_url(url, config=config or None, client_options=options or None), url)


class Bucket:
    """A lake in object storage. Safe for any number of processes and threads."""

    def __init__(self, store: Any, url: str) -> None:
        self.store = store
        self.url = url

    def probe(self) -> None:
        """Raise ``BucketError`` if the storage ignores conditional puts. To test it, threads write one object."""
        name, start = f"_probe/{uuid4().hex}", Barrier(_WRITERS)

        def write(number: int) -> bool:
            start.wait()
            return self._put(name, str(number).encode(), "create") is not None

        try:
            with ThreadPoolExecutor(_WRITERS) as pool:
                winners = sum(pool.map(write, range(_WRITERS)))
            stale = self._put(name, b"stale", {"e_tag": '"00000000000000000000000000000000"'})
            obstore.delete(self.store, name)
        except (BaseError, OSError) as error:
            raise BucketError(f"{self.url} can't be written: {_first_line(error)}") from error
        if winners != 1 or stale is not None:
            raise BucketError(
                f"the storage of {self.url} ignores conditional puts ({winners} of {_WRITERS} writers won instead of "
                "one): two writers could undo each other silently; use a storage that supports them, such as S3 itself"
            )

    def manifests(self) -> Iterator[StoredManifest]:
        """Yield the bucket's manifests by chain, timestamp and family."""
        for name in sorted(self.e_tags()):
            stored = self.manifest(name)
            if stored:
                yield stored

    def manifest(self, name: str) -> StoredManifest | None:
        """Return a manifest by the name of its object; None if there is no object of this name.

        Raises ``DamagedManifest`` if the manifest is invalid, or its partition does not match the name.
        """
        try:
            response = obstore.get(self.store, name)
            data, e_tag = bytes(response.bytes()), response.meta["e_tag"]
        except (NotFoundError, FileNotFoundError):
            return None
        manifest = parsed_manifest(data, PurePosixPath(name))
        if manifest_name(manifest) != name:
            raise DamagedManifest(f"{name} is not the name of a manifest of {self.url}")
        return StoredManifest(manifest, e_tag)

    def files(self, table: str) -> list[str]:
        """Return the names of a table's committed files, for tools that read Parquet."""
        manifests = (stored.manifest for stored in self.manifests())
        return [object_name(one, table) for one in manifests if one.tables.get(table, NO_FILE) != NO_FILE]

    def read(self, table: str) -> pa.Table:
        """Return a table's committed rows. Raises ``BucketError`` if a file does not match its manifest."""
        return pa.concat_tables([empty(table), *(self._rows(name, table) for name in sorted(self.e_tags()))])

    def _rows(self, name: str, table: str) -> pa.Table:
        for _ in range(_READ_ATTEMPTS):  # a newer file may replace it after its manifest was read
            stored = self.manifest(name)
            if stored is None or stored.manifest.tables.get(table, NO_FILE) == NO_FILE:
                return empty(table)
            data = self.data(stored.manifest, table)
            if data is not None:
                return from_parquet(table, data)
        raise BucketError(f"a file of {table} in {self.url} does not match its manifest {name}; push it again")

    def data(self, manifest: Manifest, table: str) -> bytes | None:
        """Return the bytes of a table's object; None if it is missing or does not match the manifest."""
        try:
            data = bytes(obstore.get(self.store, object_name(manifest, table)).bytes())
        except (NotFoundError, FileNotFoundError):
            return None
        return data if is_intact(data, manifest.tables[table]) else None

    def commit(self, manifest: Manifest, files: Mapping[str, bytes], before: StoredManifest | None) -> str | None:
        """Put the files (bytes by table), then the manifest, and return the manifest's ETag.

        ``before`` is the stored manifest to replace, None for a new one. Returns None, and does not replace the stored
        manifest, if another writer has replaced it.
        """
        for table, data in files.items():
            self._put(object_name(manifest, table), data, "create")  # an existing object of this name is equal
        condition: Any = "create" if before is None else {"e_tag": before.e_tag}
        e_tag = self._put(manifest_name(manifest), msgspec.json.encode(manifest, order="sorted"), condition)
        if e_tag is None or before is None:
            return e_tag
        new = {object_name(manifest, table) for table, file in manifest.tables.items() if file != NO_FILE}
        old = before.manifest
        replaced = {object_name(old, table) for table, file in old.tables.items() if file != NO_FILE} - new
        if replaced:
            obstore.delete(self.store, sorted(replaced))
        return e_tag

    def _put(self, name: str, data: bytes, mode: Any) -> str | None:
        """Put an object and return its ETag; None if the condition ``mode`` (obstore's ``mode``) did not hold."""
        try:
            put = obstore.put(self.store, name, data, mode=mode, use_multipart=False)
        except (AlreadyExistsError, FileExistsError, PreconditionError):
            return None
        return str(put["e_tag"] or "")

    def e_tags(self) -> dict[str, str | None]:
        """Return the ETag of each manifest by its name. Raises ``BucketError`` if the bucket can't be read."""
        try:
            objects = [one for page in obstore.list(self.store, f"{MANIFESTS}/") for one in page]
        except (BaseError, OSError) as error:
            raise BucketError(f"{self.url} can't be read: {_first_line(error)}") from error
        return {one["path"]: one["e_tag"] for one in objects if one["path"].endswith(".json")}


def manifest_name(manifest: Manifest) -> str:
    """Return the name of a manifest's object."""
    return str(manifest_path(Path(), *manifest.place))


def object_name(manifest: Manifest, table: str) -> str:
    """Return the name of a table's object: the path in the lake, with the start of the file's SHA-256."""
    path = file_of(Path(), manifest, table)
    stem = path.stem if table in SIDE_TABLES else "part"
    return str(path.with_name(f"{stem}-{manifest.tables[table].sha256[:24]}.parquet"))


def push(lake: Lake, bucket: Bucket, progress: Progress = lambda _, __: None) -> Moved:
    """Copy new and changed partitions of the lake to the bucket. Raises ``BucketError``.

    ``progress`` is called with the number of finished partitions and their total. A killed push can be repeated.
    """
    bucket.probe()
    return _Sync(lake, bucket).run(list(lake.manifests()), _Sync.push_one, progress)


def pull(lake: Lake, bucket: Bucket, progress: Progress = lambda _, __: None) -> Moved:
    """Copy new and changed partitions of the bucket to the lake. ``progress`` and errors are those of ``push``."""
    sync = _Sync(lake, bucket)
    changed = [name for name, e_tag in sorted(sync.remote.items()) if not sync.is_unchanged(name, e_tag)]
    moved = sync.run(changed, _Sync.pull_one, progress)
    moved.alike += len(sync.remote) - len(changed)
    return moved


class _Sync:
    """A lake and a bucket, with their last common state: the commit and the ETag of each manifest."""

    def __init__(self, lake: Lake, bucket: Bucket) -> None:
        self._lake = lake
        self._bucket = bucket
        self.remote = bucket.e_tags()
        self._path = lake.root / _STATE / f"{hashlib.sha256(bucket.url.encode()).hexdigest()[:16]}.json"
        self._common: dict[str, tuple[str, str]] = self._read()
        self._moved = Moved()

    def _read(self) -> dict[str, tuple[str, str]]:
        try:
            return msgspec.json.decode(self._path.read_bytes(), type=dict[str, tuple[str, str]])
        except (FileNotFoundError, msgspec.DecodeError, UnicodeDecodeError):
            return {}

    def run(self, items: Sequence[Any], copy_one: Callable[[_Sync, Any], None], progress: Progress) -> Moved:
        """Call ``copy_one`` for each item (a manifest, or its name) in eight threads.

        The state of the copied partitions is saved even if one of the calls raises.
        """
        self._path.parent.mkdir(parents=True, exist_ok=True)

        def copy(item: Any) -> None:
            try:
                copy_one(self, item)
            except (DamagedManifest, DamagedFile) as error:  # the other items are still copied
                self._moved.refused.append(str(error))

        try:
            with ThreadPoolExecutor(8) as pool:
                for number, _ in enumerate(pool.map(copy, items), start=1):
                    progress(number, len(items))
        finally:
            with whole_file(self._path) as file:
                file.write_bytes(msgspec.json.encode(self._common, order="sorted"))
        self._moved.conflicts.sort()
        self._moved.refused.sort()
        return self._moved

    def is_unchanged(self, name: str, e_tag: str | None) -> bool:
        """Return True if lake and bucket still have the manifest of their last common state."""
        common = self._common.get(name)
        local = read_manifest(self._lake.root / name)
        return common is not None and local is not None and common == (local.commit, e_tag)

    def push_one(self, local: Manifest) -> None:
        name = manifest_name(local)
        if name in self.remote and self.is_unchanged(name, self.remote[name]):
            self._moved.alike += 1
            return
        remote = self._bucket.manifest(name) if name in self.remote else None
        if remote is not None and self._is_settled(name, local, remote, self._is_base(name, remote.manifest)):
            return
        files = self._files(local)
        e_tag = self._bucket.commit(local, files, remote)
        if e_tag is None:  # another writer was faster
            self._moved.conflicts.append(name)
            return
        self._note_copied(name, local, e_tag, files)

    def pull_one(self, name: str) -> None:
        remote = self._bucket.manifest(name)
        if remote is None:
            return
        manifest = remote.manifest
        self._lake.check_provider(manifest.provider)
        files = {}
        for table, file in manifest.tables.items():
            if file == NO_FILE:
                continue
            data = self._bucket.data(manifest, table)
            if data is None:
                raise DamagedFile(f"a file of {name} in {self._bucket.url} does not match its manifest; pull again")
            files[table] = data
        self._lake.claim(manifest.provider)
        with commits.locked(self._lake.root, manifest.chain):
            commits.finish(self._lake.root, self._lake.root / name)
            local = self._lake.manifest(manifest.family, manifest.chain, manifest.as_of)
            if local is not None and self._is_settled(name, local, remote, self._is_base(name, local)):
                return
            commits.commit(self._lake.root, manifest, files)
        self._note_copied(name, manifest, remote.e_tag, files)

    def _is_settled(self, name: str, local: Manifest, remote: StoredManifest, may_replace: bool) -> bool:
        """Return True if nothing is to copy: both sides have the same rows, or both changed. Counts either case."""
        other = remote.manifest
        if (local.provider, local.tables, local.covered) == (other.provider, other.tables, other.covered):
            self._common[name] = (local.commit, remote.e_tag or "")
            self._moved.alike += 1
        elif not may_replace:
            self._moved.conflicts.append(name)
        else:
            return False
        return True

    def _files(self, manifest: Manifest) -> dict[str, bytes]:
        files = {}
        for table, file in manifest.tables.items():
            if file == NO_FILE:
                continue
            path = file_of(self._lake.root, manifest, table)
            data = path.read_bytes() if path.exists() else b""
            if not is_intact(data, file):
                raise DamagedFile(f"{path} does not match its manifest; 'holderlake rebuild --damaged' repairs it")
            files[table] = data
        return files

    def _is_base(self, name: str, manifest: Manifest) -> bool:
        """Return True if the manifest is that of the last common state of lake and bucket."""
        return name in self._common and self._common[name][0] == manifest.commit

    def _note_copied(self, name: str, manifest: Manifest, e_tag: str | None, files: Mapping[str, bytes]) -> None:
        self._common[name] = (manifest.commit, e_tag or "")
        self._moved.partitions += 1
        self._moved.bytes += sum(map(len, files.values()))


def _first_line(error: Exception) -> str:
    return str(error).strip().splitlines()[0][:300]
