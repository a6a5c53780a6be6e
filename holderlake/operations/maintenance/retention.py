"""Deletion of data that are older than the ages of the section ``[retention]``.

Data that ``rebuild`` needs are deleted only if the caller permits it. Dagster's own runs are deleted by
``holderlake.operations.history.history``.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Final

import pyarrow.compute as pc

from holderlake.core.archive import provenance
from holderlake.core.archive.archive import StoredAnswer
from holderlake.core.archive.provenance import Commit
from holderlake.core.contract.times import utc_now
from holderlake.core.lake.lake import FAILURES, PartitionUpdate
from holderlake.core.lake.manifests import Manifest
from holderlake.core.workspace import Workspace
from holderlake.operations.maintenance.replay_commits import stream_of
from holderlake.scale.bucket.storage import BucketStorage

_UNUSED_AGE: Final = timedelta(days=1)
"""Minimum age of a file in a bucket that is deleted as unused. Younger files may belong to a running commit."""
_SHOWN_PARTITIONS: Final = 5
"""Maximum partitions that a warning lists by name."""


@dataclass(frozen=True)
class Prunable:
    """Answers that may be removed, and the names of the partitions that can't be rebuilt without them."""

    answers: list[StoredAnswer]
    partitions: list[str]

    @property
    def stored_bytes(self) -> int:
        return sum(answer.stored_bytes for answer in self.answers)


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
        parts = [f"deleted {data.count:,} {data.what}" for data in self.deleted]
        parts += [f"kept {data.count:,} {data.what}: {data.lost}" for data in self.kept]
        return "; ".join(parts) or "nothing is old enough to delete"


def expired(workspace: Workspace) -> list[Expired]:
    """Return the data of lake and archive that are old enough to delete: failures, archived and replaced answers."""
    expired_data: list[Expired] = []
    ages = workspace.settings.retention
    if ages.failures is not None:
        expired_data += _failures(workspace, utc_now() - ages.failures)
    if ages.archive is not None:
        expired_data += _answers(workspace, "archive", "archived answers", prunable(workspace, ages.archive))
    if ages.revisions is not None and (ages.archive is None or ages.revisions < ages.archive):
        replaced_answers = prunable(workspace, ages.revisions, only_superseded=True)
        expired_data += _answers(workspace, "revisions", "replaced answers", replaced_answers)
    if isinstance(workspace.lake.storage, BucketStorage):
        expired_data += _unused(workspace.lake.storage)
    return expired_data


def delete_expired(expired_data: Sequence[Expired], *, without_rebuild: bool) -> Deleted:
    """Delete ``expired_data``. Data that a rebuild needs are deleted only with ``without_rebuild``."""
    deleted = [data for data in expired_data if without_rebuild or not data.is_for_rebuild]
    for data in deleted:
        data.delete()
    return Deleted(deleted, [data for data in expired_data if data not in deleted])


def prunable(workspace: Workspace, age: timedelta, only_superseded: bool = False) -> Prunable:
    """Return the answers older than ``age`` whose rows are in the lake.

    Answers are kept if a row of the table ``failures`` refers to them, or if no commit used them. With
    ``only_superseded``, only replaced answers are returned.
    """
    oldest = utc_now() - age
    used: dict[str, list[Commit]] = {}
    for commit in provenance.commits(workspace.archive):
        for digest in {call.digest for group in commit.groups for call in group.asked if call.digest}:
            used.setdefault(digest, []).append(commit)
    lake = {(manifest.family, manifest.chain, manifest.timestamp): manifest for manifest in workspace.lake.manifests()}
    hashes = {
        value
        for manifest in lake.values()
        if manifest.failures
        for value in workspace.lake.rows(manifest, FAILURES)["answer_hash"].to_pylist()
        if value
    }
    answers = [
        answer
        for answer in workspace.archive.stored()
        if answer.fetched_at < oldest
        and (answer.superseded or not only_superseded)
        and answer.sha256 not in hashes
        and answer.digest in used
        and all((commit.family, commit.chain, commit.timestamp) in lake for commit in used[answer.digest])
    ]
    names = {
        f"{commit.family} {commit.chain} {commit.timestamp}" for answer in answers for commit in used[answer.digest]
    }
    return Prunable(answers, sorted(names))


def _answers(workspace: Workspace, kind: str, description: str, removable: Prunable) -> Iterator[Expired]:
    if not removable.answers:
        return
    names = ", ".join(removable.partitions[:_SHOWN_PARTITIONS])
    unshown = len(removable.partitions) - _SHOWN_PARTITIONS
    suffix = f" and {unshown:,} more" if unshown > 0 else ""
    if kind == "archive":
        loss = (
            "'holderlake home rebuild' could only copy these partitions from the lake, "
            "and to fetch one again costs credits"
        )
    else:
        loss = "'holderlake home rebuild' without the lake would lose these partitions' rows of the table revisions"
    yield Expired(
        kind,
        description,
        len(removable.answers),
        removable.stored_bytes,
        f"{loss}: {names}{suffix}",
        is_for_rebuild=True,
        delete=lambda: workspace.archive.remove(removable.answers),
    )


def _unused(storage: BucketStorage) -> Iterator[Expired]:
    if count := len(storage.unused(_UNUSED_AGE)):
        yield Expired(
            "unused",
            "unused files of the bucket",
            count,
            0,
            "nothing: replaced files, and those of killed commits",
            is_for_rebuild=False,
            delete=lambda: storage.sweep(_UNUSED_AGE),  # looks again, because a commit may use them by now
        )


def _failures(workspace: Workspace, oldest: datetime) -> Iterator[Expired]:
    aged_subjects: list[tuple[Manifest, list[str]]] = []
    rows = 0
    for manifest in workspace.lake.manifests():
        if manifest.failures and manifest.written_at >= manifest.as_of:
            table = workspace.lake.rows(manifest, FAILURES)
            fresh = set(table.filter(pc.greater_equal(table["fetched_at"], oldest))["subject"].to_pylist())
            aged = [subject for subject in table["subject"].to_pylist() if subject not in fresh]
            if aged:
                aged_subjects.append((manifest, sorted(set(aged))))
                rows += len(aged)

    def delete() -> None:
        for manifest, subjects in aged_subjects:
            workspace.lake.write(
                PartitionUpdate(
                    manifest.family,
                    manifest.chain,
                    manifest.as_of,
                    {},
                    provider=manifest.provider,
                    by=stream_of(manifest).by,
                    requested=subjects,
                    covered={},
                    options=manifest.options,
                )
            )
        workspace.warehouse.load(workspace.lake)

    if aged_subjects:
        yield Expired(
            "failures",
            "rows of the table failures",
            rows,
            0,
            "'holderlake retry-failures' no longer repeats these requests, but a later fetch of their partitions does",
            is_for_rebuild=False,
            delete=delete,
        )
