"""The jobs: ``ingest`` and ``transfers`` materialise partitions, ``backfill`` fills many instants in one run."""

import os
from pathlib import Path
from typing import Any

from dagster import (
    AssetSelection,
    Failure,
    OpExecutionContext,
    ResourceParam,
    RetryRequested,
    define_asset_job,
    in_process_executor,
    job,
    op,
)

from holderlake.core.ingest.streams.all import STREAMS
from holderlake.core.settings import Settings
from holderlake.core.workspace import Workspace
from holderlake.dagster.backfill import backfill_job, plan_job
from holderlake.dagster.checks.freshness import by_clock, freshness_checks
from holderlake.dagster.failures import ERROR_TAG, NOT_DELIVERED, step_errors
from holderlake.dagster.followers import follow_job
from holderlake.dagster.history import expired_runs
from holderlake.operations.alerts.delivery import deliver_alerts
from holderlake.operations.maintenance.retention import delete_expired, expired

INGEST = "ingest"
TRANSFERS = "transfers"
ALERTS = "alerts"
FRESHNESS = "freshness"
CHECKS = "checks"
RETENTION = "retention"


@op(description="Evaluates the alert rules, and sends each new alert once.")
def send_alerts(context: OpExecutionContext, workspace: ResourceParam[Workspace]) -> None:
    """Evaluate and send alerts. Fails if some could not be sent; the sensor ``notices`` tries to send them again."""
    with step_errors(context, retries=0):
        report = deliver_alerts(workspace)
    if report.is_busy:  # another process sends alerts
        raise RetryRequested(max_retries=3, seconds_to_wait=20)
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
    with step_errors(context, retries=0):
        expired_items = expired(workspace)
        expired_items += expired_runs(context.instance, folder, retention.history, repository)
        result = delete_expired(expired_items, without_rebuild=retention.without_rebuild)
    (context.log.warning if result.kept else context.log.info)(str(result))


@job(name=RETENTION, executor_def=in_process_executor, description="Deletes old data by the section [retention].")
def retention_job() -> None:
    """Run ``delete_old_data`` alone."""
    delete_old_data()


def all_jobs(settings: Settings) -> list[Any]:
    """Return all jobs. The jobs ``transfers`` and ``follow`` are included only if the settings name nodes."""
    transfers, freshness = AssetSelection.assets(TRANSFERS), freshness_checks(STREAMS)
    everything = AssetSelection.all() - by_clock(freshness)
    ingest_job = define_asset_job(
        INGEST,
        selection=everything - transfers if settings.node_chains else everything,
        description="Fetches one day of a chain, all tables, and loads the warehouse.",
    )
    freshness_job = define_asset_job(
        FRESHNESS,
        selection=AssetSelection.checks(*freshness.check_keys),
        description="Checks that the newest instant of each table is not too old.",
    )
    checks_job = define_asset_job(
        CHECKS,
        selection=AssetSelection.all_asset_checks(),
        description="Checks all tables of the lake, the newest data, and the alert rules. It fetches nothing.",
    )
    jobs = [ingest_job, backfill_job, plan_job, alerts_job, freshness_job, retention_job, checks_job]
    if not settings.node_chains:
        return jobs
    transfers_job = define_asset_job(
        TRANSFERS, selection=transfers, description="Imports one day of a chain's transfers from its nodes."
    )
    return [*jobs, transfers_job, follow_job()]
