"""Fills partitions: asks for the subjects that they lack, and commits them to the lake.

``ingest`` asks only for subjects that the partition's manifest does not name yet, so a killed run goes on where it
stopped and a finished partition costs nothing. What an engine at hand can tell is ``swept``'s.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Collection, Coroutine, Iterable, Sequence
from dataclasses import replace
from datetime import datetime
from functools import partial
from typing import Any, TypeVar

from holderlake.archive import provenance
from holderlake.contract.requests import Request
from holderlake.contract.times import check_passed
from holderlake.decoding import UNREADABLE_ROW, Decoded
from holderlake.ingest.bulk import ingest_swept
from holderlake.ingest.landing import Batch, finish, together, worst
from holderlake.ingest.options import with_options
from holderlake.ingest.reading import PendingDecode
from holderlake.ingest.stream import (
    IngestContext,
    Partition,
    PartitionResult,
    Stream,
    Wanted,
    partition_of,
    sweeping,
    wanted_by,
)
from holderlake.lake.lake import SUBJECT_COLUMNS
from holderlake.provider.errors import (
    Forbidden,
    InvalidKey,
    InvalidRequest,
    MalformedAnswer,
    NoAnswer,
    PermanentError,
    PlanRequired,
    ProviderError,
    Redirected,
    TransientError,
)
from holderlake.provider.fetcher import Fetched
from holderlake.settings import Settings

T = TypeVar("T")

ANSWERS_AT_ONCE = 512
"""Partitions are begun side by side until so many answers are wanted. It bounds what is begun and not committed; how
many calls are under way, and how many answers are held, is the provider's matter."""

OUTAGE = 16
"""So many partitions in a row without an answer are an outage, and nothing more is asked for."""

_PATIENCE = 1.0
"""Seconds without a call or a commit after which what still waits, after credits ran out, is cancelled."""


async def ingest(
    context: IngestContext,
    stream: Stream,
    chain: str,
    instants: Iterable[datetime],
    only: Sequence[str] | None = None,
    on_result: Callable[[PartitionResult], None] = lambda _: None,
) -> list[PartitionResult]:
    """Fetches and commits partitions of a family; ``on_result`` hears of each as it is finished.

    ``only`` narrows token families to some tokens. Raises what stops a whole run: a wrong key, exhausted credits, a
    ceiling; and an outage, where no partition was answered for, or many in a row. Partitions that were finished by then
    are in the lake. One that got no answer among others that did is left out. Where the workspace has an engine at
    hand, it is swept for what it can tell, and nobody is asked. Raises ``InstantAhead`` before anything is fetched.
    """
    instants = list(dict.fromkeys(instants))
    _check_passed(context, instants)
    engine = sweeping(context.workspace, stream)
    if engine is not None:
        partitions = [partition_of(context.workspace, chain, as_of) for as_of in instants]
        return await ingest_swept(context, engine, stream, partitions, only, on_result)
    gate = asyncio.Semaphore(_partitions_at_once(context, stream, chain, only))
    outages: list[TransientError] = []  # since a partition was last answered for

    async def one(as_of: datetime) -> PartitionResult | None:
        async with gate:
            try:
                done = await ingest_partition(context, stream, partition_of(context.workspace, chain, as_of), only)
            except TransientError as error:
                outages.append(error)
                if len(outages) == OUTAGE:
                    raise worst(outages) from None
                return None  # its failures are in the lake, and other partitions may fare better
            outages.clear()
            on_result(done)
            return done

    try:
        done = [one for one in await _side_by_side((one(as_of) for as_of in instants), context) if one]
    finally:
        await context.reader.finish()
    if outages and not done:
        raise worst(outages)
    return done


def _check_passed(context: IngestContext, instants: Iterable[datetime]) -> None:
    """Raise ``InstantAhead`` for an instant that lies ahead. A commit that is replayed fetches nothing."""
    if context.replayed_at is None:
        check_passed(instants, context.workspace.now())


def _partitions_at_once(context: IngestContext, stream: Stream, chain: str, only: Sequence[str] | None) -> int:
    tokens = only if only else context.workspace.settings.watchlist.get(chain, [])
    return ANSWERS_AT_ONCE // max(1, len(tokens) if stream.by == "token" else 1) + 1


async def _side_by_side(works: Iterable[Coroutine[Any, Any, T]], context: IngestContext) -> list[T]:
    """Return the results of all, in order, or raise the first error. What is left then is cancelled."""
    outcomes = await _outcomes(works, context)
    errors = [one for one in outcomes if isinstance(one, Exception)]
    if errors:
        raise next((one for one in errors if isinstance(one, PermanentError)), errors[0])
    context.provider.check_running()
    return [one for one in outcomes if not isinstance(one, BaseException)]


async def _outcomes(works: Iterable[Coroutine[Any, Any, T]], context: IngestContext) -> list[T | BaseException]:
    """Return what became of all, in order. After an error, or when the run is cancelled, the others are cancelled.

    After a ``PermanentError`` or a cancelled run nothing more is sent, and the others first finish what is paid for.
    """
    tasks = [asyncio.ensure_future(work) for work in works]
    all_done = asyncio.gather(*tasks)
    cancelled = asyncio.ensure_future(context.provider.cancelled.wait())
    try:
        await asyncio.wait((all_done, cancelled), return_when=asyncio.FIRST_COMPLETED)
        if not all_done.done() or isinstance(all_done.exception(), PermanentError):
            await _settled(tasks, context)
    finally:
        for task in (cancelled, *tasks):
            task.cancel()
        outcomes = await asyncio.gather(*tasks, return_exceptions=True)
        await asyncio.gather(all_done, cancelled, return_exceptions=True)
    return list(outcomes)


async def _settled(tasks: Collection[asyncio.Task[Any]], context: IngestContext) -> None:
    """Wait until no call is under way and all that was answered is committed."""
    pending = set(tasks)
    while pending:
        _, left = await asyncio.wait(pending, timeout=_PATIENCE)
        if len(left) == len(pending) and not (context.provider.is_busy or context.reader.is_busy):
            return
        pending = left


async def ingest_partition(
    context: IngestContext, stream: Stream, partition: Partition, only: Sequence[str] | None = None
) -> PartitionResult:
    """Fetches what one partition lacks and commits it.

    Raises ``TransientError`` when the provider answered for none of the subjects: that is an outage, and no partition;
    and ``InstantAhead``.
    """
    _check_passed(context, [partition.as_of])
    engine = sweeping(context.workspace, stream)
    if engine is not None:
        (result,) = await ingest_swept(context, engine, stream, [partition], only)
        return result
    found = wanted_by(context, stream, partition, only)
    batch = Batch()
    if found.subjects:
        settings = with_options(stream.name, context.workspace.settings, found.options)
        groups = [_ask(context, settings, stream, partition, group) for group in stream.batches(found.subjects)]
        batch, stop = await _answered(groups, context)
        if stop is not None:
            await _keep(context, stream, partition, found, batch)
            raise stop
    return await finish(context, stream, partition, found, batch)


async def _answered(
    groups: Iterable[Coroutine[Any, Any, Batch]], context: IngestContext
) -> tuple[Batch, Exception | None]:
    """Return what the groups brought, and why it is not all of it."""
    outcomes = await _outcomes(groups, context)
    stop = next((one for one in outcomes if isinstance(one, Exception)), None)
    if stop is None and not all(isinstance(one, Batch) for one in outcomes):
        stop = context.provider.stopped
    return together(one for one in outcomes if isinstance(one, Batch)), stop


async def _keep(context: IngestContext, stream: Stream, partition: Partition, found: Wanted, batch: Batch) -> None:
    """Commit what was answered before the run was stopped: it is paid for."""
    subjects = [subject for group in batch.groups for subject in group.subjects]
    if subjects and (batch.covered or not batch.outage):
        await finish(context, stream, partition, replace(found, subjects=subjects), batch)


async def _ask(
    context: IngestContext, settings: Settings, stream: Stream, partition: Partition, subjects: Sequence[str]
) -> Batch:
    """Asks for one group of subjects. An error that is theirs alone becomes their failure."""
    batch = Batch()
    requests = stream.requests(settings, partition, subjects, context.refresh)
    answers: list[Fetched] = []
    async with context.provider.room.turn():
        try:
            for request in requests:
                answers.append(await _fetch(context, stream, partition, request, batch))
            decoded = await context.reader.read(_unread(stream, partition, subjects, answers), context.provider.room)
        except ProviderError as error:
            _note(batch, requests, subjects, error)
        else:
            _take(stream, subjects, answers, decoded, batch)
    batch.groups.append(provenance.group_of(subjects, requests, answers, batch.failures))
    return batch


def _note(batch: Batch, requests: Sequence[Request], subjects: Sequence[str], error: ProviderError) -> None:
    """Note an error that concerns these subjects only, or with which the provider refuses everyone; raise others."""
    match error:
        case PlanRequired():
            batch.skipped = error.detail
            return
        case InvalidKey() | Forbidden() | Redirected() if error.request in requests:
            batch.refused = error  # without a failure for each subject that was refused without a call
        case TransientError():
            batch.outage = error
        case NoAnswer() | InvalidRequest() | MalformedAnswer():
            pass
        case _:
            raise error
    answer_hash = error.answer_hash if isinstance(error, MalformedAnswer) else None
    for subject in subjects:
        batch.fail(requests[0].endpoint, subject, error.code, error, answer_hash)


def _take(stream: Stream, subjects: Sequence[str], answers: Sequence[Fetched], decoded: Decoded, batch: Batch) -> None:
    """Takes the rows of a group's answers. A subject without rows of its own fails; what cannot be read is noted."""
    batch.tables = {name: [rows] for name, rows in decoded.tables.items()}
    named = {one for one in subjects if stream.together or stream.named_in(decoded.tables, one)}
    batch.covered |= named
    left_out = [subject for subject in subjects if subject not in named]
    for one in decoded.unreadable:
        subject = next((own for own in subjects if own == one.subject), [*left_out, *subjects][0])
        fetched = answers[one.answer]
        reason = fetched.reader.redacted(one.reason)
        batch.note(fetched.request.endpoint, subject, one.code, reason, fetched.sha256, one.path)
    rows = sum(one.code == UNREADABLE_ROW for one in decoded.unreadable)
    for subject in left_out:
        more = f"; {rows:,} of its items cannot be read" if rows else ""
        reason = f"the provider's answer leaves out {subject}{more}"
        batch.fail(answers[-1].request.endpoint, subject, "left_out", reason, answers[-1].sha256 if rows else None)


def _unread(stream: Stream, partition: Partition, subjects: Sequence[str], answers: Sequence[Fetched]) -> PendingDecode:
    rows = partial(stream.rows, partition)
    if not stream.together:
        return PendingDecode(subjects, answers, rows)
    return PendingDecode(
        subjects, answers, rows, (stream.name, partition.chain, partition.as_of), SUBJECT_COLUMNS[stream.by]
    )


async def _fetch(
    context: IngestContext, stream: Stream, partition: Partition, request: Request, batch: Batch
) -> Fetched:
    try:
        fetched = await context.provider.fetch(request, stream.known_as_of(partition), refresh=context.refresh)
    except (NoAnswer, TransientError, InvalidRequest):
        batch.calls += 1
        raise
    batch.credits += fetched.cost
    batch.calls += not fetched.from_archive
    return fetched
