"""The daily schedules: the partitions of every watched chain whose instants have passed, and yesterday's transfers."""

from collections.abc import Iterator, Sequence
from datetime import datetime, time, timedelta

from dagster import DefaultScheduleStatus, RunRequest, ScheduleDefinition, ScheduleEvaluationContext, schedule

from holderlake.contract.times import partition_text
from holderlake.dagster.partitions import CHAINS, partition_key, tick_before
from holderlake.workspace import Workspace
from pipelines.jobs import INGEST, TRANSFERS


def daily_schedule(workspace: Workspace) -> ScheduleDefinition:
    """One run a chain at the cron time of the settings (UTC)."""

    @schedule(
        name="daily",
        job_name=INGEST,
        cron_schedule=workspace.settings.schedule.cron,
        execution_timezone="UTC",
        default_status=DefaultScheduleStatus.STOPPED,
        description="Fetches the partition of every watched chain whose instants have passed since the tick before.",
    )
    def daily(context: ScheduleEvaluationContext) -> Iterator[RunRequest]:
        chosen = workspace.settings.schedule
        chains = sorted(workspace.settings.watchlist)
        context.instance.add_dynamic_partitions(CHAINS.name or "chain", chains)
        tick = context.scheduled_execution_time.replace(tzinfo=None)
        for day in due_days(tick, tick_before(chosen.cron, tick), chosen.offsets):
            for chain in chains:
                key = partition_key(chain, day)
                # a day of several instants may have a run after each of them
                yield RunRequest(run_key=f"{key} at {partition_text(tick)}", partition_key=key)

    return daily


def due_days(tick: datetime, before: datetime, offsets: Sequence[timedelta]) -> list[datetime]:
    """Return the days of two ticks (``before`` the earlier) that have an instant which passed between them."""
    days = sorted({datetime.combine(when, time()) for when in (before, tick)})
    return [day for day in days if any(before < day + offset <= tick for offset in offsets)]


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
