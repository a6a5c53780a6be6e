"""Events of runs over many partitions: each has the figures of its own partition."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from datetime import datetime, timedelta
from pathlib import Path
from typing import Any

import pytest
from dagster import AssetKey, DagsterInstance, MultiPartitionsDefinition

from holderlake.cli.launch import fill
from holderlake.core.contract.tables import TABLES
from holderlake.core.dagster.partitions import partition_key
from holderlake.core.lake.lake import SIDE_TABLES
from holderlake.core.workspace import Workspace
from holderlake.pipelines.definitions import build_defs
from tests.conftest import RunningService, workspaces_of
from tests.helpers.dagster_fixtures import history_of
from tests.helpers.filling import MakeWorkspace

pytestmark = pytest.mark.integration

FIRST = datetime(2026, 6, 1)
DAYS = [f"2026-06-0{day}" for day in (1, 2, 3)]
TABLE_ASSETS = sorted(set(TABLES) - set(SIDE_TABLES))
Metadata = dict[str, dict[str, Any]]


def _range_run(workspace: Workspace, instance: DagsterInstance) -> None:
    instance.add_dynamic_partitions("chain", ["solana"])
    ends = {"start": f"solana|{DAYS[0]}", "end": f"solana|{DAYS[-1]}"}
    tags = {f"dagster/asset_partition_range_{name}": key for name, key in ends.items()}
    assert build_defs(workspace).resolve_job_def("ingest").execute_in_process(instance=instance, tags=tags).success


def _backfill(workspace: Workspace, instance: DagsterInstance) -> None:
    fill(workspace, instance, ["solana"], [FIRST + timedelta(days=day) for day in range(3)])


def _job_backfill(workspace: Workspace, instance: DagsterInstance) -> bool:
    """Run the asset ``chains`` with the tags that a backfill of a job page gives; return whether it succeeded."""
    instance.add_dynamic_partitions("chain", ["base", "solana"])
    of_first = {"dagster/partition/chain": "base", "dagster/partition/date": "2026-05-01"}
    ends = {"start": "solana|2026-06-01", "end": "solana|2026-06-02"}
    tags = of_first | {f"dagster/asset_partition_range_{name}": key for name, key in ends.items()}
    job, chosen = build_defs(workspace).resolve_job_def("ingest"), [AssetKey("chains")]
    return job.execute_in_process(instance=instance, tags=tags, asset_selection=chosen, raise_on_error=False).success


def test_a_run_of_a_job_backfill_fetches_its_range(make_workspace: MakeWorkspace, instance: DagsterInstance) -> None:
    workspace = make_workspace()
    assert _job_backfill(workspace, instance)
    days = {"solana|2026-06-01", "solana|2026-06-02"}
    assert instance.get_materialized_partitions(AssetKey("chains")) == days
    assert {f"{one.chain}|{one.as_of:%Y-%m-%d}" for one in workspace.lake.manifests()} == days


def test_a_run_fails_if_dagster_cuts_its_range(
    make_workspace: MakeWorkspace, instance: DagsterInstance, monkeypatch: pytest.MonkeyPatch
) -> None:
    workspace, first = make_workspace(), partition_key("solana", FIRST)
    monkeypatch.setattr(MultiPartitionsDefinition, "get_partition_keys_in_range", lambda _, __: [first])
    assert not _job_backfill(workspace, instance)
    assert not list(workspace.lake.manifests())


def _metadata(instance: DagsterInstance, table: str) -> Metadata:
    """Return the metadata of a table's events by day."""
    records = instance.fetch_materializations(AssetKey(table), limit=100).records
    events = [record.asset_materialization for record in records]
    return {
        str(event.partition).partition("|")[2]: {name: value.value for name, value in event.metadata.items()}
        for event in events
        if event
    }


@dataclass(frozen=True)
class Finished:
    """A run over three days that has ended."""

    workspace: Workspace
    instance: DagsterInstance


@pytest.fixture(scope="module", params=[_range_run, _backfill])
def finished(
    request: pytest.FixtureRequest,
    sample_service: RunningService,
    empty_home: Path,
    tmp_path_factory: pytest.TempPathFactory,
) -> Iterator[Finished]:
    """A run over three days, by a job over a range of partitions or by a backfill."""
    home = tmp_path_factory.mktemp("finished")
    with history_of(home, empty_home) as instance, workspaces_of(sample_service, home) as make:
        workspace = make(watchlist={"solana": make().settings.watchlist["solana"][:2]})
        request.param(workspace, instance)
        yield Finished(workspace, instance)


@pytest.mark.long
def test_many_partitions_are_one_run_that_materialises_all_assets(finished: Finished) -> None:
    assert len(finished.instance.get_runs()) == 1
    for table in [*TABLE_ASSETS, "warehouse"]:
        found = finished.instance.get_materialized_partitions(AssetKey(table))
        assert found == {f"solana|{day}" for day in DAYS}, table
    assert finished.workspace.lake.read("maps", "solana", FIRST + timedelta(days=1)).num_rows > 0
    assert finished.workspace.warehouse.query("SELECT count(*) AS n FROM maps")["n"][0].as_py() > 0


@pytest.mark.long
def test_each_event_of_a_long_run_has_the_figures_of_its_partition(finished: Finished) -> None:
    workspace, instance = finished.workspace, finished.instance
    rows = {
        table: {f"{one.as_of:%Y-%m-%d}": one.tables[table].rows for one in workspace.lake.manifests(family)}
        for family, table in (("maps", "map_nodes"), ("holders", "holders"))
    }
    for table, expected in rows.items():
        found = _metadata(instance, table)
        assert {day: own["dagster/row_count"] for day, own in found.items()} == expected, table
        assert not any("instants" in own for own in found.values()), table  # one instant a day is the usual case
    spent = sum(line.spent for line in workspace.ledger.report("endpoint") if line.name in ("map", "holders"))
    reported = [float(own["credits"]) for table in rows for own in _metadata(instance, table).values()]
    assert round(sum(reported) * 100) == spent > 0
    warehouse = _metadata(instance, "warehouse")
    assert [own["instants"] for own in warehouse.values()] == [1, 1, 1]
    stored = workspace.warehouse.query("SELECT sum(row_count)::BIGINT AS rows FROM partitions")["rows"][0].as_py()
    assert sum(own["dagster/row_count"] for own in warehouse.values()) == stored


@pytest.mark.long
def test_only_the_newest_partition_of_a_run_has_plots(finished: Finished) -> None:
    for table in ("holders", "maps"):
        found = _metadata(finished.instance, table)
        plotted = {day for day, own in found.items() for value in own.values() if "data:image/png" in str(value)}
        assert (plotted, sorted(found)) == ({DAYS[-1]}, DAYS), table
