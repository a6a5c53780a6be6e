"""An instant is fetched only after it has passed; a partition that was fetched before is found and fetched again.

``workspace.now`` is the clock that decides. Rows get their ``fetched_at`` from the machine;
no test looks at it.
"""

from __future__ import annotations

from datetime import datetime, timedelta
from typing import Any, cast

import msgspec
import pyarrow as pa
import pytest
from dagster import AssetKey, DagsterInstance

from holderlake.assets.holders import HOLDERS
from holderlake.cli.launch import fill as fill_by_job
from holderlake.cli.launch import ingest_day
from holderlake.core.contract.times import InstantAhead
from holderlake.core.dagster.partitions import partition_key
from holderlake.core.dagster.tags import ERROR_TAG
from holderlake.core.ingest.stream import IngestContext, partition_of
from holderlake.core.lake.lake import PartitionUpdate
from holderlake.core.storage.layout import manifest_path
from holderlake.core.workspace import Workspace
from holderlake.errors import RunFailed
from holderlake.operations.backfill.plan import make_plan
from holderlake.pipelines.definitions import build_defs
from tests.helpers.filling import MakeWorkspace, fill

pytestmark = pytest.mark.integration

DAY = datetime(2026, 5, 1)
NOON = DAY + timedelta(hours=12)
MORNING = DAY + timedelta(minutes=5)
CHAIN = "solana"


def _workspace(make_workspace: MakeWorkspace, now: datetime, **settings: Any) -> Workspace:
    """One token on one chain, as of ``now``."""
    tokens = make_workspace().settings.watchlist[CHAIN][:1]
    workspace = make_workspace(watchlist={CHAIN: tokens}, **settings)
    workspace.now = lambda: now
    return workspace


def _instants(workspace: Workspace) -> set[datetime]:
    return {manifest.as_of for manifest in workspace.lake.manifests()}


def _calls(workspace: Workspace) -> int:
    return sum(line.calls for line in workspace.ledger.report("endpoint"))


def test_ingest_refuses_an_instant_ahead_before_it_sends_anything(make_workspace: MakeWorkspace) -> None:
    workspace = _workspace(make_workspace, MORNING)
    with pytest.raises(InstantAhead, match=r"2026-05-01T12:00:00Z lies in the future"):
        fill(workspace, HOLDERS, CHAIN, DAY, NOON)
    assert (_instants(workspace), _calls(workspace)) == (set(), 0)


def test_an_instant_is_fetched_as_soon_as_it_has_passed(make_workspace: MakeWorkspace) -> None:
    workspace = _workspace(make_workspace, NOON)
    fill(workspace, HOLDERS, CHAIN, NOON)
    assert _instants(workspace) == {NOON}


@pytest.mark.long
def test_a_scheduled_run_leaves_later_instants_of_its_day(
    make_workspace: MakeWorkspace, instance: DagsterInstance
) -> None:
    workspace = _workspace(make_workspace, MORNING, schedule={"offsets": ["00:00", "12:00"]})
    _materialise(workspace, instance, DAY)
    assert _instants(workspace) == {DAY}
    workspace.now = lambda: DAY + timedelta(days=1, minutes=5)
    _materialise(workspace, instance, DAY)
    assert _instants(workspace) == {DAY, NOON}


def test_a_day_without_a_passed_instant_is_not_marked_as_materialised(
    make_workspace: MakeWorkspace, instance: DagsterInstance
) -> None:
    workspace = _workspace(make_workspace, MORNING, schedule={"offsets": ["12:00"]})
    assert not _materialise(workspace, instance, DAY)
    assert not instance.get_materialized_partitions(AssetKey("holders"))


@pytest.mark.long
def test_the_jobs_refuse_an_instant_ahead(make_workspace: MakeWorkspace, instance: DagsterInstance) -> None:
    workspace = _workspace(make_workspace, MORNING)
    with pytest.raises(RunFailed, match="lies in the future"):
        fill_by_job(workspace, instance, [CHAIN], [DAY, NOON])
    with pytest.raises(RunFailed, match="lies in the future"):
        ingest_day(workspace, instance, CHAIN, [NOON])
    assert [run.tags[ERROR_TAG] for run in instance.get_runs()] == ["InstantAhead", "InstantAhead"]
    assert (_instants(workspace), _calls(workspace)) == (set(), 0)


def test_a_plan_refuses_an_instant_ahead(make_workspace: MakeWorkspace) -> None:
    workspace = _workspace(make_workspace, MORNING)
    with pytest.raises(InstantAhead):
        make_plan(workspace, workspace.provider_id, [CHAIN], [NOON])


def test_a_partition_committed_before_its_instant_counts_as_missing(make_workspace: MakeWorkspace) -> None:
    workspace = _workspace(make_workspace, NOON)
    fill(workspace, HOLDERS, CHAIN, NOON)
    assert not _missing(workspace)
    _commit_early(workspace)
    assert _missing(workspace) == workspace.settings.watchlist[CHAIN]
    (line,) = make_plan(workspace, workspace.provider_id, [CHAIN], [NOON], tables=["holders"]).lines
    assert line.whole == 0


@pytest.mark.long
def test_a_plan_fetches_an_early_partition_again(make_workspace: MakeWorkspace) -> None:
    workspace = _workspace(make_workspace, NOON)
    fill(workspace, HOLDERS, CHAIN, NOON)
    _rewrite(workspace, NOON - timedelta(hours=11))
    assert _missing(workspace)
    workspace.warehouse.load(workspace.lake)
    assert _found_early(workspace) == [("error", "holders", NOON, 11.0)]
    fill(workspace, HOLDERS, CHAIN, NOON)
    workspace.warehouse.load(workspace.lake)
    assert (_missing(workspace), _found_early(workspace)) == ([], [])


def test_an_answer_archived_before_its_instant_is_not_used(make_workspace: MakeWorkspace) -> None:
    far = datetime(2200, 1, 1)
    workspace = _workspace(make_workspace, far)
    fill(workspace, HOLDERS, CHAIN, far)
    plan = make_plan(workspace, workspace.provider_id, [CHAIN], [far], tables=["holders"])
    assert (plan.calls, plan.lines[0].archived) == (1, 0)
    before = _calls(workspace)
    fill(workspace, HOLDERS, CHAIN, far)
    assert _calls(workspace) == before + 1


def _missing(workspace: Workspace) -> list[str]:
    context = IngestContext(cast(Any, None), workspace)  # selects without a provider
    return context.missing(HOLDERS, partition_of(workspace, CHAIN, NOON)).subjects


def _materialise(workspace: Workspace, instance: DagsterInstance, day: datetime) -> bool:
    """Run the partition of a day as the schedule does, for one table."""
    instance.add_dynamic_partitions("chain", [CHAIN])
    job = build_defs(workspace).resolve_job_def("ingest")
    key = partition_key(CHAIN, day)
    only = [AssetKey("holders")]
    return job.execute_in_process(
        instance=instance, partition_key=key, asset_selection=only, raise_on_error=False
    ).success


def _commit_early(workspace: Workspace) -> None:
    """Change the manifest to one of a version that fetched instants ahead."""
    path = manifest_path(workspace.lake.root, HOLDERS.name, CHAIN, "20260501T120000Z")
    text = msgspec.json.decode(path.read_bytes())
    text["written_at"] = (NOON - timedelta(hours=1)).isoformat()
    path.write_bytes(msgspec.json.encode(text | {"checksum": ""}))


def _rewrite(workspace: Workspace, fetched_at: datetime) -> None:
    """Commit the partition's rows again as if they had been fetched at another time."""
    (manifest,) = workspace.lake.manifests("holders")
    rows = workspace.lake.rows(manifest, "holders")
    place = rows.column_names.index("fetched_at")
    column = pa.repeat(pa.scalar(fetched_at, rows.schema.field(place).type), rows.num_rows)
    workspace.lake.write(
        PartitionUpdate(
            "holders",
            CHAIN,
            NOON,
            {"holders": rows.set_column(place, rows.schema.field(place), column)},
            provider=manifest.provider,
            by="token",
            requested=manifest.covered,
            covered=dict.fromkeys(manifest.covered, fetched_at),
            options=manifest.options,
            final=True,
        )
    )


def _found_early(workspace: Workspace) -> list[tuple[Any, ...]]:
    found = workspace.warehouse.query(
        "SELECT severity, family, timestamp, found FROM data_quality WHERE issue = 'fetched_early'"
    )
    return [tuple(row.values()) for row in found.to_pylist()]
