"""Retry of failures: only failed subjects are requested again, and paid answers are decoded again first."""

from __future__ import annotations

import json
from dataclasses import replace
from datetime import datetime
from typing import Any

import pytest
from typer.testing import CliRunner

from holderlake.assets.holders import HOLDERS
from holderlake.assets.maps import MAPS
from holderlake.assets.tokens import TOKENS
from holderlake.cli.main import app
from holderlake.core.contract.exact_json import MalformedAnswer
from holderlake.core.provider.errors import BudgetExceeded, TransientError
from holderlake.core.workspace import Workspace
from holderlake.operations.maintenance.rebuild_lake import rebuild
from holderlake.operations.maintenance.retry_failures import failures, retry
from tests.core.contract.answers import holder
from tests.helpers.filling import MakeWorkspace, fill
from tests.helpers.misbehaving import answer, scripted

pytestmark = [pytest.mark.integration, pytest.mark.usefixtures("home_with_warehouse")]
MAY = datetime(2026, 5, 1)
JUNE = datetime(2026, 6, 1)
CLOSED_PORT = "http://127.0.0.1:9"
ONCE = {"attempts": 1}
UNKNOWN = "0x" + "9" * 40


def unread(*_: Any) -> Any:
    raise MalformedAnswer("our decoder is wrong")


def spent(workspace: Workspace) -> int:
    return workspace.ledger.totals().spent


def test_failures_of_an_outage_succeed_when_it_is_over(make_workspace: MakeWorkspace) -> None:
    away = make_workspace(base_url=CLOSED_PORT, provider=ONCE)
    for instant in (MAY, JUNE):
        with pytest.raises(TransientError):
            fill(away, HOLDERS, "eth", instant)
    workspace = make_workspace()
    report = retry(workspace, failures(workspace))
    tokens = len(workspace.settings.watchlist["eth"])
    assert (len(report.retried), len(report.landed), report.failed) == (2 * tokens, 2 * tokens, [])
    assert (report.calls, report.credits) == (2 * tokens, spent(workspace))
    assert failures(workspace) == []
    assert workspace.warehouse.query("SELECT count(*) AS n FROM holders").to_pylist()[0]["n"] > 0


def test_only_failed_subjects_are_requested_again(make_workspace: MakeWorkspace) -> None:
    known = make_workspace().settings.watchlist["eth"]
    workspace = make_workspace(watchlist={"eth": [*known, UNKNOWN]})
    fill(workspace, HOLDERS, "eth", MAY)
    before = workspace.lake.read("holders")
    report = retry(workspace, failures(workspace))
    assert [(one.subject, one.code) for one in report.failed] == [(UNKNOWN, "unknown_token")]
    assert (report.calls, report.credits, report.landed) == (1, 0, [])
    assert workspace.lake.read("holders") == before


def test_failures_are_chosen_by_chain_and_code(make_workspace: MakeWorkspace) -> None:
    known = make_workspace().settings.watchlist
    workspace = make_workspace(watchlist={"eth": [known["eth"][0], UNKNOWN], "bsc": known["bsc"]})
    fill(workspace, HOLDERS, "eth", MAY)
    fill(workspace, MAPS, "bsc", MAY)
    assert {(one.chain, one.code) for one in failures(workspace)} == {("eth", "unknown_token")}
    assert failures(workspace, chains=["bsc"]) == []
    final = failures(workspace, codes=["unsupported_token"])
    assert {one.chain for one in final} == {"bsc"}
    report = retry(workspace, final)
    assert report.calls == len(final) == len(report.failed)


@pytest.mark.long
@pytest.mark.parametrize("stream", [HOLDERS, TOKENS], ids=lambda family: str(family.name))
def test_a_paid_answer_is_decoded_again_at_no_cost(make_workspace: MakeWorkspace, stream: Any) -> None:
    workspace = make_workspace()
    fill(workspace, replace(stream, decode=unread), "eth", MAY)
    paid, failed = spent(workspace), failures(workspace)
    assert {one.code for one in failed} == {"malformed_answer"}
    other = make_workspace(holders={"limit": 250}, base_url=CLOSED_PORT)  # neither settings nor provider matter
    report = retry(other, failed)
    assert (report.landed, report.reread, report.calls) == (failed, len(failed), 0)
    assert spent(workspace) == paid
    landed = workspace.lake.read(stream.tables[0])
    assert landed.num_rows > 0
    rebuild(workspace)
    assert workspace.lake.read(stream.tables[0]) == landed


def test_only_pay_again_pays_again_for_an_unreadable_answer(make_workspace: MakeWorkspace) -> None:
    token = make_workspace().settings.watchlist["eth"][0]
    page = answer(b"<html>", headers={"X-Credits-Cost": "51.00"})
    with scripted(page, answer([holder("0x" + "7" * 40, 1)])) as server:
        workspace = make_workspace(watchlist={"eth": [token]}, base_url=server.address)
        fill(workspace, HOLDERS, "eth", MAY)
        kept = retry(workspace, failures(workspace))
        assert (kept.reread, kept.calls, [one.code for one in kept.failed]) == (1, 0, ["malformed_answer"])
        refreshed = retry(workspace, failures(workspace), pay_again=True)
        assert (refreshed.calls, len(refreshed.landed), refreshed.failed) == (1, 1, [])
        assert len(server.received) == 2
    assert failures(workspace) == []


def test_an_uncharged_page_is_requested_again_without_the_surcharge_of_a_refresh(
    make_workspace: MakeWorkspace,
) -> None:
    token = make_workspace().settings.watchlist["eth"][0]
    page = answer(b"<html>", headers={"X-Credits-Cost": "0"})
    with scripted(page, answer([holder("0x" + "7" * 40, 1)])) as server:
        workspace = make_workspace(watchlist={"eth": [token]}, base_url=server.address, provider=ONCE)
        with pytest.raises(TransientError):
            fill(workspace, HOLDERS, "eth", MAY)
        assert [one.code for one in failures(workspace)] == ["broken_answer"]
        retried = retry(workspace, failures(workspace))
        assert (len(retried.landed), retried.failed, retried.credits) == (1, [], 51_00)
        assert not any("refresh" in one.target for one in server.received)


def test_a_missing_unreadable_answer_needs_pay_again(make_workspace: MakeWorkspace) -> None:
    workspace = make_workspace()
    fill(workspace, replace(HOLDERS, decode=unread), "eth", MAY)
    workspace.archive.remove([*workspace.archive.stored()])
    report = retry(workspace, failures(workspace))
    assert (report.retried, report.calls, len(report.left)) == ([], 0, len(workspace.settings.watchlist["eth"]))


def test_a_ceiling_stops_a_retry_and_keeps_its_results(make_workspace: MakeWorkspace) -> None:
    for instant in (MAY, JUNE):
        with pytest.raises(TransientError):
            fill(make_workspace(base_url=CLOSED_PORT, provider=ONCE), HOLDERS, "eth", instant)
    workspace = make_workspace(budget={"per_run": 60})
    failed = failures(workspace)
    with pytest.raises(BudgetExceeded):
        retry(workspace, failed)
    assert spent(workspace) <= 60_00


def test_the_command_reports_the_result(
    make_workspace: MakeWorkspace, monkeypatch: pytest.MonkeyPatch, sample_service: Any
) -> None:
    workspace = make_workspace(watchlist={"eth": [UNKNOWN]})
    fill(workspace, HOLDERS, "eth", MAY)
    config = workspace.settings.home / "holderlake.toml"
    config.write_text(f'[provider]\nurl = "{sample_service.base_url}"\n[watchlist]\neth = ["{UNKNOWN}"]\n')
    monkeypatch.setenv("HOLDERLAKE_CONFIG", str(config))
    monkeypatch.setenv("HOLDERLAKE_HOME", str(workspace.settings.home))
    monkeypatch.setenv("HOLDERLAKE_API_KEY", sample_service.secret)
    (workspace.settings.lake_folder / "_provider.json").write_text(json.dumps({"provider": sample_service.base_url}))
    done = CliRunner().invoke(app, ["retry-failures", "--json"])
    assert done.exit_code == 1, done.exception
    report = json.loads(done.output)
    assert [one["code"] for one in report["failed"]] == ["unknown_token"]
    assert "unknown_token" in CliRunner().invoke(app, ["retry-failures"]).output
