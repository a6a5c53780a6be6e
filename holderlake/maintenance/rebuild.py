"""Makes lake and warehouse again from the archive alone: no call, no credit, the same rows with the same times.

Each commit of the archive's journal is made again by ``replay``, from the very answers that it was made of. All goes
into a fresh place beside the lake, which takes the lake's name when it is whole: whatever is killed and when, there is
a lake. Partitions that a local engine told of have no answers: they are taken over from the old lake as they are, and
only those that it lacks are computed anew. What was asked, and of which answers a commit was made, is
``holderlake.archive.provenance``'s matter.
"""

from __future__ import annotations

import asyncio
import time
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from itertools import groupby
from pathlib import Path
from threading import Lock
from typing import Final

from holderlake import console
from holderlake.archive import provenance
from holderlake.archive.archive import AnswerArchive
from holderlake.archive.provenance import Asked, Commit, Group
from holderlake.lake import manifests
from holderlake.lake.damage import damaged_files
from holderlake.lake.lake import FAILURES, SIDE_TABLES, Lake, LakeError, Manifest
from holderlake.maintenance.rebuild_report import Missing, Rebuilt
from holderlake.maintenance.replay import family_of, name_of, replay
from holderlake.maintenance.swap import alone, emptied, lakes_of, recovered, take_over, writers_held
from holderlake.workspace import Workspace

_CHAINS_AT_ONCE: Final = 8
"""The lake takes the commits of a chain one after another, and each waits for the disk."""


def rebuild(workspace: Workspace, provider: str | None = None) -> Rebuilt:
    """Makes lake and warehouse again and puts them in place of the old ones.

    ``provider`` chooses whose answers, where the archive holds several providers'. Raises ``LakeError`` where that is
    not told, and where there is neither journal nor lake; the old lake is then as it was.
    """
    began = time.monotonic()
    report = Rebuilt()
    with alone(workspace):
        old = recovered(workspace.settings.lake)
        fresh = workspace.settings.lake.with_name("lake.rebuilding")
        emptied(fresh)
        building = Building(workspace, Lake(fresh), old, _chosen(workspace.archive, provider), report)
        building.run()
        with writers_held(old):
            building.run()  # what was committed meanwhile
            take_over(workspace, building.fresh)
    report.missing.sort(key=lambda one: (one.partition, one.digest))
    report.rows = _rows(workspace.lake)
    report.unnamed = _unnamed(workspace.archive)
    report.seconds = round(time.monotonic() - began, 1)
    return report


def survey(workspace: Workspace, provider: str | None = None) -> Rebuilt:
    """What ``rebuild`` would do, from the names of the files alone: a damaged answer shows only when it is read."""
    report = Rebuilt()
    chosen = _chosen(workspace.archive, provider)
    old = lakes_of(workspace.settings.lake)
    named = set()
    for _, paths in _by_partition(provenance.records(workspace.archive)):
        read = [commit for commit in map(_read_into(report), paths) if commit and commit.provider == chosen]
        named |= {_place(commit) for commit in read}
        report.partitions += bool(read)
        report.commits += len(read)
        for commit in read:
            report.answers += sum(len(_answers(group)) for group in commit.groups)
        if any(commit.is_computed for commit in read):
            if _held_computed(old, read) is not None:
                report.kept += 1
                report.partitions -= 1
                continue
            read = _to_make(workspace, read, report)
        lost = [
            (commit, asked)
            for commit in _what_counts(workspace.archive, read)
            for group in commit.groups
            for asked in _gone(workspace.archive, group)
        ]
        kept = bool(lost) and _held(old, lost[0][0]) is not None
        report.missing += [Missing(name_of(one), asked.endpoint, asked.digest or "", kept) for one, asked in lost]
    held = {_place(manifest): name_of(manifest) for lake in old for manifest in lake.manifests()}
    report.carried = sorted(name for place, name in held.items() if place not in named)
    report.unnamed = _unnamed(workspace.archive)
    return report


class Building:
    """The lake that is made, and what is in it already."""

    def __init__(self, workspace: Workspace, fresh: Lake, old: Sequence[Lake], provider: str, report: Rebuilt) -> None:
        self.fresh = fresh
        self._workspace = workspace
        self._old = old
        self._provider = provider
        self._report = report
        self._done: set[Path] = set()
        self._kept: set[tuple[str, str, str]] = set()
        self._taken: set[tuple[str, str, str]] = set()
        self._counting = Lock()
        self._stopped = False

    def run(self) -> None:
        """Replays what the journal holds and was not replayed yet, and takes over what the journal does not tell of."""
        paths = [path for path in provenance.records(self._workspace.archive) if path not in self._done]
        with console.progress("making partitions again", len({path.parent for path in paths})) as bar:
            self.replay(paths, lambda: bar.advance(bar.task_ids[0]))
        self._done |= set(paths)
        self._carry_over()

    def replay(self, paths: Sequence[Path], done: Callable[[], None] = lambda: None) -> None:
        """Replay commits: files of the journal, in its order. ``done`` is called after each partition."""
        chains = groupby(paths, key=lambda path: path.parents[2])
        _ = self._workspace.ledger  # opened once, before there are threads
        with ThreadPoolExecutor(_CHAINS_AT_ONCE) as pool:
            made = [pool.submit(self._chain, list(of_one), done) for _, of_one in chains]
            try:
                for one in made:
                    one.result()
            finally:
                self._stopped = True
        self._stopped = False

    def _chain(self, paths: Sequence[Path], done: Callable[[], None]) -> None:
        """Replays a chain's commits, until one of another chain fails."""

        async def replayed() -> None:
            for _, of_one in _by_partition(paths):
                if self._stopped:
                    return
                await self._partition(list(of_one))
                done()

        asyncio.run(replayed())

    async def _partition(self, paths: Sequence[Path]) -> None:
        read = [commit for commit in map(_read_into(self._report), paths) if commit]
        chosen = [commit for commit in read if commit.provider == self._provider]
        if any(commit.is_computed for commit in chosen):
            if self._take_computed(chosen):
                return
            with self._counting:
                chosen = _to_make(self._workspace, chosen, self._report)
        missing: list[Asked] = []
        for commit in _what_counts(self._workspace.archive, chosen):
            if _place(commit) in self._kept:
                return  # the old lake's rows stand in for answers that are gone
            missing += await replay(self._workspace, self.fresh, commit)
            with self._counting:
                self._report.commits += 1
                self._report.answers += sum(len(_answers(group)) for group in commit.groups)
        with self._counting:
            self._report.partitions += bool(chosen)
        if missing:
            self._make_do(chosen[0], missing)

    def _take_computed(self, made: Sequence[Commit]) -> bool:
        """Where the old lake has a partition that an engine told of, its rows stay as they are."""
        held = _held_computed(self._old, made)
        if held is None:
            return False
        _forget(self.fresh, made[0])
        self._carry(*held)
        with self._counting:
            self._taken.add(_place(made[0]))
            self._report.kept = len(self._taken)
        return True

    def _make_do(self, commit: Commit, missing: Sequence[Asked]) -> None:
        """Where the old lake has the partition whole, its rows stay: they are more than what could be made again."""
        held = _held(self._old, commit)
        if held is not None:
            _forget(self.fresh, commit)
            self._carry(*held)
            self._kept.add(_place(commit))
        kept = held is not None
        self._report.missing += [Missing(name_of(commit), one.endpoint, one.digest or "", kept) for one in missing]

    def _carry_over(self) -> None:
        """Take over partitions that cover subjects of which the journal does not tell, or can't be read to tell."""
        for lake in self._old:
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
        made = self.fresh.manifest(manifest.family, manifest.chain, manifest.as_of)
        return made is None or not manifest.covered <= made.covered

    def _carry(self, lake: Lake, manifest: Manifest) -> None:
        """Raises ``LakeError`` on a file that does not match its manifest."""
        tables = {name: lake.rows(manifest, name) for name in manifest.tables}
        failures = tables.pop(FAILURES)
        self.fresh.write(
            manifest.family,
            manifest.chain,
            manifest.as_of,
            tables,
            provider=manifest.provider,
            by=family_of(manifest).by,
            requested=(),
            covered=manifest.answered,
            failures=failures,
        )


def _what_counts(archive: AnswerArchive, made: Sequence[Commit]) -> list[Commit]:
    """The commits of a partition without the groups whose answers are gone, where later ones answered all the same."""
    kept: list[Commit] = []
    settled: set[str] = set()
    for commit in reversed(made):
        groups = tuple(
            group for group in commit.groups if not (settled.issuperset(group.subjects) and _gone(archive, group))
        )
        for group in commit.groups:
            settled |= set(group.subjects) - {failed.subject for failed in group.failures}
        if groups:
            kept.append(replace(commit, groups=groups))
    return kept[::-1]


def _answers(group: Group) -> list[Asked]:
    return [asked for asked in group.asked if asked.digest is not None]


def _gone(archive: AnswerArchive, group: Group) -> list[Asked]:
    """What was answered and has no file any more."""
    return [asked for asked in _answers(group) if asked.digest is not None and asked.digest not in archive]


def _read_into(report: Rebuilt) -> Callable[[Path], Commit | None]:
    def read(path: Path) -> Commit | None:
        commit = provenance.read(path)
        if commit is None:
            report.damaged.append(str(path))
        return commit

    return read


def _by_partition(paths: Iterable[Path]) -> Iterator[tuple[Path, Iterator[Path]]]:
    return groupby(paths, key=lambda path: path.parent)


def _chosen(archive: AnswerArchive, provider: str | None) -> str:
    """Whose answers the lake is to hold. Raises ``LakeError`` where that is not clear."""
    found = sorted({commit.provider for commit in provenance.commits(archive)})
    if not found:
        raise LakeError(f"the archive {archive.root} has no journal of commits, so nothing can be made again from it")
    if provider is None and len(found) > 1:
        raise LakeError(f"the archive holds answers of {', '.join(found)}; choose one with --provider")
    if provider is not None and provider not in found:
        raise LakeError(f"the archive holds no answers of {provider!r}, but of {', '.join(found)}")
    return provider or found[0]


def _held(old: Iterable[Lake], commit: Commit) -> tuple[Lake, Manifest] | None:
    """The partition in an old lake, where its files are what they should be."""
    for lake in old:
        manifest = lake.manifest(commit.family, commit.chain, commit.as_of)
        if manifest is not None and lake.intact_rows(manifest) is not None:
            return lake, manifest
    return None


def _held_computed(old: Iterable[Lake], made: Sequence[Commit]) -> tuple[Lake, Manifest] | None:
    """As ``_held``, where it covers all that an engine told of."""
    held = _held(old, made[0])
    groups = [group for commit in made if commit.is_computed for group in commit.groups]
    failed = {failure.subject for group in groups for failure in group.failures}
    told = {subject for group in groups for subject in group.subjects} - failed
    return held if held and told <= held[1].covered else None


def _to_make(workspace: Workspace, made: Sequence[Commit], report: Rebuilt) -> list[Commit]:
    """A partition's commits without the computed ones, where the engine that computed them is not at hand."""
    engine = workspace.engine
    if engine is not None and engine.provider_id == made[0].provider:
        report.computed += 1
        return list(made)
    report.uncomputed.append(name_of(made[0]))
    return [commit for commit in made if not commit.is_computed]


def _forget(lake: Lake, commit: Commit | Manifest) -> None:
    """Takes a partition out of a lake that nobody reads yet."""
    manifests.manifest_path(lake.root, commit.family, commit.chain, commit.timestamp).unlink(missing_ok=True)
    for table in (*family_of(commit).tables, *SIDE_TABLES):
        lake.path(table, commit.chain, commit.as_of, commit.family).unlink(missing_ok=True)


def _rows(lake: Lake) -> dict[str, int]:
    rows: Counter[str] = Counter()
    for manifest in lake.manifests():
        rows.update({name: table.rows for name, table in manifest.tables.items()})
    return dict(rows)


def _unnamed(archive: AnswerArchive) -> int:
    named = {asked.digest for one in provenance.commits(archive) for group in one.groups for asked in group.asked}
    return sum(not stored.superseded and stored.digest not in named for stored in archive.stored())


def _place(one: Commit | Manifest) -> tuple[str, str, str]:
    return one.family, one.chain, one.timestamp
