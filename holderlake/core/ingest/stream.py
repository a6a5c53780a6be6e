"""Types that all streams share, and the selection of the subjects that a partition lacks.

A stream describes one family of tables as data and pure functions: its tables, its subjects (tokens, address sets, …),
the requests for some subjects, and the decoding of their answers. Fetching and committing belong to ``partition``.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from datetime import datetime, timedelta
from typing import Any, Protocol, TypeAlias, runtime_checkable

import pyarrow as pa

from holderlake.core.archive.archive import as_of_text
from holderlake.core.contract.chains import normalise_address
from holderlake.core.contract.requests import Request
from holderlake.core.contract.tables import FAMILY_TABLES
from holderlake.core.contract.times import partition_text, to_unix, utc_now
from holderlake.core.ingest.decode_queue import Decode, DecodeQueue
from holderlake.core.lake.manifests import Manifest
from holderlake.core.provider.fetcher import Fetcher, rules_text
from holderlake.core.settings import Settings
from holderlake.core.workspace import Workspace

Options: TypeAlias = Mapping[str, Any]
"""Request options that change the content of an answer, by the name of their setting, for example ``limit``."""


@dataclass(frozen=True)
class ChainInstant:
    """One chain at one as-of instant (UTC).

    ``live`` is true if the instant is the present. Then requests have no timestamp and no surcharge. ``store_change``
    is the number of the latest change of the user's own store; None if another provider answers.
    """

    chain: str
    as_of: datetime
    live: bool
    store_change: int | None = None

    @property
    def timestamp(self) -> int | None:
        """Unix seconds to request from endpoints with history mode. None for a live partition."""
        return None if self.live else to_unix(self.as_of)


@dataclass(frozen=True)
class Stream:
    """A family of tables that are fetched and committed together, and the functions that do so.

    ``name``: name of the family. ``contract.tables`` declares its tables.
    ``by``: kind of the subjects (chain, token, address_set or address).
    ``source``: sentence about the endpoint of the tables, for people.
    ``historic``: whether the endpoint answers as of a past instant. If not, one answer a day is used for all past
        instants.
    ``batch``: most subjects that are requested together.
    ``subjects(workspace, partition)``: all subjects of a partition.
    ``requests(settings, partition, subjects, refresh)``: requests for subjects that are requested together.
    ``decode(answers, chain, subjects, as_of)``: rows of the answers.
    ``contains(tables, subject)``: whether the rows include the subject. If not, the subject failed.
    ``endpoint``: name of the endpoint of the requests. The key's plan must include it.
    ``together``: whether each subject has its own answer, and ``decode`` takes many answers at once.
    ``inputs``: tables of other streams that it reads, or that its plots read.
    ``options``: names of its request options. The section of the settings with the stream's name has their values.
    """

    name: str
    by: str
    source: str
    historic: bool
    batch: int
    subjects: Callable[[Workspace, ChainInstant], list[str]]
    requests: Callable[[Settings, ChainInstant, Sequence[str], bool], list[Request]]
    decode: Decode
    endpoint: str
    contains: Callable[[dict[str, pa.Table], str], bool] = lambda tables, subject: True
    together: bool = False
    inputs: tuple[str, ...] = ()
    options: tuple[str, ...] = ()

    @property
    def tables(self) -> tuple[str, ...]:
        """The names of the family's tables."""
        return FAMILY_TABLES[self.name]

    def options_in(self, settings: Settings) -> Options:
        """Return the request options that the settings define."""
        return {name: getattr(getattr(settings, self.name), name) for name in self.options}

    def with_options(self, settings: Settings, options: Options) -> Settings:
        """Return a copy of the settings in which the stream has the given request options."""
        if options == self.options_in(settings) or not options:
            return settings
        section = getattr(settings, self.name).model_copy(update=dict(options))
        return settings.model_copy(update={self.name: section})

    def chosen_options(self, settings: Settings, manifest: Manifest | None, refresh: bool) -> Options:
        """Return the options for a partition's requests: those of its manifest, else those of the settings.

        A partition has one set of options: further subjects are requested with the options of the earlier ones, even if
        the settings have changed. Only a ``refresh`` uses those of the settings, for all subjects.
        """
        return self.options_in(settings) if manifest is None or refresh else manifest.options

    def batches(self, subjects: Sequence[str]) -> list[Sequence[str]]:
        """Split the subjects into lists of at most ``batch``, each of which is requested together."""
        return [subjects[start : start + self.batch] for start in range(0, len(subjects), self.batch)]

    def archive_as_of(self, partition: ChainInstant) -> datetime | str:
        """Return the instant by which the archive stores the partition's answers.

        For an endpoint without history mode it is the text ``known`` and today's date. Answers of the user's own store
        also name its latest change, so that older ones are not used.
        """
        as_of = partition.as_of if self.historic else f"known {utc_now():%Y-%m-%d}"
        change = partition.store_change
        return as_of if change is None else f"{as_of_text(as_of)} after change {change}"


@dataclass(frozen=True)
class Replay:
    """A commit to repeat from archived answers: its time (UTC), request options and rules.

    The archive does not record the repeated commit again.
    """

    at: datetime
    options: Options
    rules: str | None


@dataclass(frozen=True)
class IngestContext:
    """Fetcher and workspace of an ingest, and options that select subjects to request again.

    ``refresh``: fetch all subjects again, except in partitions written since ``refresh_since`` (UTC).
    ``again``: request covered subjects too, with archived answers where they exist.
    ``replay``: repeat this commit from the archive; None for a normal ingest.
    """

    fetcher: Fetcher
    workspace: Workspace
    refresh: bool = False
    refresh_since: datetime | None = None
    again: bool = False
    replay: Replay | None = None
    decoder: DecodeQueue = field(default_factory=DecodeQueue)

    async def rules(self) -> str | None:
        """Return the provider's current rules (thresholds for maps) as JSON; None if they are unknown."""
        if self.replay is not None:
            return self.replay.rules
        filler = self.workspace.filler
        return await self.fetcher.rules() if filler is None else rules_text(filler.rules)

    def missing(self, stream: Stream, partition: ChainInstant, only: Sequence[str] | None = None) -> MissingSubjects:
        """Return the subjects that a partition lacks: ``missing_subjects`` with the options of this ingest."""
        missing = missing_subjects(
            self.workspace, stream, partition, only, self.refresh, self.refresh_since, again=self.again
        )
        return missing if self.replay is None else replace(missing, options=self.replay.options)


@dataclass(frozen=True)
class MissingSubjects:
    """Subjects that a partition lacks, and the request options for them."""

    subjects: list[str]
    options: Options


@dataclass(frozen=True)
class PartitionResult:
    """State of a stream's partition after an ingest, with row counts by table, and what the ingest cost.

    ``credits`` are hundredths of a credit. ``calls`` are requests that were sent; archived answers do not count.
    """

    family: str
    chain: str
    as_of: datetime
    rows: Mapping[str, int]
    failures: int
    credits: int
    calls: int
    skipped: str | None = None
    """The provider's reason if the key's plan excludes the stream's endpoint, else None."""
    is_new: bool = True
    """True if the partition lacked subjects before the ingest."""
    revisions: int = 0
    """Number of revisions in the partition: rows of a past instant that a later answer changed."""
    options: Options = field(default_factory=dict)
    """The request options of the partition."""
    computed: int = 0
    """Number of subjects that the local engine computed, without a call."""
    lacks_tokens: bool = False
    """True if the partition has no answer about some of the watched tokens. For a stream by token only."""
    lacking: Mapping[str, str] = field(default_factory=dict)
    """The code of the failure of each subject that the partition was asked for and lacks."""


def missing_subjects(
    workspace: Workspace,
    stream: Stream,
    partition: ChainInstant,
    only: Sequence[str] | None = None,
    refresh: bool = False,
    refresh_since: datetime | None = None,
    *,
    again: bool = False,
) -> MissingSubjects:
    """Return the subjects that a partition lacks, and the options for their requests.

    ``only`` names the tokens to consider (None: all). With ``again``, covered subjects are returned too; also with
    ``refresh``, unless the partition was written at or after ``refresh_since`` (UTC). If a refresh changes the
    partition's options, or the own store changed since its rows were computed, its covered subjects that are not in
    ``only`` or the watchlist are returned too.
    """
    subjects = list(only) if only is not None and stream.by == "token" else stream.subjects(workspace, partition)
    manifest = workspace.lake.storage.recent((stream.name, partition.chain, partition_text(partition.as_of)))
    refresh = refresh and not (manifest and refresh_since and manifest.written_at >= refresh_since)
    options = stream.chosen_options(workspace.settings, manifest, refresh)
    if manifest and (workspace.is_stale(manifest) or (refresh and manifest.options != options)):
        subjects = list(dict.fromkeys([*subjects, *sorted(manifest.covered)]))
    elif manifest and not refresh and not again:
        subjects = [subject for subject in subjects if subject not in manifest.answered]
    return MissingSubjects(subjects, options)


def partition_of(workspace: Workspace, chain: str, as_of: datetime) -> ChainInstant:
    """Return the partition of a chain at an instant (UTC), which is live within ``schedule.live_tolerance_seconds``."""
    tolerance = timedelta(seconds=workspace.settings.schedule.live_tolerance_seconds)
    return ChainInstant(chain, as_of, as_of >= workspace.now() - tolerance, workspace.store_change)


@runtime_checkable
class Filling(Protocol):
    """An engine that fills partitions without calls."""

    async def fill(
        self,
        context: IngestContext,
        stream: Stream,
        partitions: Sequence[ChainInstant],
        only: Sequence[str] | None,
        on_result: Callable[[PartitionResult], None] = lambda result: None,
    ) -> list[PartitionResult]:
        """Commit what the partitions lack, and return the result of each. ``only`` names tokens (None: all)."""


def filler_of(workspace: Workspace, stream: Stream) -> Filling | None:
    """Return the part that fills the stream's partitions without calls; None if they are requested."""
    filler = workspace.filler
    return filler if isinstance(filler, Filling) and stream.endpoint in filler.endpoints else None


def watched_tokens(workspace: Workspace, partition: ChainInstant) -> list[str]:
    """Return the normalised addresses of the watchlist's tokens on the partition's chain, without duplicates."""
    watched = workspace.settings.watchlist.get(partition.chain, [])
    return list(dict.fromkeys(normalise_address(token) for token in watched))


@dataclass(frozen=True)
class LeftOut:
    """A stream (``family``) that is not fetched, because of the settings or because the API key's plan excludes it.

    The provider refused its request at ``since``. A backfill requests it again from ``until`` on. Both are naive UTC,
    None for a setting.
    """

    family: str
    tables: tuple[str, ...]
    reason: str
    since: datetime | None = None
    until: datetime | None = None

    def as_json(self) -> dict[str, Any]:
        """Return the stream as plain data."""
        times = {name: f"{at.isoformat()}Z" for name, at in (("since", self.since), ("until", self.until)) if at}
        return {"family": self.family, "tables": list(self.tables), "reason": self.reason, **times}

    def __str__(self) -> str:
        if self.since is None or self.until is None:
            return f"Left out: {', '.join(self.tables)}. {self.reason}."
        return (
            f"Left out: {', '.join(self.tables)}. The key's plan does not include it: {self.reason} "
            f"({self.since:%Y-%m-%d}). "
            f"The next 'holderlake ingest' tries it again, backfills do so from {self.until:%Y-%m-%d} on."
        )


def left_out_by_settings(settings: Settings, family: str) -> str | None:
    """Return the reason why the settings leave out a family of tables; None if they do not."""
    return f"schedule.leave_out names {family}" if family in settings.schedule.leave_out else None
