"""Metadata of a table's asset, and of one materialised partition of it.

Dagster stores one event for each table, chain and day, so the metadata are kept small: counts of zero and the number of
instants, if it is 1, are left out, and only the newest partition of a run has a plot.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping, Sequence
from datetime import date, datetime
from typing import Any, Final

from dagster import AssetKey, AssetMaterialization, OpExecutionContext, TableColumn, TableColumnConstraints, TableSchema

from holderlake.core.contract.chains import KNOWN_CHAINS
from holderlake.core.contract.prices import credits_text
from holderlake.core.contract.tables import TABLES
from holderlake.core.dagster.partitions import partition_key
from holderlake.core.dagster.runs import lacks_tokens
from holderlake.core.dagster.versions import chosen_version, code_version, is_logged, provenance
from holderlake.core.extras import is_installed
from holderlake.core.ingest.stream import PartitionResult, Stream
from holderlake.core.lake.lake import Lake
from holderlake.core.registry import Kind
from holderlake.core.workspace import Workspace

TABLE_PLOTS: Final[Kind[Callable[[str, Lake, str, datetime], Mapping[str, Any]]]] = Kind("table_plots")
"""Plots of a table's rows in the lake, of a chain as of an instant, as metadata."""


def asset_key(table: str, key_prefix: Sequence[str] = ()) -> AssetKey:
    """Return the key of a table's asset."""
    return AssetKey([*key_prefix, table])


def column_schema(table: str) -> TableSchema:
    """Return a table's columns as Dagster shows them."""
    return TableSchema(
        [
            TableColumn(
                field.name,
                str(field.type),
                description=field.metadata[b"comment"].decode(),
                constraints=TableColumnConstraints(nullable=field.nullable),
            )
            for field in TABLES[table].schema
        ]
    )


def table_metadata(
    table: str, results: Sequence[PartitionResult], workspace: Workspace, with_plots: bool = False
) -> dict[str, Any]:
    """Return the metadata of one partition of a table: rows and credits, and other counts if they are not zero.

    ``results`` are the ingest's results for one chain and day. ``with_plots`` adds a plot of the newest instant.
    """
    metadata: dict[str, Any] = {
        "dagster/row_count": sum(result.rows.get(table, 0) for result in results),
        "credits": credits_text(sum(result.credits for result in results)),
    }
    counts = {
        "instants": len(results) if len(results) > 1 else 0,
        "failures": sum(result.failures for result in results),
        "revisions": sum(result.revisions for result in results),
        "answers from the engine": sum(result.computed for result in results),
        "skipped": "; ".join(sorted({result.skipped for result in results if result.skipped})),
    }
    metadata |= {name: value for name, value in counts.items() if value}
    if results:
        newest = max(results, key=lambda result: result.as_of)
        if len(results) > 1 or newest.as_of.time().isoformat() != "00:00:00":
            metadata["newest instant"] = f"{newest.as_of.isoformat()}Z"
        if with_plots and is_installed("matplotlib"):
            for plots in TABLE_PLOTS.parts():
                metadata |= plots(table, workspace.lake, newest.chain, newest.as_of)
    return metadata


def log_materialisations(  # noqa: PLR0913 - what each event says
    context: OpExecutionContext,
    stream: Stream,
    table: str,
    days: Mapping[tuple[str, str], Sequence[PartitionResult]],
    workspace: Workspace,
    *,
    tokens: Sequence[str],
    inputs: Mapping[str, str],
    key_prefix: Sequence[str] = (),
    plotted: Collection[tuple[str, str]] = (),
) -> None:
    """Log partitions of a stream's table as materialised, with the request options and tokens of their rows.

    A partition without anything new is left out if its newest event says the same: an event takes 4 kB, and far more
    with a plot.

    ``days`` has the ingest's results by chain and day (YYYY-MM-DD), none for a day without instants. ``tokens`` are
    those of the run (empty for all), and ``inputs`` the tags of ``versions.input_tags``. ``plotted`` are the chains and
    days that get a plot.
    """
    for day, results in days.items():
        version = code_version(results[-1].options) if results else chosen_version(stream, workspace.settings)
        tags = provenance(version, inputs, has_all_tokens=not lacks_tokens(tokens, results))
        asset, key = asset_key(table, key_prefix), partition_key(day[0], datetime.fromisoformat(day[1]))
        if any(result.is_new for result in results) or not is_logged(context.instance, asset, key, tags):
            metadata = table_metadata(table, results, workspace, day in plotted) if results else empty_metadata(*day)
            context.log_event(AssetMaterialization(asset, partition=key, metadata=metadata, tags=tags))


def empty_metadata(chain: str, day: str) -> dict[str, Any]:
    """Return the metadata of a partition for which nothing was fetched: 0 rows.

    For a day (YYYY-MM-DD) before the chain's first block, a sentence says so.
    """
    known_chain = KNOWN_CHAINS.get(chain)
    if known_chain is None or known_chain.first_day is None or date.fromisoformat(day) >= known_chain.first_day:
        return {"dagster/row_count": 0}
    return {
        "dagster/row_count": 0,
        "no data": f"the first block of {chain} is of {known_chain.first_day}; nothing to fetch",
    }


def newest_days(days: Collection[tuple[str, str]]) -> set[tuple[str, str]]:
    """Return the newest day of each chain. ``days`` are pairs of chain and day (YYYY-MM-DD)."""
    return set(dict(sorted(days)).items())
