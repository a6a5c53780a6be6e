"""The sensors that repair automatically: runs without a process, and scheduled partitions that failed or were missed.

The sensor ``notices`` reports what failed.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Collection, Iterator, Sequence
from datetime import UTC, datetime, time, timedelta
from typing import Any, Final

from dagster import (
    DagsterInstance,
    DagsterRunStatus,
    DefaultSensorStatus,
    ResourceParam,
    RunRequest,
    RunsFilter,
    SensorDefinition,
    SensorEvaluationContext,
    SkipReason,
    sensor,
)

from holderlake.alerts.delivery import enqueue, has_unsent, notify
from holderlake.alerts.notices import (
    Notice,
    endpoint_refused,
    key_refused,
    partition_given_up,
    requests_failed,
    run_failed,
    schedule_paused,
)
from holderlake.contract.times import from_unix
from holderlake.dagster.checks.streams import FAILED_REQUESTS_TAG
from holderlake.dagster.failures import (
    ENDPOINT_TAG,
    ERROR_TAG,
    NOT_DELIVERED,
    PARTITION_TAG,
    REPETITION_TAG,
    attempts_of,
    last_results,
)
from holderlake.dagster.jobs import INGEST, TRANSFERS
from holderlake.dagster.partitions import partition_key
from holderlake.dagster.processes import end_run, is_of_home, runs_without_process
from holderlake.dagster.schedules import LIMITS
from holderlake.dagster.transfers import is_imported
from holderlake.dagster.versions import watch
from holderlake.healing.attempts import Attempt, Choice, choose
from holderlake.healing.expected import DAILY, Expected, expected
from holderlake.healing.expected import TRANSFERS as TRANSFERS_TICKS
from holderlake.healing.missing import MissingDay, missing_days
from holderlake.healing.paused import paused_schedule, waiting_schedule
from holderlake.ingest.streams.all import STREAMS
from holderlake.settings import Settings
from holderlake.units import counted
from holderlake.workspace import Workspace

_GRACE: Final = timedelta(minutes=3)
"""Time after a tick of the schedule in which its own runs may not be launched yet."""
_OVERLAP: Final = timedelta(minutes=5)
_KEY_ERRORS: Final = frozenset({"missing_key", "invalid_key"})
_CREDIT_ERRORS: Final = frozenset({"credits_exhausted", "budget_exceeded"})


def healing_sensors(settings: Settings, jobs: Collection[str]) -> list[SensorDefinition]:
    """Return the sensors that repair automatically, and the sensor that reports failures.

    ``jobs`` are the names of the jobs whose runs they end and report.
    """
    transfers = [_transfers_sensor(settings)] if settings.node_chains else []
    return [_dead_runs_sensor(jobs), _healing_sensor(settings), *transfers, _notices_sensor(jobs)]


def _dead_runs_sensor(jobs: Collection[str]) -> SensorDefinition:
    """Return the sensor that ends a run if it has no process at two consecutive ticks."""

    @sensor(
        name="dead_runs",
        minimum_interval_seconds=30,
        default_status=DefaultSensorStatus.RUNNING,
        description="Marks runs as failed whose process is gone, for example after a crash of the host.",
    )
    def dead_runs(context: SensorEvaluationContext, workspace: ResourceParam[Workspace]) -> SkipReason:
        home = workspace.settings.home
        run_ids = runs_without_process(context.instance, home, jobs)
        run_ids_before = json.loads(context.cursor or "[]")
        ended = [run for run in run_ids if run in run_ids_before and end_run(context.instance, home, run)]
        context.update_cursor(json.dumps([run for run in run_ids if run not in run_ids_before]))
        if ended:
            return SkipReason(f"ended {counted(len(ended), 'run')} without a process: {', '.join(ended)}")
        return SkipReason("all started runs have a process")

    return dead_runs


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
        schedule = _past_schedule(workspace, DAILY)
        if isinstance(schedule, SkipReason):
            yield schedule
            return
        if paused := waiting_schedule(workspace):
            yield SkipReason(str(paused))
            return
        days = {(chain, when.date()) for chain, instants in schedule.instants.items() for when in instants}
        attempts = attempts_of(context.instance, INGEST, days)
        missing = missing_days(workspace, schedule.instants, last_results(attempts))
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
        schedule = _past_schedule(workspace, TRANSFERS_TICKS)
        if isinstance(schedule, SkipReason):
            yield schedule
            return
        missing = [
            MissingDay(chain, when.date(), (when,), (), 0)
            for chain, instants in sorted(schedule.instants.items())
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


def _past_schedule(workspace: Workspace, ticks: str) -> Expected | SkipReason:
    """Return the instants of a schedule, or why it is too early to repeat them. ``ticks`` names their record."""
    schedule = expected(workspace, ticks)
    if schedule is None:
        return SkipReason("the schedule has not run yet")
    return schedule if workspace.now() >= schedule.until + _GRACE else SkipReason("the schedule's runs are starting")


def _notices_sensor(jobs: Collection[str]) -> SensorDefinition:
    """Return the sensor that reports failures. Its ticks send the notices, as Dagster's sensors for failed runs do.

    A run that sends them would wait in the queue behind the runs that it reports, or not start at all. A tick may take
    60 s, and a delivery ends earlier.
    """

    @sensor(
        name="notices",
        minimum_interval_seconds=60,
        default_status=DefaultSensorStatus.RUNNING,
        description="Reports failed runs and requests, a refused key and a paused schedule, and sends unsent alerts.",
    )
    def notices(context: SensorEvaluationContext, workspace: ResourceParam[Workspace]) -> SkipReason:
        now = datetime.now(UTC)
        since = datetime.fromisoformat(context.cursor) - _OVERLAP if context.cursor else now
        new_notices = [
            *_failures(context.instance, workspace, since, jobs),
            *_failed_requests(context.instance, workspace, since),
            *_paused(workspace),
        ]
        context.update_cursor(now.isoformat())
        if not new_notices and not has_unsent(workspace, now.replace(tzinfo=None)):
            return SkipReason("nothing failed")
        return SkipReason(str(notify(workspace, new_notices)))

    return notices


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


def _failures(
    instance: DagsterInstance, workspace: Workspace, since: datetime, jobs: Collection[str]
) -> Iterator[Notice]:
    """Yield a notice for each run of these jobs and this home that failed since a time.

    A run that is repeated automatically has none.

    A run that could not send alerts has none: sending the notice would fail too, and make the next one.
    """
    is_paused = paused_schedule(workspace) is not None
    for record in instance.get_run_records(RunsFilter(statuses=[DagsterRunStatus.FAILURE], updated_after=since)):
        run = record.dagster_run
        error, at = run.tags.get(ERROR_TAG), from_unix(int(record.end_time or since.timestamp()))
        will_repeat = REPETITION_TAG in run.tags or run.tags.get("dagster/will_retry") == "true"
        if run.job_name not in jobs or error == NOT_DELIVERED or not is_of_home(run, workspace.settings.home):
            continue
        if error in _KEY_ERRORS:
            yield key_refused(error, run.run_id, at)
        elif endpoint := run.tags.get(ENDPOINT_TAG):
            yield endpoint_refused(endpoint, error or "", run.run_id, at)
        elif not will_repeat and not (is_paused and error in _CREDIT_ERRORS and run.job_name == INGEST):
            yield run_failed(run.run_id, run.job_name, run.tags.get(PARTITION_TAG), error, at)


def _failed_requests(instance: DagsterInstance, workspace: Workspace, since: datetime) -> Iterator[Notice]:
    """Yield a notice for each run of this home that succeeded since a time with failed requests.

    Repetitions by the sensor ``healing`` have none: it reports what it gives up.
    """
    for record in instance.get_run_records(RunsFilter(statuses=[DagsterRunStatus.SUCCESS], updated_after=since)):
        run = record.dagster_run
        counts = {
            tag.removeprefix(FAILED_REQUESTS_TAG): int(count)
            for tag, count in run.tags.items()
            if tag.startswith(FAILED_REQUESTS_TAG)
        }
        if counts and REPETITION_TAG not in run.tags and is_of_home(run, workspace.settings.home):
            at = from_unix(int(record.end_time or since.timestamp()))
            yield requests_failed(run.run_id, run.job_name, run.tags.get(PARTITION_TAG), counts, at)


def _paused(workspace: Workspace) -> Iterator[Notice]:
    paused = paused_schedule(workspace)
    if paused is not None:
        yield schedule_paused(paused.code, paused.since, paused.resume_on, paused.reason)
