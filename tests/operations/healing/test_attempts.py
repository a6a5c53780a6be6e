"""Which missing days are repeated now, which wait, and which are given up."""

from __future__ import annotations

from datetime import date, datetime, timedelta
from typing import Any

from holderlake.core.settings.sections.schedule import Healing
from holderlake.operations.healing.attempts import AT_ONCE, OUTAGES, Attempt, choose
from holderlake.operations.healing.missing import MissingDay

NOW = datetime(2026, 6, 10, 12)
HOUR = timedelta(hours=1)
FIRST = date(2026, 6, 1)


def _day(number: int = 0, chain: str = "eth", credits: int = 100) -> MissingDay:
    return MissingDay(chain, FIRST + timedelta(days=number), (), (), credits)


def _run(day: MissingDay, hours_ago: float | None, error: str = "failed", *, repetition: bool = True) -> Attempt:
    ended = None if hours_ago is None else NOW - hours_ago * HOUR
    return Attempt(day.key, ended, error, repetition)


def _chosen(missing: list[MissingDay], runs: list[Attempt], credits: int | None = None, **limits: Any) -> Any:
    return choose(missing, runs, NOW, Healing(**limits), credits)


def test_a_day_without_a_run_is_repeated_at_once() -> None:
    assert _chosen([_day()], []).now == [_day()]


def test_a_day_that_has_a_run_is_left_to_it() -> None:
    for repetition in (True, False):
        choice = _chosen([_day()], [_run(_day(), None, repetition=repetition)])
        assert (choice.now, choice.waiting) == ([], 1)


def test_waits_grow_with_the_attempts() -> None:
    def starts(attempts: int, hours: float) -> bool:
        own = [_run(_day(), hours + number) for number in range(attempts)]
        return bool(_chosen([_day()], own or [_run(_day(), hours, repetition=False)]).now)

    needed = [0.25, 1, 4, 12, 24, 24]
    assert [starts(number, hours) for number, hours in enumerate(needed)] == [True] * 6
    assert [starts(number, hours - 0.1) for number, hours in enumerate(needed)] == [False] * 6


def test_a_day_is_given_up_after_its_last_attempt() -> None:
    own = [_run(_day(), 30 + number) for number in range(3)]
    choice = _chosen([_day()], own, attempts=3)
    assert choice.now == []
    assert choice.given_up == [(_day(), "3 repetitions did not complete it")]
    assert _chosen([_day()], own[:2], attempts=3).now == [_day()]


def test_an_outage_of_the_provider_uses_up_no_attempts() -> None:
    own = [_run(_day(), 30 + number, "unreachable") for number in range(8)]
    assert _chosen([_day()], own).now == [_day()]


def test_an_outage_of_one_chain_uses_up_its_attempts() -> None:
    own = [_run(_day(), 30 + number, "unavailable") for number in range(8)]
    other = _run(_day(chain="base"), 31, "", repetition=False)
    assert _chosen([_day()], [*own, other]).given_up != []
    assert _chosen([_day()], [*own, _run(_day(3), 31, "", repetition=False)]).given_up == []


def test_an_outage_ends_at_a_fixed_number_of_repetitions() -> None:
    own = [_run(_day(), 30 + number, "unreachable") for number in range(40)]
    assert _chosen([_day()], own).given_up != []


def test_one_day_of_a_chain_is_tried_during_an_outage() -> None:
    days = [_day(2), _day(1), _day()]
    failed = [_run(_day(2), 5, "unavailable"), _run(_day(1), 4, "unavailable", repetition=False)]
    assert _chosen(days, failed).now == [_day()]
    assert _chosen(days, [*failed, _run(_day(), 0.9, "unavailable")]).now == []
    assert _chosen([*days, _day(chain="base")], [*failed, _run(_day(), 0.9, "unavailable")]).now == [_day(chain="base")]


def test_the_first_success_ends_the_outage() -> None:
    days = [_day(2), _day(1), _day()]
    attempts = [_run(_day(2), 5, "unavailable"), _run(_day(3), 4, "")]
    assert _chosen(days, attempts).now == days


def test_a_few_repetitions_run_at_once_newest_first() -> None:
    days = [_day(number) for number in range(9, -1, -1)]
    assert _chosen(days, []).now == days[:AT_ONCE]
    assert _chosen(days, [_run(_day(9), None)]).now == days[1:AT_ONCE]


def test_the_credits_of_a_day_are_not_passed() -> None:
    days = [_day(3, credits=60), _day(2, credits=60), _day(1, credits=40)]
    choice = _chosen(days, [], credits=100, credits_per_day=1)
    assert choice.now == [days[0], days[2]]
    assert choice.waiting == 1


def test_a_day_that_costs_more_than_a_days_credits_is_given_up() -> None:
    choice = _chosen([_day(credits=101)], [], credits=100, credits_per_day=1)
    assert choice.given_up == [(_day(credits=101), "it costs more than healing.credits_per_day")]


def test_errors_of_the_pipeline_itself_are_no_outage() -> None:
    assert not OUTAGES & {"process_gone", "maybe_charged", "answers_break", "invalid_request"}
