"""Copy partitions between the lake of this home and the bucket of the settings, and report the result."""

from __future__ import annotations

from holderlake import console
from holderlake.lake.object_store import Bucket, Moved, open_bucket, pull, push
from holderlake.settings import Settings, SettingsError
from holderlake.workspace import Workspace


def push_lake(workspace: Workspace, as_json: bool) -> bool:
    """Push partitions to the bucket and print the result. Return False if there were conflicts."""
    with console.progress("pushing partitions", 0) as bar:
        moved = push(
            workspace.lake,
            _bucket(workspace.settings),
            lambda done, total: bar.update(bar.task_ids[0], completed=done, total=total),
        )
    return _report("Pushed", "the bucket", "pull", moved, as_json)


def pull_lake(workspace: Workspace, as_json: bool) -> bool:
    """Pull partitions, load the warehouse, and print the result. Return False if there were conflicts."""
    with console.progress("pulling partitions", 0) as bar:
        moved = pull(
            workspace.lake,
            _bucket(workspace.settings),
            lambda done, total: bar.update(bar.task_ids[0], completed=done, total=total),
        )
    workspace.warehouse.load(workspace.lake)
    return _report("Pulled", "the lake", "push", moved, as_json)


def _bucket(settings: Settings) -> Bucket:
    chosen = settings.bucket
    if chosen.url is None:
        raise SettingsError("no bucket is set; set url under [bucket] in holderlake.toml, for example s3://bucket/lake")
    return open_bucket(chosen.url, chosen.endpoint, chosen.region)


def _report(did: str, where: str, other: str, moved: Moved, as_json: bool) -> bool:
    if as_json:
        console.as_json(vars(moved))
        return moved.is_complete
    for name in moved.conflicts:
        console.err.print(f"Skipped, because it changed on both sides: {name}")
    if moved.conflicts:
        console.err.print(
            f"Remove the manifest that you do not need, here or in the bucket; then {other} or repeat the command."
        )
    for reason in moved.refused:
        console.err.print(f"Skipped: {reason}", soft_wrap=True)
    console.out.print(
        f"{did} {moved.partitions:,} partitions, {moved.bytes / 1e6:,.1f} MB; {moved.alike:,} were in {where} already."
    )
    return moved.is_complete
