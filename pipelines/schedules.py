"""The daily schedule: today's partition of every watched chain, live."""

from collections.abc import Iterator

from dagster import DefaultScheduleStatus, RunRequest, ScheduleDefinition, ScheduleEvaluationContext, schedule

from assets.partitions import CHAINS, partition_key
from pipelines.jobs import INGEST
from resources.workspace import Workspace


def daily_schedule(workspace: Workspace) -> ScheduleDefinition:
    """One run a chain at the cron time of the settings (UTC)."""

    @schedule(
        name="daily",
        job_name=INGEST,
        cron_schedule=workspace.settings.schedule.cron,
        execution_timezone="UTC",
        default_status=DefaultScheduleStatus.STOPPED,
        description="Fetches today's partition of every watched chain.",
    )
    def daily(context: ScheduleEvaluationContext) -> Iterator[RunRequest]:
        chains = sorted(workspace.settings.watchlist)
        context.instance.add_dynamic_partitions(CHAINS.name or "chain", chains)
        tick = context.scheduled_execution_time
        for chain in chains:
            key = partition_key(chain, tick)
            yield RunRequest(run_key=key, partition_key=key)

    return daily
