"""Jobs: ``ingest`` materialises partitions of all assets, ``backfill`` many instants in one run.

A grid of instants has gaps, which a range of partitions has not. So the backfill is one step that logs each partition
as materialised when it is in the lake, and loads the warehouse at the end. It goes stretch by stretch, newest first:
whenever it is stopped, all tables of all chains reach back to about the same day.
"""

import asyncio
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from datetime import datetime
from itertools import groupby
from typing import Final

from dagster import (
    AssetKey,
    AssetMaterialization,
    AssetSelection,
    Config,
    Failure,
    JobDefinition,
    MetadataValue,
    OpExecutionContext,
    ResourceParam,
    define_asset_job,
    in_process_executor,
    job,
    op,
)
from dagster._core.definitions.unresolved_asset_job_definition import UnresolvedAssetJobDefinition
from pydantic import Field

from assets.warehouse import history_of
from holderlake.backfill.paused import Selection, park, unpark
from holderlake.backfill.plan import Plan, make_plan, streams_of
from holderlake.backfill.progress import Progress, Teller
from holderlake.backfill.report import plan_markdown
from holderlake.backfill.scope import within_plan
from holderlake.contract.prices import credits_text
from holderlake.contract.times import parse_when
from holderlake.dagster.alert_checks import evaluate_alerts
from holderlake.dagster.assets import PERMANENT, may_have_cost, metadata_of
from holderlake.dagster.checks import evaluate
from holderlake.dagster.interrupts import end_as_cancelled
from holderlake.dagster.partitions import partition_key
from holderlake.ingest.cancelling import cancelling
from holderlake.ingest.preparing import prepare_run
from holderlake.ingest.run import ingest
from holderlake.ingest.stream import IngestContext, PartitionResult, Stream
from holderlake.ingest.streams.all import STREAMS
from holderlake.provider.errors import Cancelled, TransientError
from holderlake.workspace import Workspace
from pipelines.history import quicken

INGEST = "ingest"
BACKFILL = "backfill"
TRANSFERS = "transfers"
PLAN = "plan"

STRETCH_ANSWERS: Final = 2_048
"""Answers of a family in one stretch, about: enough to be fetched at full pace, few enough to be done in minutes."""


class BackfillConfig(Config):
    """Chains and as-of instants of a backfill; all of the watchlist's chains where none is named."""

    instants: list[str] = Field(description="As-of instants: ISO dates, date-times or unix seconds.")
    chains: list[str] = Field(default=[], description="Only these chains.")
    tokens: list[str] = Field(default=[], description="Only these tokens.")
    tables: list[str] = Field(default=[], description="Only what fills these tables.")
    refresh: bool = Field(default=False, description="Fetch existing data again, with the options of the settings.")
    refresh_since: str = Field(
        default="", description="Resume a refresh that began then: partitions written since are not fetched again."
    )
    plan: str = Field(default="", description="What the plan says; it is made anew where none is given.")


@op(description="Tells what a backfill would cost, and does nothing.", tags={"kind": "plan"})
def plan_history(context: OpExecutionContext, config: BackfillConfig, workspace: ResourceParam[Workspace]) -> None:
    """The only step of the plan: the same tables and sentences as ``holderlake plan``, in the output's metadata."""
    plan = _plan(config, workspace)
    context.add_output_metadata({"plan": MetadataValue.md(plan_markdown(plan)), "credits": credits_text(plan.credits)})


@op(description="Fills the lake at each instant that it lacks, and loads the warehouse.", tags={"kind": "parquet"})
def fill_history(context: OpExecutionContext, config: BackfillConfig, workspace: ResourceParam[Workspace]) -> None:
    """The only step of the backfill. However it ends, Dagster is told of the partitions that were filled."""
    quicken()
    if config.refresh and not config.refresh_since:
        config = config.model_copy(update={"refresh_since": workspace.now().isoformat()})
    run = _Run(context, config, workspace)
    try:
        wanted = dict.fromkeys(run.chains, run.instants)
        prepare_run(workspace, context.run_id, wanted, len(run.families), every_byte=False)
        context.log.info(config.plan or plan_markdown(_plan(config, workspace)))
        asyncio.run(run.carry_out(config))
    except Cancelled as error:
        end_as_cancelled(context.instance, context.run_id, error)
    except (*PERMANENT, TransientError) as error:
        if not isinstance(error, PERMANENT) and not may_have_cost(error):
            raise
        context.instance.add_run_tags(context.run_id, {"dagster/max_retries": "0"})
        has_begun = workspace.prepared_run == context.run_id
        reason = _way_on(config, workspace, error) if has_begun else str(error)
        raise Failure(reason, allow_retries=False) from error
    unpark(workspace, _selection(config, workspace))
    missing = run.progress.partitions - run.progress.landed
    if missing:
        raise Failure(f"{missing:,} partitions got no answer; the others are there. Start the same backfill again.")


class _Run:
    """A backfill under way: what it is for, how far it is, and what Dagster has not heard yet."""

    def __init__(self, context: OpExecutionContext, config: BackfillConfig, workspace: Workspace) -> None:
        self.chains = _chains(config, workspace)
        self.instants = sorted({parse_when(when) for when in config.instants}, reverse=True)
        self.families, _ = within_plan(workspace, streams_of(config.tables, workspace.settings))
        self.progress = Progress(len(self.chains) * len(self.instants) * len(self.families))
        self._context = context
        self._tokens = config.tokens
        self._workspace = workspace
        self._teller = Teller(context.log.info, self.progress)
        self._filled: dict[str, set[tuple[str, str]]] = {family.name: set() for family in self.families}
        self._telling: list[asyncio.Task[None]] = []

    async def carry_out(self, config: BackfillConfig) -> None:
        """Fill all partitions. However that ends, load the warehouse and report what landed to Dagster."""
        # to the microsecond: a partition that was written in the same second before is not refreshed yet
        since = datetime.fromisoformat(config.refresh_since) if config.refresh_since else None
        async with self._workspace.provider(self._context.run_id) as provider:
            with cancelling(provider):
                try:
                    await self._fill_all(IngestContext(provider, self._workspace, config.refresh, since))
                    provider.check_running()
                finally:
                    await self._close()

    async def _fill_all(self, asking: IngestContext) -> None:
        """Fill stretch by stretch. What one brought is reported to Dagster while the next one is fetched."""
        watched = [len(self._workspace.settings.watchlist.get(chain, ())) for chain in self.chains]
        for stretch in stretches(self.instants, len(self._tokens) or max(watched, default=1)):
            for chain in self.chains:
                for family in self.families:
                    await self._fill(asking, family, chain, stretch)

    async def _fill(self, asking: IngestContext, family: Stream, chain: str, stretch: Sequence[datetime]) -> None:
        landed: list[PartitionResult] = []

        def heard(one: PartitionResult) -> None:
            landed.append(one)
            self._teller.add(one)
            self._workspace.on_result(one)

        try:
            await ingest(asking, family, chain, stretch, self._tokens or None, heard)
        finally:
            self._filled[family.name] |= {(chain, f"{one.as_of:%Y-%m-%d}") for one in landed}
            self._telling.append(asyncio.create_task(asyncio.to_thread(self._tell, family, chain, landed)))

    def _tell(self, family: Stream, chain: str, landed: Sequence[PartitionResult]) -> None:
        """Logs the partitions that are new, or that Dagster does not know of yet."""
        days: dict[str, list[PartitionResult]] = {}
        for one in landed:
            days.setdefault(partition_key(chain, one.as_of), []).append(one)
        newest = partition_key(chain, self.instants[0])
        for table in family.tables:
            known = self._context.instance.get_materialized_partitions(AssetKey(table))
            for key, of_day in days.items():
                if key in known and not any(one.is_new for one in of_day):
                    continue
                metadata = metadata_of(table, of_day, self._workspace, with_plots=key == newest)
                self._context.log_event(AssetMaterialization(table, partition=key, metadata=metadata))

    async def _close(self) -> None:
        """Report to Dagster what is not reported yet, load the warehouse and run the checks."""
        await asyncio.gather(*self._telling)
        await asyncio.to_thread(_load_warehouse, self._context, self._workspace, set().union(*self._filled.values()))
        _check(self._context, self._workspace, self._filled)
        self._context.log.info(str(self.progress))


def stretches(instants: Sequence[datetime], tokens: int) -> Iterator[list[datetime]]:
    """The instants in groups of whole days, in their order: those of a group come to some answers for all tokens."""
    most = max(1, STRETCH_ANSWERS // max(1, tokens))
    stretch: list[datetime] = []
    for _, of_day in groupby(instants, key=datetime.date):
        day = list(of_day)
        if stretch and len(stretch) + len(day) > most:
            yield stretch
            stretch = []
        stretch += day
    if stretch:
        yield stretch


def _chains(config: BackfillConfig, workspace: Workspace) -> list[str]:
    return config.chains or sorted(workspace.settings.watchlist)


def _selection(config: BackfillConfig, workspace: Workspace) -> Selection:
    return Selection.of(config.instants, _chains(config, workspace), config.tokens, config.tables, config.refresh_since)


def _plan(config: BackfillConfig, workspace: Workspace) -> Plan:
    instants = sorted({parse_when(when) for when in config.instants})
    chains = _chains(config, workspace)
    return make_plan(
        workspace,
        workspace.provider_id,
        chains,
        instants,
        config.tokens or None,
        tables=config.tables or None,
        refresh=config.refresh,
    )


def _way_on(config: BackfillConfig, workspace: Workspace, error: Exception) -> str:
    """Why a run stopped, and how to go on; it is parked where all that lacks is credits."""
    parked = park(workspace, error, _selection(config, workspace))
    advice = parked.advice if parked else "Start the same backfill again to go on."
    return f"{error} What was finished is kept. {advice}"


def _load_warehouse(context: OpExecutionContext, workspace: Workspace, filled: Iterable[tuple[str, str]]) -> None:
    report = workspace.warehouse.load(workspace.lake)
    context.log.info(f"warehouse: {report.partitions} partitions loaded in {report.seconds:.1f} s")
    known = context.instance.get_materialized_partitions(AssetKey("warehouse")) if not report.partitions else set()
    newest = dict(sorted(filled))
    for chain, day in sorted(filled):
        key = partition_key(chain, datetime.strptime(day, "%Y-%m-%d"))
        if key not in known:
            metadata = history_of(workspace, chain, day, most=1) if newest[chain] == day else None
            context.log_event(AssetMaterialization("warehouse", partition=key, metadata=metadata))


def _check(
    context: OpExecutionContext, workspace: Workspace, filled: Mapping[str, Collection[tuple[str, str]]]
) -> None:
    """Tries all checks on what was filled. An op can't yield them, so they are reported to Dagster beside the run."""
    for family in STREAMS:
        days = filled.get(family.name)
        for result in evaluate(workspace.lake, family, days) if days else ():
            if not result.passed:
                table = result.asset_key.to_user_string()
                workspace.on_check(result)
                context.log.warning(f"check {result.check_name} of {table} failed: {result.metadata}")
            context.instance.report_runless_asset_event(result)
    newest = dict(sorted(set().union(*filled.values())))  # what was before is history, and alerts are about news
    for result in evaluate_alerts(workspace, newest.items()) if newest else ():
        context.instance.report_runless_asset_event(result)


@job(
    name=BACKFILL,
    executor_def=in_process_executor,
    description="Fills the lake at many past instants in one run. It never pays twice: started again, it goes on.",
)
def _backfill() -> None:
    fill_history()


@job(
    name=PLAN,
    executor_def=in_process_executor,
    description="Tells what a backfill would cost before it costs it: launch it with the backfill's own config.",
)
def _planning() -> None:
    plan_history()


def all_jobs(with_transfers: bool = False) -> list[JobDefinition | UnresolvedAssetJobDefinition]:
    """The jobs by name; where nodes are named, the one that imports transfers too."""
    transfers = AssetSelection.assets(TRANSFERS)
    ingest_job = define_asset_job(
        INGEST,
        selection=AssetSelection.all() - transfers if with_transfers else AssetSelection.all(),
        description="Fetches one day of a chain, all tables, and loads the warehouse.",
    )
    if not with_transfers:
        return [ingest_job, _backfill, _planning]
    transfers_job = define_asset_job(
        TRANSFERS, selection=transfers, description="Imports one day of a chain's transfers from its nodes."
    )
    return [ingest_job, _backfill, _planning, transfers_job]
