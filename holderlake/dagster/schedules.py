"""The schedules ``daily`` (tables of the past days), ``daily_transfers``, ``freshness`` and ``retention``."""

from collections.abc import Callable, Iterator, Sequence
from datetime import datetime, time, timedelta
from typing import Any, Final

from dagster import (
    MAX_RUNTIME_SECONDS_TAG,
    DefaultScheduleStatus,
    ResourceParam,
    RunRequest,
    ScheduleDefinition,
    ScheduleEvaluationContext,
    SkipReason,
    schedule,
)

from holderlake.core.contract.times import partition_text
from holderlake.core.settings import Settings
from holderlake.core.workspace import Workspace
from holderlake.dagster.jobs import FRESHNESS, INGEST, RETENTION, TRANSFERS
from holderlake.dagster.partitions import CHAIN, partition_key, previous_tick
from holderlake.dagster.versions import watch
from holderlake.operations.healing.expected import record_tick, record_transfers_tick
from holderlake.operations.healing.paused import waiting_schedule

LIMITS: Final = {MAX_RUNTIME_SECONDS_TAG: "86400"}
"""Run tags of a run of one day: Dagster's run monitoring ends it after 24 hours."""


def all_schedules(settings: Settings) -> list[ScheduleDefinition]:
    """Return all schedules. Each is stopped until a user starts it, except ``freshness``, which costs nothing.

    The schedule of transfers is included only if the settings name nodes.
    """
    retention = ScheduleDefinition(
        name="retention",
        job_name=RETENTION,
        cron_schedule=settings.retention.cron,
        execution_timezone="UTC",
        description="Deletes runs, failures and answers that are older than the ages of the section [retention].",
    )
    transfers = [_transfers_schedule(settings)] if settings.node_chains else []
    return [
        _daily_schedule(settings),
        freshness_schedule(FRESHNESS, DefaultScheduleStatus.RUNNING),
        retention,
        *transfers,
    ]


def freshness_schedule(job: str, status: DefaultScheduleStatus) -> ScheduleDefinition:
    """Return the schedule of a job that evaluates ``freshness_checks``. It has the name of the job."""
    return ScheduleDefinition(
        name=job,
        job_name=job,
        cron_schedule="30 */6 * * *",
        execution_timezone="UTC",
        default_status=status,
        description="Checks every six hours that each chain is fresh, and that no scheduled instant is missing.",
    )


def _daily_schedule(settings: Settings) -> ScheduleDefinition:
    """Return the schedule of one run per chain at the cron time of the settings (UTC)."""

    @_at_cron(settings, "daily", INGEST, "Fetches the partition of every watched chain whose instants have passed.")
    def daily(
        context: ScheduleEvaluationContext, workspace: ResourceParam[Workspace]
    ) -> Iterator[RunRequest | SkipReason]:
        watch(context.instance, workspace.settings.watchlist, workspace.settings.watchlist)
        yield from due_runs(context, workspace, settings.schedule.cron)

    return daily


def due_runs(context: ScheduleEvaluationContext, workspace: Workspace, cron: str) -> Iterator[RunRequest | SkipReason]:
    """Record which instants are due at a tick, and yield a run for each watched chain and day with one of them.

    ``cron`` is that of the schedule. While the schedule is paused there is a skip reason instead of runs.
    """
    previous, tick = _ticks(cron, context)
    schedule_settings = workspace.settings.schedule
    record_tick(workspace, previous, tick)
    if paused := waiting_schedule(workspace):
        yield SkipReason(str(paused))
        return
    for day in due_days(tick, previous, schedule_settings.offsets):
        if schedule_settings.excludes(day):
            continue
        for chain in sorted(workspace.settings.watchlist):
            key = partition_key(chain, day)
            # a day of several instants may have a run after each of them
            yield RunRequest(run_key=f"{key} at {partition_text(tick)}", partition_key=key, tags=LIMITS)


def due_days(tick: datetime, previous: datetime, offsets: Sequence[timedelta]) -> list[datetime]:
    """Return the days (midnight, UTC) with an instant after ``previous`` and not after ``tick``.

    ``offsets`` are the instants of a day, as durations since midnight.
    """
    days = sorted({datetime.combine(when, time()) for when in (previous, tick)})
    return [day for day in days if any(previous < day + offset <= tick for offset in offsets)]


def _transfers_schedule(settings: Settings) -> ScheduleDefinition:
    """Return the schedule that imports the previous day's transfers, in one run for each chain that has nodes."""

    @_at_cron(settings, "daily_transfers", TRANSFERS, "Imports yesterday's transfers of every chain that has nodes.")
    def daily_transfers(
        context: ScheduleEvaluationContext, workspace: ResourceParam[Workspace]
    ) -> Iterator[RunRequest]:
        previous, tick = _ticks(settings.schedule.cron, context)
        context.instance.add_dynamic_partitions(CHAIN, settings.node_chains)
        record_transfers_tick(workspace, previous, tick)
        yesterday = tick - timedelta(days=1)
        for chain in () if settings.schedule.excludes(yesterday) else settings.node_chains:
            key = partition_key(chain, yesterday)
            yield RunRequest(run_key=f"transfers {key}", partition_key=key)

    return daily_transfers


def _at_cron(settings: Settings, name: str, job: str, description: str) -> Callable[[Any], ScheduleDefinition]:
    """Return the decorator of a schedule at the cron time of the settings (UTC)."""
    return schedule(
        name=name,
        job_name=job,
        cron_schedule=settings.schedule.cron,
        execution_timezone="UTC",
        description=description,
    )


def _ticks(cron: str, context: ScheduleEvaluationContext) -> tuple[datetime, datetime]:
    """Return the tick before the present one, and the present one (naive UTC)."""
    tick = context.scheduled_execution_time.replace(tzinfo=None)
    return previous_tick(cron, tick), tick
