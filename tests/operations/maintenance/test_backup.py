"""Backups of a home in use, and their restore: the same rows, the same credits, nothing paid again."""

from __future__ import annotations

import hashlib
import json
import os
import shutil
import sqlite3
import threading
from collections.abc import Callable
from contextlib import closing
from datetime import datetime
from pathlib import Path
from typing import Any

import pytest
from typer.testing import CliRunner

from holderlake.assets.holders import HOLDERS
from holderlake.cli.main import app
from holderlake.core.archive import provenance
from holderlake.core.lake.damage import damages, unlisted
from holderlake.core.lake.lake import LakeError
from holderlake.core.settings import Settings
from holderlake.core.settings.sections.lake import LakeSettings
from holderlake.core.workspace import Endpoint, Workspace
from holderlake.engine.settings import store_folder
from holderlake.engine.store.store import Store
from holderlake.operations.maintenance.backup.backup import backup, backups, verify_backups
from holderlake.operations.maintenance.backup.restore import restore
from holderlake.operations.maintenance.rebuild_lake import rebuild
from holderlake.operations.maintenance.replace_lake import only_rebuild
from tests.conftest import RunningService, workspaces_of
from tests.helpers.filling import MakeWorkspace, fill
from tests.helpers.killing import kill_everywhere
from tests.helpers.postgres import PostgresServer
from tests.operations.maintenance.killed_work import backed_up, workspace_of
from tests.operations.maintenance.killed_work import restored as restored_home

pytestmark = pytest.mark.integration

MAY = [datetime(2026, 5, day) for day in range(1, 7)]
QUERY = "SELECT chain, token_address, timestamp, address, amount, share FROM holders ORDER BY ALL"


@pytest.fixture(scope="module")
def home_with_holders(sample_service: RunningService, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A home with one partition of holders."""
    home = tmp_path_factory.mktemp("filled")
    with workspaces_of(sample_service, home) as make:
        workspace = make()
        fill(workspace, HOLDERS, "eth", MAY[0])
        workspace.warehouse.load(workspace.lake)
    return home


@pytest.fixture
def filled(home_with_holders: Path, make_workspace: MakeWorkspace, tmp_path: Path) -> Workspace:
    shutil.copytree(home_with_holders, tmp_path, dirs_exist_ok=True)
    return make_workspace()


@pytest.fixture
def restored(sample_service: Any, tmp_path_factory: pytest.TempPathFactory) -> Callable[[Path], Workspace]:
    """Restore the newest backup of a folder into a new home."""

    def make(folder: Path, **settings: Any) -> Workspace:
        home = tmp_path_factory.mktemp("restored")
        workspace = Workspace(Settings(home=home, **settings), lambda: Endpoint("http://127.0.0.1:9", None, "sample"))
        restore(workspace, folder)
        return workspace

    return make


def names(folder: Path) -> set[str]:
    """Return the paths below a home of the files that a restore must bring back."""
    found = (path.relative_to(folder).as_posix() for path in folder.rglob("*") if path.is_file())
    return {name for name in found if not name.endswith((".lock", "-wal", "-shm", ".running"))}


@pytest.mark.long
def test_a_restored_home_answers_the_same_queries(
    filled: Workspace, restored: Callable[[Path], Workspace], tmp_path_factory: pytest.TempPathFactory
) -> None:
    folder = tmp_path_factory.mktemp("backups")
    spent = filled.ledger.totals().spent
    report = backup(filled, folder)
    home = restored(folder)
    assert (report.problems, home.ledger.totals().spent) == ([], spent)
    assert home.warehouse.query(QUERY).equals(filled.warehouse.query(QUERY))
    assert home.lake.read("holders").equals(filled.lake.read("holders"))
    assert list(damages(home.lake, every_byte=True)) == list(home.archive.damage(every_byte=True)) == []
    assert names(home.settings.home) == names(filled.settings.home)
    rebuild(home)
    assert home.warehouse.query(QUERY).equals(filled.warehouse.query(QUERY))


def test_a_restored_home_pays_nothing_again(
    filled: Workspace, tmp_path_factory: pytest.TempPathFactory, sample_service: Any
) -> None:
    folder, home = tmp_path_factory.mktemp("backups"), tmp_path_factory.mktemp("restored")
    backup(filled, folder)
    settings = filled.settings.model_copy(update={"home": home})
    again = Workspace(settings, filled._endpoint)
    restore(again, folder)
    before = again.ledger.totals()
    fill(again, HOLDERS, "eth", MAY[0])
    again.settings.lake_folder.rename(home / "elsewhere")
    fill(again, HOLDERS, "eth", MAY[0])
    after = again.ledger.totals()
    assert (after.spent, after.reserved) == (before.spent, before.reserved) != (0, 0)
    again.close()


@pytest.mark.long
def test_a_backup_during_a_run_is_consistent(
    make_workspace: MakeWorkspace, restored: Callable[[Path], Workspace], tmp_path_factory: pytest.TempPathFactory
) -> None:
    workspace, writer = make_workspace(), make_workspace()
    folder = tmp_path_factory.mktemp("backups")
    fill(workspace, HOLDERS, "eth", MAY[0])
    began, done = threading.Event(), threading.Event()

    def run() -> None:
        began.wait()
        for day in MAY[1:]:
            fill(writer, HOLDERS, "eth", day, only=writer.settings.watchlist["eth"][:2])
            fill(writer, HOLDERS, "eth", MAY[0], only=writer.settings.watchlist["eth"][:1], refresh=True)
            writer.warehouse.load(writer.lake)
        done.set()

    thread = threading.Thread(target=run, daemon=True)
    thread.start()
    reports = []
    while not done.is_set():
        reports.append(backup(workspace, folder))
        began.set()
    thread.join()
    assert len(reports) > 1
    assert [report.problems for report in reports] == [[]] * len(reports)
    for path in backups(folder)[:: max(1, len(reports) // 4)]:
        home = restored(path)
        assert list(damages(home.lake, every_byte=True)) == list(unlisted(home.lake)) == []
        committed = {(one.family, one.chain, one.timestamp) for one in home.lake.manifests()}
        loaded = (
            home.warehouse.query("SELECT DISTINCT timestamp FROM holders").num_rows if home.warehouse.version else 0
        )
        assert loaded <= len(committed)
        recorded = list(provenance.commits(home.archive))
        assert committed <= {(one.family, one.chain, one.timestamp) for one in recorded}
        answers = [(one.digest, one.sha256) for commit in recorded for group in commit.groups for one in group.asked]
        places = [one for one in recorded if (one.family, one.chain, one.timestamp) in committed]
        kept = {one.digest for one in home.archive.stored()}
        assert {one.digest for commit in places for group in commit.groups for one in group.asked} <= kept
        calls = sum(row.calls for row in home.ledger.report("endpoint"))
        assert calls >= sum(1 for _ in home.archive.stored()) > 0
        assert answers
        home.close()


def test_a_second_backup_copies_only_what_is_new(filled: Workspace, tmp_path_factory: pytest.TempPathFactory) -> None:
    folder = tmp_path_factory.mktemp("backups")
    backup(filled, folder)
    fill(filled, HOLDERS, "eth", MAY[1])
    second = backup(filled, folder)
    one, two = backups(folder)
    same = "home/lake/holders/chain=eth/timestamp=20260501T000000Z/part-0.parquet"
    assert (one / same).stat().st_ino == (two / same).stat().st_ino
    assert (one / "home/warehouse.duckdb").stat().st_ino == (two / "home/warehouse.duckdb").stat().st_ino
    assert 0 < second.copied_bytes < second.bytes / 2
    third = backup(filled, folder)
    assert third.copied_bytes == 0
    assert verify_backups(folder) == []


def test_a_damaged_backup_is_found_and_not_restored(
    filled: Workspace, restored: Callable[[Path], Workspace], tmp_path_factory: pytest.TempPathFactory
) -> None:
    folder = tmp_path_factory.mktemp("backups")
    backup(filled, folder)
    (path,) = backups(folder)
    damaged = next((path / "home/archive/packs").glob("*/*"))
    damaged.write_bytes(damaged.read_bytes()[:-1] + b"x")
    (path / "home/ledger.sqlite").unlink()
    assert set(verify_backups(folder)) == {str(damaged), str(path / "home/ledger.sqlite")}
    home = tmp_path_factory.mktemp("empty")
    with pytest.raises(LakeError, match="is damaged or missing; choose another backup with --backup"):
        restore(Workspace(Settings(home=home), filled._endpoint), folder)
    assert names(home) == set()


def listed_backup(folder: Path, name: str, data: bytes = b"text", **entry: Any) -> Path:
    """A backup with one file of this name, as a stranger could write it. Its entry may be wrong."""
    backup = folder / "20261120T000000Z"
    (backup / "home").mkdir(parents=True)
    held = {"bytes": len(data), "sha256": hashlib.sha256(data).hexdigest(), "mtime_ns": 0}
    listing = {"taken_at": "2026-11-20", "home": "/", "files": {name: held | entry}}
    (backup / "backup.json").write_text(json.dumps(listing))
    return backup


@pytest.mark.parametrize(
    "name",
    [
        "../../x",
        "home/../../x",
        "/tmp/x",
        "home//x",
        "home/./x",
        "home",
        "x",
        "other/x",
        "home/.restored/x",
        "home/.restore.lock",
        "home/x\x00",
    ],
)
def test_a_restore_writes_no_name_outside_the_home(
    tmp_path: Path, restored: Callable[[Path], Workspace], name: str
) -> None:
    listed_backup(tmp_path / "backups", name)
    with pytest.raises(LakeError, match=r"backup\.json is damaged"):
        restored(tmp_path / "backups")
    assert [path.name for path in tmp_path.iterdir()] == ["backups"]


@pytest.mark.parametrize("kind", ["link", "linked folder", "device", "pipe", "larger", "smaller", "folder"])
def test_a_restore_follows_no_link_and_reads_no_more_than_listed(
    tmp_path: Path, restored: Callable[[Path], Workspace], kind: str
) -> None:
    name = "home/sub/x" if kind == "linked folder" else "home/x"
    backup = listed_backup(tmp_path / "backups", name)
    (tmp_path / "outside").mkdir()
    (tmp_path / "outside" / "x").write_bytes(b"text")
    path = backup / "home" / "x"
    match kind:
        case "link":
            path.symlink_to(tmp_path / "outside" / "x")
        case "linked folder":
            (backup / "home" / "sub").symlink_to(tmp_path / "outside")
        case "device":
            path.symlink_to("/dev/zero")
        case "pipe":
            os.mkfifo(path)
        case "folder":
            path.mkdir()
        case _:
            path.write_bytes(b"texts" if kind == "larger" else b"tex")
    assert verify_backups(tmp_path / "backups") == [str(backup / name)]
    with pytest.raises(LakeError, match="is damaged or missing; choose another backup"):
        restored(tmp_path / "backups")


def test_a_restore_refuses_a_link_in_place_of_the_listing(
    tmp_path: Path, restored: Callable[[Path], Workspace]
) -> None:
    backup = listed_backup(tmp_path / "backups", "home/x")
    (backup / "backup.json").unlink()
    (backup / "backup.json").symlink_to("/dev/zero")
    with pytest.raises(LakeError, match=r"backup\.json is damaged"):
        restored(tmp_path / "backups")


def test_a_restore_refuses_a_home_that_is_not_empty(
    filled: Workspace, tmp_path_factory: pytest.TempPathFactory
) -> None:
    folder = tmp_path_factory.mktemp("backups")
    backup(filled, folder)
    before = names(filled.settings.home)
    with pytest.raises(LakeError, match="is not empty: move it away, or set HOLDERLAKE_HOME to another folder"):
        restore(filled, folder)
    assert names(filled.settings.home) == before


def test_an_own_store_is_copied_by_its_catalogue(
    sample_folder: Path, restored: Callable[..., Workspace], tmp_path_factory: pytest.TempPathFactory
) -> None:
    home, folder = tmp_path_factory.mktemp("home"), tmp_path_factory.mktemp("backups")
    with Store(sample_folder) as sample, Store(home / "engine") as store:
        store.add_transfers(sample.query("FROM read_parquet($files) WHERE chain = 'solana'"), "some")
        (home / "engine" / "transfers" / "half-imported.parquet").write_bytes(b"of a running import")
        workspace = Workspace(Settings(home=home), lambda: Endpoint("http://127.0.0.1:9", None, "own store"))
        assert backup(workspace, folder).problems == []
        histories = store.histories()
    copy = restored(folder)
    with Store(store_folder(copy.settings)) as store:
        assert (store.histories(), store.read_all_files()) == (histories, [])
    elsewhere = tmp_path_factory.mktemp("elsewhere") / "store"
    os.rename(store_folder(copy.settings), elsewhere)  # noqa: PTH104
    outside = Workspace(Settings(home=copy.settings.home, engine={"store": elsewhere}), copy._endpoint)
    other = tmp_path_factory.mktemp("other")
    (copy.settings.home / "kept").write_text("so that the home is not empty")
    backup(outside, other)
    elsewhere.rename(elsewhere.with_name("before"))
    restored(other, engine={"store": elsewhere})
    with Store(elsewhere) as store:
        assert store.histories() == histories


@pytest.mark.long
def test_a_home_with_its_lake_in_a_bucket_keeps_ledger_and_warehouse(
    make_workspace: MakeWorkspace, tmp_path_factory: pytest.TempPathFactory
) -> None:
    folder, home = tmp_path_factory.mktemp("backups"), tmp_path_factory.mktemp("restored")
    workspace = make_workspace(lake=LakeSettings(url=f"file://{tmp_path_factory.mktemp('bucket')}"))
    fill(workspace, HOLDERS, "eth", MAY[0])
    workspace.warehouse.load(workspace.lake)
    report = backup(workspace, folder)
    assert report.files == 2
    assert [text.partition(" in ")[0] for text in report.elsewhere] == ["lake and archive"]
    assert f"rclone sync {workspace.settings.lake.url} TARGET" in report.elsewhere[0]
    again = Workspace(workspace.settings.model_copy(update={"home": home}), workspace._endpoint)
    assert restore(again, folder).missing == []
    assert again.ledger.totals().spent == workspace.ledger.totals().spent > 0
    assert again.warehouse.query(QUERY).equals(workspace.warehouse.query(QUERY))
    assert again.lake.read("holders").equals(workspace.lake.read("holders"))
    again.close()


@pytest.mark.parametrize(
    ("url", "text"),
    [(None, "set lake.url to it, or to its copy"), ("file://{}", "has no partitions: restore the bucket")],
)
def test_a_restore_names_a_bucket_that_is_missing(
    url: str | None, text: str, make_workspace: MakeWorkspace, tmp_path_factory: pytest.TempPathFactory
) -> None:
    folder = tmp_path_factory.mktemp("backups")
    workspace = make_workspace(lake=LakeSettings(url=f"file://{tmp_path_factory.mktemp('bucket')}"))
    fill(workspace, HOLDERS, "eth", MAY[0])
    backup(workspace, folder)
    lake = LakeSettings(url=url and url.format(tmp_path_factory.mktemp("empty")))
    changed = {"home": tmp_path_factory.mktemp("restored"), "lake": lake}
    again = Workspace(workspace.settings.model_copy(update=changed), workspace._endpoint)
    (missing,) = restore(again, folder).missing
    assert text in missing


def test_a_restore_names_a_database_that_is_missing(
    postgres_server: PostgresServer,
    make_workspace: MakeWorkspace,
    tmp_path_factory: pytest.TempPathFactory,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    folder, homes = tmp_path_factory.mktemp("backups"), [tmp_path_factory.mktemp("restored") for _ in range(3)]
    first, second = postgres_server.new_database(), postgres_server.new_database()
    workspace = make_workspace(state={"url": first})
    fill(workspace, HOLDERS, "eth", MAY[0])
    workspace.close()
    (part,) = backup(workspace, folder).elsewhere
    assert part.endswith('pg_dump --format=custom --schema=holderlake --file=state.dump "$HOLDERLAKE_STATE__URL"')
    found = []
    for home, url in zip(homes, (first, second, None), strict=True):
        monkeypatch.setenv("HOLDERLAKE_HOME", str(home))
        monkeypatch.delenv("HOLDERLAKE_STATE__URL", raising=False)
        if url is not None:
            monkeypatch.setenv("HOLDERLAKE_STATE__URL", url)
        ended = CliRunner().invoke(app, ["home", "restore", str(folder), "--json"])
        found.append((ended.exit_code, [text.partition(": ")[2] for text in json.loads(ended.stdout)["missing"]]))
    assert found == [
        (0, []),
        (3, ["pg_restore brings it back; without it the next command makes the ledger from the archive"]),
        (3, ["set state.url, HOLDERLAKE_STATE__URL"]),
    ]


@pytest.mark.long
@pytest.mark.parametrize("kills", [1, 11])
def test_a_killed_restore_is_finished_by_the_next(
    filled: Workspace, tmp_path_factory: pytest.TempPathFactory, kills: int
) -> None:
    folder = tmp_path_factory.mktemp("killed")
    backup(filled, folder / "backups")
    homes = [folder / f"home-{number}" for number in range(1 + kills)]
    kill_everywhere("tests.operations.maintenance.killed_work:restored", homes)
    for home in homes[1:]:
        restored_home(home)
        assert names(home) == names(filled.settings.home)


@pytest.mark.parametrize("kills", [1, pytest.param(7, marks=pytest.mark.long)])
def test_a_killed_backup_leaves_the_earlier_ones_and_is_repeated(
    filled: Workspace, tmp_path_factory: pytest.TempPathFactory, kills: int
) -> None:
    folder = tmp_path_factory.mktemp("killed")
    shutil.copytree(filled.settings.home, folder / "home")
    targets = [folder / f"backups-{number}" for number in range(1 + kills)]
    for target in targets:
        backup(workspace_of(folder / "home"), target)
    kill_everywhere("tests.operations.maintenance.killed_work:backed_up", targets)
    for target in targets[1:]:
        before = len(backups(target))
        backed_up(target)
        assert len(backups(target)) == before + 1
        assert verify_backups(target) == []
        assert not (target / ".partial").exists()


def test_no_backup_is_made_while_the_lake_is_rebuilt(
    filled: Workspace, tmp_path_factory: pytest.TempPathFactory
) -> None:
    folder = tmp_path_factory.mktemp("backups")
    with only_rebuild(filled), pytest.raises(LakeError, match="another process rebuilds the lake"):
        backup(filled, folder)
    assert backups(folder) == []
    with pytest.raises(LakeError, match="choose a folder outside"):
        backup(filled, filled.settings.home / "backups")


def test_damage_of_the_home_is_reported_and_the_rest_is_copied(
    filled: Workspace, restored: Callable[[Path], Workspace], tmp_path_factory: pytest.TempPathFactory
) -> None:
    folder = tmp_path_factory.mktemp("backups")
    fill(filled, HOLDERS, "eth", MAY[1])
    (filled.lake.path("holders", "eth", MAY[1])).write_bytes(b"damaged")
    report = backup(filled, folder)
    assert len(report.problems) == 1
    assert "does not match its manifest; its partition is not in the backup" in report.problems[0]
    home = restored(folder)
    assert [one.as_of for one in home.lake.manifests()] == [MAY[0]]


def test_the_commands_back_up_verify_and_restore(
    filled: Workspace, tmp_path_factory: pytest.TempPathFactory, monkeypatch: pytest.MonkeyPatch
) -> None:
    folder, home = tmp_path_factory.mktemp("backups"), tmp_path_factory.mktemp("restored")
    run = CliRunner().invoke
    monkeypatch.setenv("HOLDERLAKE_HOME", str(filled.settings.home))
    made = json.loads(run(app, ["home", "backup", str(folder), "--json"]).output)
    assert (Path(made["folder"]).parent, made["problems"]) == (folder, [])
    assert json.loads(run(app, ["home", "backup", str(folder), "--verify", "--json"]).output) == {"damaged": []}
    assert isinstance(run(app, ["home", "restore", str(folder)]).exception, LakeError)
    monkeypatch.setenv("HOLDERLAKE_HOME", str(home))
    assert json.loads(run(app, ["home", "restore", str(folder), "--json"]).output)["files"] == made["files"]
    assert run(app, ["sql", "SELECT count(*) FROM holders"]).exit_code == 0


def test_a_copied_ledger_is_readable_by_its_owner_only_if_it_was(
    filled: Workspace, tmp_path_factory: pytest.TempPathFactory
) -> None:
    folder = tmp_path_factory.mktemp("backups")
    filled.settings.ledger.chmod(0o600)
    backup(filled, folder)
    (path,) = backups(folder)
    assert (path / "home/ledger.sqlite").stat().st_mode & 0o777 == 0o600
    assert path.stat().st_mode & 0o777 == 0o700
    with closing(sqlite3.connect(path / "home/ledger.sqlite")) as db:
        assert db.execute("PRAGMA integrity_check").fetchone() == ("ok",)
