"""The sensors that repeat requests of runs and schedules that failed or were missed: tables, and days of transfers."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace
from datetime import UTC, datetime, time, timedelta
from itertools import groupby
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
from holderlake.core.dagster.failures import INCOMPLETE
from holderlake.core.dagster.partitions import partition_key
from holderlake.core.dagster.tags import LIMITS, REPETITION_TAG
from holderlake.core.dagster.versions import watch
from holderlake.core.ingest.stream import partition_of, watched_tokens
from holderlake.core.settings import Settings
from holderlake.core.units import counted
from holderlake.core.workspace import Workspace
from holderlake.operations.alerts.delivery import enqueue
from holderlake.operations.alerts.notices import partition_given_up
from holderlake.operations.backfill.job import BACKFILL
from holderlake.operations.healing.attempts import Choice, choose
from holderlake.operations.healing.expected import DAILY, expected, last_days
from holderlake.operations.healing.expected import TRANSFERS as TRANSFERS_TICKS
from holderlake.operations.healing.missing import MissingDay, missing_days
from holderlake.operations.healing.runs import asked_since, scopes_to_repeat
from holderlake.sources.nodes.asset import TRANSFERS, is_imported
from holderlake.sources.settings import SourceSettings

_GRACE: Final = timedelta(minutes=3)
"""Time after a tick of the schedule in which the runs that it launches may not be in Dagster's history yet."""


def healing_sensors(settings: Settings) -> list[SensorDefinition]:
    """Return the sensors that repeat runs. That of transfers is included only if the settings name nodes."""
    return [
        _healing_sensor(settings),
        *([_transfers_sensor(settings)] if settings.section(SourceSettings).node_chains else []),
    ]


def _healing_sensor(settings: Settings) -> SensorDefinition:
    """Return the sensor that requests the missing parts of partitions, in one run for each chain."""

    @_repeating(
        settings,
        "healing",
        BACKFILL,
        "Requests missing parts again, of scheduled days, runs by hand and backfills; gives up with a notice.",
    )
    def healing(
        context: SensorEvaluationContext, workspace: ResourceParam[Workspace]
    ) -> Iterator[RunRequest | SkipReason]:
        now, limits = workspace.now(), workspace.settings.healing
        runs = asked_since(workspace, context.instance, now - timedelta(days=limits.days))
        missing = missing_days(workspace, scopes_to_repeat(runs, _past_instants(workspace, DAILY)))
        credits_left = _credits_left(context.instance, workspace)
        choice = choose(missing, [asked.attempt for asked in runs], now, limits, credits_left)
        _report_given_up(workspace, choice)
        chosen_days = sorted(choice.now, key=_of_run)
        watch(context.instance, workspace.settings.watchlist, {day.chain for day in chosen_days})
        for (chain, refresh_since), days in groupby(chosen_days, key=_of_run):
            yield _repair(workspace, chain, refresh_since, [*days])
        if not chosen_days:
            yield _reason(choice)

    return healing


def _of_run(day: MissingDay) -> tuple[str, str]:
    return day.chain, day.refresh_since


def _repair(workspace: Workspace, chain: str, refresh_since: str, days: Sequence[MissingDay]) -> RunRequest:
    """Return the request of a run for the missing families and tokens of some days of a chain."""
    families, tokens = {name for day in days for name in day.families}, set().union(*(day.tokens for day in days))
    instants = sorted({when for day in days for when in day.instants})
    is_all = tokens.issuperset(watched_tokens(workspace, partition_of(workspace, chain, instants[-1])))
    tables = [stream.tables[0] for stream in STREAMS if stream.name in families]
    config = {
        "instants": [when.isoformat() for when in instants],
        "chains": [chain],
        "tokens": [] if is_all else sorted(tokens),
        "tables": [] if len(tables) == len(STREAMS) else tables,
        **({"refresh": True, "refresh_since": refresh_since} if refresh_since else {}),
    }
    return RunRequest(
        run_config={"ops": {"fill_history": {"config": config}}},
        tags={**LIMITS, REPETITION_TAG: str(sum(day.credits for day in days))},
    )


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
        now, limits = workspace.now(), workspace.settings.healing
        missing = [
            MissingDay(chain, when.date())
            for chain, instants in sorted(_past_instants(workspace, TRANSFERS_TICKS).items())
            for when in instants
            if not is_imported(context.instance, chain, when)
        ]
        runs = asked_since(workspace, context.instance, now - timedelta(days=limits.days), [TRANSFERS])
        # a run that succeeded, and whose day is still missing, did not read all its blocks
        attempts = [replace(asked.attempt, error=asked.attempt.error or INCOMPLETE) for asked in runs]
        choice = choose(missing, attempts, now, limits, None)
        _report_given_up(workspace, choice)
        busy = {chain for asked in runs if asked.attempt.ended is None for chain, _ in asked.attempt.days}
        oldest = {day.chain: day for day in reversed(choice.now) if day.chain not in busy}
        for day in oldest.values():
            key = partition_key(day.chain, datetime.combine(day.day, time()))
            yield RunRequest(partition_key=key, tags={**LIMITS, REPETITION_TAG: "0"})
        if not oldest:
            yield _reason(choice)

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


def _past_instants(workspace: Workspace, ticks: str) -> dict[str, list[datetime]]:
    """Return the scheduled instants by chain, without the days whose runs the last tick may still be launching.

    ``ticks`` names the schedule's record.
    """
    schedule = expected(workspace, ticks)
    if schedule is None:
        return {}
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
    records = instance.get_run_records(RunsFilter(job_name=BACKFILL, created_after=midnight))
    planned = {
        record.dagster_run.run_id: int(record.dagster_run.tags[REPETITION_TAG])
        for record in records
        if REPETITION_TAG in record.dagster_run.tags
    }
    spent = {row.name: row.spent + row.reserved for row in workspace.ledger.report("run", since=today)}
    finished = {record.dagster_run.run_id for record in records if record.dagster_run.is_finished}
    return limit - sum(spent.get(run, 0) if run in finished else credits for run, credits in planned.items())


def _reason(choice: Choice) -> SkipReason:
    waiting = choice.waiting + len(choice.now)
    return SkipReason(f"{counted(waiting, 'day', 'waits')} for another attempt, {len(choice.given_up)} given up")


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
