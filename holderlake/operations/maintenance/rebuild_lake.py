"""Rebuild lake and warehouse from the archive, without calls or credits: the same rows with the same times.

Each recorded commit is repeated (``replay``) with the same answers, in a new folder next to the lake. The complete
folder replaces the lake (``replace_lake``). Partitions of the local engine have no answers: they are copied from the
old lake, and computed again only if the old lake lacks them. ``archive.provenance`` has the commit records.
"""

from __future__ import annotations

import asyncio
import time
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import asdict, dataclass, field, replace
from itertools import groupby
from pathlib import Path
from threading import Lock
from typing import Any, Final

from holderlake.core.archive import provenance
from holderlake.core.archive.archive import AnswerArchive
from holderlake.core.archive.provenance import Asked, Commit, Group
from holderlake.core.lake.damage import damaged_files
from holderlake.core.lake.lake import SIDE_TABLES, Lake, LakeError, Manifest
from holderlake.core.storage.layout import manifest_path
from holderlake.core.workspace import Workspace
from holderlake.operations.maintenance.replace_lake import (
    only_rebuild,
    recover,
    remove_folder,
    replace_lake,
    replace_partitions,
    writers_locked_out,
)
from holderlake.operations.maintenance.replay_commits import name_of, replay, stream_of
from holderlake.presentation import console

_CHAINS_AT_ONCE: Final = 8
"""Number of chains that are rebuilt in parallel. The commits of one chain are replayed one after the other."""


def rebuild(workspace: Workspace, provider: str | None = None) -> RebuildReport:
    """Rebuild lake and warehouse, and replace the old ones.

    ``provider`` is the id of the provider whose answers are used. Raises ``LakeError``, and changes nothing, if it is
    None while the archive has answers of several providers, or if the archive has no commit record.
    """
    began = time.monotonic()
    report = RebuildReport()
    with only_rebuild(workspace):
        old_lakes = recover(workspace.settings.lake_folder) if workspace.lake.is_local else [workspace.lake]
        start_commits = {manifest.place: manifest.commit for manifest in workspace.lake.manifests()}
        fresh = workspace.settings.lake_folder.with_name("lake.rebuilding")
        remove_folder(fresh)
        rebuilder = Rebuild(workspace, Lake(fresh), old_lakes, _chosen_provider(workspace.archive, provider), report)
        rebuilder.run()
        if workspace.lake.is_local:
            with writers_locked_out(old_lakes):
                rebuilder.run()  # commits since the first run
                replace_lake(workspace, rebuilder.fresh)
        else:
            replace_partitions(workspace, rebuilder.fresh, start_commits)
    report.missing.sort(key=lambda answer: (answer.partition, answer.digest))
    report.rows = _rows(workspace.lake)
    report.unnamed = _unnamed(workspace.archive)
    report.seconds = round(time.monotonic() - began, 1)
    return report


class Rebuild:
    """A rebuild of the lake ``fresh``, from the answers of one provider in the archive and from the ``old_lakes``.

    ``run`` may be called again to add commits that were recorded since the last call.
    """

    def __init__(
        self, workspace: Workspace, fresh: Lake, old_lakes: Sequence[Lake], provider: str, report: RebuildReport
    ) -> None:
        self.fresh = fresh
        self._workspace = workspace
        self._old_lakes = old_lakes
        self._provider = provider
        self._report = report
        self._done: set[Path] = set()
        self._kept_places: set[tuple[str, str, str]] = set()
        self._taken_places: set[tuple[str, str, str]] = set()
        self._counting = Lock()
        self._stopped = False

    def run(self) -> None:
        """Replay the recorded commits that were not replayed yet, and copy partitions without commit records."""
        paths = [path for path in provenance.records(self._workspace.archive) if path not in self._done]
        with console.progress("rebuilding partitions", len({path.parent for path in paths})) as bar:
            self.replay(paths, lambda: bar.advance(bar.task_ids[0]))
        self._done |= set(paths)
        self._carry_over()

    def replay(self, paths: Sequence[Path], done: Callable[[], None] = lambda: None) -> None:
        """Replay the commits whose records are in these files, in order. ``done`` is called after each partition."""
        chains = groupby(paths, key=lambda path: path.parents[2])
        _ = self._workspace.ledger  # opened before the threads start
        with ThreadPoolExecutor(_CHAINS_AT_ONCE) as pool:
            tasks = [pool.submit(self._chain, list(of_one), done) for _, of_one in chains]
            try:
                for task in tasks:
                    task.result()
            finally:
                self._stopped = True
        self._stopped = False

    def _chain(self, paths: Sequence[Path], done: Callable[[], None]) -> None:
        """Replay the commits of one chain from their record files; stop if the replay of another chain failed."""

        async def replayed() -> None:
            for _, of_one in _by_partition(paths):
                if self._stopped:
                    return
                await self._partition(list(of_one))
                done()

        asyncio.run(replayed())

    async def _partition(self, paths: Sequence[Path]) -> None:
        read = [commit for commit in map(_read_into(self._report), paths) if commit]
        commits = [commit for commit in read if commit.provider == self._provider]
        if any(commit.is_computed for commit in commits):
            if self._take_computed(commits):
                return
            with self._counting:
                commits = _to_replay(self._workspace, commits, self._report)
        replayable = _replayable(self._workspace.archive, commits)
        if replayable != commits and self._carry_replaced(commits):
            return
        missing: list[Asked] = []
        for commit in replayable:
            if _place(commit) in self._kept_places:
                return  # the old lake's rows replace missing answers
            missing += await replay(self._workspace, self.fresh, commit)
            with self._counting:
                self._report.commits += 1
                self._report.answers += sum(len(_answers(group)) for group in commit.groups)
        with self._counting:
            self._report.partitions += bool(commits)
        if missing:
            self._keep_old_rows(commits[0], missing)

    def _take_computed(self, partition: Sequence[Commit]) -> bool:
        """Copy a partition that the local engine computed from an old lake. Return False if none has all its rows."""
        old_partition = _old_computed_partition(self._old_lakes, partition)
        if old_partition is None:
            return False
        _forget(self.fresh, partition[0])
        self._carry(*old_partition)
        with self._counting:
            self._taken_places.add(_place(partition[0]))
            self._report.kept = len(self._taken_places)
        return True

    def _carry_replaced(self, partition: Sequence[Commit]) -> bool:
        """Copy a partition of which the archive lacks replaced answers, because only the old lake has their rows.

        Return False if no old lake has the partition with all its subjects.
        """
        old_partition = _old_partition(self._old_lakes, partition[0])
        answered_subjects = {
            subject for commit in partition for group in commit.groups for subject in group.subjects
        } - {failed.subject for commit in partition for group in commit.groups for failed in group.failures}
        if old_partition is None or not answered_subjects <= old_partition[1].covered:
            return False
        _forget(self.fresh, partition[0])
        self._carry(*old_partition)
        with self._counting:
            self._kept_places.add(_place(partition[0]))
            self._report.partitions += 1
        return True

    def _keep_old_rows(self, commit: Commit, missing: Sequence[Asked]) -> None:
        """Replace a partition whose answers are ``missing`` by its rows in an old lake, if intact.

        Add the missing answers to the report.
        """
        old_partition = _old_partition(self._old_lakes, commit)
        if old_partition is not None:
            _forget(self.fresh, commit)
            self._carry(*old_partition)
            self._kept_places.add(_place(commit))
        has_old_rows = old_partition is not None
        self._report.missing += [
            MissingAnswer(name_of(commit), call.endpoint, call.digest or "", has_old_rows) for call in missing
        ]

    def _carry_over(self) -> None:
        """Copy partitions from the old lakes that have subjects without a readable commit record."""
        for lake in self._old_lakes:
            for manifest in lake.manifests():
                if manifest.provider == self._provider and self._lacks(manifest):
                    damaged = list(damaged_files(lake, manifest, every_byte=True))
                    if damaged:
                        self._report.damaged += map(str, damaged)
                        continue
                    _forget(self.fresh, manifest)
                    self._carry(lake, manifest)
                    self._report.carried.append(name_of(manifest))

    def _lacks(self, manifest: Manifest) -> bool:
        rebuilt = self.fresh.manifest(manifest.family, manifest.chain, manifest.as_of)
        return rebuilt is None or not manifest.covered <= rebuilt.covered

    def _carry(self, lake: Lake, manifest: Manifest) -> None:
        """Copy a partition to the new lake. Raises ``LakeError`` for a file that does not match its manifest."""
        self.fresh.replace(manifest, lake.files(manifest))


def _replayable(archive: AnswerArchive, partition: Sequence[Commit]) -> list[Commit]:
    """Return the commits of a partition, without groups of subjects that cannot and need not be replayed.

    A group is left out if the archive lacks its answers and a later commit has all its subjects.
    """
    replayable: list[Commit] = []
    settled: set[str] = set()
    for commit in reversed(partition):
        groups = tuple(
            group
            for group in commit.groups
            if not (settled.issuperset(group.subjects) and _missing_answers(archive, group))
        )
        for group in commit.groups:
            settled |= set(group.subjects) - {failed.subject for failed in group.failures}
        if groups:
            replayable.append(replace(commit, groups=groups))
    return replayable[::-1]


def _answers(group: Group) -> list[Asked]:
    return [call for call in group.asked if call.digest is not None]


def _missing_answers(archive: AnswerArchive, group: Group) -> list[Asked]:
    """Return the requests of a group whose answers are no longer in the archive."""
    return [call for call in _answers(group) if call.digest is not None and call.digest not in archive]


def _read_into(report: RebuildReport) -> Callable[[Path], Commit | None]:
    def read(path: Path) -> Commit | None:
        commit = provenance.read(path)
        if commit is None:
            report.damaged.append(str(path))
        return commit

    return read


def _by_partition(paths: Iterable[Path]) -> Iterator[tuple[Path, Iterator[Path]]]:
    return groupby(paths, key=lambda path: path.parent)


def _chosen_provider(archive: AnswerArchive, provider: str | None) -> str:
    """Return ``provider``, or else the only provider of the archive's commits.

    Raises ``LakeError`` if the archive has no commits, none of ``provider``, or those of several providers.
    """
    providers = sorted({commit.provider for commit in provenance.commits(archive)})
    if not providers:
        raise LakeError(f"the archive {archive.root} has no commit records to rebuild from; check HOLDERLAKE_HOME")
    if provider is None and len(providers) > 1:
        raise LakeError(f"the archive holds answers of {', '.join(providers)}; choose one with --provider")
    if provider is not None and provider not in providers:
        raise LakeError(f"the archive has no answers of {provider!r}; choose --provider from {', '.join(providers)}")
    return provider or providers[0]


def _old_partition(old_lakes: Iterable[Lake], commit: Commit) -> tuple[Lake, Manifest] | None:
    """Return the first old lake that has the commit's partition with intact files, and the partition's manifest."""
    for lake in old_lakes:
        manifest = lake.manifest(commit.family, commit.chain, commit.as_of)
        if manifest is not None and lake.intact_rows(manifest) is not None:
            return lake, manifest
    return None


def _old_computed_partition(old_lakes: Iterable[Lake], partition: Sequence[Commit]) -> tuple[Lake, Manifest] | None:
    """Return an old lake that has all computed subjects of a partition, and the partition's manifest there, or None.

    ``partition`` has the commits of that partition. A computed subject is one that the local engine computed.
    """
    old_partition = _old_partition(old_lakes, partition[0])
    groups = [group for commit in partition if commit.is_computed for group in commit.groups]
    failed = {failure.subject for group in groups for failure in group.failures}
    computed = {subject for group in groups for subject in group.subjects} - failed
    return old_partition if old_partition and computed <= old_partition[1].covered else None


def _to_replay(workspace: Workspace, partition: Sequence[Commit], report: RebuildReport) -> list[Commit]:
    """Return the commits of a partition that can be replayed, and count computed ones in the report.

    Commits that the local engine computed are left out if this engine is not available now.
    """
    engine = workspace.filler
    if engine is not None and engine.provider_id == partition[0].provider:
        report.computed += 1
        return list(partition)
    report.uncomputed.append(name_of(partition[0]))
    return [commit for commit in partition if not commit.is_computed]


def _forget(lake: Lake, commit: Commit | Manifest) -> None:
    """Delete the files of a partition from a lake that is being rebuilt."""
    manifest_path(lake.root, *commit.place).unlink(missing_ok=True)
    for table in (*stream_of(commit).tables, *SIDE_TABLES):
        lake.path(table, commit.chain, commit.as_of, commit.family).unlink(missing_ok=True)


def _rows(lake: Lake) -> dict[str, int]:
    rows: Counter[str] = Counter()
    for manifest in lake.manifests():
        rows.update({name: table.rows for name, table in manifest.tables.items()})
    return dict(rows)


def _unnamed(archive: AnswerArchive) -> int:
    used_digests = {
        call.digest for commit in provenance.commits(archive) for group in commit.groups for call in group.asked
    }
    return sum(not answer.superseded and answer.digest not in used_digests for answer in archive.stored())


def _place(partition: Commit | Manifest) -> tuple[str, str, str]:
    return partition.family, partition.chain, partition.timestamp


@dataclass(frozen=True)
class MissingAnswer:
    """An answer of a partition that is missing or damaged in the archive.

    ``digest`` is its name in the archive. ``kept``: the partition's rows were copied from the old lake instead.
    """

    partition: str
    endpoint: str
    digest: str
    kept: bool = False


@dataclass
class RebuildReport:
    """Result of a rebuild: numbers of rebuilt partitions, replayed commits, decoded answers, and rows by table.

    ``carried``: names of partitions copied from the old lake, because the archive has no record of them.
    ``damaged``: unreadable commit records, and damaged files of the old lake.
    ``unnamed``: number of archived answers that no commit used.
    Of the local engine's partitions, ``kept`` were copied and ``computed`` were computed again. ``uncomputed`` names
    those that have no rows now: the old lake lacks them, and the engine that computed them is not available.
    """

    partitions: int = 0
    commits: int = 0
    answers: int = 0
    rows: dict[str, int] = field(default_factory=dict)
    carried: list[str] = field(default_factory=list)
    missing: list[MissingAnswer] = field(default_factory=list)
    damaged: list[str] = field(default_factory=list)
    kept: int = 0
    computed: int = 0
    uncomputed: list[str] = field(default_factory=list)
    unnamed: int = 0
    seconds: float = 0.0

    @property
    def is_whole(self) -> bool:
        """True if nothing is missing, damaged or uncomputed."""
        return not self.missing and not self.damaged and not self.uncomputed

    def as_json(self) -> dict[str, Any]:
        """Return the report as plain data."""
        return asdict(self) | {"whole": self.is_whole}
