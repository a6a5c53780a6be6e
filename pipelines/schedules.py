"""The daily schedules: today's partition of every watched chain, live, and yesterday's transfers from nodes."""

from collections.abc import Iterator
from datetime import timedelta

from dagster import DefaultScheduleStatus, RunRequest, ScheduleDefinition, ScheduleEvaluationContext, schedule

from assets.partitions import CHAINS, partition_key
from pipelines.jobs import INGEST, TRANSFERS
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


def transfers_schedule(workspace: Workspace) -> ScheduleDefinition:
    """One run a chain that nodes are named for, at the cron time of the settings (UTC), for the day that has ended."""

    @schedule(
        name="daily_transfers",
        job_name=TRANSFERS,
        cron_schedule=workspace.settings.schedule.cron,
        execution_timezone="UTC",
        default_status=DefaultScheduleStatus.STOPPED,
        description="Imports yesterday's transfers of every chain that nodes are named for.",
    )
    def daily_transfers(context: ScheduleEvaluationContext) -> Iterator[RunRequest]:
        chains = workspace.settings.node_chains
        context.instance.add_dynamic_partitions(CHAINS.name or "chain", chains)
        yesterday = context.scheduled_execution_time - timedelta(days=1)
        for chain in chains:
            key = partition_key(chain, yesterday)
            yield RunRequest(run_key=f"transfers {key}", partition_key=key)

    return daily_transfers
