"""The plan of a backfill: calls, credits, minutes, bytes and months before anything is fetched.

``coverage`` finds gaps in the lake, ``pricing`` prices them, ``forecast`` spreads calls over months, ``report`` prints.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import asdict, dataclass, field
from datetime import datetime
from typing import Any, Final

from holderlake.assets import STREAMS
from holderlake.core.contract.chains import from_first_day
from holderlake.core.contract.times import check_passed, partition_text, utc_now
from holderlake.core.ingest.stream import LeftOut, Stream
from holderlake.core.provider.ledger.entries import Totals
from holderlake.core.settings import Settings
from holderlake.core.workspace import Workspace
from holderlake.operations.backfill.coverage import Coverage, Gap, with_settings
from holderlake.operations.backfill.forecast import Forecast, Funds, forecast
from holderlake.operations.backfill.pricing import Bill, Size, known_refusals, price, sample_sizes
from holderlake.operations.backfill.scope import streams_of, within_plan
from holderlake.operations.backfill.suggestions import Advice, Offer, advise

_MOST_LOOK_UPS: Final = 1_000_000
"""Plans with this many calls price suggestions as if no answer about a token were in the archive, to save time."""


@dataclass(frozen=True)
class PlanLine:
    """A stream's numbers in a plan.

    - ``partitions``: all partitions; ``whole``: those that are complete.
    - ``calls``, and ``credits``, their cost in hundredths of a credit.
    - ``archived``: answers that are in the archive. ``shared``: requests that need no call, because a call for another
      partition answers them. ``computed``: answers that the local engine computes, without a call.
    - ``refused``: those of the calls that cost nothing, because the provider will refuse them. They ask for a time
      before the token's first transfer, or for a token for which the provider has never made a map.
    - ``stale``: those of the partitions that were computed before the own store changed.
    """

    family: str
    partitions: int
    whole: int
    calls: int
    archived: int
    shared: int
    credits: int
    computed: int = 0
    refused: int = 0
    stale: int = 0


@dataclass(frozen=True)
class EndpointLine:
    """An endpoint's numbers in a plan.

    ``calls`` is the number of calls, ``credits`` their cost in hundredths of a credit, ``bytes`` the estimated size of
    the answers. The estimate is ``bytes_by_unit`` for each ``unit`` (such as "a token"). It was measured on
    ``learnt_from`` archived answers; 0 means an assumed size.
    """

    endpoint: str
    calls: int
    credits: int
    bytes: int
    bytes_by_unit: float
    unit: str
    learnt_from: int


@dataclass(frozen=True)
class OtherOptions:
    """Existing partitions of a stream whose request options differ from those of the settings. A refresh replaces them.

    ``options`` are the partitions' request options as texts, ``partitions`` is their number. ``first`` and ``last`` are
    the timestamps of the first and the last one. ``refresh_credits`` is the cost of the refresh in hundredths of a
    credit.
    """

    family: str
    options: list[str]
    partitions: int
    first: str
    last: str
    refresh_credits: int


@dataclass(frozen=True)
class Plan:
    """The requests of a backfill and their highest cost. ``minutes`` is the shortest time that the rate limit allows.

    - ``month_left``: hundredths of a credit left this month; None without a ceiling for the month.
    - ``coming``: forecast of the months in which the backfill will run and of the day on which it will end; None
      without a ceiling for a day or month.
    - ``is_free``: True if the user's own store answers: nothing is billed, and no ceiling matters.
    - ``runs``: the fewest runs into which the ceiling for a run divides the backfill; None without such a ceiling.
    """

    chains: list[str]
    instants: list[datetime]
    lines: list[PlanLine]
    minutes: float
    month_left: int | None
    endpoints: list[EndpointLine] = field(default_factory=list)
    coming: Forecast | None = None
    renewal: str | None = None
    runs: int | None = None
    advice: list[Advice] = field(default_factory=list)
    cheapest: Advice | None = None
    other_options: list[OtherOptions] = field(default_factory=list)
    refresh: bool = False
    left_out: Sequence[LeftOut] = ()
    is_free: bool = False

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
    def refused(self) -> int:
        return sum(line.refused for line in self.lines)

    @property
    def stale(self) -> int:
        return sum(line.stale for line in self.lines)

    @property
    def bytes(self) -> int:
        return sum(line.bytes for line in self.endpoints)

    @property
    def is_finished(self) -> bool:
        """True if all partitions of the plan are complete in the lake."""
        return bool(self.lines) and all(line.whole == line.partitions for line in self.lines)

    def as_json(self) -> dict[str, Any]:
        """Return the plan as plain data."""
        planned = {line.family for line in self.lines}
        return {
            "chains": self.chains,
            "instants": [f"{instant.isoformat()}Z" for instant in self.instants],
            "tables": [table for stream in STREAMS if stream.name in planned for table in stream.tables],
            "families": [asdict(line) for line in self.lines],
            "endpoints": [asdict(line) for line in self.endpoints],
            "finished": self.is_finished,
            "calls": self.calls,
            "credits_hundredths": self.credits,
            "free": self.is_free,
            "refused": self.refused,
            "minutes": self.minutes,
            "bytes": self.bytes,
            "month_left_hundredths": self.month_left,
            "renewal": self.renewal,
            "months": None if self.coming is None else [month.as_json() for month in self.coming.months],
            "finished_on": self.coming and self.coming.finished and self.coming.finished.isoformat(),
            "never_finished_because": self.coming and self.coming.never,
            "runs_at_least": self.runs,
            "advice": [advice.as_json() for advice in self.advice],
            "other_options": [asdict(line) for line in self.other_options],
            "refresh": self.refresh,
            "left_out": [exclusion.as_json() for exclusion in self.left_out],
            "cheapest_settings": self.cheapest and self.cheapest.as_json(),
        }


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
    """Return the plan of the requests that fill the gaps of the lake at the instants.

    ``tables`` limits it to these tables; None means all. With ``refresh``, existing data are requested again too.
    Raises ``ValueError`` for an unknown table, ``InstantAhead`` for an instant that has not passed.
    """
    check_passed(instants, workspace.now())
    if instants and chains and not any(from_first_day(chain, instants) for chain in chains):
        raise ValueError(f"all instants are before the first block of {', '.join(chains)}; choose later ones")
    streams, left_out = within_plan(workspace, streams_of(tables, workspace.settings))
    coverage, refusals = Coverage(workspace.lake, instants, tokens, refresh), known_refusals(workspace)

    def bill_of(settings: Settings, billed_streams: Sequence[Stream], look_up: bool = True) -> Bill:
        altered = with_settings(workspace, settings)
        gaps: Iterable[Gap] = (gap for chain in chains for gap in coverage.gaps(altered, billed_streams, chain))
        return price(altered, provider_id, gaps, refresh, look_up, refusals)

    bill = bill_of(workspace.settings, streams)
    lines = [_line(stream.name, bill) for stream in streams]
    is_free = workspace.settings.provider.is_own_store
    totals, month_left = workspace.ledger.totals(), None if is_free else workspace.ledger.left_this_month()
    costs = {line.family: line.credits for line in lines}
    look_up = bill.calls.total() < _MOST_LOOK_UPS
    priced = {(stream.name, _cost_settings(workspace.settings, stream)): costs[stream.name] for stream in streams}

    def credits_of(settings: Settings, billed_streams: Sequence[Stream]) -> int:
        for stream in billed_streams:
            price_key = (stream.name, _cost_settings(settings, stream))
            if price_key not in priced:
                priced[price_key] = bill_of(settings, [stream], look_up).credits
        return sum(priced[stream.name, _cost_settings(settings, stream)] for stream in billed_streams)

    offer = Offer(workspace.settings, streams, chains, costs, credits_of)
    advice, cheapest = advise(offer)
    per_run = workspace.settings.budget.per_run
    return Plan(
        list(chains),
        list(instants),
        lines,
        minutes=round(bill.calls.total() / workspace.settings.provider.rate_per_minute, 4),
        month_left=month_left,
        endpoints=_endpoint_lines(workspace, provider_id, bill),
        coming=None if is_free else _forecast(workspace.settings, totals, month_left, bill),
        renewal=totals.renewal.isoformat(),
        runs=-(-bill.credits // per_run) if per_run else None,
        advice=advice,
        cheapest=cheapest,
        other_options=[
            _other_line(workspace, provider_id, coverage, name, gaps) for name, gaps in bill.other_gaps.items()
        ],
        refresh=refresh,
        left_out=left_out,
        is_free=is_free,
    )


def _cost_settings(settings: Settings, stream: Stream) -> str:
    """Return, as text, the settings that determine the cost of a stream. Equal texts mean equal costs."""
    if stream.by in ("address", "address_set"):
        return repr((settings.addresses, settings.address_sets))
    return repr(stream.options_in(settings))


def _line(family: str, bill: Bill) -> PlanLine:
    family_calls = {call: count for call, count in bill.calls.items() if call.family == family}
    return PlanLine(
        family,
        bill.partitions[family],
        bill.complete[family],
        sum(family_calls.values()),
        bill.archived[family],
        bill.shared[family],
        sum(call.cost * count for call, count in family_calls.items()),
        bill.computed[family],
        bill.refused[family],
        bill.stale[family],
    )


def _endpoint_lines(workspace: Workspace, provider_id: str, bill: Bill) -> list[EndpointLine]:
    """Return a line for each kind of request that has calls, the dearest first."""
    kinds = {call.kind: call.endpoint for call in bill.calls}
    sizes = sample_sizes(workspace.archive, provider_id, kinds) if kinds else {}
    lines = [_endpoint_line(endpoint, kind, sizes[kind], bill) for kind, endpoint in kinds.items()]
    return sorted(lines, key=lambda line: -line.credits)


def _endpoint_line(endpoint: str, kind: str, size: Size, bill: Bill) -> EndpointLine:
    endpoint_calls = {call: count for call, count in bill.calls.items() if call.kind == kind}
    return EndpointLine(
        endpoint,
        sum(endpoint_calls.values()),
        sum(call.cost * count for call, count in endpoint_calls.items()),
        round(size.by_unit * sum(call.units * count for call, count in endpoint_calls.items())),
        round(size.by_unit, 1),
        size.unit,
        size.answers,
    )


def _other_line(
    workspace: Workspace, provider_id: str, coverage: Coverage, family: str, gaps: Sequence[Gap]
) -> OtherOptions:
    bill = price(workspace, provider_id, [coverage.refreshed(workspace, gap) for gap in gaps], True)
    options = sorted(
        {", ".join(f"{name} {value}" for name, value in (gap.other_options or {}).items()) for gap in gaps}
    )
    instants = sorted(partition_text(gap.partition.as_of) for gap in gaps)
    return OtherOptions(family, options, len(gaps), instants[0], instants[-1], bill.credits)


def _forecast(settings: Settings, totals: Totals, month_left: int | None, bill: Bill) -> Forecast | None:
    """Return the forecast of the plan's calls; None if no ceiling limits a day or a month."""
    budget = settings.budget
    if month_left is None and budget.per_day is None:
        return None
    today = next((ceiling.left for ceiling in totals.ceilings if ceiling.name == "per_day"), None)
    funds = Funds(budget, today, month_left, utc_now().date(), totals.renewal, settings.provider.rate_per_minute)
    return forecast(((count, call.cost) for call, count in bill.calls.items()), funds)
