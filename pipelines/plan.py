"""What a backfill will cost before it costs it: calls, credits, minutes, and what is there already."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import asdict, dataclass
from datetime import datetime, timedelta
from typing import Any, Final

from assets.addresses import ADDRESSES, most_subjects
from assets.definitions import FAMILIES
from assets.family import Family, Slice, missing, slice_of
from contract.prices import ADDRESS_METADATA
from contract.requests import Request
from contract.times import parse_when, utc_now
from resources.workspace import Workspace

_STEPS: Final = {"h": timedelta(hours=1), "d": timedelta(days=1), "w": timedelta(weeks=1)}


@dataclass(frozen=True)
class PlanLine:
    """A family: partitions wanted and whole already, calls to make, answers in the archive, hundredths of a credit."""

    family: str
    partitions: int
    whole: int
    calls: int
    archived: int
    credits: int


@dataclass(frozen=True)
class Plan:
    """A backfill's cost; ``minutes`` is the least that the rate limit allows. ``left`` is what the month's ceiling
    leaves, in hundredths, or None without a ceiling."""

    chains: list[str]
    instants: list[datetime]
    lines: list[PlanLine]
    minutes: float
    left: int | None

    @property
    def calls(self) -> int:
        return sum(line.calls for line in self.lines)

    @property
    def credits(self) -> int:
        return sum(line.credits for line in self.lines)

    def as_json(self) -> dict[str, Any]:
        """The plan as plain data."""
        return {
            "chains": self.chains,
            "instants": [f"{instant.isoformat()}Z" for instant in self.instants],
            "families": [asdict(line) for line in self.lines],
            "calls": self.calls,
            "credits_hundredths": self.credits,
            "minutes": self.minutes,
            "month_left_hundredths": self.left,
        }


def grid(start: datetime, end: datetime, every: str) -> list[datetime]:
    """The instants from ``start`` to ``end`` (both included) every 1h, 6h, 1d, 1w or 1mo.

    Months keep the start's day, or take the month's last. Raises ``ValueError`` with the forms that are taken.
    """
    if end < start:
        raise ValueError(f"the end, {end.isoformat()}, is before the start, {start.isoformat()}")
    step = _step(every)
    found: list[datetime] = []
    while (instant := step(start, len(found))) <= end:
        found.append(instant)
    return found


def _step(every: str) -> Callable[[datetime, int], datetime]:
    count, unit = every.rstrip("hdwmo"), every.lstrip("0123456789")
    if not count.isdigit() or int(count) < 1 or unit not in (*_STEPS, "mo"):
        raise ValueError(f"{every!r} is no step; write a number and h, d, w or mo: 1h, 6h, 1d, 1w, 1mo")
    if unit == "mo":
        return lambda start, n: _months_after(start, n * int(count))
    return lambda start, n: start + n * int(count) * _STEPS[unit]


def _months_after(start: datetime, months: int) -> datetime:
    year, month = divmod(start.month - 1 + months, 12)
    first = start.replace(year=start.year + year, month=month + 1, day=1)
    last = (first.replace(day=28) + timedelta(days=4)).replace(day=1) - timedelta(days=1)
    return first.replace(day=min(start.day, last.day))


def past_instants(texts: Iterable[str]) -> list[datetime]:
    """Instants written by a person, oldest first. Raises ``ValueError`` for a time that is none, or not yet come."""
    instants = sorted({parse_when(text) for text in texts})
    if instants and instants[-1] > utc_now() + timedelta(seconds=1):
        raise ValueError(f"{instants[-1].isoformat()}Z lies in the future")
    return instants


def make_plan(
    workspace: Workspace,
    provider_id: str,
    chains: Sequence[str],
    instants: Sequence[datetime],
    tokens: Sequence[str] | None = None,
) -> Plan:
    """Prices what the lake lacks at the instants. Answers in the archive cost nothing."""
    asked: set[str] = set()
    lines = [_line(workspace, provider_id, family, chains, instants, tokens, asked) for family in FAMILIES]
    calls = sum(line.calls for line in lines)
    minutes = round(calls / workspace.settings.provider.rate_per_minute, 2)
    return Plan(list(chains), list(instants), lines, minutes, workspace.ledger.left_this_month())


def _line(
    workspace: Workspace,
    provider_id: str,
    family: Family,
    chains: Sequence[str],
    instants: Sequence[datetime],
    tokens: Sequence[str] | None,
    asked: set[str],
) -> PlanLine:
    whole = calls = archived = cost = 0
    for chain in chains:
        for as_of in instants:
            part = slice_of(workspace.settings, chain, as_of)
            if family is ADDRESSES and not _holders_known(workspace, part):
                addresses = most_subjects(workspace, part)
                calls += -(-addresses // family.batch)
                cost += addresses * ADDRESS_METADATA
                continue
            wanted = missing(workspace, family, part, tokens)
            whole += not wanted
            for request in _requests(workspace, family, part, wanted):
                key = workspace.archive.key(provider_id, request, family.known_as_of(part))
                if key in asked or key in workspace.archive:
                    archived += 1
                else:
                    asked.add(key)
                    calls += 1
                    cost += request.cost
    return PlanLine(family.name, len(chains) * len(instants), whole, calls, archived, cost)


def _requests(workspace: Workspace, family: Family, part: Slice, wanted: Sequence[str]) -> list[Request]:
    return [
        request
        for group in family.batches(wanted)
        for request in family.requests(workspace.settings, part, group, False)
    ]


def _holders_known(workspace: Workspace, part: Slice) -> bool:
    return workspace.lake.manifest("holders", part.chain, part.as_of) is not None
