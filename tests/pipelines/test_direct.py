"""The engine at hand: the rows that come over HTTP, without a call; and what plan, retry and rebuild make of it."""

from __future__ import annotations

import re
import shutil
from collections.abc import Sequence
from datetime import datetime
from pathlib import Path
from typing import Any

import pytest

from assets import swept
from assets.holders import HOLDERS
from assets.maps import MAPS
from contract.requests import HoldersOptions
from contract.tables import TABLES
from contract.times import from_unix
from engine.sources.sample import sample_world
from engine.store import Store
from pipelines.direct import DirectEngine
from pipelines.plan import make_plan
from pipelines.plan_report import sentences
from pipelines.rebuild import rebuild, survey
from pipelines.retries import failures, retry
from resources.archive import AnswerArchive
from resources.at_hand import Swept
from resources.lake import FAILURES, Lake
from resources.workspace import Workspace
from service.keys import KeyStore
from service.run import BackgroundService
from tests.engine.world import UINT256, a_token, table, transfer, world
from tests.filling import MakeWorkspace, fill

ROOT = Path(__file__).parents[2]
MAY = datetime(2026, 5, 1)
JUNE = datetime(2026, 6, 1, 12, 30, 15)
WORLD = sample_world()
PASTS = [WORLD.start + (WORLD.end - WORLD.start) * part / 5 for part in (-1, 1, 3, 5)]
INSTANTS = [past.replace(microsecond=0) for past in reversed(PASTS)]
UNKNOWN = "0x" + "9" * 40
NOBODY = "http://127.0.0.1:9"
COIN = ("eth", "coin")


@pytest.fixture
def make_direct(sample_service: Any, make_workspace: MakeWorkspace) -> MakeWorkspace:
    """Makes workspaces whose provider's engine is at hand, while nobody answers where it would be asked."""

    def make(store: Store | None = None, **settings: Any) -> Workspace:
        workspace = make_workspace(base_url=NOBODY, **settings)
        workspace.engine = DirectEngine(lambda: store or sample_service.store, lambda: "sample")
        return workspace

    return make


def beside(workspace: Workspace, folder: Path) -> Workspace:
    """The workspace with a lake and an archive of its own."""
    workspace.lake, workspace.archive = Lake(folder / "lake"), AnswerArchive(folder / "archive")
    return workspace


def rows(lake: Lake) -> dict[str, list[dict[str, Any]]]:
    """All rows in their order, whenever they were learnt and made, and whichever way a refusal came."""
    found = {}
    for name in TABLES:
        told = lake.read(name)
        told = told.drop_columns([column for column in ("fetched_at", "dt_update") if column in told.column_names])
        found[name] = told.to_pylist()
    for row in found[FAILURES]:
        row["reason"] = re.sub(r", HTTP \d+", "", row["reason"])
    return found


def fill_all(workspace: Workspace, instants: Sequence[datetime]) -> None:
    for chain in workspace.settings.watchlist:
        for family in (HOLDERS, MAPS):
            fill(workspace, family, chain, *instants)


# ---------------------------------------------------------------------- the same rows


def test_the_lake_has_the_rows_that_come_over_http_for_all_chains_and_times_before_a_token_existed(
    make_workspace: MakeWorkspace, make_direct: MakeWorkspace, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    watched = make_workspace().settings.watchlist
    chosen = {"watchlist": watched | {"eth": [*watched["eth"], UNKNOWN]}, "holders": {"with_metadata": True}}
    asked = make_workspace(**chosen)
    computed = beside(make_direct(**chosen), tmp_path / "direct")
    monkeypatch.setattr(swept, "_FIRST", 20)  # several passes
    for workspace in (asked, computed):
        fill_all(workspace, INSTANTS)
    expected = rows(asked.lake)
    assert rows(computed.lake) == expected
    assert all(expected[name] for name in (*MAPS.tables, *HOLDERS.tables))
    assert {row["code"] for row in expected[FAILURES]} == {"unknown_token", "unsupported_token", "no_holders"}


def test_amounts_of_256_bits_are_those_that_come_over_http(
    make_workspace: MakeWorkspace, make_direct: MakeWorkspace, tmp_path: Path
) -> None:
    chain = [transfer(f"{name} -> {other}", UINT256 // 5, at) for at, (name, other) in enumerate(["ab", "ac", "bd"], 9)]
    fine = [transfer("mint -> a", UINT256, 7, token=("eth", "fine")), transfer("a -> b", 1, 8, token=("eth", "fine"))]
    instants = [from_unix(second) for second in (20, 10, 8, 7, 5)]
    chosen: dict[str, Any] = {"watchlist": {"eth": ["coin", "fine"]}}
    with (
        world(
            transfer("mint -> a", UINT256, 6), *chain, *fine, tokens=[a_token(("eth", "fine"), decimals=30)]
        ) as store,
        KeyStore(tmp_path / "keys.sqlite") as keys,
        BackgroundService(store, keys) as service,
    ):
        asked = make_workspace(secret=keys.create("test", 10**9), base_url=service.base_url, **chosen)
        computed = beside(make_direct(store, **chosen), tmp_path / "direct")
        for workspace in (asked, computed):
            fill_all(workspace, instants)
        expected = rows(asked.lake)
        assert rows(computed.lake) == expected
    assert max(int(row["amount_exact"] or 0) for row in expected["holders"] if row["token_address"] == "coin") > 2**254
    assert any(row["amount_exact"] for row in expected["clusters"])


# ---------------------------------------------------------------------- as an ingest


def test_nobody_is_asked_nothing_is_paid_and_what_is_there_is_not_computed_again(make_direct: MakeWorkspace) -> None:
    workspace = make_direct()
    (first,) = fill(workspace, MAPS, "eth", MAY)
    (again,) = fill(workspace, MAPS, "eth", MAY)
    assert (first.calls, first.credits, first.computed) == (0, 0, len(workspace.settings.watchlist["eth"]))
    assert (again.rows, again.computed, again.is_new) == (first.rows, 0, False)
    assert workspace.ledger.report("endpoint") == []
    assert workspace.archive.size().answers == 0


def test_partitions_land_in_the_order_in_which_they_are_wanted_however_few_fit_into_a_pass(
    make_direct: MakeWorkspace, monkeypatch: pytest.MonkeyPatch
) -> None:
    passes: list[int] = []
    workspace = make_direct()
    engine = workspace.engine
    assert engine is not None
    holders = engine.holders

    def counted(chain: str, tokens: Sequence[str], instants: Sequence[datetime], options: HoldersOptions) -> Swept:
        passes.append(len(instants))
        return holders(chain, tokens, instants, options)

    monkeypatch.setattr(engine, "holders", counted)
    monkeypatch.setattr(swept, "_FIRST", 2 * len(workspace.settings.watchlist["solana"]))
    monkeypatch.setattr(swept, "_BYTES", 1)
    landed = fill(workspace, HOLDERS, "solana", *INSTANTS)
    assert [one.as_of for one in landed] == INSTANTS
    assert passes == [2, *[1] * (len(INSTANTS) - 2)]


def test_a_further_token_is_computed_alone_and_a_refresh_computes_all(make_direct: MakeWorkspace) -> None:
    first, second, *_ = make_direct().settings.watchlist["eth"]
    fill(make_direct(watchlist={"eth": [first]}), HOLDERS, "eth", MAY)
    workspace = make_direct(watchlist={"eth": [first, second]})
    assert [one.computed for one in fill(workspace, HOLDERS, "eth", MAY, JUNE)] == [1, 2]
    assert [one.computed for one in fill(workspace, HOLDERS, "eth", MAY, refresh=True)] == [2]
    assert workspace.lake.read("revisions").num_rows == 0


def test_history_that_was_imported_late_shows_after_a_refresh_and_as_a_revision(make_direct: MakeWorkspace) -> None:
    with world(transfer("mint -> a", 9, 1)) as store:
        workspace = make_direct(store, watchlist={"eth": ["coin"]})
        fill(workspace, HOLDERS, "eth", from_unix(5))
        store.add_transfers(table([transfer("a -> b", 4, 2)]), "late")
        (landed,) = fill(workspace, HOLDERS, "eth", from_unix(5), refresh=True)
    assert (landed.rows["holders"], landed.revisions) == (2, 1)


def test_a_token_that_was_unknown_lands_when_it_is_retried_after_its_import(make_direct: MakeWorkspace) -> None:
    with world(transfer("mint -> a", 9, 1)) as store:
        workspace = make_direct(store, watchlist={"eth": ["coin", "late"]})
        fill(workspace, MAPS, "eth", from_unix(5))
        assert [(one.subject, one.code) for one in failures(workspace)] == [("late", "unknown_token")]
        store.add_transfers(table([transfer("mint -> b", 1, 3, token=("eth", "late"))]), "late")
        report = retry(workspace, failures(workspace))
    assert (len(report.landed), report.failed, report.calls, report.credits) == (1, [], 0, 0)
    assert set(workspace.lake.read("maps")["token_address"].to_pylist()) == {"coin", "late"}


# ---------------------------------------------------------------------- what it costs


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
    assert f"{4 * tokens} answers come straight from the local engine: no calls, no credits." in sentences(plan)


# ---------------------------------------------------------------------- making the lake again


def test_rebuilding_leaves_what_the_engine_told_as_it_is_and_computes_what_is_gone(
    make_direct: MakeWorkspace, make_workspace: MakeWorkspace
) -> None:
    workspace = make_direct()
    fill(workspace, MAPS, "bsc", MAY, JUNE)
    before, learnt = rows(workspace.lake), workspace.lake.read("maps", "bsc", MAY)
    shutil.rmtree(workspace.settings.lake / "maps" / "chain=bsc" / "timestamp=20260601T123015Z")
    assert (survey(workspace).kept, survey(workspace).computed) == (1, 1)
    report = rebuild(workspace)
    assert (report.is_whole, report.kept, report.computed, report.answers) == (True, 1, 1, 0)
    assert rows(workspace.lake) == before
    assert workspace.lake.read("maps", "bsc", MAY) == learnt


def test_rebuilding_without_the_engine_names_what_it_leaves_out(
    make_direct: MakeWorkspace, make_workspace: MakeWorkspace
) -> None:
    fill(make_direct(), HOLDERS, "solana", MAY)
    workspace = make_workspace()
    shutil.rmtree(workspace.settings.lake)
    report = rebuild(workspace)
    assert (report.is_whole, report.uncomputed) == (False, ["holders solana 20260501T000000Z"])
