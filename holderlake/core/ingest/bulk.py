"""Bulk ingest: the local engine computes the rows of many partitions, without a request.

One call of the engine, called a pass, computes several partitions. Each partition gets its own commit, as if its
answers had been fetched.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterator, Mapping, Sequence
from datetime import datetime
from itertools import groupby
from typing import Final, TypeAlias

import numpy as np
import pyarrow as pa

from holderlake.core.archive import provenance
from holderlake.core.contract.tables import INSTANT_TYPE, TABLES, with_fetched_at
from holderlake.core.ingest.engine import BulkResult, DirectEngine, MissingAnswer
from holderlake.core.ingest.partition import Batch, commit, spilled
from holderlake.core.ingest.stream import IngestContext, Missing, Partition, PartitionResult, Stream

_FIRST_PASS: Final = 512
"""Number of answers in the first pass, before the size of an answer is known."""
_BYTES: Final = 64 << 20
"""Most bytes of rows that are computed at once. Two passes are in memory at a time."""

_NONE_MISSING: Final = Missing([], {})

Tables: TypeAlias = dict[str, pa.Table]


async def ingest_bulk(
    context: IngestContext,
    engine: DirectEngine,
    stream: Stream,
    partitions: Sequence[Partition],
    only: Sequence[str] | None,
    on_result: Callable[[PartitionResult], None] = lambda _: None,
) -> list[PartitionResult]:
    """Compute the missing subjects of a chain's partitions, commit each partition, and return all results.

    ``only`` names the tokens to consider (None: all). ``on_result`` is called with the result of each partition. The
    engine computes the next pass while the partitions of a pass are committed, because commits mostly wait for the
    disk.
    """
    size = _PassSize()
    passes = _passes(context, stream, partitions, only, size)

    def start() -> tuple[Sequence[Partition], Missing, asyncio.Task[dict[Partition, Batch]]] | None:
        pass_partitions, missing = next(passes, ((), _NONE_MISSING))
        if not pass_partitions:
            return None
        work = asyncio.to_thread(_compute, context, engine, stream, missing, size, pass_partitions)
        return pass_partitions, missing, asyncio.create_task(work)

    results: list[PartitionResult] = []
    running = start()
    try:
        while running is not None:
            pass_partitions, missing, task = running
            batches = await task
            context.provider.check_running()
            running = start()
            for partition in pass_partitions:
                results.append(await commit(context, stream, partition, missing, batches.pop(partition)))
                on_result(results[-1])
    finally:
        if running is not None:
            running[2].cancel()
    return results


def _passes(
    context: IngestContext, stream: Stream, partitions: Sequence[Partition], only: Sequence[str] | None, size: _PassSize
) -> Iterator[tuple[Sequence[Partition], Missing]]:
    """Yield for each pass its partitions and its missing subjects.

    Partitions are in one pass if they are consecutive and lack the same subjects.
    """
    for missing, alike in groupby(partitions, lambda partition: context.missing(stream, partition, only)):
        partitions_left = list(alike)
        while partitions_left:
            count = size.partitions(len(missing.subjects))
            yield partitions_left[:count], missing
            partitions_left = partitions_left[count:]


def _compute(
    context: IngestContext,
    engine: DirectEngine,
    stream: Stream,
    missing: Missing,
    size: _PassSize,
    partitions: Sequence[Partition],
) -> dict[Partition, Batch]:
    """Compute the missing subjects of the partitions of one pass. Return for each partition the batch to commit.

    The subjects of a single, large partition are computed in several steps. Their rows stay on disk until the commit.
    """
    subjects = missing.subjects
    if not subjects or stream.compute is None:
        return {partition: Batch() for partition in partitions}
    instants = sorted(partition.as_of for partition in partitions)
    settings = stream.with_options(context.workspace.settings, missing.options)
    batches = {partition: Batch() for partition in partitions}
    subjects_left = subjects
    while subjects_left:
        step_subjects, subjects_left = subjects_left[: size.answers], subjects_left[size.answers :]
        result = stream.compute(engine, settings, partitions[0].chain, step_subjects, instants)
        size.update(result, len(step_subjects) * len(instants))
        by_instant = _by_instant(result, instants)
        for partition, batch in batches.items():
            tables, refused = by_instant[partition.as_of]
            if len(step_subjects) < len(subjects):
                tables = spilled(context.workspace.settings.home, tables)
            batch.merge(_batch(result, step_subjects, tables, refused))
    return batches


def _batch(result: BulkResult, subjects: Sequence[str], tables: Tables, refused: Sequence[MissingAnswer]) -> Batch:
    """Return the batch to commit for one partition.

    ``tables`` are the rows of the partition by table name. ``refused`` are the subjects for which the engine has no
    answer, with the error.
    """
    batch = Batch({name: [rows] for name, rows in tables.items()}, computed=len(subjects))
    for missing_answer in refused:
        batch.fail(result.endpoint, missing_answer.token_address, missing_answer.error.code, missing_answer.error)
    batch.covered |= dict.fromkeys(
        set(subjects) - {missing_answer.token_address for missing_answer in refused}, result.computed_at
    )
    batch.groups.append(provenance.group_of(subjects, (), (), batch.failures))
    return batch


class _PassSize:
    """The number of answers in the next pass, estimated from the bytes of the answers in earlier passes."""

    def __init__(self) -> None:
        self.answers = _FIRST_PASS

    def partitions(self, subjects: int) -> int:
        """Return the number of partitions in the next pass, at least one.

        ``subjects`` is how many each partition lacks.
        """
        return max(1, self.answers // max(1, subjects))

    def update(self, result: BulkResult, answers: int) -> None:
        """Set the number of answers in the next pass so that their rows fill about ``_BYTES`` bytes.

        ``result`` is the last pass, with the rows of ``answers`` answers. The number at most doubles, because later
        answers may be larger.
        """
        size = sum(rows.nbytes for rows in result.tables.values())
        self.answers = max(1, min(max(2 * answers, _FIRST_PASS), _BYTES * answers // max(size, 1)))


def _by_instant(result: BulkResult, instants: Sequence[datetime]) -> dict[datetime, tuple[Tables, list[MissingAnswer]]]:
    """Return for each instant its tables by name, and the subjects for which the engine has no answer.

    The tables have the column ``fetched_at``.
    """
    by_instant: dict[datetime, tuple[Tables, list[MissingAnswer]]] = {as_of: ({}, []) for as_of in instants}
    for missing_answer in result.refused:
        by_instant[missing_answer.as_of][1].append(missing_answer)
    for name, rows in result.tables.items():
        for as_of, instant_rows in _split(with_fetched_at(TABLES[name], rows, result.computed_at), instants).items():
            by_instant[as_of][0][name] = instant_rows
    return by_instant


def _split(rows: pa.Table, instants: Sequence[datetime]) -> Mapping[datetime, pa.Table]:
    """Return the rows of each instant in their original order. ``instants`` must be sorted."""
    keys = pa.array(instants, INSTANT_TYPE).cast(pa.int64()).to_numpy()
    at = rows["as_of"].cast(pa.int64()).to_numpy()
    order = np.argsort(at, kind="stable")
    ordered, at = rows.take(pa.array(order)), at[order]
    starts, ends = (np.searchsorted(at, keys, side) for side in ("left", "right"))
    return {
        as_of: ordered.slice(start, end - start)
        for as_of, start, end in zip(instants, starts.tolist(), ends.tolist(), strict=True)
    }
