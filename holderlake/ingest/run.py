"""Ingest of a stream's partitions, several at a time, until an outage or a permanent failure.

Subjects that are named in a partition's manifest are not requested again. So a killed run resumes where it stopped, and
a complete partition costs nothing.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterable, Sequence
from datetime import datetime
from typing import Final

from holderlake.contract.times import check_passed
from holderlake.ingest.bulk import ingest_bulk
from holderlake.ingest.partition import ANSWERS_AT_ONCE, fetch_partition, gather_until_stopped, worst
from holderlake.ingest.stream import IngestContext, Partition, PartitionResult, Stream, engine_for, partition_of
from holderlake.provider.errors import PermanentError, TransientError

OUTAGE: Final = 16
"""Number of consecutive partitions without an answer after which the run stops, because the provider is down."""


async def ingest(
    context: IngestContext,
    stream: Stream,
    chain: str,
    instants: Iterable[datetime],
    only: Sequence[str] | None = None,
    on_result: Callable[[PartitionResult], None] = lambda _: None,
) -> list[PartitionResult]:
    """Fetch and commit a stream's partitions of a chain, and return the result of each finished one.

    ``instants`` are UTC. ``only`` names the tokens to consider (None: all). ``on_result`` is called with each result.
    If the local engine can compute the stream, no request is sent. Finished partitions stay in the lake after an error.

    Raises the errors that stop a run (a wrong key, exhausted credits, a ceiling). Raises ``TransientError`` if no
    partition got an answer, or if 16 consecutive partitions got none. If fewer got none, their results are left out.
    Raises ``InstantAhead`` for an instant in the future, before anything is fetched.
    """
    instants = list(dict.fromkeys(instants))
    _check_passed(context, instants)
    engine = engine_for(context.workspace, stream)
    if engine is not None:
        partitions = [partition_of(context.workspace, chain, as_of) for as_of in instants]
        return await ingest_bulk(context, engine, stream, partitions, only, on_result)
    limit = asyncio.Semaphore(_partitions_at_once(context, stream, chain, only))
    outages: list[TransientError] = []  # since the last partition that got an answer

    async def ingest_instant(as_of: datetime) -> PartitionResult | None:
        async with limit:
            try:
                result = await ingest_partition(context, stream, partition_of(context.workspace, chain, as_of), only)
            except TransientError as error:
                outages.append(error)
                if len(outages) == OUTAGE:
                    raise worst(outages) or error from None
                return None  # its failures are in the lake
            outages.clear()
            on_result(result)
            return result

    try:
        outcomes = await gather_until_stopped((ingest_instant(as_of) for as_of in instants), context)
    finally:
        await context.decoder.finish()
    _raise_first(outcomes)
    context.provider.check_running()
    results = [outcome for outcome in outcomes if isinstance(outcome, PartitionResult)]
    if not results and (outage := worst(outages)):
        raise outage
    return results


async def ingest_partition(
    context: IngestContext, stream: Stream, partition: Partition, only: Sequence[str] | None = None
) -> PartitionResult:
    """Fetch or compute the missing subjects of one partition, and commit their rows.

    Raises ``TransientError`` if no subject got an answer, and ``InstantAhead`` for an instant in the future.
    """
    _check_passed(context, [partition.as_of])
    engine = engine_for(context.workspace, stream)
    if engine is None:
        return await fetch_partition(context, stream, partition, only)
    (result,) = await ingest_bulk(context, engine, stream, [partition], only)
    return result


def _check_passed(context: IngestContext, instants: Iterable[datetime]) -> None:
    """Raise ``InstantAhead`` for an instant in the future, except in a replay, which fetches nothing."""
    if context.replay is None:
        check_passed(instants, context.workspace.now())


def _partitions_at_once(context: IngestContext, stream: Stream, chain: str, only: Sequence[str] | None) -> int:
    tokens = only if only else context.workspace.settings.watchlist.get(chain, [])
    return ANSWERS_AT_ONCE // max(1, len(tokens) if stream.by == "token" else 1) + 1


def _raise_first(outcomes: Sequence[object]) -> None:
    """Raise the first permanent error among the results, else the first error; return if there is none."""
    errors = [outcome for outcome in outcomes if isinstance(outcome, Exception)]
    if errors:
        raise next((error for error in errors if isinstance(error, PermanentError)), errors[0])
