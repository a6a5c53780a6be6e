"""The warehouse as an asset: one load of every partition that the lake committed since the last load."""

from collections.abc import Sequence
from datetime import datetime, timedelta
from typing import Any, Final

from dagster import (
    AssetExecutionContext,
    AssetsDefinition,
    AssetSpec,
    AutomationCondition,
    BackfillPolicy,
    MaterializeResult,
    MetadataValue,
    MultiPartitionsDefinition,
    ResourceParam,
    multi_asset,
)

from holderlake.dagster.assets import OWNERS, asset_key
from holderlake.dagster.failures import step_errors
from holderlake.dagster.partitions import CHAIN_BY_DAY, days_of
from holderlake.workspace import Workspace

_PLOTTED_TOKENS: Final = 4
"""Most tokens with a plot in a partition's metadata. Each plot takes about 0.25 seconds."""
_LISTED: Final = 20
_DESCRIPTION: Final = (
    "**DuckDB, for analysts' SQL.** All tables of the lake under the same names, with views and macros. A load is one "
    "transaction on a copy, which then replaces the file: readers never wait and never see half a load. "
    "Query it with `holderlake sql`."
)
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
) -> AssetsDefinition:
    """Return the asset ``warehouse``, downstream of the tables. It needs the resource ``workspace``."""

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
    )
    def warehouse(context: AssetExecutionContext, workspace: ResourceParam[Workspace]) -> MaterializeResult[Any]:
        if workspace.warehouse.is_postponed:
            return MaterializeResult(metadata={"loaded": "with the last chain of this command"})
        with step_errors(context.op_execution_context, retries=0):
            report = workspace.warehouse.load(workspace.lake)
        chain, day = days_of(context.partition_keys)[-1]
        return MaterializeResult(
            metadata={
                "dagster/row_count": sum(report.rows.values()),
                "partitions loaded": report.partitions,
                "seconds": round(report.seconds, 2),
                "rows loaded": dict(report.rows),
                "files damaged": list(report.damaged[:_LISTED]),
                "keys not unique": list(report.duplicates[:_LISTED]),
                "path": str(workspace.warehouse.path),
                **history_plots(workspace, chain, day),
            }
        )

    return warehouse


def history_plots(workspace: Workspace, chain: str, day: str, tokens: int = _PLOTTED_TOKENS) -> dict[str, Any]:
    """Return plots of the history of a chain's first watched tokens up to the end of a day (YYYY-MM-DD)."""
    from holderlake.export.history_plots import history_markdown  # noqa: PLC0415 - imports matplotlib: half a second

    until = datetime.fromisoformat(day) + timedelta(days=1) - timedelta(microseconds=1)
    chosen = workspace.settings.watchlist.get(chain, [])[:tokens]
    plots = history_markdown(workspace.warehouse, chain, chosen, until)
    return {name: MetadataValue.md(text) for name, text in plots.items()}
