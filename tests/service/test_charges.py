"""Charges never exceed the allowance: concurrency, crashes and database failures."""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from datetime import date, datetime, timedelta
from pathlib import Path
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from holderlake.core.storage import owners
from holderlake.core.storage.sqlite import DatabaseBusy
from holderlake.service.billing import charges
from holderlake.service.billing.charges import next_renewal, period_start
from holderlake.service.billing.keys import (
    Charge,
    ChargeRequest,
    CreditsExhausted,
    Key,
    KeyEnded,
    KeyStore,
    UnknownKey,
)
from tests.helpers.examples import some
from tests.helpers.ledgers import Clock, Ledger, OneByOne, account_of
from tests.helpers.postgres import PostgresServer


@pytest.fixture
def clock() -> Clock:
    return Clock(datetime(2026, 11, 20, 12))


@pytest.fixture
def keys(ledger: Ledger, clock: Clock) -> Iterator[OneByOne]:
    with ledger.open(now=clock) as made:
        yield made


def _listed(keys: KeyStore) -> list[Key]:
    return keys.keys()


def _covered(results: list[Any]) -> list[str]:
    return [result.id for result in results if isinstance(result, Charge)]


# ------------------------------------------------------------------ one request


def test_reserved_credits_cannot_be_spent_twice(keys):
    key = account_of(keys, allowance=100)
    charge = keys.reserve(key, "map", 60)
    with pytest.raises(CreditsExhausted, match=r"0\.41 credits and 0\.40 are left until the renewal on 2026-12-01"):
        keys.reserve(key, "map", 41)
    keys.release(charge)
    keys.settle(keys.reserve(key, "map", 100))
    assert keys.balance(key).remaining == 0


def test_refusal_has_cost_and_balance(keys):
    key = account_of(keys, allowance=100)
    keys.settle(keys.reserve(key, "map", 30))
    keys.reserve(key, "map", 20)
    with pytest.raises(CreditsExhausted) as caught:
        keys.reserve(key, "map", 51)
    balance = caught.value.balance
    assert (caught.value.cost, balance.spent, balance.reserved, balance.remaining) == (51, 30, 20, 50)


def test_charge_settles_once(keys, caplog):
    key = account_of(keys)
    charge = keys.reserve(key, "map", 60)
    keys.settle(charge)
    keys.settle(charge)
    keys.release(charge)
    assert keys.balance(key).spent == 60
    assert caplog.text.count(charge) == 2


def test_released_charge_cannot_be_settled(keys, caplog):
    key = account_of(keys)
    charge = keys.reserve(key, "map", 60)
    keys.release(charge)
    keys.reserve(key, "map", 1)
    keys.settle(charge)
    assert (keys.balance(key).spent, keys.balance(key).reserved) == (0, 1)
    assert charge in caplog.text


def test_negative_cost_is_refused(keys):
    with pytest.raises(ValueError, match="invalid cost -1"):
        keys.reserve(account_of(keys), "map", -1)


def test_free_request_is_counted_with_no_credits_left(keys):
    key = account_of(keys, allowance=0)
    keys.settle(keys.reserve(key, "chains", 0))
    (row,) = keys.usage()
    assert (row.requests, row.credits) == (1, 0)


def test_unknown_key_has_no_balance(keys):
    with pytest.raises(UnknownKey):
        keys.balance(99)
    with pytest.raises(KeyEnded):
        keys.reserve(99, "map", 1)


def test_allowance_below_spent_credits_refuses_all(keys):
    key = account_of(keys, allowance=100)
    keys.settle(keys.reserve(key, "map", 60))
    keys.change(keys.keys()[0].prefix, allowance=50)
    with pytest.raises(CreditsExhausted, match=r"0\.01 credits and 0\.00 are left"):
        keys.reserve(key, "map", 1)


# --------------------------------------------------------------------- batches


def test_batch_settles_and_releases_before_it_reserves(keys):
    key = account_of(keys, allowance=100)
    settled, released = _covered(keys.book([], [], [ChargeRequest(key, "map", 40), ChargeRequest(key, "map", 60)]))
    (result,) = keys.book([settled], [released], [ChargeRequest(key, "holders", 60)])
    assert isinstance(result, Charge)
    assert result.remaining == 0
    balance = keys.balance(key)
    assert (balance.spent, balance.reserved) == (40, 60)


def test_batch_decides_each_account_alone(keys):
    ids = [account_of(keys, allowance=cost, renewal_day=cost) for cost in range(1, 11)]
    results = keys.book([], [], [ChargeRequest(key, "map", 5) for key in ids])
    assert [isinstance(result, Charge) for result in results] == [False] * 4 + [True] * 6


def test_batch_refuses_ended_keys_only(keys, clock):
    ended, rotated, good = account_of(keys), account_of(keys), account_of(keys)
    prefixes = {key.id: key.prefix for key in _listed(keys)}
    keys.revoke(prefixes[ended])
    keys.rotate(prefixes[rotated], timedelta(hours=1))
    demands = [
        ChargeRequest(ended, "map", 1),
        ChargeRequest(rotated, "map", 1),
        ChargeRequest(good, "map", 1),
        ChargeRequest(99, "map", 1),
    ]
    assert [type(result) for result in keys.book([], [], demands)] == [KeyEnded, Charge, Charge, KeyEnded]
    clock.instant += timedelta(hours=1)
    assert [type(result) for result in keys.book([], [], demands)] == [KeyEnded, KeyEnded, Charge, KeyEnded]


def test_repeated_id_in_a_batch_counts_once(keys):
    key = account_of(keys)
    charge = keys.reserve(key, "map", 60)
    keys.book([charge, charge], [charge], [])
    assert keys.balance(key).spent == 60
    assert [row.requests for row in keys.usage()] == [1]


# ------------------------------------------------------------- months and usage


def test_allowance_renews_on_the_renewal_date(keys, clock):
    key = account_of(keys, allowance=100, renewal_day=15)
    keys.settle(keys.reserve(key, "map", 100))
    clock.instant = datetime(2026, 12, 14, 23, 59, 59)
    with pytest.raises(CreditsExhausted, match="2026-12-15"):
        keys.reserve(key, "map", 1)
    clock.instant = datetime(2026, 12, 15)
    assert keys.balance(key).remaining == 100
    keys.settle(keys.reserve(key, "map", 100))
    assert [(row.day, row.credits) for row in keys.usage()] == [(date(2026, 11, 20), 100), (date(2026, 12, 15), 100)]


def test_request_over_midnight_counts_in_its_first_month(keys, clock):
    key = account_of(keys, allowance=100)
    clock.instant = datetime(2026, 11, 30, 23, 59, 59)
    charge = keys.reserve(key, "map", 100)
    clock.instant = datetime(2026, 12, 1)
    keys.settle(charge)
    assert keys.balance(key).remaining == 100
    assert [row.day for row in keys.usage()] == [date(2026, 11, 30)]


def test_new_renewal_day_applies_to_the_current_month(keys, clock):
    key = account_of(keys, allowance=100, renewal_day=1)
    keys.settle(keys.reserve(key, "map", 100))  # on the 20th
    prefix = keys.keys()[0].prefix
    keys.change(prefix, renewal_day=20)
    assert keys.balance(key).remaining == 0
    clock.instant = datetime(2026, 11, 21)
    keys.change(prefix, renewal_day=21)
    assert keys.balance(key).remaining == 100


def test_usage_by_key_day_and_endpoint(keys, clock):
    first, second = account_of(keys, 1_000), account_of(keys, 1_000)
    prefixes = [key.prefix for key in _listed(keys)]
    keys.book(
        _covered(keys.book([], [], [ChargeRequest(first, "map", 5)] * 2 + [ChargeRequest(first, "a", 1)])), [], []
    )
    clock.instant += timedelta(days=1)
    keys.settle(keys.reserve(second, "map", 7))
    rows = [(row.prefix, row.name, row.day.day, row.endpoint, row.requests, row.credits) for row in keys.usage()]
    assert rows == [
        (prefixes[0], "test", 20, "a", 1, 1),
        (prefixes[0], "test", 20, "map", 2, 10),
        (prefixes[1], "test", 21, "map", 1, 7),
    ]
    assert [row.credits for row in keys.usage(prefixes[1])] == [7]
    assert [row.day.day for row in keys.usage(since=date(2026, 11, 21))] == [21]
    assert {row.day.day for row in keys.usage(until=date(2026, 11, 20))} == {20}


@pytest.mark.parametrize(
    ("today", "renewal_day", "start", "renewal"),
    [
        ("2026-11-20", 1, "2026-11-01", "2026-12-01"),
        ("2026-11-01", 1, "2026-11-01", "2026-12-01"),
        ("2026-11-20", 21, "2026-10-21", "2026-11-21"),
        ("2026-01-05", 10, "2025-12-10", "2026-01-10"),
        ("2026-12-31", 10, "2026-12-10", "2027-01-10"),
        ("2026-02-28", 31, "2026-02-28", "2026-03-31"),
        ("2028-02-28", 31, "2028-01-31", "2028-02-29"),
        ("2026-03-30", 31, "2026-02-28", "2026-03-31"),
        ("2026-04-30", 31, "2026-04-30", "2026-05-31"),
    ],
)
def test_billing_periods(today, renewal_day, start, renewal):
    day = date.fromisoformat(today)
    assert period_start(day, renewal_day).isoformat() == start
    assert next_renewal(day, renewal_day).isoformat() == renewal


# ----------------------------------------------------------------- concurrency


_ASK_MUCH = """
from concurrent.futures import ThreadPoolExecutor
sys.stdin.readline()
def ask(n):
    mine = [r.id for r in keys.book([], [], [ChargeRequest({key}, "map", 3)] * (n % 4 + 1)) if isinstance(r, Charge)]
    keys.book(mine[1:], mine[:1], [])
    return len(mine[1:])
with ThreadPoolExecutor(8) as pool:
    print(sum(pool.map(ask, range(60))))
"""


@pytest.mark.integration
@pytest.mark.parametrize("ledger", ["sqlite", pytest.param("postgresql", marks=pytest.mark.long)], indirect=True)
def test_processes_never_exceed_the_allowance(keys, ledger):
    key = account_of(keys, allowance=500)
    workers = [ledger.python(_ASK_MUCH.format(key=key)) for _ in range(3)]
    for process in workers:
        assert process.stdin is not None
        process.stdin.write("go\n")
        process.stdin.flush()
    output = [process.communicate(timeout=600) for process in workers]
    settled = sum(int(out) for out, _ in output)
    balance = keys.balance(key)
    assert (balance.spent, balance.reserved) == (settled * 3, 0), output
    left = _covered(keys.book([], [], [ChargeRequest(key, "map", 1)] * 500))
    assert len(left) == 500 - settled * 3


_STEPS = st.lists(
    st.one_of(
        st.tuples(st.just("batch"), st.lists(st.integers(0, 60), max_size=5)),
        st.tuples(st.sampled_from(["settle", "release", "days", "allowance"]), st.integers(0, 40)),
    ),
    max_size=12,
)


@settings(max_examples=some(40), deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(allowance=st.integers(0, 200), renewal_day=st.integers(1, 31), steps=_STEPS)
def test_random_operations_agree_with_a_simple_model(
    keys: KeyStore, clock: Clock, allowance: int, renewal_day: int, steps: list[tuple[str, Any]]
) -> None:
    clock.instant = datetime(2026, 11, 20)
    key = account_of(keys, allowance, renewal_day)
    prefix = next(one.prefix for one in _listed(keys) if one.id == key)
    held: dict[str, tuple[date, int]] = {}
    spent: list[tuple[date, int]] = []

    def remaining() -> int:
        since = period_start(clock.instant.date(), renewal_day)
        return allowance - sum(cost for day, cost in [*held.values(), *spent] if day >= since)

    for step, value in steps:
        if step == "batch":
            for result, cost in zip(
                keys.book([], [], [ChargeRequest(key, "map", c) for c in value]), value, strict=True
            ):
                assert isinstance(result, Charge) == (cost <= remaining())
                if isinstance(result, Charge):
                    held[result.id] = (clock.instant.date(), cost)
                    assert result.remaining == remaining() >= 0
        elif step == "days":
            clock.instant += timedelta(days=value)
        elif step == "allowance":
            used = allowance - remaining()
            allowance = used + value
            keys.change(prefix, allowance=allowance)
        elif held:
            charge = list(held)[value % len(held)]
            if step == "settle":
                spent.append(held[charge])
            keys.book([charge] * (step == "settle"), [charge] * (step == "release"), [])
            del held[charge]
        balance = keys.balance(key)
        assert balance.spent + balance.reserved + balance.remaining == allowance
        assert balance.remaining == remaining() >= 0
    assert sum(row.credits for row in keys.usage(prefix)) == sum(cost for _, cost in spent)


# ---------------------------------------------------------------------- crashes

_HOLD = """
for _ in range(5):
    keys.book([], [], [ChargeRequest({key}, "map", 20)])
print("held", flush=True)
sys.stdin.readline()
"""


@pytest.mark.later(long=1)
@pytest.mark.integration
def test_abandoned_reservations_refuse_no_request(keys, ledger, caplog):
    """Not even the first request after a crash, in a service that was already running."""
    key = account_of(keys, allowance=100)
    keys.release(keys.reserve(key, "map", 100))
    with ledger.python(_HOLD.format(key=key)) as holding:
        assert holding.stdout is not None
        assert holding.stdout.readline() == "held\n"
        holding.kill()
        holding.wait()
    assert keys.balance(key).reserved == 100
    results = keys.book(
        [], [], [ChargeRequest(key, "map", 60), ChargeRequest(key, "map", 60), ChargeRequest(key, "map", 40)]
    )
    assert [type(result) for result in results] == [Charge, CreditsExhausted, Charge]
    assert "released 5 reservations" in caplog.text


def test_first_reservation_releases_abandoned_ones(ledger, caplog):
    with ledger.open() as earlier:
        key = account_of(earlier, allowance=100)
        earlier.reserve(key, "map", 60)
    with ledger.open() as keys:
        assert keys.balance(key).reserved == 60
        keys.release(keys.reserve(key, "map", 1))
        assert keys.balance(key).reserved == 0
    assert "released 1 reservations" in caplog.text


@pytest.mark.later(long=1)
@pytest.mark.integration
def test_reservation_of_a_living_process_stays(keys, ledger):
    key = account_of(keys)
    charge = keys.reserve(key, "map", 60)
    reserve = f'keys.book([], [], [ChargeRequest({key}, "chains", 0)])'
    with ledger.open() as another, ledger.python(reserve) as process:
        another.reserve(key, "chains", 0)
        process.communicate(timeout=600)
        assert process.returncode == 0
    assert keys.balance(key).reserved == 60
    keys.settle(charge)
    assert keys.balance(key).spent == 60


def test_released_charge_is_not_billed_and_logged(keys, ledger, caplog):
    key = account_of(keys, allowance=100)
    charge = keys.reserve(key, "map", 60)
    keys._owner.close()
    with ledger.open() as another:
        another.reserve(key, "chains", 0)
    keys.settle(charge)
    assert keys.balance(key).spent == 0
    assert charge in caplog.text


def test_refusals_check_for_ended_processes_at_times_only(keys, ledger, monkeypatch):
    monkeypatch.setattr(charges, "_CHECK_SECONDS", 600)
    key = account_of(keys, allowance=100)
    with ledger.open() as other:
        other.reserve(key, "map", 100)
        with pytest.raises(CreditsExhausted):
            keys.reserve(key, "map", 1)
    with pytest.raises(CreditsExhausted):
        keys.reserve(key, "map", 1)
    keys._charges._next_check_at = 0
    assert keys.reserve(key, "map", 1)


# ------------------------------------------------------------------ PostgreSQL


@pytest.fixture
def shared(postgres_server: PostgresServer, postgres_url: str, tmp_path: Path) -> Ledger:
    return Ledger(tmp_path / "accounts", postgres_url, postgres_server)


@pytest.mark.integration
def test_service_continues_after_a_database_restart(shared, caplog):
    with shared.open() as keys:
        secret = keys.create("test", 100)
        key = keys.find(secret)
        charge = keys.reserve(key.id, "map", 60)
        shared.server.stop()
        try:
            for ask in (lambda: keys.find(secret), lambda: keys.settle(charge), keys.ping):
                with pytest.raises(DatabaseBusy, match="connection refused") as caught:
                    ask()
                assert shared.server.password not in str(caught.value)
        finally:
            shared.server.start()
        assert keys.find(secret) == key
        keys.settle(charge)
        keys.ping()
        keys.release(keys.reserve(key.id, "map", 40))
        assert keys.balance(key.id).spent == 60
    assert shared.server.password not in caplog.text


def test_lost_session_releases_no_reservation(shared):
    with shared.open() as keys, shared.open() as other:
        key = account_of(keys, allowance=100)
        charge = keys.reserve(key, "map", 60)
        shared.server.end_sessions(shared.url.rpartition("/")[2])
        other.reserve(key, "chains", 0)
        keys.settle(charge)
        assert keys.balance(key).spent == 60


def test_silent_host_loses_its_reservations(shared, monkeypatch, tmp_path):
    monkeypatch.setattr(owners.platform, "node", lambda: "elsewhere")
    there = Ledger(tmp_path / "of another host", shared.url, shared.server)
    with there.open() as silent:
        key = account_of(silent, allowance=100)
        silent.reserve(key, "map", 60)
        monkeypatch.undo()
        with shared.open() as keys:
            keys.reserve(key, "chains", 0)
            assert keys.balance(key).reserved == 60
            keys._database.run(lambda db: db.exec_driver_sql("UPDATE owners SET seen_at = seen_at - 61"))
            assert keys.reserve(key, "map", 100)


def test_long_lock_raises_database_busy(shared):
    with shared.open(busy_seconds=0.2) as keys, shared.open() as other:
        key = account_of(keys)
        keys.release(keys.reserve(key, "map", 1))
        with other._database.transaction(), pytest.raises(DatabaseBusy, match="locked by another process"):
            keys.reserve(key, "map", 1)
        assert keys.reserve(key, "map", 1)


def test_reservation_of_a_commit_in_doubt_is_released(keys, monkeypatch):
    key = account_of(keys, allowance=100)
    database = keys._charges._database

    class Away:
        def run(self, work: Callable[[Any], Any]) -> None:
            database.run(work)
            raise DatabaseBusy("the server is away")

    monkeypatch.setattr(keys._charges, "_database", Away())
    with pytest.raises(DatabaseBusy):
        keys.reserve(key, "map", 60)
    monkeypatch.undo()
    assert keys.balance(key).reserved == 60
    keys.reserve(key, "map", 30)  # as the caller tries again
    assert keys.balance(key).reserved == 30


@pytest.mark.long
def test_batches_in_any_order_do_not_deadlock(shared):
    with shared.open() as keys:
        ids = [account_of(keys, 10**6) for _ in range(8)]

        def work(number: int) -> None:
            first, second = (ids[:4], ids[:3:-1]) if number % 2 else (ids[4:], ids[3::-1])
            charges = _covered(keys.book([], [], [ChargeRequest(key, f"endpoint {number}", 1) for key in first]))
            others = _covered(keys.book(charges, [], [ChargeRequest(key, "map", 1) for key in second]))
            assert len(charges) == len(others) == 4
            keys.book(others[::2], others[1::2], [])

        with ThreadPoolExecutor(8) as pool:
            list(pool.map(work, range(200)))
        assert sum(keys.balance(key).spent for key in ids) == 200 * 6
        assert all(keys.balance(key).reserved == 0 for key in ids)


def test_only_warnings_are_logged(keys, caplog):
    caplog.set_level(logging.INFO)
    key = account_of(keys)
    keys.settle(keys.reserve(key, "map", 1))
    with pytest.raises(CreditsExhausted):
        keys.reserve(key, "map", 1_000)
    assert caplog.text == ""
