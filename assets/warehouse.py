"""The warehouse as an asset: each run loads all partitions of the lake that changed since the last load."""

from collections.abc import Callable, Collection, Sequence
from datetime import timedelta
from typing import Any, Final

from dagster import (
    AssetExecutionContext,
    AssetsDefinition,
    AssetSpec,
    AutomationCondition,
    BackfillPolicy,
    MaterializeResult,
    MultiPartitionsDefinition,
    multi_asset,
)

from holderlake.assets.fetched import OWNERS
from holderlake.core.contract.tables import FAMILY_TABLES
from holderlake.core.dagster.failures import step_errors
from holderlake.core.dagster.metadata import asset_key
from holderlake.core.dagster.partitions import CHAIN_BY_DAY, days_of, keys_of_run
from holderlake.core.dagster.runs import chains_to_load
from holderlake.core.dagster.workarounds import UNLOGGED
from holderlake.core.registry import Kind
from holderlake.core.units import counted
from holderlake.core.warehouse.warehouse import LoadReport
from holderlake.core.workspace import Workspace
from holderlake.resources.workspace import WORKSPACE, workspace_of

AFTER_LOAD: Final[Kind[Callable[[Workspace, Callable[[str], None]], None]]] = Kind("after_load")
"""Functions that a load of the warehouse calls at its end. They get a function that prints a sentence."""

_LISTED: Final = 20
_DESCRIPTION: Final = (
    "DuckDB, for analysts' SQL. All tables of the lake under the same names, with views and macros. A load is one "
    "transaction on a copy, which then replaces the file: readers never wait and never see half a load. "
    "Query it with `holderlake sql`."
)
_STORED_ROWS: Final = """
SELECT chain, strftime(timestamp, '%Y-%m-%d') AS day, sum(row_count)::BIGINT AS row_count,
    count(DISTINCT timestamp) AS instants
FROM partitions
WHERE (chain, strftime(timestamp, '%Y-%m-%d')) IN (SELECT (unnest($1), unnest($2)))
GROUP BY ALL
"""
_EMPTY: Final[dict[str, Any]] = {"dagster/row_count": 0}
_LOAD_WHEN: Final = (
    AutomationCondition.in_latest_time_window(timedelta(days=2))
    & AutomationCondition.any_deps_updated().since_last_handled()
    & ~AutomationCondition.any_deps_in_progress()
    & ~AutomationCondition.in_progress()
).with_label("a table of the last two days was fetched without the warehouse")


def warehouse_asset(
    tables: Sequence[str],
    *,
    key_prefix: Sequence[str] = (),
    partitions_def: MultiPartitionsDefinition = CHAIN_BY_DAY,
    resource: str = WORKSPACE,
) -> AssetsDefinition:
    """Return the asset ``warehouse``, downstream of these tables. It needs a workspace as the resource ``resource``."""

    spec = AssetSpec(
        asset_key("warehouse", key_prefix),
        deps=[asset_key(table, key_prefix) for table in tables],
        group_name="warehouse",
        owners=OWNERS,
        kinds={"duckdb"},
        description=_DESCRIPTION,
        automation_condition=_LOAD_WHEN,
    )

    @multi_asset(
        name="__".join([*key_prefix, "warehouse"]),
        specs=[spec],
        partitions_def=partitions_def,
        backfill_policy=BackfillPolicy.single_run(),
        required_resource_keys={resource},
    )
    def warehouse(context: AssetExecutionContext) -> MaterializeResult[Any]:
        workspace = workspace_of(context, resource)
        if chains_to_load(context.run.tags) == []:
            return MaterializeResult(metadata={"loaded": "with the last chain of this command"})
        with step_errors(context.op_execution_context):
            report = load_warehouse(workspace, context.log.info)
        partitions = keys_of_run(context)
        if not report.partitions and context.instance.get_materialized_partitions(spec.key).issuperset(partitions):
            return MaterializeResult(metadata=UNLOGGED)
        days = days_of(partitions)
        metadata = warehouse_metadata(workspace, days)
        for partition, day in zip(partitions, days, strict=True):
            context.add_asset_metadata(metadata[day], partition_key=partition)
        return MaterializeResult()

    return warehouse


def load_warehouse(workspace: Workspace, say: Callable[[str], None]) -> LoadReport:
    """Load the lake into the warehouse.

    ``say`` gets a sentence about the load with the first messages about damaged files, and those of parts that follow a
    load, such as a publication.
    """
    report = workspace.warehouse.load(workspace.lake)
    rows = counted(sum(report.rows.values()), "row")
    loaded = f"warehouse: {counted(report.partitions, 'partition')} with {rows} loaded in {report.seconds:.1f} s"
    say("\n".join([loaded, *report.damaged[:_LISTED]]))
    for after_load in AFTER_LOAD.parts():
        after_load(workspace, say)
    return report


def warehouse_metadata(
    workspace: Workspace, days: Collection[tuple[str, str]]
) -> dict[tuple[str, str], dict[str, Any]]:
    """Return the metadata of the warehouse's partitions by chain and day (YYYY-MM-DD): numbers of rows and instants."""
    counts = workspace.warehouse.query(_STORED_ROWS, [[chain for chain, _ in days], [day for _, day in days]])
    rows = {(row["chain"], row["day"]): row for row in counts.to_pylist()}
    return {
        day: {"dagster/row_count": row["row_count"], "instants": row["instants"]} if (row := rows.get(day)) else _EMPTY
        for day in days
    }


warehouse = warehouse_asset([table for family in FAMILY_TABLES.values() for table in family])
