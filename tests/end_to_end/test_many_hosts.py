"""Hosts that run the same backfill on one bucket and one PostgreSQL, and are killed: each answer is paid once.

``HOLDERLAKE_KILLS`` says how often hosts are killed. The full run, with each of three hosts killed ten times:
``HOLDERLAKE_KILLS=30 python -m pytest -m long tests/end_to_end/test_many_hosts.py -s``.
"""

from __future__ import annotations

import os
import random
import sys
from collections import Counter
from collections.abc import Iterator
from contextlib import closing
from dataclasses import dataclass
from datetime import datetime, timedelta
from pathlib import Path

import pytest
from pydantic import SecretStr

from holderlake.core.lake.lake import Lake
from holderlake.core.provider.ledger.ledger import CreditLedger
from holderlake.core.settings import Settings
from holderlake.core.settings.sections.lake import LakeSettings, StateSettings
from holderlake.core.workspace import Endpoint, Workspace
from tests.end_to_end.backfills import (
    Backfill,
    Customer,
    Service,
    ended,
    same_lake,
    warehouse_holds_the_lake,
)
from tests.helpers.processes import wait_until
from tests.helpers.s3 import KEYS, require_s3, s3_bucket, s3_server

pytestmark = pytest.mark.long

KILLS = int(os.environ.get("HOLDERLAKE_KILLS", "3"))
HOSTS = 3
INSTANTS = [datetime(2026, 10, 1) - timedelta(days=7 * back) for back in range(3 + KILLS // 3)]


@dataclass(frozen=True)
class Host(Backfill):
    """A host with its own home. Lake and ledger are shared with the others."""

    @property
    def workspace(self) -> Workspace:
        lake = {name: self.settings.get(f"HOLDERLAKE_LAKE__{name.upper()}") for name in LakeSettings.model_fields}
        chosen = Settings(
            home=self.home,
            lake=LakeSettings.model_validate({name: value for name, value in lake.items() if value}),
            state=StateSettings(url=SecretStr(self.settings["HOLDERLAKE_STATE__URL"])),
        )
        return Workspace(chosen, lambda: Endpoint(self.customer.base_url, None, self.customer.base_url))

    @property
    def lake(self) -> Lake:
        return self.workspace.lake

    @property
    def ledger(self) -> CreditLedger:
        return self.workspace.ledger

    @property
    def answers(self) -> set[str]:
        return {stored.digest for stored in self.workspace.archive.stored()}


@pytest.fixture(params=["folder", "s3"])
def bucket(request: pytest.FixtureRequest, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[dict[str, str]]:
    """The settings of a bucket: a folder that all hosts see, or S3."""
    if request.param == "folder":
        yield {"HOLDERLAKE_LAKE__URL": (tmp_path / "bucket").as_uri()}
        return
    require_s3()
    monkeypatch.setenv("AWS_ACCESS_KEY_ID", KEYS["access_key_id"])
    monkeypatch.setenv("AWS_SECRET_ACCESS_KEY", KEYS["secret_access_key"])
    with s3_server() as server:
        s3_bucket(server, "shared")
        settings = {"URL": "s3://shared/lake", "ENDPOINT": server, "REGION": "us-east-1"}
        yield {f"HOLDERLAKE_LAKE__{name}": value for name, value in settings.items()}


@pytest.fixture
def hosts(bucket: dict[str, str], service: Service, postgres_url: str, tmp_path: Path) -> list[Host]:
    """Hosts with one bucket and one PostgreSQL."""
    state = {"HOLDERLAKE_STATE__URL": postgres_url, "HOLDERLAKE_STATE__LEASE_SECONDS": "15"}
    customer: Customer = service.customer()
    return [Host(tmp_path / f"host {number}", customer, INSTANTS, bucket | state) for number in range(HOSTS)]


def test_killed_hosts_share_a_backfill_that_is_billed_once(hosts: list[Host], undisturbed: Backfill) -> None:
    chosen = random.Random(20261123)
    running = [host.start(f"host {number}, life 0") for number, host in enumerate(hosts)]
    with closing(hosts[0].ledger) as ledger:
        for kill in range(KILLS):
            number = kill % HOSTS
            aim = int((kill + chosen.random()) / KILLS * len(undisturbed.answers))
            wait_until(
                lambda aim=aim, process=running[number]: (
                    sum(row.calls for row in ledger.report("day")) >= aim or process.poll() is not None
                )
            )
            running[number].kill()
            running[number].communicate()
            running[number] = hosts[number].start(f"host {number}, life {kill + 1}")
        for process in running:
            ended(process)
        unknown = Counter(entry.endpoint for entry in ledger.unsettled())
        totals = ledger.totals()

    same_lake(hosts[0], undisturbed)
    for host in hosts:
        host.finish("last")
        warehouse_holds_the_lake(host)
    once, billed = undisturbed.customer.billed, hosts[0].customer.billed
    assert all(once[endpoint] <= billed[endpoint] <= once[endpoint] + unknown[endpoint] for endpoint in billed | once)
    assert totals.spent <= hosts[0].customer.spent <= totals.spent + totals.reserved
    assert hosts[0].answers == undisturbed.answers
    sys.stdout.write(
        f"\n{KILLS} kills of {HOSTS} hosts: {once.total()} requests, {billed.total()} calls billed, {unknown.total()} "
        "calls were in flight\n"
    )


@pytest.mark.parametrize("bucket", ["folder"], indirect=True)
def test_two_hosts_share_a_backfill_that_is_billed_once(hosts: list[Host], undisturbed: Backfill) -> None:
    for process in [host.start(f"host {number}") for number, host in enumerate(hosts[:2])]:
        ended(process)
    assert hosts[0].customer.billed == undisturbed.customer.billed
    for host in hosts[:2]:
        same_lake(host, undisturbed)
