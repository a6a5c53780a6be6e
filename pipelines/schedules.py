"""The schedules ``daily``, which fetches the tables of each day, and ``freshness``, which checks them."""

from collections.abc import Callable, Iterator, Sequence
from datetime import datetime, time, timedelta
from typing import Any, Final

from dagster import (
    DefaultScheduleStatus,
    RunRequest,
    ScheduleDefinition,
    ScheduleEvaluationContext,
    SkipReason,
    schedule,
)

from holderlake.core.contract.times import partition_text
from holderlake.core.dagster.partitions import partition_key, previous_tick
from holderlake.core.dagster.runs import INGEST
from holderlake.core.dagster.tags import LIMITS
from holderlake.core.dagster.versions import watch
from holderlake.core.registry import Kind
from holderlake.core.settings import Settings
from holderlake.core.workspace import Workspace
from holderlake.pipelines.jobs import FRESHNESS
from holderlake.resources.workspace import WORKSPACE, workspace_of

SCHEDULE_TICK: Final[Kind[Callable[[Workspace, datetime, datetime], None]]] = Kind("schedule_tick")
"""Records of a tick, which get the tick before it and the tick."""


def all_schedules(settings: Settings) -> list[ScheduleDefinition]:
    """Return the schedules. ``daily`` is stopped until a user starts it; ``freshness`` runs, and costs nothing."""
    return [
        daily_schedule(INGEST, settings.schedule.cron, has_new_chains=True),
        freshness_schedule(FRESHNESS, DefaultScheduleStatus.RUNNING),
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


def daily_schedule(
    job: str, cron: str, *, name: str = "daily", resource: str = WORKSPACE, has_new_chains: bool = False
) -> ScheduleDefinition:
    """Return the schedule of one run of a job per chain at the times ``cron`` (UTC).

    It needs a workspace as the resource ``resource``. With ``has_new_chains`` the watchlist's chains become partitions.
    """

    @schedule(
        name=name,
        job_name=job,
        cron_schedule=cron,
        execution_timezone="UTC",
        required_resource_keys={resource},
        description="Fetches the partition of every watched chain whose instants have passed.",
    )
    def daily(context: ScheduleEvaluationContext) -> Iterator[RunRequest | SkipReason]:
        workspace = workspace_of(context, resource)
        if has_new_chains:
            watch(context.instance, workspace.settings.watchlist, workspace.settings.watchlist)
        yield from due_runs(context, workspace, cron)

    return daily


def due_runs(context: ScheduleEvaluationContext, workspace: Workspace, cron: str) -> Iterator[RunRequest | SkipReason]:
    """Yield a run for each watched chain and day with an instant that is due at a tick, or the reason to skip it.

    ``cron`` is that of the schedule. Parts record the tick.
    """
    previous, tick = ticks_of(cron, context)
    schedule_settings = workspace.settings.schedule
    for record_tick in SCHEDULE_TICK.parts():
        record_tick(workspace, previous, tick)
    due = 0
    for day in due_days(tick, previous, schedule_settings.offsets):
        if schedule_settings.excludes(day):
            continue
        for chain in sorted(workspace.settings.watchlist):
            key = partition_key(chain, day)
            # a day of several instants may have a run after each of them
            yield RunRequest(run_key=f"{key} at {partition_text(tick)}", partition_key=key, tags=LIMITS)
            due += 1
    if not due:
        yield SkipReason("no instant is due")


def due_days(tick: datetime, previous: datetime, offsets: Sequence[timedelta]) -> list[datetime]:
    """Return the days (midnight, UTC) with an instant after ``previous`` and not after ``tick``.

    ``offsets`` are the instants of a day, as durations since midnight.
    """
    days = sorted({datetime.combine(when, time()) for when in (previous, tick)})
    return [day for day in days if any(previous < day + offset <= tick for offset in offsets)]


def at_cron(settings: Settings, name: str, job: str, description: str) -> Callable[[Any], ScheduleDefinition]:
    """Return the decorator of a schedule at the cron time of the settings (UTC)."""
    return schedule(
        name=name,
        job_name=job,
        cron_schedule=settings.schedule.cron,
        execution_timezone="UTC",
        description=description,
    )


def ticks_of(cron: str, context: ScheduleEvaluationContext) -> tuple[datetime, datetime]:
    """Return the tick before the present one, and the present one (naive UTC)."""
    tick = context.scheduled_execution_time.replace(tzinfo=None)
    return previous_tick(cron, tick), tick
