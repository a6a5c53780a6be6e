"""Lake and archive of a home in the bucket of the settings."""

from __future__ import annotations

import shutil
import tempfile
import weakref
from collections.abc import Callable, Mapping
from pathlib import Path

from holderlake.core.archive.archive import AnswerArchive
from holderlake.core.lake.lake import Lake
from holderlake.core.settings import Settings
from holderlake.scale.bucket.objects import Objects, open_objects
from holderlake.scale.bucket.segments import BucketSegments
from holderlake.scale.bucket.storage import ARCHIVE, CACHE_BYTES, BucketStorage
from holderlake.scale.bucket.sync import pull
from holderlake.scale.bucket.writer_lease import WriterLease


def lake_of(settings: Settings) -> Lake:
    """Open the lake at ``lake.url``. This host writes to it under a lease, or under the claims of a shared ledger."""
    url = settings.lake.url or ""
    objects, folder = open_objects(url, settings.lake.endpoint, settings.lake.region), settings.bucket_folder(url)
    return Lake(folder, BucketStorage(objects, folder, settings.lake.cache_bytes, _may_be_old(settings, objects)))


def archive_of(settings: Settings, lake: Lake) -> AnswerArchive:
    """Open the archive in the bucket of a lake."""
    storage = lake.storage
    if not isinstance(storage, BucketStorage):
        raise TypeError(f"the lake {storage.name} is not in a bucket")
    url = f"{(settings.lake.url or '').rstrip('/')}/{ARCHIVE}"
    objects = open_objects(url, settings.lake.endpoint, settings.lake.region)
    segments = BucketSegments(storage.folder / "archive", objects)
    return AnswerArchive(segments.root, segments, _may_be_old(settings, storage.objects), storage.records)


def copy_of(settings: Settings) -> Lake:
    """Return an up-to-date copy of the lake at ``lake.url``, in a folder of this host."""
    lake = settings.lake
    folder = settings.bucket_folder(lake.url or "")
    copy = Lake(folder / "copy")
    pull(copy, open_bucket(lake.url or "", lake.endpoint, lake.region, folder=folder, cache_bytes=lake.cache_bytes))
    return copy


def open_bucket(
    url: str,
    endpoint: str | None = None,
    region: str | None = None,
    secrets: Mapping[str, str] | None = None,
    folder: Path | None = None,
    cache_bytes: int = CACHE_BYTES,
) -> Lake:
    """Open the lake in the bucket and folder of a URL such as ``s3://bucket/folder``.

    Keys come from ``secrets``, or from the environment under the storage's own names. ``endpoint`` is the address of
    a server other than Amazon's. Copies of the files, at most about ``cache_bytes``, are in ``folder``, or in a
    temporary folder.
    """
    objects = open_objects(url, endpoint, region, **(secrets or {}))
    temporary = None if folder else tempfile.mkdtemp(prefix="holderlake-")
    storage = BucketStorage(objects, folder or Path(temporary or ""), cache_bytes)
    if temporary:
        weakref.finalize(storage, shutil.rmtree, temporary, ignore_errors=True)
    return Lake(storage.folder, storage)


def _may_be_old(settings: Settings, objects: Objects) -> Callable[[], bool]:
    """Return a function that raises ``LakeError`` if this home may not write to the bucket.

    Its result is True if another host may have written to the bucket since the call before.
    """
    if settings.state.url is not None:
        return lambda: True  # the hosts share one ledger, which grants the claims of answers
    return WriterLease(objects, settings.bucket_folder(settings.lake.url or "")).hold
