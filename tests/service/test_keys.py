"""Keys: secrets, accounts, opening the database, and errors that show no secret."""

from __future__ import annotations

import logging
import stat
import traceback
from collections.abc import Iterator
from datetime import datetime, timedelta
from pathlib import Path
from secrets import token_hex

import pytest
from pydantic import SecretStr

from holderlake.core.storage.postgresql import Postgres
from holderlake.core.storage.sqlite import DatabaseBusy, DatabaseError
from holderlake.service.billing.keys import (
    Key,
    KeyEnded,
    KeyStore,
    UnknownKey,
    WrongSecret,
    postgresql_place,
)
from tests.helpers.ledgers import SECRET, Clock, Ledger

NOON = datetime(2026, 11, 20, 12)


@pytest.fixture
def clock() -> Clock:
    return Clock(NOON)


@pytest.fixture
def keys(ledger: Ledger, clock: Clock) -> Iterator[KeyStore]:
    with ledger.open(now=clock) as made:
        yield made


def _found(keys: KeyStore, secret: str) -> Key:
    found = keys.find(secret)
    assert found is not None
    return found


# --------------------------------------------------------------------- secrets


def test_secret_contains_the_prefix_and_finds_its_key(keys):
    secret = keys.create("reports", 5_00, True, 15)
    found = _found(keys, secret)
    assert secret.startswith(f"hl_{found.prefix}_")
    assert len(found.prefix) == 8
    assert len(secret.split("_")[2]) == 48
    assert (found.name, found.allowance, found.custom_plan, found.renewal_day) == ("reports", 5_00, True, 15)
    assert (found.created_at, found.ends_at) == (NOON, None)


def test_database_holds_no_secret(keys, ledger):
    secret = keys.create("test", 100)
    keys.find(secret)
    rotated = keys.rotate(secret.split("_")[1], timedelta(hours=1))
    kept = ledger.kept()
    for one in (secret, rotated):
        _, prefix, random = one.split("_")
        assert prefix in kept
        assert random not in kept
        assert keys.secret.hex() not in kept


@pytest.mark.later(integration=4, long=8)
@pytest.mark.parametrize(
    "secret",
    ["", "hl", "hl__", "hl_a_b", "other_00000000_1", "hl_0000000\x00_" + "0" * 48, "\ud800", "hl_00000000_" + "0" * 48],
)
def test_malformed_secret_finds_no_key(keys, secret):
    keys.create("test", 100)
    assert keys.find(secret) is None


@pytest.mark.parametrize(("allowance", "renewal_day"), [(-1, 1), (1, 0), (1, 32), (10**18, 1)])
def test_invalid_plan_is_refused(keys, allowance, renewal_day):
    with pytest.raises(ValueError, match="allowance"):
        keys.create("test", allowance, renewal_day=renewal_day)
    assert keys.keys() == []


@pytest.mark.parametrize("name", ["", " ", "two\nlines", "\x00", "\x1b[2J"])
def test_unprintable_name_is_refused(keys, name):
    with pytest.raises(ValueError, match="name"):
        keys.create(name, 100)


# ------------------------------------------------------------------ life of keys


def test_an_account_opened_again_gets_another_key(keys):
    first, second = (keys.create("embedded", 5_000, reuse_account=True) for _ in range(2))
    assert keys.find(first).account == keys.find(second).account
    assert keys.find(keys.create("embedded", 5_000)).account != keys.find(first).account


def test_revoked_key_is_listed_but_not_found(keys):
    secret = keys.create("test", 100)
    (key,) = keys.keys()
    assert keys.revoke(key.prefix)
    assert keys.find(secret) is None
    assert keys.keys()[0].ends_at == NOON
    assert not keys.revoke(key.prefix)


@pytest.mark.parametrize("prefix", ["00000000", "", "no prefix", "\x00", "\ud800"])
def test_unknown_key_cannot_be_revoked_rotated_or_changed(keys, prefix):
    keys.create("test", 100)
    assert not keys.revoke(prefix)
    with pytest.raises(UnknownKey):
        keys.rotate(prefix)
    with pytest.raises(UnknownKey):
        keys.change(prefix, allowance=5)
    with pytest.raises(UnknownKey):
        keys.usage(prefix)


def test_keys_persist_after_closing_the_store(keys, ledger):
    secret = keys.create("test", 100)
    keys.close()
    with ledger.open() as again:
        assert again.find(secret) is not None


def test_both_keys_are_valid_in_the_grace_period(keys, clock):
    old = keys.create("test", 100, True, 9)
    before = _found(keys, old)
    new = keys.rotate(before.prefix, timedelta(hours=24))
    clock.instant = NOON + timedelta(hours=24, seconds=-1)
    assert _found(keys, old).ends_at == NOON + timedelta(hours=24)
    after = _found(keys, new)
    assert after.id != before.id
    assert after.ends_at is None
    plan = ("account", "name", "allowance", "custom_plan", "renewal_day")
    assert [getattr(after, name) for name in plan] == [getattr(before, name) for name in plan]
    clock.instant = NOON + timedelta(hours=24)
    assert keys.find(old) is None
    assert keys.find(new) is not None


def test_without_grace_period_the_old_key_ends_at_once(keys):
    old = keys.create("test", 100)
    key = _found(keys, old)
    new = keys.rotate(key.prefix)
    assert keys.find(old) is None
    with pytest.raises(KeyEnded):
        keys.reserve(key.id, "map", 1)
    assert keys.reserve(_found(keys, new).id, "map", 1)


def test_second_rotation_does_not_extend_the_grace_period(keys):
    old = keys.create("test", 100)
    prefix = _found(keys, old).prefix
    keys.rotate(prefix, timedelta(hours=1))
    keys.rotate(prefix, timedelta(days=7))
    assert _found(keys, old).ends_at == NOON + timedelta(hours=1)


def test_ended_key_cannot_be_rotated(keys):
    prefix = _found(keys, keys.create("test", 100)).prefix
    keys.revoke(prefix)
    with pytest.raises(UnknownKey, match="ended"):
        keys.rotate(prefix)
    assert len(keys.keys()) == 1


def test_negative_grace_period_is_refused(keys):
    prefix = _found(keys, keys.create("test", 100)).prefix
    with pytest.raises(ValueError, match="grace"):
        keys.rotate(prefix, timedelta(seconds=-1))


def test_keys_of_an_account_share_its_plan_and_allowance(keys):
    old = _found(keys, keys.create("test", 100))
    new = _found(keys, keys.rotate(old.prefix, timedelta(hours=1)))
    keys.settle(keys.reserve(old.id, "map", 60))
    keys.settle(keys.reserve(new.id, "map", 30))
    assert keys.balance(old.id) == keys.balance(new.id)
    assert [(row.prefix, row.credits) for row in keys.usage()] == [(old.prefix, 60), (new.prefix, 30)]
    changed = keys.change(old.prefix, allowance=300, custom_plan=True, renewal_day=9)
    assert (changed.allowance, changed.custom_plan, changed.renewal_day) == (300, True, 9)
    assert keys.balance(new.id).allowance == 300
    assert keys.balance(new.id).renews_on.isoformat() == "2026-12-09"


def test_change_keeps_values_that_are_not_given(keys):
    key = _found(keys, keys.create("test", 100, True, 9))
    keys.change(key.prefix, allowance=5)
    assert keys.change(key.prefix) == _changed(key, allowance=5)
    with pytest.raises(ValueError, match="renewal day"):
        keys.change(key.prefix, renewal_day=40)


def _changed(key: Key, **values: object) -> Key:
    return Key(**{**{name: getattr(key, name) for name in Key.__dataclass_fields__}, **values})


# -------------------------------------------------------------- opening a store


def _place(url: str) -> Postgres:
    return postgresql_place(SecretStr(url), Path("keys"))


@pytest.mark.long
@pytest.mark.parametrize("ledger", ["sqlite", "postgresql"], indirect=True)
def test_concurrent_processes_create_the_tables_once(ledger):
    starting = [ledger.python("print(keys.create(f'{os.getpid()}', 1))") for _ in range(4)]
    output = [process.communicate(timeout=600) for process in starting]
    secrets = [out.strip() for out, _ in output]
    assert all(secrets), output
    with ledger.open() as keys:
        assert len(keys.keys()) == 4
        assert all(keys.find(secret) for secret in secrets)


def test_wrong_secret_does_not_open_the_store(keys, ledger):
    another = token_hex(16)
    with pytest.raises(WrongSecret, match="HOLDERLAKE_SERVICE__SECRET is not the secret") as caught:
        KeyStore(ledger.place, another.encode())
    assert another not in _all_words(caught.value)


def test_given_secret_replaces_the_file(tmp_path):
    with KeyStore(tmp_path / "accounts.sqlite", SECRET) as keys:
        assert keys.secret == SECRET
    assert not (tmp_path / "accounts.secret").exists()
    with pytest.raises(WrongSecret, match=r"accounts\.secret is missing"):
        KeyStore(tmp_path / "accounts.sqlite")


def test_short_secret_is_refused(ledger):
    with pytest.raises(WrongSecret, match="fewer than 16 bytes"):
        KeyStore(ledger.place, b"fifteen letters")


def test_postgresql_requires_a_secret():
    with pytest.raises(WrongSecret, match="HOLDERLAKE_SERVICE__SECRET"):
        KeyStore(_place("postgresql://user@host/name"))


def test_secret_file_is_readable_by_its_owner_only(tmp_path):
    with KeyStore(tmp_path / "accounts.sqlite") as keys:
        file = tmp_path / "accounts.secret"
        assert file.read_bytes() == keys.secret
        assert len(keys.secret) == 32
        assert stat.S_IMODE(file.stat().st_mode) == 0o600


def test_missing_secret_file_is_not_replaced(tmp_path):
    with KeyStore(tmp_path / "accounts.sqlite"):
        pass
    (tmp_path / "accounts.secret").unlink()
    with pytest.raises(WrongSecret, match="restore the file"):
        KeyStore(tmp_path / "accounts.sqlite")
    assert not (tmp_path / "accounts.secret").exists()


def test_tables_of_another_version_are_refused(keys, ledger):
    newer = "UPDATE format SET number = 99" if ledger.server else "PRAGMA user_version = 99"
    keys._database.run(lambda db: db.exec_driver_sql(newer))
    with pytest.raises(DatabaseError, match="has format 99"):
        ledger.open()


def test_tables_of_another_program_are_refused(postgres_server, postgres_url):
    postgres_server.execute("CREATE TABLE accounts (id int)", postgres_url)
    with pytest.raises(DatabaseError, match="cannot be used"):
        KeyStore(_place(postgres_url), SECRET)


# -------------------------------------------------------------------- no leaks


def _all_words(error: BaseException) -> str:
    """Return all text that a log may show of an error."""
    words = ["".join(traceback.format_exception(error)), repr(error)]
    chained = [one for one in (error.__cause__, error.__context__) if one is not None]
    return "\n".join([*words, *(_all_words(one) for one in chained)])


@pytest.mark.parametrize(
    "url",
    [
        "mysql://user:hunter2@host/name",
        "postgresql://user:hunter2@host:port/name",
        "postgresql://u:hunter2@127.0.0.1:1/n",
    ],
    ids=["another database", "invalid", "unreachable"],
)
def test_unusable_url_is_reported_by_its_setting_without_the_password(url, caplog):
    with pytest.raises(DatabaseError, match=r"service\.database") as caught:
        KeyStore(_place(url), SECRET)
    assert "hunter2" not in _all_words(caught.value) + caplog.text


def test_logs_and_reprs_show_no_secret(ledger, caplog):
    caplog.set_level(logging.DEBUG)
    with ledger.open() as keys:
        secret = keys.create("test", 100)
        found = _found(keys, secret)
        keys.find("hl_00000000_" + "5" * 48)
        with pytest.raises(KeyError):
            keys._database.run(lambda db: {}["a fault"])
        words = caplog.text + repr(keys) + repr(vars(keys)) + repr(vars(keys._database)) + repr(found)
        words = words.replace(repr(keys.secret), "")  # the field is not logged
    assert secret.split("_")[2] not in words
    assert "5" * 48 not in words
    assert repr(keys.secret) not in repr(keys)
    if ledger.server:
        assert ledger.server.password not in words


# ------------------------------------------------------------------------- ping


def test_ping_fails_on_a_locked_file(tmp_path):
    ledger = Ledger(tmp_path / "accounts.sqlite")
    with ledger.open(busy_seconds=0.05) as keys, ledger.open() as other:
        with other._database.transaction(), pytest.raises(DatabaseBusy):
            keys.ping()
        keys.ping()


def test_ping_fails_on_a_read_only_database(postgres_server, postgres_url):
    with KeyStore(_place(postgres_url), SECRET) as keys:
        secret = keys.create("test", 100)
        database = postgres_url.rpartition("/")[2]
        postgres_server.execute(f"ALTER DATABASE {database} SET default_transaction_read_only = on")
        postgres_server.end_sessions(database)
        with pytest.raises(DatabaseError, match="read-only"):
            keys.ping()
        assert keys.find(secret)


def test_full_disk_is_reported(tmp_path):
    with KeyStore(tmp_path / "accounts.sqlite") as keys:
        keys._database.run(lambda db: db.exec_driver_sql("PRAGMA max_page_count = 1"))
        with pytest.raises(DatabaseError, match="its disk is full"):
            keys.create("x" * 100_000, 1)
        assert keys.keys() == []
