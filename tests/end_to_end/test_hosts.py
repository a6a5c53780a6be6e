"""Hosts with homes of their own, one bucket and one PostgreSQL: killed again and again, they fill one lake once.

``HOLDERLAKE_KILLS`` says how often each host is killed. The full run:
``HOLDERLAKE_KILLS=10 python -m pytest tests/end_to_end/test_hosts.py -s``.
"""

from __future__ import annotations

import os
import random
import time
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from datetime import datetime, timedelta
from pathlib import Path

import pytest

from holderlake.contract.tables import TABLES
from holderlake.lake.object_store import open_bucket
from tests.end_to_end.backfills import CONCURRENCY, Backfill, Service, away_from_midnight, ended, service_of
from tests.end_to_end.filler import READY
from tests.s3 import KEYS, require_s3, s3_bucket, s3_server

require_s3()

HOSTS = 3
KILLS = int(os.environ.get("HOLDERLAKE_KILLS", "1"))
INSTANTS = [datetime(2026, 10, 1) - timedelta(days=7 * back) for back in range(3 + 2 * KILLS)]


@pytest.fixture(scope="module")
def service(sample_folder: Path, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Service]:
    """The real service in a separate process."""
    away_from_midnight()
    with service_of(sample_folder, tmp_path_factory.mktemp("accounts") / "accounts.sqlite") as running:
        yield running


def killed_and_finished(host: Backfill, kills: int, seed: int) -> None:
    """Start a host's backfill, kill it at random moments, and start it again until it is complete."""
    moments = random.Random(seed)
    for kill in range(kills):
        process = host.start(f"run {seed} {kill}")
        assert process.stdout is not None
        while READY not in process.stdout.readline():
            assert process.poll() is None
        time.sleep(moments.uniform(0.05, 1.5))
        process.kill()
        process.communicate()
    ended(host.start(f"run {seed}"))


@pytest.mark.long
def test_killed_hosts_fill_one_lake_and_pay_once(service: Service, postgres_url: str, tmp_path: Path) -> None:
    undisturbed = Backfill(tmp_path / "undisturbed", service.customer(), INSTANTS)
    undisturbed.finish()
    customer = service.customer()
    with s3_server() as server:
        s3_bucket(server, "shared")
        shared = {
            "HOLDERLAKE_LAKE__URL": "s3://shared/lake",
            "HOLDERLAKE_LAKE__ENDPOINT": server,
            "HOLDERLAKE_LAKE__REGION": "us-east-1",
            "AWS_ACCESS_KEY_ID": KEYS["access_key_id"],
            "AWS_SECRET_ACCESS_KEY": KEYS["secret_access_key"],
            "HOLDERLAKE_STATE__URL": postgres_url,
            "HOLDERLAKE_STATE__LEASE_SECONDS": "5",
        }
        hosts = [Backfill(tmp_path / f"host {number}", customer, INSTANTS, shared) for number in range(HOSTS)]
        with ThreadPoolExecutor(HOSTS) as pool:
            list(pool.map(killed_and_finished, hosts, [KILLS] * HOSTS, range(HOSTS)))
        lake = open_bucket("s3://shared/lake", server, "us-east-1", KEYS)
        for table in TABLES:
            ours, theirs = (one.read(table).drop_columns(["fetched_at"]) for one in (lake, undisturbed.lake))
            assert ours.equals(theirs), table
        for host in hosts:
            assert host.warehouse.query("FROM partitions").num_rows == len(list(lake.manifests()))
    again = customer.billed.total() - undisturbed.customer.billed.total()
    assert 0 <= again <= HOSTS * KILLS * CONCURRENCY
