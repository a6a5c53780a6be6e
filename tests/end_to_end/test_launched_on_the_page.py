"""Runs that a person launches on Dagster's page and a firewall answers: red on the page, repaired by the sensor."""

from __future__ import annotations

import json
import os
import signal
from collections.abc import Iterator
from contextlib import closing, suppress
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pytest
from dagster import DagsterRunStatus

from holderlake.core.contract.times import utc_now
from holderlake.core.settings import load_settings
from holderlake.core.workspace import make_workspace
from holderlake.operations.history.instance import dagster_instance
from tests.end_to_end.test_cancel import FINISHED, web_ui
from tests.helpers.changed_service import Change, ChangedService
from tests.helpers.misbehaving import Received, answer
from tests.helpers.pipeline import Pipeline
from tests.helpers.processes import PATIENCE, ROOT, wait_until

pytestmark = pytest.mark.long

CHAIN = "solana"
PAGE = answer(b"<html><title>Attention Required</title></html>")
DAYS = [f"2026-05-{day:02}" for day in range(1, 11)]
KEYS = [f"{CHAIN}|{day}" for day in DAYS]
EMPTY = KEYS[2:6]
LAUNCH = """
mutation Launch($parameters: ExecutionParams!) {
  launchPipelineExecution(executionParams: $parameters) {
    __typename
    ... on LaunchRunSuccess { run { runId } }
    ... on PythonError { message }
  }
}
"""
BACKFILL = """
mutation Backfill($parameters: LaunchBackfillParams!) {
  launchPartitionBackfill(backfillParams: $parameters) {
    __typename
    ... on LaunchBackfillSuccess { backfillId }
    ... on PythonError { message }
  }
}
"""
STATUS = """
query Status($id: String!) {
  partitionBackfillOrError(backfillId: $id) { ... on PartitionBackfill { status } }
}
"""


class Firewall:
    """Answers a page instead of the holders, as of the instants in ``blocked``; all if it is None."""

    def __init__(self) -> None:
        self.blocked: set[str] | None = None

    def choose(self, request: Received) -> Change | None:
        is_blocked = self.blocked is None or any(f"timestamp={second}" in request.target for second in self.blocked)
        return Change(lambda real: PAGE) if "/holders/" in request.target and is_blocked else None


@pytest.fixture
def firewall(
    sample_service: Any, make_workspace: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> Iterator[Firewall]:
    """A home whose provider is behind a firewall."""
    firewall, tokens = Firewall(), make_workspace().settings.watchlist[CHAIN][:1]
    with ChangedService(sample_service.base_url, sample_service.secret, firewall.choose).serving() as provider:
        chosen = {
            "HOME": str(tmp_path / "home"),
            "PROVIDER__URL": provider.address,
            "PROVIDER__ATTEMPTS": "1",
            "API_KEY": sample_service.secret,
            "SCHEDULE__START": DAYS[0],
            "WATCHLIST": json.dumps({CHAIN: tokens}),
        }
        for name, value in chosen.items():
            monkeypatch.setenv(f"HOLDERLAKE_{name}", value)
        monkeypatch.setenv("PYTHONPATH", str(ROOT))
        monkeypatch.setenv("DAGSTER_HOME", "")
        with dagster_instance(tmp_path / "home" / "dagster") as instance:
            instance.add_dynamic_partitions("chain", [CHAIN])
        yield firewall


@pytest.mark.filterwarnings("ignore:Using variable_values:DeprecationWarning")  # Dagster's client of gql
def test_days_that_a_firewall_answered_are_red_and_repaired(firewall: Firewall, tmp_path: Path) -> None:
    tags = {"dagster/partition": KEYS[0], "dagster/partition/chain": CHAIN, "dagster/partition/date": DAYS[0]}
    selector = {
        "repositoryLocationName": "holderlake",
        "repositoryName": "__repository__",
        "pipelineName": "__ASSET_JOB",
        "assetSelection": [{"path": ["holders"]}],
    }
    metadata = {"tags": [{"key": name, "value": value} for name, value in tags.items()]}
    with web_ui(tmp_path) as (client, _):
        parameters = {"selector": selector, "mode": "default", "runConfigData": {}, "executionMetadata": metadata}
        launched = client._execute(LAUNCH, {"parameters": parameters})["launchPipelineExecution"]
        run = launched["run"]["runId"]
        wait_until(lambda: client.get_run_status(run) in FINISHED)
        assert client.get_run_status(run) == DagsterRunStatus.FAILURE

        firewall.blocked = {str(_seconds(key)) for key in EMPTY}
        parameters = {"assetSelection": [{"path": ["holders"]}], "partitionNames": KEYS[1:]}
        launched = client._execute(BACKFILL, {"parameters": parameters})["launchPartitionBackfill"]
        assert "backfillId" in launched, launched
        backfill = {"id": launched["backfillId"]}

        def status() -> str:
            return str(client._execute(STATUS, backfill)["partitionBackfillOrError"]["status"])

        wait_until(lambda: status().startswith("COMPLETED"))
        assert status() == "COMPLETED_FAILED"
    firewall.blocked = set()
    with (
        closing(make_workspace(load_settings())) as workspace,
        dagster_instance(workspace.settings.dagster_home) as instance,
    ):
        pipeline = Pipeline(workspace, instance)
        assert pipeline.shown("holders") == {
            "materialised": {*KEYS[1:]} - {*EMPTY},
            "failed": {KEYS[0], *EMPTY},
        }
        spent = workspace.ledger.totals().spent
        pipeline.at(utc_now() + timedelta(days=1))
        days = ",".join(key.partition("|")[2] for key in [KEYS[0], *EMPTY])
        assert pipeline.sensor("healing") == [(f"{CHAIN}|{days}", True)]
        assert pipeline.shown("holders") == {"materialised": {*KEYS}, "failed": set()}
        assert {row.name for row in workspace.ledger.report("endpoint")} == {"holders"}
        assert workspace.ledger.totals().spent == 2 * spent  # five days before, and five days now


@pytest.mark.usefixtures("firewall")
def test_the_page_ends_with_an_error_if_its_daemon_died(tmp_path: Path) -> None:
    with web_ui(tmp_path) as (_, process):
        os.kill(wait_until(lambda: _daemon_of(tmp_path)), signal.SIGKILL)
        assert process.wait(PATIENCE) == 1


def _daemon_of(home: Path) -> int | None:
    """Return the process id of the daemon of a home; None if it has not started."""
    for folder in Path("/proc").glob("[0-9]*"):
        with suppress(OSError):
            is_daemon = b"dagster-daemon" in (folder / "cmdline").read_bytes()
            if is_daemon and str(home).encode() in (folder / "environ").read_bytes():
                return int(folder.name)
    return None


def _seconds(key: str) -> int:
    return int(datetime.fromisoformat(key.partition("|")[2]).replace(tzinfo=UTC).timestamp())
