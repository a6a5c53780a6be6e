"""Asks again for what failed: exactly the subjects that the lake's ``failures`` name, through the same ingest.

An answer that was paid for and could not be read is read again from the archive first, which costs nothing; only who
says so pays for it a second time. What is asked of the provider goes through budget, ledger and archive as ever.
"""

from __future__ import annotations

import asyncio
from collections import Counter
from collections.abc import Collection, Sequence
from dataclasses import asdict, dataclass, field, replace
from datetime import datetime
from typing import Any, Final

from holderlake import console
from holderlake.archive import provenance
from holderlake.archive.provenance import UNREADABLE, Commit
from holderlake.contract.prices import credits_text
from holderlake.decoding import UNREADABLE_ROW, UNREADABLE_VALUE
from holderlake.ingest.cancelling import cancelling
from holderlake.ingest.partition import FINAL_FAILURES
from holderlake.ingest.preparing import check_free_space
from holderlake.ingest.run import ANSWERS_AT_ONCE, ingest_partition
from holderlake.ingest.stream import IngestContext, Stream, partition_of
from holderlake.ingest.streams.all import STREAMS
from holderlake.lake.lake import FAILURES
from holderlake.maintenance.replay import replay
from holderlake.provider.errors import TransientError
from holderlake.workspace import Workspace

_RUN: Final = "retry-failures"
_PARTIAL: Final = frozenset({UNREADABLE_ROW, UNREADABLE_VALUE})
"""What could not be read of answers that landed."""
_PAID: Final = _PARTIAL | {UNREADABLE}
"""Failures whose answer was paid and is in the archive."""


@dataclass(frozen=True)
class Failure:
    """A subject of a partition that did not end in rows, and why."""

    family: str
    chain: str
    as_of: datetime
    subject: str
    code: str
    reason: str
    answer_hash: str | None = None

    @property
    def place(self) -> tuple[str, str, datetime]:
        """The partition."""
        return self.family, self.chain, self.as_of

    @property
    def name(self) -> tuple[str, str, datetime, str]:
        """The partition and the subject."""
        return (*self.place, self.subject)


@dataclass
class Retried:
    """What was retried, and what came of it; ``reread`` of them from the archive, at no cost. ``left`` holds what was
    not retried at all: answers that can't be read without a refresh. Credits in hundredths."""

    retried: list[Failure] = field(default_factory=list)
    landed: list[Failure] = field(default_factory=list)
    failed: list[Failure] = field(default_factory=list)
    left: list[Failure] = field(default_factory=list)
    reread: int = 0
    calls: int = 0
    credits: int = 0

    def as_json(self) -> dict[str, Any]:
        """The report as plain data."""
        return asdict(self)


def failures(
    workspace: Workspace,
    chains: Collection[str] = (),
    families: Collection[str] = (),
    codes: Collection[str] = (),
) -> list[Failure]:
    """Return the lake's failures of some chains, families and codes.

    Final ones, and rows and values that could not be read of answers that landed, only if their code is named.

    Raises ``ValueError`` on a family that there is none of.
    """
    for name in set(families) - {stream.name for stream in STREAMS}:
        raise ValueError(f"there is no family {name!r}; there are {', '.join(stream.name for stream in STREAMS)}")
    return [
        failure
        for failure in _all_failures(workspace)
        if (not chains or failure.chain in chains)
        and (not families or failure.family in families)
        and (failure.code in codes if codes else failure.code not in FINAL_FAILURES | _PARTIAL)
    ]


def retry(workspace: Workspace, chosen: Sequence[Failure], refresh: bool = False) -> Retried:
    """Retries failures and loads the warehouse. ``refresh`` pays anew for answers that still can't be read.

    Raises ``ProviderError`` where asking is in vain (a wrong key, a ceiling); what landed by then stays.
    """
    spent = _spent(workspace)
    report = Retried()
    try:
        asyncio.run(_retry(workspace, chosen, refresh, report))
    finally:
        workspace.warehouse.load(workspace.lake)
    still = {failure.name: failure for failure in _all_failures(workspace)}
    chosen = [*{failure.name: failure for failure in chosen}.values()]  # an answer may have many unreadable rows
    report.retried = [failure for failure in chosen if failure not in report.left]
    report.failed = [still[failure.name] for failure in report.retried if failure.name in still]
    report.landed = [failure for failure in report.retried if failure.name not in still]
    report.credits = _spent(workspace) - spent
    return report


def report_retried(report: Retried, as_json: bool) -> None:
    """Prints what was retried, what landed, and what failed again and why."""
    if as_json:
        console.as_json(report.as_json())
        return
    columns = ("family", "chain", "as of", "subject", "code", "reason")
    for title, found in (
        ("Failed again", report.failed),
        ("Not retried: paid for and not readable (--refresh asks anew)", report.left),
    ):
        if found:
            console.rows(title, columns, ((*one.name, one.code, one.reason) for one in found))
    by_code = Counter(failure.code for failure in report.landed)
    landed = ", ".join(f"{count:,} {code}" for code, count in sorted(by_code.items())) or "none"
    console.out.print(
        f"Retried {len(report.retried):,} failures: {len(report.landed):,} landed ({landed}), {len(report.failed):,} "
        f"failed again. {report.reread:,} were read again from the archive; {report.calls:,} calls, "
        f"{credits_text(report.credits)} credits."
    )


async def _retry(workspace: Workspace, chosen: Sequence[Failure], refresh: bool, report: Retried) -> None:
    unreadable = [failure for failure in chosen if failure.code in _PAID]
    again = await _reread(workspace, unreadable)
    report.reread = len(again)
    now = {failure.name for failure in _all_failures(workspace) if failure.code in _PAID}
    unread = [failure for failure in unreadable if failure.name in now]
    if not refresh:
        report.left = [failure for failure in unread if failure not in again]
    to_ask = [failure for failure in chosen if failure.code not in _PAID]
    if not to_ask and not (refresh and unread):
        return
    check_free_space(workspace, len({failure.place for failure in chosen}))
    async with workspace.provider(_RUN) as provider:
        with cancelling(provider):
            await _ask(IngestContext(provider, workspace, again=True), to_ask, report)
            if refresh:
                await _ask(IngestContext(provider, workspace, refresh=True), unread, report)
            provider.check_running()


async def _reread(workspace: Workspace, unreadable: Sequence[Failure]) -> list[Failure]:
    """Reads paid answers again; the failures whose answer was there to be read."""
    read: list[Failure] = []
    wanted = {failure.name: failure for failure in unreadable}
    if not wanted:
        return []
    for commit in list(provenance.commits(workspace.archive)):
        some = _of(commit, wanted)
        if some.groups and _are_there(workspace, some):
            await replay(workspace, workspace.lake, some)
            named = [subject for group in some.groups for subject in group.subjects]
            read += [wanted[(commit.family, commit.chain, commit.as_of, subject)] for subject in named]
    return list(dict.fromkeys(read))


def _of(commit: Commit, wanted: dict[tuple[str, str, datetime, str], Failure]) -> Commit:
    """The groups of a commit of which every subject still fails by the answer of then."""

    def is_wanted(subject: str, hashes: Collection[str | None]) -> bool:
        failure = wanted.get((commit.family, commit.chain, commit.as_of, subject))
        return failure is not None and failure.answer_hash in hashes

    groups = [
        group
        for group in commit.groups
        if all(is_wanted(subject, {asked.sha256 for asked in group.asked}) for subject in group.subjects)
    ]
    return replace(commit, groups=tuple(groups))


def _are_there(workspace: Workspace, commit: Commit) -> bool:
    answers = [asked for group in commit.groups for asked in group.asked]
    return all(
        asked.digest is not None
        and asked.sha256 is not None
        and workspace.archive.version(asked.digest, asked.sha256, asked.fetched_at) is not None
        for asked in answers
    )


async def _ask(context: IngestContext, chosen: Sequence[Failure], report: Retried) -> None:
    """Asks partition by partition, in the order in which families are filled; several partitions side by side."""
    gate = asyncio.Semaphore(ANSWERS_AT_ONCE)

    async def one(stream: Stream, chain: str, as_of: datetime, subjects: list[str]) -> None:
        async with gate:
            try:
                result = await ingest_partition(
                    context,
                    replace(stream, subjects=lambda workspace, partition: subjects),
                    partition_of(context.workspace, chain, as_of),
                )
            except TransientError:
                return  # its failures are in the lake, and other partitions may fare better
            context.workspace.on_result(result)

    calls = context.provider.counters.calls
    try:
        for stream in STREAMS:
            parts: dict[tuple[str, datetime], list[str]] = {}
            for failure in chosen:
                if failure.family == stream.name:
                    parts.setdefault((failure.chain, failure.as_of), []).append(failure.subject)
            await asyncio.gather(*(one(stream, *place, subjects) for place, subjects in parts.items()))
    finally:
        report.calls += context.provider.counters.calls - calls


def _all_failures(workspace: Workspace) -> list[Failure]:
    found = []
    for manifest in workspace.lake.manifests():
        if manifest.failures:
            for row in workspace.lake.rows(manifest, FAILURES).to_pylist():
                told = (row["subject"], row["code"], row["reason"], row["answer_hash"])
                found.append(Failure(manifest.family, manifest.chain, manifest.as_of, *told))
    return found


def _spent(workspace: Workspace) -> int:
    return workspace.ledger.totals().spent
