"""Dagster's runs of chains and days, as attempts to fetch them."""

from __future__ import annotations

from collections.abc import Collection, Iterable
from datetime import date, datetime, time
from typing import Any, Final

from dagster import DagsterInstance, DagsterRunStatus, RunRecord, RunsFilter

from holderlake.core.contract.times import from_unix
from holderlake.core.dagster.failures import ERROR_TAG, PARTITION_TAG, REPETITION_TAG
from holderlake.core.dagster.partitions import days_of, partition_key
from holderlake.core.workspace import Workspace
from holderlake.operations.healing.attempts import Attempt
from holderlake.operations.healing.expected import expected
from holderlake.operations.healing.missing import Day, missing_days

_MOST_SUCCESSES: Final = 1_000


def attempts_of(instance: DagsterInstance, job: str, days: Iterable[Day]) -> list[Attempt]:
    """Return all runs of a job for ``days`` (pairs of chain and day), and later successful runs for any day.

    A successful run is later if it was created after the first run for ``days``. At most the newest 1,000 are returned.
    """
    keys = [str(partition_key(chain, datetime.combine(day, time()))) for chain, day in sorted(days)]
    day_records = instance.get_run_records(RunsFilter(job_name=job, tags={PARTITION_TAG: keys})) if keys else []
    if not day_records:
        return []
    since = min(record.create_timestamp for record in day_records)
    succeeded = RunsFilter(job_name=job, statuses=[DagsterRunStatus.SUCCESS], created_after=since)
    success_records = instance.get_run_records(succeeded, limit=_MOST_SUCCESSES)
    records = {record.dagster_run.run_id: record for record in [*day_records, *success_records]}
    return [_attempt(record) for record in records.values() if PARTITION_TAG in record.dagster_run.tags]


def last_results(attempts: Iterable[Attempt]) -> dict[Day, bool]:
    """Return by chain and day whether the last ended run succeeded; runs that were limited to some tokens are ignored.

    The value is False if all runs of a day were limited to some tokens.
    """
    ended = [(not attempt.is_limited, attempt.ended, attempt) for attempt in attempts if attempt.ended]
    return {
        attempt.day: is_whole and not attempt.error
        for is_whole, _, attempt in sorted(ended, key=lambda entry: entry[:2])
    }


def _attempt(record: RunRecord) -> Attempt:
    run = record.dagster_run
    ((chain, day),) = days_of([run.tags[PARTITION_TAG]])
    error = "" if run.status == DagsterRunStatus.SUCCESS else run.tags.get(ERROR_TAG, run.status.value)
    ended = from_unix(record.end_time) if run.is_finished and record.end_time else None
    steps: Any = run.run_config.get("ops", {})
    is_limited = any(step.get("config", {}).get("tokens") for step in steps.values())
    return Attempt((chain, date.fromisoformat(day)), ended, error, REPETITION_TAG in run.tags, is_limited)


def missing_instants(
    workspace: Workspace, instance: DagsterInstance, job: str, until: datetime, of_run: Collection[tuple[str, str]]
) -> dict[str, dict[str, list[datetime]]] | None:
    """Return the scheduled instants without complete data, by family and chain; None before the schedule's first tick.

    Only instants up to ``until`` (naive UTC) count, and those of ``of_run``: pairs of chain and day (YYYY-MM-DD).
    """
    schedule = expected(workspace)
    if schedule is None:
        return None
    due = {
        chain: [when for when in instants if when <= until or (chain, f"{when:%Y-%m-%d}") in of_run]
        for chain, instants in schedule.instants.items()
    }
    days = {(chain, when.date()) for chain, instants in due.items() for when in instants}
    missing: dict[str, dict[str, list[datetime]]] = {}
    for day in missing_days(workspace, due, last_results(attempts_of(instance, job, days)), with_credits=False):
        for gap in day.gaps:
            missing.setdefault(gap.stream.name, {}).setdefault(day.chain, []).append(gap.partition.as_of)
    return missing
