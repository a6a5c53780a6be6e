"""Thirty scheduled days in an evening: outages, kills, a full disk and used-up credits, and nobody repairs a day.

Sensors and schedule are ticked by hand, a day after each other, and each run is a real run of Dagster. The time of the
sensors is a day ahead of the clock, so that no day waits.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Callable, Iterator
from contextlib import closing, contextmanager
from dataclasses import dataclass, field
from datetime import datetime, time, timedelta
from pathlib import Path
from typing import Any

import pytest

from holderlake.core.contract.prices import credits_text
from holderlake.core.contract.times import utc_now
from holderlake.core.settings import Settings, load_settings
from holderlake.core.workspace import make_workspace
from holderlake.engine.store.store import Store
from holderlake.operations.healing.expected import record_tick
from holderlake.operations.history.instance import dagster_instance
from holderlake.service.billing.keys import KeyStore
from holderlake.service.run import BackgroundService
from holderlake.sources.sample_world import with_sample_watchlist
from tests.helpers.changed_service import Change, ChangedService, Real
from tests.helpers.misbehaving import Received, Step, answer, error, reset, silence
from tests.helpers.pipeline import Pipeline
from tests.helpers.processes import ROOT
from tests.helpers.real import missing

pytestmark = pytest.mark.long

CHAIN, DAY = "solana", timedelta(days=1)
FIRST = datetime.combine(utc_now(), time()) - 31 * DAY
DAYS = [FIRST + number * DAY for number in range(30)]
TICK_AFTER = timedelta(minutes=5)
DAY_COSTS = 60_00
"""At most what a day costs, in hundredths of a credit."""
OUTAGES: dict[int, tuple[Callable[[Real], Step], bool]] = {
    3: (lambda real: error(503), False),
    8: (lambda real: answer(b"<html>Attention Required</html>"), False),
    12: (lambda real: reset(), True),
    16: (lambda real: error(401, "invalid_key"), False),
    26: (lambda real: silence(), False),
}
"""What the provider does on some days, and whether it charges the calls: for the scheduled run and the first repair."""
KILLS, FULL_DISK, TOP_UP = (5, 20), 18, 23
MEGABYTES = 600
AS_ROOT = () if os.geteuid() == 0 else ("sudo", "-n")


@dataclass
class Evening:
    """The provider's changes: ``outage`` for all requests but those for rules, and a process to kill at a request."""

    outage: tuple[Callable[[Real], Step], bool] | None = None
    victim: subprocess.Popen[bytes] | None = None
    happened: list[str] = field(default_factory=list)

    def choose(self, request: Received) -> Change | None:
        if self.victim is not None and "/holders/" in request.target:
            self.victim.kill()
            self.victim = None
        return None if self.outage is None else Change(*self.outage)


def _mount(folder: Path, options: str) -> None:
    command = [*AS_ROOT, "mount", "-t", "tmpfs", "-o", f"{options},mode=0777", "tmpfs", str(folder)]
    ended = subprocess.run(command, check=False, capture_output=True, text=True)
    if ended.returncode:
        missing(f"a small disk in memory cannot be mounted, which takes root or sudo: {ended.stderr}")


@contextmanager
def _small_disk(folder: Path) -> Iterator[Path]:
    folder.mkdir()
    _mount(folder, f"size={MEGABYTES}m")
    try:
        yield folder
    finally:
        subprocess.run([*AS_ROOT, "umount", "--lazy", folder], check=True)


def _resize(folder: Path, left: int | None) -> None:
    status = os.statvfs(folder)
    used = (status.f_blocks - status.f_bfree) * status.f_frsize
    _mount(folder, f"remount,size={MEGABYTES << 20 if left is None else used + left}")


@pytest.mark.timeout(3_000)
def test_thirty_days_are_complete_without_a_person(
    tmp_path: Path, sample_folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    evening = Evening()
    with (
        Store(sample_folder) as store,
        KeyStore(tmp_path / "keys.sqlite") as keys,
        BackgroundService(store, keys) as service,
        _small_disk(tmp_path / "disk") as disk,
    ):
        secret = keys.create("evening", TOP_UP * DAY_COSTS - 2 * DAY_COSTS)
        with ChangedService(service.base_url, secret, evening.choose).serving() as provider:
            for name, value in _settings(disk, provider.address, secret).items():
                monkeypatch.setenv(f"HOLDERLAKE_{name}", value)
            with (
                closing(make_workspace(load_settings())) as workspace,
                dagster_instance(workspace.settings.dagster_home) as instance,
            ):
                pipeline = Pipeline(workspace, instance)
                pipeline.at(utc_now() + timedelta(hours=26))
                for number, day in enumerate(DAYS):
                    if number == TOP_UP:
                        (key,) = keys.keys()
                        keys.change(key.prefix, allowance=100 * DAY_COSTS)
                    _live_through(pipeline, evening, disk, number, day)
                _heal(pipeline)
                wanted = {f"{CHAIN}|{day:%Y-%m-%d}" for day in DAYS}
                for table in ("chains", "tokens", "holders"):
                    assert pipeline.shown(table) == {"materialised": wanted, "failed": set()}
                    found = {one.as_of for one in workspace.lake.manifests(table) if one.covered and not one.unanswered}
                    assert found == set(DAYS)
                totals, charged = workspace.ledger.totals(), provider.charged.total()
                twice = sum(
                    provider.charged[call] - provider.charged[call] // n for call, n in provider.calls.items() if n > 1
                )
                sys.stdout.write(
                    f"{evening.happened}\npaid twice: {credits_text(twice)} of {credits_text(charged)} credits\n"
                )
                assert totals.spent <= charged <= totals.spent + totals.reserved
                assert twice <= (len(KILLS) + 3) * DAY_COSTS


def _settings(disk: Path, url: str, secret: str) -> dict[str, str]:
    token = with_sample_watchlist(Settings(home=disk)).watchlist[CHAIN][0]
    return {
        "HOME": str(disk / "home"),
        "PROVIDER__URL": url,
        "PROVIDER__ATTEMPTS": "1",
        "PROVIDER__TIMEOUT_SECONDS": "5",
        "API_KEY": secret,
        "WATCHLIST": json.dumps({CHAIN: [token]}),
        "SCHEDULE__LEAVE_OUT": json.dumps(["maps", "subgraphs", "addresses"]),
    }


def _live_through(pipeline: Pipeline, evening: Evening, disk: Path, number: int, day: datetime) -> None:
    """Run a day of the schedule, and tick the sensors once; then the day's outage is over."""
    tick = day + TICK_AFTER
    evening.outage = OUTAGES.get(number)
    if number == FULL_DISK:
        _resize(disk, 8 << 20)
    if number in KILLS:
        record_tick(pipeline.workspace, tick - DAY, tick)
        command = [sys.executable, "-m", "holderlake.cli.main", "ingest", "--chain", CHAIN, "--at", day.isoformat()]
        evening.victim = process = subprocess.Popen(
            command, cwd=ROOT, stderr=subprocess.DEVNULL, stdout=subprocess.DEVNULL
        )
        assert process.wait() == -9
        for _ in range(2):
            pipeline.requests("dead_runs")
        results: list[Any] = ["killed"]
    else:
        results = pipeline.schedule(tick)
    if results != [(f"{CHAIN}|{day:%Y-%m-%d}", True)]:
        evening.happened.append(f"day {number}: {results}, then {pipeline.sensor('healing')}")
    if number == FULL_DISK:
        _resize(disk, None)
    evening.outage = None


def _heal(pipeline: Pipeline) -> None:
    for _ in range(5):
        if isinstance(pipeline.sensor("healing")[0], str):
            return
    pytest.fail("the sensor still finds missing days")
