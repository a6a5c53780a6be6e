"""Copy partitions between the lake and the bucket of the settings; delete unused files of a lake in a bucket."""

from __future__ import annotations

from collections.abc import Callable
from datetime import timedelta

from holderlake import console
from holderlake.lake.lake import Lake
from holderlake.lake.object_store import BucketStore, open_bucket
from holderlake.lake.sync import Keep, Moved, Progress, pull, push
from holderlake.settings import Settings, SettingsError
from holderlake.units import counted
from holderlake.workspace import Workspace

_CACHE_BYTES = 64_000_000
"""Most bytes of the bucket's files in the local cache during a copy.

A small cache suffices: the lake keeps the files.
"""
_LEAST_AGE = timedelta(hours=1)
"""Least age of a file that may be deleted as unused. Younger files may belong to a running commit."""


def chosen_side(ours: bool, theirs: bool, newest: bool) -> Keep | None:
    """Return the side of a conflict that the user chose to keep, or None."""
    if ours + theirs + newest > 1:
        raise ValueError("--ours, --theirs and --newest cannot be combined: give one of them")
    return "ours" if ours else "theirs" if theirs else "newest" if newest else None


def push_lake(workspace: Workspace, keep: Keep | None, as_json: bool) -> bool:
    """Copy partitions to the bucket and print the result. Return False if there were conflicts."""
    result = _copied(workspace, push, "pushing partitions", keep)
    return _report("Pushed", "the bucket", result, as_json)


def pull_lake(workspace: Workspace, keep: Keep | None, as_json: bool) -> bool:
    """Copy partitions from the bucket, load the warehouse, print the result. Return False if there were conflicts."""
    result = _copied(workspace, pull, "pulling partitions", keep)
    workspace.warehouse.load(workspace.lake)
    return _report("Pulled", "the lake", result, as_json)


def _copied(
    workspace: Workspace, copy: Callable[[Lake, Lake, Progress, Keep | None], Moved], title: str, keep: Keep | None
) -> Moved:
    with console.progress(title, 0) as bar:
        return copy(
            workspace.lake,
            _bucket(workspace.settings),
            lambda done, total: bar.update(bar.task_ids[0], completed=done, total=total),
            keep,
        )


def clean_lake(workspace: Workspace, age: timedelta, as_json: bool) -> None:
    """Delete files of the lake's bucket that no manifest lists and that are older than ``age``."""
    store = workspace.lake.store
    if not isinstance(store, BucketStore):
        raise SettingsError(
            "the lake is not in a bucket (lake.url is not set): a local lake has no unused files to delete"
        )
    if age < _LEAST_AGE:
        raise ValueError(f"invalid age {age}: use one hour or more, because a running commit may need younger files")
    deleted = store.sweep(age)
    if as_json:
        console.as_json({"deleted": deleted})
        return
    console.out.print(f"Deleted {deleted:,} unused files of {store.name}.")


def _bucket(settings: Settings) -> Lake:
    bucket = settings.bucket
    if bucket.url is None:
        raise SettingsError("no bucket is set; set url under [bucket] in holderlake.toml, for example s3://bucket/lake")
    folder = settings.bucket_folder(bucket.url)
    return open_bucket(bucket.url, bucket.endpoint, bucket.region, folder=folder, cache_bytes=_CACHE_BYTES)


def _report(did: str, destination: str, result: Moved, as_json: bool) -> bool:
    if as_json:
        console.as_json(vars(result))
        return result.is_complete
    for name in result.conflicts:
        console.err.print(f"Skipped, because it changed on both sides: {name}")
    if result.conflicts:
        console.err.print(
            "Repeat the command with --ours (keep this lake's partition), --theirs (keep the bucket's) or --newest "
            "(keep the one that was fetched last). The other one is kept in the folder _quarantine."
        )
    for reason in result.refused:
        console.err.print(f"Skipped: {reason}", soft_wrap=True)
    resolved = f"{counted(len(result.resolved), 'conflict', 'was')} resolved; " if result.resolved else ""
    console.out.print(
        f"{did} {counted(result.partitions, 'partition')}, {result.bytes / 1e6:,.1f} MB; {resolved}"
        f"{destination} had {result.alike:,} already."
    )
    return result.is_complete
