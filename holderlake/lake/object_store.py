"""The lake in object storage: committed partitions are pushed to a bucket and pulled from it, manifests last.

Objects are named as the lake's files, but a table's file has its SHA-256 in its name, so that a partition's next files
stand beside the old ones until its manifest, one object put on a condition, says otherwise: whoever trusts manifests
sees a partition whole, whatever is killed and when. Of two writers that push another thing one wins, and the other is
told so. A storage that does not heed conditions (several do not, without a word) is refused before anything is written.

A lake remembers what it last had in common with a bucket: a partition that only one side changed since then is brought
to the other, one that both changed is a conflict, which nobody but a person can solve.
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
import pyarrow.parquet as pq
from obstore.exceptions import AlreadyExistsError, BaseError, NotFoundError, PreconditionError
from obstore.store import from_url

from holderlake.contract.tables import TABLES, conform
from holderlake.lake import commits
from holderlake.lake.commits import NO_FILE, SIDE_TABLES, DamagedManifest, Manifest
from holderlake.lake.lake import Lake, LakeError
from holderlake.storage.atomic_files import whole_file

_MANIFESTS: Final = "_manifests/"
_RIVALS: Final = 8
_STATE: Final = "_buckets"
_READ_ATTEMPTS: Final = 5


class BucketError(LakeError):
    """The object storage can't take or give what was asked; the message says why and what to do."""


class DamagedFile(BucketError):
    """A partition cannot be moved because a file of it does not match its manifest."""


@dataclass(frozen=True)
class Known:
    """A manifest in the bucket: what it says, and the storage's mark of this very object."""

    manifest: Manifest
    e_tag: str | None


@dataclass
class Moved:
    """What a push or pull did: partitions and bytes moved, those that were alike, and names of conflicts.

    ``refused`` says which partitions were left alone because a manifest or a file of them is damaged, and why.
    """

    partitions: int = 0
    bytes: int = 0
    alike: int = 0
    conflicts: list[str] = field(default_factory=list)
    refused: list[str] = field(default_factory=list)

    @property
    def is_complete(self) -> bool:
        """Whether both sides now hold the same partitions."""
        return not self.conflicts and not self.refused


def open_bucket(
    url: str, endpoint: str | None = None, region: str | None = None, secrets: Mapping[str, str] | None = None
) -> Bucket:
    """The bucket (and folder) of an address like ``s3://bucket/folder``. Keys come from the environment, as the
    storage's own tools have them; ``endpoint`` is for servers other than Amazon's.
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
        """Raises ``BucketError`` where the storage lets two writers win: a small race of conditional puts tells."""
        name, start = f"_probe/{uuid4().hex}", Barrier(_RIVALS)

        def rival(number: int) -> bool:
            start.wait()
            return self._put(name, str(number).encode(), "create") is not None

        try:
            with ThreadPoolExecutor(_RIVALS) as pool:
                winners = sum(pool.map(rival, range(_RIVALS)))
            stale = self._put(name, b"stale", {"e_tag": '"00000000000000000000000000000000"'})
            obstore.delete(self.store, name)
        except (BaseError, OSError) as error:
            raise BucketError(f"{self.url} can't be written: {_first_line(error)}") from error
        if winners != 1 or stale is not None:
            raise BucketError(
                f"the storage of {self.url} does not heed conditional puts ({winners} of {_RIVALS} writers won where "
                "one may): two writers could undo each other without a word; use a storage that does, such as S3 itself"
            )

    def manifests(self) -> Iterator[Known]:
        """What partitions the bucket holds, by chain, timestamp and family."""
        for name, _ in sorted(self._listed()):
            known = self.known(name)
            if known:
                yield known

    def known(self, name: str) -> Known | None:
        """Return a manifest by its name, or None where there is none.

        Raises ``DamagedManifest`` where it names anything but the partition of its own name and the contract's tables.
        """
        try:
            found = obstore.get(self.store, name)
            data, e_tag = bytes(found.bytes()), found.meta["e_tag"]
        except (NotFoundError, FileNotFoundError):
            return None
        manifest = commits.parsed_manifest(data, PurePosixPath(name))
        if manifest_name(manifest) != name:
            raise DamagedManifest(f"{name} is not the name of a manifest of {self.url}")
        return Known(manifest, e_tag)

    def files(self, table: str) -> list[str]:
        """Names of a table's committed files, for tools that read Parquet by themselves."""
        holding = (one.manifest for one in self.manifests())
        return [object_name(one, table) for one in holding if table in one.tables and one.tables[table] != NO_FILE]

    def read(self, table: str) -> pa.Table:
        """A table's committed rows. Raises ``BucketError`` on a file that does not match its manifest."""
        schema = TABLES[table].schema
        found = [schema.empty_table()]
        for name, _ in sorted(self._listed()):
            found.append(self._rows(name, table))
        return pa.concat_tables(found)

    def _rows(self, name: str, table: str) -> pa.Table:
        for _ in range(_READ_ATTEMPTS):  # a newer file may have taken its place between our two looks
            known = self.known(name)
            if known is None or known.manifest.tables.get(table, NO_FILE) == NO_FILE:
                return TABLES[table].schema.empty_table()
            data = self.data(known.manifest, table)
            if data is not None:
                return conform(TABLES[table], pq.ParquetFile(pa.BufferReader(data)).read())
        raise BucketError(f"a file of {table} in {self.url} is not the one of its manifest {name}")

    def data(self, manifest: Manifest, table: str) -> bytes | None:
        """A table's file; None where it is not the one of the manifest."""
        try:
            found = bytes(obstore.get(self.store, object_name(manifest, table)).bytes())
        except (NotFoundError, FileNotFoundError):
            return None
        return found if commits.is_intact(found, manifest.tables[table]) else None

    def commit(self, manifest: Manifest, files: Mapping[str, bytes], before: Known | None) -> str | None:
        """Puts the files, then the manifest where it is still the one ``before`` (or none). None where it is not."""
        for table, data in files.items():
            self._put(object_name(manifest, table), data, "create")  # what is there is the very same
        condition: Any = "create" if before is None else {"e_tag": before.e_tag}
        e_tag = self._put(manifest_name(manifest), msgspec.json.encode(manifest, order="sorted"), condition)
        if e_tag is None or before is None:
            return e_tag
        new = {object_name(manifest, table) for table, file in manifest.tables.items() if file != NO_FILE}
        old = before.manifest
        gone = {object_name(old, table) for table, file in old.tables.items() if file != NO_FILE} - new
        if gone:
            obstore.delete(self.store, sorted(gone))
        return e_tag

    def _put(self, name: str, data: bytes, mode: Any) -> str | None:
        """The mark of the object that was put; None where the condition did not hold."""
        try:
            put = obstore.put(self.store, name, data, mode=mode, use_multipart=False)
        except (AlreadyExistsError, FileExistsError, PreconditionError):
            return None
        return str(put["e_tag"] or "")

    def _listed(self) -> Iterator[tuple[str, str | None]]:
        """Names and marks of all manifests."""
        for some in obstore.list(self.store, _MANIFESTS):
            for one in some:
                if one["path"].endswith(".json"):
                    yield one["path"], one["e_tag"]

    def listed(self) -> dict[str, str | None]:
        """The mark of each manifest by its name. Raises ``BucketError`` where the bucket can't be read."""
        try:
            return dict(self._listed())
        except (BaseError, OSError) as error:
            raise BucketError(f"{self.url} can't be read: {_first_line(error)}") from error


def manifest_name(manifest: Manifest) -> str:
    """The name of a manifest's object."""
    return str(commits.manifest_path(Path(), manifest.family, manifest.chain, manifest.timestamp))


def object_name(manifest: Manifest, table: str) -> str:
    """The name of the object of a table's file: the lake's, with the beginning of its SHA-256."""
    plain = commits.file_of(Path(), manifest, table)
    own = plain.stem if table in SIDE_TABLES else "part"
    return str(plain.with_name(f"{own}-{manifest.tables[table].sha256[:24]}.parquet"))


def push(lake: Lake, bucket: Bucket, told: Callable[[int, int], None] = lambda _, __: None) -> Moved:
    """Brings partitions that the lake has and the bucket lacks to the bucket; ``told`` hears how many of how many.

    Idempotent, and goes on where it was killed. Raises ``BucketError``.
    """
    bucket.probe()
    return _Sync(lake, bucket).run(list(lake.manifests()), _Sync.push_one, told)


def pull(lake: Lake, bucket: Bucket, told: Callable[[int, int], None] = lambda _, __: None) -> Moved:
    """Brings partitions that the bucket has and the lake lacks to the lake, as ``push`` does the other way."""
    sync = _Sync(lake, bucket)
    changed = [name for name, e_tag in sorted(sync.there.items()) if not sync.is_old_news(name, e_tag)]
    moved = sync.run(changed, _Sync.pull_one, told)
    moved.alike += len(sync.there) - len(changed)
    return moved


class _Sync:
    """A lake and a bucket, and what they last had in common: the commit and the mark of each manifest."""

    def __init__(self, lake: Lake, bucket: Bucket) -> None:
        self._lake = lake
        self._bucket = bucket
        self.there = bucket.listed()
        self._path = lake.root / _STATE / f"{hashlib.sha256(bucket.url.encode()).hexdigest()[:16]}.json"
        self._common: dict[str, tuple[str, str]] = self._read()
        self._moved = Moved()

    def _read(self) -> dict[str, tuple[str, str]]:
        try:
            return msgspec.json.decode(self._path.read_bytes(), type=dict[str, tuple[str, str]])
        except (FileNotFoundError, msgspec.DecodeError, UnicodeDecodeError):
            return {}

    def run(self, wanted: Sequence[Any], one: Callable[[_Sync, Any], None], told: Callable[[int, int], None]) -> Moved:
        """Each in turn, some at a time; what was finished is remembered whatever comes of the others."""
        self._path.parent.mkdir(parents=True, exist_ok=True)

        def move(item: Any) -> None:
            try:
                one(self, item)
            except (DamagedManifest, DamagedFile) as error:  # it does not stop the others
                self._moved.refused.append(str(error))

        try:
            with ThreadPoolExecutor(8) as pool:
                for number, _ in enumerate(pool.map(move, wanted), start=1):
                    told(number, len(wanted))
        finally:
            with whole_file(self._path) as file:
                file.write_bytes(msgspec.json.encode(self._common, order="sorted"))
        self._moved.conflicts.sort()
        self._moved.refused.sort()
        return self._moved

    def is_old_news(self, name: str, e_tag: str | None) -> bool:
        """Whether the bucket's manifest is the one that both had in common, and the lake still has it."""
        common = self._common.get(name)
        here = commits.read_manifest(self._lake.root / name)
        return common is not None and here is not None and common == (here.commit, e_tag)

    def push_one(self, here: Manifest) -> None:
        name = manifest_name(here)
        if name in self.there and self.is_old_news(name, self.there[name]):
            self._moved.alike += 1
            return
        there = self._bucket.known(name) if name in self.there else None
        if there is not None and _alike(here, there.manifest):
            self._agree(name, here, there.e_tag)
            self._moved.alike += 1
            return
        if there is not None and not self._is_base(name, there.manifest):
            self._moved.conflicts.append(name)
            return
        files = self._files(here)
        e_tag = self._bucket.commit(here, files, there)
        if e_tag is None:  # another writer was quicker
            self._moved.conflicts.append(name)
            return
        self._agree(name, here, e_tag)
        self._count(files)

    def pull_one(self, name: str) -> None:
        there = self._bucket.known(name)
        if there is None:
            return
        self._lake.check_provider(there.manifest.provider)
        root, path = self._lake.root, self._lake.root / name
        manifest = there.manifest
        files = {
            table: self._bucket.data(manifest, table) for table, file in manifest.tables.items() if file != NO_FILE
        }
        whole = {table: data for table, data in files.items() if data is not None}
        if len(whole) < len(files):
            raise DamagedFile(f"a file of {name} in {self._bucket.url} does not match its manifest; pull again")
        self._lake.claim(manifest.provider)
        with commits.locked(root, manifest.chain):
            commits.finish(root, path)
            here = self._lake.manifest(manifest.family, manifest.chain, manifest.as_of)
            if here is not None and _alike(here, manifest):
                self._agree(name, here, there.e_tag)
                self._moved.alike += 1
                return
            if here is not None and not self._is_base(name, here):
                self._moved.conflicts.append(name)
                return
            commits.commit(root, manifest, whole)
        self._agree(name, manifest, there.e_tag)
        self._count(whole)

    def _files(self, manifest: Manifest) -> dict[str, bytes]:
        files = {}
        for table, file in manifest.tables.items():
            if file == NO_FILE:
                continue
            path = commits.file_of(self._lake.root, manifest, table)
            data = path.read_bytes() if path.exists() else b""
            if not commits.is_intact(data, file):
                raise DamagedFile(f"{path} does not match its manifest; 'holderlake rebuild --damaged' repairs it")
            files[table] = data
        return files

    def _is_base(self, name: str, manifest: Manifest) -> bool:
        return name in self._common and self._common[name][0] == manifest.commit

    def _agree(self, name: str, manifest: Manifest, e_tag: str | None) -> None:
        self._common[name] = (manifest.commit, e_tag or "")

    def _count(self, files: Mapping[str, bytes]) -> None:
        self._moved.partitions += 1
        self._moved.bytes += sum(map(len, files.values()))


def _alike(one: Manifest, other: Manifest) -> bool:
    """Whether two manifests tell of the same rows."""
    return (one.provider, one.tables, one.covered) == (other.provider, other.tables, other.covered)


def _first_line(error: Exception) -> str:
    return str(error).strip().splitlines()[0][:300]
