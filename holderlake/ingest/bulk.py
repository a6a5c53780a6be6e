"""Fills many partitions in one pass of the engine at hand, where there is one: nobody is asked.

Here stands how many partitions a pass takes, and how its rows are taken apart again; how they land, in ``landing``.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterator, Mapping, Sequence
from datetime import datetime
from itertools import groupby
from typing import Final, TypeAlias

import numpy as np
import pyarrow as pa

from holderlake.archive import provenance
from holderlake.contract.tables import INSTANT_TYPE, TABLES, with_fetched_at
from holderlake.ingest.landing import Batch, finish
from holderlake.ingest.options import with_options
from holderlake.ingest.stream import IngestContext, Partition, PartitionResult, Stream, Wanted, wanted_by
from holderlake.provider.local_engine import BulkResult, Engine, MissingAnswer

_FIRST: Final = 512
"""Answers of the first pass, before it is known how large they are."""
_BYTES: Final = 64 << 20
"""What the rows of a pass may take in memory, unless one partition takes more; two passes are there at a time."""

_NOTHING: Final = Wanted([], {})

Tables: TypeAlias = dict[str, pa.Table]


async def ingest_swept(
    context: IngestContext,
    engine: Engine,
    stream: Stream,
    partitions: Sequence[Partition],
    only: Sequence[str] | None,
    on_result: Callable[[PartitionResult], None] = lambda _: None,
) -> list[PartitionResult]:
    """Computes what the partitions of a chain lack, many in one pass, and commits each of them on its own.

    While those of one pass are committed, which is mostly waiting for the disk, the next pass is under way.
    """
    pace = _Pace()
    passes = _passes(context, stream, partitions, only, pace)

    def begin() -> tuple[Sequence[Partition], Wanted, asyncio.Task[dict[Partition, Batch]]] | None:
        some, wanted = next(passes, ((), _NOTHING))
        if not some:
            return None
        return some, wanted, asyncio.create_task(asyncio.to_thread(_sweep, context, engine, stream, wanted, pace, some))

    done: list[PartitionResult] = []
    ahead = begin()
    try:
        while ahead is not None:
            some, wanted, under_way = ahead
            batches = await under_way
            context.provider.check_running()
            ahead = begin()
            for partition in some:
                done.append(await finish(context, stream, partition, wanted, batches.pop(partition)))
                on_result(done[-1])
    finally:
        if ahead is not None:
            ahead[2].cancel()
    return done


def _passes(
    context: IngestContext, stream: Stream, partitions: Sequence[Partition], only: Sequence[str] | None, pace: _Pace
) -> Iterator[tuple[Sequence[Partition], Wanted]]:
    """Yield consecutive partitions that lack the same subjects, as many as make a pass; and what they lack."""
    for wanted, alike in groupby(partitions, lambda partition: wanted_by(context, stream, partition, only)):
        left = list(alike)
        while left:
            count = pace.partitions(len(wanted.subjects))
            yield left[:count], wanted
            left = left[count:]


def _sweep(
    context: IngestContext, engine: Engine, stream: Stream, found: Wanted, pace: _Pace, partitions: Sequence[Partition]
) -> dict[Partition, Batch]:
    """Return what one pass computes of the subjects in each of the partitions."""
    wanted = found.subjects
    if not wanted or stream.sweep is None:
        return {partition: Batch() for partition in partitions}
    instants = sorted(partition.as_of for partition in partitions)
    settings = with_options(stream.name, context.workspace.settings, found.options)
    swept = stream.sweep(engine, settings, partitions[0].chain, wanted, instants)
    pace.learn(swept, len(wanted) * len(instants))
    told = _by_instant(swept, instants)
    return {partition: _computed(swept.endpoint, wanted, *told[partition.as_of]) for partition in partitions}


def _computed(
    endpoint: str, wanted: Sequence[str], tables: Mapping[str, pa.Table], refused: Sequence[MissingAnswer]
) -> Batch:
    """What was computed of a partition, as if it had been asked for."""
    batch = Batch({name: [rows] for name, rows in tables.items()}, computed=len(wanted))
    for one in refused:
        batch.fail(endpoint, one.token_address, one.error.code, one.error)
    batch.covered |= set(wanted) - {one.token_address for one in refused}
    batch.groups.append(provenance.group_of(wanted, (), (), batch.failures))
    return batch


class _Pace:
    """How many answers fit into a pass, by the size of those of the passes before."""

    def __init__(self) -> None:
        self._answers = _FIRST

    def partitions(self, tokens: int) -> int:
        """So many partitions of ``tokens`` subjects each make a pass; at least one."""
        return max(1, self._answers // max(1, tokens))

    def learn(self, swept: BulkResult, answers: int) -> None:
        """Takes the size of a pass's rows into account. They may grow, so the next is not much larger."""
        size = sum(rows.nbytes for rows in swept.tables.values())
        self._answers = max(1, min(max(2 * answers, _FIRST), _BYTES * answers // max(size, 1)))


def _by_instant(swept: BulkResult, instants: Sequence[datetime]) -> dict[datetime, tuple[Tables, list[MissingAnswer]]]:
    """The rows of each instant by table, with ``fetched_at``, and what was refused then."""
    refused: dict[datetime, list[MissingAnswer]] = {as_of: [] for as_of in instants}
    for one in swept.refused:
        refused[one.as_of].append(one)
    tables: dict[datetime, Tables] = {as_of: {} for as_of in instants}
    for name, rows in swept.tables.items():
        stamped = with_fetched_at(TABLES[name], rows, swept.computed_at)
        for as_of, own in _apart(stamped, instants).items():
            tables[as_of][name] = own
    return {as_of: (tables[as_of], refused[as_of]) for as_of in instants}


def _apart(rows: pa.Table, instants: Sequence[datetime]) -> Mapping[datetime, pa.Table]:
    """The rows of each instant, in the order in which they stand."""
    wanted = pa.array(instants, INSTANT_TYPE).cast(pa.int64()).to_numpy()
    at = rows["as_of"].cast(pa.int64()).to_numpy()
    order = np.argsort(at, kind="stable")
    ordered, at = rows.take(pa.array(order)), at[order]
    first, last = (np.searchsorted(at, wanted, side) for side in ("left", "right"))
    return {
        as_of: ordered.slice(start, end - start)
        for as_of, start, end in zip(instants, first.tolist(), last.tolist(), strict=True)
    }
