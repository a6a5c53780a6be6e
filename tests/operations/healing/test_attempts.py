"""Which missing days are requested again now, which wait, and which are given up."""

from __future__ import annotations

from datetime import date, datetime, timedelta
from typing import Any

from holderlake.core.settings.sections.schedule import Healing
from holderlake.operations.healing.attempts import OUTAGES, Attempt, choose
from holderlake.operations.healing.missing import MissingDay

NOW = datetime(2026, 6, 10, 12)
HOUR = timedelta(hours=1)
FIRST = date(2026, 6, 1)


def _day(number: int = 0, chain: str = "eth", credits: int = 100) -> MissingDay:
    return MissingDay(chain, FIRST + timedelta(days=number), credits=credits)


def _run(*days: MissingDay, hours_ago: float | None, error: str = "incomplete", **kind: bool) -> Attempt:
    ended = None if hours_ago is None else NOW - hours_ago * HOUR
    return Attempt(frozenset(day.key for day in days), ended, error, **kind)


def _chosen(missing: list[MissingDay], runs: list[Attempt], credits: int | None = None, **limits: Any) -> Any:
    return choose(missing, runs, NOW, Healing(**limits), credits)


def test_a_day_without_a_run_is_requested_at_once() -> None:
    assert _chosen([_day()], []).now == [_day()]


def test_a_day_that_has_a_run_is_left_to_it() -> None:
    choice = _chosen([_day(1), _day()], [_run(_day(), hours_ago=None)])
    assert (choice.now, choice.waiting) == ([_day(1)], 1)


def test_a_chain_waits_for_its_repetition() -> None:
    running = _run(_day(), hours_ago=None, is_repetition=True)
    assert _chosen([_day(1), _day(1, "base")], [running]).now == [_day(1, "base")]


def test_waits_grow_with_the_attempts_of_every_kind() -> None:
    def starts(attempts: int, hours: float) -> bool:
        own = [_run(_day(), hours_ago=hours + number, is_repetition=number % 2 == 0) for number in range(attempts)]
        return bool(_chosen([_day()], own).now)

    needed = [0.25, 1, 4, 12, 24, 24]
    assert [starts(number, hours) for number, hours in enumerate(needed, 1)] == [True] * 6
    assert [starts(number, hours - 0.1) for number, hours in enumerate(needed, 1)] == [False] * 6


def test_a_day_is_given_up_after_its_last_attempt() -> None:
    own = [_run(_day(), _day(1), hours_ago=30 + number) for number in range(3)]
    choice = _chosen([_day()], own, attempts=3)
    assert choice.now == []
    assert choice.given_up == [(_day(), "3 attempts did not complete it")]
    assert _chosen([_day()], own[:2], attempts=3).now == [_day()]


def test_attempts_before_a_success_do_not_count() -> None:
    own = [_run(_day(), hours_ago=30 + number) for number in range(8)]
    assert _chosen([_day()], [*own, _run(_day(), hours_ago=2, error="")]).now == [_day()]
    assert _chosen([_day()], [*own, _run(_day(), hours_ago=2, error="", is_limited=True)]).given_up != []


def test_an_outage_uses_up_no_attempts() -> None:
    own = [_run(_day(), hours_ago=30 + number, error="unreachable") for number in range(40)]
    assert _chosen([_day()], own).now == [_day()]


def test_all_days_of_a_chain_wait_in_an_outage() -> None:
    days = [_day(2), _day(1), _day(), _day(chain="base")]
    failed = [_run(_day(2), hours_ago=5, error="unavailable"), _run(_day(1), hours_ago=0.9, error="unavailable")]
    assert _chosen(days, failed).now == [_day(chain="base")]
    assert _chosen(days, [failed[0], _run(_day(1), hours_ago=1, error="unavailable")]).now == days


def test_the_first_success_ends_the_outage() -> None:
    days = [_day(2), _day(1), _day()]
    failed = [_run(*days, hours_ago=2 + number, error="unavailable") for number in range(9)]
    assert _chosen(days, failed).now == []
    assert _chosen(days, [*failed, _run(_day(3), hours_ago=0.1, error="")]).now == days


def test_the_credits_of_a_day_are_not_passed() -> None:
    days = [_day(3, credits=60), _day(2, credits=60), _day(1, credits=40)]
    choice = _chosen(days, [], credits=100, credits_per_day=1)
    assert choice.now == [days[0], days[2]]
    assert choice.waiting == 1


def test_a_day_that_costs_more_than_a_days_credits_is_given_up() -> None:
    choice = _chosen([_day(credits=101)], [], credits=100, credits_per_day=1)
    assert choice.given_up == [(_day(credits=101), "it costs more than healing.credits_per_day")]


def test_errors_of_the_pipeline_itself_are_no_outage() -> None:
    assert not OUTAGES & {"process_gone", "maybe_charged", "answers_break", "invalid_request", "incomplete"}
