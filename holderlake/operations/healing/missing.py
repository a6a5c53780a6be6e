"""Partitions that lack a part of the data that a run or the schedule requested."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import date, datetime
from typing import Final

from holderlake.assets import STREAMS
from holderlake.core.ingest.lacking import may_be_answered
from holderlake.core.ingest.stream import Stream, left_out_by_settings
from holderlake.core.workspace import Workspace
from holderlake.operations.backfill.coverage import Coverage, Gap
from holderlake.operations.backfill.pricing import price
from holderlake.operations.backfill.scope import within_plan

Day = tuple[str, date]
"""A chain and a day. It is one partition in Dagster, and contains all instants of the day."""
_ALL: Final = frozenset(stream.name for stream in STREAMS)


@dataclass(frozen=True)
class Scope:
    """The requested part of a chain's instants: tokens and families (all if empty), and the start of a refresh.

    ``refresh_since`` is empty without a refresh (else ISO, UTC). ``is_stopped``: the run ended before it requested all
    subjects, so those without a request are missing too.
    """

    chain: str
    tokens: tuple[str, ...] = ()
    families: tuple[str, ...] = ()
    refresh_since: str = ""
    is_stopped: bool = True


@dataclass(frozen=True)
class MissingDay:
    """A chain and day with missing data: the gaps, and the cost to fill them (hundredths of a credit)."""

    chain: str
    day: date
    gaps: tuple[Gap, ...] = ()
    credits: int = 0
    refresh_since: str = ""

    @property
    def key(self) -> Day:
        return self.chain, self.day

    @property
    def instants(self) -> list[datetime]:
        return sorted({gap.partition.as_of for gap in self.gaps})

    @property
    def families(self) -> list[str]:
        """The names of the streams with a gap, in the order in which a run fetches them."""
        names = {gap.stream.name for gap in self.gaps}
        return [stream.name for stream in STREAMS if stream.name in names]

    @property
    def tokens(self) -> set[str]:
        """The tokens that are missing."""
        return {subject for gap in self.gaps if gap.stream.by == "token" for subject in gap.missing}


def missing_days(
    workspace: Workspace, asked: Mapping[Scope, Iterable[datetime]], *, with_credits: bool = True
) -> list[MissingDay]:
    """Return the chains and days that lack a part of the requested data, newest first.

    ``asked`` has the instants by scope.

    Subjects that the provider says it does not have, or whose paid answer cannot be read, are not missing. Without
    ``with_credits``, costs are 0.
    """
    found: dict[tuple[str, date, str], dict[tuple[str, datetime], Gap]] = {}
    streams = _streams(workspace) if asked else []
    for scope, instants in asked.items():
        for gap in _gaps(workspace, streams, scope, sorted(set(instants))):
            place = (gap.stream.name, gap.partition.as_of)
            of_day = found.setdefault((scope.chain, gap.partition.as_of.date(), scope.refresh_since), {})
            before = of_day[place].missing if place in of_day else ()
            of_day[place] = replace(gap, missing=tuple(dict.fromkeys((*before, *gap.missing))))
    days = [
        MissingDay(
            chain, day, tuple(gaps.values()), _credits(workspace, [*gaps.values()]) if with_credits else 0, since
        )
        for (chain, day, since), gaps in found.items()
    ]
    return sorted(days, key=lambda missing_day: (missing_day.day, missing_day.chain), reverse=True)


def _credits(workspace: Workspace, gaps: Sequence[Gap]) -> int:
    """Return the cost to fill the gaps in hundredths of a credit; 0 for the embedded service, also over the sample."""
    return price(workspace, workspace.provider_id, gaps).credits if workspace.settings.provider.url else 0


def _streams(workspace: Workspace) -> Sequence[Stream]:
    """Return the streams that the settings and the API key's plan include."""
    if workspace.settings.provider.url is not None:
        return within_plan(workspace, STREAMS)[0]
    return [stream for stream in STREAMS if left_out_by_settings(workspace.settings, stream.name) is None]


def _gaps(workspace: Workspace, streams: Sequence[Stream], scope: Scope, instants: list[datetime]) -> Iterator[Gap]:
    """Yield the gaps of a scope that another request may fill, each with only those subjects."""
    asked_streams = [stream for stream in streams if stream.name in (scope.families or _ALL)]
    coverage = Coverage(workspace.lake, instants, scope.tokens or None)
    for gap in coverage.gaps(workspace, asked_streams, scope.chain):
        if gap.is_none and not scope.refresh_since:
            continue
        manifest = workspace.lake.manifest(gap.stream.name, scope.chain, gap.partition.as_of)
        if scope.refresh_since and (manifest is None or manifest.written_at.isoformat() < scope.refresh_since):
            yield coverage.refreshed(workspace, gap)
        elif manifest is None:
            yield gap
        else:
            is_open = scope.is_stopped
            asked = [subject for subject in gap.missing if is_open or subject in manifest.unanswered]
            missing = may_be_answered(workspace.lake, manifest, asked)
            if missing or (is_open and gap.unnamed):
                yield replace(gap, missing=tuple(missing))
