"""A damaged file of a home blocks nothing else, is found by doctor, and is repaired from the archive at no cost."""

from __future__ import annotations

import shutil
from datetime import datetime
from pathlib import Path
from random import Random

import pytest
from typer.testing import CliRunner

from holderlake.assets.holders import HOLDERS
from holderlake.assets.maps import MAPS
from holderlake.assets.tokens import TOKENS
from holderlake.cli.main import app
from holderlake.core.lake.lake import Lake
from holderlake.core.workspace import Workspace
from holderlake.operations.doctor.file_checks import check_files
from holderlake.operations.maintenance.repair_partitions import find_damage, repair, repair_before_run, repair_damaged
from tests.conftest import RunningService, workspaces_of
from tests.helpers.damage import KINDS, damage
from tests.helpers.filling import MakeWorkspace, fill, spoil

pytestmark = pytest.mark.integration

MAY, JUNE = datetime(2026, 5, 1), datetime(2026, 6, 1)


@pytest.fixture(scope="module")
def filled(sample_service: RunningService, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A home with two chains with a token each, at two instants; tests damage copies of it."""
    home = tmp_path_factory.mktemp("filled")
    with workspaces_of(sample_service, home) as make:
        made = of_two_chains(make)
        for chain in ("solana", "eth"):
            for family in (TOKENS, HOLDERS, MAPS):
                fill(made, family, chain, MAY, JUNE)
        made.warehouse.load(made.lake)
    return home


@pytest.fixture
def workspace(filled: Path, make_workspace: MakeWorkspace, tmp_path: Path) -> Workspace:
    shutil.copytree(filled, tmp_path, dirs_exist_ok=True)
    return of_two_chains(make_workspace)


def of_two_chains(make: MakeWorkspace) -> Workspace:
    watched = make().settings.watchlist
    return make(watchlist={chain: watched[chain][:1] for chain in ("solana", "eth")})


def spent(workspace: Workspace) -> int:
    return workspace.ledger.totals().spent


def of_kind(lake: Lake, kind: str) -> Path:
    """A file of a partition of Solana: its manifest, or one of its tables."""
    if kind == "manifest":
        return next(path for path in lake.manifest_paths() if "chain=solana" in str(path) and path.stem == "maps")
    return lake.path(kind, "solana", MAY)


@pytest.mark.later(long=9)
@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("file", ["manifest", "clusters", "holders"])
def test_a_damaged_file_is_found_and_repaired_at_no_cost(workspace: Workspace, file: str, kind: str) -> None:
    before, paid = {name: workspace.lake.read(name) for name in ("holders", "maps", "clusters")}, spent(workspace)
    path = of_kind(workspace.lake, file)
    damage(path, Random(3), kind)
    assert any(str(path.parent.parent.name) in finding.found for finding in check_files(workspace) if not finding.fine)
    workspace.warehouse.load(workspace.lake)
    report = repair_damaged(workspace)
    assert (len(report.repaired), report.is_complete) == (1, True)
    assert {name: workspace.lake.read(name) for name in before} == before
    assert find_damage(workspace.lake) == []
    assert spent(workspace) == paid
    if kind != "delete":
        assert list((workspace.lake.root / "_quarantine").rglob(path.name))


@pytest.mark.long
def test_a_damaged_partition_does_not_keep_others_from_the_warehouse(workspace: Workspace) -> None:
    of_kind(workspace.lake, "manifest").write_text("{")
    workspace.warehouse.path.unlink()
    workspace.warehouse.load(workspace.lake)
    answer = workspace.warehouse.query("SELECT chain, count(DISTINCT timestamp) AS n FROM maps GROUP BY 1 ORDER BY 1")
    assert answer.to_pylist() == [{"chain": "eth", "n": 2}, {"chain": "solana", "n": 1}]


@pytest.mark.parametrize("kind", KINDS)
def test_a_damaged_provider_file_is_restored_from_manifests(workspace: Workspace, kind: str) -> None:
    note = workspace.lake.provider_path
    damage(note, Random(1), kind)
    workspace.check()
    repair_damaged(workspace)
    assert workspace.lake.provider == "sample"


def test_a_run_repairs_the_partitions_that_it_fills(workspace: Workspace, caplog: pytest.LogCaptureFixture) -> None:
    before = workspace.lake.read("holders")
    damage(of_kind(workspace.lake, "holders"), Random(1), "flip")
    repair_before_run(workspace, ["solana"], {"20260501T000000Z"}, every_byte=True)
    assert workspace.lake.read("holders") == before
    assert "holders/solana/20260501T000000Z was repaired from the archive, at no cost" in caplog.text


def test_a_damaged_segment_loses_one_answer_and_names_its_request(workspace: Workspace) -> None:
    stored = next(one for one in workspace.archive.stored() if "/map/" in one.request["path"])
    others = len(list(workspace.archive.stored())) - 1
    spoil(workspace.archive, stored)
    repair_damaged(workspace)
    assert len(list(workspace.archive)) == others
    (lost,) = [one for one in check_files(workspace) if "lost answer" in one.found]
    assert f"lost answer {stored.digest}: the map request (" in lost.found


@pytest.mark.long
def test_a_rebuild_keeps_files_that_no_manifest_lists(workspace: Workspace) -> None:
    stray = workspace.lake.root / "holders" / "notes.txt"
    stray.write_text("mine")
    of_kind(workspace.lake, "holders").write_bytes(b"damaged")
    result = CliRunner().invoke(app, ["home", "rebuild"], env={"HOLDERLAKE_HOME": str(workspace.settings.home)})
    assert result.exit_code == 0, result.output
    kept = [path.read_bytes() for path in (workspace.lake.root / "_quarantine").rglob("*") if path.is_file()]
    assert b"mine" in kept


@pytest.mark.long
def test_a_rebuild_keeps_rows_whose_record_is_damaged(workspace: Workspace) -> None:
    before = workspace.lake.read("holders")
    for path in (workspace.archive.root / "journal").rglob("timestamp=20260501*/holders/*.zst"):
        damage(path, Random(1), "truncate")
    CliRunner().invoke(app, ["home", "rebuild"], env={"HOLDERLAKE_HOME": str(workspace.settings.home)})
    assert workspace.lake.read("holders") == before


@pytest.mark.long
@pytest.mark.parametrize("kind", [kind for kind in KINDS if kind != "flip"])
def test_a_damaged_warehouse_is_rebuilt_from_the_lake(workspace: Workspace, kind: str) -> None:
    before = workspace.warehouse.query("FROM maps ORDER BY ALL")
    damage(workspace.warehouse.path, Random(1), kind)
    workspace.warehouse.set_damaged_aside()
    workspace.warehouse.load(workspace.lake)
    assert workspace.warehouse.query("FROM maps ORDER BY ALL") == before


def test_rebuild_takes_a_partition_by_name(workspace: Workspace) -> None:
    workspace.lake.path("holders", "eth", JUNE).unlink()
    report = repair(workspace, [("holders", "eth", "20260601T000000Z")])
    assert report.repaired == ["holders/eth/20260601T000000Z"]
    assert workspace.lake.manifest("holders", "eth", JUNE) is not None
