"""Ingest of a stream's partitions, several at a time, until an outage or a permanent failure.

Subjects that are named in a partition's manifest are not requested again. So a killed run resumes where it stopped, and
a complete partition costs nothing. After the first SIGINT or SIGTERM no new call starts, and open calls finish.
"""

from __future__ import annotations

import asyncio
import logging
import shutil
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager
from datetime import datetime
from functools import cache
from itertools import islice
from typing import Final

from holderlake.core.contract.times import check_passed
from holderlake.core.ingest.partition import (
    ANSWERS_AT_ONCE,
    Batch,
    fetch_partition,
    gather_until_stopped,
    result_of,
    worst,
)
from holderlake.core.ingest.stream import (
    ChainInstant,
    IngestContext,
    PartitionResult,
    Stream,
    filler_of,
    missing_subjects,
    partition_of,
)
from holderlake.core.provider.errors import PermanentError, TransientError
from holderlake.core.provider.fetcher import Fetcher
from holderlake.core.settings import SettingsError
from holderlake.core.signals import handling
from holderlake.core.workspace import Workspace

OUTAGE: Final = 16
"""Number of consecutive partitions without an answer after which the run stops, because the provider is down."""
_log = logging.getLogger(__name__)
LEAST_FREE: Final = 200 << 20
"""Bytes that must be free on the disk for any run."""
_PARTITION_BYTES: Final = 150_000
"""Estimated bytes of a partition in archive, lake and warehouse together, while the lake is empty."""
_COPIES: Final = 3
"""Number of copies of each row: in the archive, in the lake and in the warehouse."""
_SAMPLE: Final = 200


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
    If a filler can compute the stream, no request is sent. Finished partitions stay in the lake after an error.

    Raises the errors that stop a run (a wrong key, exhausted credits, a ceiling). Raises ``TransientError`` if no
    partition got an answer, or if 16 consecutive partitions got none. If fewer got none, their results are left out.
    Raises ``InstantAhead`` for an instant in the future, before anything is fetched.
    """
    instants = list(dict.fromkeys(instants))
    _check_passed(context, instants)
    filler = filler_of(context.workspace, stream)
    if filler is not None:
        partitions = [partition_of(context.workspace, chain, as_of) for as_of in instants]
        return await filler.fill(context, stream, partitions, only, on_result)
    tokens = (only or context.workspace.settings.watchlist.get(chain, [])) if stream.by == "token" else []
    limit = asyncio.Semaphore(ANSWERS_AT_ONCE // max(1, len(tokens)) + 1)
    outages: list[TransientError] = []  # since the last partition that got an answer

    async def ingest_instant(as_of: datetime) -> PartitionResult | None:
        async with limit:
            try:
                partition = partition_of(context.workspace, chain, as_of)
                result = await fetch_partition(context, stream, partition, only)
            except TransientError as error:
                outages.append(error)
                if len(outages) == OUTAGE:
                    raise worst(outages) or error from None
                return None  # its failures are in the lake
            outages.clear()
            on_result(result)
            return result

    try:
        outcomes = await gather_until_stopped([*map(asyncio.create_task, map(ingest_instant, instants))], context)
    finally:
        await context.decoder.finish()
    errors = [outcome for outcome in outcomes if isinstance(outcome, Exception)]
    if errors:
        raise next((error for error in errors if isinstance(error, PermanentError)), errors[0])
    context.fetcher.check_running()
    results = [outcome for outcome in outcomes if isinstance(outcome, PartitionResult)]
    if not results and (outage := worst(outages)):
        raise outage
    return results


def complete_results(
    workspace: Workspace, stream: Stream, chain: str, instants: Iterable[datetime], only: Sequence[str] | None = None
) -> list[PartitionResult] | None:
    """Return what ``ingest`` would, for partitions that lack nothing; None if one lacks a subject.

    It needs no provider, whose connection, or start in this process, would be most of the work.
    """
    instants = list(dict.fromkeys(instants))
    check_passed(instants, workspace.now())
    results = []
    for partition in (partition_of(workspace, chain, as_of) for as_of in instants):
        missing = missing_subjects(workspace, stream, partition, only)
        if missing.subjects:
            return None
        manifest = workspace.lake.manifest(stream.name, chain, partition.as_of)
        results.append(result_of(workspace, stream, partition, manifest, missing, Batch()))
    return results


async def ingest_partition(
    context: IngestContext, stream: Stream, partition: ChainInstant, only: Sequence[str] | None = None
) -> PartitionResult:
    """Fetch or compute the missing subjects of one partition, and commit their rows.

    Raises ``TransientError`` if no subject got an answer, and ``InstantAhead`` for an instant in the future.
    """
    _check_passed(context, [partition.as_of])
    filler = filler_of(context.workspace, stream)
    if filler is None:
        return await fetch_partition(context, stream, partition, only)
    (result,) = await filler.fill(context, stream, [partition], only)
    return result


def _check_passed(context: IngestContext, instants: Iterable[datetime]) -> None:
    """Raise ``InstantAhead`` for an instant in the future, except in a replay, which fetches nothing."""
    if context.replay is None:
        check_passed(instants, context.workspace.now())


@contextmanager
def cancelling(provider: Fetcher) -> Iterator[None]:
    """In the ``with`` block, cancel the provider at the first signal and raise ``KeyboardInterrupt`` at the second.

    Use it while an event loop runs. Outside the main thread it does nothing.
    """
    loop = asyncio.get_running_loop()
    with handling(lambda number, frame: loop.call_soon_threadsafe(_cancel, provider)):
        yield


def _cancel(provider: Fetcher) -> None:
    if provider.is_cancelled:
        raise KeyboardInterrupt
    provider.cancel()


def check_before_run(workspace: Workspace, partitions: int) -> None:
    """Check the provider, and the free disk space for a run that fills at most ``partitions`` partitions.

    Raises ``SettingsError`` for too little space, and ``LakeError`` if the lake has data of another provider.
    """
    workspace.check()
    for sentence in workspace.settings.unscheduled_sets():
        _warn_once(sentence)
    check_free_space(workspace, partitions)


@cache
def _warn_once(sentence: str) -> None:
    """Log a warning once in a process, because one command may start several runs."""
    _log.warning("%s", sentence)


def check_free_space(workspace: Workspace, partitions: int) -> None:
    """Raise ``SettingsError`` if the disk has too little free space for a run that fills ``partitions`` partitions.

    A load writes a second warehouse file before it replaces the first.
    """
    home = workspace.settings.home
    home.mkdir(parents=True, exist_ok=True)
    warehouse = workspace.warehouse.path
    copy = warehouse.stat().st_size if warehouse.exists() else 0
    manifests = islice(workspace.lake.manifests(), _SAMPLE)
    sizes = [sum(file.bytes for file in manifest.tables.values()) for manifest in manifests]
    needed = LEAST_FREE + copy + partitions * (_COPIES * sum(sizes) // len(sizes) if sizes else _PARTITION_BYTES)
    free = shutil.disk_usage(home).free
    if free < needed:
        raise SettingsError(
            f"the disk of {home.resolve()} has {_megabytes(free)} free, and this run needs about "
            f"{_megabytes(needed)}; free some space or set HOLDERLAKE_HOME to another disk. Nothing was fetched"
        )


def _megabytes(count: int) -> str:
    return f"{count / 1e6:,.0f} MB"
