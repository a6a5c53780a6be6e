"""Scheduled partitions that the lake lacks, or that lack subjects whose requests failed."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import date, datetime
from itertools import groupby
from typing import Final

from holderlake.assets import STREAMS
from holderlake.core.archive.provenance import INVALID_ADDRESS, UNREADABLE
from holderlake.core.decoding.answers import PARTIAL
from holderlake.core.ingest.stream import Stream, left_out_by_settings
from holderlake.core.lake.lake import FAILURES
from holderlake.core.workspace import Workspace
from holderlake.operations.backfill.coverage import Coverage, Gap
from holderlake.operations.backfill.pricing import price
from holderlake.operations.backfill.scope import within_plan

SETTLED: Final = frozenset(
    {
        *("left_out", "no_answer", "no_holders", "unknown_token", "unsupported_token"),
        *(UNREADABLE, INVALID_ADDRESS),
        *PARTIAL,
    }
)
"""Codes of failures that would occur again: facts about a token, and paid answers without it or unreadable."""

Day = tuple[str, date]
"""A chain and a day. It is one partition in Dagster, and contains all instants of the day."""


@dataclass(frozen=True)
class MissingDay:
    """A chain and day with missing data: all its scheduled instants, the gaps, and the cost to fill them.

    ``credits`` are hundredths of a credit.
    """

    chain: str
    day: date
    instants: tuple[datetime, ...]
    gaps: tuple[Gap, ...]
    credits: int

    @property
    def key(self) -> Day:
        return self.chain, self.day

    @property
    def families(self) -> list[str]:
        """The names of the streams with a gap, in the order in which a run fetches them."""
        names = {gap.stream.name for gap in self.gaps}
        return [stream.name for stream in STREAMS if stream.name in names]


def missing_days(
    workspace: Workspace,
    expected: Mapping[str, Sequence[datetime]],
    succeeded: Mapping[Day, bool],
    *,
    with_credits: bool = True,
) -> list[MissingDay]:
    """Return the chains and days with missing data, newest first.

    ``expected``: scheduled instants by chain. ``succeeded`` is True for a day whose last run succeeded; there, only
    subjects whose request failed are missing, since others were added to the watchlist later. Without ``with_credits``,
    costs are 0.
    """
    days = []
    streams = _streams(workspace) if any(expected.values()) else []
    for chain, instants in expected.items():
        gaps = list(_gaps(workspace, streams, chain, instants, succeeded))
        for day, day_gaps in groupby(sorted(gaps, key=_as_of), lambda gap: _as_of(gap).date()):
            of_day, own_gaps = tuple(when for when in instants if when.date() == day), tuple(day_gaps)
            credits = _credits(workspace, own_gaps) if with_credits else 0
            days.append(MissingDay(chain, day, of_day, own_gaps, credits))
    return sorted(days, key=lambda missing_day: (missing_day.day, missing_day.chain), reverse=True)


def _credits(workspace: Workspace, gaps: Sequence[Gap]) -> int:
    """Return the cost to fill the gaps in hundredths of a credit; 0 for the embedded service, also over the sample."""
    return price(workspace, workspace.provider_id, gaps).credits if workspace.settings.provider.url else 0


def _streams(workspace: Workspace) -> Sequence[Stream]:
    """Return the streams that the settings and the API key's plan include."""
    if workspace.settings.provider.url is not None:
        return within_plan(workspace, STREAMS)[0]
    return [stream for stream in STREAMS if left_out_by_settings(workspace.settings, stream.name) is None]


def _gaps(
    workspace: Workspace,
    streams: Sequence[Stream],
    chain: str,
    instants: Sequence[datetime],
    succeeded: Mapping[Day, bool],
) -> Iterator[Gap]:
    for gap in Coverage(workspace.lake, instants).gaps(workspace, streams, chain):
        if not gap.is_none and _is_missing(workspace, gap, succeeded):
            yield gap


def _is_missing(workspace: Workspace, gap: Gap, succeeded: Mapping[Day, bool]) -> bool:
    """Return whether another run may fill the gap.

    True if the lake lacks the partition, a request of it failed and may succeed later, or the day's last run failed.
    """
    partition = gap.partition
    manifest = workspace.lake.manifest(gap.stream.name, partition.chain, partition.as_of)
    if manifest is None:
        return True
    failed: dict[str, str] = {}
    if manifest.failures:
        rows = workspace.lake.rows(manifest, FAILURES)
        failed = dict(zip(rows["subject"].to_pylist(), rows["code"].to_pylist(), strict=True))
    open_subjects = [subject for subject in gap.missing if failed.get(subject) not in SETTLED]
    if any(subject in failed for subject in open_subjects):
        return True
    return bool(open_subjects or gap.unnamed) and not succeeded.get((partition.chain, partition.as_of.date()), True)


def _as_of(gap: Gap) -> datetime:
    return gap.partition.as_of
