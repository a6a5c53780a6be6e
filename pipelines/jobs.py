"""Jobs: ``ingest`` materialises partitions of all assets, ``backfill`` many instants in one run.

A grid of instants has gaps, which a range of partitions has not. So the backfill is one step that logs each partition
as materialised when it is in the lake, chain by chain, newest first, and loads the warehouse at the end.
"""

from collections.abc import Collection, Iterable, Mapping, Sequence
from datetime import datetime

from dagster import (
    AssetMaterialization,
    AssetSelection,
    Config,
    Failure,
    JobDefinition,
    OpExecutionContext,
    ResourceParam,
    define_asset_job,
    in_process_executor,
    job,
    op,
)
from dagster._core.definitions.unresolved_asset_job_definition import UnresolvedAssetJobDefinition
from pydantic import Field

from assets.checks import evaluate
from assets.definitions import FAMILIES
from assets.family import Asking, Family, Landed, ingest
from assets.materialise import PERMANENT, metadata_of
from assets.partitions import partition_key
from contract.prices import credits_text
from contract.times import parse_when
from pipelines.plan import families_of
from resources.workspace import Workspace

INGEST = "ingest"
BACKFILL = "backfill"
TRANSFERS = "transfers"


class BackfillConfig(Config):
    """Chains and as-of instants of a backfill; all of the watchlist's chains where none is named."""

    instants: list[str] = Field(description="As-of instants: ISO dates, date-times or unix seconds.")
    chains: list[str] = Field(default=[], description="Only these chains.")
    tokens: list[str] = Field(default=[], description="Only these tokens.")
    tables: list[str] = Field(default=[], description="Only what fills these tables.")
    refresh: bool = Field(default=False, description="Ask anew for what the lake holds already (costs credits).")


@op(description="Fills the lake at each instant that it lacks, and loads the warehouse.", tags={"kind": "parquet"})
async def fill_history(
    context: OpExecutionContext, config: BackfillConfig, workspace: ResourceParam[Workspace]
) -> None:
    """The only step of the backfill. However it ends, Dagster hears of just the partitions that were filled."""
    chains = config.chains or sorted(workspace.settings.watchlist)
    instants = sorted({parse_when(when) for when in config.instants}, reverse=True)
    filled: dict[str, set[tuple[str, str]]] = {}
    try:
        async with workspace.provider(context.run_id) as provider:
            asking = Asking(provider, workspace, config.refresh)
            for chain in chains:
                for family in families_of(config.tables, workspace.settings):
                    days = filled.setdefault(family.name, set())
                    await _fill(context, asking, family, chain, instants, config.tokens, days)
    except PERMANENT as error:
        context.instance.add_run_tags(context.run_id, {"dagster/max_retries": "0"})
        raise Failure(f"{error} What was finished is kept; start the same backfill again to go on.") from error
    finally:
        _load_warehouse(context, workspace, set().union(*filled.values()))
        _check(context, workspace, filled)


async def _fill(
    context: OpExecutionContext,
    asking: Asking,
    family: Family,
    chain: str,
    instants: Sequence[datetime],
    tokens: Sequence[str],
    filled: set[tuple[str, str]],
) -> None:
    """Fills a family's partitions of a chain; adds the (chain, day) pairs that were finished to ``filled``."""
    landed: list[Landed] = []

    def heard(one: Landed) -> None:
        landed.append(one)
        asking.workspace.on_landed(one)

    try:
        await ingest(asking, family, chain, instants, tokens or None, heard)
    finally:
        _log(context, asking.workspace, family, chain, landed, newest=instants[0])
        filled |= {(chain, f"{one.as_of:%Y-%m-%d}") for one in landed}


def _log(
    context: OpExecutionContext,
    workspace: Workspace,
    family: Family,
    chain: str,
    landed: Sequence[Landed],
    newest: datetime,
) -> None:
    context.log.info(
        f"{chain} {family.name}: {len(landed)} partitions, {sum(one.calls for one in landed)} calls, "
        f"{credits_text(sum(one.credits for one in landed))} credits"
    )
    days: dict[str, list[Landed]] = {}
    for one in landed:
        days.setdefault(partition_key(chain, one.as_of), []).append(one)
    for key, of_day in days.items():
        with_plots = key == partition_key(chain, newest)
        for table in family.tables:
            metadata = metadata_of(table, of_day, workspace, with_plots)
            context.log_event(AssetMaterialization(table, partition=key, metadata=metadata))


def _load_warehouse(context: OpExecutionContext, workspace: Workspace, filled: Iterable[tuple[str, str]]) -> None:
    report = workspace.warehouse.load(workspace.lake)
    context.log.info(f"warehouse: {report.partitions} partitions loaded in {report.seconds:.1f} s")
    for chain, day in sorted(filled):
        key = partition_key(chain, datetime.strptime(day, "%Y-%m-%d"))
        context.log_event(AssetMaterialization("warehouse", partition=key))


def _check(
    context: OpExecutionContext, workspace: Workspace, filled: Mapping[str, Collection[tuple[str, str]]]
) -> None:
    """Tries all checks on what was filled. An op can't yield them, so they are reported to Dagster beside the run."""
    for family in FAMILIES:
        days = filled.get(family.name)
        for result in evaluate(workspace.lake, family, days) if days else ():
            if not result.passed:
                table = result.asset_key.to_user_string()
                context.log.warning(f"check {result.check_name} of {table} failed: {result.metadata}")
            context.instance.report_runless_asset_event(result)


@job(
    name=BACKFILL,
    executor_def=in_process_executor,
    description="Fills the lake at many past instants in one run. It never pays twice: started again, it goes on.",
)
def _backfill() -> None:
    fill_history()


def all_jobs(with_transfers: bool = False) -> list[JobDefinition | UnresolvedAssetJobDefinition]:
    """The jobs by name; where nodes are named, the one that imports transfers too."""
    transfers = AssetSelection.assets(TRANSFERS)
    ingest_job = define_asset_job(
        INGEST,
        selection=AssetSelection.all() - transfers if with_transfers else AssetSelection.all(),
        description="Fetches one day of a chain, all tables, and loads the warehouse.",
    )
    if not with_transfers:
        return [ingest_job, _backfill]
    transfers_job = define_asset_job(
        TRANSFERS, selection=transfers, description="Imports one day of a chain's transfers from its nodes."
    )
    return [ingest_job, _backfill, transfers_job]
