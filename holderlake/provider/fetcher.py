"""A provider as a run sees it: fetch each answer once, within the budget; stop after a permanent failure.

``client`` does the HTTP, ``ledger`` the accounts, ``archive`` keeps the answers; this module fixes their order.
An attempt is reserved, sent, archived, settled, and only then read, so that a crash at any point loses no paid answer
and never counts too little.
"""

from __future__ import annotations

import asyncio
import json
import logging
import math
from collections.abc import AsyncIterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from datetime import datetime
from functools import cached_property
from typing import Any, Final, cast

from holderlake.archive.archive import AnswerArchive, ArchivedAnswer, Arrived, as_of_text
from holderlake.contract.extra_models import MapRules
from holderlake.contract.extra_requests import RulesRequest
from holderlake.contract.prices import credits_text
from holderlake.contract.requests import Request
from holderlake.provider.backoff import LONGEST_WAIT
from holderlake.provider.broken_answers import Breakage
from holderlake.provider.client import ProviderClient, RawAnswer
from holderlake.provider.concurrency import Gate
from holderlake.provider.errors import (
    AnswerNotKept,
    BrokenAnswer,
    BudgetExceeded,
    Cancelled,
    PlanRequired,
    ProviderError,
    RateLimited,
    Unreachable,
    no_answer_in,
)
from holderlake.provider.ledger.entries import IMPLAUSIBLE, Booking, HoldOff, Lost, Release, Reserve, Reserved, Settle
from holderlake.provider.ledger.ledger import CreditLedger
from holderlake.provider.plan_limits import PlanLimits
from holderlake.storage.batches import Batches

_log = logging.getLogger(__name__)

_GATHERING: Final = 0.02
"""Seconds that the books wait for more to enter."""
_BEAT: Final = 0.1
"""Seconds: calls whose turns come within them are made together, at their end."""
_MANY: Final = 16
"""With so many calls under way both are worth their while: waking for each of them alone costs more than the wait."""
_ASIDE: Final = 32
"""So many answers may wait to be read, whatever the pace."""


_RULES_SECONDS: Final = 10.0
"""How long to wait for the provider's rules, which most providers do not publish."""


_LONGEST_RULES: Final = 100_000
"""Characters of rules that are kept; each map has a copy."""


def rules_text(rules: Mapping[str, Any]) -> str:
    """Return rules as JSON, the same text for equal rules."""
    return json.dumps(rules, sort_keys=True, separators=(",", ":"))


@dataclass(frozen=True)
class Fetched:
    """An answer as it came, when it was learnt (naive UTC), and what asking cost now (hundredths of a credit).

    ``digest`` is its name in the archive. It is read when ``answer`` is first asked for; who makes tables of many
    answers takes the ``raw`` bytes (``holderlake.decoding``).
    """

    request: Request
    raw: bytes = field(repr=False)
    fetched_at: datetime
    cost: int
    from_archive: bool
    digest: str
    sha256: str
    reader: ProviderClient = field(repr=False, compare=False)

    @cached_property
    def answer(self) -> Any:
        """The answer read into ``request.answer``. Raises ``MalformedAnswer``, which names it."""
        return self.reader.read(self.request, self.raw, self.digest)


@dataclass
class Counters:
    """What a run did: calls sent (retries too), hundredths of a credit charged, answers that needed no call, and
    answers that broke and may have been charged."""

    calls: int = 0
    credits: int = 0
    archive_hits: int = 0
    broken: int = 0


@dataclass(frozen=True)
class _Ask:
    key: str
    request: Request
    as_of: str
    anew: bool
    since: datetime | None
    """An answer that was archived before this instant does not count: it precedes what it is to be true as of."""


@dataclass(frozen=True)
class _Landed:
    """An answer in the archive; ``paid`` is what was charged for it now, None where it was there already."""

    answer: ArchivedAnswer
    paid: int | None


@dataclass(frozen=True)
class _Paid:
    """An answer to be archived, and its entry to be settled then."""

    arrived: Arrived
    settle: Settle


def _not_kept(arrived: Arrived, error: OSError) -> str:
    request = arrived.request
    return (
        f"the paid answer to {request.endpoint} {request.subject or ''} as of {arrived.as_of or 'now'} "
        f"({credits_text(request.cost)} credits) could not be written to the archive: {error.strerror or error}; "
        "free some space, then run it again"
    )


class _Flight:
    """One request under way: whoever else wants the same waits here and takes what comes of it."""

    def __init__(self) -> None:
        self.lock = asyncio.Lock()
        self.outcome: _Landed | ProviderError | None = None
        self.aboard = 0


class _Stopped(Exception):
    """Asking is in vain, for the reason that ``error`` gave before; whatever that was, this is no case for a retry."""

    def __init__(self, error: ProviderError) -> None:
        super().__init__(str(error))
        self.error = error


class Provider:
    """Fetches answers for one run, for one event loop. ``provider_id`` names the source of the answers."""

    def __init__(
        self,
        client: ProviderClient,
        ledger: CreditLedger,
        archive: AnswerArchive,
        provider_id: str,
        run_id: str,
        plan_limits: PlanLimits | None = None,
    ) -> None:
        self.provider_id = provider_id
        self.run_id = run_id
        self.counters = Counters()
        self.room = Gate(lambda: 2 * client.pace.limit + _ASIDE)
        """Places for answers that are waited for, or not read yet. Who asks for many takes one for each: it bounds
        what is in memory."""
        self._client = client
        self._ledger = ledger
        self._books: Batches[Booking | _Paid, Reserved | ArchivedAnswer | None] = Batches(
            self._enter, ThreadPoolExecutor(1, "books"), self._patience
        )
        self._archive = archive
        self._plan_limits = plan_limits
        self._breakage = Breakage()
        self._has_warned = False
        self._stopped: dict[str, ProviderError] = {}
        self.cancelled = asyncio.Event()
        """Set by ``cancel``."""
        self._rules: asyncio.Future[str | None] | None = None
        self._flights: dict[tuple[str, bool], _Flight] = {}

    def _patience(self) -> float:
        return _GATHERING if self.room.inside >= _MANY else 0.0

    def _enter(self, items: Sequence[Booking | _Paid]) -> list[Reserved | ArchivedAnswer | Exception | None]:
        """Archives what was paid, then books all: between the two the entries are reserved, so a crash counts them."""
        results: list[Reserved | ArchivedAnswer | Exception | None] = [None] * len(items)
        paid = {place: item.arrived for place, item in enumerate(items) if isinstance(item, _Paid)}
        if paid:
            for place, kept in zip(paid, self._archived([*paid.values()]), strict=True):
                results[place] = kept
        bookable = [place for place, result in enumerate(results) if not isinstance(result, Exception)]
        wanted = (items[place] for place in bookable)
        booked = self._ledger.carry_out([one.settle if isinstance(one, _Paid) else one for one in wanted])
        for place, result in zip(bookable, booked, strict=True):
            results[place] = results[place] if result is None else result
        return results

    def _archived(self, arrived: Sequence[Arrived]) -> Sequence[ArchivedAnswer | AnswerNotKept]:
        try:
            return self._archive.put_all(arrived)
        except OSError as error:
            lost = [AnswerNotKept(_not_kept(one, error)) for one in arrived]
            for one in lost:
                _log.error("%s", one)
            return lost

    async def fetch(self, request: Request, as_of: datetime | str | None, *, refresh: bool = False) -> Fetched:
        """The answer to a request, as of an instant (or words that name the asking); from the archive where it is kept.

        It is not read here: whether it can be shows when its ``answer`` is asked for.

        ``refresh``, as an argument or among the request's own options, asks anew and replaces what is kept.
        Raises ``ProviderError``; after one that ``stops`` the provider, nothing is sent any more.
        """
        self.check_running()
        text = as_of_text(as_of)
        anew = refresh or request.query.get("refresh") == "true"
        since = as_of if isinstance(as_of, datetime) else None
        ask = _Ask(self._archive.key(self.provider_id, request, text), request, text, anew, since)
        landed, paid = await self._shared(ask)
        self.counters.archive_hits += paid is None
        kept = paid is None
        return Fetched(request, landed.raw, landed.fetched_at, paid or 0, kept, ask.key, landed.sha256, self._client)

    @property
    def is_cancelled(self) -> bool:
        """Whether ``cancel`` was called."""
        return self.cancelled.is_set()

    @property
    def is_busy(self) -> bool:
        """Whether a call that may be charged is under way."""
        return self._client.is_busy

    def cancel(self) -> None:
        """Let the calls under way finish, and fetch nothing more."""
        self._stopped[""] = Cancelled("the run was cancelled; what had landed by then is kept")
        self.cancelled.set()

    @property
    def stopped(self) -> ProviderError | None:
        """The error after which nothing is sent any more."""
        return self._stopped.get("")

    def check_running(self) -> None:
        """Raise ``Cancelled`` after ``cancel``."""
        if self.is_cancelled:
            raise self._stopped[""].with_traceback(None)

    async def rules(self) -> str | None:
        """Return the provider's rules in force as JSON. They are requested once; None where that fails."""
        if self._rules is None and self.is_cancelled:
            return None
        if self._rules is None:
            self._rules = asyncio.ensure_future(self._requested_rules())
        return await asyncio.shield(self._rules)

    async def _requested_rules(self) -> str | None:
        try:
            answer = await asyncio.wait_for(self._client.exchange(RulesRequest()), _RULES_SECONDS)
            found = MapRules.model_validate_json(answer.raw)  # another provider may answer anything here
        except (ProviderError, TimeoutError, ValueError, RecursionError):
            return None
        text = rules_text(found.model_dump())
        return text if len(text) <= _LONGEST_RULES else None

    async def _shared(self, ask: _Ask) -> tuple[ArchivedAnswer, int | None]:
        """The archived answer, and what this caller paid: of several who want the same at once, one asks and pays."""
        async with self._flight(ask) as flight, flight.lock:
            first = flight.outcome is None
            if flight.outcome is None:
                flight.outcome = await self._outcome(ask)
            outcome = flight.outcome
        if isinstance(outcome, ProviderError):
            raise outcome.with_traceback(None)
        return outcome.answer, outcome.paid if first else None

    @asynccontextmanager
    async def _flight(self, ask: _Ask) -> AsyncIterator[_Flight]:
        """The flight for an ask, forgotten when the last one leaves it: whoever comes later asks again."""
        name = (ask.key, ask.anew)
        flight = self._flights.setdefault(name, _Flight())
        flight.aboard += 1
        try:
            yield flight
        finally:
            flight.aboard -= 1
            if not flight.aboard:
                del self._flights[name]

    async def _outcome(self, ask: _Ask) -> _Landed | ProviderError:
        kept = self._kept(ask)
        if kept is not None:
            return kept
        try:
            return await self._client.retried(lambda: self._attempt(ask))
        except _Stopped as stopped:
            return stopped.error
        except ProviderError as error:
            self._note(ask.request, error)
            return error

    def _kept(self, ask: _Ask) -> _Landed | None:
        kept = None if ask.anew else self._archive.get(ask.key, ask.since)
        return _Landed(kept, None) if kept is not None else None

    async def _attempt(self, ask: _Ask) -> _Landed:
        """One call when it is its turn, reserved before. An unknown outcome leaves the entry reserved, which counts."""
        self._check_open(ask.request)
        async with self._archive.locked(ask.key):
            kept = self._kept(ask)  # another process may have paid while we waited for our turn
            if kept is not None:
                return kept
            entry = await self._reserve(ask.request)
            return await self._client.to_the_end(self._paid_call(ask, entry))

    async def _paid_call(self, ask: _Ask, entry: int) -> _Landed:
        """The call and its accounting. Cut short, it would be charged all the same."""
        self.counters.calls += 1
        try:
            answer = await self._client.exchange(ask.request)
        except ProviderError as error:
            if error.status is not None and not error.maybe_charged:
                self._breakage.intact()
            await self._books.submit(self._lost(ask.request, error, entry) if error.maybe_charged else Release(entry))
            if isinstance(error, RateLimited) and error.retry_after and error.retry_after <= LONGEST_WAIT:
                await self._books.submit(HoldOff(error.retry_after))  # other processes are meant as well
            raise
        self._note_answer(ask.request, answer)
        cost = ask.request.cost if answer.cost_billed is None else answer.cost_billed
        problem = IMPLAUSIBLE if answer.disbelieved else None
        arrived = Arrived(ask.key, ask.request, answer.raw, answer.fetched_at, self.provider_id, ask.as_of)
        kept = await self._books.submit(_Paid(arrived, Settle(entry, cost, answer.credits_remaining, problem)))
        self.counters.credits += cost
        return _Landed(cast(ArchivedAnswer, kept), cost)

    def _lost(self, request: Request, error: ProviderError, entry: int) -> Settle | Lost:
        """The entry of a call that was paid, or may have been, without an answer."""
        how = error.broken or "closed"
        self.counters.broken += 1
        self._stop(self._breakage.broke(how, request.cost))
        if isinstance(error, BrokenAnswer) and error.cost_billed is not None:
            self.counters.credits += error.cost_billed
            return Settle(entry, error.cost_billed, error.credits_remaining, how)
        return Lost(entry, how)

    def _note_answer(self, request: Request, answer: RawAnswer) -> None:
        how = no_answer_in(answer.raw)
        if how is None:
            self._breakage.intact()
        else:
            self._stop(self._breakage.broke(how, request.cost))
        if self._plan_limits is not None:
            self._plan_limits.answered(request.endpoint)
        if answer.disbelieved and not self._has_warned:
            self._has_warned = True
            text = (
                "the provider's answer about %s names credits that cannot be true (%s); the price table's cost of %s "
            )
            text += "is booked instead. Further ones are only counted: see 'holderlake credits'"
            cost = credits_text(request.cost)
            _log.warning(text, request.subject or request.endpoint, answer.disbelieved, cost)

    def _stop(self, error: ProviderError | None) -> None:
        """Refuse all later requests, for the first error of all."""
        if error is not None:
            self._stopped.setdefault("", error)

    async def _reserve(self, request: Request) -> int:
        """Reserves the cost and waits for the call's turn; gives it back where it is not to be made after all."""
        wanted = Reserve(self.run_id, request.endpoint, request.subject, request.cost, self._client.rate_per_minute)
        booking = self._books.submit(wanted)
        try:
            reserved = cast(Reserved, await asyncio.shield(booking))
            await self._wait_for_turn(reserved.wait)
            if not isinstance(self._stop_of(request), BudgetExceeded):  # what is reserved fits below the ceiling
                self._check_open(request)
        except (asyncio.CancelledError, _Stopped):
            await self._client.to_the_end(self._give_back(booking))
            raise
        return reserved.entry

    async def _wait_for_turn(self, seconds: float) -> None:
        now = asyncio.get_running_loop().time()
        at = now + seconds
        if self.room.inside >= _MANY:
            at = math.ceil(at / _BEAT) * _BEAT
        await asyncio.sleep(at - now)

    async def _give_back(self, booking: asyncio.Future[Any]) -> None:
        """Releases what a booking reserved, once it did. Who is cancelled twice would leave it reserved for good."""
        await asyncio.wait([booking])
        if booking.exception() is None:
            await self._books.submit(Release(cast(Reserved, booking.result()).entry))

    def _check_open(self, request: Request) -> None:
        error = self._stop_of(request)
        if error is not None:
            raise _Stopped(error)

    def _stop_of(self, request: Request) -> ProviderError | None:
        return self._stopped.get("") or self._stopped.get(request.endpoint)

    def _note(self, request: Request, error: ProviderError) -> None:
        """Remember what makes later requests fail too: a permanent failure, or a provider that no retry could reach."""
        if isinstance(error, PlanRequired) and self._plan_limits is not None:
            self._plan_limits.refused(request.endpoint, error.detail)
        out_of_reach = type(error) is Unreachable and not error.maybe_charged
        if error.stops == "provider" or out_of_reach:
            error.request = request
            self._stop(error)
        elif error.stops == "endpoint":
            self._stopped.setdefault(request.endpoint, error)
