"""The local engine gives the rows of HTTP without a call; plan, retry and rebuild work with it."""

from __future__ import annotations

import json
import os
import re
import shutil
import signal
from collections.abc import Sequence
from datetime import datetime
from json import dumps
from pathlib import Path
from typing import Any

import pytest
from dagster import AssetKey
from pydantic import ValidationError
from typer.testing import CliRunner

from holderlake.assets.holders import HOLDERS
from holderlake.assets.maps import MAPS
from holderlake.cli.main import app
from holderlake.core.archive.archive import AnswerArchive
from holderlake.core.contract.requests import HoldersOptions
from holderlake.core.contract.tables import TABLES
from holderlake.core.contract.times import from_unix
from holderlake.core.ingest import partition
from holderlake.core.lake.lake import FAILURES, Lake
from holderlake.core.settings import SettingsError, load_settings
from holderlake.core.settings.sections.provider import ProviderSettings
from holderlake.core.workspace import Workspace
from holderlake.core.workspace import make_workspace as make_workspace_of
from holderlake.engine import direct
from holderlake.engine.direct import BulkResult, StoreEngine
from holderlake.engine.store.store import Store
from holderlake.operations.backfill.plan import make_plan
from holderlake.operations.backfill.report import sentences
from holderlake.operations.history.instance import dagster_instance
from holderlake.operations.maintenance.rebuild_lake import rebuild
from holderlake.operations.maintenance.retry_failures import failures, retry
from holderlake.service.billing.keys import KeyStore
from holderlake.service.run import BackgroundService
from tests.engine.world import UINT256, a_token, table, transfer, world
from tests.helpers.filling import MakeWorkspace, fill
from tests.helpers.processes import run
from tests.helpers.sample import the_world

MAY = datetime(2026, 5, 1)
JUNE = datetime(2026, 6, 1, 12, 30, 15)
WORLD = the_world()
PASTS = [WORLD.start + (WORLD.end - WORLD.start) * part / 5 for part in (-1, 1, 3, 5)]
INSTANTS = [past.replace(microsecond=0) for past in reversed(PASTS)]
UNKNOWN = "0x" + "9" * 40
COIN, FINE, LATE = (("eth", "0x" + digits * 20) for digits in ("c0", "f1", "1a"))
_FILL = """
import os, signal, sys
left = int(os.environ.get("DIES_AT", "0"))
def dies(event, arguments):
    global left
    if event == "os.rename" and "/lake/clusters/" in str(arguments[1]):
        left -= 1
        if not left:
            os.kill(os.getpid(), signal.SIGKILL)
sys.addaudithook(dies)
from tests.end_to_end.filler import main
sys.exit(main(*sys.argv[1:]))
"""
"""A backfill that dies in its third commit of maps, before the clusters have their name."""
UNUSED_URL = "http://127.0.0.1:9"
WEEKS = range(1_700_000_000, 1_700_000_000 + 8 * 604_800, 604_800)


@pytest.fixture
def make_direct(sample_service: Any, make_workspace: MakeWorkspace) -> MakeWorkspace:
    """Make workspaces with a local engine and a URL without a server."""

    def make(store: Store | None = None, **settings: Any) -> Workspace:
        workspace = make_workspace(base_url=UNUSED_URL, **settings)
        workspace.filler = StoreEngine(lambda: store or sample_service.store, lambda: "sample")
        return workspace

    return make


def separate(workspace: Workspace, folder: Path) -> Workspace:
    """Return the workspace with a separate lake and archive."""
    workspace.lake, workspace.archive = Lake(folder / "lake"), AnswerArchive(folder / "archive")
    return workspace


def rows(lake: Lake) -> dict[str, list[dict[str, Any]]]:
    """Return all rows in their order, without times of fetching and reasons of failures."""
    found = {}
    for name in TABLES:
        table = lake.read(name)
        varying = [column for column in ("fetched_at", "dt_update") if column in table.column_names]
        found[name] = table.drop_columns(varying).to_pylist()
    for row in found[FAILURES]:
        row["reason"] = re.sub(r", HTTP \d+", "", row["reason"])
    return found


def fill_all(workspace: Workspace, instants: Sequence[datetime]) -> None:
    for chain in workspace.settings.watchlist:
        for family in (HOLDERS, MAPS):
            fill(workspace, family, chain, *instants)


# ---------------------------------------------------------------------- the same rows


@pytest.mark.long
@pytest.mark.parametrize("is_spilled", [False, True])
def test_bulk_rows_equal_those_of_http(
    make_workspace: MakeWorkspace,
    make_direct: MakeWorkspace,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    is_spilled: bool,
) -> None:
    watched = make_workspace().settings.watchlist
    chosen = {"watchlist": watched | {"eth": [*watched["eth"], UNKNOWN]}, "holders": {"with_metadata": True}}
    asked = make_workspace(**chosen)
    computed = separate(make_direct(**chosen), tmp_path / "direct")
    monkeypatch.setattr(direct, "_FIRST_PASS", 20)  # several passes
    if is_spilled:
        monkeypatch.setattr(direct, "_BYTES", 1)
        monkeypatch.setattr(partition, "ANSWERS_AT_ONCE", 1)
    for workspace in (asked, computed):
        fill_all(workspace, INSTANTS)
    expected = rows(asked.lake)
    assert rows(computed.lake) == expected
    assert all(expected[name] for name in (*MAPS.tables, *HOLDERS.tables))
    assert {row["code"] for row in expected[FAILURES]} == {"unknown_token", "unsupported_token", "no_holders"}


@pytest.mark.long
def test_amounts_of_256_bits_are_those_that_come_over_http(
    make_workspace: MakeWorkspace, make_direct: MakeWorkspace, tmp_path: Path
) -> None:
    chain = [
        transfer(f"{name} -> {other}", UINT256 // 5, at, token=COIN)
        for at, (name, other) in enumerate(["ab", "ac", "bd"], 9)
    ]
    fine = [transfer("mint -> a", UINT256, 7, token=FINE), transfer("a -> b", 1, 8, token=FINE)]
    instants = [from_unix(second) for second in (20, 10, 8, 7, 5)]
    chosen: dict[str, Any] = {"watchlist": {"eth": [COIN[1], FINE[1]]}}
    with (
        world(
            transfer("mint -> a", UINT256, 6, token=COIN), *chain, *fine, tokens=[a_token(FINE, decimals=30)]
        ) as store,
        KeyStore(tmp_path / "keys.sqlite") as keys,
        BackgroundService(store, keys) as service,
    ):
        asked = make_workspace(secret=keys.create("test", 10**9), base_url=service.base_url, **chosen)
        computed = separate(make_direct(store, **chosen), tmp_path / "direct")
        for workspace in (asked, computed):
            fill_all(workspace, instants)
        expected = rows(asked.lake)
        assert rows(computed.lake) == expected
    assert max(int(row["amount_exact"] or 0) for row in expected["holders"] if row["token_address"] == COIN[1]) > 2**254
    assert any(row["amount_exact"] for row in expected["clusters"])


# ---------------------------------------------------------------------- as an ingest


def test_bulk_ingest_makes_no_call_and_skips_existing_rows(make_direct: MakeWorkspace) -> None:
    workspace = make_direct()
    (first,) = fill(workspace, MAPS, "eth", MAY)
    (again,) = fill(workspace, MAPS, "eth", MAY)
    assert (first.calls, first.credits, first.computed) == (0, 0, len(workspace.settings.watchlist["eth"]))
    assert (again.rows, again.computed, again.is_new) == (first.rows, 0, False)
    assert workspace.ledger.report("endpoint") == []
    assert workspace.archive.size().answers == 0


def test_partitions_are_written_in_order_with_small_passes(
    make_direct: MakeWorkspace, monkeypatch: pytest.MonkeyPatch
) -> None:
    passes: list[tuple[int, int]] = []
    workspace = make_direct()
    engine = workspace.filler
    assert engine is not None
    holders = engine.holders

    def counted(chain: str, tokens: Sequence[str], instants: Sequence[datetime], options: HoldersOptions) -> BulkResult:
        passes.append((len(tokens), len(instants)))
        return holders(chain, tokens, instants, options)

    monkeypatch.setattr(engine, "holders", counted)
    tokens = len(workspace.settings.watchlist["solana"])
    monkeypatch.setattr(direct, "_FIRST_PASS", 2 * tokens)
    monkeypatch.setattr(direct, "_BYTES", 1)
    landed = fill(workspace, HOLDERS, "solana", *INSTANTS)
    assert [one.as_of for one in landed] == INSTANTS
    assert passes == [(tokens, 2), *[(1, 1)] * tokens * (len(INSTANTS) - 2)]


def test_a_further_token_is_computed_alone_and_a_refresh_computes_all(make_direct: MakeWorkspace) -> None:
    first, second, *_ = make_direct().settings.watchlist["eth"]
    fill(make_direct(watchlist={"eth": [first]}), HOLDERS, "eth", MAY)
    workspace = make_direct(watchlist={"eth": [first, second]})
    assert [one.computed for one in fill(workspace, HOLDERS, "eth", MAY, JUNE)] == [1, 2]
    assert [one.computed for one in fill(workspace, HOLDERS, "eth", MAY, refresh=True)] == [2]
    assert workspace.lake.read("revisions").num_rows == 0


def test_late_imports_appear_after_a_refresh_as_a_revision(make_direct: MakeWorkspace) -> None:
    with world(transfer("mint -> a", 9, 1, token=COIN)) as store:
        workspace = make_direct(store, watchlist={"eth": [COIN[1]]})
        fill(workspace, HOLDERS, "eth", from_unix(5))
        store.add_transfers(table([transfer("a -> b", 4, 2, token=COIN)]), "late")
        (landed,) = fill(workspace, HOLDERS, "eth", from_unix(5), refresh=True)
    assert (landed.rows["holders"], landed.revisions) == (2, 1)


@pytest.mark.long
def test_a_retry_after_an_import_fills_an_unknown_token(make_direct: MakeWorkspace) -> None:
    with world(transfer("mint -> a", 9, 1, token=COIN)) as store:
        workspace = make_direct(store, watchlist={"eth": [COIN[1], LATE[1]]})
        fill(workspace, MAPS, "eth", from_unix(5))
        assert [(one.subject, one.code) for one in failures(workspace)] == [(LATE[1], "unknown_token")]
        store.add_transfers(table([transfer("mint -> b", 1, 3, token=LATE)]), "late")
        report = retry(workspace, failures(workspace))
    assert (len(report.landed), report.failed, report.calls, report.credits) == (1, [], 0, 0)
    assert set(workspace.lake.read("maps")["token_address"].to_pylist()) == {COIN[1], LATE[1]}


# ---------------------------------------------------------------------- costs


def test_a_plan_says_what_the_engine_tells_and_prices_the_rest(
    make_workspace: MakeWorkspace, make_direct: MakeWorkspace
) -> None:
    asked = make_plan(make_workspace(), "sample", ["eth"], [MAY, JUNE])
    plan = make_plan(make_direct(), "sample", ["eth"], [MAY, JUNE])
    by_family = {line.family: line for line in plan.lines}
    tokens = len(make_workspace().settings.watchlist["eth"])
    for family in (MAPS, HOLDERS):
        line = by_family[family.name]
        assert (line.computed, line.calls, line.credits) == (2 * tokens, 0, 0)
    others = [line for line in asked.lines if line.family not in {MAPS.name, HOLDERS.name}]
    assert [by_family[line.family] for line in others] == others
    assert f"{4 * tokens} answers come from the local engine: no calls, no credits." in sentences(plan)


# ---------------------------------------------------------------------- the user's own store


OWN = ["0x" + "c" * 40, "0x" + "1a7e" * 10]


@pytest.fixture
def own(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A home whose provider is its own store, which holds two tokens' transfers of some weeks."""
    home = tmp_path / "own"
    settings = {"HOME": str(home), "PROVIDER__LOCAL": "store", "WATCHLIST": dumps({"eth": OWN})}
    for name, value in settings.items():
        monkeypatch.setenv(f"HOLDERLAKE_{name}", value)
    monkeypatch.setenv("DAGSTER_HOME", "")  # so that what a command sets is undone
    monkeypatch.chdir(tmp_path)
    coin, late = (("eth", address) for address in OWN)
    moves = [transfer(f"mint -> {name}", 90, WEEKS[0], token=coin) for name in "abcd"]
    moves += [transfer("a -> b", 1, week, token=coin) for week in WEEKS]
    moves += [transfer("mint -> c", 5, WEEKS[-2], token=late)]
    with Store(home / "engine") as store:
        store.add_transfers(table(moves), "test")
    return home


@pytest.mark.long
def test_a_backfill_of_an_own_store_reports_no_calls_to_dagster(own: Path) -> None:
    first, last = (from_unix(WEEKS[place]).isoformat() for place in (0, -1))
    arguments = ["--from", first, "--to", last, "--every", "1w", "--table", "maps", "--table", "holders"]
    planned = json.loads(CliRunner().invoke(app, ["plan", *arguments, "--json"], catch_exceptions=False).stdout)
    done = CliRunner().invoke(app, ["backfill", *arguments, "--json"], catch_exceptions=False)
    printed = json.loads(done.stdout)
    assert (planned["calls"], [line["computed"] for line in planned["families"]]) == (0, [2 * len(WEEKS)] * 2)
    assert (printed["rows"]["maps"], printed["rows"]["holders"]) == (len(WEEKS) + 2, 4 * len(WEEKS) + 2)
    assert [(one["code"], one["requests"]) for one in printed["failures"]] == [("no_holders", 2 * (len(WEEKS) - 2))]
    assert printed["credits_spent_hundredths"] == 0
    with dagster_instance(own / "dagster") as instance:
        assert len(instance.get_materialized_partitions(AssetKey("clusters"))) == len(WEEKS)
        event = instance.get_latest_materialization_event(AssetKey("maps"))
        assert event is not None
        assert event.asset_materialization is not None
        metadata = event.asset_materialization.metadata
    assert (metadata["credits"].value, metadata["answers from the engine"].value) == ("0.00", 2)


@pytest.mark.long
def test_a_killed_backfill_of_an_own_store_resumes(own: Path, make_direct: MakeWorkspace, tmp_path: Path) -> None:
    instants = [from_unix(week) for week in reversed(WEEKS)]
    arguments = ["run", *(one.isoformat() for one in instants)]
    killed = run(_FILL, *arguments, env=os.environ | {"DIES_AT": "3"})
    assert killed.returncode == -signal.SIGKILL
    assert list((own / "lake").glob("**/*.next")), "no commit was under way"
    begun = {(one.family, one.timestamp): one for one in Lake(own / "lake").manifests()}
    assert 0 < len([name for name, _ in begun if name in {"maps", "holders"}]) < 2 * len(WEEKS)
    assert run(_FILL, *arguments).returncode == 0
    ended = {(one.family, one.timestamp): one for one in Lake(own / "lake").manifests()}
    assert {name: ended[name] for name in begun} == begun
    with Store(own / "engine") as store:
        undisturbed = separate(
            make_direct(store, watchlist={"eth": OWN}, holders={"with_metadata": True}), tmp_path / "undisturbed"
        )
        fill_all(undisturbed, instants)
    found, expected = rows(Lake(own / "lake")), rows(undisturbed.lake)
    assert {name: found[name] for name in (*MAPS.tables, *HOLDERS.tables, FAILURES)} == {
        name: expected[name] for name in (*MAPS.tables, *HOLDERS.tables, FAILURES)
    }


def test_a_store_that_is_not_there_is_named_with_the_way_out(own: Path) -> None:
    shutil.rmtree(own / "engine")
    with pytest.raises(SettingsError, match=r"own/engine is missing; create it with 'holderlake import files'"):
        make_workspace_of(load_settings()).check()


def test_an_address_and_a_store_of_ones_own_are_not_both_the_provider() -> None:
    with pytest.raises(ValidationError, match="remove one of them"):
        ProviderSettings(url=UNUSED_URL, local="store")


# ---------------------------------------------------------------------- making the lake again


@pytest.mark.long
def test_rebuild_keeps_bulk_rows_and_computes_missing_ones(
    make_direct: MakeWorkspace, make_workspace: MakeWorkspace
) -> None:
    workspace = make_direct()
    fill(workspace, MAPS, "bsc", MAY, JUNE)
    before, fetched = rows(workspace.lake), workspace.lake.read("maps", "bsc", MAY)
    shutil.rmtree(workspace.settings.lake_folder / "maps" / "chain=bsc" / "timestamp=20260601T123015Z")
    report = rebuild(workspace)
    assert (report.is_whole, report.kept, report.computed, report.answers) == (True, 1, 1, 0)
    assert rows(workspace.lake) == before
    assert workspace.lake.read("maps", "bsc", MAY) == fetched


@pytest.mark.long
def test_rebuilding_without_the_engine_names_what_it_leaves_out(
    make_direct: MakeWorkspace, make_workspace: MakeWorkspace
) -> None:
    fill(make_direct(), HOLDERS, "solana", MAY)
    workspace = make_workspace()
    shutil.rmtree(workspace.settings.lake_folder)
    report = rebuild(workspace)
    assert (report.is_whole, report.uncomputed) == (False, ["holders solana 20260501T000000Z"])
