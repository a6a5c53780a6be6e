"""The jobs ``backfill`` and ``plan``: many instants in one run, and their cost in advance.

The instants of a backfill have gaps, which a range of partitions cannot have. So it is one step, which logs each
partition as materialised when it is in the lake, and loads the warehouse at the end. It works in groups of days, newest
first: whenever it is stopped, all tables of all chains reach back to about the same day.
"""

import asyncio
from collections.abc import Collection, Iterator, Mapping, Sequence
from datetime import datetime
from itertools import groupby, product
from typing import Final

from dagster import (
    AssetKey,
    AssetMaterialization,
    MetadataValue,
    OpExecutionContext,
    ResourceParam,
    in_process_executor,
    job,
    op,
)
from pydantic import Field

from holderlake.assets import STREAMS
from holderlake.assets.checks import evaluate, tag_failed_requests
from holderlake.assets.fetched import POOL, IngestConfig, inputs_of
from holderlake.assets.warehouse import load_warehouse, warehouse_metadata
from holderlake.core.contract.chains import from_first_day
from holderlake.core.contract.prices import credits_text
from holderlake.core.contract.times import parse_when
from holderlake.core.dagster.failures import step_errors
from holderlake.core.dagster.metadata import asset_key, log_materialisations
from holderlake.core.dagster.partitions import partition_key
from holderlake.core.dagster.runs import (
    Work,
    by_day,
    fail_if_incomplete,
    incomplete_days,
    ingest_run,
    is_prepared,
    note_incomplete,
    prepare,
    refresh_start,
)
from holderlake.core.dagster.versions import input_tags
from holderlake.core.dagster.workarounds import log_planned
from holderlake.core.ingest.stream import PartitionResult, Stream
from holderlake.core.setting_types import Texts
from holderlake.core.settings import SettingsError
from holderlake.core.workspace import Workspace
from holderlake.operations.alerts.checks import evaluate_alerts
from holderlake.operations.backfill.instants import chosen_instants
from holderlake.operations.backfill.plan import Plan, make_plan
from holderlake.operations.backfill.progress import Progress, ProgressLog
from holderlake.operations.backfill.report import plan_markdown
from holderlake.operations.backfill.scope import streams_of, within_plan

BACKFILL: Final = "backfill"
PLAN: Final = "plan"

RESUMED: Final = "The sensor 'healing' resumes it, as the same backfill does if you start it again."
_SHOWN_DAYS: Final = 100
"""Newest instants of a chain whose incomplete partitions are logged, because each is an event of a kilobyte a table."""
GROUP_ANSWERS: Final = 2_048
"""Approximate number of a stream's answers in one group of days.

A group is large enough for full speed and takes a few minutes at most.
"""


class BackfillConfig(IngestConfig):
    """Chains and as-of instants of a backfill; by default all chains of the watchlist.

    Give ``from`` (and ``to``, ``every``), as for the commands, or a list of ``instants``.
    """

    start: str = Field(default="", alias="from", description="First as-of instant: a date, date-time or unix seconds.")
    to: str = Field(default="", description="Last as-of instant; by default now.")
    every: str = Field(default="", description="Step between the instants: 1h, 6h, 1d, 1w, 1mo; by default 1d.")
    instants: Texts = Field(default=[], description="As-of instants, instead of from, to and every.")
    chains: Texts = Field(default=[], description="Only these chains.")
    tables: Texts = Field(default=[], description="Only these tables, and those that are fetched with them.")
    refresh_since: str = Field(
        default="", description="Resume a refresh that began then: partitions written since are not fetched again."
    )
    plan: str = Field(default="", description="Text of the plan for the log; by default the plan is computed.")


@op(description="Shows the cost of a backfill, and fetches nothing.", tags={"kind": "plan"})
def plan_history(context: OpExecutionContext, config: BackfillConfig, workspace: ResourceParam[Workspace]) -> None:
    """Add the plan, as ``holderlake plan`` shows it, to the metadata of the output."""
    with step_errors(context):
        plan = _plan(with_instants(config), workspace)
    context.add_output_metadata({"plan": MetadataValue.md(plan_markdown(plan)), "credits": credits_text(plan.credits)})


@op(
    description="Fills the lake at each instant that it lacks, and loads the warehouse.",
    tags={"kind": "parquet"},
    pool=POOL,
)
def fill_history(context: OpExecutionContext, config: BackfillConfig, workspace: ResourceParam[Workspace]) -> None:
    """Run the backfill. Partitions that it filled are logged as materialised, even after an error."""
    with step_errors(context):
        config = with_instants(config)
    if config.refresh and not config.refresh_since:
        config = config.model_copy(
            update={"refresh_since": refresh_start(context.instance, context.run_id).isoformat()}
        )

    def advice(error: Exception) -> str:
        resumed = f" Finished partitions are kept. {RESUMED}" if is_prepared(context.run_id) else ""
        return f"{error}{resumed}"

    with step_errors(context, explain=advice):
        run = _Backfill(context, config, workspace)
        prepare(
            workspace,
            context.run_id,
            run.instants,
            len(run.streams),
            every_byte=False,
        )
        context.log.info(config.plan or plan_markdown(_plan(config, workspace)))
        asyncio.run(run.execute(config))
    fail_if_incomplete(context.instance, context.run_id)


@job(
    name=BACKFILL,
    executor_def=in_process_executor,
    description="Fills the lake at many past instants in one run. Started again, it resumes and pays nothing twice.",
)
def backfill_job() -> None:
    """Fill the lake at many instants."""
    fill_history()


@job(
    name=PLAN,
    executor_def=in_process_executor,
    description="Shows the cost of a backfill. Launch it with the backfill's own config.",
)
def plan_job() -> None:
    """Show the cost of a backfill."""
    plan_history()


class _Backfill:
    """A running backfill: its work, its progress, and the partitions that it has filled."""

    def __init__(self, context: OpExecutionContext, config: BackfillConfig, workspace: Workspace) -> None:
        run_instants = sorted({parse_when(when) for when in config.instants}, reverse=True)
        self.instants = {chain: from_first_day(chain, run_instants) for chain in chains_of(config, workspace)}
        self.streams, _ = within_plan(workspace, streams_of(config.tables, workspace.settings))
        self.progress = Progress(sum(map(len, self.instants.values())) * len(self.streams))
        self._context = context
        self._tokens = config.tokens
        self._workspace = workspace
        self._progress_log = ProgressLog(context.log.info, self.progress)
        self._days_by_stream: dict[str, set[tuple[str, str]]] = {stream.name: set() for stream in self.streams}
        self._incomplete: dict[str, dict[tuple[str, str], set[str]]] = {stream.name: {} for stream in self.streams}
        self._tried: dict[str, list[datetime]] = {}
        self._logging: list[asyncio.Task[None]] = []
        self._in_order = asyncio.Lock()

    async def execute(self, config: BackfillConfig) -> None:
        """Fill all partitions. Then, even after an error, log them, load the warehouse and run the checks."""
        # to the microsecond: a partition that was written in the same second before is not refreshed yet
        since = datetime.fromisoformat(config.refresh_since) if config.refresh_since else None
        try:
            await ingest_run(
                self._workspace,
                self._context.run_id,
                self._work(),
                config.options(since),
                self._progress_log.add,
                self._on_item,
            )
        finally:
            await asyncio.gather(*self._logging)
            for stream in self.streams:
                note_incomplete(self._context.instance, self._context.run_id, stream, self._incomplete[stream.name])
            await asyncio.to_thread(self._show_incomplete)
            await asyncio.to_thread(self._load_warehouse)
            _check(self._context, self._workspace, self._days_by_stream)
            self._context.log.info(str(self.progress))

    def _work(self) -> Iterator[Work]:
        watched = [len(self._workspace.settings.watchlist.get(chain, ())) for chain in self.instants]
        longest = max(self.instants.values(), key=len, default=[])
        for group in groups_of_days(longest, len(self._tokens) or max(watched, default=1)):
            for chain in self.instants:
                if instants := from_first_day(chain, group):
                    yield from ((stream, chain, instants) for stream in self.streams)

    def _on_item(
        self, stream: Stream, chain: str, instants: Sequence[datetime], results: list[PartitionResult]
    ) -> None:
        """Log the complete partitions of a stream and chain, in a thread, while the next ones are fetched."""
        self._tried[chain] = sorted({*self._tried.get(chain, ()), *instants}, reverse=True)
        self._days_by_stream[stream.name] |= by_day(results).keys()
        self._incomplete[stream.name] |= incomplete_days(self._workspace, stream, {chain: instants}, results)
        self._logging.append(asyncio.create_task(self._log_in_order(stream, chain, results)))

    async def _log_in_order(self, stream: Stream, chain: str, results: list[PartitionResult]) -> None:
        async with self._in_order:  # an event refers to the events of its inputs
            await asyncio.to_thread(self._log, stream, chain, results)

    def _log(self, stream: Stream, chain: str, results: Sequence[PartitionResult]) -> None:
        """Log partitions as materialised if they are new, or if Dagster's event log lacks them."""
        instance, newest_day = self._context.instance, (chain, f"{self.instants[chain][0]:%Y-%m-%d}")
        inputs = input_tags(instance, map(asset_key, inputs_of(stream)))
        for table in stream.tables:
            logged_partitions = instance.get_materialized_partitions(AssetKey(table))
            days = {
                day: day_results
                for day, day_results in by_day(results).items()
                if day not in self._incomplete[stream.name]
                and (
                    partition_key(chain, day_results[0].as_of) not in logged_partitions
                    or any(result.is_new for result in day_results)
                )
            }
            log_materialisations(
                self._context,
                stream,
                table,
                days,
                self._workspace,
                tokens=self._tokens,
                inputs=inputs,
                plotted=[newest_day],
            )

    def _show_incomplete(self) -> None:
        """Log the incomplete partitions of the newest days as planned, so that Dagster shows them as failed.

        A step outside an asset plans nothing, so that a partition that was never materialised would only be missing.
        """
        tried = {chain: instants[:_SHOWN_DAYS] for chain, instants in self._tried.items()}
        context = self._context
        for stream in self.streams:
            days = incomplete_days(self._workspace, stream, tried)
            for table, (chain, day) in product(stream.tables, days):
                key = partition_key(chain, datetime.fromisoformat(day))
                log_planned(context.instance, context.run_id, BACKFILL, context.op.name, AssetKey(table), key)

    def _load_warehouse(self) -> None:
        context, workspace = self._context, self._workspace
        filled_days = sorted(set().union(*self._days_by_stream.values()))
        report = load_warehouse(workspace, context.log.info)
        logged_partitions = (
            context.instance.get_materialized_partitions(AssetKey("warehouse")) if not report.partitions else set()
        )
        keys = {day: partition_key(day[0], datetime.fromisoformat(day[1])) for day in filled_days}
        unlogged_days = [day for day in filled_days if keys[day] not in logged_partitions]
        for day, metadata in warehouse_metadata(workspace, unlogged_days).items():
            context.log_event(AssetMaterialization("warehouse", partition=keys[day], metadata=metadata))


def groups_of_days(instants: Sequence[datetime], tokens: int) -> Iterator[list[datetime]]:
    """Yield the instants in order, in groups of whole days with about ``GROUP_ANSWERS`` answers for all tokens."""
    group_size = max(1, GROUP_ANSWERS // max(1, tokens))
    group: list[datetime] = []
    for _, of_day in groupby(instants, key=datetime.date):
        day = list(of_day)
        if group and len(group) + len(day) > group_size:
            yield group
            group = []
        group += day
    if group:
        yield group


def with_instants(config: BackfillConfig) -> BackfillConfig:
    """Return the config with a list of instants in place of ``from``, ``to`` and ``every``.

    Raises ``SettingsError`` if it gives both or neither, or an invalid time or step.
    """
    if config.instants and (config.start or config.to or config.every):
        raise SettingsError("instants cannot be combined with from, to or every; remove instants, or the others")
    if config.instants:
        return config
    if not config.start:
        raise SettingsError("no instants are chosen: give from (and to, every), or a list of instants")
    try:
        instants = chosen_instants(config.start, config.to or None, config.every or None, None)
    except ValueError as error:
        raise SettingsError(str(error)) from error
    listed = [when.isoformat() for when in instants]
    return config.model_copy(update={"instants": listed, "start": "", "to": "", "every": ""})


def chains_of(config: BackfillConfig, workspace: Workspace) -> list[str]:
    """Return the chains of a backfill, by default those of the watchlist."""
    return config.chains or sorted(workspace.settings.watchlist)


def _plan(config: BackfillConfig, workspace: Workspace) -> Plan:
    instants = sorted({parse_when(when) for when in config.instants})
    return make_plan(
        workspace,
        workspace.provider_id,
        chains_of(config, workspace),
        instants,
        config.tokens or None,
        tables=config.tables or None,
        refresh=config.refresh,
    )


def _check(
    context: OpExecutionContext, workspace: Workspace, days_by_stream: Mapping[str, Collection[tuple[str, str]]]
) -> None:
    """Run all checks on the filled and loaded partitions (pairs of chain and day, by stream).

    A step cannot yield these checks, so they are reported outside the run.
    """
    for stream in STREAMS:
        days = days_by_stream.get(stream.name)
        if days:
            tag_failed_requests(context, workspace.lake, stream, days)
        for result in evaluate(workspace, stream, days, are_loaded=True) if days else ():
            if not result.passed:
                workspace.report(result)
                table = result.asset_key.to_user_string()
                context.log.warning(f"check {result.check_name} of {table} failed: {result.metadata}")
            context.instance.report_runless_asset_event(result)
    newest = dict(
        sorted(set().union(*days_by_stream.values()))
    )  # alerts are about recent data: the newest day of each chain
    for result in evaluate_alerts(workspace, newest.items()) if newest else ():
        context.instance.report_runless_asset_event(result)
