"""Rebuild of the lake from the archive: the same rows, no request, and no loss."""

from __future__ import annotations

import hashlib
import os
import shutil
import time
from datetime import datetime
from pathlib import Path
from typing import Any

import pyarrow.compute as pc
import pytest
from typer.testing import CliRunner

from holderlake.assets import STREAMS
from holderlake.assets.chains import CHAINS
from holderlake.assets.holders import HOLDERS
from holderlake.assets.maps import MAPS
from holderlake.cli.main import app
from holderlake.core.archive import provenance
from holderlake.core.contract.tables import TABLES
from holderlake.core.contract.times import utc_now
from holderlake.core.decoding.answers import Decoded
from holderlake.core.lake.lake import LakeError
from holderlake.core.workspace import Workspace
from holderlake.operations.maintenance import rebuild_lake as rebuilding
from holderlake.operations.maintenance import replay_commits as replaying
from holderlake.operations.maintenance.rebuild_lake import rebuild
from tests.helpers.filling import MakeWorkspace, fill, spoil
from tests.helpers.processes import DEVNULL, start_holderlake

pytestmark = [pytest.mark.integration, pytest.mark.usefixtures("home_with_warehouse")]
MAY = datetime(2026, 5, 1)
JUNE = datetime(2026, 6, 1, 12, 30, 15)


def hashes(folder: Path) -> dict[str, str]:
    """The Parquet files of a lake by name."""
    files = sorted(folder.rglob("*.parquet"))
    return {str(path.relative_to(folder)): hashlib.sha256(path.read_bytes()).hexdigest() for path in files}


def rows(workspace: Workspace) -> dict[str, list[Any]]:
    """The warehouse's tables, in an order of their own."""
    return {name: workspace.warehouse.query(f"FROM {name} ORDER BY ALL").to_pylist() for name in TABLES}


def covered(workspace: Workspace) -> list[Any]:
    return [(one.family, one.chain, one.timestamp, one.covered, one.tables) for one in workspace.lake.manifests()]


def forget_lake(workspace: Workspace) -> None:
    shutil.rmtree(workspace.settings.lake_folder)
    workspace.settings.warehouse.unlink(missing_ok=True)


def test_lake_and_warehouse_are_rebuilt_equal_without_a_request(
    sample_service: Any, make_workspace: MakeWorkspace
) -> None:
    """Several chains, instants and families, with failures, a refresh and the live instant among them."""
    workspace = make_workspace()
    known = workspace.settings.watchlist["eth"]
    watched = {"eth": [*known[:3], "0x" + "9" * 40], "bsc": workspace.settings.watchlist["bsc"]}
    workspace = make_workspace(watchlist=watched)
    now = utc_now().replace(microsecond=0)
    for chain in ("eth", "bsc"):
        for stream in STREAMS:
            fill(workspace, stream, chain, MAY, JUNE, now)
    fill(workspace, HOLDERS, "eth", MAY, refresh=True)
    fill(workspace, CHAINS, "eth", MAY, refresh=True)
    workspace.warehouse.load(workspace.lake)
    before = hashes(workspace.settings.lake_folder), covered(workspace), rows(workspace)
    ledger, bill = workspace.ledger.report("endpoint"), sample_service.keys.usage()
    assert workspace.lake.read("failures").num_rows > 1

    forget_lake(workspace)
    report = rebuild(workspace)

    assert report.is_whole
    assert (hashes(workspace.settings.lake_folder), covered(workspace), rows(workspace)) == before
    assert (workspace.ledger.report("endpoint"), sample_service.keys.usage()) == (ledger, bill)
    assert {path.name for path in workspace.settings.home.iterdir() if "rebu" in path.name} <= {"lake.rebuilding.lock"}


@pytest.mark.long
def test_later_settings_do_not_change_a_rebuild(make_workspace: MakeWorkspace) -> None:
    first, second, *_ = make_workspace().settings.watchlist["eth"]
    workspace = make_workspace(watchlist={"eth": [first]})
    fill(workspace, HOLDERS, "eth", MAY)
    fill(workspace, HOLDERS, "eth", MAY, only=[second])
    before = hashes(workspace.settings.lake_folder)
    other = make_workspace(watchlist={"base": []}, holders={"limit": 250, "with_metadata": False})
    forget_lake(workspace)
    assert rebuild(other).is_whole
    assert hashes(workspace.settings.lake_folder) == before


@pytest.mark.long
def test_a_new_decoder_rebuilds_all_history(make_workspace: MakeWorkspace, monkeypatch: pytest.MonkeyPatch) -> None:
    workspace = make_workspace()
    fill(workspace, HOLDERS, "eth", MAY, JUNE)
    old = workspace.lake.read("holders")
    calls, was = workspace.ledger.report("endpoint"), HOLDERS.decode

    def doubled(*arguments: Any) -> Decoded:
        table = was(*arguments).tables["holders"]
        place = table.column_names.index("rank")
        return Decoded({"holders": table.set_column(place, table.schema.field(place), pc.multiply(table["rank"], 2))})

    from dataclasses import replace

    monkeypatch.setitem(replaying._STREAMS, "holders", replace(HOLDERS, decode=doubled))  # type: ignore[arg-type]
    rebuild(workspace)
    new = workspace.lake.read("holders")
    assert new["rank"].to_pylist() == [rank * 2 for rank in old["rank"].to_pylist()]
    assert new.drop_columns(["rank"]) == old.drop_columns(["rank"])
    assert workspace.warehouse.query("SELECT min(rank) AS least FROM holders").to_pylist() == [{"least": 2}]
    assert workspace.ledger.report("endpoint") == calls


@pytest.mark.long
def test_missing_and_damaged_answers_are_named_and_the_rest_rebuilt(make_workspace: MakeWorkspace) -> None:
    workspace = make_workspace()
    fill(workspace, HOLDERS, "eth", MAY)
    answers = sorted(workspace.archive, key=lambda answer: answer.digest)
    lost, damaged = answers[:2]
    stored = {one.digest: one for one in workspace.archive.stored()}
    spoil(workspace.archive, stored[damaged.digest])
    workspace.archive.remove([stored[lost.digest]])
    tokens = set(workspace.lake.read("holders")["token_address"].to_pylist())
    forget_lake(workspace)
    report = rebuild(workspace)
    assert not report.is_whole
    assert {one.digest for one in report.missing} == {lost.digest, damaged.digest}
    failed = [row for row in workspace.lake.read("failures").to_pylist() if row["code"] == "not_in_archive"]
    assert {row["subject"] for row in failed} == {str(answer.request["path"]).split("/")[-1] for answer in answers[:2]}
    left = set(workspace.lake.read("holders")["token_address"].to_pylist())
    assert left == tokens - {row["subject"] for row in failed}


@pytest.mark.long
def test_a_partition_with_a_missing_answer_keeps_its_old_rows(make_workspace: MakeWorkspace) -> None:
    workspace = make_workspace()
    fill(workspace, HOLDERS, "eth", MAY, JUNE)
    before = hashes(workspace.settings.lake_folder)
    workspace.archive.remove([next(workspace.archive.stored())])
    report = rebuild(workspace)
    assert [one.kept for one in report.missing] == [True]
    assert hashes(workspace.settings.lake_folder) == before


@pytest.mark.long
def test_partitions_without_records_are_copied(make_workspace: MakeWorkspace) -> None:
    workspace = make_workspace()
    fill(workspace, HOLDERS, "eth", MAY)
    fill(workspace, CHAINS, "eth", MAY)
    before = hashes(workspace.settings.lake_folder), covered(workspace)
    for path in provenance.records(workspace.archive):
        if path.parent.name == "holders":
            path.unlink()
    report = rebuild(workspace)
    assert report.carried == ["holders eth 20260501T000000Z"]
    assert (hashes(workspace.settings.lake_folder), covered(workspace)) == before


@pytest.mark.long
def test_an_interrupted_rebuild_keeps_the_old_lake(
    make_workspace: MakeWorkspace, monkeypatch: pytest.MonkeyPatch
) -> None:
    workspace = make_workspace()
    fill(workspace, HOLDERS, "eth", MAY, JUNE)
    workspace.warehouse.load(workspace.lake)
    before = hashes(workspace.settings.lake_folder)
    with monkeypatch.context() as patched, pytest.raises(KeyboardInterrupt):
        patched.setattr(rebuilding, "replace_lake", _interrupted)
        rebuild(workspace)
    assert hashes(workspace.settings.lake_folder) == before
    assert rebuild(workspace).is_whole
    assert hashes(workspace.settings.lake_folder) == before


@pytest.mark.parametrize(
    "sign",
    [
        "lake.rebuilding/holders",
        pytest.param("lake.rebuilding/_manifests", marks=pytest.mark.long),
        pytest.param("warehouse.duckdb.rebuilt*", marks=pytest.mark.long),
    ],
)
def test_a_killed_rebuild_is_finished_by_the_next(make_workspace: MakeWorkspace, sign: str) -> None:
    workspace = make_workspace()
    for stream in (CHAINS, HOLDERS):
        fill(workspace, stream, "eth", MAY, JUNE)
    before = hashes(workspace.settings.lake_folder)
    environment = os.environ | {"HOLDERLAKE_HOME": str(workspace.settings.home)}
    running = start_holderlake("home", "rebuild", env=environment, stdout=DEVNULL, stderr=DEVNULL)
    while running.poll() is None and not list(workspace.settings.home.glob(sign)):
        time.sleep(0.002)
    running.kill()
    running.wait()
    assert hashes(workspace.settings.lake_folder) == before
    assert rebuild(workspace).is_whole
    assert hashes(workspace.settings.lake_folder) == before


@pytest.mark.long
def test_a_rebuild_killed_during_the_replacement_loses_nothing(make_workspace: MakeWorkspace) -> None:
    workspace = make_workspace()
    fill(workspace, HOLDERS, "eth", MAY)
    before = hashes(workspace.settings.lake_folder)
    workspace.settings.lake_folder.rename(workspace.settings.home / "lake.before")
    fill(workspace, CHAINS, "eth", MAY)  # ingested since
    (workspace.settings.home / "warehouse.duckdb.rebuilt.loading" / "x").mkdir(parents=True)  # of the killed load
    assert rebuild(workspace).is_whole
    after = hashes(workspace.settings.lake_folder)
    assert before.items() < after.items()
    assert not list(workspace.settings.home.glob("warehouse.duckdb.rebuilt*"))


@pytest.mark.long
def test_a_refused_map_is_refused_with_the_same_message(make_workspace: MakeWorkspace) -> None:
    workspace = make_workspace()
    fill(workspace, MAPS, "bsc", MAY)
    before = workspace.lake.read("failures")
    forget_lake(workspace)
    rebuild(workspace)
    assert before.num_rows
    assert workspace.lake.read("failures") == before


def test_an_archive_without_records_is_refused(make_workspace: MakeWorkspace) -> None:
    with pytest.raises(LakeError, match="no commit records"):
        rebuild(make_workspace())


def test_only_a_repair_has_a_dry_run(tmp_path: Path) -> None:
    result = CliRunner().invoke(app, ["home", "rebuild", "--dry-run"], env={"HOLDERLAKE_HOME": str(tmp_path)})
    assert "--dry-run needs --damaged" in str(result.exception)


@pytest.mark.long
def test_rebuild_exits_3_when_a_part_is_missing(make_workspace: MakeWorkspace, monkeypatch: pytest.MonkeyPatch) -> None:
    workspace = make_workspace()
    fill(workspace, HOLDERS, "eth", MAY)
    monkeypatch.setenv("HOLDERLAKE_HOME", str(workspace.settings.home))
    assert CliRunner().invoke(app, ["home", "rebuild", "--json"]).exit_code == 0
    workspace.archive.remove([next(workspace.archive.stored())])
    assert CliRunner().invoke(app, ["home", "rebuild"]).exit_code == 3


def _interrupted(*_: object) -> None:
    raise KeyboardInterrupt
