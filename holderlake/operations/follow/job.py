"""The job ``follow`` and its sensor: runs that keep the store at the head of a chain, and start again when they end."""

import math
import time
from collections.abc import Iterator
from datetime import datetime, timedelta
from itertools import takewhile
from typing import Any, Final

from dagster import (
    AssetObservation,
    Config,
    DagsterRunStatus,
    DefaultSensorStatus,
    JobDefinition,
    OpExecutionContext,
    ResourceParam,
    RunRequest,
    RunsFilter,
    SensorDefinition,
    SensorEvaluationContext,
    SkipReason,
    in_process_executor,
    job,
    op,
    sensor,
)
from pydantic import Field

from holderlake.core.contract.times import from_unix
from holderlake.core.dagster.failures import step_errors
from holderlake.core.dagster.metadata import asset_key
from holderlake.core.dagster.partitions import CHAIN, partition_key
from holderlake.core.settings import Settings
from holderlake.core.workspace import Workspace
from holderlake.engine.settings import store_folder
from holderlake.operations.follow.followers import Follower, followers
from holderlake.sources.settings import SourceSettings

FOLLOW: Final = "follow"
_CHAIN_TAG: Final = "holderlake/follows"
_OBSERVE_SECONDS: Final = 300.0
_FIRST_WAIT: Final = timedelta(seconds=30)
_LONGEST_WAIT: Final = timedelta(hours=1)
_RUNS: Final = 8
"""Newest runs of a chain from which the wait after failures follows."""


class FollowConfig(Config):
    """Options of one run of the job ``follow``."""

    chain: str = Field(description="The chain, one with nodes in the settings sources.rpc.")
    hours: float = Field(default=6.0, gt=0, description="The run ends after this time; the sensor starts the next one.")


@op(description="Keeps the store at the head of a chain: each block at once, reorganisations and alerts included.")
def follow_head(context: OpExecutionContext, config: FollowConfig, workspace: ResourceParam[Workspace]) -> None:
    """Follow a chain, and log its state as an observation of the asset ``transfers`` every five minutes."""
    from holderlake.operations.follow.follow import Callbacks, follow
    from holderlake.sources.nodes.connection import ImportOptions

    context.instance.add_dynamic_partitions(CHAIN, [config.chain])
    observed = -math.inf

    def observe(state: Follower) -> None:
        nonlocal observed
        if state.block_time is not None and time.monotonic() - observed > _OBSERVE_SECONDS:
            observed = time.monotonic()
            day = partition_key(config.chain, from_unix(state.block_time))
            context.log_event(AssetObservation(asset_key("transfers"), partition=day, metadata=_metadata(state)))

    def on_failure(error: Exception, pause: float | None) -> None:
        context.log.warning(f"{error}; {'alerts failed' if pause is None else f'trying again in {pause:.0f} s'}")

    calls = Callbacks(on_state=observe, on_failure=on_failure)
    with step_errors(context):
        follow(workspace, [], ImportOptions(config.chain), calls, 3_600 * config.hours)


def _metadata(state: Follower) -> dict[str, Any]:
    behind = None if state.looked_at is None or state.block_time is None else state.looked_at - state.block_time
    return {
        "block": state.block,
        "seconds behind": behind,
        "rows": state.rows,
        "reorganisations": state.reorgs,
        "undone rows": state.undone,
        "alerts": state.alerts,
        "error": state.error,
    }


def follow_job() -> JobDefinition:
    """Return the job that follows one chain."""

    @job(name=FOLLOW, executor_def=in_process_executor, description="Keeps the store at the head of a chain.")
    def follows() -> None:
        follow_head()

    return follows


def followers_sensor(settings: Settings) -> SensorDefinition:
    """Return the sensor that starts a run for each chain with ``follow`` in the settings, unless it is followed."""
    chains = settings.section(SourceSettings).followed_chains

    @sensor(
        name="followers",
        job_name=FOLLOW,
        minimum_interval_seconds=30,
        default_status=DefaultSensorStatus.RUNNING if chains else DefaultSensorStatus.STOPPED,
        description="Keeps a run of the job follow for each chain with follow = true, and shows where each one is.",
    )
    def followers_of_chains(
        context: SensorEvaluationContext, workspace: ResourceParam[Workspace]
    ) -> Iterator[RunRequest | SkipReason]:
        states = {state.chain: state for state in followers(store_folder(workspace.settings))}
        stopped = [chain for chain in chains if chain not in states or not states[chain].is_running]
        due = [chain for chain in stopped if _is_due(context, chain, workspace.now())]
        for chain in due:
            yield RunRequest(
                run_key=f"follow {chain} {workspace.now().isoformat(timespec='seconds')}",
                run_config={"ops": {follow_head.name: {"config": {"chain": chain}}}},
                tags={_CHAIN_TAG: chain},
            )
        if not due:
            waiting = [f"{chain}: its run is starting, or waits after a failure" for chain in stopped]
            descriptions = [str(states[chain]) for chain in chains if chain not in stopped] + waiting
            yield SkipReason("; ".join(descriptions) or "no chain of the settings has follow = true")

    return followers_of_chains


def _is_due(context: SensorEvaluationContext, chain: str, now: datetime) -> bool:
    """Return whether a chain without follower needs a run now. After failures the wait doubles, up to an hour."""
    runs = RunsFilter(job_name=FOLLOW, tags={_CHAIN_TAG: chain})
    records = context.instance.get_run_records(runs, limit=_RUNS)
    if any(not record.dagster_run.is_finished for record in records):
        return False
    failures = list(takewhile(lambda record: record.dagster_run.status is DagsterRunStatus.FAILURE, records))
    if not failures or failures[0].end_time is None:
        return True
    wait = min(_LONGEST_WAIT, _FIRST_WAIT * 2 ** len(failures))
    return bool(now >= from_unix(failures[0].end_time) + wait)
