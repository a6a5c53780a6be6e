"""Retry of failures: request only the subjects that the lake's table ``failures`` lists, as an ingest does.

A paid answer that could not be decoded is decoded again from the archive, which costs nothing. It is requested and paid
again only with ``pay_again``.
"""

from __future__ import annotations

import asyncio
from collections.abc import Collection, Sequence
from dataclasses import asdict, dataclass, field, replace
from datetime import datetime, time
from typing import Any, Final

from dagster import AssetMaterialization, DagsterInstance

from holderlake.assets import STREAMS
from holderlake.assets.fetched import inputs_of
from holderlake.core.archive import provenance
from holderlake.core.archive.provenance import UNREADABLE, Commit
from holderlake.core.dagster.metadata import asset_key
from holderlake.core.dagster.partitions import partition_key
from holderlake.core.dagster.versions import code_version, input_tags
from holderlake.core.dagster.versions import provenance as version_tags
from holderlake.core.decoding.answers import PARTIAL
from holderlake.core.ingest.lacking import lacking
from holderlake.core.ingest.partition import ANSWERS_AT_ONCE, FINAL_FAILURES
from holderlake.core.ingest.run import cancelling, check_free_space, ingest_partition
from holderlake.core.ingest.stream import IngestContext, Stream, partition_of
from holderlake.core.lake.lake import FAILURES
from holderlake.core.provider.errors import TransientError
from holderlake.core.workspace import Workspace
from holderlake.operations.maintenance.replay_commits import replay

_RUN: Final = "retry-failures"
_PAID_CODES: Final = PARTIAL | {UNREADABLE}
"""Codes of failures whose answer was paid and is in the archive."""


@dataclass(frozen=True)
class Failure:
    """A row of the table ``failures``: a failed subject of a partition, with the code and reason.

    ``answer_hash`` is the SHA-256 of the answer that could not be decoded; None without an answer.
    """

    family: str
    chain: str
    as_of: datetime
    subject: str
    code: str
    reason: str
    answer_hash: str | None = None

    @property
    def place(self) -> tuple[str, str, datetime]:
        """The partition: family, chain and instant."""
        return self.family, self.chain, self.as_of

    @property
    def name(self) -> tuple[str, str, datetime, str]:
        """The partition and the subject."""
        return (*self.place, self.subject)


@dataclass
class Retried:
    """Result of a retry: of the failures ``retried``, ``landed`` succeeded and ``failed`` failed again.

    ``reread``: number of failures whose answers were decoded again at no cost. ``left``: failures not retried, because
    only a new answer, which ``pay_again`` pays for, may help. ``credits`` are hundredths of a credit.
    """

    retried: list[Failure] = field(default_factory=list)
    landed: list[Failure] = field(default_factory=list)
    failed: list[Failure] = field(default_factory=list)
    left: list[Failure] = field(default_factory=list)
    reread: int = 0
    calls: int = 0
    credits: int = 0

    def as_json(self) -> dict[str, Any]:
        """Return the result as plain data."""
        return asdict(self)


def failures(workspace: Workspace, chains: Collection[str] = (), codes: Collection[str] = ()) -> list[Failure]:
    """Return the failures of the lake for these chains and codes. An empty argument means all.

    Final failures, and failures about a part of an answer, are returned only if ``codes`` has their code.
    """
    return [
        failure
        for failure in _all_failures(workspace)
        if (not chains or failure.chain in chains)
        and (failure.code in codes if codes else failure.code not in FINAL_FAILURES | PARTIAL)
    ]


def retry(workspace: Workspace, chosen_failures: Sequence[Failure], pay_again: bool = False) -> Retried:
    """Retry failures and load the warehouse. With ``pay_again``, answers that still can't be decoded are paid again.

    Raises ``ProviderError`` for an error that stops a run, such as a refused key or a reached ceiling. Subjects that
    succeeded before the error are in the lake.
    """
    spent = _spent(workspace)
    report = Retried()
    try:
        asyncio.run(_retry(workspace, chosen_failures, pay_again, report))
    finally:
        workspace.warehouse.load(workspace.lake)
    still = {failure.name: failure for failure in _all_failures(workspace)}
    # an answer may have many unreadable rows
    chosen_failures = [*{failure.name: failure for failure in chosen_failures}.values()]
    report.retried = [failure for failure in chosen_failures if failure not in report.left]
    report.failed = [still[failure.name] for failure in report.retried if failure.name in still]
    report.landed = [failure for failure in report.retried if failure.name not in still]
    report.credits = _spent(workspace) - spent
    return report


async def _retry(workspace: Workspace, chosen_failures: Sequence[Failure], pay_again: bool, report: Retried) -> None:
    unreadable = [failure for failure in chosen_failures if failure.code in _PAID_CODES]
    reread = await _reread(workspace, unreadable)
    report.reread = len(reread)
    now = {failure.name for failure in _all_failures(workspace) if failure.code in _PAID_CODES}
    unread = [failure for failure in unreadable if failure.name in now]
    if not pay_again:
        report.left = [failure for failure in unread if failure not in reread]
    to_request = [failure for failure in chosen_failures if failure.code not in _PAID_CODES]
    if not to_request and not (pay_again and unread):
        return
    check_free_space(workspace, len({failure.place for failure in chosen_failures}))
    async with workspace.fetcher(_RUN) as fetcher:
        with cancelling(fetcher):
            await _request(IngestContext(fetcher, workspace, again=True), to_request, report)
            if pay_again:
                await _request(IngestContext(fetcher, workspace, refresh=True), unread, report)
            fetcher.check_running()


async def _reread(workspace: Workspace, unreadable: Sequence[Failure]) -> list[Failure]:
    """Decode the archived answers of failures again, and commit their rows.

    Return the failures whose answers were in the archive, decoded or not.
    """
    read: list[Failure] = []
    by_name = {failure.name: failure for failure in unreadable}
    if not by_name:
        return []
    for commit in list(provenance.commits(workspace.archive)):
        failing_commit = _of(commit, by_name)
        if failing_commit.groups and _has_answers(workspace, failing_commit):
            await replay(workspace, workspace.lake, failing_commit)
            subjects = [subject for group in failing_commit.groups for subject in group.subjects]
            read += [by_name[(commit.family, commit.chain, commit.as_of, subject)] for subject in subjects]
    return list(dict.fromkeys(read))


def _of(commit: Commit, by_name: dict[tuple[str, str, datetime, str], Failure]) -> Commit:
    """Return the commit with only those groups whose subjects all still fail because of its recorded answers.

    ``by_name`` has the current failures by ``Failure.name``.
    """

    def still_fails(subject: str, hashes: Collection[str | None]) -> bool:
        failure = by_name.get((commit.family, commit.chain, commit.as_of, subject))
        return failure is not None and failure.answer_hash in hashes

    groups = [
        group
        for group in commit.groups
        if all(still_fails(subject, {call.sha256 for call in group.asked}) for subject in group.subjects)
    ]
    return replace(commit, groups=tuple(groups))


def _has_answers(workspace: Workspace, commit: Commit) -> bool:
    answers = [call for group in commit.groups for call in group.asked]
    return all(
        call.digest is not None
        and call.sha256 is not None
        and workspace.archive.version(call.digest, call.sha256, call.fetched_at) is not None
        for call in answers
    )


async def _request(context: IngestContext, chosen_failures: Sequence[Failure], report: Retried) -> None:
    """Request the subjects of failures, stream by stream, several partitions at a time; add the calls to the report."""
    gate = asyncio.Semaphore(ANSWERS_AT_ONCE)

    async def retry_partition(stream: Stream, chain: str, as_of: datetime, subjects: list[str]) -> None:
        async with gate:
            try:
                result = await ingest_partition(
                    context,
                    replace(stream, subjects=lambda workspace, partition: subjects),
                    partition_of(context.workspace, chain, as_of),
                )
            except TransientError:
                return  # its failures are in the lake
            context.workspace.report(result)

    calls = context.fetcher.counters.calls
    try:
        for stream in STREAMS:
            partitions: dict[tuple[str, datetime], list[str]] = {}
            for failure in chosen_failures:
                if failure.family == stream.name:
                    partitions.setdefault((failure.chain, failure.as_of), []).append(failure.subject)
            await asyncio.gather(*(retry_partition(stream, *place, subjects) for place, subjects in partitions.items()))
    finally:
        report.calls += context.fetcher.counters.calls - calls


def log_complete(workspace: Workspace, instance: DagsterInstance, landed: Collection[Failure]) -> None:
    """Log the partitions of failures that succeeded as materialised, if they lack nothing now.

    Dagster showed them as failed. A partition of Dagster has all instants of its day.
    """
    days = {(failure.family, failure.chain, failure.as_of.date()) for failure in landed}
    for stream in STREAMS:
        inputs = input_tags(instance, map(asset_key, inputs_of(stream)))
        for _, chain, day in sorted(place for place in days if place[0] == stream.name):
            manifests = [one for one in workspace.lake.manifests(stream.name, chain) if one.as_of.date() == day]
            if any(lacking(workspace.lake, manifest) for manifest in manifests):
                continue
            tags = version_tags(code_version(manifests[-1].options), inputs)
            for table in stream.tables:
                rows = {"dagster/row_count": sum(manifest.tables[table].rows for manifest in manifests)}
                key = partition_key(chain, datetime.combine(day, time()))
                event = AssetMaterialization(asset_key(table), partition=key, metadata=rows, tags=tags)
                instance.report_runless_asset_event(event)


def _all_failures(workspace: Workspace) -> list[Failure]:
    all_failures = []
    for manifest in workspace.lake.manifests():
        if manifest.failures:
            for row in workspace.lake.rows(manifest, FAILURES).to_pylist():
                columns = (row["subject"], row["code"], row["reason"], row["answer_hash"])
                all_failures.append(Failure(manifest.family, manifest.chain, manifest.as_of, *columns))
    return all_failures


def _spent(workspace: Workspace) -> int:
    return workspace.ledger.totals().spent
