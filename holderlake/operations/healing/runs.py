"""Dagster's runs as attempts to fetch chains and days, and the data that they requested."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping, Sequence
from datetime import UTC, datetime
from typing import Any, Final

from dagster import DagsterInstance, DagsterRun, DagsterRunStatus, PartitionKeyRange, RunRecord, RunsFilter

from holderlake.assets import STREAMS
from holderlake.core.contract.times import as_utc, from_unix, parse_when
from holderlake.core.dagster.failures import INCOMPLETE, RUN_CEILING
from holderlake.core.dagster.partitions import CHAIN_BY_DAY, days_of, instants_of
from holderlake.core.dagster.processes import ASSET_JOB, is_of_home
from holderlake.core.dagster.runs import INGEST
from holderlake.core.dagster.tags import ERROR_TAG, LACKS_TAG, PARTITION_TAG, RANGE_TAGS, REPETITION_TAG
from holderlake.core.settings import SettingsError
from holderlake.core.workspace import Workspace
from holderlake.operations.backfill.job import BACKFILL, BackfillConfig, chains_of, with_instants
from holderlake.operations.backfill.scope import streams_of
from holderlake.operations.healing.attempts import Attempt
from holderlake.operations.healing.expected import expected
from holderlake.operations.healing.missing import Day, Scope, missing_days

JOBS: Final = (INGEST, ASSET_JOB, BACKFILL)
"""The jobs whose runs fetch tables."""
_NOT_REPEATED: Final = frozenset({DagsterRunStatus.CANCELED.value, "cancelled", RUN_CEILING, "InstantAhead"})
"""Errors after which a run that the schedule did not ask for is not repeated: a user ended or limited it."""


class Asked:
    """A run with the data that it requested: ``scopes`` has the instants by scope, ``attempt`` the days and the end."""

    def __init__(self, workspace: Workspace, instance: DagsterInstance, record: RunRecord) -> None:
        run = record.dagster_run
        self.run, self.id, self.created = run, run.run_id, as_utc(record.create_timestamp)
        error = "" if run.status == DagsterRunStatus.SUCCESS else run.tags.get(ERROR_TAG, run.status.value)
        if not error and any(name.startswith(LACKS_TAG) for name in run.tags):
            error = INCOMPLETE  # a run without the check 'is_complete'
        self.scopes = _scopes(workspace, instance, run, self.created, is_stopped=error != INCOMPLETE)
        days = frozenset((scope.chain, when.date()) for scope, instants in self.scopes.items() for when in instants)
        ended = from_unix(record.end_time) if run.is_finished and record.end_time else None
        is_repetition = REPETITION_TAG in run.tags  # it requests all missing parts
        is_limited = not is_repetition and any(scope.tokens or scope.families for scope in self.scopes)
        self.attempt = Attempt(days, ended, error, is_repetition, is_limited)


def asked_since(
    workspace: Workspace, instance: DagsterInstance, since: datetime, jobs: Collection[str] = JOBS
) -> list[Asked]:
    """Return the runs of the jobs and of this home that were created since a time (naive UTC), newest first."""
    records = [
        record
        for job in jobs
        for record in instance.get_run_records(RunsFilter(job_name=job, created_after=since.replace(tzinfo=UTC)))
        if is_of_home(record.dagster_run, workspace.settings.home)
    ]
    records.sort(key=lambda record: record.create_timestamp, reverse=True)
    return [asked for record in records if (asked := Asked(workspace, instance, record)).attempt.days]


def scopes_to_repeat(runs: Sequence[Asked], scheduled: Mapping[str, Iterable[datetime]]) -> dict[Scope, list[datetime]]:
    """Return the instants that may lack data, by scope: of the schedule, and of failed runs since a day's last success.

    ``runs`` are the newest first, ``scheduled`` are the schedule's instants by chain.
    """
    scopes: dict[Scope, list[datetime]] = {}
    is_stopped: dict[Day, bool] = {}
    complete: set[Day] = set()
    for asked in sorted(runs, key=lambda asked: asked.attempt.ended or asked.created, reverse=True):
        attempt = asked.attempt
        if attempt.ended is None:
            continue
        if not attempt.is_limited:
            newest = dict.fromkeys(attempt.days, bool(attempt.error) and attempt.error != INCOMPLETE)
            is_stopped = newest | is_stopped
            complete |= attempt.days if attempt.is_success else set()
        if attempt.error and attempt.error not in _NOT_REPEATED:
            for scope, instants in asked.scopes.items():
                if open_instants := [when for when in instants if (scope.chain, when.date()) not in complete]:
                    scopes.setdefault(scope, []).extend(open_instants)
    limited = {day for asked in runs for day in asked.attempt.days if asked.attempt.is_limited}
    for chain, due in scheduled.items():
        for when in due:
            day = (chain, when.date())
            scopes.setdefault(Scope(chain, is_stopped=is_stopped.get(day, day in limited)), []).append(when)
    return scopes


def _scopes(
    workspace: Workspace, instance: DagsterInstance, run: DagsterRun, created: datetime, *, is_stopped: bool
) -> dict[Scope, list[datetime]]:
    """Return the instants that a run asked for, by scope; empty for a run with an invalid config."""
    steps: Any = run.run_config.get("ops", {})
    if run.job_name == BACKFILL:
        try:
            config = BackfillConfig(**steps.get("fill_history", {}).get("config", {}))
            until = config.to or created.isoformat(timespec="seconds") if config.start else ""
            config = with_instants(config.model_copy(update={"to": until}))
            instants = [parse_when(when) for when in config.instants]
            families = tuple(stream.name for stream in streams_of(config.tables, workspace.settings))
        except (SettingsError, ValueError):
            return {}
        since = (config.refresh_since or created.isoformat()) if config.refresh else ""
        tables = families if config.tables else ()
        chains = chains_of(config, workspace)
        return {Scope(chain, tuple(config.tokens), tables, since, is_stopped): instants for chain in chains}
    selected = {key.to_user_string() for key in run.asset_selection or ()}
    families = tuple(stream.name for stream in STREAMS if selected.intersection(stream.tables))
    if selected and not families:
        return {}
    options: dict[str, Any] = next((step["config"] for step in steps.values() if step.get("config")), {})
    scopes: dict[Scope, list[datetime]] = {}
    for chain, day in _days_of_run(instance, run):
        since = created.isoformat() if options.get("refresh") else ""
        scope = Scope(
            chain, tuple(options.get("tokens", ())), families if len(families) < len(STREAMS) else (), since, is_stopped
        )
        given = [when for when in map(parse_when, options.get("instants", ())) if f"{when:%Y-%m-%d}" == day]
        past = [when for when in instants_of(day, workspace.settings.schedule.offsets) if when <= created]
        scopes.setdefault(scope, []).extend(given or past)
    return scopes


def _days_of_run(instance: DagsterInstance, run: DagsterRun) -> list[tuple[str, str]]:
    start, end = (run.tags.get(tag) for tag in RANGE_TAGS)
    if start and end:
        ends = PartitionKeyRange(*map(CHAIN_BY_DAY.get_partition_key_from_str, (start, end)))
        return days_of(CHAIN_BY_DAY.get_partition_keys_in_range(ends, dynamic_partitions_store=instance))
    return days_of([run.tags[PARTITION_TAG]]) if PARTITION_TAG in run.tags else []


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
    days = [when for instants in due.values() for when in instants]
    runs = asked_since(workspace, instance, min(days), {job, *JOBS}) if days else []
    scopes = {
        scope: [when for when in asked_instants if when in due.get(scope.chain, ())]
        for scope, asked_instants in scopes_to_repeat(runs, due).items()
    }
    missing: dict[str, dict[str, list[datetime]]] = {}
    for day in missing_days(workspace, scopes, with_credits=False):
        for gap in day.gaps:
            missing.setdefault(gap.stream.name, {}).setdefault(day.chain, []).append(gap.partition.as_of)
    return missing
