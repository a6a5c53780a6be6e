"""Fetches: no answer is paid twice, no paid answer is lost, and permanent failures stop the run."""

from __future__ import annotations

import asyncio
import json
import os
import re
import signal
import socket
import time
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager, suppress
from dataclasses import dataclass
from datetime import datetime, timedelta
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from holderlake.core.archive.archive import AnswerArchive
from holderlake.core.contract.prices import CHAINS as CHAINS_PRICE
from holderlake.core.contract.prices import MAP_BASE
from holderlake.core.contract.requests import AddressMetadataRequest, ChainsRequest, MapOptions, MapRequest
from holderlake.core.contract.rules import Rules
from holderlake.core.provider import errors
from holderlake.core.provider.attempts import CallOptions
from holderlake.core.provider.client import ProviderClient
from holderlake.core.provider.errors import ProviderError
from holderlake.core.provider.fetcher import Counters, Fetcher
from holderlake.core.provider.ledger.entries import Problem
from holderlake.core.provider.ledger.ledger import CreditLedger
from holderlake.core.provider.plan_limits import VALID_FOR, PlanLimits
from holderlake.core.storage.state import Where
from holderlake.engine.catalog.rules import rules_in_force
from tests.core.provider.conftest import as_text
from tests.core.provider.credit_ledger import OneCallLedger
from tests.helpers.filling import spoil
from tests.helpers.misbehaving import (
    CHAINS,
    Misbehaving,
    Step,
    answer,
    details,
    endless,
    error,
    half,
    held,
    reset,
    silence,
    token_map,
)
from tests.helpers.processes import PATIENCE, event, run

pytestmark = pytest.mark.anyio
AS_OF = datetime(2026, 11, 20)
QUICK = CallOptions(rate_window=0.1)
MAP = answer(token_map())
OUR_MAP = answer(token_map(), headers={"X-Rules": "/v0/x/rules"})
PER_MINUTE = error(429, detail="Rate limit exceeded: 10000 per 1 minute")
LIMIT_TEXT = {"status": "0", "message": "NOTOK", "result": "Max calls per sec rate limit reached"}
LIMITED = answer(LIMIT_TEXT)
BILLED = answer(token_map(), headers={"X-Credits-Cost": "20.00", "X-Credits-Remaining": "975.00"})


def a_map(number: int = 1, refresh: bool = False) -> MapRequest:
    return MapRequest(chain="eth", token_address=f"0x{number:040x}", options=MapOptions(refresh=refresh))


@dataclass
class Stage:
    """A provider on a scripted server, with its ledger and archive."""

    provider: Fetcher
    ledger: CreditLedger
    archive: AnswerArchive
    server: Misbehaving

    def books(self) -> tuple[int, int]:
        """Spent and reserved."""
        totals = self.ledger.totals()
        return totals.spent, totals.reserved

    @property
    def calls(self) -> int:
        return len(self.server.received)


@asynccontextmanager
async def playing(
    home: Path,
    steps: list[Step],
    *,
    per_run: int | None = None,
    attempts: int = 3,
    timeout: float = PATIENCE,
    concurrency: int = 8,
    options: CallOptions = QUICK,
    where: Where | None = None,
) -> AsyncIterator[Stage]:
    with CreditLedger(where or home / "ledger.db", per_run=per_run) as ledger:
        async with (
            Misbehaving(steps) as server,
            ProviderClient(
                server.address,
                "key-0123456789",
                timeout=timeout,
                attempts=attempts,
                concurrency=concurrency,
                first_wait=0.01,
                options=options,
            ) as client,
        ):
            archive = AnswerArchive(home / "archive")
            plan_limits = PlanLimits(where or home / "ledger.db", "them", "key-0123456789")
            provider = Fetcher(client, ledger, archive, "them", "run", plan_limits)
            yield Stage(provider, ledger, archive, server)


def failing(*kinds: type[ProviderError]) -> Any:
    return pytest.raises(kinds)


async def test_an_answer_is_paid_once_and_then_read_from_the_archive(tmp_path: Path) -> None:
    async with playing(tmp_path, [BILLED]) as stage:
        paid = await stage.provider.fetch(a_map(), AS_OF)
        assert (paid.cost, paid.from_archive) == (2000, False)
        assert paid.answer.metrics.scores.service_score == 51.5
        again = await stage.provider.fetch(a_map(), AS_OF)
        assert (again.cost, again.from_archive) == (0, True)
        assert (again.answer, again.fetched_at, again.digest) == (paid.answer, paid.fetched_at, paid.digest)
        assert stage.books() == (2000, 0)
        assert stage.ledger.totals().credits_remaining == 97_500
        assert stage.provider.counters == Counters(calls=1)
    async with playing(tmp_path, [MAP]) as another_run:
        assert (await another_run.provider.fetch(a_map(), AS_OF)).from_archive
        assert another_run.calls == 0


async def test_without_a_cost_header_the_list_price_counts(tmp_path: Path) -> None:
    async with playing(tmp_path, [MAP]) as stage:
        assert (await stage.provider.fetch(a_map(), AS_OF)).cost == MAP_BASE
        assert stage.books() == (MAP_BASE, 0)
        (row,) = stage.ledger.report("token")
        assert (row.name, row.calls) == (a_map().subject, 1)


@pytest.mark.parametrize("by_option", [True, False])
async def test_a_refresh_fetches_again_and_replaces_the_archived_answer(tmp_path: Path, by_option: bool) -> None:
    async with playing(tmp_path, [answer(token_map(1)), answer(token_map(2))]) as stage:
        old = await stage.provider.fetch(a_map(), AS_OF)
        new = await stage.provider.fetch(a_map(refresh=by_option), AS_OF, refresh=not by_option)
        assert (new.from_archive, new.digest) == (False, old.digest)
        assert (await stage.provider.fetch(a_map(), AS_OF)).answer.metrics.scores.service_score == 2
        assert stage.calls == 2


async def test_different_instants_are_different_answers(tmp_path: Path) -> None:
    async with playing(tmp_path, [answer(CHAINS)]) as stage:
        for as_of in (AS_OF, datetime(2026, 11, 21), "known 2026-11-21", None):
            assert not (await stage.provider.fetch(ChainsRequest(), as_of)).from_archive


async def test_each_attempt_is_reserved_and_closed(tmp_path: Path) -> None:
    seen: list[tuple[int, int]] = []
    async with playing(tmp_path, [MAP]) as stage:

        async def look(_: asyncio.StreamReader, __: asyncio.StreamWriter) -> None:
            seen.append(stage.books())

        stage.server.steps[:] = [both(look, error(500)), both(look, error(503)), both(look, MAP)]
        await stage.provider.fetch(a_map(), AS_OF)
        assert seen == [(0, MAP_BASE)] * 3
        assert stage.books() == (MAP_BASE, 0)
        (row,) = stage.ledger.report("endpoint")
        assert (row.calls, row.uncharged_calls) == (1, 2)
        assert stage.provider.counters.calls == 3


def both(one: Step, other: Step) -> Step:
    async def step(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await one(reader, writer)
        await other(reader, writer)

    return step


@pytest.mark.parametrize(
    ("trouble", "kind", "counted", "timeout"),
    [
        (error(404, "no_holders"), errors.NoHolders, 0, PATIENCE),
        (error(400, "unsupported_token"), errors.UnsupportedToken, 0, PATIENCE),
        (error(422), errors.InvalidRequest, 0, PATIENCE),
        (error(500), errors.Unavailable, 0, PATIENCE),
        (error(504), errors.Unavailable, MAP_BASE, PATIENCE),
        (reset(), errors.Unreachable, MAP_BASE, PATIENCE),
        (half(token_map()), errors.Unreachable, MAP_BASE, PATIENCE),
        (silence(), errors.Unreachable, MAP_BASE, 1.0),
    ],
    ids=["404", "400", "422", "500", "504", "reset", "half", "silence"],
)
async def test_only_calls_that_may_have_been_charged_count(
    tmp_path: Path, trouble: Step, kind: type[ProviderError], counted: int, timeout: float
) -> None:
    async with playing(tmp_path, [trouble], attempts=1, timeout=timeout) as stage:
        with failing(kind):
            await stage.provider.fetch(a_map(), AS_OF)
        assert stage.books() == (0, counted)
        assert stage.archive.size().answers == 0
        # Other fetches do not fail.
        stage.server.steps[:] = [MAP]
        await stage.provider.fetch(a_map(2), AS_OF)


async def test_each_call_of_unknown_outcome_counts_towards_the_ceiling(tmp_path: Path) -> None:
    many = CallOptions(charged_repeats=4)
    async with playing(tmp_path, [reset()], attempts=5, per_run=2 * MAP_BASE, options=many) as stage:
        with failing(errors.BudgetExceeded):
            await stage.provider.fetch(a_map(), AS_OF)
        assert stage.books() == (0, 2 * MAP_BASE)
        assert stage.calls == 2


@pytest.mark.parametrize(
    ("trouble", "problem"),
    [
        (reset(), "reset"),
        (half(token_map()), "closed"),
        pytest.param(silence(), "timeout", marks=pytest.mark.integration),
        (error(504), "gateway"),
        (endless(), "too_large"),
        (answer(b"\x83 brotli", headers={"Content-Encoding": "br"}), "encoding"),
    ],
    ids=["reset", "half", "silence", "504", "endless", "brotli"],
)
async def test_a_call_that_may_have_been_charged_is_repeated_once(tmp_path: Path, trouble: Step, problem: str) -> None:
    timeout = 0.5 if problem == "timeout" else PATIENCE
    async with playing(
        tmp_path, [trouble], attempts=5, timeout=timeout, options=CallOptions(answer_bytes=100_000)
    ) as stage:
        with failing(errors.TransientError) as caught:
            await stage.provider.fetch(a_map(), AS_OF)
        assert caught.value.maybe_charged
        assert stage.calls == 2
        assert stage.ledger.problems() == [Problem(problem, 2, 0, 2 * MAP_BASE)]
        assert stage.provider.counters.broken == 2


async def test_the_cost_header_of_a_broken_answer_is_settled(tmp_path: Path) -> None:
    async with playing(tmp_path, [half(token_map(), {"X-Credits-Cost": "15.00"})], attempts=1) as stage:
        with failing(errors.BrokenAnswer):
            await stage.provider.fetch(a_map(), AS_OF)
        assert stage.books() == (1_500, 0)
        assert stage.ledger.problems() == [Problem("closed", 1, 1_500, 0)]


@pytest.mark.later(integration=1, long=5)
@pytest.mark.parametrize(
    ("trouble", "words"),
    [
        (half(token_map()), "A proxy or firewall"),
        (silence(), r"provider\.timeout_seconds"),
        (endless(), r"provider\.answer_megabytes"),
        (error(504), "gateway"),
        (answer(b"<html><title>Sign in</title>"), r"provider\.url"),
        (answer(b" "), "were empty"),
        (answer({"detail": "upstream failed", "code": 17}), "no field of an answer"),
    ],
    ids=["half", "silence", "endless", "504", "page", "empty", "error"],
)
async def test_five_broken_answers_in_a_row_stop_the_run(tmp_path: Path, trouble: Step, words: str) -> None:
    timeout = 0.5 if "timeout" in words else PATIENCE
    async with playing(tmp_path, [trouble], timeout=timeout, options=CallOptions(answer_bytes=100_000)) as stage:
        with failing(errors.AnswersBreak) as caught:
            for number in range(30):
                with suppress(errors.TransientError):
                    await stage.provider.fetch(a_map(number), AS_OF)
        assert re.search(words, str(caught.value))
        assert "125.00 credits" in str(caught.value)
        assert stage.calls == 5


async def test_broken_answers_among_good_ones_do_not_stop_the_run(tmp_path: Path) -> None:
    async with playing(tmp_path, [half(token_map()), MAP] * 10) as stage:
        for number in range(10):
            await stage.provider.fetch(a_map(number), AS_OF)
        assert stage.calls == 20


@pytest.mark.parametrize("cost", ["9" * 30, "9e16", "90000000000000000", "-1.00", "NaN", "much", "9" * 5_000])
async def test_an_implausible_cost_is_ignored_with_a_warning(
    tmp_path: Path, cost: str, caplog: pytest.LogCaptureFixture
) -> None:
    async with playing(
        tmp_path, [answer(token_map(), headers={"X-Credits-Cost": cost, "X-Credits-Remaining": cost})]
    ) as stage:
        for number in range(3):
            await stage.provider.fetch(a_map(number), AS_OF)
        assert stage.books() == (3 * MAP_BASE, 0)
        assert stage.ledger.problems() == [Problem("implausible_cost", 3, 3 * MAP_BASE, 0)]
        assert stage.ledger.totals().credits_remaining is None
    (warning,) = [record.getMessage() for record in caplog.records if record.levelname == "WARNING"]
    assert cost[:30] in warning
    assert "list price of 25.00 credits" in warning


@pytest.mark.parametrize(
    ("refusal", "reserved"), [(PER_MINUTE, 0), (LIMITED, 4 * MAP_BASE)], ids=["429", "status of success"]
)
async def test_a_rate_limit_does_not_use_up_the_attempts(tmp_path: Path, refusal: Step, reserved: int) -> None:
    async with playing(tmp_path, [refusal] * 4 + [MAP], attempts=2, options=CallOptions(rate_window=10.0)) as stage:
        await stage.provider.fetch(a_map(), AS_OF)
        assert stage.calls == 5
        assert stage.books() == (MAP_BASE, reserved)


@pytest.mark.parametrize(
    "refusal",
    [error(429, Retry_After="0.3"), answer(LIMIT_TEXT, headers={"Retry-After": "0.3"})],
    ids=["429", "status of success"],
)
async def test_a_rate_limit_makes_other_calls_wait(tmp_path: Path, refusal: Step) -> None:
    async with playing(tmp_path, [refusal, MAP]) as stage:
        limiter = stage.provider._client.limiter
        first = asyncio.create_task(stage.provider.fetch(a_map(), AS_OF))
        await event(lambda: limiter._resume_at)
        await stage.provider.fetch(a_map(2), AS_OF)
        assert asyncio.get_running_loop().time() >= limiter._resume_at
        await first


async def test_a_persisting_rate_limit_is_reported(tmp_path: Path) -> None:
    async with playing(tmp_path, [PER_MINUTE]) as stage:
        with failing(errors.RateLimitPersists) as caught:
            await stage.provider.fetch(a_map(), AS_OF)
        assert "10000 per 1 minute" in str(caught.value)
        assert "not used-up credits" in str(caught.value)
        assert stage.calls >= 2
        assert stage.books() == (0, 0)
        calls = stage.calls
        with failing(errors.RateLimitPersists):
            await stage.provider.fetch(a_map(2), AS_OF)
        assert stage.calls == calls


async def test_an_unclear_429_for_two_rate_windows_means_used_up_credits(tmp_path: Path) -> None:
    async with playing(tmp_path, [error(429, detail="Too Many Requests")]) as stage:
        with failing(errors.CreditsExhausted) as caught:
            await stage.provider.fetch(a_map(), AS_OF)
        assert "the credits seem to be used up" in str(caught.value)
        assert stage.calls >= 2


async def test_an_unclear_429_that_passes_costs_nothing(tmp_path: Path) -> None:
    unclear = error(429, detail="Too Many Requests")
    async with playing(tmp_path, [unclear, unclear, MAP], attempts=1, options=CallOptions(rate_window=10.0)) as stage:
        await stage.provider.fetch(a_map(), AS_OF)
        assert stage.books() == (MAP_BASE, 0)


CHARGED = {"X-Credits-Cost": "25.00"}


@pytest.mark.parametrize(
    ("raw", "headers"),
    [(b"<html>", CHARGED), (b'{"metadata": ', CHARGED), (b'{"metrics": NaN}', {}), (b"[]", CHARGED)],
    ids=["html", "truncated", "nan", "shape"],
)
async def test_a_charged_unreadable_answer_is_archived_and_not_paid_again(
    tmp_path: Path, raw: bytes, headers: dict[str, str]
) -> None:
    async with playing(tmp_path, [answer(raw, headers=headers)]) as stage:
        for _ in range(2):
            with failing(errors.MalformedAnswer) as caught:
                _ = (await stage.provider.fetch(a_map(), AS_OF)).answer
        assert caught.value.answer_hash in str(caught.value)
        kept = stage.archive.get(caught.value.digest)
        assert kept is not None
        assert (kept.raw, kept.sha256) == (raw, caught.value.answer_hash)
        assert stage.calls == 1
        assert stage.books() == (MAP_BASE, 0)
        stage.server.steps[:] = [MAP]
        assert (await stage.provider.fetch(a_map(), AS_OF, refresh=True)).answer.clusters == []


@pytest.mark.parametrize(
    ("headers", "books"), [({}, (MAP_BASE, MAP_BASE)), ({"X-Credits-Cost": "0"}, (MAP_BASE, 0))], ids=["none", "zero"]
)
@pytest.mark.parametrize(
    "raw",
    [
        b"<html>",
        b"",
        b'{"metadata": ',
        b'{"detail": "upstream failed"}',
        b"null",
        b"[]",
        b"{}",
        b'"busy"',
        b'{"data": {"metadata": {}, "clusters": []}}',
        b'{"status":"0","message":"NOTOK","result":"Max calls per sec rate limit reached"}',
    ],
)
async def test_an_uncharged_body_that_is_no_answer_is_requested_again(
    tmp_path: Path, raw: bytes, headers: dict[str, str], books: tuple[int, int]
) -> None:
    async with playing(tmp_path, [answer(raw, headers=headers), MAP]) as stage:
        response = await stage.provider.fetch(a_map(), AS_OF)
        assert (stage.calls, response.answer.clusters) == (2, [])
        assert stage.books() == books
        assert {kept.raw for kept in stage.archive} == {raw, response.raw} - {b""}
        assert (await stage.provider.fetch(a_map(), AS_OF)).sha256 == response.sha256


async def test_an_empty_list_without_a_charge_is_requested_again(tmp_path: Path) -> None:
    async with playing(tmp_path, [answer([]), answer(CHAINS)]) as stage:
        assert len((await stage.provider.fetch(ChainsRequest(), AS_OF)).answer) == 1
        assert (stage.calls, stage.books()) == (2, (CHAINS_PRICE, CHAINS_PRICE))


@pytest.mark.parametrize(
    ("trouble", "kind"),
    [(error(429, "credits_exhausted"), errors.CreditsExhausted), (error(401, "invalid_key"), errors.InvalidKey)],
)
async def test_other_fetches_stop_without_credits_or_valid_key(
    tmp_path: Path, trouble: Step, kind: type[ProviderError]
) -> None:
    async with playing(tmp_path, [answer(CHAINS), trouble], concurrency=2) as stage:
        kept = await stage.provider.fetch(ChainsRequest(), AS_OF)
        outcomes = await asyncio.gather(
            *(stage.provider.fetch(a_map(number), AS_OF) for number in range(50)), return_exceptions=True
        )
        assert {type(outcome) for outcome in outcomes} == {kind}
        assert stage.calls <= 1 + 2
        assert stage.books() == (CHAINS_PRICE, 0)
        assert (await stage.provider.fetch(ChainsRequest(), AS_OF)).digest == kept.digest, "what is kept is still given"


async def test_the_ceiling_stops_other_fetches_without_a_call(tmp_path: Path) -> None:
    async with playing(tmp_path, [MAP], per_run=3 * MAP_BASE + 1) as stage:
        outcomes = await asyncio.gather(
            *(stage.provider.fetch(a_map(number), AS_OF) for number in range(20)), return_exceptions=True
        )
        refused = [outcome for outcome in outcomes if isinstance(outcome, errors.BudgetExceeded)]
        assert (stage.calls, len(refused)) == (3, 17)
        assert stage.books() == (3 * MAP_BASE, 0)


async def test_a_plan_that_lacks_an_endpoint_stops_that_endpoint_only(tmp_path: Path) -> None:
    async with playing(tmp_path, [error(403, "plan_required"), MAP]) as stage:
        for address in ("a", "b"):
            with failing(errors.PlanRequired):
                await stage.provider.fetch(AddressMetadataRequest(address=address), AS_OF)
        assert stage.calls == 1
        await stage.provider.fetch(a_map(), AS_OF)


@pytest.mark.parametrize("trouble", [error(403), answer(b"<html><title>Blocked</title>", 403), error(307)])
async def test_a_403_or_a_redirect_stops_everything_like_a_401(tmp_path: Path, trouble: Step) -> None:
    async with playing(tmp_path, [trouble]) as stage:
        for number in range(3):
            with failing(errors.Forbidden, errors.Redirected):
                await stage.provider.fetch(a_map(number), AS_OF)
        assert (stage.calls, stage.books()) == (1, (0, 0))


async def test_a_plan_limit_is_remembered_until_the_endpoint_answers(tmp_path: Path) -> None:
    async with playing(tmp_path, [error(403), answer({"address": "a", "address_details": details()})]) as stage:
        request = AddressMetadataRequest(address="a")
        with failing(errors.PlanRequired):
            await stage.provider.fetch(request, AS_OF)
        known = PlanLimits(tmp_path / "ledger.db", "them", "key-0123456789").limits
        assert [(one.endpoint, one.reason) for one in known.values()] == [("address_metadata", "words")]
        assert not PlanLimits(tmp_path / "ledger.db", "them", "another key").limits
        again = Fetcher(stage.provider._client, stage.ledger, stage.archive, "them", "2", stage.provider._plan_limits)
        await again.fetch(request, AS_OF)
        assert not PlanLimits(tmp_path / "ledger.db", "them", "key-0123456789").limits
    assert b"key-0123456789" not in (tmp_path / "ledger.db").read_bytes()


def test_a_plan_limit_expires_after_a_week(tmp_path: Path) -> None:
    path, then = tmp_path / "ledger.db", datetime(2026, 11, 1)
    PlanLimits(path, "them", "key", lambda: then).refused("address_metadata", "custom plans only")
    assert PlanLimits(path, "them", "key", lambda: then + VALID_FOR - timedelta(seconds=1)).limits
    assert not PlanLimits(path, "them", "key", lambda: then + VALID_FOR).limits


async def test_an_unreachable_provider_costs_nothing_and_stops_the_run(tmp_path: Path) -> None:
    with CreditLedger(tmp_path / "ledger.db") as ledger, socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        address = f"http://127.0.0.1:{taken.getsockname()[1]}"
        async with ProviderClient(address, None, attempts=2, first_wait=0.2) as client:
            provider = Fetcher(client, ledger, AnswerArchive(tmp_path / "archive"), "them", "run")
            for number in (1, 2):
                with failing(errors.Unreachable):
                    await provider.fetch(a_map(number), AS_OF)
        assert provider.counters.calls == 2, "the second fetch asks nothing"
        totals = ledger.totals()
        assert (totals.spent, totals.reserved) == (0, 0)


async def test_identical_concurrent_fetches_make_one_call(tmp_path: Path) -> None:
    async with playing(tmp_path, [answer(token_map(), after=0.05)]) as stage:
        fetched = await asyncio.gather(*(stage.provider.fetch(a_map(), AS_OF) for _ in range(10)))
        assert stage.calls == 1
        assert sum(one.cost for one in fetched) == MAP_BASE
        assert sum(not one.from_archive for one in fetched) == 1
        await asyncio.gather(*(stage.provider.fetch(a_map(), AS_OF, refresh=True) for _ in range(10)))
        assert stage.calls == 2


async def test_identical_concurrent_fetches_fail_together(tmp_path: Path) -> None:
    async with playing(tmp_path, [error(404, "no_holders")]) as stage:
        outcomes = await asyncio.gather(
            *(stage.provider.fetch(a_map(), AS_OF) for _ in range(10)), return_exceptions=True
        )
        assert {type(outcome) for outcome in outcomes} == {errors.NoHolders}
        assert stage.calls == 1
        with failing(errors.NoHolders):
            await stage.provider.fetch(a_map(), AS_OF)
        assert stage.calls == 2, "asked again later, there may be holders"


@pytest.mark.parametrize(
    ("first_step", "calls", "reserved", "timeout"),
    [
        (answer(token_map(), after=0.1), 1, 0, PATIENCE),
        pytest.param(silence(), 2, MAP_BASE, 1.0, marks=pytest.mark.integration),
    ],
    ids=["answered", "unanswered"],
)
async def test_after_a_cancelled_fetch_the_next_caller_gets_the_answer(
    tmp_path: Path, first_step: Step, calls: int, reserved: int, timeout: float
) -> None:
    async with playing(tmp_path, [first_step, MAP], timeout=timeout) as stage:
        first = asyncio.create_task(stage.provider.fetch(a_map(), AS_OF))
        second = asyncio.create_task(stage.provider.fetch(a_map(), AS_OF))
        await event(lambda: stage.calls)
        first.cancel()
        assert (await second).answer.clusters == []
        assert first.cancelled()
        assert stage.calls == calls
        assert stage.books() == (MAP_BASE, reserved)


@pytest.mark.integration
@given(pause=st.floats(0, 0.06))
@settings(max_examples=15, deadline=None)
async def test_a_cancellation_never_loses_a_paid_answer(pause: float) -> None:
    with TemporaryDirectory() as home:
        async with playing(Path(home), [answer(token_map(), after=0.02)]) as stage:
            task = asyncio.create_task(stage.provider.fetch(a_map(), AS_OF))
            await asyncio.sleep(pause)
            task.cancel()
            await asyncio.gather(task, return_exceptions=True)
            paid = MAP_BASE if stage.calls else 0
            assert stage.books() == (paid, 0)
            assert stage.archive.size().answers == stage.calls


async def test_paid_answers_are_archived_after_another_fetch_failed(tmp_path: Path) -> None:
    """``gather`` raises the first failure, and its caller leaves while the other calls are under way."""
    slow = answer(token_map(), after=0.2)
    async with playing(tmp_path, [slow, slow, slow, error(429, "credits_exhausted")]) as stage:
        async with ProviderClient(stage.server.address, None, concurrency=4) as client:
            provider = Fetcher(client, stage.ledger, stage.archive, "them", "run")
            with failing(errors.CreditsExhausted):
                await asyncio.gather(*(provider.fetch(a_map(number), AS_OF) for number in range(8)))
        assert stage.calls == 4
        assert stage.archive.size().answers == 3
        assert stage.books() == (3 * MAP_BASE, 0)
        await asyncio.sleep(0.05)
        assert stage.calls == 4


async def test_a_closed_client_sends_nothing(tmp_path: Path) -> None:
    async with playing(tmp_path, [MAP]) as stage:
        async with ProviderClient(stage.server.address, None, attempts=1) as client:
            provider = Fetcher(client, stage.ledger, stage.archive, "them", "run")
        with failing(errors.Unreachable):
            await provider.fetch(a_map(), AS_OF)
        assert (stage.calls, stage.books()) == (0, (0, 0))


async def test_retry_after_pauses_all_processes_of_the_host(tmp_path: Path) -> None:
    refusal = error(429, "rate_limited", Retry_After="250")
    async with playing(tmp_path, [refusal], options=CallOptions(rate_window=0.0)) as stage:
        with failing(errors.RateLimitPersists):
            await stage.provider.fetch(a_map(), AS_OF)
    with OneCallLedger(tmp_path / "ledger.db") as another_process:
        assert 100 < another_process.next_turn(600) <= 251


PAY_AND_DIE = """
import asyncio, os, sys
from datetime import datetime
from holderlake.core.contract.requests import MapRequest
from holderlake.core.archive.archive import AnswerArchive
from holderlake.core.provider.ledger.entries import Settle
from holderlake.core.provider.client import ProviderClient
from holderlake.core.provider.ledger.ledger import CreditLedger
from holderlake.core.provider.fetcher import Fetcher
from tests.core.provider.conftest import place_of

where, home, address, moment = sys.argv[1:]

class DiesBeforeSettling(CreditLedger):
    def apply(self, bookings):
        if any(isinstance(booking, Settle) for booking in bookings):
            os.kill(os.getpid(), 9)
        return super().apply(bookings)

class DiesBeforeKeeping(AnswerArchive):
    def put_all(self, arrived):
        os.kill(os.getpid(), 9)

class DiesBeforeSending(ProviderClient):
    async def exchange(self, request):
        os.kill(os.getpid(), 9)

async def main():
    ledger = (DiesBeforeSettling if moment == "settling" else CreditLedger)(place_of(where))
    archive = (DiesBeforeKeeping if moment == "keeping" else AnswerArchive)(home + "/archive")
    async with (DiesBeforeSending if moment == "sending" else ProviderClient)(address, None) as client:
        request = MapRequest(chain="eth", token_address="0x" + "0" * 39 + "1")
        await Fetcher(client, ledger, archive, "them", "run").fetch(request, datetime(2026, 11, 20))

asyncio.run(main())
"""


@pytest.mark.later(long=1)
@pytest.mark.integration
@pytest.mark.parametrize("new_where", ["sqlite", "postgresql"], indirect=True)
@pytest.mark.parametrize(("moment", "calls", "calls_after"), [("sending", 0, 1), ("keeping", 1, 1), ("settling", 1, 0)])
async def test_a_killed_process_never_counts_too_little(
    where: Where, tmp_path: Path, moment: str, calls: int, calls_after: int
) -> None:
    async with playing(tmp_path, [MAP], where=where) as stage:
        arguments = [as_text(where), str(tmp_path), stage.server.address, moment]
        died = await asyncio.to_thread(run, PAY_AND_DIE, *arguments)
        assert died.returncode == -signal.SIGKILL
        assert stage.calls == calls
        assert stage.books() == (0, MAP_BASE)
        fetched = await stage.provider.fetch(a_map(), AS_OF)
        assert fetched.from_archive is (calls_after == 0)
        assert stage.calls == calls + calls_after
        assert sum(stage.books()) == MAP_BASE * (1 + calls_after)


async def test_an_unwritable_archive_stops_the_run_before_more_is_paid(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def full(_: int) -> None:
        raise OSError(28, "No space left on device")

    async with playing(tmp_path, [MAP]) as stage:
        monkeypatch.setattr(os, "fsync", full)
        for number in range(3):
            with failing(errors.AnswerNotKept):
                await stage.provider.fetch(a_map(number), AS_OF)
        assert stage.calls == 1
        assert stage.books() == (0, MAP_BASE)


async def test_a_damaged_answer_is_fetched_again(tmp_path: Path) -> None:
    async with playing(tmp_path, [MAP]) as stage:
        await stage.provider.fetch(a_map(), AS_OF)
        spoil(stage.archive, next(stage.archive.stored()))
        assert not (await stage.provider.fetch(a_map(), AS_OF)).from_archive
        assert stage.books() == (2 * MAP_BASE, 0)


async def test_concurrent_runs_share_one_paid_answer(tmp_path: Path) -> None:
    """The second waits for its turn to ask; by then the answer is there."""
    is_paid = asyncio.Event()
    async with (
        playing(tmp_path, [held(MAP, is_paid), MAP]) as stage,
        ProviderClient(stage.server.address, None, concurrency=1) as client,
    ):
        other = Fetcher(client, stage.ledger, stage.archive, "them", "other run")
        first_in_line = asyncio.create_task(other.fetch(a_map(2), AS_OF))
        await event(lambda: stage.calls)
        second_in_line = asyncio.create_task(other.fetch(a_map(), AS_OF))
        await asyncio.sleep(0.02)  # it waits for its turn
        await stage.provider.fetch(a_map(), AS_OF)
        is_paid.set()
        await first_in_line
        assert (await second_in_line).from_archive
        assert stage.calls == 2


@pytest.mark.integration
async def test_all_processes_of_a_host_keep_within_the_rate(tmp_path: Path) -> None:
    async with playing(tmp_path, [MAP]) as stage:
        clients = [ProviderClient(stage.server.address, None, rate_per_minute=1200, concurrency=4) for _ in range(2)]
        start = time.monotonic()
        async with clients[0], clients[1]:
            providers = [
                Fetcher(client, stage.ledger, stage.archive, str(number), "run")
                for number, client in enumerate(clients)
            ]
            await asyncio.gather(*(one.fetch(a_map(number), AS_OF) for number in range(6) for one in providers))
        assert time.monotonic() - start >= 11 * 60 / 1200


# ------------------------------------------------------------------------ rules of maps


@pytest.mark.parametrize(
    "other",
    [
        answer({"hello": "world"}),
        answer([1, 2]),
        error(403, detail="Forbidden"),
        error(404),
        reset(),
        answer({**rules_in_force(Rules()), "time_allowed": ["0x" + "1" * 200_000]}),
    ],
)
async def test_invalid_rules_are_ignored(tmp_path: Path, other: Step) -> None:
    async with playing(tmp_path, [OUR_MAP, other, MAP]) as stage:
        await stage.provider.fetch(a_map(), AS_OF)
        assert await stage.provider.rules() is None
        assert (await stage.provider.fetch(a_map(2), AS_OF)).raw


@pytest.mark.parametrize("before", [[OUR_MAP], []], ids=["after an answer", "answers are of another host"])
async def test_published_rules_are_stored(tmp_path: Path, before: list[Step]) -> None:
    async with playing(tmp_path, [*before, answer(rules_in_force(Rules()))]) as stage:
        for _ in before:
            await stage.provider.fetch(a_map(), AS_OF)
        assert json.loads(await stage.provider.rules() or "") == rules_in_force(Rules())


async def test_a_provider_that_names_no_rules_is_not_asked_for_them(tmp_path: Path) -> None:
    async with playing(tmp_path, [MAP]) as stage:
        await stage.provider.fetch(a_map(), AS_OF)
        assert await stage.provider.rules() is None
        assert stage.calls == 1
