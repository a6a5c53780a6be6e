"""The credit ledger: ceilings hold under concurrency and crashes."""

from __future__ import annotations

import random
import signal
import subprocess
import sys
import time
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from datetime import date, datetime, timedelta
from pathlib import Path
from typing import Literal

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from holderlake.core.provider.errors import BudgetExceeded
from holderlake.core.provider.ledger.entries import MarkBroken, Release, ReportRow, Reservation, Reserve, Settle
from holderlake.core.storage.state import Where
from tests.core.provider.conftest import as_text
from tests.core.provider.credit_ledger import OneCallLedger
from tests.helpers.examples import some
from tests.helpers.ledgers import Clock

ROOT = Path(__file__).parents[3]


def counted(ledger: OneCallLedger) -> int:
    totals = ledger.totals()
    return totals.spent + totals.reserved


def paid(ledger: OneCallLedger, balance: int | None = None, cost: int = 100) -> None:
    """Make a call, after which the provider names a balance."""
    ledger.settle(ledger.reserve("run", "map", None, cost), cost, balance)


def comparison(ledger: OneCallLedger) -> tuple[int | None, int | None, int]:
    """What the provider charged between two balances, what the ledger knows of it, and what remains."""
    totals = ledger.totals()
    return totals.charged, totals.known, totals.unexplained


def python(code: str, where: Where) -> subprocess.Popen[str]:
    """Another process that uses the ledger at ``where``."""
    begin = f"import sys\nsys.path.insert(0, {str(ROOT)!r})\nfrom tests.core.provider.conftest import place_of\n"
    return subprocess.Popen(
        [sys.executable, "-c", f"{begin}where = place_of(sys.argv[1])\n{code}", as_text(where)],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
    )


@pytest.mark.later(integration=1)
def test_a_reservation_counts_until_it_is_settled_or_released(where: Where) -> None:
    with OneCallLedger(where, per_run=1000) as ledger:
        first = ledger.reserve("run", "map", "eth/0xaa", 400)
        second = ledger.reserve("run", "map", "eth/0xbb", 400)
        assert (ledger.totals().spent, ledger.totals().reserved) == (0, 800)
        ledger.settle(first, 350)
        ledger.release(second)
        totals = ledger.totals("run")
        assert (totals.spent, totals.reserved) == (350, 0)
        assert {ceiling.name: ceiling.left for ceiling in totals.ceilings} == {
            "per_run": 650,
            "per_day": None,
            "per_month": None,
        }


@pytest.mark.parametrize(
    ("ceiling", "way_out"),
    [
        ("per_run", "raise budget.per_run or start another run"),
        ("per_day", "raise budget.per_day or wait until 2026-11-21"),
        ("per_month", "raise budget.per_month or wait for the renewal on 2026-12-15"),
    ],
)
def test_a_refusal_names_the_ceiling_and_a_remedy(
    where: Where, ceiling: Literal["per_run", "per_day", "per_month"], way_out: str
) -> None:
    clock = Clock(datetime(2026, 11, 20, 12))
    limits = {ceiling: 1000}
    with OneCallLedger(where, **limits, renewal_day=15, now=clock) as ledger:
        ledger.reserve("run", "map", None, 800)
        with pytest.raises(BudgetExceeded) as caught:
            ledger.reserve("run", "map", None, 201)
        assert caught.value.args == (ceiling, 1000, 800, 201, way_out)
        assert "a call of 2.01 credits would exceed the ceiling" in str(caught.value)
        assert counted(ledger) == 800
        ledger.reserve("run", "map", None, 200)


def test_runs_days_and_months_have_ceilings_of_their_own(where: Where) -> None:
    clock = Clock(datetime(2026, 11, 14, 23, 59))
    with OneCallLedger(where, per_run=100, per_day=150, per_month=280, renewal_day=15, now=clock) as ledger:
        ledger.reserve("one", "map", None, 100)
        ledger.reserve("two", "map", None, 50)
        with pytest.raises(BudgetExceeded, match="per_day"):
            ledger.reserve("two", "map", None, 1)
        clock.instant = datetime(2026, 11, 15)
        for day in range(3):
            clock.instant = datetime(2026, 11, 15 + day)
            ledger.reserve(f"run {day}", "map", None, 90)
        with pytest.raises(BudgetExceeded, match="per_month"):
            ledger.reserve("last", "map", None, 11)
        clock.instant = datetime(2026, 12, 15)
        ledger.reserve("next", "map", None, 100)


@pytest.mark.parametrize(
    ("today", "renewal_day", "renewal"),
    [
        ("2026-11-20", 1, "2026-12-01"),
        ("2026-12-31", 1, "2027-01-01"),
        ("2027-01-01", 1, "2027-02-01"),
        ("2027-01-30", 31, "2027-01-31"),
        ("2027-01-31", 31, "2027-02-28"),
        ("2027-02-28", 31, "2027-03-31"),
        ("2028-02-28", 31, "2028-02-29"),
        ("2027-01-05", 15, "2027-01-15"),
    ],
)
def test_the_renewal_falls_on_a_day_that_the_month_has(
    where: Where, today: str, renewal_day: int, renewal: str
) -> None:
    clock = Clock(datetime.fromisoformat(today))
    with OneCallLedger(where, renewal_day=renewal_day, now=clock) as ledger:
        assert ledger.totals().renewal == date.fromisoformat(renewal)


@pytest.mark.later(integration=1)
@given(start=st.dates(date(2024, 1, 1), date(2030, 1, 1)), renewal_day=st.integers(1, 31))
@settings(max_examples=some(30), suppress_health_check=[HealthCheck.function_scoped_fixture])
def test_every_day_belongs_to_exactly_one_month_from_renewal_to_renewal(
    new_where: Callable[[], Where], start: date, renewal_day: int
) -> None:
    clock = Clock(datetime(start.year, start.month, start.day))
    with OneCallLedger(new_where(), per_month=1, renewal_day=renewal_day, now=clock) as ledger:
        ledger.reserve("run", "map", None, 1)
        renewal = ledger.totals().renewal
        assert timedelta(0) < renewal - start <= timedelta(days=31)
        clock.instant = datetime(renewal.year, renewal.month, renewal.day) - timedelta(seconds=1)
        assert ledger.totals().reserved == 1
        clock.instant += timedelta(seconds=1)
        assert ledger.totals().reserved == 0
        ledger.reserve("run", "map", None, 1)


@pytest.mark.later(integration=1)
@given(
    steps=st.lists(
        st.tuples(st.sampled_from(["reserve", "settle", "release", "next day"]), st.integers(0, 60), st.integers(0, 5)),
        max_size=40,
    )
)
@settings(max_examples=some(60), suppress_health_check=[HealthCheck.function_scoped_fixture])
def test_the_ledger_agrees_with_a_simple_model(
    new_where: Callable[[], Where], steps: list[tuple[str, int, int]]
) -> None:
    clock = Clock(datetime(2026, 11, 20))
    entries: dict[int, tuple[str, date, int]] = {}
    open_entries: list[int] = []
    with OneCallLedger(new_where(), per_run=150, per_day=200, per_month=400, now=clock) as ledger:
        for step, cost, number in steps:
            run, today = f"run {number % 2}", clock.instant.date()
            if step == "next day":
                clock.instant += timedelta(days=1)
            elif step == "reserve":
                in_run = sum(paid for owner, _, paid in entries.values() if owner == run)
                in_day = sum(paid for _, day, paid in entries.values() if day == today)
                in_month = sum(paid for _, day, paid in entries.values() if day.month == today.month)
                fits = in_run + cost <= 150 and in_day + cost <= 200 and in_month + cost <= 400
                try:
                    entry = ledger.reserve(run, "map", None, cost)
                except BudgetExceeded:
                    assert not fits
                else:
                    assert fits
                    entries[entry] = (run, today, cost)
                    open_entries.append(entry)
            elif open_entries:
                entry = open_entries.pop(number % len(open_entries))
                run, day, reserved = entries[entry]
                charged = min(cost, reserved) if step == "settle" else 0
                entries[entry] = (run, day, charged)
                ledger.settle(entry, charged) if step == "settle" else ledger.release(entry)
        this_month = [paid for _, day, paid in entries.values() if day.month == clock.instant.month]
        assert counted(ledger) == sum(this_month)
        assert [left.id for left in ledger.unsettled()] == sorted(open_entries)
        assert sum(row.spent + row.reserved for row in ledger.report("run")) == sum(p for _, _, p in entries.values())


def test_an_entry_is_closed_once(where: Where) -> None:
    with OneCallLedger(where) as ledger:
        entry = ledger.reserve("run", "map", None, 100)
        ledger.settle(entry, 100)
        for again in (
            lambda: ledger.settle(entry, 100),
            lambda: ledger.release(entry),
            lambda: ledger.settle(12345, 1),
        ):
            with pytest.raises(ValueError, match="is not reserved"):
                again()
        assert ledger.totals().spent == 100


def test_operations_that_free_credits_are_applied_first(where: Where) -> None:
    with OneCallLedger(where, per_run=100) as ledger:
        entry = ledger.reserve("run", "map", None, 80)
        wanted = [Reserve("run", "map", None, cost) for cost in (60, 50, 30)]
        first, second, released, third = ledger.apply([*wanted[:2], Release(entry), wanted[2]])
        assert isinstance(first, Reservation)
        assert isinstance(second, BudgetExceeded)
        assert released is None
        assert isinstance(third, Reservation)
        assert [left.cost for left in ledger.unsettled()] == [60, 30]
        assert [left.id for left in ledger.unsettled()] == [first.entry, third.entry]


def test_an_entry_is_closed_by_the_first_of_two_operations(where: Where) -> None:
    with OneCallLedger(where) as ledger:
        entry = ledger.reserve("run", "map", None, 100)
        settled, released = ledger.apply([Settle(entry, 70), Release(entry)])
        assert settled is None
        assert isinstance(released, ValueError)
        assert ledger.totals().spent == 70


@pytest.mark.later(integration=1)
def test_threads_together_never_pass_a_ceiling(where: Where) -> None:
    with OneCallLedger(where, per_run=3_000) as ledger:

        def spend(worker: int) -> int:
            chance = random.Random(worker)
            spent = 0
            for _ in range(25):
                try:
                    entry = ledger.reserve("run", "map", None, 25)
                except BudgetExceeded:
                    continue
                if chance.random() < 0.3:
                    ledger.release(entry)
                elif chance.random() < 0.9:
                    ledger.settle(entry, 25)
                    spent += 25
                else:
                    spent += 25  # its outcome stays unknown
                assert counted(ledger) <= 3_000
            return spent

        with ThreadPoolExecutor(8) as pool:
            spent = sum(pool.map(spend, range(8)))
        assert spent == counted(ledger) <= 3_000
        assert spent > 2_800, "at most seven other reservations are open"


SPEND = """
from holderlake.core.provider.errors import BudgetExceeded
from tests.core.provider.credit_ledger import OneCallLedger
spent = 0
with OneCallLedger(where, per_day=3_000) as ledger:
    for turn in range(80):
        try:
            entry = ledger.reserve("run", "map", None, 25)
        except BudgetExceeded:
            continue
        ledger.release(entry) if turn % 3 == 0 else ledger.settle(entry, 25)
        spent += 0 if turn % 3 == 0 else 25
print(spent)
"""


@pytest.mark.integration
@pytest.mark.parametrize("new_where", ["sqlite", pytest.param("postgresql", marks=pytest.mark.long)], indirect=True)
def test_processes_together_never_pass_a_ceiling(where: Where) -> None:
    """They also all create the file at once."""
    workers = [python(SPEND, where) for _ in range(4)]
    spent = [int(worker.communicate()[0]) for worker in workers]
    assert [worker.returncode for worker in workers] == [0] * 4
    with OneCallLedger(where) as ledger:
        assert 2_900 < sum(spent) == ledger.totals().spent <= 3_000


CREATE = """
import time
from tests.core.provider.credit_ledger import OneCallLedger
print("ready", flush=True)
start = float(sys.stdin.readline())
for number in range(30):
    while time.time() < start + number * 0.02:
        pass
    with OneCallLedger(f"{where}-{number}") as ledger:
        ledger.reserve("run", "map", None, 1)
"""


@pytest.mark.long
def test_processes_may_create_the_ledger_at_the_same_moment(tmp_path: Path) -> None:
    makers = [python(CREATE, tmp_path / "ledger.db") for _ in range(3)]
    try:
        for maker in makers:
            assert maker.stdout is not None
            assert maker.stdout.readline() == "ready\n"
        start = time.time() + 0.1
        for maker in makers:
            assert maker.stdin is not None
            maker.stdin.write(f"{start}\n")
            maker.stdin.flush()
        for maker in makers:
            maker.wait()
        assert [maker.returncode for maker in makers] == [0] * 3
    finally:
        for maker in makers:
            maker.kill()
            maker.communicate()


RESERVE_AND_HANG = """
import time
from tests.core.provider.credit_ledger import OneCallLedger
ledger = OneCallLedger(where, per_run=100)
ledger.reserve("run", "map", "eth/0xaa", 75)
print("reserved", flush=True)
time.sleep(60)
"""


@pytest.mark.later(long=1)
@pytest.mark.integration
def test_credits_reserved_before_a_crash_count(where: Where) -> None:
    worker = python(RESERVE_AND_HANG, where)
    assert worker.stdout is not None
    assert worker.stdout.readline() == "reserved\n"
    worker.send_signal(signal.SIGKILL)
    worker.communicate()
    with OneCallLedger(where, per_run=100) as ledger:
        assert ledger.totals().reserved == 75
        with pytest.raises(BudgetExceeded):
            ledger.reserve("run", "map", None, 26)
        (left,) = ledger.unsettled()
        assert (left.run_id, left.endpoint, left.subject, left.cost) == ("run", "map", "eth/0xaa", 75)
        ledger.release(left.id)
        ledger.reserve("run", "map", None, 100)


def test_reports_group_by_endpoint_day_run_and_token(where: Where) -> None:
    clock = Clock(datetime(2026, 11, 19))
    with OneCallLedger(where, now=clock) as ledger:
        ledger.settle(ledger.reserve("one", "map", "eth/0xaa", 2500), 2500)
        ledger.release(ledger.reserve("one", "map", "eth/0xaa", 2500))
        clock.instant = datetime(2026, 11, 20)
        ledger.settle(ledger.reserve("two", "chains", None, 1), 1)
        ledger.reserve("two", "map", "eth/0xbb", 5000)
        assert ledger.report("endpoint") == [ReportRow("map", 2, 2500, 5000, 1), ReportRow("chains", 1, 1, 0, 0)]
        assert ledger.report("day") == [ReportRow("2026-11-19", 1, 2500, 0, 1), ReportRow("2026-11-20", 2, 1, 5000, 0)]
        assert [row.name for row in ledger.report("run")] == ["two", "one"]
        assert [row.name for row in ledger.report("token")] == ["eth/0xbb", "eth/0xaa", ""]
        assert [row.name for row in ledger.report("day", since=date(2026, 11, 20))] == ["2026-11-20"]


def test_the_providers_balance_limits_what_is_left(where: Where, tmp_path: Path) -> None:
    clock = Clock(datetime(2026, 11, 20))
    with OneCallLedger(where, per_month=10_000, now=clock) as ledger:
        assert (ledger.totals().credits_remaining, ledger.left_this_month()) == (None, 10_000)
        paid(ledger, 50_000, 2500)
        assert (ledger.totals().credits_remaining, ledger.left_this_month()) == (50_000, 7_500)
        paid(ledger, 300, 2500)
        assert (ledger.totals().balance_at, ledger.left_this_month()) == (clock.instant, 300)
        clock.instant = datetime(2026, 12, 1)
        assert ledger.left_this_month() == 10_000
        paid(ledger, 400, 2500)
        assert ledger.left_this_month() == 400  # a balance of the day of renewal is one of the new month
    with OneCallLedger(tmp_path / "unlimited.db") as ledger:
        assert ledger.left_this_month() is None


def test_a_charge_above_the_reservation_is_settled_in_full(where: Where) -> None:
    with OneCallLedger(where, per_run=100) as ledger:
        ledger.settle(ledger.reserve("run", "map", None, 90), 120)
        assert ledger.totals("run").ceilings[0].left == 0
        with pytest.raises(BudgetExceeded):
            ledger.reserve("run", "map", None, 1)


@pytest.mark.parametrize(
    ("balances", "compared", "remaining"),
    [
        ([None], (None, None, 0), None),
        ([5_000, 4_900], (100, 100, 0), 4_900),
        ([5_000, 4_900, 4_200], (800, 200, 600), 4_200),
        ([5_000, 4_000, 4_800], (200, 200, 0), 4_800),
        ([5_000, 1_000_000, 999_900], (100, 100, 0), 999_900),
        ([5_000, 1_000_000, 999_900, 999_000], (1_000, 200, 800), 999_000),
    ],
    ids=["no balance", "equal", "another client", "a higher balance of a later call", "a raised allowance", "after it"],
)
def test_the_providers_count_is_compared_with_the_ledger(
    where: Where, balances: list[int | None], compared: tuple[int | None, int | None, int], remaining: int | None
) -> None:
    with OneCallLedger(where) as ledger:
        for balance in balances:
            paid(ledger, balance)
        assert comparison(ledger) == compared
        assert ledger.totals().credits_remaining == remaining


def test_an_open_call_may_be_the_reason_of_a_lower_balance(where: Where) -> None:
    with OneCallLedger(where) as ledger:
        paid(ledger, 5_000)
        paid(ledger, 4_900)
        ledger.reserve("run", "map", None, 100)
        assert comparison(ledger) == (100, 100, 0)
        paid(ledger, 4_700)
        assert comparison(ledger) == (300, 200, 0)
        paid(ledger, 4_000)
        assert ledger.totals().unexplained == 600


@pytest.mark.parametrize("is_together", [False, True], ids=["closed before it", "closed with it"])
def test_a_first_balance_may_lack_an_open_call_without_a_balance(where: Where, is_together: bool) -> None:
    with OneCallLedger(where) as ledger:
        unnamed, first = ledger.reserve("run", "map", None, 100), ledger.reserve("run", "map", None, 100)
        if is_together:
            ledger.apply([Settle(unnamed, 100), Settle(first, 100, 4_900)])
        else:
            ledger.settle(unnamed, 100)
            ledger.settle(first, 100, 4_900)
        paid(ledger, 4_700)
        assert ledger.totals().unexplained == 0
        paid(ledger, 3_600)
        assert ledger.totals().unexplained == 1_000


def test_another_key_does_not_look_like_another_client(where: Where) -> None:
    with OneCallLedger(where) as ledger:
        ledger.use_account("https://provider", "first key")
        paid(ledger, 900_000)
        ledger.use_account("https://provider", "second key")
        assert ledger.totals().credits_remaining is None
        paid(ledger, 50_000)
        paid(ledger, 49_900)
        assert comparison(ledger) == (100, 100, 0)
        ledger.use_account("https://provider", "second key")
        assert ledger.totals().charged == 100


def test_the_ledger_does_not_hold_the_key(tmp_path: Path) -> None:
    with OneCallLedger(tmp_path / "ledger.db") as ledger:
        ledger.use_account("https://provider", "a-secret-key")
    assert all(b"a-secret-key" not in path.read_bytes() for path in tmp_path.iterdir())


def test_late_answers_do_not_look_like_a_raised_allowance(where: Where) -> None:
    with OneCallLedger(where) as ledger:
        paid(ledger, 5_000)
        entries = [ledger.reserve("run", "map", None, 100) for _ in range(4)]
        for entry, balance in zip(entries, (4_600, 4_700, 4_900, 4_800), strict=True):
            ledger.settle(entry, 100, balance)
        assert ledger.totals().charged == 400, "the lowest balance counts"


def test_credits_set_aside_for_open_calls_do_not_look_like_another_client(where: Where) -> None:
    with OneCallLedger(where) as ledger:
        paid(ledger, 5_000)
        answered, failed = ledger.reserve("run", "map", None, 100), ledger.reserve("run", "map", None, 100)
        ledger.settle(answered, 100, 4_800)  # the provider sets 100 aside for the other call, which then fails
        assert ledger.totals().unexplained == 0
        ledger.release(failed)
        assert ledger.totals().unexplained == 0
        paid(ledger, 4_800)  # a later balance, although it is not lower
        assert comparison(ledger) == (200, 200, 0)


@pytest.mark.parametrize(
    ("problem", "balance", "reserved"),
    [
        ("reset", 4_800, 0),
        ("page", 4_800, 0),
        ("limited", 4_800, 0),
        ("reset", 4_700, 100),
        ("closed", 4_800, 100),
    ],
    ids=["reset", "page", "limited", "charged", "half an answer"],
)
def test_calls_without_answer_are_released_when_the_balance_proves_it(
    where: Where, problem: str, balance: int, reserved: int
) -> None:
    with OneCallLedger(where) as ledger:
        paid(ledger, 5_000)
        ledger.apply([MarkBroken(ledger.reserve("run", "map", None, 100), problem)])
        other = ledger.reserve("run", "map", None, 100)
        paid(ledger, 4_900)  # not alone: it proves nothing
        assert ledger.totals().reserved == 200
        ledger.release(other)
        paid(ledger, balance)
        assert ledger.totals().reserved == reserved
        assert ledger.totals().unexplained == 0
        assert ledger.damage() is None


def test_all_processes_share_one_rate_limit(where: Where) -> None:
    clock = Clock(datetime(2026, 11, 20))
    with OneCallLedger(where, now=clock) as one, OneCallLedger(where, now=clock) as other:
        waits = [ledger.next_turn(600) for _ in range(3) for ledger in (one, other)]
        assert waits == pytest.approx([0, 0.1, 0.2, 0.3, 0.4, 0.5], abs=1e-3)
        clock.instant += timedelta(seconds=10)
        assert one.next_turn(600) == 0
        clock.instant -= timedelta(hours=1)
        assert other.next_turn(600) == 0, "a clock that was set back delays no call"


def test_the_rate_limit_does_without_a_given_clock(where: Where) -> None:
    with OneCallLedger(where) as ledger:
        assert ledger.next_turn(1) == 0
        assert 0 < ledger.next_turn(1) <= 60


def test_a_failed_write_leaves_the_ledger_usable(where: Where) -> None:
    with OneCallLedger(where) as ledger:
        with pytest.raises(Exception, match=r"(?i)check"):
            ledger.reserve("run", "map", None, -1)
        ledger.reserve("run", "map", None, 1)
        assert counted(ledger) == 1


@pytest.mark.parametrize("day", [0, 32])
def test_invalid_renewal_days_are_refused(tmp_path: Path, day: int) -> None:
    with pytest.raises(ValueError, match="renewal day"):
        OneCallLedger(tmp_path / "ledger.db", renewal_day=day)


@pytest.mark.parametrize("cost", [-1, 10**15 + 1, 10**32])
def test_implausible_costs_are_never_settled(where: Where, cost: int) -> None:
    with OneCallLedger(where) as ledger:
        entry = ledger.reserve("run", "map", None, 100)
        with pytest.raises(ValueError, match="the cost of a call cannot be"):
            ledger.settle(entry, cost)
        assert ledger.totals().reserved == 100
