"""Types that all streams share, and the choice of the subjects that a partition lacks.

A stream is plain data and pure functions: its tables, its subjects (tokens, address sets, …), the requests for some
subjects, and the rows of their answers. Fetching and committing belong to ``partition`` and ``bulk``.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from datetime import datetime, timedelta
from typing import TypeAlias

import pyarrow as pa

from holderlake.contract.requests import Request
from holderlake.contract.times import to_unix, utc_now
from holderlake.ingest.decode_queue import Decode, DecodeQueue
from holderlake.ingest.options import Options, chosen_options
from holderlake.provider.fetcher import Provider
from holderlake.provider.local_engine import BulkResult, Engine
from holderlake.provider.rules import rules_text
from holderlake.settings import Settings
from holderlake.workspace import Workspace

Compute: TypeAlias = Callable[[Engine, Settings, str, Sequence[str], Sequence[datetime]], BulkResult]
"""Computes subjects of a chain at instants with the local engine, with the options of the settings."""


@dataclass(frozen=True)
class Partition:
    """One chain at one instant. Requests for ``live`` instants carry no timestamp, at no surcharge."""

    chain: str
    as_of: datetime
    live: bool

    @property
    def timestamp(self) -> int | None:
        """The timestamp for endpoints with history mode; None for a live instant."""
        return None if self.live else to_unix(self.as_of)


@dataclass(frozen=True)
class Stream:
    """Tables that are fetched and committed together.

    ``by``: kind of the subjects: chain, token, address_set or address.
    ``historic``: the endpoint answers as of a past instant; otherwise one answer a day serves all past instants.
    ``batch``: the largest number of subjects in one group of requests.
    ``requests(settings, partition, subjects, refresh)``: requests for a group of subjects.
    ``decode(answers, chain, subjects, as_of)``: rows of the answers.
    ``contains(tables, subject)``: whether the rows hold the subject; if not, the subject failed.
    ``endpoint``: without it in the key's plan, no table can be fetched.
    ``together``: each subject has its own answer, and ``decode`` takes many of them at once.
    ``compute``: the local engine computes many partitions in one pass.
    """

    name: str
    by: str
    tables: tuple[str, ...]
    historic: bool
    batch: int
    subjects: Callable[[Workspace, Partition], list[str]]
    requests: Callable[[Settings, Partition, Sequence[str], bool], list[Request]]
    decode: Decode
    endpoint: str
    contains: Callable[[dict[str, pa.Table], str], bool] = lambda tables, subject: True
    together: bool = False
    compute: Compute | None = None

    def batches(self, subjects: Sequence[str]) -> list[Sequence[str]]:
        """Return the subjects in groups of at most ``batch``."""
        return [subjects[start : start + self.batch] for start in range(0, len(subjects), self.batch)]

    def archive_as_of(self, partition: Partition) -> datetime | str:
        """Return what an answer is archived under: the partition's instant, or the day of the request."""
        return partition.as_of if self.historic else f"known {utc_now():%Y-%m-%d}"


@dataclass(frozen=True)
class Replay:
    """A commit that is repeated from the archive: its instant, options and rules. Provenance has it already."""

    at: datetime
    options: Options | None
    rules: str | None


@dataclass(frozen=True)
class IngestContext:
    """A provider, a workspace, and which existing subjects to request again.

    ``refresh`` fetches all subjects again, except in partitions written since ``refresh_since``.
    ``again`` requests covered subjects too, and takes archived answers.
    """

    provider: Provider
    workspace: Workspace
    refresh: bool = False
    refresh_since: datetime | None = None
    again: bool = False
    replay: Replay | None = None
    decoder: DecodeQueue = field(default_factory=DecodeQueue)

    async def rules(self) -> str | None:
        """Return the provider's rules in force as JSON; None if they are unknown."""
        if self.replay is not None:
            return self.replay.rules
        engine = self.workspace.engine
        return await self.provider.rules() if engine is None else rules_text(engine.rules)

    def missing(self, stream: Stream, partition: Partition, only: Sequence[str] | None = None) -> Missing:
        """Return ``missing`` for this ingest. A replay repeats the options of its commit."""
        found = missing(
            self.workspace,
            stream,
            partition,
            only,
            refresh=self.refresh,
            refresh_since=self.refresh_since,
            again=self.again,
        )
        return (
            found if self.replay is None or self.replay.options is None else replace(found, options=self.replay.options)
        )


@dataclass(frozen=True)
class Missing:
    """Subjects that a partition lacks, and the options to request them with."""

    subjects: list[str]
    options: Options


@dataclass(frozen=True)
class PartitionResult:
    """A stream's partition after an ingest, and the cost of the ingest in hundredths of a credit."""

    family: str
    chain: str
    as_of: datetime
    rows: Mapping[str, int]
    failures: int
    credits: int
    calls: int
    skipped: str | None = None
    """The provider's reason if the key's plan excludes the stream."""
    is_new: bool = True
    """True if subjects were missing before."""
    revisions: int = 0
    """Number of times that a table's rows of a subject changed."""
    computed: int = 0
    """Number of subjects that the local engine computed, without a call."""


def partition_of(workspace: Workspace, chain: str, as_of: datetime) -> Partition:
    """Return the partition of a chain at an instant: live within the tolerance of now, else history."""
    tolerance = timedelta(seconds=workspace.settings.schedule.live_tolerance_seconds)
    return Partition(chain, as_of, live=as_of >= workspace.now() - tolerance)


def engine_for(workspace: Workspace, stream: Stream) -> Engine | None:
    """Return the local engine if there is one and it can compute the stream."""
    return workspace.engine if stream.compute is not None else None


def missing(
    workspace: Workspace,
    stream: Stream,
    partition: Partition,
    only: Sequence[str] | None = None,
    *,
    refresh: bool = False,
    refresh_since: datetime | None = None,
    again: bool = False,
) -> Missing:
    """Return the subjects that a partition lacks, and the options to request them with.

    ``only`` names the tokens to consider; for ``refresh``, ``refresh_since`` and ``again`` see ``IngestContext``. A
    refresh with other options than the partition has replaces all subjects that the partition holds.
    """
    subjects = list(only) if only is not None and stream.by == "token" else stream.subjects(workspace, partition)
    held = workspace.lake.manifest(stream.name, partition.chain, partition.as_of)
    refresh = refresh and not (held and refresh_since and held.written_at >= refresh_since)
    options = chosen_options(stream.name, workspace.settings, held, refresh)
    if refresh and held and held.options is not None and held.options != options:
        subjects = list(dict.fromkeys([*subjects, *sorted(held.covered)]))
    elif held and not refresh and not again:
        subjects = [subject for subject in subjects if subject not in held.answered]
    return Missing(subjects, options)
