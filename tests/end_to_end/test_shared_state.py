"""Homes of several hosts that share their state in PostgreSQL."""

from __future__ import annotations

import os
from collections.abc import Callable
from pathlib import Path

import pytest
from pydantic import SecretStr

from holderlake.core.contract.times import utc_now
from holderlake.core.provider.errors import BudgetExceeded
from holderlake.core.provider.ledger.entries import Reservation, Reserve, Settle
from holderlake.core.settings import Settings
from holderlake.core.settings.sections.lake import StateSettings
from holderlake.core.settings.sections.schedule import Budget
from holderlake.core.storage.owners import leased
from holderlake.core.workspace import Endpoint, Workspace
from holderlake.operations.alerts.delivery import notify
from holderlake.operations.alerts.notices import run_failed
from holderlake.operations.alerts.outbox import Outbox
from holderlake.operations.alerts.settings import alerts_database
from holderlake.operations.doctor.file_checks import check_files
from tests.core.provider.conftest import as_text
from tests.core.provider.credit_ledger import OneCallLedger
from tests.helpers.commands import holderlake
from tests.helpers.processes import PIPE, start

pytestmark = pytest.mark.integration

Hosts = Callable[[str], Workspace]
HOLD = """
import sys, time
from holderlake.core.storage.owners import leased
from tests.core.provider.conftest import place_of
with leased(place_of(sys.argv[1]), "alerts", RuntimeError("busy")):
    print("held", flush=True)
    time.sleep(600)
"""
UNREACHABLE = "postgresql://keeper:s3cret-word@127.0.0.1:1/absent"


@pytest.fixture
def hosts(postgres_url: str, tmp_path: Path) -> Hosts:
    """A function that makes the workspace of a host, by its name."""
    return lambda name: workspace_of(tmp_path / name, postgres_url)


def workspace_of(home: Path, url: str) -> Workspace:
    settings = Settings(home=home, state=StateSettings(url=SecretStr(url)), budget=Budget(per_day=10))
    return Workspace(settings, lambda: Endpoint("http://127.0.0.1:1", SecretStr("key"), "them"))


def spend(path: Path, cost: int) -> None:
    """Settle a call in the SQLite ledger of a home, and leave one with the same cost open."""
    with OneCallLedger(path) as ledger:
        ledger.settle(ledger.reserve("run", "map", "eth/0xaa", cost), cost)
        ledger.reserve("run", "map", "eth/0xbb", cost)


@pytest.mark.long
def test_the_ledgers_of_homes_are_copied_once(hosts: Hosts) -> None:
    for name, cost in (("one", 100), ("two", 25)):
        spend(hosts(name).settings.ledger, cost)
    for name, counted in (("one", 100), ("one", 100), ("two", 125), ("one", 125), ("three", 125)):
        host = hosts(name)
        totals = host.ledger.totals()
        assert (totals.spent, totals.reserved) == (counted, counted)
        assert host.ledger.damage() is None
        host.close()


@pytest.mark.long
def test_hosts_share_one_ceiling(hosts: Hosts) -> None:
    one, other = hosts("one").ledger, hosts("other").ledger
    (reserved,) = one.apply([Reserve("run", "map", None, 600)])
    assert isinstance(reserved, Reservation)
    one.apply([Settle(reserved.entry, 600, 5_000)])
    assert other.totals().credits_remaining == 5_000
    (refused,) = other.apply([Reserve("another run", "map", None, 500)])
    assert isinstance(refused, BudgetExceeded)
    assert (refused.ceiling, refused.call_cost) == ("per_day", 500)
    assert "6.00 are spent or reserved" in str(refused)


def test_one_host_holds_a_lease_until_it_ends(hosts: Hosts) -> None:
    class Held(Exception):
        pass

    one, other = (hosts(name).state(alerts_database(hosts(name).settings)) for name in ("one", "other"))
    with leased(one, "alerts", Held()), leased(other, "another name", Held()):
        for where in (one, other):
            with pytest.raises(Held), leased(where, "alerts", Held()):
                pass
    with leased(other, "alerts", Held()):
        pass


def test_a_lease_ends_with_its_process(hosts: Hosts) -> None:
    where = hosts("one").state(alerts_database(hosts("one").settings))
    with start(HOLD, as_text(where), stdout=PIPE) as holder:
        assert holder.stdout is not None
        assert holder.stdout.readline() == "held\n"
        with pytest.raises(RuntimeError, match="busy"), leased(where, "alerts", RuntimeError("busy")):
            pass
        holder.kill()
    with leased(where, "alerts", RuntimeError("busy")):
        pass


def test_an_alert_of_several_hosts_is_sent_once(hosts: Hosts) -> None:
    notice = run_failed("run", "ingest", "eth|2026-11-20", "timeout", utc_now())
    reports = [notify(hosts(name), [notice]) for name in ("one", "other", "one")]
    assert [report.sent_counts for report in reports] == [{"log": 1}, {}, {}]
    assert [len(report.new_alerts) for report in reports] == [1, 0, 0]
    other = Outbox(hosts("other").state(alerts_database(hosts("other").settings)))
    ((delivery,),) = other.deliveries().values()
    assert (delivery.destination, delivery.state, delivery.attempts) == ("log", "sent", 1)
    with other.delivering():
        assert notify(hosts("one"), []).is_busy


def test_plan_limits_are_shared(hosts: Hosts) -> None:
    one = hosts("one").plan_limits()
    for reason in ("custom plans only", "not in this plan"):
        one.refused("address_metadata", reason)
    assert [limit.reason for limit in hosts("other").plan_limits().limits.values()] == ["not in this plan"]
    one.remove("address_metadata")
    assert not hosts("other").plan_limits().limits


def test_doctor_checks_the_shared_state(hosts: Hosts, tmp_path: Path) -> None:
    (found,) = [finding for finding in check_files(hosts("one")) if finding.what == "state"]
    assert (found.fine, found.found) == (True, str(hosts("one").ledger))
    (found,) = [one for one in check_files(workspace_of(tmp_path / "two", UNREACHABLE)) if one.what == "state"]
    assert not found.fine
    assert "connection refused" in found.found
    assert "HOLDERLAKE_STATE__URL" in found.advice


def test_a_command_reports_an_unreachable_database_in_one_sentence(tmp_path: Path) -> None:
    environment = {**os.environ, "HOLDERLAKE_HOME": str(tmp_path), "HOLDERLAKE_STATE__URL": UNREACHABLE}
    for command in ("credits", "doctor"):
        done = holderlake(command, env=environment)
        assert done.returncode in (1, 2, 3)
        said = done.stdout + done.stderr
        assert "PostgreSQL at 127.0.0.1:1/absent cannot be used: connection refused" in said.replace("\n", " ")
        assert "s3cret-word" not in said
        assert "Traceback" not in said


def test_the_url_of_the_database_is_refused_in_the_settings_file(tmp_path: Path) -> None:
    file = tmp_path / "holderlake.toml"
    file.write_text(f'[state]\nurl = "{UNREACHABLE}"\n')
    environment = {**os.environ, "HOLDERLAKE_HOME": str(tmp_path), "HOLDERLAKE_CONFIG": str(file)}
    done = holderlake("credits", env=environment)
    assert "HOLDERLAKE_STATE__URL" in done.stderr
    assert "s3cret-word" not in done.stdout + done.stderr
