"""What a backfill will cost before it costs it: calls, credits, minutes, bytes, months, and what is there already.

The instants come from ``grid``, what the lake lacks from ``survey``, sizes from ``sizes``, months from ``allowance``
and cheaper ways from ``advice``; here they become one plan. How it is shown stands in ``plan_report``.
"""

from __future__ import annotations

import difflib
from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import asdict, dataclass, field
from datetime import datetime
from typing import Any, Final

from holderlake.backfill.coverage import Gap, Survey, with_settings
from holderlake.backfill.estimates import Size, learn, measure_request
from holderlake.backfill.forecast import Forecast, Purse, forecast
from holderlake.backfill.instants import grid, past_instants
from holderlake.backfill.scope import LeftOut, within_plan
from holderlake.backfill.suggestions import Advice, Offer, advise
from holderlake.contract.chains import from_first_day
from holderlake.contract.prices import ADDRESS_METADATA
from holderlake.contract.requests import AddressesMetadataRequest, Request
from holderlake.contract.times import check_passed, partition_text, utc_now
from holderlake.ingest.options import with_options
from holderlake.ingest.stream import Stream, engine_for
from holderlake.ingest.streams.addresses import ADDRESSES
from holderlake.ingest.streams.all import STREAMS
from holderlake.ingest.streams.holders import HOLDERS
from holderlake.lake.lake import SIDE_TABLES
from holderlake.provider.ledger.ledger import Totals
from holderlake.settings import Settings
from holderlake.workspace import Workspace

__all__ = ["EndpointLine", "Plan", "PlanLine", "grid", "make_plan", "past_instants", "streams_of"]

_ADDRESSES_KIND: Final = "addresses/metadata"


@dataclass(frozen=True)
class PlanLine:
    """A family: partitions wanted and whole already, calls to make, answers in the archive, hundredths of a credit.

    ``shared`` requests are answered by a call that is made, or counted, for another partition. ``computed`` answers
    come from the engine at hand, without a call.
    """

    family: str
    partitions: int
    whole: int
    calls: int
    archived: int
    shared: int
    credits: int
    computed: int = 0


@dataclass(frozen=True)
class EndpointLine:
    """An endpoint: calls to make, hundredths of a credit, bytes of the answers, and whence their size is known."""

    endpoint: str
    calls: int
    credits: int
    bytes: int
    bytes_by_unit: float
    unit: str
    learnt_from: int


@dataclass(frozen=True)
class OtherOptions:
    """Partitions of a family with other request options than the settings give, which a refresh would replace.

    ``refresh_credits`` is what that costs, in hundredths of a credit.
    """

    family: str
    options: list[str]
    partitions: int
    first: str
    last: str
    refresh_credits: int


@dataclass(frozen=True)
class Plan:
    """A backfill's cost; ``minutes`` is the least that the rate limit allows. ``left`` is what the month's ceiling
    leaves, in hundredths, or None without a ceiling; ``coming`` is None where nothing bounds what may be spent."""

    chains: list[str]
    instants: list[datetime]
    lines: list[PlanLine]
    minutes: float
    left: int | None
    endpoints: list[EndpointLine] = field(default_factory=list)
    coming: Forecast | None = None
    renewal: str | None = None
    runs: int | None = None
    advice: list[Advice] = field(default_factory=list)
    cheapest: Advice | None = None
    other: list[OtherOptions] = field(default_factory=list)
    refresh: bool = False
    left_out: Sequence[LeftOut] = ()

    @property
    def calls(self) -> int:
        return sum(line.calls for line in self.lines)

    @property
    def credits(self) -> int:
        return sum(line.credits for line in self.lines)

    @property
    def computed(self) -> int:
        return sum(line.computed for line in self.lines)

    @property
    def bytes(self) -> int:
        return sum(line.bytes for line in self.endpoints)

    @property
    def is_finished(self) -> bool:
        """Whether the lake holds all of it already."""
        return bool(self.lines) and all(line.whole == line.partitions for line in self.lines)

    def as_json(self) -> dict[str, Any]:
        """The plan as plain data."""
        return {
            "chains": self.chains,
            "instants": [f"{instant.isoformat()}Z" for instant in self.instants],
            "tables": [table for stream in STREAMS if self._has(stream) for table in stream.tables],
            "families": [asdict(line) for line in self.lines],
            "endpoints": [asdict(line) for line in self.endpoints],
            "finished": self.is_finished,
            "calls": self.calls,
            "credits_hundredths": self.credits,
            "minutes": self.minutes,
            "bytes": self.bytes,
            "month_left_hundredths": self.left,
            "renewal": self.renewal,
            "months": None if self.coming is None else [month.as_json() for month in self.coming.months],
            "finished_on": self.coming and self.coming.finished and self.coming.finished.isoformat(),
            "never_finished_because": self.coming and self.coming.never,
            "runs_at_least": self.runs,
            "advice": [one.as_json() for one in self.advice],
            "other_options": [asdict(line) for line in self.other],
            "refresh": self.refresh,
            "left_out": [one.as_json() for one in self.left_out],
            "cheapest_settings": self.cheapest and self.cheapest.as_json(),
        }

    def _has(self, stream: Stream) -> bool:
        return any(line.family == stream.name for line in self.lines)


@dataclass(frozen=True)
class _Call:
    """Calls of one price: for whom, at which endpoint, hundredths each, and the size of their answers."""

    chain: str
    family: str
    endpoint: str
    cost: int
    kind: str
    units: int


@dataclass
class _Bill:
    """What pricing gaps comes to: calls in the order in which they are made, and the requests that need none."""

    calls: Counter[_Call] = field(default_factory=Counter)
    partitions: Counter[str] = field(default_factory=Counter)
    whole: Counter[str] = field(default_factory=Counter)
    archived: Counter[str] = field(default_factory=Counter)
    shared: Counter[str] = field(default_factory=Counter)
    computed: Counter[str] = field(default_factory=Counter)
    other: dict[str, list[Gap]] = field(default_factory=dict)

    @property
    def credits(self) -> int:
        return sum(call.cost * count for call, count in self.calls.items())


def streams_of(tables: Sequence[str] | None, settings: Settings) -> tuple[Stream, ...]:
    """The fewest families that fill the tables; all for None. Tables of a family come together.

    Addresses bring holders along, whose top they ask about. Raises ``ValueError`` for a table that none fills.
    """
    if not tables:
        return STREAMS
    known = {table: stream for stream in STREAMS for table in stream.tables}
    for table in tables:
        if table in SIDE_TABLES:
            raise ValueError(f"{table} come with every table; name the tables that they shall come with")
        if table not in known:
            near = difflib.get_close_matches(table, known, 1, 0.5)
            advice = f"did you mean {near[0]}?" if near else f"there are {', '.join(known)}"
            raise ValueError(f"there is no table {table!r}; {advice}")
    chosen = {known[table].name for table in tables}
    if ADDRESSES.name in chosen and settings.addresses.enabled and settings.addresses.top:
        chosen.add(HOLDERS.name)
    return tuple(stream for stream in STREAMS if stream.name in chosen)


def make_plan(
    workspace: Workspace,
    provider_id: str,
    chains: Sequence[str],
    instants: Sequence[datetime],
    tokens: Sequence[str] | None = None,
    *,
    tables: Sequence[str] | None = None,
    refresh: bool = False,
) -> Plan:
    """Prices what the lake lacks at the instants, of all tables or some. Answers in the archive cost nothing, nor do
    those of an engine at hand.

    Raises ``ValueError`` for an unknown table, ``InstantAhead`` for an instant that has not passed.
    """
    check_passed(instants, workspace.now())
    if instants and chains and not any(from_first_day(chain, instants) for chain in chains):
        raise ValueError(f"all instants are before the first block of {', '.join(chains)}; choose later ones")
    streams, left_out = within_plan(workspace, streams_of(tables, workspace.settings))
    survey = Survey(workspace.lake, instants, tokens, refresh)

    def bill_of(settings: Settings, some: Sequence[Stream]) -> _Bill:
        altered = with_settings(workspace, settings)
        return _price(altered, provider_id, _every_gap(survey, altered, some, chains), refresh)

    bill = bill_of(workspace.settings, streams)
    lines = [_line(stream.name, bill) for stream in streams]
    calls = bill.calls.total()
    totals = workspace.ledger.totals()
    left = workspace.ledger.left_this_month()
    offer = Offer(
        workspace.settings,
        streams,
        chains,
        {line.family: line.credits for line in lines},
        lambda settings, some: bill_of(settings, some).credits,
    )
    advice, cheapest = advise(offer)
    other = [_other_line(workspace, provider_id, survey, name, gaps) for name, gaps in bill.other.items()]
    return Plan(
        list(chains),
        list(instants),
        lines,
        round(calls / workspace.settings.provider.rate_per_minute, 4),
        left,
        _endpoint_lines(workspace, provider_id, bill),
        _coming(workspace.settings, totals, left, bill),
        totals.renewal.isoformat(),
        _runs(workspace.settings, bill),
        advice,
        cheapest,
        other,
        refresh,
        left_out,
    )


def _every_gap(survey: Survey, workspace: Workspace, streams: Sequence[Stream], chains: Sequence[str]) -> Iterable[Gap]:
    return (gap for chain in chains for gap in survey.gaps(workspace, streams, chain))


def _other_line(
    workspace: Workspace, provider_id: str, survey: Survey, family: str, gaps: Sequence[Gap]
) -> OtherOptions:
    bill = _price(workspace, provider_id, [survey.refreshed(workspace, gap) for gap in gaps], True)
    found = sorted({", ".join(f"{name} {value}" for name, value in (gap.other or {}).items()) for gap in gaps})
    instants = sorted(partition_text(gap.partition.as_of) for gap in gaps)
    return OtherOptions(family, found, len(gaps), instants[0], instants[-1], bill.credits)


def _price(workspace: Workspace, provider_id: str, gaps: Iterable[Gap], refresh: bool = False) -> _Bill:
    bill = _Bill()
    asked: set[str] = set()
    timeless: dict[tuple[str, str, tuple[str, ...]], int] = {}
    for gap in gaps:
        name = gap.stream.name
        bill.partitions[name] += 1
        if gap.other is not None:
            bill.other.setdefault(name, []).append(gap)
        if gap.is_none:
            bill.whole[name] += 1
        elif gap.unnamed:
            _price_unnamed(gap, bill)
        elif engine_for(workspace, gap.stream):
            bill.computed[name] += len(gap.wanted)
        elif gap.stream.historic:
            _price_requests(workspace, provider_id, gap, bill, asked, refresh)
        elif refresh:
            _price_requests(workspace, provider_id, gap, bill, set(), refresh)
        else:  # one answer a day serves every past, so the same gap again asks for nothing new
            same = (name, gap.partition.chain, gap.wanted)
            if same in timeless:
                bill.shared[name] += timeless[same]
            else:
                timeless[same] = _price_requests(workspace, provider_id, gap, bill, asked)
    return bill


def _price_unnamed(gap: Gap, bill: _Bill) -> None:
    """Addresses of holders that are not known yet: the most that they can cost."""
    left = len(gap.wanted) + gap.unnamed
    endpoint = AddressesMetadataRequest.endpoint
    while left:
        units = min(left, gap.stream.batch)
        cost = ADDRESS_METADATA * units
        bill.calls[_Call(gap.partition.chain, gap.stream.name, endpoint, cost, _ADDRESSES_KIND, units)] += 1
        left -= units


def _price_requests(
    workspace: Workspace, provider_id: str, gap: Gap, bill: _Bill, asked: set[str], refresh: bool = False
) -> int:
    """Prices a gap's requests, and gives how many there are."""
    name, known_as_of = gap.stream.name, gap.stream.archive_as_of(gap.partition)
    requests = _requests(workspace, gap, refresh)
    for request in requests:
        key = workspace.archive.key(provider_id, request, known_as_of)
        if key in asked:
            bill.shared[name] += 1
        elif not refresh and workspace.archive.holds(key, known_as_of if isinstance(known_as_of, datetime) else None):
            bill.archived[name] += 1
        else:
            kind, units = measure_request(request)
            bill.calls[_Call(gap.partition.chain, name, request.endpoint, request.cost, kind, units)] += 1
        asked.add(key)
    return len(requests)


def _requests(workspace: Workspace, gap: Gap, refresh: bool) -> list[Request]:
    settings = with_options(gap.stream.name, workspace.settings, gap.options)
    return [
        request
        for group in gap.stream.batches(gap.wanted)
        for request in gap.stream.requests(settings, gap.partition, group, refresh)
    ]


def _line(family: str, bill: _Bill) -> PlanLine:
    own = {call: count for call, count in bill.calls.items() if call.family == family}
    return PlanLine(
        family,
        bill.partitions[family],
        bill.whole[family],
        sum(own.values()),
        bill.archived[family],
        bill.shared[family],
        sum(call.cost * count for call, count in own.items()),
        bill.computed[family],
    )


def _endpoint_lines(workspace: Workspace, provider_id: str, bill: _Bill) -> list[EndpointLine]:
    """A line for each endpoint that will be asked, dearest first."""
    kinds = {call.kind: call.endpoint for call in bill.calls}
    sizes = learn(workspace.archive, provider_id, kinds) if kinds else {}
    lines = [_endpoint_line(endpoint, kind, sizes[kind], bill) for kind, endpoint in kinds.items()]
    return sorted(lines, key=lambda line: -line.credits)


def _endpoint_line(endpoint: str, kind: str, size: Size, bill: _Bill) -> EndpointLine:
    own = {call: count for call, count in bill.calls.items() if call.kind == kind}
    return EndpointLine(
        endpoint,
        sum(own.values()),
        sum(call.cost * count for call, count in own.items()),
        round(size.by_unit * sum(call.units * count for call, count in own.items())),
        round(size.by_unit, 1),
        size.unit,
        size.learnt_from,
    )


def _coming(settings: Settings, totals: Totals, left: int | None, bill: _Bill) -> Forecast | None:
    """When all of it can be paid for; None where no ceiling bounds a day or a month."""
    budget = settings.budget
    if left is None and budget.per_day is None:
        return None
    today = next((ceiling.left for ceiling in totals.ceilings if ceiling.name == "per_day"), None)
    purse = Purse(budget, today, left, utc_now().date(), totals.renewal, settings.provider.rate_per_minute)
    return forecast(((count, call.cost) for call, count in bill.calls.items()), purse)


def _runs(settings: Settings, bill: _Bill) -> int | None:
    """How many runs it takes at least under the run's ceiling; None without one."""
    ceiling = settings.budget.per_run
    return -(-bill.credits // ceiling) if ceiling else None
