"""What came of asking for some subjects of a partition, and how it lands in the lake: noted, then committed.

A subject that fails becomes a row of ``failures``; the rest lands.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime
from functools import partial
from typing import Any, Final

import pyarrow as pa

from holderlake.archive import provenance
from holderlake.contract.tables import TABLES, build
from holderlake.contract.times import partition_text, utc_now
from holderlake.ingest.options import Options, stamped
from holderlake.ingest.stream import IngestContext, Partition, PartitionResult, Stream, Wanted
from holderlake.provider.errors import PermanentError, TransientError

FINAL_FAILURES: Final = frozenset({"no_holders", "unsupported_token"})
"""Answers about the token itself: asking again for the same instant can't change them."""


@dataclass
class Batch:
    """What came of asking for some subjects."""

    tables: dict[str, list[pa.Table]] = field(default_factory=dict)
    covered: set[str] = field(default_factory=set)
    failures: list[dict[str, Any]] = field(default_factory=list)
    unreadable: list[dict[str, Any]] = field(default_factory=list)
    """Rows and values that could not be read of answers that landed."""
    groups: list[provenance.Group] = field(default_factory=list)
    credits: int = 0
    calls: int = 0
    computed: int = 0
    skipped: str | None = None
    outage: TransientError | None = None
    refused: PermanentError | None = None
    """Why the provider refused a request; it refuses everything else as well."""

    def fail(
        self, endpoint: str, subject: str, code: str, error: Exception | str, answer_hash: str | None = None
    ) -> None:
        """Notes a subject's failure; a final one counts as covered."""
        self.failures.append(
            {"endpoint": endpoint, "subject": subject, "code": code, "reason": str(error), "answer_hash": answer_hash}
        )
        if code in FINAL_FAILURES:
            self.covered.add(subject)

    def note(self, endpoint: str, subject: str, code: str, reason: str, answer_hash: str, place: str | None) -> None:
        """Note what could not be read of an answer. Its subject counts as answered."""
        row = {"endpoint": endpoint, "subject": subject, "code": code, "reason": reason}
        self.unreadable.append(row | {"answer_hash": answer_hash, "place": place})


def together(batches: Iterable[Batch]) -> Batch:
    """All of them as one."""
    total = Batch()
    for batch in batches:
        for name, tables in batch.tables.items():
            total.tables.setdefault(name, []).extend(tables)
        total.covered |= batch.covered
        total.failures += batch.failures
        total.unreadable += batch.unreadable
        total.groups += batch.groups
        total.credits += batch.credits
        total.calls += batch.calls
        total.skipped = total.skipped or batch.skipped
        outages = [one for one in (total.outage, batch.outage) if one]
        total.outage = worst(outages) if outages else None
        total.refused = total.refused or batch.refused
    return total


def worst(outages: Sequence[TransientError]) -> TransientError:
    """The outage that counts: the first that may have cost credits, else the first."""
    return next((one for one in outages if one.maybe_charged), outages[0])


async def finish(
    context: IngestContext, stream: Stream, partition: Partition, found: Wanted, batch: Batch
) -> PartitionResult:
    """Commits what was learnt of a partition, and tells what it holds then.

    Raises ``TransientError`` when the provider answered for none of the subjects, and what refused all of them.
    """
    lake = context.workspace.lake
    if batch.skipped:
        context.workspace.skipped[stream.name] = batch.skipped
    if found.subjects and not batch.skipped:
        rules = await context.rules() if stream.name == "maps" else None
        await context.reader.run(partial(_commit, context, stream, partition, found, rules), batch)
    if batch.refused:
        raise batch.refused
    if batch.outage and not batch.covered:
        raise batch.outage
    manifest = lake.manifest(stream.name, partition.chain, partition.as_of)
    rows = {name: manifest.tables[name].rows if manifest else 0 for name in stream.tables}
    failures = manifest.failures if manifest else 0
    revised = manifest.revisions if manifest else 0
    return PartitionResult(
        stream.name,
        partition.chain,
        partition.as_of,
        rows,
        failures,
        batch.credits,
        batch.calls,
        batch.skipped,
        bool(found.subjects),
        revised,
        batch.computed,
    )


def _commit(
    context: IngestContext, stream: Stream, partition: Partition, found: Wanted, rules: str | None, batch: Batch
) -> None:
    """Notes a partition's commit in the journal, and makes it."""
    at = _noted(context, stream, partition, found.options, rules, batch)
    tables = {name: _joined(name, batch.tables.get(name, ())) for name in stream.tables}
    context.workspace.lake.write(
        stream.name,
        partition.chain,
        partition.as_of,
        stamped(tables, found.options, rules),
        provider=context.provider.provider_id,
        by=stream.by,
        asked=set(found.subjects),
        covered=batch.covered,
        failures=_failures(partition, batch.failures + batch.unreadable, at),
        final=stream.historic,
        options=found.options,
    )


def _noted(
    context: IngestContext, stream: Stream, partition: Partition, options: Options, rules: str | None, batch: Batch
) -> datetime:
    """The instant of a commit, which the journal knows before it is made."""
    if context.replayed_at is not None:
        return context.replayed_at
    at, timestamp = utc_now(), partition_text(partition.as_of)
    commit = provenance.Commit(
        stream.name,
        partition.chain,
        timestamp,
        context.provider.provider_id,
        partition.live,
        at,
        tuple(batch.groups),
        dict(options),
        rules,
    )
    provenance.note(context.workspace.archive, commit)
    return at


def _joined(name: str, tables: Sequence[pa.Table]) -> pa.Table:
    return pa.concat_tables(tables) if tables else TABLES[name].schema.empty_table()


def _failures(partition: Partition, rows: Sequence[Mapping[str, Any]], at: datetime) -> pa.Table:
    common = {"chain": partition.chain, "as_of": partition.as_of}
    return build(TABLES["failures"], [common | dict(row) for row in rows], at)
