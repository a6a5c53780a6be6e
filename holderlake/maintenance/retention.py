"""Deletion of data that are older than the ages of the section ``[retention]``.

Data that ``rebuild`` needs are deleted only if the caller permits it. Dagster's own runs are deleted by
``holderlake.dagster.history``.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Final

import pyarrow.compute as pc

from holderlake import console
from holderlake.contract.times import utc_now
from holderlake.lake.lake import FAILURES
from holderlake.lake.manifests import Manifest
from holderlake.lake.object_store import BucketStore
from holderlake.maintenance.prune import Prunable, prunable, prune
from holderlake.maintenance.replay import stream_of
from holderlake.workspace import Workspace

_UNUSED_AGE: Final = timedelta(days=1)
"""Least age of a file in a bucket that is deleted as unused. Younger files may belong to a running commit."""
_SHOWN: Final = 5
"""Most partitions that a warning lists by name."""


@dataclass(frozen=True)
class Expired:
    """Data of one kind that are old enough to delete: their number, their bytes, and the loss in words (``lost``).

    ``what`` names them in the plural, such as "archived answers". ``is_for_rebuild``: ``rebuild`` needs them.
    ``delete`` deletes them.
    """

    kind: str
    what: str
    count: int
    bytes: int
    lost: str
    is_for_rebuild: bool
    delete: Callable[[], object]


@dataclass(frozen=True)
class Deleted:
    """Result of a deletion: the data that were deleted, and those that were kept because a rebuild needs them."""

    deleted: list[Expired]
    kept: list[Expired]

    def __str__(self) -> str:
        parts = [f"deleted {one.count:,} {one.what}" for one in self.deleted]
        parts += [f"kept {one.count:,} {one.what}: {one.lost}" for one in self.kept]
        return "; ".join(parts) or "nothing is old enough to delete"


def expired(workspace: Workspace) -> list[Expired]:
    """Return the data of lake and archive that are old enough to delete: failures, archived and replaced answers."""
    found: list[Expired] = []
    ages = workspace.settings.retention
    if ages.failures is not None:
        found += _failures(workspace, utc_now() - ages.failures)
    if ages.archive is not None:
        found += _answers(workspace, "archive", "archived answers", prunable(workspace, ages.archive))
    if ages.revisions is not None and (ages.archive is None or ages.revisions < ages.archive):
        chosen = prunable(workspace, ages.revisions, only_superseded=True)
        found += _answers(workspace, "revisions", "replaced answers", chosen)
    if isinstance(workspace.lake.store, BucketStore):
        found += _unused(workspace.lake.store)
    return found


def delete_expired(found: Sequence[Expired], *, without_rebuild: bool) -> Deleted:
    """Delete the data ``found``. Data that a rebuild needs are deleted only with ``without_rebuild``."""
    deleted = [one for one in found if without_rebuild or not one.is_for_rebuild]
    for one in deleted:
        one.delete()
    return Deleted(deleted, [one for one in found if one not in deleted])


def _answers(workspace: Workspace, kind: str, what: str, chosen: Prunable) -> Iterator[Expired]:
    if not chosen.answers:
        return
    names = ", ".join(chosen.partitions[:_SHOWN])
    more = f" and {len(chosen.partitions) - _SHOWN:,} more" if len(chosen.partitions) > _SHOWN else ""
    if kind == "archive":
        lost = (
            "'holderlake rebuild' could only copy these partitions from the lake, and to fetch one again costs credits"
        )
    else:
        lost = "'holderlake rebuild' without the lake would lose these partitions' rows of the table revisions"
    yield Expired(
        kind,
        what,
        len(chosen.answers),
        chosen.stored_bytes,
        f"{lost}: {names}{more}",
        is_for_rebuild=True,
        delete=lambda: prune(workspace.archive, chosen),
    )


def _unused(store: BucketStore) -> Iterator[Expired]:
    if count := len(store.unused(_UNUSED_AGE)):
        yield Expired(
            "unused",
            "unused files of the bucket",
            count,
            0,
            "nothing: replaced files, and those of killed commits",
            is_for_rebuild=False,
            delete=lambda: store.sweep(_UNUSED_AGE),  # looks again, because a commit may use them by now
        )


def _failures(workspace: Workspace, before: datetime) -> Iterator[Expired]:
    old: list[tuple[Manifest, list[str]]] = []
    rows = 0
    for manifest in workspace.lake.manifests():
        if manifest.failures and manifest.written_at >= manifest.as_of:
            table = workspace.lake.rows(manifest, FAILURES)
            fresh = set(table.filter(pc.greater_equal(table["fetched_at"], before))["subject"].to_pylist())
            aged = [subject for subject in table["subject"].to_pylist() if subject not in fresh]
            if aged:
                old.append((manifest, sorted(set(aged))))
                rows += len(aged)

    def delete() -> None:
        for manifest, subjects in old:
            workspace.lake.write(
                manifest.family,
                manifest.chain,
                manifest.as_of,
                {},
                provider=manifest.provider,
                by=stream_of(manifest).by,
                requested=subjects,
                covered={},
            )
        workspace.warehouse.load(workspace.lake)

    if old:
        yield Expired(
            "failures",
            "rows of the table failures",
            rows,
            0,
            "'holderlake retry-failures' no longer repeats these requests, but a later fetch of their partitions does",
            is_for_rebuild=False,
            delete=delete,
        )


def retention_report(found: Sequence[Expired], result: Deleted | None, as_json: bool) -> None:
    """Print the data ``found`` and their loss, or after a deletion its ``result``."""
    kept = [one.kind for one in result.kept] if result else []
    if as_json:
        plain = [{name: value for name, value in vars(one).items() if name != "delete"} for one in found]
        console.as_json(
            {"found": plain, "deleted": [one.kind for one in result.deleted] if result else [], "kept": kept}
        )
        return
    if not found:
        console.out.print("Nothing is old enough to delete; [retention] in holderlake.toml has the ages.", markup=False)
        return
    if result is None:
        lines = [(one.kind, one.what, one.count, one.bytes, one.lost) for one in found]
        console.rows("Old enough to delete", ("kind", "what", "count", "bytes", "what is lost"), lines)
        return
    for one in result.deleted:
        console.out.print(f"Deleted {one.count:,} {one.what}, {one.bytes:,} bytes.")
    for one in result.kept:
        console.err.print(f"Kept {one.count:,} {one.what}: {one.lost}. --without-rebuild deletes them", soft_wrap=True)
