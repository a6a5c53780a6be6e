"""Homes whose lake and archive lie in a bucket: a second home continues the first one's work at no cost."""

from __future__ import annotations

import shutil
from datetime import datetime
from pathlib import Path
from typing import Any

import pytest

from holderlake.assets.holders import HOLDERS
from holderlake.assets.maps import MAPS
from holderlake.core.archive import provenance
from holderlake.core.contract.tables import TABLES
from holderlake.core.lake.damage import damages
from holderlake.core.lake.lake import LakeError
from holderlake.core.settings import SettingsError
from holderlake.core.workspace import Workspace
from holderlake.operations.maintenance.move_to_bucket import move_home
from holderlake.operations.maintenance.rebuild_lake import rebuild
from holderlake.operations.maintenance.repair_partitions import repair_damaged
from holderlake.presentation.dataframes import open_lake
from holderlake.scale.bucket.storage import BucketStorage, object_name
from tests.helpers.filling import MakeWorkspace, fill

pytestmark = pytest.mark.integration

MAY = datetime(2026, 5, 1)
JUNE = datetime(2026, 6, 1)


@pytest.fixture
def homes(make_workspace: MakeWorkspace, tmp_path: Path) -> MakeWorkspace:
    """Make the workspace of a home by name; the homes share one bucket."""

    def make(name: str, **settings: Any) -> Workspace:
        workspace = make_workspace(lake={"url": f"file://{tmp_path}/bucket"}, **settings)
        workspace.settings = workspace.settings.model_copy(update={"home": tmp_path / name})
        return workspace

    return make


@pytest.fixture(autouse=True)
def _short_lease(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("holderlake.scale.bucket.writer_lease._SECONDS", 0.0)


def contents(workspace: Workspace) -> dict[str, list[Any]]:
    return {name: workspace.lake.read(name).to_pylist() for name in TABLES}


@pytest.mark.long
def test_a_second_home_pays_for_nothing_that_the_first_one_fetched(sample_service: Any, homes: MakeWorkspace) -> None:
    first, second = homes("first"), homes("second")
    fill(first, MAPS, "eth", MAY, JUNE)
    bill = sample_service.keys.usage()
    results = fill(second, MAPS, "eth", MAY, JUNE)
    assert [(one.calls, one.credits, one.is_new) for one in results] == [(0, 0, False)] * 2
    assert sample_service.keys.usage() == bill
    assert second.warehouse.load(second.lake).partitions == 2
    assert first.lake.read("maps").num_rows == second.warehouse.query("FROM maps").num_rows > 0
    assert not (first.settings.home / "lake").exists()
    assert not (first.settings.home / "archive").exists()


def test_a_second_home_uses_answers_that_a_killed_one_did_not_commit(
    sample_service: Any, homes: MakeWorkspace, monkeypatch: pytest.MonkeyPatch
) -> None:
    first, second = homes("first"), homes("second")
    assert not second.archive.holds("0" * 64)  # so that it has an index from before
    with monkeypatch.context() as patch:
        patch.setattr(BucketStorage, "commit", lambda *_: (_ for _ in ()).throw(KeyboardInterrupt))
        with pytest.raises(KeyboardInterrupt):
            fill(first, HOLDERS, "eth", MAY)
    bill = sample_service.keys.usage()
    (result,) = fill(second, HOLDERS, "eth", MAY)
    assert (result.calls, result.credits) == (0, 0)
    assert sum(result.rows.values()) > 0
    assert sample_service.keys.usage() == bill


def test_a_home_that_may_not_write_pays_for_nothing(
    sample_service: Any, homes: MakeWorkspace, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("holderlake.scale.bucket.writer_lease._SECONDS", 600.0)
    first, second = homes("first"), homes("second")
    fill(first, HOLDERS, "eth", MAY)
    bill = sample_service.keys.usage()
    with pytest.raises(LakeError, match="is written by another home"):
        fill(second, HOLDERS, "eth", JUNE)
    assert sample_service.keys.usage() == bill


@pytest.mark.long
def test_a_bucket_is_rebuilt_from_its_archive_without_a_request(sample_service: Any, homes: MakeWorkspace) -> None:
    first, second = homes("first"), homes("second")
    fill(first, HOLDERS, "eth", MAY, JUNE)
    fill(first, HOLDERS, "eth", MAY, refresh=True)
    before, bill = contents(first), sample_service.keys.usage()
    store = second.lake.storage
    assert isinstance(store, BucketStorage)
    manifest = next(second.lake.manifests("holders"))
    store.objects.put(object_name(manifest, "holders"), b"damaged")
    assert rebuild(second).is_whole
    assert contents(second) == contents(homes("third")) == before
    assert sample_service.keys.usage() == bill
    assert len(list(provenance.commits(second.archive))) == 3
    assert second.warehouse.query("FROM holders").num_rows == len(before["holders"])


def test_a_damaged_partition_of_a_bucket_is_repaired_at_no_cost(sample_service: Any, homes: MakeWorkspace) -> None:
    first, second = homes("first"), homes("second")
    fill(first, HOLDERS, "eth", MAY, JUNE)
    before, bill = contents(first), sample_service.keys.usage()
    store = second.lake.storage
    assert isinstance(store, BucketStorage)
    manifest = next(second.lake.manifests("holders"))
    store.objects.delete([object_name(manifest, "holders")])
    (damage,) = damages(second.lake, every_byte=True)
    assert str(damage) == f"{store.location(manifest, 'holders')} is missing"
    assert repair_damaged(second).repaired == ["holders/eth/20260501T000000Z"]
    assert contents(homes("third")) == before
    assert sample_service.keys.usage() == bill


def test_a_local_home_is_moved_into_a_bucket_at_no_cost(
    sample_service: Any, homes: MakeWorkspace, make_workspace: MakeWorkspace, tmp_path: Path
) -> None:
    local = make_workspace()
    fill(local, HOLDERS, "eth", MAY)
    fill(local, HOLDERS, "eth", MAY, refresh=True)
    before, bill = contents(local), sample_service.keys.usage()
    moved = make_workspace(lake={"url": f"file://{tmp_path}/bucket"})
    with pytest.raises(SettingsError, match="holderlake lake move"):
        moved.check()
    for partitions in (1, 0):
        report = move_home(moved)
        assert (report.partitions, report.refused) == (partitions, [])
    moved.check()
    other = homes("other")
    assert contents(other) == before
    assert len(list(other.archive.stored())) == len(list(local.archive.stored()))
    assert [one.calls for one in fill(other, HOLDERS, "eth", MAY)] == [0]
    assert len(list(provenance.commits(other.archive))) == 2
    assert sample_service.keys.usage() == bill


@pytest.mark.long
def test_a_lake_in_a_bucket_is_read_as_data_frames(
    homes: MakeWorkspace, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    first = homes("first")
    fill(first, HOLDERS, "eth", MAY)
    monkeypatch.setenv("HOLDERLAKE_HOME", str(tmp_path / "analyst"))
    monkeypatch.setenv("HOLDERLAKE_LAKE__URL", f"file://{tmp_path}/bucket")
    for instants in (1, 2):
        found = open_lake().arrow("SELECT count(*) AS rows, count(DISTINCT timestamp) AS instants FROM holders")
        assert found.to_pylist() == [{"rows": first.lake.read("holders").num_rows, "instants": instants}]
        fill(first, HOLDERS, "eth", JUNE)


def test_a_lost_home_is_made_again_from_the_bucket(sample_service: Any, homes: MakeWorkspace) -> None:
    first = homes("first")
    fill(first, HOLDERS, "eth", MAY, JUNE)
    spent, before = first.ledger.report("endpoint"), contents(first)
    first.close()
    shutil.rmtree(first.settings.home)
    again = homes("first")
    assert again.ledger.report("endpoint") == spent
    assert contents(again) == before
