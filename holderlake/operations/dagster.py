"""What operations add to a Dagster application: backfills, healing, alerts, notices, retention.

A sensor looks and launches; the job that it launches does the work. Two do a part that a run could not do as well:
``dead_runs`` marks runs without a process as failed, and ``notices`` sends notices about runs that failed.
"""

import json
import os
from collections.abc import Iterator
from datetime import datetime, timedelta
from pathlib import Path
from typing import Final

from dagster import (
    DefaultSensorStatus,
    Definitions,
    Failure,
    OpExecutionContext,
    ResourceParam,
    RunRequest,
    ScheduleDefinition,
    ScheduleEvaluationContext,
    SensorDefinition,
    SensorEvaluationContext,
    SkipReason,
    in_process_executor,
    job,
    op,
    sensor,
)

from holderlake.core.contract.times import utc_now
from holderlake.core.dagster.failures import NOT_DELIVERED, step_errors
from holderlake.core.dagster.partitions import CHAIN, partition_key
from holderlake.core.dagster.processes import ASSET_JOB
from holderlake.core.dagster.tags import ERROR_TAG
from holderlake.core.settings import Settings
from holderlake.core.workspace import Workspace
from holderlake.operations.alerts.checks import alert_checks
from holderlake.operations.alerts.delivery import deliver_alerts
from holderlake.operations.alerts.destinations import destinations_of
from holderlake.operations.alerts.settings import AlertSettings
from holderlake.operations.backfill.job import backfill_job, plan_job
from holderlake.operations.follow.job import FOLLOW, follow_job, followers_sensor
from holderlake.operations.healing.dead_runs import dead_runs_sensor
from holderlake.operations.healing.expected import record_transfers_tick
from holderlake.operations.healing.notices import notices_sensor
from holderlake.operations.healing.sensors import healing_sensors
from holderlake.operations.history.history import expired_runs
from holderlake.operations.maintenance.retention import delete_expired, expired
from holderlake.pipelines.application import Application
from holderlake.pipelines.schedules import at_cron, ticks_of
from holderlake.sources.nodes.asset import TRANSFERS
from holderlake.sources.settings import SourceSettings

ALERTS: Final = "alerts"
RETENTION: Final = "retention"
_EVALUATE_EVERY: Final = timedelta(minutes=15)
"""Interval of evaluating the alert rules by time, because no load reports late data."""


def definitions(application: Application) -> Definitions:
    """Return checks and sensors for any application; jobs and schedules too for this one.

    A component gets the checks of its alert rules, and the sensors about its own runs.
    """
    settings, of_component = application.settings, application.name is not None
    tables = [*application.tables, "warehouse"] if of_component else None
    checks = alert_checks(settings, tables=tables, **application.of_assets)
    jobs = [] if of_component else [backfill_job, plan_job, alerts_job, retention_job]
    # a component's watch has not Dagster's job without a name: it also has runs of the project's other assets
    nodes = [TRANSFERS, FOLLOW] if settings.section(SourceSettings).node_chains else []
    watched = (
        [*application.jobs] if of_component else [*application.jobs, *(job.name for job in jobs), *nodes, ASSET_JOB]
    )
    sensors = [
        dead_runs_sensor(watched, name=application.named("dead_runs"), resource=application.resource),
        notices_sensor(watched, name=application.named("notices"), resource=application.resource),
    ]
    if of_component:
        return Definitions(asset_checks=checks, sensors=sensors)
    retention = ScheduleDefinition(
        name=RETENTION,
        job_name=RETENTION,
        cron_schedule=settings.retention.cron,
        execution_timezone="UTC",
        description="Deletes runs, failures and answers that are older than the ages of the section [retention].",
    )
    return Definitions(
        asset_checks=checks,
        jobs=[*jobs, *([follow_job()] if nodes else [])],
        schedules=[retention, *([_transfers_schedule(settings)] if nodes else [])],
        sensors=[
            *sensors,
            *healing_sensors(settings),
            *([followers_sensor(settings)] if nodes else []),
            _alerts_sensor(settings),
        ],
    )


@op(description="Evaluates the alert rules, and sends each new alert once.")
def send_alerts(context: OpExecutionContext, workspace: ResourceParam[Workspace]) -> None:
    """Evaluate and send alerts. Fails if some could not be sent; the sensor ``notices`` tries to send them again.

    While another process sends alerts, it does nothing: the sensor ``alerts`` launches the next run in time.
    """
    with step_errors(context):
        report = deliver_alerts(workspace)
    context.log.info(str(report))
    if report.errors:
        context.instance.add_run_tags(context.run_id, {ERROR_TAG: NOT_DELIVERED})
        raise Failure(str(report), allow_retries=False)


@job(name=ALERTS, executor_def=in_process_executor, description="Evaluates the alert rules and sends new alerts.")
def alerts_job() -> None:
    """Run ``send_alerts`` alone."""
    send_alerts()


@op(description="Deletes data that are older than the ages of the section [retention], and unused files of a bucket.")
def delete_old_data(context: OpExecutionContext, workspace: ResourceParam[Workspace]) -> None:
    """Delete old data, and log the numbers of deleted data, and of those that are kept for a rebuild."""
    retention, folder = workspace.settings.retention, workspace.settings.dagster_home
    origin = context.run.remote_job_origin  # None for a run that no daemon launched
    is_ours = Path(os.environ.get("DAGSTER_HOME", folder)).resolve() == folder.resolve()
    repository = None if is_ours or origin is None else origin.repository_origin.get_label()
    with step_errors(context):
        expired_items = expired(workspace)
        expired_items += expired_runs(context.instance, folder, retention.history, repository)
        result = delete_expired(expired_items, without_rebuild=retention.without_rebuild)
    (context.log.warning if result.kept else context.log.info)(str(result))


@job(name=RETENTION, executor_def=in_process_executor, description="Deletes old data by the section [retention].")
def retention_job() -> None:
    """Run ``delete_old_data`` alone."""
    delete_old_data()


def _transfers_schedule(settings: Settings) -> ScheduleDefinition:
    """Return the schedule that imports the previous day's transfers, in one run for each chain that has nodes."""

    @at_cron(settings, "daily_transfers", TRANSFERS, "Imports yesterday's transfers of every chain that has nodes.")
    def daily_transfers(
        context: ScheduleEvaluationContext, workspace: ResourceParam[Workspace]
    ) -> Iterator[RunRequest | SkipReason]:
        previous, tick = ticks_of(settings.schedule.cron, context)
        context.instance.add_dynamic_partitions(CHAIN, settings.section(SourceSettings).node_chains)
        record_transfers_tick(workspace, previous, tick)
        yesterday = tick - timedelta(days=1)
        if settings.schedule.excludes(yesterday):
            yield SkipReason(f"no instant is due: the schedule starts on {settings.schedule.start}")
            return
        for chain in settings.section(SourceSettings).node_chains:
            key = partition_key(chain, yesterday)
            yield RunRequest(run_key=f"transfers {key}", partition_key=key)

    return daily_transfers


def _alerts_sensor(settings: Settings) -> SensorDefinition:
    """Return the sensor that launches the alerts job. It runs only if the settings have rules or a destination."""
    is_chosen = settings.section(AlertSettings).is_chosen or len(destinations_of(settings)) > 1  # the log is always one

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
        is_loaded = last_evaluation.get("loaded") == version
        if is_loaded and now - datetime.fromisoformat(last_evaluation["at"]) < _EVALUATE_EVERY:
            return SkipReason("no new data")
        context.update_cursor(json.dumps({"loaded": version, "at": now.isoformat()}))
        return RunRequest(run_key=f"{version} {now:%Y-%m-%dT%H:%M}")

    return alerts
