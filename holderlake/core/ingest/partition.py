"""Ingest of one partition: fetch its missing subjects, decode the answers, commit the tables.

A subject whose request fails becomes a row of ``failures``. The other subjects are committed. Decoded rows of a large
partition are on disk until then, so that memory does not grow with its number of tokens.
"""

from __future__ import annotations

import asyncio
import tempfile
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, field, replace
from datetime import datetime
from functools import partial
from pathlib import Path
from typing import Any, Final, TypeVar

import pyarrow as pa

from holderlake.core.archive import provenance
from holderlake.core.contract.models import ADDRESS_RULE, is_address
from holderlake.core.contract.requests import Request
from holderlake.core.contract.tables import TABLES, build
from holderlake.core.contract.times import partition_text, utc_now
from holderlake.core.decoding.answers import Decoded
from holderlake.core.decoding.lenient import UNREADABLE_ROW
from holderlake.core.ingest.decode_queue import PendingDecode
from holderlake.core.ingest.lacking import lacking
from holderlake.core.ingest.stream import ChainInstant, IngestContext, MissingSubjects, Options, PartitionResult, Stream
from holderlake.core.lake.lake import SUBJECT_COLUMNS, Manifest, PartitionUpdate
from holderlake.core.provider import errors
from holderlake.core.provider.client import Response
from holderlake.core.provider.errors import PermanentError, ProviderError, TransientError, plain
from holderlake.core.settings import Settings
from holderlake.core.units import counted
from holderlake.core.workspace import Workspace

T = TypeVar("T")

ANSWERS_AT_ONCE: Final = 512
"""Maximum answers in memory: fetched or being fetched, for partitions that are not committed yet.

The rows of a partition with more answers are on disk until its commit. ``provider`` limits the open calls.
"""
_IDLE_SECONDS: Final = 1.0
"""Seconds without a call, a decode or a commit after which a run that stops cancels its remaining tasks."""
FINAL_FAILURES: Final = frozenset({"no_holders", "unsupported_token", provenance.INVALID_ADDRESS})
"""Error codes that are true for the subject at that instant, so that a second request would get the same error."""
_OPTION_COLUMNS: Final[Mapping[str, str]] = {"limit": "holder_limit"}
"""Names of the columns of request options that have another name than their option."""


@dataclass
class Batch:
    """Rows to commit, failures and cost of some subjects of a partition.

    ``tables`` has lists of tables to concatenate, by table name. ``covered`` are the subjects that need no further
    request, with the time of their answer; None is the time of the commit. ``groups`` record from which answers the
    rows were made. ``computed`` is the number of subjects that the local engine computed.
    """

    tables: dict[str, list[pa.Table]] = field(default_factory=dict)
    covered: dict[str, datetime | None] = field(default_factory=dict)
    failures: list[dict[str, Any]] = field(default_factory=list)
    unreadable: list[dict[str, Any]] = field(default_factory=list)
    """Rows of the table ``failures`` about rows and values that could not be read, beside those in ``tables``."""
    unsent: list[str] = field(default_factory=list)
    """Subjects whose requests the run was stopped before."""
    groups: list[provenance.Group] = field(default_factory=list)
    credits: int = 0
    calls: int = 0
    computed: int = 0
    skipped: str | None = None
    """The provider's reason if the key's plan excludes the endpoint, else None."""
    outage: TransientError | None = None
    refused: PermanentError | None = None
    """The error with which the provider refuses every request, else None."""

    def fail(
        self, endpoint: str, subject: str, code: str, error: Exception | str, answer_hash: str | None = None
    ) -> None:
        """Add a failed subject. With a code of ``FINAL_FAILURES`` it is not requested again."""
        self.failures.append(
            {"endpoint": endpoint, "subject": subject, "code": code, "reason": str(error), "answer_hash": answer_hash}
        )
        if code in FINAL_FAILURES:
            self.covered[subject] = None

    def merge(self, batch: Batch) -> None:
        """Add the content of another batch of the same partition."""
        for name, tables in batch.tables.items():
            self.tables.setdefault(name, []).extend(tables)
        self.covered |= batch.covered
        self.failures += batch.failures
        self.unreadable += batch.unreadable
        self.groups += batch.groups
        self.credits += batch.credits
        self.calls += batch.calls
        self.computed += batch.computed
        self.skipped = self.skipped or batch.skipped
        self.outage = worst([outage for outage in (self.outage, batch.outage) if outage])
        self.refused = self.refused or batch.refused


def worst(outages: Sequence[TransientError]) -> TransientError | None:
    """Return the first error after which the call may be charged, else the first error; None without errors."""
    return next((outage for outage in outages if outage.maybe_charged), next(iter(outages), None))


async def gather_until_stopped(tasks: Sequence[asyncio.Task[T]], context: IngestContext) -> list[T | BaseException]:
    """Wait for all tasks, and return the result or exception of each, in order.

    After an error the other tasks are cancelled. After a ``PermanentError``, or if the run is cancelled, this waits
    until no call, decode or commit is under way, so that paid answers are committed first.
    """
    all_done = asyncio.gather(*tasks)
    cancelled = asyncio.ensure_future(context.fetcher.cancelled.wait())
    try:
        await asyncio.wait((all_done, cancelled), return_when=asyncio.FIRST_COMPLETED)
        if not all_done.done() or isinstance(all_done.exception(), PermanentError):
            await _wait_until_idle(tasks, context)
    finally:
        for task in (cancelled, *tasks):
            task.cancel()
        outcomes = await asyncio.gather(*tasks, return_exceptions=True)
        await asyncio.gather(all_done, cancelled, return_exceptions=True)
    return list(outcomes)


async def _wait_until_idle(tasks: Collection[asyncio.Task[Any]], context: IngestContext) -> None:
    """Wait until all tasks are done, or until no call, decode or commit has been under way for a second."""
    pending = set(tasks)
    while pending:
        _, unfinished = await asyncio.wait(pending, timeout=_IDLE_SECONDS)
        if len(unfinished) == len(pending) and not (context.fetcher.is_busy or context.decoder.is_busy):
            return
        pending = unfinished


async def fetch_partition(
    context: IngestContext, stream: Stream, partition: ChainInstant, only: Sequence[str] | None
) -> PartitionResult:
    """Fetch a partition's missing subjects and commit their rows. ``only`` names the tokens to consider (None: all).

    Raises the errors of ``commit``, and the error that stops a run, after a commit of the answers that are paid.
    """
    missing = context.missing(stream, partition, only)
    batch = Batch()
    if missing.subjects:
        settings = stream.with_options(context.workspace.settings, missing.options)
        is_large = len(missing.subjects) > ANSWERS_AT_ONCE
        invalid = _add_invalid_addresses(stream, missing.subjects, batch)
        groups = (
            _fetch_group(context, settings, stream, partition, group, is_large)
            for group in stream.batches([subject for subject in missing.subjects if subject not in invalid])
            if not invalid.issuperset(group)  # a replay repeats the group of the invalid addresses too
        )
        outcomes = await gather_until_stopped([*map(asyncio.create_task, groups)], context)
        for outcome in outcomes:
            if isinstance(outcome, Batch):
                batch.merge(outcome)
        stop = next((outcome for outcome in outcomes if isinstance(outcome, Exception)), None)
        if stop is None and not all(isinstance(outcome, Batch) for outcome in outcomes):
            stop = context.fetcher.stopped
        if stop is not None:  # commit the answers that are paid
            subjects = [subject for group in batch.groups for subject in group.subjects]
            if subjects and (batch.covered or not batch.outage):
                batch.unsent = [*({*missing.subjects} - {*subjects})]
                await commit(context, stream, partition, replace(missing, subjects=subjects), batch)
            raise stop
    return await commit(context, stream, partition, missing, batch)


def _add_invalid_addresses(stream: Stream, subjects: Sequence[str], batch: Batch) -> frozenset[str]:
    """Return the addresses among ``subjects`` that no request can name. Add a failure of each to the batch."""
    if stream.by not in {"address", "token"}:
        return frozenset()
    invalid = [subject for subject in subjects if not is_address(subject)]
    for subject in invalid:
        reason = f"the address {subject!r} was not requested: {ADDRESS_RULE}"
        batch.fail(stream.endpoint, subject, provenance.INVALID_ADDRESS, plain(reason))
    if invalid:
        batch.groups.append(provenance.group_of(invalid, (), (), batch.failures))
    return frozenset(invalid)


async def _fetch_group(
    context: IngestContext,
    settings: Settings,
    stream: Stream,
    partition: ChainInstant,
    subjects: Sequence[str],
    is_large: bool,
) -> Batch:
    """Fetch and decode subjects that are requested together. Their rows of a large partition stay on disk.

    An error that concerns only these subjects becomes a failure of each of them.
    """
    batch = Batch()
    requests = stream.requests(settings, partition, subjects, context.refresh)
    answers: list[Response] = []
    async with context.fetcher.slots.slot():
        try:
            for request in requests:
                as_of = stream.archive_as_of(partition)
                answers.append(await context.fetcher.fetch(request, as_of, refresh=context.refresh))
                batch.credits += answers[-1].cost or 0
                batch.calls += not answers[-1].from_archive
            item = PendingDecode(stream.decode, partition.chain, partition.as_of, subjects, answers)
            if stream.together:
                item = replace(item, subject_column=SUBJECT_COLUMNS[stream.by])
            decoded = await context.decoder.decode(item, context.fetcher.slots)
            if is_large and decoded.tables:
                rows = await context.decoder.run(partial(spilled, context.workspace.settings.home), decoded.tables)
                decoded = replace(decoded, tables=rows)
        except ProviderError as error:
            _add_error(batch, requests, subjects, error)
        else:
            _add_rows(stream, subjects, answers, decoded, batch)
    archived = [provenance.Archived(answer.digest, answer.sha256, answer.fetched_at) for answer in answers]
    batch.groups.append(provenance.group_of(subjects, requests, archived, batch.failures))
    return batch


def _add_error(batch: Batch, requests: Sequence[Request], subjects: Sequence[str], error: ProviderError) -> None:
    """Add an error to the batch if it concerns these subjects or refuses every request. Raise any other error."""
    match error:
        case errors.PlanRequired():
            batch.skipped = error.detail
            return
        case errors.InvalidKey() | errors.Forbidden() | errors.Redirected() if error.request in requests:
            batch.refused = error  # only the first request has a failure; later ones are not sent
        case errors.NoAnswer() | errors.InvalidRequest() | TransientError():
            batch.calls += 1
            batch.outage = error if isinstance(error, TransientError) else None
        case errors.MalformedAnswer():
            pass
        case _:
            raise error
    for subject in subjects:
        batch.fail(requests[0].endpoint, subject, error.code, error, error.answer_hash)


def _add_rows(
    stream: Stream, subjects: Sequence[str], answers: Sequence[Response], decoded: Decoded, batch: Batch
) -> None:
    """Add decoded rows, unreadable values, and a failure for each subject without rows to a batch.

    ``subjects`` were requested together, and ``answers`` are all answers about them.
    """
    batch.tables = {name: [rows] for name, rows in decoded.tables.items()}
    covered = {subject for subject in subjects if stream.together or stream.contains(decoded.tables, subject)}
    batch.covered |= dict.fromkeys(covered, max((answer.fetched_at for answer in answers), default=None))
    left_out = [subject for subject in subjects if subject not in covered]
    for value in decoded.unreadable:
        fetched = answers[value.answer]
        batch.unreadable.append(
            {
                "endpoint": fetched.request.endpoint,
                "subject": value.subject if value.subject in subjects else [*left_out, *subjects][0],
                "code": value.code,
                "reason": value.reason,
                "answer_hash": fetched.sha256,
                "place": value.path,
            }
        )
    rows = sum(value.code == UNREADABLE_ROW for value in decoded.unreadable)
    for subject in left_out:
        addition = f"; {counted(rows, 'row')} of the answer cannot be read" if rows else ""
        reason = f"the provider's answer leaves out {subject}{addition}"
        batch.fail(answers[-1].request.endpoint, subject, "left_out", reason, answers[-1].sha256 if rows else None)


async def commit(
    context: IngestContext, stream: Stream, partition: ChainInstant, missing: MissingSubjects, batch: Batch
) -> PartitionResult:
    """Commit a batch to the lake, and return the state of the partition after the commit.

    Raises ``batch.refused``, the error with which the provider refuses every request. Raises ``TransientError`` if no
    subject got an answer.
    """
    manifest = None
    if missing.subjects and not batch.skipped:
        rules = await context.rules() if batch.tables.get("maps") else None
        write = partial(_commit_batch, context, stream, partition, missing, rules)
        manifest = await context.decoder.run(write, batch, is_remote=not context.workspace.lake.is_local)
    if batch.refused:
        raise batch.refused
    if batch.outage and not batch.covered:
        raise batch.outage
    if manifest is None:
        manifest = context.workspace.lake.manifest(stream.name, partition.chain, partition.as_of)
    return result_of(context.workspace, stream, partition, manifest, missing, batch)


def result_of(
    workspace: Workspace,
    stream: Stream,
    partition: ChainInstant,
    manifest: Manifest | None,
    missing: MissingSubjects,
    batch: Batch,
) -> PartitionResult:
    """Return the state of a partition by its manifest, after a commit of ``batch`` for its ``missing`` subjects."""
    return PartitionResult(
        stream.name,
        partition.chain,
        partition.as_of,
        rows={name: manifest.tables[name].rows if manifest else 0 for name in stream.tables},
        failures=manifest.failures if manifest else 0,
        credits=batch.credits,
        calls=batch.calls,
        skipped=batch.skipped,
        is_new=bool(missing.subjects),
        revisions=manifest.revisions if manifest else 0,
        options=manifest.options if manifest else missing.options,
        computed=batch.computed,
        lacks_tokens=stream.by == "token"
        and not (manifest.covered if manifest else frozenset()).issuperset(stream.subjects(workspace, partition)),
        lacking=lacking(workspace.lake, manifest) if manifest else {},
    )


def _commit_batch(
    context: IngestContext,
    stream: Stream,
    partition: ChainInstant,
    missing: MissingSubjects,
    rules: str | None,
    batch: Batch,
) -> Manifest:
    """Record in the archive which answers the commit uses, then write the tables to the lake. Return the manifest."""
    at = utc_now() if context.replay is None else context.replay.at
    lake, record = context.workspace.lake, None
    if context.replay is None:
        place = (stream.name, partition.chain, partition_text(partition.as_of), context.fetcher.provider_id)
        groups, options = tuple(batch.groups), dict(missing.options)
        made_from = provenance.Commit(*place, partition.live, at, groups, options, rules, partition.store_change)
        if lake.storage.keeps_records:
            record = provenance.encoded(made_from)
        else:
            provenance.note(context.workspace.archive, made_from)
    tables = {
        name: pa.concat_tables(batch.tables.get(name) or [TABLES[name].schema.empty_table()]) for name in stream.tables
    }
    common = {"chain": partition.chain, "as_of": partition.as_of}
    redacted = context.fetcher.redacted  # an answer keeps a key that could be a word of its data
    rows = [common | row | {"reason": redacted(row["reason"])} for row in [*batch.failures, *batch.unreadable]]
    failures = build(TABLES["failures"], rows, at)
    return lake.write(
        PartitionUpdate(
            stream.name,
            partition.chain,
            partition.as_of,
            with_option_columns(tables, missing.options, rules),
            provider=context.fetcher.provider_id,
            by=stream.by,
            requested=set(missing.subjects),
            covered={subject: answered_at or at for subject, answered_at in batch.covered.items()},
            unsent=batch.unsent,
            failures=failures,
            final=stream.historic,
            options=missing.options,
            record=record,
            store_change=partition.store_change,
        )
    )


def with_option_columns(tables: Mapping[str, pa.Table], options: Options, rules: str | None) -> dict[str, pa.Table]:
    """Return the tables with values in their columns of request options, and in the column ``rules``."""
    values = {_OPTION_COLUMNS.get(option, option): value for option, value in options.items()} | {"rules": rules}
    filled = dict(tables)
    for name, rows in tables.items():
        schema = TABLES[name].schema
        for column in values.keys() & {*schema.names}:
            field = schema.field(column)
            constants = pa.repeat(pa.scalar(values[column], field.type), len(rows))
            filled[name] = filled[name].set_column(schema.get_field_index(column), field, constants)
    return filled


def spilled(folder: Path, tables: Mapping[str, pa.Table]) -> dict[str, pa.Table]:
    """Write tables to temporary files in ``folder``, and return the same tables, which read these files.

    The files have no names: the system deletes them when the tables are deleted, or after a kill.
    """
    read: dict[str, pa.Table] = {}
    for name, rows in tables.items():
        with tempfile.TemporaryFile(dir=folder) as file:
            with pa.ipc.new_file(file, rows.schema) as writer:
                writer.write_table(rows)
            file.flush()
            with pa.memory_map(f"/dev/fd/{file.fileno()}") as mapped:
                read[name] = pa.ipc.open_file(mapped).read_all()
    return read
