"""The sensors that repeat automatically: scheduled partitions, and days of transfers, that failed or were missed."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterator, Sequence
from datetime import UTC, datetime, time, timedelta
from typing import Any, Final

from dagster import (
    DagsterInstance,
    DefaultSensorStatus,
    ResourceParam,
    RunRequest,
    RunsFilter,
    SensorDefinition,
    SensorEvaluationContext,
    SkipReason,
    sensor,
)

from holderlake.assets import STREAMS
from holderlake.core.dagster.failures import REPETITION_TAG
from holderlake.core.dagster.partitions import partition_key
from holderlake.core.dagster.runs import INGEST, LIMITS
from holderlake.core.dagster.versions import watch
from holderlake.core.settings import Settings
from holderlake.core.units import counted
from holderlake.core.workspace import Workspace
from holderlake.operations.alerts.delivery import enqueue
from holderlake.operations.alerts.notices import partition_given_up
from holderlake.operations.healing.attempts import Attempt, Choice, choose
from holderlake.operations.healing.expected import DAILY, expected, last_days
from holderlake.operations.healing.expected import TRANSFERS as TRANSFERS_TICKS
from holderlake.operations.healing.missing import MissingDay, missing_days
from holderlake.operations.healing.paused import waiting_schedule
from holderlake.operations.healing.runs import attempts_of, last_results
from holderlake.sources.nodes.asset import TRANSFERS, is_imported
from holderlake.sources.settings import SourceSettings

_GRACE: Final = timedelta(minutes=3)
"""Time after a tick of the schedule in which the runs that it launches may not be in Dagster's history yet."""
_NOT_YET: Final = SkipReason("the schedule has not run yet")


def healing_sensors(settings: Settings) -> list[SensorDefinition]:
    """Return the sensors that repeat runs. That of transfers is included only if the settings name nodes."""
    return [
        _healing_sensor(settings),
        *([_transfers_sensor(settings)] if settings.section(SourceSettings).node_chains else []),
    ]


def _healing_sensor(settings: Settings) -> SensorDefinition:
    """Return the sensor that repeats scheduled partitions."""

    @_repeating(
        settings,
        "healing",
        INGEST,
        "Fetches scheduled partitions again that failed or were missed; gives up with a notice.",
    )
    def healing(
        context: SensorEvaluationContext, workspace: ResourceParam[Workspace]
    ) -> Iterator[RunRequest | SkipReason]:
        scheduled = _past_instants(workspace, DAILY)
        if scheduled is None:
            yield _NOT_YET
            return
        if paused := waiting_schedule(workspace):
            yield SkipReason(str(paused))
            return
        days = {(chain, when.date()) for chain, instants in scheduled.items() for when in instants}
        attempts = attempts_of(context.instance, INGEST, days)
        missing = missing_days(workspace, scheduled, last_results(attempts))
        credits_left = _credits_left(context.instance, workspace)
        choice = choose(missing, attempts, workspace.now(), workspace.settings.healing, credits_left)
        _report_given_up(workspace, choice)
        watch(context.instance, workspace.settings.watchlist, {day.chain for day in choice.now})
        yield from _requests(choice.now, choice, attempts, _config)

    return healing


def _transfers_sensor(settings: Settings) -> SensorDefinition:
    """Return the sensor that repeats days of transfers. It imports one day of a chain at a time."""

    @_repeating(
        settings,
        "healing_transfers",
        TRANSFERS,
        "Imports days of transfers again that failed, were missed, or ended before their last blocks.",
    )
    def healing_transfers(
        context: SensorEvaluationContext, workspace: ResourceParam[Workspace]
    ) -> Iterator[RunRequest | SkipReason]:
        scheduled = _past_instants(workspace, TRANSFERS_TICKS)
        if scheduled is None:
            yield _NOT_YET
            return
        missing = [
            MissingDay(chain, when.date(), (when,), (), 0)
            for chain, instants in sorted(scheduled.items())
            for when in instants
            if not is_imported(context.instance, chain, when)
        ]
        attempts = attempts_of(context.instance, TRANSFERS, {day.key for day in missing})
        choice = choose(missing, attempts, workspace.now(), workspace.settings.healing, None)
        _report_given_up(workspace, choice)
        busy = {attempt.chain for attempt in attempts if attempt.ended is None}
        oldest = {day.chain: day for day in reversed(choice.now) if day.chain not in busy}
        yield from _requests(oldest.values(), choice, attempts, lambda day: {})

    return healing_transfers


def _repeating(settings: Settings, name: str, job: str, description: str) -> Callable[[Any], SensorDefinition]:
    """Return the decorator of a sensor that repeats runs. It runs unless the settings switch healing off."""
    return sensor(
        name=name,
        job_name=job,
        minimum_interval_seconds=300,
        default_status=DefaultSensorStatus.RUNNING if settings.healing.enabled else DefaultSensorStatus.STOPPED,
        description=description,
    )


def _past_instants(workspace: Workspace, ticks: str) -> dict[str, list[datetime]] | None:
    """Return the scheduled instants by chain, without the days whose runs the last tick may still be launching.

    ``ticks`` names the schedule's record. The result is None before the schedule's first tick.
    """
    schedule = expected(workspace, ticks)
    if schedule is None:
        return None
    is_starting = workspace.now() < schedule.until + _GRACE
    starting = last_days(schedule, ticks, workspace.settings.schedule.cron) if is_starting else set()
    return {
        chain: [when for when in instants if when.date() not in starting]
        for chain, instants in schedule.instants.items()
    }


def _credits_left(instance: DagsterInstance, workspace: Workspace) -> int | None:
    """Return the hundredths of a credit that repetitions may still spend today; None without a limit."""
    limit, today = workspace.settings.healing.credits_per_day, workspace.now().date()
    if limit is None:
        return None
    midnight = datetime.combine(today, time(), UTC)
    records = instance.get_run_records(RunsFilter(job_name=INGEST, created_after=midnight))
    planned = {
        record.dagster_run.run_id: int(record.dagster_run.tags[REPETITION_TAG])
        for record in records
        if REPETITION_TAG in record.dagster_run.tags
    }
    spent = {row.name: row.spent + row.reserved for row in workspace.ledger.report("run", since=today)}
    finished = {record.dagster_run.run_id for record in records if record.dagster_run.is_finished}
    return limit - sum(spent.get(run, 0) if run in finished else credits for run, credits in planned.items())


def _requests(
    days: Collection[MissingDay],
    choice: Choice,
    attempts: Sequence[Attempt],
    config: Callable[[MissingDay], dict[str, Any]],
) -> Iterator[RunRequest | SkipReason]:
    """Yield a run request for each of ``days``, or one skip reason if there are none.

    ``days`` are all or some of ``choice.now``. ``config`` returns the run config for a day. ``attempts`` are the
    earlier runs; their number is part of the run key.
    """
    for day in days:
        key = partition_key(day.chain, datetime.combine(day.day, time()))
        repetitions = sum(attempt.is_repetition for attempt in attempts if attempt.day == day.key)
        yield RunRequest(
            run_key=f"{key} repetition {repetitions + 1}",
            partition_key=key,
            run_config=config(day),
            tags={**LIMITS, REPETITION_TAG: str(day.credits)},
        )
    if not days:
        waiting = choice.waiting + len(choice.now)
        yield SkipReason(f"{counted(waiting, 'day', 'waits')} for another attempt, {len(choice.given_up)} given up")


def _config(day: MissingDay) -> dict[str, Any]:
    options = {"config": {"instants": [when.isoformat() for when in day.instants]}}
    return {"ops": {stream.name: options for stream in STREAMS}}


def _report_given_up(workspace: Workspace, choice: Choice) -> None:
    """Add a notice for each day that is given up; the sensor ``notices`` sends it."""
    now = workspace.now()
    if choice.given_up:
        enqueue(
            workspace,
            [
                # a day of transfers has no gaps of streams
                partition_given_up(day.chain, day.day, day.instants, day.families or [TRANSFERS], reason, now)
                for day, reason in choice.given_up
            ],
        )
