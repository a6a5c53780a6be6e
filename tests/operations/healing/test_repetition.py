"""What scheduled days and runs by hand asked for and did not get is requested again by the sensor, in real runs."""

from __future__ import annotations

from collections.abc import Callable
from datetime import datetime, time, timedelta
from typing import Any

import pytest
from dagster import DagsterInstance

from holderlake.assets.holders import HOLDERS
from holderlake.cli.launch import ingest_day
from holderlake.core.contract.times import utc_now
from holderlake.operations.healing.expected import record_tick
from holderlake.operations.healing.missing import Scope, missing_days
from tests.helpers.filling import MakeWorkspace, fill
from tests.helpers.pipeline import Pipeline

pytestmark = pytest.mark.integration

CHAIN = "solana"
DAY = timedelta(days=1)
TODAY = datetime.combine(
    utc_now() - timedelta(minutes=10), time()
)  # until 00:10 the day before: the tick at 00:05 must be past
YESTERDAY = TODAY - DAY
UNKNOWN = "So11111111111111111111111111111111111111112"


Make = Callable[..., Pipeline]


@pytest.fixture
def pipeline(make_workspace: MakeWorkspace, instance: DagsterInstance) -> Make:
    """Return a function that opens the pipeline of one chain with one token, at a time after now."""
    tokens = make_workspace().settings.watchlist[CHAIN]

    def opened(later: timedelta = timedelta(0), count: int = 1, **options: Any) -> Pipeline:
        options = {"maps": {"use_time_nodes": False}} | options
        workspace = make_workspace(watchlist={CHAIN: tokens[:count]}, **options)
        workspace.now = lambda: utc_now() + later
        return Pipeline(workspace, instance)

    return opened


def _expect(pipeline: Pipeline, *days: datetime) -> None:
    for day in days:
        record_tick(pipeline.workspace, day - timedelta(minutes=5), day + timedelta(minutes=5))


def _booked(service: Any) -> int:
    """Return the hundredths of a credit that the service has charged by its own books."""
    return sum(row.credits for row in service.keys.usage())


def _key(day: datetime) -> str:
    return f"{CHAIN}|{day:%Y-%m-%d}"


def _covered(pipeline: Pipeline, day: datetime) -> set[str]:
    return {one.family for one in pipeline.workspace.lake.manifests(chain=CHAIN, as_of=day) if one.covered}


def test_a_scheduled_day_that_failed_is_fetched_later(pipeline: Make) -> None:
    down = pipeline(secret="hl_00000000_wrong")
    assert down.schedule(TODAY + timedelta(minutes=5)) == [(_key(TODAY), False)]
    assert down.sensor("healing") == ["1 day waits for another attempt, 0 given up"]
    later = pipeline(timedelta(minutes=16))
    assert later.sensor("healing") == [(_key(TODAY), True)]
    assert _covered(later, TODAY) >= {"chains", "tokens", "holders", "maps"}
    spent = later.workspace.ledger.totals().spent
    assert later.sensor("healing") == ["0 days wait for another attempt, 0 given up"]
    assert later.workspace.ledger.totals().spent == spent > 0


@pytest.mark.parametrize("minutes", [1, pytest.param(5, marks=pytest.mark.long)])
def test_a_day_is_repaired_under_a_frequent_schedule(pipeline: Make, sample_service: Any, minutes: int) -> None:
    cron = f"*/{minutes} * * * *"
    down = pipeline(secret="hl_00000000_wrong", schedule={"cron": cron})
    _expect(down, YESTERDAY)
    assert down.sensor("healing") == [(_key(YESTERDAY), False)]
    assert down.shown("holders") == {"materialised": set(), "failed": {_key(YESTERDAY)}}
    up, booked_before = pipeline(schedule={"cron": cron}), _booked(sample_service)
    start = utc_now().replace(second=0, microsecond=0) + timedelta(hours=1)
    start -= timedelta(minutes=start.minute % minutes)
    repaired = []
    for minute in range(0, 30, minutes):
        up.workspace.now = lambda now=start + timedelta(minutes=minute, seconds=20): now  # type: ignore[misc]
        up.schedule(start + timedelta(minutes=minute))
        if minute % 5 == 0:
            repaired += [found for found in up.sensor("healing") if not isinstance(found, str)]
    assert repaired == [(f"{_key(YESTERDAY)},{TODAY:%Y-%m-%d}", True)]
    assert {_key(YESTERDAY), _key(TODAY)} == up.shown("holders")["materialised"]
    assert up.workspace.ledger.totals().spent == _booked(sample_service) - booked_before > 0


def test_a_day_waits_while_the_schedule_launches_its_run(pipeline: Make) -> None:
    late = pipeline()
    _expect(late, YESTERDAY, TODAY)
    late.workspace.now = lambda: TODAY + timedelta(minutes=6)
    assert late.sensor("healing") == [(_key(YESTERDAY), True)]


@pytest.mark.long
def test_a_day_whose_tick_was_missed_is_fetched(pipeline: Make) -> None:
    late = pipeline()
    _expect(late, YESTERDAY - DAY)
    late.schedule(TODAY + timedelta(minutes=5))
    assert late.sensor("healing") == [(f"{CHAIN}|{YESTERDAY - DAY:%Y-%m-%d},{YESTERDAY:%Y-%m-%d}", True)]
    assert _covered(late, YESTERDAY) == _covered(late, TODAY) != set()


def test_nothing_is_fetched_before_the_first_tick(pipeline: Make) -> None:
    assert pipeline().sensor("healing") == ["0 days wait for another attempt, 0 given up"]


@pytest.mark.long
def test_a_new_token_is_not_fetched_for_days_that_were_complete(pipeline: Make) -> None:
    before = pipeline()
    _expect(before, YESTERDAY)
    assert before.sensor("healing") == [(_key(YESTERDAY), True)]
    assert pipeline(count=2).sensor("healing") == ["0 days wait for another attempt, 0 given up"]


def test_the_rest_of_an_interrupted_day_is_missing(make_workspace: MakeWorkspace) -> None:
    tokens = make_workspace().settings.watchlist[CHAIN]
    workspace = make_workspace(watchlist={CHAIN: tokens[:2]})
    fill(workspace, HOLDERS, CHAIN, YESTERDAY, only=tokens[:1])

    def families(is_stopped: bool) -> list[str]:
        asked = {Scope(CHAIN, is_stopped=is_stopped): [YESTERDAY]}
        return [name for one in missing_days(workspace, asked) for name in one.families]

    assert "holders" in families(True)
    assert "maps" in families(False)
    assert "holders" not in families(False)


@pytest.mark.long
def test_a_day_that_was_deleted_is_fetched_again(pipeline: Make) -> None:
    daily = pipeline()
    _expect(daily, YESTERDAY)
    assert daily.sensor("healing") == [(_key(YESTERDAY), True)]
    assert daily.sensor("healing") == ["0 days wait for another attempt, 0 given up"]
    for manifest in [*daily.workspace.lake.manifest_paths()]:
        manifest.unlink()
    daily.workspace.now = lambda: utc_now() + timedelta(minutes=61)  # after the wait that follows a repetition
    assert daily.sensor("healing") == [(_key(YESTERDAY), True)]
    assert "holders" in _covered(daily, YESTERDAY)


@pytest.mark.long
def test_a_run_limited_to_some_tokens_does_not_complete_a_day(pipeline: Make) -> None:
    late = pipeline(timedelta(minutes=16), count=2)
    _expect(late, YESTERDAY)
    workspace = late.workspace
    ingest_day(workspace, late.instance, CHAIN, [YESTERDAY], tokens=workspace.settings.watchlist[CHAIN][:1])
    assert late.sensor("healing") == [(_key(YESTERDAY), True)]
    manifest = workspace.lake.manifest("holders", CHAIN, YESTERDAY)
    assert manifest is not None
    assert manifest.covered == set(workspace.settings.watchlist[CHAIN])


@pytest.mark.long
def test_a_token_that_the_provider_does_not_know_is_not_repeated(
    make_workspace: MakeWorkspace, instance: DagsterInstance
) -> None:
    pipeline = Pipeline(make_workspace(watchlist={CHAIN: [UNKNOWN]}), instance)
    _expect(pipeline, YESTERDAY)
    assert pipeline.sensor("healing") == [(_key(YESTERDAY), False)]  # no token of the day has an answer
    assert {row["code"] for row in pipeline.workspace.lake.read("failures").to_pylist()} >= {"unknown_token"}
    assert pipeline.sensor("healing") == ["0 days wait for another attempt, 0 given up"]


@pytest.mark.long
def test_a_given_up_day_is_reported_once_with_its_name(
    make_workspace: MakeWorkspace, instance: DagsterInstance, caplog: pytest.LogCaptureFixture
) -> None:
    pipeline = Pipeline(make_workspace(watchlist={"unknown": ["token"]}, healing={"attempts": 1}), instance)
    _expect(pipeline, YESTERDAY)
    assert pipeline.sensor("healing") == [(f"unknown|{YESTERDAY:%Y-%m-%d}", False)]
    for _ in range(2):
        assert pipeline.sensor("healing") == ["0 days wait for another attempt, 1 given up"]
        pipeline.notify()
    (record,) = [one for one in caplog.records if one.name == "holderlake.operations.alerts"]
    assert f"unknown {YESTERDAY:%Y-%m-%d} lacks tokens, holders, maps" in record.getMessage()
