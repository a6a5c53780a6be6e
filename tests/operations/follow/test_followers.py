"""Dagster keeps a run for each chain that the settings follow, shows its state, and starts it again."""

from __future__ import annotations

from datetime import datetime, timedelta
from functools import partial
from pathlib import Path

import pytest
from dagster import (
    AssetKey,
    AssetRecordsFilter,
    DagsterInstance,
    DagsterRunStatus,
    RunRequest,
    build_sensor_context,
)

from holderlake.core.contract.times import utc_now
from holderlake.core.settings import Settings
from holderlake.core.workspace import Endpoint, Workspace
from holderlake.engine.settings import store_folder
from holderlake.operations.follow.followers import followers
from holderlake.pipelines.definitions import build_defs
from tests.helpers.chain.anvil import Anvil, call

pytestmark = pytest.mark.integration

HOLDER = f"0x{5:040x}"


def in_future(wait: timedelta) -> datetime:
    return utc_now() + wait


@pytest.fixture
def followed(anvil: Anvil, tmp_path: Path) -> Workspace:
    """A home whose settings follow a chain with one transfer."""
    coin = anvil.deploy("Coin")
    anvil.mine([call("Coin", coin, "mint", HOLDER, 9)])
    return workspace_of(tmp_path, anvil.url, coin)


def workspace_of(home: Path, url: str, *tokens: str) -> Workspace:
    nodes = {"test": {"endpoints": [url], "tokens": tokens, "follow": True}}
    settings = Settings(home=home, sources={"rpc": nodes})
    return Workspace(settings, lambda: Endpoint("http://127.0.0.1:1", None, "tests"))


def tick(workspace: Workspace, instance: DagsterInstance) -> RunRequest | str:
    sensor = build_defs(workspace).resolve_sensor_def("followers")
    with build_sensor_context(instance=instance, resources={"workspace": workspace}) as context:
        data = sensor.evaluate_tick(context)
    return data.run_requests[0] if data.run_requests else str(data.skip_message)


def run(workspace: Workspace, instance: DagsterInstance, request: RunRequest) -> bool:
    """Carry out the run of a request, for three seconds."""
    config = {"ops": {"follow_head": {"config": {"chain": "test", "hours": 3 / 3_600}}}}
    job = build_defs(workspace).resolve_job_def("follow")
    return job.execute_in_process(config, instance=instance, tags=dict(request.tags), raise_on_error=False).success


@pytest.mark.long
def test_a_run_follows_the_chain_and_shows_its_state(followed: Workspace, instance: DagsterInstance) -> None:
    request = tick(followed, instance)
    assert isinstance(request, RunRequest)
    assert run(followed, instance, request)
    (state,) = followers(store_folder(followed.settings))
    assert (state.rows, state.is_running, state.error) == (1, False, "")
    (event,) = instance.fetch_observations(AssetRecordsFilter(AssetKey("transfers")), limit=9).records
    assert event.asset_observation is not None
    assert event.asset_observation.metadata["block"].value == state.block


@pytest.mark.long
def test_a_run_that_ended_is_started_again(followed: Workspace, instance: DagsterInstance) -> None:
    for _ in range(2):
        request = tick(followed, instance)
        assert isinstance(request, RunRequest)
        assert run(followed, instance, request)


def test_a_run_in_progress_is_not_started_twice(followed: Workspace, instance: DagsterInstance) -> None:
    request = tick(followed, instance)
    assert isinstance(request, RunRequest)
    job = build_defs(followed).resolve_job_def("follow")
    instance.create_run_for_job(job, run_config=request.run_config, tags=request.tags, status=DagsterRunStatus.STARTED)
    assert isinstance(tick(followed, instance), str)


@pytest.mark.long
def test_failing_runs_are_started_after_longer_and_longer_waits(tmp_path: Path, instance: DagsterInstance) -> None:
    workspace = workspace_of(tmp_path, "http://127.0.0.1:9")  # no token is chosen
    for _ in range(2):
        workspace.now = partial(in_future, timedelta(hours=2))
        request = tick(workspace, instance)
        assert isinstance(request, RunRequest)
        assert not run(workspace, instance, request)
    for wait, starts in ((timedelta(minutes=1), False), (timedelta(minutes=3), True)):
        workspace.now = partial(in_future, wait)
        assert isinstance(tick(workspace, instance), RunRequest) is starts


def test_homes_without_nodes_have_no_follower(tmp_path: Path) -> None:
    workspace = Workspace(Settings(home=tmp_path), lambda: Endpoint("http://127.0.0.1:1", None, "tests"))
    assert "followers" not in {sensor.name for sensor in build_defs(workspace).sensors or ()}
