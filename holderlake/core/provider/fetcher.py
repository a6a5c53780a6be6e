"""Fetch each answer once, within the budget; stop after a permanent failure.

The order is: reserve and claim in the ``ledger``, send by the ``client``, keep the answer in the ``archive``, settle. A
crash at any point loses no paid answer, the ledger never counts too little, and two processes never pay for the same
answer.
"""

from __future__ import annotations

import asyncio
import json
import logging
import math
from collections.abc import Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field, replace
from datetime import datetime
from typing import Any, Final, TypeAlias, cast

from holderlake.core.archive.archive import AnswerArchive, ArchivedAnswer, NewAnswer, as_of_text
from holderlake.core.contract.prices import credits_text
from holderlake.core.contract.requests import Request, RulesRequest
from holderlake.core.contract.rules import MapRules
from holderlake.core.contract.times import utc_now
from holderlake.core.provider import errors
from holderlake.core.provider.attempts import LONGEST_WAIT
from holderlake.core.provider.broken_answers import BrokenStreak
from holderlake.core.provider.client import ProviderClient, Response
from holderlake.core.provider.errors import ProviderError
from holderlake.core.provider.ledger import entries
from holderlake.core.provider.ledger.ledger import CreditLedger
from holderlake.core.provider.limiter import Slots
from holderlake.core.provider.plan_limits import PlanLimits
from holderlake.core.storage.batches import Batches

_log = logging.getLogger(__name__)

NO_ANSWER: Final = "no answer"
"""Last words of the instant under which the archive keeps a body that is no answer."""
_TICK: Final = 0.1
"""Seconds. Calls that wait for the rate limit are sent at multiples of this time: one timer a call costs more CPU."""
_LOOK_AGAIN: Final = 0.1
"""Seconds after which a fetch looks again for an answer that another process claims."""
_UNREAD: Final = 32
"""Answers that may wait to be decoded, in addition to twice the concurrency limit."""
_RULES_SECONDS: Final = 10.0
"""Seconds to wait for the rules at most."""
_RULES_CHARACTERS: Final = 100_000
"""Maximum characters of rules that are kept, because each row of ``maps`` has a copy."""


@dataclass
class Counters:
    """Counts of a run: calls sent (retries included), and broken answers that may have been charged."""

    calls: int = 0
    broken: int = 0


@dataclass(frozen=True)
class _Fetch:
    """A request, and the name (``key``) of its answer in the archive.

    Archived answers that were fetched before ``since`` (naive UTC) are not used.
    """

    key: str
    request: Request
    as_of: str
    refresh: bool
    since: datetime | None


@dataclass(frozen=True)
class _Paid:
    """An answer to archive that is paid, or may be, and the operation that then closes its entry in the ledger."""

    answer: NewAnswer
    settle: entries.Settle | entries.MarkBroken


_WriteResult: TypeAlias = entries.Reservation | entries.Claimed | ArchivedAnswer | None
"""Result of an operation on the ledger, or the archived answer that was paid."""


@dataclass
class _Flight:
    """A fetch in progress. ``callers`` that want the same answer wait for its lock and share its outcome."""

    lock: asyncio.Lock = field(default_factory=asyncio.Lock)
    outcome: Response | ProviderError | None = None
    callers: int = 0


class Fetcher:
    """Fetches answers for one run, in one event loop. ``provider_id`` is the provider's name in archive and lake.

    If ``is_free``, calls cost nothing, whatever the service in this process books on its own account.
    """

    def __init__(
        self,
        client: ProviderClient,
        ledger: CreditLedger,
        archive: AnswerArchive,
        provider_id: str,
        run_id: str,
        plan_limits: PlanLimits | None = None,
        is_free: bool = False,
    ) -> None:
        self._is_free = is_free
        self.provider_id = provider_id
        self.run_id = run_id
        self.counters = Counters()
        self.slots = Slots(lambda: 2 * client.limiter.value + _UNREAD)
        """Slots that limit the answers which are being fetched or wait to be decoded, and so the memory of a run."""
        self.cancelled = asyncio.Event()
        """Event that ``cancel`` sets."""
        self._client = client
        self._ledger = ledger
        self._archive = archive
        self._plan_limits = plan_limits
        self._writes: Batches[entries.Operation | _Paid, _WriteResult] = Batches(
            self._archive_and_book, ThreadPoolExecutor(1, "ledger")
        )
        self._streak = BrokenStreak()
        self._has_warned = False
        self._stopped: dict[str, ProviderError] = {}
        self._rules: asyncio.Future[str | None] | None = None
        self._flights: dict[tuple[str, bool], _Flight] = {}

    async def fetch(self, request: Request, as_of: datetime | str | None, *, refresh: bool = False) -> Response:
        """Return the answer to a request, from the archive if it has one, else from the provider.

        ``as_of`` is a part of the answer's name in the archive: an instant (naive UTC), another text, or None for the
        latest data. An archived answer that was fetched before that instant is not used. With ``refresh``, as an
        argument or an option of the request, the provider's new answer supersedes the archived one.

        Raises ``ProviderError``. After an error whose ``stops`` is "provider", no more requests are sent.
        """
        self.check_running()
        text = as_of_text(as_of)
        fetch = _Fetch(
            key=self._archive.key(self.provider_id, request, text),
            request=request,
            as_of=text,
            refresh=refresh or request.query.get("refresh") == "true",
            since=as_of if isinstance(as_of, datetime) else None,
        )
        name = (fetch.key, fetch.refresh)
        flight = self._flights.setdefault(name, _Flight())
        flight.callers += 1
        try:
            async with flight.lock:
                is_first = flight.outcome is None
                outcome = flight.outcome = flight.outcome or self._archived(fetch) or await self._attempted(fetch)
        finally:
            flight.callers -= 1
            if not flight.callers:
                del self._flights[name]
        if isinstance(outcome, ProviderError):
            raise outcome.with_traceback(None)
        return outcome if is_first else replace(outcome, cost=0, from_archive=True)

    def _archived(self, fetch: _Fetch) -> Response | None:
        kept = None if fetch.refresh else self._archive.get(fetch.key, fetch.since)
        if kept is None:
            return None
        return Response(fetch.request, kept.raw, kept.fetched_at, 0, fetch.key, kept.sha256, from_archive=True)

    async def _attempted(self, fetch: _Fetch) -> Response | ProviderError:
        """Return the answer, or the error of the last attempt, which may stop later requests."""
        attempts = self._client.attempts()
        try:
            while True:
                try:
                    async with self._client.limiter.slot():
                        while (outcome := await self._reserve_and_call(fetch) or self._archived(fetch)) is None:
                            await asyncio.sleep(_LOOK_AGAIN)
                        return outcome
                except errors.TransientError as error:
                    await attempts.wait(error)
        except ProviderError as error:
            self._remember(fetch.request, error)
            return error

    async def _reserve_and_call(self, fetch: _Fetch) -> Response | ProviderError | None:
        """Claim the answer and reserve its cost, wait for the rate limit, and make one call.

        Return None if the answer is archived now or another process claims it, and the error of an earlier request if
        that stops this one. If the outcome of the call stays unknown, the cost stays reserved and counts as spent.
        """
        request = fetch.request
        if stop := self._stop_of(request):
            return stop
        reserving = self._writes.submit(
            entries.Reserve(
                *(self.run_id, request.endpoint, request.subject, self._cost(request)),
                *(self._client.rate_per_minute, fetch.key),
            )
        )
        is_sent = False
        try:
            reserved = cast(entries.Reservation | entries.Claimed, await asyncio.shield(reserving))
            if isinstance(reserved, entries.Claimed):
                return None
            if not fetch.refresh and await self._archive.holds_now(fetch.key, fetch.since):  # since we looked last
                return None
            await _wait_for_turn(reserved.wait)
            stop = self._stop_of(request)
            if stop is not None and not isinstance(stop, errors.BudgetExceeded):  # this call is within the budget
                return stop
            is_sent = True
            return await self._client.to_the_end(self._paid_call(fetch, reserved.entry))
        finally:
            if not is_sent:
                await self._client.to_the_end(self._release(reserving))

    async def _paid_call(self, fetch: _Fetch, entry: int) -> Response:
        """Send the request, archive the answer and settle its ledger entry. Never cancel this: the call is charged."""
        request = fetch.request
        self.counters.calls += 1
        try:
            answer = await self._client.exchange(request)
        except ProviderError as error:
            await self._close_failed(fetch, error, entry)
            raise
        self._note_answer(request, answer)
        cost = self._cost(request, answer.cost)
        credits_remaining = None if self._is_free else answer.credits_remaining
        problem = entries.IMPLAUSIBLE if answer.disbelieved else None
        new_answer = NewAnswer(fetch.key, request, answer.raw, answer.fetched_at, self.provider_id, fetch.as_of)
        archived_answer = await self._writes.submit(
            _Paid(new_answer, entries.Settle(entry, cost, credits_remaining, problem))
        )
        return replace(answer, cost=cost, digest=fetch.key, sha256=cast(ArchivedAnswer, archived_answer).sha256)

    def _cost(self, request: Request, billed: int | None = None) -> int:
        """Return the cost to book in hundredths of a credit: what the provider billed, else the list price."""
        if self._is_free:
            return 0
        return request.cost if billed is None else billed

    async def _close_failed(self, fetch: _Fetch, error: ProviderError, entry: int) -> None:
        """Release the ledger entry of a failed call. If the call may have been charged, settle or mark it instead.

        A body that is no answer is archived as evidence, under a name by which no fetch looks for it.
        """
        request = fetch.request
        closing: entries.Settle | entries.MarkBroken | entries.Release = entries.Release(entry)
        if error.maybe_charged:
            how = error.broken or "closed"
            self.counters.broken += 1
            self._stop(self._streak.broke(how, request.cost))
            closing = entries.MarkBroken(entry, how)
            if error.cost_billed is not None and not self._is_free:
                closing = entries.Settle(entry, error.cost_billed, error.credits_remaining, how)
        elif error.status is not None:
            self._streak.intact()
        if error.body and not isinstance(closing, entries.Release):
            as_of = f"{fetch.as_of} {NO_ANSWER}".strip()
            key = self._archive.key(self.provider_id, request, as_of)
            evidence = NewAnswer(key, request, error.body, utc_now(), self.provider_id, as_of)
            await self._writes.submit(_Paid(evidence, closing))
        else:
            await self._writes.submit(closing)
        if isinstance(error, errors.RateLimited) and error.retry_after and error.retry_after <= LONGEST_WAIT:
            await self._writes.submit(entries.Pause(error.retry_after))  # for the other processes too

    async def _release(self, reserving: asyncio.Future[Any]) -> None:
        """Wait for the end of a reservation, then release its ledger entry, even if the caller was cancelled twice."""
        await asyncio.wait([reserving])
        if reserving.exception() is None and isinstance(reserving.result(), entries.Reservation):
            await self._writes.submit(entries.Release(reserving.result().entry))

    def _archive_and_book(self, items: Sequence[entries.Operation | _Paid]) -> list[_WriteResult | Exception]:
        """Archive the paid answers, then write the ledger. Return the result or error of each item, in order."""
        kept = iter(self._kept([item.answer for item in items if isinstance(item, _Paid)]))
        results: list[_WriteResult | Exception] = [next(kept) if isinstance(item, _Paid) else None for item in items]
        places = [place for place, result in enumerate(results) if not isinstance(result, Exception)]
        operations = [item.settle if isinstance(item, _Paid) else item for item in items]
        outcomes = self._ledger.apply([operations[place] for place in places])
        for place, outcome in zip(places, outcomes, strict=True):
            results[place] = results[place] if outcome is None else outcome
        return results

    def _kept(self, answers: Sequence[NewAnswer]) -> Sequence[ArchivedAnswer | errors.AnswerNotKept]:
        """Archive paid answers, and return them; if the archive cannot be written, an error for each."""
        try:
            return self._archive.put_all(answers) if answers else ()
        except OSError as error:
            failures = [
                errors.AnswerNotKept(
                    f"the paid answer to {answer.request.endpoint} {answer.request.subject or ''} as of "
                    f"{answer.as_of or 'now'} ({credits_text(answer.request.cost)} credits) could not be written to "
                    f"the archive: {error.strerror or error}; free some space, then repeat the run"
                )
                for answer in answers
            ]
            for failure in failures:
                _log.error("%s", failure)
            return failures

    def _note_answer(self, request: Request, answer: Response) -> None:
        if answer.garbage is None:
            self._streak.intact()
        else:
            self._stop(self._streak.broke(answer.garbage, request.cost))
        if self._plan_limits is not None:
            self._plan_limits.remove(request.endpoint)
        if answer.disbelieved and not self._has_warned:
            self._has_warned = True
            _log.warning(
                "the headers of the provider's answer about %s have implausible credits (%s); the ledger counts the "
                "list price of %s credits instead. Further such answers are only counted: see 'holderlake credits'",
                request.subject or request.endpoint,
                answer.disbelieved,
                credits_text(request.cost),
            )

    def redacted(self, text: str) -> str:
        """Return the text with ``***`` for the API key."""
        return self._client.key.redacted(text)

    @property
    def is_cancelled(self) -> bool:
        """True after ``cancel`` was called."""
        return self.cancelled.is_set()

    @property
    def is_busy(self) -> bool:
        """True while a call that may be charged, or the one for the rules, is open."""
        return self._client.is_busy

    def cancel(self) -> None:
        """Cancel the run: open calls finish, and no more requests are sent."""
        self._stopped[""] = errors.Cancelled("the run was cancelled; it keeps the partitions that it had committed")
        self.cancelled.set()

    @property
    def stopped(self) -> ProviderError | None:
        """The error that stopped all requests of the run; None if there was none."""
        return self._stopped.get("")

    def check_running(self) -> None:
        """Raise ``Cancelled`` if ``cancel`` was called before."""
        if self.is_cancelled:
            raise self._stopped[""].with_traceback(None)

    def _stop(self, error: ProviderError | None) -> None:
        """Refuse all later requests with ``error``, unless an earlier error refuses them already. None does nothing."""
        if error is not None:
            self._stopped.setdefault("", error)

    def _stop_of(self, request: Request) -> ProviderError | None:
        return self._stopped.get("") or self._stopped.get(request.endpoint)

    def _remember(self, request: Request, error: ProviderError) -> None:
        """Stop later requests that would fail too: after a permanent error, or if no attempt reached the provider."""
        if isinstance(error, errors.PlanRequired) and self._plan_limits is not None:
            self._plan_limits.refused(request.endpoint, error.detail)
        is_out_of_reach = type(error) is errors.Unreachable and not error.maybe_charged
        if error.stops == "provider" or is_out_of_reach:
            error.request = request
            self._stop(error)
        elif error.stops == "endpoint":
            error.request = request
            self._stopped.setdefault(request.endpoint, error)

    async def rules(self) -> str | None:
        """Return the provider's rules (thresholds for maps) as JSON, fetched once; None if it publishes none."""
        if self._rules is None and self.is_cancelled:
            return None
        if self._rules is None:
            self._rules = asyncio.ensure_future(self._client.to_the_end(fetch_rules(self._client)))
        return await asyncio.shield(self._rules)


async def _wait_for_turn(seconds: float) -> None:
    """Wait at least ``seconds``, until the event loop's clock shows a multiple of ``_TICK``."""
    now = asyncio.get_running_loop().time()
    await asyncio.sleep(math.ceil((now + seconds) / _TICK) * _TICK - now if seconds else 0)


def rules_text(rules: Mapping[str, Any]) -> str:
    """Return rules as JSON. Equal rules give the same text."""
    return json.dumps(rules, sort_keys=True, separators=(",", ":"))


async def fetch_rules(client: ProviderClient) -> str | None:
    """Return the provider's rules as JSON, or None if it publishes none that can be read.

    A provider whose answers do not name its rules gets no request, because the path is not in the contract. Without an
    answer it is asked: another host may have fetched all answers of a partition.
    """
    if client.publishes_rules is False:
        return None
    try:
        answer = await asyncio.wait_for(client.exchange(RulesRequest()), _RULES_SECONDS)
        rules = MapRules.model_validate_json(answer.raw)  # another provider may answer anything here
    except (ProviderError, TimeoutError, ValueError, RecursionError):
        return None
    text = rules_text(rules.model_dump())
    return text if len(text) <= _RULES_CHARACTERS else None
