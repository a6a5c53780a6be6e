"""The warehouse as an asset: every partition that the lake committed since the last load, in one transaction."""

from datetime import datetime, timedelta
from typing import Any, Final

from dagster import (
    AssetExecutionContext,
    AssetsDefinition,
    AssetSpec,
    BackfillPolicy,
    FreshnessPolicy,
    MaterializeResult,
    MetadataValue,
    ResourceParam,
    multi_asset,
)

from holderlake.dagster.assets import DUE, OWNERS, days_of
from holderlake.dagster.partitions import CHAIN_BY_DAY
from holderlake.workspace import Workspace

_MOST_TOKENS: Final = 4
"""Tokens side by side in the metadata of one partition: each takes a quarter of a second."""
_MOST_NAMED: Final = 20
_DESCRIPTION: Final = (
    "**DuckDB, for analysts' SQL.** All tables of the lake under the same names, with views and macros. A load is one "
    "transaction on a copy that replaces the file when it is whole, so no reader ever waits or sees half a load. "
    "Ask it with `holderlake sql`."
)


def warehouse_asset(deps: list[str]) -> AssetsDefinition:
    """The asset ``warehouse``, downstream of all tables."""

    @multi_asset(
        name="warehouse",
        specs=[
            AssetSpec(
                "warehouse",
                deps=deps,
                group_name="warehouse",
                owners=OWNERS,
                kinds={"duckdb"},
                description=_DESCRIPTION,
                freshness_policy=FreshnessPolicy.time_window(fail_window=DUE),
            )
        ],
        partitions_def=CHAIN_BY_DAY,
        backfill_policy=BackfillPolicy.single_run(),
    )
    def warehouse(context: AssetExecutionContext, workspace: ResourceParam[Workspace]) -> MaterializeResult[Any]:
        if workspace.warehouse.is_postponed:
            return MaterializeResult(metadata={"loaded": "with the last chain of this command"})
        report = workspace.warehouse.load(workspace.lake)
        chain, day = days_of(context.partition_keys)[-1]
        return MaterializeResult(
            metadata={
                "dagster/row_count": sum(report.rows.values()),
                "partitions loaded": report.partitions,
                "seconds": round(report.seconds, 2),
                "rows loaded": dict(report.rows),
                "files damaged": list(report.damaged[:_MOST_NAMED]),
                "keys not unique": list(report.duplicates[:_MOST_NAMED]),
                "path": str(workspace.warehouse.path),
                **history_of(workspace, chain, day),
            }
        )

    return warehouse


def history_of(workspace: Workspace, chain: str, day: str, most: int = _MOST_TOKENS) -> dict[str, Any]:
    """Plots of the history of a chain's first watched tokens up to the end of a day (YYYY-MM-DD)."""
    from holderlake.export.history_plots import history_markdown  # noqa: PLC0415 - imports matplotlib: half a second

    until = datetime.fromisoformat(day) + timedelta(days=1) - timedelta(microseconds=1)
    tokens = workspace.settings.watchlist.get(chain, [])[:most]
    plots = history_markdown(workspace.warehouse, chain, tokens, until)
    return {name: MetadataValue.md(text) for name, text in plots.items()}
