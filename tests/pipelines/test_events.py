"""Events of runs over many partitions: each has the figures of its own partition."""

from __future__ import annotations

from datetime import datetime, timedelta
from typing import Any

import pytest
from dagster import AssetKey, DagsterInstance

from holderlake.workspace import Workspace
from pipelines.definitions import build_defs
from pipelines.runs import fill
from tests.filling import MakeWorkspace

FIRST = datetime(2026, 6, 1)
DAYS = [f"2026-06-0{day}" for day in (1, 2, 3)]
Metadata = dict[str, dict[str, Any]]


def _range_run(workspace: Workspace, instance: DagsterInstance) -> None:
    instance.add_dynamic_partitions("chain", ["solana"])
    ends = {"start": f"solana|{DAYS[0]}", "end": f"solana|{DAYS[-1]}"}
    tags = {f"dagster/asset_partition_range_{name}": key for name, key in ends.items()}
    assert build_defs(workspace).resolve_job_def("ingest").execute_in_process(instance=instance, tags=tags).success


def _backfill(workspace: Workspace, instance: DagsterInstance) -> None:
    fill(workspace, instance, ["solana"], [FIRST + timedelta(days=day) for day in range(3)])


def _metadata(instance: DagsterInstance, table: str) -> Metadata:
    """Return the metadata of a table's events by day."""
    records = instance.fetch_materializations(AssetKey(table), limit=100).records
    events = [record.asset_materialization for record in records]
    return {
        str(event.partition).partition("|")[2]: {name: value.value for name, value in event.metadata.items()}
        for event in events
        if event
    }


@pytest.mark.parametrize("run", [_range_run, _backfill])
def test_each_event_of_a_long_run_has_the_figures_of_its_partition(
    run: Any, make_workspace: MakeWorkspace, instance: DagsterInstance
) -> None:
    tokens = make_workspace().settings.watchlist["solana"][:2]
    workspace = make_workspace(watchlist={"solana": tokens})
    run(workspace, instance)
    rows = {
        table: {f"{one.as_of:%Y-%m-%d}": one.tables[table].rows for one in workspace.lake.manifests(family)}
        for family, table in (("maps", "map_nodes"), ("holders", "holders"))
    }
    for table, expected in rows.items():
        found = _metadata(instance, table)
        assert {day: own["dagster/row_count"] for day, own in found.items()} == expected, table
        assert [own["instants"] for own in found.values()] == [1, 1, 1], table
    spent = sum(line.spent for line in workspace.ledger.report("endpoint") if line.name in ("map", "holders"))
    reported = [float(own["credits"]) for table in rows for own in _metadata(instance, table).values()]
    assert round(sum(reported) * 100) == spent > 0
    warehouse = _metadata(instance, "warehouse")
    assert [own["instants"] for own in warehouse.values()] == [1, 1, 1]
    stored = workspace.warehouse.query("SELECT sum(row_count)::BIGINT AS rows FROM partitions")["rows"][0].as_py()
    assert sum(own["dagster/row_count"] for own in warehouse.values()) == stored


@pytest.mark.parametrize("run", [_range_run, _backfill])
def test_only_the_newest_partition_of_a_run_has_plots(
    run: Any, make_workspace: MakeWorkspace, instance: DagsterInstance
) -> None:
    workspace = make_workspace(watchlist={"solana": make_workspace().settings.watchlist["solana"][:1]})
    run(workspace, instance)
    for table in ("holders", "maps", "warehouse"):
        found = _metadata(instance, table)
        plotted = {day for day, own in found.items() for value in own.values() if "data:image/png" in str(value)}
        assert (plotted, sorted(found)) == ({DAYS[-1]}, DAYS), table
