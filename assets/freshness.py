"""Asset checks of freshness and completeness: how old each chain's newest data are, which scheduled instants lack data.

They examine all watched chains, not only those of the run, so that a chain without new data is always reported.
"""

from collections.abc import Collection, Iterator, Mapping, Sequence
from datetime import datetime, timedelta
from typing import Any, Final, Protocol, TypeAlias

from dagster import (
    AssetCheckExecutionContext,
    AssetCheckResult,
    AssetChecksDefinition,
    AssetCheckSeverity,
    AssetCheckSpec,
    DagsterInstance,
    multi_asset_check,
)

from holderlake.assets.checks import days_of_run, selected
from holderlake.core.contract.chains import from_first_day
from holderlake.core.dagster.metadata import asset_key
from holderlake.core.dagster.runs import fail_if_incomplete
from holderlake.core.ingest.stream import Stream, left_out_by_settings
from holderlake.core.registry import Kind
from holderlake.core.settings.cron import interval_of
from holderlake.core.workspace import Workspace
from holderlake.resources.workspace import WORKSPACE, workspace_of

FRESH: Final = "is_fresh"
COMPLETE: Final = "is_complete"
_DESCRIPTIONS: Final = {
    FRESH: "The newest answers of each watched chain are at most one interval of the schedule and 12 h old.",
    COMPLETE: "The lake has the data of each chain's scheduled instants: those of the run, and those two hours old.",
}
_GRACE: Final = timedelta(hours=12)
_TIME_TO_FETCH: Final = timedelta(hours=2)
"""Age from which a missing instant of another run fails the check. A younger one may still be fetched by its run."""
_LISTED: Final = 10

Missing: TypeAlias = Mapping[str, Mapping[str, list[datetime]]]
"""Scheduled instants (naive UTC) without complete data, by family and chain."""


class MissingInstants(Protocol):
    """A function that returns the scheduled instants without complete data; None before the first tick.

    Those up to ``until`` (naive UTC) count, and those of ``of_run``: pairs of chain and day (YYYY-MM-DD).
    """

    def __call__(
        self,
        workspace: Workspace,
        instance: DagsterInstance,
        job: str,
        until: datetime,
        of_run: Collection[tuple[str, str]],
    ) -> Missing | None: ...


MISSING_INSTANTS: Final[Kind[MissingInstants]] = Kind("missing_instants")


def freshness_checks(
    streams: Sequence[Stream],
    *,
    key_prefix: Sequence[str] = (),
    resource: str = WORKSPACE,
    job: str = "ingest",
    cron: str | None = None,
) -> AssetChecksDefinition:
    """Return two checks for each stream, ``is_fresh`` and ``is_complete``, on the asset of its first table.

    They need a workspace as the resource ``resource``. ``cron`` is the schedule that fetches the tables, by default
    that of the settings, and ``job`` the name of the job that it runs. If its last run for a day succeeded,
    ``is_complete`` ignores data of that day that the run did not request. In a run of partitions, the step of these
    checks fails if a partition lacks a part of what the run asked for: then the run fails, after all its other steps.
    """
    specs = [
        AssetCheckSpec(name, asset=asset_key(stream.tables[0], key_prefix), description=description)
        for stream in streams
        for name, description in _DESCRIPTIONS.items()
    ]

    @multi_asset_check(
        name="__".join([*key_prefix, "freshness_checks"]),
        specs=specs,
        can_subset=True,
        required_resource_keys={resource},
    )
    def check(context: AssetCheckExecutionContext) -> Iterator[AssetCheckResult]:
        yield from selected(context, results(context, workspace_of(context, resource)))
        if days_of_run(context) is not None:
            fail_if_incomplete(context.instance, context.run.run_id)

    def results(context: AssetCheckExecutionContext, workspace: Workspace) -> Iterator[AssetCheckResult]:
        oldest = workspace.now() - interval_of(cron or workspace.settings.schedule.cron) - _GRACE
        is_completeness_wanted = any(key.name == COMPLETE for key in context.selected_asset_check_keys)
        days = set(days_of_run(context) or ())
        missing = _missing(workspace, context.instance, job, days) if is_completeness_wanted else None
        for stream in streams:
            yield _freshness(workspace, stream, oldest, key_prefix)
            yield _completeness(workspace, stream, missing, key_prefix)

    return check


def newest_instants(workspace: Workspace, stream: Stream) -> dict[str, datetime | None]:
    """Return the newest as-of instant (naive UTC) at which the lake has answers of a stream, by watched chain.

    If the stream's subjects are tokens or chains, all watched chains are in the result, with None for a chain without
    answers. For other streams, chains without answers are left out, because their address sets are optional.
    """
    watched = sorted(workspace.settings.watchlist)
    newest: dict[str, datetime | None] = dict.fromkeys(watched if stream.by in ("token", "chain") else ())
    for manifest in workspace.lake.manifests(stream.name):
        if manifest.chain in watched and manifest.answered:
            newest[manifest.chain] = max(newest.get(manifest.chain) or manifest.as_of, manifest.as_of)
    return newest


def _freshness(workspace: Workspace, stream: Stream, oldest: datetime, key_prefix: Sequence[str]) -> AssetCheckResult:
    if (reason := left_out_by_settings(workspace.settings, stream.name)) is not None:
        return _result(FRESH, stream, key_prefix, passed=True, metadata={"schedule": reason})
    newest_by_chain = {
        chain: when
        for chain, when in newest_instants(workspace, stream).items()
        if from_first_day(chain, [oldest])  # a chain without a block then cannot be late
    }
    return _result(
        FRESH,
        stream,
        key_prefix,
        passed=all(when is not None and when >= oldest for when in newest_by_chain.values()),
        metadata={chain: f"{when.isoformat()}Z" if when else "no answer" for chain, when in newest_by_chain.items()},
    )


def _completeness(
    workspace: Workspace, stream: Stream, missing: Missing | None, key_prefix: Sequence[str]
) -> AssetCheckResult:
    """Return the result of the check ``is_complete`` of a stream. It passes if ``missing`` is None."""
    if missing is None:
        return _result(COMPLETE, stream, key_prefix, passed=True, metadata={"schedule": "it has not run yet"})
    by_chain: dict[str, list[datetime]] = {chain: [] for chain in sorted(workspace.settings.watchlist)}
    by_chain |= missing.get(stream.name, {})
    return _result(
        COMPLETE,
        stream,
        key_prefix,
        passed=not any(by_chain.values()),
        metadata={chain: _listed(instants) for chain, instants in by_chain.items()},
    )


def _missing(
    workspace: Workspace, instance: DagsterInstance, job: str, of_run: Collection[tuple[str, str]]
) -> Missing | None:
    """Return the scheduled instants without complete data; None before the schedule's first tick.

    ``of_run`` are the pairs of chain and day (YYYY-MM-DD) that the run has just fetched.
    """
    until = workspace.now() - _TIME_TO_FETCH
    found: list[Missing | None] = [part(workspace, instance, job, until, of_run) for part in MISSING_INSTANTS.parts()]
    return next((missing for missing in found if missing is not None), None)


def _listed(instants: Sequence[datetime]) -> str:
    if not instants:
        return "complete"
    newest = [f"{when.isoformat()}Z" for when in sorted(instants, reverse=True)]
    ellipsis = f" and {len(newest) - _LISTED} more" if len(newest) > _LISTED else ""
    return f"{len(newest)} missing: {', '.join(newest[:_LISTED])}{ellipsis}"


def _result(
    name: str, stream: Stream, key_prefix: Sequence[str], *, passed: bool, metadata: Mapping[str, Any]
) -> AssetCheckResult:
    return AssetCheckResult(
        passed=passed,
        check_name=name,
        asset_key=asset_key(stream.tables[0], key_prefix),
        severity=AssetCheckSeverity.ERROR if name == COMPLETE else AssetCheckSeverity.WARN,
        metadata=metadata,
    )
