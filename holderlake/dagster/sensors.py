"""The sensors: new chains of the provider, paused backfills that can resume, alerts, and the warehouse's automation.

A sensor looks and launches; the job that it launches does the work. Two do a part that a run could not do as well:

- While credits are exhausted, a tick of a schedule or sensor asks the provider for its chains
  (``backfill.paused.credits_again``), because a run that finds no credits is one more failed run. The call costs at
  most 0.01 credit, and nothing while there are none.
- ``dead_runs`` marks runs without a process as failed, and ``notices`` sends notices about runs that failed.
"""

import hashlib
import json
from collections.abc import Collection, Iterator, Sequence
from datetime import timedelta
from typing import Any, Final

from dagster import (
    AssetSelection,
    AutomationConditionSensorDefinition,
    DefaultSensorStatus,
    ResourceParam,
    RunRequest,
    SensorDefinition,
    SensorEvaluationContext,
    SensorResult,
    SkipReason,
    sensor,
)

from holderlake.core.contract.requests import ChainsRequest
from holderlake.core.contract.times import parse_when, utc_now
from holderlake.core.ingest.stream import partition_of
from holderlake.core.ingest.streams.chains import CHAINS, chain_ids
from holderlake.core.settings import Settings
from holderlake.core.units import counted
from holderlake.core.workspace import Workspace
from holderlake.dagster.backfill import BACKFILL
from holderlake.dagster.dead_runs import dead_runs_sensor
from holderlake.dagster.followers import followers_sensor
from holderlake.dagster.healing import healing_sensors
from holderlake.dagster.jobs import ALERTS
from holderlake.dagster.notices import notices_sensor
from holderlake.dagster.partitions import CHAIN, CHAIN_BY_DAY
from holderlake.dagster.processes import ASSET_JOB
from holderlake.dagster.versions import watch
from holderlake.operations.alerts.destinations import destinations_of
from holderlake.operations.backfill.paused import PausedBackfill, paused_backfills

_EVALUATE_EVERY: Final = timedelta(minutes=15)
"""Interval of evaluating the alert rules by time, because no load reports late data."""


def all_sensors(settings: Settings, jobs: Collection[str]) -> list[SensorDefinition]:
    """Return all sensors. The sensors for paused backfills and alerts run only if the settings enable them.

    ``jobs`` are the names of all jobs. ``dead_runs`` and ``notices`` watch their runs, and those without a job's name.
    """
    watched_jobs = {*jobs, ASSET_JOB}
    automation = AutomationConditionSensorDefinition(
        "warehouse_automation",
        target=AssetSelection.assets("warehouse"),
        minimum_interval_seconds=60,
        description="Loads the warehouse after tables of the last two days were fetched without it.",
    )
    return [
        _watchlist_sensor(),
        _chain_sensor(),
        paused_sensor(settings),
        _alerts_sensor(settings),
        automation,
        *([followers_sensor(settings)] if settings.node_chains else []),
        *healing_sensors(settings),
        dead_runs_sensor(watched_jobs),
        notices_sensor(watched_jobs),
    ]


def _watchlist_sensor() -> SensorDefinition:
    @sensor(
        name="watchlist",
        minimum_interval_seconds=60,
        default_status=DefaultSensorStatus.RUNNING,
        description="Adds a partition for each newly watched chain, and shows where tokens changed. It sends no call.",
    )
    def observe(context: SensorEvaluationContext, workspace: ResourceParam[Workspace]) -> SkipReason:
        watchlist = workspace.settings.watchlist
        changed = watch(context.instance, watchlist, watchlist)
        return SkipReason(f"changed: {', '.join(changed)}" if changed else "the watchlist has not changed")

    return observe


def _chain_sensor() -> SensorDefinition:
    @sensor(
        name="new_chains",
        minimum_interval_seconds=3_600,
        default_status=DefaultSensorStatus.STOPPED,
        description="Adds a partition for each newly watched chain, and names the provider's chains that you do not "
        "watch, from today's answer of the asset chains. It sends no call.",
    )
    def new_chains(context: SensorEvaluationContext, workspace: ResourceParam[Workspace]) -> SensorResult | SkipReason:
        watched = workspace.settings.watchlist
        chains_of_dagster = set(context.instance.get_dynamic_partitions(CHAIN))
        if new_chain_names := sorted(watched.keys() - chains_of_dagster):
            by_chain: Any = CHAIN_BY_DAY.get_partitions_def_for_dimension(CHAIN)
            return SensorResult(dynamic_partitions_requests=[by_chain.build_add_request(new_chain_names)])
        chains = _chains_of_provider(workspace)
        if chains is None:
            return SkipReason("no run has fetched the provider's chains today")
        if unwatched := [chain for chain in chains if chain not in watched]:
            return SkipReason(
                f"not watched: {', '.join(unwatched)}; name tokens of a chain in the watchlist to watch it"
            )
        return SkipReason(f"every chain of the provider is watched ({len(chains)})")

    return new_chains


def _chains_of_provider(workspace: Workspace) -> list[str] | None:
    """Return the chains in the archived answer of today; None if no run has fetched it yet."""
    known_today = CHAINS.archive_as_of(partition_of(workspace, "", workspace.now()))
    answer = workspace.archive.get(workspace.archive.key(workspace.provider_id, ChainsRequest(), known_today))
    return None if answer is None else chain_ids(answer.raw, answer.fetched_at)


def paused_sensor(settings: Settings) -> SensorDefinition:
    """Return the sensor that resumes paused backfills. It runs only if the settings enable it."""
    is_chosen = settings.schedule.resume_paused

    @sensor(
        name="paused_backfills",
        job_name=BACKFILL,
        minimum_interval_seconds=600,
        default_status=DefaultSensorStatus.RUNNING if is_chosen else DefaultSensorStatus.STOPPED,
        description="Resumes backfills that ran out of credits, from the day on which there are credits again.",
    )
    def resume(workspace: ResourceParam[Workspace]) -> Iterator[RunRequest | SkipReason]:
        paused = paused_backfills(workspace)
        due = [backfill for backfill in paused if backfill.is_due(workspace) or backfill.has_credits_again(workspace)]
        for backfill in due:
            yield RunRequest(
                run_key=_key_of_attempt(backfill, workspace.settings),
                run_config={"ops": {"fill_history": {"config": _options_of(backfill)}}},
            )
        if not due:
            yield SkipReason(_reason_to_wait(paused))

    return resume


def _key_of_attempt(paused: PausedBackfill, settings: Settings) -> str:
    """Return a run key that changes each day, and with the backfill's resume date or the section ``[budget]``.

    So a paused backfill is tried once a day, and again when a new date or new ceilings allow it.
    """
    budget = hashlib.sha256(settings.budget.model_dump_json().encode()).hexdigest()[:8]
    return f"{paused.of.id} {paused.resume_on} {utc_now():%Y-%m-%d} {budget}"


def _options_of(paused: PausedBackfill) -> dict[str, object]:
    since = paused.of.refresh_since
    lists = {name: list(getattr(paused.of, name)) for name in ("instants", "chains", "tokens", "tables")}
    return {"refresh": bool(since), "refresh_since": since, **lists}


def _reason_to_wait(paused: Sequence[PausedBackfill]) -> str:
    if not paused:
        return "no backfill is paused"
    return f"{counted(len(paused), 'backfill')} paused; the first resumes on {paused[0].resume_on}"


def _alerts_sensor(settings: Settings) -> SensorDefinition:
    """Return the sensor that launches the alerts job. It runs only if the settings have rules or a destination."""
    is_chosen = settings.alerts.is_chosen or len(destinations_of(settings)) > 1  # the log is always one

    @sensor(
        name="alerts",
        job_name=ALERTS,
        minimum_interval_seconds=60,
        default_status=DefaultSensorStatus.RUNNING if is_chosen else DefaultSensorStatus.STOPPED,
        description="Launches the alerts job after each load of the warehouse and every 15 minutes.",
    )
    def alerts(context: SensorEvaluationContext, workspace: ResourceParam[Workspace]) -> RunRequest | SkipReason:
        now, version = utc_now(), workspace.warehouse.version
        if version is None:
            return SkipReason("there is no warehouse yet")
        last_evaluation = json.loads(context.cursor or "{}")
        if last_evaluation.get("loaded") == version and now - parse_when(last_evaluation["at"]) < _EVALUATE_EVERY:
            return SkipReason("no new data")
        context.update_cursor(json.dumps({"loaded": version, "at": now.isoformat()}))
        return RunRequest(run_key=f"{version} {now:%Y-%m-%dT%H:%M}")

    return alerts
