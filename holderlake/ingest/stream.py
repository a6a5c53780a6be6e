"""What all families of tables share: which subjects a partition must cover, and what is asked about them.

A family is plain data and pure functions: its tables, its subjects (tokens, address sets, …), the requests that tell of
some of them, and the rows in the bytes of the answers. Filling a partition stands in ``ingest``.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from datetime import datetime, timedelta
from typing import TypeAlias

import pyarrow as pa

from holderlake.contract.requests import Request
from holderlake.contract.times import to_unix, utc_now
from holderlake.decoding import Decoded
from holderlake.ingest.options import Options, chosen_options
from holderlake.ingest.reading import Reader
from holderlake.provider.fetcher import Provider, rules_text
from holderlake.provider.local_engine import BulkResult, Engine
from holderlake.settings import Settings
from holderlake.workspace import Workspace

Sweep: TypeAlias = Callable[[Engine, Settings, str, Sequence[str], Sequence[datetime]], BulkResult]
"""Asks an engine at hand for subjects of a chain at instants, as the settings want them."""


@dataclass(frozen=True)
class Partition:
    """One chain at one instant. ``live`` instants are asked for without a timestamp, at no surcharge."""

    chain: str
    as_of: datetime
    live: bool

    @property
    def timestamp(self) -> int | None:
        """What endpoints with history mode are asked for."""
        return None if self.live else to_unix(self.as_of)


@dataclass(frozen=True)
class Stream:
    """Tables that are fetched and committed together.

    ``by`` is the kind of its subjects: chain, token, address_set or address. ``batch`` subjects at most go into one
    asking. ``historic`` endpoints answer as of a past instant; of the others, one answer a day serves every past.
    ``requests(settings, part, subjects, refresh)`` tells what to ask, and ``rows(part, subjects, answers)`` decodes
    the answers. A subject that ``named_in`` does not find in the rows was left out by the provider, and is a failure.
    A plan that lacks ``endpoint`` brings none of the tables. ``together``: ``rows`` takes many subjects at once, an
    answer each.
    ``sweep``: an engine at hand can tell the same of many partitions in one pass.
    """

    name: str
    by: str
    tables: tuple[str, ...]
    historic: bool
    batch: int
    subjects: Callable[[Workspace, Partition], list[str]]
    requests: Callable[[Settings, Partition, Sequence[str], bool], list[Request]]
    rows: Callable[[Partition, Sequence[str], Sequence[bytes]], Decoded]
    endpoint: str
    named_in: Callable[[dict[str, pa.Table], str], bool] = lambda tables, subject: True
    together: bool = False
    sweep: Sweep | None = None

    def batches(self, subjects: Sequence[str]) -> list[Sequence[str]]:
        """The subjects in groups that are asked for together."""
        return [subjects[start : start + self.batch] for start in range(0, len(subjects), self.batch)]

    def known_as_of(self, partition: Partition) -> datetime | str:
        """The instant that an answer is archived under: the partition's own, or the day on which it was learnt."""
        return partition.as_of if self.historic else f"known {utc_now():%Y-%m-%d}"


@dataclass(frozen=True)
class IngestContext:
    """What an ingest is handed: the provider to ask, the workspace, and whether to ask anew what is archived.

    A refresh leaves partitions that were written since ``refresh_since``, when a stopped one began.
    ``again`` asks for subjects that are covered too, but takes what the archive holds. ``replayed_at`` is set where a
    commit of that instant is made again from the archive; the journal holds it already.
    """

    provider: Provider
    workspace: Workspace
    refresh: bool = False
    refresh_since: datetime | None = None
    again: bool = False
    replayed_at: datetime | None = None
    replayed_options: Options | None = None
    replayed_rules: str | None = None
    reader: Reader = field(default_factory=Reader)

    async def rules(self) -> str | None:
        """Return the provider's rules in force as JSON; None where they are not known."""
        if self.replayed_at is not None:
            return self.replayed_rules
        engine = self.workspace.engine
        return await self.provider.rules() if engine is None else rules_text(engine.rules)


@dataclass(frozen=True)
class PartitionResult:
    """What a partition of a family holds after an ingest, and what the ingest cost (hundredths of a credit)."""

    family: str
    chain: str
    as_of: datetime
    rows: Mapping[str, int]
    failures: int
    credits: int
    calls: int
    skipped: str | None = None
    is_new: bool = True
    """Whether something was asked for; otherwise all was there already."""
    revisions: int = 0
    """How often, over time, a table's rows of a subject were told otherwise than before."""
    computed: int = 0
    """How many subjects the engine at hand told of, without a call."""


@dataclass(frozen=True)
class Wanted:
    """What to request for a partition: subjects, and the options to request them with."""

    subjects: list[str]
    options: Options


def wanted(
    workspace: Workspace,
    stream: Stream,
    partition: Partition,
    only: Sequence[str] | None = None,
    refresh: bool = False,
    again: bool = False,
    refresh_since: datetime | None = None,
) -> Wanted:
    """Return what the partition lacks. ``again`` wants all subjects, ``refresh`` with the options of the settings.

    A refresh with other options than the partition has wants all that the partition holds, too.
    """
    subjects = list(only) if only is not None and stream.by == "token" else stream.subjects(workspace, partition)
    held = workspace.lake.manifest(stream.name, partition.chain, partition.as_of)
    refresh = refresh and not (held and refresh_since and held.written_at >= refresh_since)
    options = chosen_options(stream.name, workspace.settings, held, refresh)
    if refresh and held and held.options is not None and held.options != options:
        subjects = list(dict.fromkeys([*subjects, *sorted(held.covered)]))
    elif held and not refresh and not again:
        subjects = [subject for subject in subjects if subject not in held.answered]
    return Wanted(subjects, options)


def wanted_by(
    context: IngestContext, stream: Stream, partition: Partition, only: Sequence[str] | None = None
) -> Wanted:
    """Return what an ingest is to request for a partition; a replay repeats the options of then."""
    found = wanted(context.workspace, stream, partition, only, context.refresh, context.again, context.refresh_since)
    return found if context.replayed_options is None else replace(found, options=context.replayed_options)


def missing(workspace: Workspace, stream: Stream, partition: Partition, only: Sequence[str] | None = None) -> list[str]:
    """Return the subjects that the partition does not hold yet."""
    return wanted(workspace, stream, partition, only).subjects


def partition_of(workspace: Workspace, chain: str, as_of: datetime) -> Partition:
    """Return the partition of a chain at an instant: live at the present tick, history beyond the tolerance."""
    tolerance = timedelta(seconds=workspace.settings.schedule.live_tolerance_seconds)
    return Partition(chain, as_of, live=as_of >= workspace.now() - tolerance)


def sweeping(workspace: Workspace, stream: Stream) -> Engine | None:
    """The engine at hand, where it can tell what the family wants to know."""
    return workspace.engine if stream.sweep is not None else None
