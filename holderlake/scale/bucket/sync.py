"""Copies of partitions between two lakes: push from a host's lake to a bucket, and pull from it.

A lake records the last state that it had in common with a bucket. A partition that changed on one side since then is
copied to the other side. One that changed on both sides is a conflict: the caller chooses which side to keep.
"""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from datetime import datetime
from pathlib import PurePosixPath
from typing import Final, Literal

import msgspec
import pyarrow.compute as pc

from holderlake.core.contract.tables import SIDE_TABLES
from holderlake.core.lake.lake import Lake, LakeError
from holderlake.core.lake.manifests import (
    DamagedFile,
    DamagedManifest,
    Manifest,
    checked_place,
    content,
    parsed_manifest,
)
from holderlake.core.lake.rows import content_fault
from holderlake.core.lake.storage import Latest
from holderlake.core.storage.atomic_files import whole_file
from holderlake.core.storage.layout import Place, manifest_name
from holderlake.scale.bucket.storage import BucketStorage

_STATE: Final = "_buckets"
_AT_ONCE: Final = 8
_ATTEMPTS: Final = 5

Progress = Callable[[int, int], None]
Keep = Literal["ours", "theirs", "newest"]
"""The side of a conflict to keep: this lake's partition, the bucket's, or the one with the latest ``fetched_at``."""


@dataclass
class Moved:
    """Result of a push or pull: numbers of partitions and bytes copied, and of partitions that were equal (``alike``).

    ``conflicts`` are names of manifests that changed on both sides, ``resolved`` those of which one side was kept, and
    ``refused`` are messages about partitions that were not copied because a manifest or a file is damaged.
    """

    partitions: int = 0
    bytes: int = 0
    alike: int = 0
    conflicts: list[str] = field(default_factory=list)
    refused: list[str] = field(default_factory=list)
    resolved: list[str] = field(default_factory=list)

    @property
    def is_complete(self) -> bool:
        """True if every partition was copied or equal, so that lake and bucket agree."""
        return not self.conflicts and not self.refused


def push(lake: Lake, bucket: Lake, progress: Progress = lambda _, __: None, keep: Keep | None = None) -> Moved:
    """Copy new and changed partitions of the lake to the bucket. Raises ``BucketError`` and ``ObjectsError``.

    ``progress`` is called with the number of finished partitions and their total. A killed push can be repeated. Of a
    partition that changed on both sides, ``keep`` is copied to the other side; None reports a conflict.
    """
    sync = _Sync(lake, bucket, keep)
    sync.bucket_storage.check_writable()
    names = [manifest_name(*manifest.place) for manifest in lake.manifests()]
    return sync.run(names, lambda name: sync.copy(name, to_bucket=True), progress)


def pull(lake: Lake, bucket: Lake, progress: Progress = lambda _, __: None, keep: Keep | None = None) -> Moved:
    """Copy new and changed partitions of the bucket to the lake. Raises ``BucketError`` and ``ObjectsError``.

    ``progress`` is called with the number of finished partitions and their total. Of a partition that changed on both
    sides, ``keep`` is copied to the other side; None reports a conflict.
    """
    sync = _Sync(lake, bucket, keep)
    return sync.run(sorted(sync.remote), lambda name: sync.copy(name, to_bucket=False), progress)


class _Sync:
    """A lake and a bucket, with their last common state: the commit and the ETag of each manifest."""

    def __init__(self, lake: Lake, bucket: Lake, keep: Keep | None) -> None:
        if not isinstance(bucket.storage, BucketStorage):
            raise LakeError(f"the lake {bucket.root} is not in a bucket: push to a bucket and pull from a bucket")
        self._lake, self._bucket, self._keep = lake, bucket, keep
        self.bucket_storage = bucket.storage
        self.remote = self.bucket_storage.refresh()
        self._path = lake.root / _STATE / f"{hashlib.sha256(self.bucket_storage.name.encode()).hexdigest()[:16]}.json"
        self._common = self._read()
        self._report = Moved()

    def _read(self) -> dict[str, tuple[str, str]]:
        try:
            common = msgspec.json.decode(self._path.read_bytes(), type=dict[str, tuple[str, str]])
        except (FileNotFoundError, msgspec.DecodeError, UnicodeDecodeError):
            return {}
        return {name: (commit, e_tag.strip('"')) for name, (commit, e_tag) in common.items()}

    def run(self, names: Sequence[str], copy_one: Callable[[str], None], progress: Progress) -> Moved:
        """Call ``copy_one`` for the name of each manifest, in eight threads, and return the result of all.

        The state of the copied partitions is saved even if one of the calls raises.
        """
        self._path.parent.mkdir(parents=True, exist_ok=True)

        def copy(name: str) -> None:
            try:
                copy_one(name)
            except (DamagedManifest, DamagedFile) as error:  # the other items are still copied
                self._report.refused.append(str(error))

        try:
            with ThreadPoolExecutor(_AT_ONCE) as pool:
                for number, _ in enumerate(pool.map(copy, names), start=1):
                    progress(number, len(names))
        finally:
            with whole_file(self._path) as file:
                file.write_bytes(msgspec.json.encode(self._common, order="sorted"))
        for texts in (self._report.conflicts, self._report.refused, self._report.resolved):
            texts.sort()
        return self._report

    def copy(self, name: str, *, to_bucket: bool) -> None:
        """Copy one partition, unless it is equal on both sides, or changed on both."""
        place = checked_place(PurePosixPath(name))
        for _ in range(_ATTEMPTS):  # another writer may change a side between reading and writing it
            ours = _latest(self._lake, place)
            if ours.manifest and self._common.get(name) == (ours.manifest.commit, self.remote.get(name)):
                self._report.alike += 1
                return
            theirs = self._latest_there(name, place)
            if self._compared(name, ours, theirs, to_bucket):
                return
        self._report.conflicts.append(name)

    def _latest_there(self, name: str, place: Place) -> Latest:
        """Return the state of a partition in the bucket. Raises ``DamagedManifest``."""
        latest = _latest(self._bucket, place)
        if latest.manifest is None and latest.version.version is not None:
            stored_object = self.bucket_storage.objects.get(name)
            parsed_manifest(stored_object[0] if stored_object else b"", PurePosixPath(name))
        return latest

    def _compared(self, name: str, ours: Latest, theirs: Latest, to_bucket: bool) -> bool:
        """Copy a partition if one side has to change. Return False if another writer changed that side meanwhile.

        ``ours`` is its state in the lake, ``theirs`` in the bucket. Unless both sides have changed, only the bucket
        changes if ``to_bucket``, else only the lake.
        """
        common = self._common.get(name, ("", ""))
        lake_changed = ours.manifest is not None and ours.manifest.commit != common[0]
        bucket_changed = theirs.manifest is not None and _e_tag(theirs) != common[1]
        if ours.manifest and theirs.manifest and content(ours.manifest) == content(theirs.manifest):
            self._common[name] = (ours.manifest.commit, _e_tag(theirs))
            self._report.alike += 1
        elif lake_changed and bucket_changed:
            return self._resolved(name, ours, theirs)
        elif to_bucket and ours.manifest and (lake_changed or theirs.manifest is None):
            return self._copied(name, self._bucket, ours.manifest, theirs)
        elif not to_bucket and theirs.manifest and (bucket_changed or ours.manifest is None):
            return self._copied(name, self._lake, theirs.manifest, ours)
        return True

    def _resolved(self, name: str, ours: Latest, theirs: Latest) -> bool:
        """Copy the side to keep, and move the other side's partition to its quarantine; or note a conflict.

        Return False if another writer changed the other side meanwhile.
        """
        if self._keep is None or ours.manifest is None or theirs.manifest is None:
            self._report.conflicts.append(name)
            return True
        if self._keep == "newest":
            is_ours = _fetched_at(self._lake, ours.manifest) >= _fetched_at(self._bucket, theirs.manifest)
        else:
            is_ours = self._keep == "ours"
        done = (
            self._copied(name, self._bucket, ours.manifest, theirs, quarantine=True)
            if is_ours
            else self._copied(name, self._lake, theirs.manifest, ours, quarantine=True)
        )
        if done:
            self._report.resolved.append(name)
        return done

    def _copied(self, name: str, target: Lake, manifest: Manifest, expected: Latest, quarantine: bool = False) -> bool:
        """Copy a partition to ``target``. Return False if ``expected`` is not the target's current state any more."""
        source = self._lake if target is self._bucket else self._bucket
        source.storage.prefetch([manifest])
        files = source.files(manifest)
        if target is self._lake:
            for table, data in files.items():
                if fault := content_fault(manifest, table, data):
                    raise DamagedFile(f"{source.storage.location(manifest, table)} {fault}; push its partition again")
        if not target.replace(manifest, files, expected, quarantine=quarantine):
            return False
        self._common[name] = (manifest.commit, _e_tag(_latest(self._bucket, manifest.place)))
        self._report.partitions += 1
        self._report.bytes += sum(map(len, files.values()))
        return True


def _latest(lake: Lake, place: Place) -> Latest:
    with lake.storage.locked(place[1]):
        return lake.storage.latest(place)


def _e_tag(latest: Latest) -> str:
    return latest.version.version.listed if latest.version.version else ""


def _fetched_at(lake: Lake, manifest: Manifest) -> datetime:
    """Return the time at which the newest row of a partition was fetched; of one without rows, its commit's time."""
    tables = [table for table, file in manifest.tables.items() if file.rows and table not in SIDE_TABLES]
    latest = [pc.max(lake.rows(manifest, table)["fetched_at"]).as_py() for table in tables]
    return max(latest, default=manifest.written_at)
