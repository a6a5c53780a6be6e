"""The ingest of a Dagster run: the same for an asset's partitions and for the backfill job.

Fetching and committing are in ``holderlake.ingest``.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from functools import partial
from itertools import groupby
from typing import TypeAlias

from holderlake.ingest.cancelling import cancelling
from holderlake.ingest.preparing import prepare_run
from holderlake.ingest.run import ingest
from holderlake.ingest.stream import IngestContext, PartitionResult, Stream
from holderlake.maintenance.repair import repair_before_run
from holderlake.provider.errors import TransientError
from holderlake.workspace import Workspace

Work: TypeAlias = tuple[Stream, str, Sequence[datetime]]
"""A stream, a chain and the instants to fetch of them."""
OnItem: TypeAlias = Callable[[Stream, str, list[PartitionResult]], None]


@dataclass(frozen=True)
class RunOptions:
    """Options of an ingest: only some tokens, and whether to fetch existing data again.

    A refresh leaves out partitions that were written since ``refresh_since``, when an interrupted one began.
    """

    tokens: Sequence[str] = ()
    refresh: bool = False
    refresh_since: datetime | None = None


def prepare(
    workspace: Workspace, run_id: str, instants: Mapping[str, Sequence[datetime]], streams: int, *, every_byte: bool
) -> None:
    """Check the disk and repair damaged partitions before the run pays, once a run; see ``prepare_run``."""
    workspace.repair = partial(repair_before_run, workspace)
    prepare_run(workspace, run_id, instants, streams, every_byte=every_byte)


async def ingest_run(
    workspace: Workspace,
    run_id: str,
    work: Iterable[Work],
    options: RunOptions,
    on_result: Callable[[PartitionResult], None],
    on_item: OnItem = lambda stream, chain, results: None,
) -> None:
    """Fetch and commit each item of work in turn.

    ``on_result`` is called with each finished partition, and ``on_item`` with those of an item, also after an error.
    Raises the errors of ``ingest``, and ``Cancelled``.
    """
    async with workspace.provider(run_id) as provider:
        context = IngestContext(provider, workspace, options.refresh, options.refresh_since)
        with cancelling(provider):
            for stream, chain, instants in work:
                results: list[PartitionResult] = []

                def report(result: PartitionResult, results: list[PartitionResult] = results) -> None:
                    results.append(result)
                    on_result(result)
                    workspace.on_result(result)

                try:
                    await ingest(context, stream, chain, instants, options.tokens or None, report)
                except TransientError as error:
                    error.maybe_charged |= provider.counters.broken > 0  # a retry would repeat those calls too
                    raise
                finally:
                    on_item(stream, chain, results)
            provider.check_running()


def by_day(results: Iterable[PartitionResult]) -> dict[tuple[str, str], list[PartitionResult]]:
    """Return the results by chain and day."""
    ordered = sorted(results, key=lambda result: (result.chain, result.as_of))
    return {day: list(own) for day, own in groupby(ordered, lambda result: (result.chain, f"{result.as_of:%Y-%m-%d}"))}
