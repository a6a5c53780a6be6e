"""Metrics of a home: what a scrape reads from lake, ledger and Dagster's history."""

from __future__ import annotations

import os
import re
import signal
from collections.abc import Callable, Iterator
from datetime import datetime, timedelta
from pathlib import Path
from typing import Any

import httpx
import pytest
from dagster import DagsterInstance, job, op
from prometheus_client import CollectorRegistry
from prometheus_client.exposition import generate_latest
from prometheus_client.metrics_core import Metric
from prometheus_client.parser import text_string_to_metric_families

from holderlake.cli.metrics import run_metrics
from holderlake.core.contract.times import utc_now
from holderlake.core.settings import Settings
from holderlake.core.workspace import Endpoint, Workspace
from holderlake.operations.monitoring.prometheus import HomeMetrics, all_metrics, write_textfile
from tests.core.provider.credit_ledger import OneCallLedger
from tests.helpers.lakes import DAYS, failures, holders, write, write_holders
from tests.helpers.processes import PATIENCE, PIPE, start_holderlake

Read = Callable[..., float | None]


@pytest.fixture
def workspace(tmp_path: Path) -> Iterator[Workspace]:
    settings = Settings(home=tmp_path, watchlist={"eth": ["native"], "base": ["native"]}, budget={"per_month": "100"})
    opened = Workspace(settings, lambda: Endpoint("http://127.0.0.1:1", None, "tests"))
    yield opened
    opened.close()


def reader(registry: CollectorRegistry) -> Read:
    """Return a function that returns the value of a metric of the pipeline with these labels, None without one."""
    families = text_string_to_metric_families(generate_latest(registry).decode())
    values = {(one.name, *sorted(one.labels.items())): one.value for family in families for one in family.samples}
    return lambda name, **labels: values.get((f"holderlake_pipeline_{name}", *sorted(labels.items())))


def scrape(workspace: Workspace) -> Read:
    return reader(all_metrics(HomeMetrics(workspace).parts()))


def seconds(instant: datetime) -> float:
    return (instant - datetime(1970, 1, 1)) / timedelta(seconds=1)


def test_an_old_backfill_does_not_change_the_newest_instant(workspace: Workspace) -> None:
    write_holders(workspace.lake, "eth", DAYS[5], {"native": {"0x1": 2, "0x2": 1}})
    write_holders(workspace.lake, "eth", DAYS[1], {"native": {"0x1": 1}})
    read = scrape(workspace)
    assert read("newest_instant_timestamp_seconds", chain="eth", table="holders") == seconds(DAYS[5])
    assert read("newest_rows", chain="eth", table="holders") == 2


def test_failures_are_those_of_the_newest_instant(workspace: Workspace) -> None:
    for day, faults in ((DAYS[0], ["0xa", "0xb"]), (DAYS[1], ["0xa"])):
        failed = failures("eth", day, *(("top_holders", token) for token in faults))
        write(workspace.lake, "holders", "eth", day, {"holders": holders("eth", day, {})}, set(), failed)
    assert scrape(workspace)("newest_failures", chain="eth", family="holders") == 1


def test_a_watched_chain_without_data_has_the_instant_0_and_others_have_none(workspace: Workspace) -> None:
    write_holders(workspace.lake, "solana", DAYS[0], {"native": {"1": 1}})
    read = scrape(workspace)
    assert read("newest_instant_timestamp_seconds", chain="base", table="map_nodes") == 0
    assert read("newest_instant_timestamp_seconds", chain="base", table="subgraph_transfers") is None
    assert read("newest_instant_timestamp_seconds", chain="solana", table="holders") is None


def test_credits_and_calls_are_those_of_the_ledger(workspace: Workspace, tmp_path: Path) -> None:
    with OneCallLedger(tmp_path / "ledger.sqlite") as ledger:
        ledger.settle(ledger.reserve("run", "map", "native", 500), 400, credits_remaining=7_000)
        ledger.reserve("run", "map", "native", 500)
        ledger.release(ledger.reserve("run", "chains", None, 1))
    read = scrape(workspace)
    assert read("credits_left_hundredths") == 7_000
    assert read("credits_spent_hundredths") == 400
    assert read("credits_reserved_hundredths") == 500
    assert read("ceiling_left_hundredths", ceiling="per_month") == 10_000 - 900
    assert read("calls_today", endpoint="map") == 2
    assert read("credits_today_hundredths", endpoint="map") == 900
    assert read("uncharged_calls_today", endpoint="chains") == 1


def test_a_damaged_ledger_leaves_out_only_its_own_metrics(
    workspace: Workspace, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    (tmp_path / "ledger.sqlite").write_text("no database, but more text than a header has bytes" * 3)
    read = scrape(workspace)
    assert (read("up", part="ledger"), read("up", part="lake")) == (0, 1)
    assert read("credits_spent_hundredths") is None
    assert "no metrics of the ledger" in caplog.text


def test_a_slow_part_is_read_again_after_twenty_times_its_duration() -> None:
    now, read = [0.0], []

    def slow() -> Iterator[Metric]:
        read.append(now[0])
        now[0] += 2
        yield from ()

    registry = all_metrics({"slow": slow}, clock=lambda: now[0])
    for seconds_since in (0, 39, 1):
        now[0] += seconds_since
        values = reader(registry)
    assert read == [0, 42]
    assert values("read_seconds", part="slow") == 2


def test_a_textfile_is_replaced_whole(workspace: Workspace, tmp_path: Path) -> None:
    path = tmp_path / "holderlake.prom"
    path.write_text("old")
    write_textfile(all_metrics(HomeMetrics(workspace).parts()), path)
    assert path.read_text().startswith("# HELP holderlake_pipeline_")
    assert not [one for one in tmp_path.iterdir() if one.name.startswith("holderlake.prom.")]


@pytest.mark.integration
def test_runs_are_counted_by_status_with_the_duration_of_the_last(instance: DagsterInstance) -> None:
    good = job_of("good", lambda: None)
    bad = job_of("bad", lambda: 1 / 0)
    for one in (good, good, bad):
        one.execute_in_process(instance=instance, raise_on_error=False)
    instance.create_run_for_job(good)  # a run whose process never started
    read = reader(all_metrics({"runs": lambda: run_metrics(instance)}))
    assert [read("runs", status=status) for status in ("success", "failure", "not_started")] == [2, 1, None]
    assert 0 < (read("last_run_seconds", dagster_job="bad", status="failure") or 0) < 60
    ended = read("last_run_timestamp_seconds", dagster_job="good", status="success")
    assert abs(seconds(utc_now()) - (ended or 0)) < 600


def job_of(name: str, work: Callable[[], Any]) -> Any:
    @op(name=f"{name}_op")
    def step() -> None:
        work()

    @job(name=name)
    def made() -> None:
        step()

    return made


@pytest.mark.long
def test_the_command_serves_metrics_until_it_is_terminated(tmp_path: Path) -> None:
    write_holders(Workspace(Settings(home=tmp_path), lambda: NotImplemented).lake, "eth", DAYS[0], {"0xa": {"0x1": 1}})
    env = os.environ | {"HOLDERLAKE_HOME": str(tmp_path), "HOLDERLAKE_WATCHLIST": '{"eth": ["native"]}'}
    process = start_holderlake("home", "metrics", "--port", "0", env=env, stderr=PIPE)
    assert process.stderr is not None
    address = re.findall(r"http://\S+", process.stderr.readline())[0]
    text = httpx.get(address, timeout=None).text
    process.send_signal(signal.SIGTERM)
    assert process.wait(PATIENCE) == 0
    process.stderr.close()
    assert 'holderlake_pipeline_newest_rows{chain="eth",table="holders"} 1.0' in text
    assert 'holderlake_pipeline_up{part="ledger"} 1.0' in text
