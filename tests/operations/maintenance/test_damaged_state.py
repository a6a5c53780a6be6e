"""Damaged, emptied and unusable state of a home: one sentence with the remedy, and no credit forgotten."""

from __future__ import annotations

import gc
import json
import shutil
import sqlite3
import subprocess
from collections.abc import Iterator
from contextlib import closing, suppress
from datetime import datetime, timedelta
from pathlib import Path
from random import Random
from typing import Any

import pytest
from dagster import DagsterInstance
from pydantic import SecretStr
from typer.testing import CliRunner

from holderlake.assets.holders import HOLDERS
from holderlake.assets.maps import MAPS
from holderlake.cli.launch import ingest_day
from holderlake.cli.main import app, shared
from holderlake.core.provider.errors import AnswerNotKept
from holderlake.core.settings import SettingsError
from holderlake.core.settings.sections.lake import StateSettings
from holderlake.core.settings.sections.schedule import Budget
from holderlake.core.storage.sqlite import DatabaseError
from holderlake.core.workspace import Workspace
from holderlake.operations.doctor.file_checks import check_files
from holderlake.operations.history.instance import dagster_instance
from tests.core.provider.credit_ledger import OneCallLedger
from tests.helpers.damage import KINDS, damage
from tests.helpers.filling import MakeWorkspace, fill
from tests.helpers.postgres import PostgresServer

pytestmark = pytest.mark.integration

MAY = datetime(2026, 5, 1)


@pytest.fixture
def workspace(make_workspace: MakeWorkspace) -> Workspace:
    token = make_workspace().settings.watchlist["solana"][0]
    made = make_workspace(watchlist={"solana": [token]})
    for stream in (HOLDERS, MAPS):
        fill(made, stream, "solana", MAY)
    return made


def reopened(workspace: Workspace) -> Workspace:
    """A workspace over the same home, as the next command opens it."""
    workspace.close()
    gc.collect()
    for file in workspace.settings.home.glob("ledger.sqlite-*"):
        file.unlink()
    return Workspace(workspace.settings, workspace._endpoint)


@pytest.mark.long
@pytest.mark.parametrize("kind", ["empty", "delete"])
def test_an_emptied_ledger_is_restored_from_the_archive(
    workspace: Workspace, kind: str, caplog: pytest.LogCaptureFixture
) -> None:
    spent = workspace.ledger.totals().spent
    again = reopened(workspace)
    damage(workspace.settings.ledger, Random(1), kind)
    assert spent > 0
    assert again.ledger.totals().spent == spent
    assert "list prices were restored (2 calls)" in caplog.text
    assert reopened(again).ledger.totals().spent == spent, "once is enough"


@pytest.mark.long
def test_a_lost_shared_ledger_is_restored_from_the_archive(
    make_workspace: MakeWorkspace, postgres_server: PostgresServer, caplog: pytest.LogCaptureFixture
) -> None:
    url = postgres_server.new_database()
    token = make_workspace().settings.watchlist["solana"][0]
    workspace = make_workspace(watchlist={"solana": [token]}, state=StateSettings(url=SecretStr(url)))
    fill(workspace, HOLDERS, "solana", MAY)
    spent = workspace.ledger.totals().spent
    assert spent > 0
    assert not workspace.settings.ledger.exists()
    workspace.close()
    postgres_server.execute("DROP SCHEMA holderlake CASCADE", url)
    again = Workspace(workspace.settings, workspace._endpoint)
    assert again.ledger.totals().spent == spent
    assert "list prices were restored (1 call)" in caplog.text
    again.close()


@pytest.mark.long
def test_an_older_ledger_gets_the_calls_of_later_days(workspace: Workspace, tmp_path: Path) -> None:
    spent = workspace.ledger.totals().spent
    again = reopened(workspace)
    workspace.settings.ledger.unlink()
    with OneCallLedger(workspace.settings.ledger, now=lambda: datetime(2020, 1, 1)) as older:
        older.settle(older.reserve("old", "map", None, 7), 7)
    assert sum(row.spent for row in again.ledger.report("run")) == spent + 7


@pytest.mark.long
def test_a_refreshed_answer_is_restored_with_its_surcharge(workspace: Workspace) -> None:
    fill(workspace, HOLDERS, "solana", MAY, refresh=True)
    spent = workspace.ledger.totals().spent
    again = reopened(workspace)
    workspace.settings.ledger.unlink()
    assert again.ledger.totals().spent == spent


@pytest.mark.long
def test_answers_that_no_partition_uses_are_restored(workspace: Workspace) -> None:
    spent = workspace.ledger.totals().spent
    again = reopened(workspace)
    workspace.settings.ledger.unlink()
    shutil.rmtree(workspace.settings.archive / "journal")
    assert again.ledger.totals().spent == spent


@pytest.mark.long
def test_charges_without_an_answer_follow_from_the_providers_balance(
    make_workspace: MakeWorkspace, sample_service: Any, tmp_path_factory: pytest.TempPathFactory
) -> None:
    allowance = 1_000_000
    secret = sample_service.keys.create("restore", allowance, custom_plan=True)
    token = make_workspace().settings.watchlist["solana"][0]
    workspace = make_workspace(secret, watchlist={"solana": [token]}, budget=Budget(per_month=allowance / 100))
    elsewhere = Workspace(
        workspace.settings.model_copy(update={"home": tmp_path_factory.mktemp("other")}), workspace._endpoint
    )
    fill(workspace, HOLDERS, "solana", MAY)
    own = workspace.ledger.totals().spent
    fill(elsewhere, MAPS, "solana", MAY)  # stands for calls that were charged and brought no answer
    other = elsewhere.ledger.totals().spent
    elsewhere.close()
    again = reopened(workspace)
    workspace.settings.ledger.unlink()
    assert again.ledger.totals().spent == own
    fill(again, HOLDERS, "solana", MAY - timedelta(days=7))  # its answer has the balance
    later = again.ledger.totals()
    assert later.spent == 2 * own
    for _ in range(2):
        again = reopened(again)
        totals = again.ledger.totals()
        assert totals.spent == allowance - (totals.credits_remaining or 0) == 2 * own + other
        assert {row.name for row in again.ledger.report("endpoint")} == {"holders", "not archived"}
    again.close()


@pytest.mark.long
def test_a_ledger_that_was_not_lost_gets_no_charges_of_others(
    make_workspace: MakeWorkspace, sample_service: Any
) -> None:
    secret = sample_service.keys.create("shared", 1_000_000, custom_plan=True)
    token = make_workspace().settings.watchlist["solana"][0]
    workspace = make_workspace(secret, watchlist={"solana": [token]}, budget=Budget(per_month=20_000))
    fill(workspace, HOLDERS, "solana", MAY)
    spent = workspace.ledger.totals().spent
    again = reopened(workspace)
    assert again.ledger.totals().spent == spent
    again.close()


@pytest.mark.long
def test_a_damaged_ledger_is_one_sentence_with_the_remedy(workspace: Workspace) -> None:
    again = reopened(workspace)
    workspace.settings.ledger.write_bytes(b"no database" * 1_000)
    with pytest.raises(
        DatabaseError, match=r"ledger\.sqlite is damaged .*; move it away, and the next command restores"
    ):
        _ = again.ledger


@pytest.mark.long
@pytest.mark.parametrize(
    "change",
    ["entries SET cost = cost + 64", "days SET cost = 0", "runs SET cost = 0", "entries SET state = 'settl%d'"],
)
def test_doctor_finds_ledger_calls_that_contradict_the_sums(workspace: Workspace, change: str) -> None:
    reopened(workspace)
    assert all(one.fine for one in check_files(workspace))
    with closing(sqlite3.connect(workspace.settings.ledger)) as ledger, ledger:
        ledger.executescript("DROP TRIGGER entry_closed; PRAGMA ignore_check_constraints = on")  # as damage does
        ledger.execute(f"UPDATE {change}")
    (found,) = (one for one in check_files(workspace) if not one.fine)
    assert "do not add up to its stored sums" in found.found
    assert "holderlake home rebuild --damaged" in found.advice


@pytest.mark.long
def test_doctor_finds_a_damaged_name_in_a_ledger(workspace: Workspace) -> None:
    reopened(workspace)
    ledger = workspace.settings.ledger
    ledger.write_bytes(ledger.read_bytes().replace(b"ON entries (day)", b"ON entries (d\xe6y)"))
    (found,) = (one for one in check_files(workspace) if not one.fine)
    assert "ledger.sqlite is damaged" in found.found


@pytest.mark.long
def test_a_damaged_time_of_the_remaining_credits_is_forgotten(workspace: Workspace) -> None:
    again = reopened(workspace)
    with closing(sqlite3.connect(workspace.settings.ledger)) as ledger, ledger:
        ledger.execute("INSERT OR REPLACE INTO balance VALUES (1, 5, '2026-11-22T19:35:\x113.6')")
    assert again.ledger.totals().balance_at is None


@pytest.mark.parametrize("name", ["runs.db", "runs/index.db"])
@pytest.mark.parametrize("kind", [kind for kind in KINDS if kind != "flip"])
def test_a_damaged_dagster_history_is_one_sentence_or_replaced(
    empty_history: Path, tmp_path: Path, name: str, kind: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("DAGSTER_HOME", "")
    home = shutil.copytree(empty_history, tmp_path / "dagster")
    damage(home / "history" / name, Random(1), kind)
    try:
        with dagster_instance(home) as instance:
            assert instance.get_runs() == []
            instance.add_dynamic_partitions("chain", ["eth"])
    except DatabaseError as error:
        assert "'holderlake home rebuild --damaged' moves that folder away" in str(error)


@pytest.fixture
def full_home(workspace: Workspace, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Path]:
    """A copy of the workspace's home on a disk without a free byte; only root can mount one."""
    disk = tmp_path_factory.mktemp("disk")
    mount = ["mount", "-t", "tmpfs", "-o", "size=16m", "tmpfs", disk]
    if subprocess.run(mount, capture_output=True, check=False).returncode:
        pytest.skip("mounting a small file system needs root")
    workspace.close()
    home = shutil.copytree(workspace.settings.home, disk / "home")
    for block in (1 << 20, 1):
        with suppress(OSError), (disk / f"filler-{block}").open("wb", buffering=0) as filler:
            while True:
                filler.write(bytes(block))
    yield home
    subprocess.run(["umount", "-l", disk], check=True)


def test_credits_and_doctor_read_a_home_on_a_full_disk(
    full_home: Path, workspace: Workspace, monkeypatch: pytest.MonkeyPatch
) -> None:
    spent = workspace.ledger.totals().spent
    monkeypatch.setenv("HOLDERLAKE_HOME", str(full_home))
    credits = json.loads(CliRunner().invoke(app, ["credits", "--json"]).stdout)
    assert credits["totals"]["spent"] == spent > 0
    examined = CliRunner().invoke(app, ["doctor", "--json"])
    assert isinstance(examined.exception, SystemExit), examined.exception
    findings = json.loads(examined.stdout)
    problems = {found["what"]: (found["found"], found["advice"]) for found in findings if not found["fine"]}
    assert f"{full_home} cannot be written: its disk is full" in problems["disk"][0]
    assert not {"ledger.sqlite", "index.sqlite", "archive"} & problems.keys()
    assert not any(word in advice for _, advice in problems.values() for word in ("rebuild", "delete", "move"))
    refused = CliRunner().invoke(app, ["home", "rebuild", "--damaged"])
    assert "its disk is full" in str(refused.exception)
    assert not (full_home / "damaged").exists()


def test_a_full_disk_is_no_reason_to_move_the_history_away(full_home: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("DAGSTER_HOME", "")
    with pytest.raises(DatabaseError, match="its disk is full"), dagster_instance(full_home / "dagster"):
        pass


def test_a_home_that_is_a_file_is_an_error_of_one_sentence(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "home").write_text("")
    monkeypatch.setenv("HOLDERLAKE_HOME", str(tmp_path / "home" / "below"))
    with pytest.raises(SettingsError, match="is a file; set it to a folder"):
        shared.settings()


def test_a_paid_answer_that_cannot_be_written_is_named_with_its_cost(
    make_workspace: MakeWorkspace, caplog: pytest.LogCaptureFixture
) -> None:
    token = make_workspace().settings.watchlist["solana"][0]
    workspace = make_workspace(watchlist={"solana": [token]})
    workspace.archive.root.mkdir(parents=True)
    (workspace.archive.root / "packs").write_text("a file where a folder should be")
    with pytest.raises(
        AnswerNotKept, match=rf"the paid answer to map solana/{token} as of 20260501T000000Z \(.* credits\)"
    ):
        fill(workspace, MAPS, "solana", MAY)
    assert "could not be written to the archive" in caplog.text
    assert workspace.ledger.totals().reserved > 0, "it counts as spent"


@pytest.mark.long
def test_one_command_loads_the_warehouse_once(make_workspace: MakeWorkspace, instance: DagsterInstance) -> None:
    watched = make_workspace().settings.watchlist
    workspace = make_workspace(watchlist={chain: watched[chain][:1] for chain in ("eth", "solana")})
    versions = [workspace.warehouse.version]
    for chain, loads in (("eth", []), ("solana", ["eth", "solana"])):
        ingest_day(workspace, instance, chain, [MAY], loads=loads)
        versions.append(workspace.warehouse.version)
    assert versions[0] == versions[1] != versions[2]
    assert workspace.warehouse.query("SELECT count(DISTINCT chain) AS n FROM maps")["n"].to_pylist() == [2]
