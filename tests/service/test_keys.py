"""Keys and their ledger: secrets that are not kept, allowances that are never passed, months that begin anew."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from datetime import date, datetime
from pathlib import Path

import pytest

from service.keys import CreditsExhausted, KeyStore, UnknownCharge
from service.periods import next_renewal, period_start

ROOT = Path(__file__).parents[2]


class Clock:
    """A clock that stands where it is put."""

    def __init__(self, instant: datetime) -> None:
        self.instant = instant

    def __call__(self) -> datetime:
        return self.instant


@pytest.fixture
def clock() -> Clock:
    return Clock(datetime(2026, 11, 20, 12))


@pytest.fixture
def keys(tmp_path: Path, clock: Clock) -> Iterator[KeyStore]:
    with KeyStore(tmp_path / "keys.sqlite", clock) as made:
        yield made


def _key(keys: KeyStore, allowance: int = 100, renewal_day: int = 1) -> int:
    found = keys.find(keys.create("test", allowance, renewal_day=renewal_day))
    assert found is not None
    return found.id


def test_a_secret_shows_its_prefix_and_is_found_again(keys):
    secret = keys.create("reports", 5_00, True, 15)
    found = keys.find(secret)
    assert secret.startswith(f"hl_{found.prefix}_")
    assert len(found.prefix) == 8
    assert (found.name, found.allowance, found.custom_plan, found.renewal_day) == ("reports", 5_00, True, 15)
    assert found.revoked_at is None


def test_no_file_holds_a_secret(keys, tmp_path):
    secret = keys.create("test", 100)
    random = secret.split("_")[2]
    kept = b"".join(path.read_bytes() for path in tmp_path.iterdir())
    assert secret.split("_")[1].encode() in kept
    assert random.encode() not in kept
    assert bytes.fromhex(random) not in kept


@pytest.mark.parametrize("secret", ["", "hl", "hl__", "hl_a_b", "other_00000000_1"])
def test_what_is_no_secret_finds_no_key(keys, secret):
    keys.create("test", 100)
    assert keys.find(secret) is None


def test_a_revoked_key_is_listed_but_not_found(keys):
    secret = keys.create("test", 100)
    (key,) = keys.keys()
    assert keys.revoke(key.prefix)
    assert keys.find(secret) is None
    assert keys.keys()[0].revoked_at is not None
    assert not keys.revoke(key.prefix)


def test_keys_outlive_the_process_that_made_them(keys, tmp_path):
    secret = keys.create("test", 100)
    keys.close()
    with KeyStore(tmp_path / "keys.sqlite") as again:
        assert again.find(secret) is not None


@pytest.mark.parametrize(("allowance", "renewal_day"), [(-1, 1), (1, 0), (1, 32)])
def test_a_key_without_sense_is_not_made(keys, allowance, renewal_day):
    with pytest.raises(ValueError, match=r"allowance|renewal day"):
        keys.create("test", allowance, renewal_day=renewal_day)
    assert keys.keys() == []


def test_what_is_reserved_can_not_be_spent_twice(keys):
    key = _key(keys, allowance=100)
    charge = keys.reserve(key, "map", 60)
    with pytest.raises(CreditsExhausted, match=r"0\.41 credits and 0\.40 are left until the renewal on 2026-12-01"):
        keys.reserve(key, "map", 41)
    keys.release(charge)
    keys.settle(keys.reserve(key, "map", 100))
    assert keys.balance(key).remaining == 0


def test_a_charge_settles_once(keys):
    key = _key(keys)
    charge = keys.reserve(key, "map", 60)
    assert keys.settle(charge).remaining == 40
    with pytest.raises(UnknownCharge):
        keys.settle(charge)
    keys.release(charge)
    assert keys.balance(key).spent == 60


def test_a_released_charge_can_not_be_settled(keys):
    key = _key(keys)
    charge = keys.reserve(key, "map", 60)
    keys.release(charge)
    keys.reserve(key, "map", 1)
    with pytest.raises(UnknownCharge):
        keys.settle(charge)
    assert keys.balance(key).spent == 0


def test_keys_do_not_spend_each_others_credits(keys):
    first, second = _key(keys), _key(keys)
    keys.settle(keys.reserve(first, "map", 100))
    assert keys.balance(second).remaining == 100


def test_many_threads_never_pass_the_allowance(keys):
    key = _key(keys, allowance=50)

    def ask(number: int) -> int:
        try:
            charge = keys.reserve(key, "map", 1)
        except CreditsExhausted:
            return 0
        if number % 3:
            keys.settle(charge)
            return 1
        keys.release(charge)
        return 0

    with ThreadPoolExecutor(16) as pool:
        charged = sum(pool.map(ask, range(400)))
    balance = keys.balance(key)
    assert (balance.spent, balance.reserved) == (charged, 0)
    assert 0 < charged <= 50  # some were refused for a reservation that was then given back
    for _ in range(50 - charged):
        keys.settle(keys.reserve(key, "map", 1))
    with pytest.raises(CreditsExhausted):
        keys.reserve(key, "map", 1)


def test_the_allowance_is_whole_again_on_the_renewal_date(keys, clock):
    key = _key(keys, allowance=100, renewal_day=15)
    keys.settle(keys.reserve(key, "map", 100))
    clock.instant = datetime(2026, 12, 14, 23, 59, 59)
    with pytest.raises(CreditsExhausted, match="2026-12-15"):
        keys.reserve(key, "map", 1)
    clock.instant = datetime(2026, 12, 15)
    assert keys.balance(key).remaining == 100
    keys.settle(keys.reserve(key, "map", 100))
    assert [(row.day, row.credits) for row in keys.usage(key)] == [(date(2026, 11, 20), 100), (date(2026, 12, 15), 100)]


def test_a_request_over_midnight_counts_in_the_month_that_allowed_it(keys, clock):
    key = _key(keys, allowance=100)
    clock.instant = datetime(2026, 11, 30, 23, 59, 59)
    charge = keys.reserve(key, "map", 100)
    clock.instant = datetime(2026, 12, 1)
    assert keys.settle(charge).remaining == 100
    assert [row.day for row in keys.usage(key)] == [date(2026, 11, 30)]


def test_a_reservation_of_a_dead_process_is_released_at_the_next_start(keys, tmp_path):
    key = _key(keys)
    code = f"""
import os
from pathlib import Path
from service.keys import KeyStore
keys = KeyStore(Path({str(keys.path)!r}))
keys.reserve({key}, "map", 60)
os._exit(1)
"""
    subprocess.run([sys.executable, "-c", code], cwd=ROOT, check=False, timeout=60)
    assert keys.balance(key).reserved == 60
    assert keys.release_abandoned() == 1
    assert keys.balance(key).remaining == 100
    assert list(tmp_path.glob("*.running")) == []


def test_a_reservation_of_a_living_process_stays(keys):
    key = _key(keys)
    charge = keys.reserve(key, "map", 60)
    with KeyStore(keys.path) as another_start:
        assert another_start.release_abandoned() == 0
    assert keys.settle(charge).spent == 60


def test_the_service_releases_what_an_earlier_one_left(start, tmp_path, caplog):
    path = tmp_path / "left.sqlite"
    with KeyStore(path) as earlier:
        key = _key(earlier, allowance=100)
        earlier.reserve(key, "map", 60)
    with KeyStore(path) as keys:
        assert keys.balance(key).reserved == 60
        start(keys)
        assert keys.balance(key).reserved == 0
    assert "released 1 reservations" in caplog.text


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
def test_a_period_lasts_from_renewal_to_renewal(today, renewal_day, start, renewal):
    day = date.fromisoformat(today)
    assert period_start(day, renewal_day).isoformat() == start
    assert next_renewal(day, renewal_day).isoformat() == renewal
