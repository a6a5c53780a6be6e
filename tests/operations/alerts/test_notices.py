"""Notices about failed runs, used-up credits and refused keys go to the log and the webhook, each once."""

from __future__ import annotations

from collections.abc import Iterator
from datetime import UTC, datetime, timedelta

import pytest
from dagster import (
    AssetCheckSeverity,
    DagsterInstance,
    DagsterRunStatus,
    GraphDefinition,
    build_sensor_context,
    job,
    op,
)

from holderlake.assets.checks import REQUESTS
from holderlake.core.contract.times import utc_now
from holderlake.core.dagster.failures import NOT_DELIVERED
from holderlake.core.dagster.tags import ERROR_TAG
from holderlake.core.workspace import Workspace
from holderlake.operations.healing.expected import record_tick
from holderlake.pipelines.definitions import build_defs
from tests.helpers.filling import MakeWorkspace
from tests.helpers.receiver import Receiver

pytestmark = pytest.mark.integration


@pytest.fixture
def receiver() -> Iterator[Receiver]:
    with Receiver() as running:
        yield running


@pytest.fixture
def workspace(make_workspace: MakeWorkspace, receiver: Receiver) -> Workspace:
    found: Workspace = make_workspace(alerts={"webhook": receiver.url, "timeout_seconds": 30})
    return found


@op
def fail() -> None:
    raise ValueError("a text of the provider")


@job(name="ingest")
def failing() -> None:
    fail()


@job(name="another")
def foreign() -> None:
    fail()


@job(name="alerts")
def undelivered() -> None:
    fail()


def _fail(instance: DagsterInstance, error: str, which: object = failing, **tags: str) -> str:
    ended = which.execute_in_process(  # type: ignore[attr-defined]
        instance=instance, raise_on_error=False, tags={ERROR_TAG: error, **tags}
    )
    assert instance.get_run_by_id(ended.run_id).status == DagsterRunStatus.FAILURE  # type: ignore[union-attr]
    return str(ended.run_id)


def _tick(workspace: Workspace, instance: DagsterInstance) -> str:
    """Tick the sensor, as if its last tick was a minute ago."""
    sensor = build_defs(workspace).resolve_sensor_def("notices")
    cursor = (utc_now() - timedelta(minutes=1)).replace(tzinfo=UTC).isoformat()
    with build_sensor_context(instance=instance, cursor=cursor, resources={"workspace": workspace}) as context:
        return str(sensor.evaluate_tick(context).skip_message)


def _types(receiver: Receiver) -> list[str]:
    return [post.content["type"].removeprefix("holderlake.alert.") for post in receiver.posts]


@pytest.mark.long
def test_a_failed_run_is_reported_once_by_log_and_webhook(
    workspace: Workspace, receiver: Receiver, instance: DagsterInstance, caplog: pytest.LogCaptureFixture
) -> None:
    run = _fail(instance, "malformed_answer")
    assert _tick(workspace, instance) == "1 new alert; sent 1 by log, 1 by webhook"
    assert _tick(workspace, instance) == "0 new alerts; sent nothing"
    (post,) = receiver.posts
    assert post.content["text"] == f"run_failed: the run {run} of ingest failed (malformed_answer)"
    assert post.content["data"]["evidence"]["run_id"] == run
    (record,) = [one for one in caplog.records if one.name == "holderlake.operations.alerts"]
    assert "a text of the provider" not in record.getMessage() + str(post.content)


@pytest.mark.long
def test_a_failed_run_of_each_job_is_reported(
    workspace: Workspace, receiver: Receiver, instance: DagsterInstance
) -> None:
    names = {declared.name for declared in build_defs(workspace).jobs or []}
    for name in names:
        _fail(instance, "malformed_answer", GraphDefinition(name=name, node_defs=[fail]).to_job())
    _tick(workspace, instance)
    assert {post.content["data"]["evidence"]["job"] for post in receiver.posts} == names


@pytest.mark.long
def test_repeated_foreign_and_undelivered_runs_are_not_reported(
    workspace: Workspace, receiver: Receiver, instance: DagsterInstance
) -> None:
    _fail(instance, "unreachable", **{"holderlake/repetition": "100"})
    _fail(instance, "unreachable", **{"holderlake/process": "host:/another/home/runs/1.lock"})
    _fail(instance, "unreachable", foreign)
    _fail(instance, NOT_DELIVERED, undelivered)  # its notice could not be delivered either
    assert _tick(workspace, instance) == "nothing failed"
    assert receiver.posts == []


@pytest.mark.long
@pytest.mark.parametrize(("error", "kind"), [("invalid_key", "key_refused"), ("credits_exhausted", "credits_used_up")])
def test_what_concerns_all_runs_is_reported_once_a_day(
    workspace: Workspace, receiver: Receiver, instance: DagsterInstance, error: str, kind: str
) -> None:
    for _ in range(3):
        _fail(instance, error)
        _tick(workspace, instance)
    assert _types(receiver) == [kind]


def test_a_notice_that_the_webhook_refused_is_sent_later(
    workspace: Workspace, receiver: Receiver, instance: DagsterInstance
) -> None:
    _fail(instance, "malformed_answer")
    receiver.statuses = [503]
    assert "not delivered" in _tick(workspace, instance)
    assert _tick(workspace, instance) == "0 new alerts; sent nothing"
    assert len(receiver.posts) == 1


def test_failures_before_the_first_tick_are_not_reported(workspace: Workspace, instance: DagsterInstance) -> None:
    _fail(instance, "malformed_answer")
    sensor = build_defs(workspace).resolve_sensor_def("notices")
    with build_sensor_context(instance=instance, resources={"workspace": workspace}) as context:
        result = sensor.evaluate_tick(context)
    assert result.skip_message == "nothing failed"
    assert result.cursor is not None


def test_failed_requests_are_red_at_once_and_reported(
    make_workspace: MakeWorkspace, receiver: Receiver, instance: DagsterInstance
) -> None:
    known, unknown = make_workspace().settings.watchlist["solana"][0], "So11111111111111111111111111111111111111112"
    workspace = make_workspace(watchlist={"solana": [known, unknown]}, alerts={"webhook": receiver.url})
    instance.add_dynamic_partitions("chain", ["solana"])
    tick = datetime(2026, 6, 1)
    record_tick(workspace, tick - timedelta(days=1), tick)
    job = build_defs(workspace).resolve_job_def("ingest")
    ended = job.execute_in_process(instance=instance, partition_key="solana|2026-06-01")
    failed = {
        (check.check_name, check.asset_key.to_user_string(), check.severity)
        for check in ended.get_asset_check_evaluations()
        if not check.passed
    }
    assert {one for one in failed if one[0] == REQUESTS} >= {(REQUESTS, "tokens", AssetCheckSeverity.ERROR)}
    _tick(workspace, instance)
    (text,) = [post.content["text"] for post in receiver.posts]
    assert text.startswith(
        f"requests_failed: requests of the run {ended.run_id} of ingest for solana 2026-06-01 failed: "
    )
    assert " 1 of tokens" in text
    assert {name for name, _, _ in failed if name == "is_complete"} == set()  # the token is unknown: nothing to repeat
