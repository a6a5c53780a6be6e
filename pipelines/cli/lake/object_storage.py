"""What ``holderlake lake push`` and ``pull`` do: the lake of this home and the bucket of the settings."""

from __future__ import annotations

from holderlake import console
from holderlake.lake.object_store import Bucket, Moved, open_bucket, pull, push
from holderlake.settings import Settings, SettingsError
from holderlake.workspace import Workspace


def push_lake(workspace: Workspace, as_json: bool) -> bool:
    """Pushes, and tells what was done. False where there are conflicts."""
    with console.progress("pushing partitions", 0) as bar:
        moved = push(
            workspace.lake,
            _bucket(workspace.settings),
            lambda done, total: bar.update(bar.task_ids[0], completed=done, total=total),
        )
    return _told("Pushed", "the bucket", "pull", moved, as_json)


def pull_lake(workspace: Workspace, as_json: bool) -> bool:
    """Pulls, loads the warehouse, and tells what was done. False where there are conflicts."""
    with console.progress("pulling partitions", 0) as bar:
        moved = pull(
            workspace.lake,
            _bucket(workspace.settings),
            lambda done, total: bar.update(bar.task_ids[0], completed=done, total=total),
        )
    workspace.warehouse.load(workspace.lake)
    return _told("Pulled", "the lake", "push", moved, as_json)


def _bucket(settings: Settings) -> Bucket:
    chosen = settings.bucket
    if chosen.url is None:
        raise SettingsError("no bucket is named; set url under [bucket] in holderlake.toml, such as s3://bucket/lake")
    return open_bucket(chosen.url, chosen.endpoint, chosen.region)


def _told(did: str, where: str, other: str, moved: Moved, as_json: bool) -> bool:
    if as_json:
        console.as_json(vars(moved))
        return moved.is_complete
    for name in moved.conflicts:
        console.err.print(f"Changed on both sides since they last agreed, and left alone: {name}")
    if moved.conflicts:
        console.err.print(
            f"Remove the manifest of the side that gives way, here or in the bucket, and {other} or repeat."
        )
    for reason in moved.refused:
        console.err.print(f"Left alone: {reason}", soft_wrap=True)
    console.out.print(
        f"{did} {moved.partitions:,} partitions, {moved.bytes / 1e6:,.1f} MB; {moved.alike:,} were in {where} already."
    )
    return moved.is_complete
