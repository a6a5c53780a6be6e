"""Ingest within a Dagster run, for the assets and the backfill job."""

from __future__ import annotations

import json
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from contextlib import AsyncExitStack, suppress
from dataclasses import dataclass
from datetime import datetime, timedelta
from itertools import groupby
from typing import Any, Final, Protocol, TypeAlias

from dagster import DagsterInstance, DagsterRun, DagsterRunStatus, Failure, RunsFilter

from holderlake.core.contract.times import as_utc, partition_text, utc_now
from holderlake.core.dagster.failures import INCOMPLETE
from holderlake.core.dagster.tags import ERROR_TAG, LACKS_TAG, LOADS_TAG, PARTITION_TAG, RANGE_TAGS
from holderlake.core.ingest.lacking import UNSENT, lacking
from holderlake.core.ingest.run import cancelling, check_before_run, complete_results, ingest
from holderlake.core.ingest.stream import IngestContext, LeftOut, PartitionResult, Stream, left_out_by_settings
from holderlake.core.lake.lake import LakeError
from holderlake.core.provider.errors import PermanentError, TransientError
from holderlake.core.registry import Kind
from holderlake.core.storage.sqlite import DatabaseError
from holderlake.core.units import counted
from holderlake.core.warehouse.warehouse import WarehouseError
from holderlake.core.workspace import Workspace


class BeforeRun(Protocol):
    """A function that is called before a run fetches the instants ``timestamps`` of chains."""

    def __call__(
        self, workspace: Workspace, chains: Collection[str], timestamps: Collection[str], *, every_byte: bool
    ) -> None: ...


BEFORE_RUN: Final[Kind[BeforeRun]] = Kind("before_run")

Work: TypeAlias = tuple[Stream, str, Sequence[datetime]]
"""A stream, a chain, and the instants to fetch for that chain."""
OnItem: TypeAlias = Callable[[Stream, str, Sequence[datetime], list[PartitionResult]], None]

INGEST: Final = "ingest"
"""Name of the job that materialises one day of a chain."""
REPEATED: Final = "The sensor 'healing' requests the missing parts again; 'holderlake retry-failures' does so at once."
_SAME_REFRESH: Final = timedelta(days=1)
"""Longest time between a failed refresh and the same one that resumes it."""
_prepared: set[str] = set()
"""Ids of this process's runs that have checked free space and repaired partitions."""


@dataclass(frozen=True)
class RunOptions:
    """Options of an ingest: addresses of tokens (empty for all), and ``refresh`` to fetch existing data again.

    A refresh skips partitions that were written since ``refresh_since`` (naive UTC). This is the time at which the
    refresh began. If it resumes an interrupted refresh, it is the time at which that one began.
    """

    tokens: Sequence[str] = ()
    refresh: bool = False
    refresh_since: datetime | None = None


def prepare(
    workspace: Workspace, run_id: str, instants: Mapping[str, Sequence[datetime]], streams: int, *, every_byte: bool
) -> None:
    """Check the free disk space, and let parts repair what the run reads, once per run, before any request.

    ``instants`` are the as-of instants by chain, ``streams`` the number of streams that the run fetches. With
    ``every_byte`` damage is found by checksums, else by file sizes. Raises ``SettingsError`` if the disk has too little
    space, and ``LakeError`` if the lake has data of another provider.
    """
    if is_prepared(run_id):
        return
    check_before_run(workspace, streams * sum(map(len, instants.values())))
    for before_run in BEFORE_RUN.parts():
        for chain, chain_instants in instants.items():
            before_run(workspace, [chain], {partition_text(when) for when in chain_instants}, every_byte=every_byte)
    _prepared.add(run_id)


def is_prepared(run_id: str) -> bool:
    """Return whether ``prepare`` was called for a run in this process, without an error."""
    return run_id in _prepared


def chains_to_load(tags: Mapping[str, str]) -> list[str] | None:
    """Return the chains of ``LOADS_TAG`` in a run's tags; None if the run has no such tag."""
    return json.loads(tags[LOADS_TAG]) if LOADS_TAG in tags else None


async def ingest_run(
    workspace: Workspace,
    run_id: str,
    work: Iterable[Work],
    options: RunOptions,
    on_result: Callable[[PartitionResult], None],
    on_item: OnItem = lambda stream, chain, instants, results: None,
) -> None:
    """Fetch and commit each item of ``work`` (a stream, a chain and as-of instants) in turn.

    ``on_result`` is called after each finished partition, ``on_item`` after each item, also a failed one, with all its
    finished partitions. Raises ``ProviderError`` for an error that stops the run, such as a refused key or a reached
    ceiling, ``InstantAhead`` for a future instant, and ``Cancelled``. If the provider refuses an endpoint, the streams
    of the other endpoints are fetched before the error is raised.
    """
    refused: dict[str, PermanentError] = {}
    async with AsyncExitStack() as opened:
        context: IngestContext | None = None
        for stream, chain, instants in work:
            if stream.endpoint in refused:
                continue
            if (reason := left_out_by_settings(workspace.settings, stream.name)) is not None:
                workspace.report(LeftOut(stream.name, stream.tables, reason))
                continue
            results: list[PartitionResult] = []

            def report(result: PartitionResult, results: list[PartitionResult] = results) -> None:
                results.append(result)
                on_result(result)
                workspace.report(result)

            if context is None:
                tokens = options.tokens or None
                complete = None if options.refresh else complete_results(workspace, stream, chain, instants, tokens)
                if complete is not None:
                    for result in complete:
                        report(result)
                    on_item(stream, chain, instants, results)
                    continue
                fetcher = await opened.enter_async_context(workspace.fetcher(run_id))
                opened.enter_context(cancelling(fetcher))
                context = IngestContext(fetcher, workspace, options.refresh, options.refresh_since)
            try:
                await ingest(context, stream, chain, instants, options.tokens or None, report)
            except TransientError as error:
                error.maybe_charged |= context.fetcher.counters.broken > 0  # a retry would repeat those calls too
                raise
            except PermanentError as error:
                if error.stops != "endpoint":
                    raise
                refused[stream.endpoint] = error
            finally:
                on_item(stream, chain, instants, results)
        if context is not None:
            context.fetcher.check_running()
    for refusal in refused.values():
        raise refusal


def incomplete_days(
    workspace: Workspace,
    stream: Stream,
    instants: Mapping[str, Sequence[datetime]],
    results: Iterable[PartitionResult] | None = None,
) -> dict[tuple[str, str], set[str]]:
    """Return the days (chain and YYYY-MM-DD) that lack a part of the requested data, with the codes of the failures.

    ``instants`` are those that the run asked for, by chain, and ``results`` are those of its finished partitions: it
    was stopped before the others. Without ``results``, only the stored data count.
    """
    if left_out_by_settings(workspace.settings, stream.name) is not None:
        return {}
    found = {(result.chain, result.as_of): result.lacking for result in results or ()}
    days: dict[tuple[str, str], set[str]] = {}
    for chain, as_of in ((chain, as_of) for chain, chain_instants in instants.items() for as_of in chain_instants):
        lacks = found.get((chain, as_of))
        if lacks is None:
            manifest = workspace.lake.manifest(stream.name, chain, as_of)
            lacks = lacking(workspace.lake, manifest) if manifest else {}
            if not lacks and (manifest is None or results is not None):
                lacks = {"": UNSENT}
        if lacks:
            days.setdefault((chain, f"{as_of:%Y-%m-%d}"), set()).update(lacks.values())
    return days


def note_incomplete(
    instance: DagsterInstance, run_id: str, stream: Stream, days: Mapping[tuple[str, str], Collection[str]]
) -> None:
    """Tag a run with the number of its days that lack a part of a stream, and the codes of the failures."""
    if days:
        codes = sorted(set().union(*days.values()))
        instance.add_run_tags(run_id, {f"{LACKS_TAG}{stream.name}": f"{counted(len(days), 'day')}: {', '.join(codes)}"})


def fail_if_incomplete(instance: DagsterInstance, run_id: str) -> None:
    """Raise Dagster's ``Failure`` for a run whose days lack a part of the requested data (``note_incomplete``)."""
    run = instance.get_run_by_id(run_id)
    tags = run.tags if run else {}
    lacks = {name.removeprefix(LACKS_TAG): text for name, text in sorted(tags.items()) if name.startswith(LACKS_TAG)}
    if lacks:
        instance.add_run_tags(run_id, {ERROR_TAG: INCOMPLETE})
        listed = "; ".join(f"{name} lacks a part of {text}" for name, text in lacks.items())
        raise Failure(f"{listed}. The rest is stored. {REPEATED}", allow_retries=False)


def load_after_error(workspace: Workspace) -> None:
    """Load the lake and the credits into the warehouse after an error of a run. Ignore a second error."""
    with suppress(OSError, LakeError, WarehouseError, DatabaseError):
        workspace.warehouse.load(workspace.lake)


def refresh_start(instance: DagsterInstance, run_id: str) -> datetime:
    """Return the time (naive UTC) at which the refresh of a run began: when the run was created.

    If runs with the same config and partition failed before it, within a day, it is the creation of the first of them,
    so that partitions that those runs refreshed are not paid again.
    """
    run, start = instance.get_run_by_id(run_id), utc_now()
    for record in instance.get_run_records(RunsFilter(job_name=run.job_name)) if run else ():
        created, other = as_utc(record.create_timestamp), record.dagster_run
        if created < start - _SAME_REFRESH:
            break
        if other.run_id == run_id:
            start = created
        elif run and created <= start and _work(other) == _work(run):
            if other.status not in (DagsterRunStatus.FAILURE, DagsterRunStatus.CANCELED):
                break
            start = created
    return start


def _work(run: DagsterRun) -> tuple[Any, ...]:
    """Return what a run was to do: its options without the text of a plan, its tables and its partitions."""
    ops: Any = run.run_config.get("ops", {})
    options = {name: {**step.get("config", {}), "plan": ""} for name, step in ops.items()}
    return options, run.asset_selection, [run.tags.get(tag) for tag in (PARTITION_TAG, *RANGE_TAGS)]


def lacks_tokens(run_tokens: Sequence[str], results: Iterable[PartitionResult]) -> bool:
    """Return whether a partition of ``results`` lacks watched tokens because the run fetched ``run_tokens`` only."""
    return bool(run_tokens) and any(result.lacks_tokens for result in results)


def by_day(results: Iterable[PartitionResult]) -> dict[tuple[str, str], list[PartitionResult]]:
    """Group the results by chain and day (YYYY-MM-DD)."""
    ordered = sorted(results, key=lambda result: (result.chain, result.as_of))
    return {
        day: list(day_results)
        for day, day_results in groupby(ordered, lambda result: (result.chain, f"{result.as_of:%Y-%m-%d}"))
    }
