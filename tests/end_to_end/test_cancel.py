"""Cancelled runs: calls in flight finish and land, nothing more is sent, and the run ends as cancelled.

Runs are launched and terminated through Dagster's web UI, by its GraphQL client.
"""

from __future__ import annotations

import os
import signal
import socket
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from datetime import datetime, timedelta
from pathlib import Path
from typing import Any

import httpx
import pytest
from dagster import DagsterRunStatus
from dagster_graphql import DagsterGraphQLClient

from holderlake.core.archive.archive import AnswerArchive
from holderlake.core.lake.lake import Lake
from holderlake.core.provider.ledger.ledger import CreditLedger
from holderlake.operations.history.instance import dagster_instance
from tests.end_to_end.slow_provider import SlowProvider, slow_provider
from tests.helpers.processes import wait_until

pytestmark = pytest.mark.long

ROOT = Path(__file__).parents[2]
TOKEN = "0x" + "2" * 40
INSTANTS = [datetime(2026, 1, 1) + timedelta(hours=hour) for hour in range(400)]
CONCURRENCY = 4
FINISHED = {DagsterRunStatus.CANCELED, DagsterRunStatus.FAILURE, DagsterRunStatus.SUCCESS}
BACKFILL = {
    "ops": {
        "fill_history": {
            "config": {"instants": [when.isoformat() for when in INSTANTS], "chains": ["eth"], "tables": ["maps"]}
        }
    }
}
PARTITION = {
    "dagster/partition": "eth|2026-01-01",
    "dagster/partition/chain": "eth",
    "dagster/partition/date": "2026-01-01",
}
JOBS: list[tuple[str, dict[str, Any], dict[str, str]]] = [("backfill", BACKFILL, {}), ("ingest", {}, PARTITION)]


@pytest.fixture
def provider() -> Iterator[SlowProvider]:
    with slow_provider(0.9) as running:
        yield running


@pytest.fixture
def home(provider: SlowProvider, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A home whose settings name the slow provider."""
    offsets = [f"{hour:02}:{minute:02}" for hour in range(24) for minute in range(0, 60, 5)]
    chosen = {
        "HOME": str(tmp_path),
        "PROVIDER__URL": provider.url,
        "PROVIDER__CONCURRENCY": str(CONCURRENCY),
        "API_KEY": "a-key-of-the-tests",
        "WATCHLIST": f'{{"eth": ["{TOKEN}"]}}',
        "SCHEDULE__START": "2026-01-01",  # the backfill begins with the newest instants
        "SCHEDULE__OFFSETS": str(offsets).replace("'", '"'),
    }
    for name, value in chosen.items():
        monkeypatch.setenv(f"HOLDERLAKE_{name}", value)
    monkeypatch.setenv("PYTHONPATH", str(ROOT))
    monkeypatch.setenv("DAGSTER_HOME", "")  # undoes what opening Dagster's history sets
    with dagster_instance(tmp_path / "dagster") as instance:
        instance.add_dynamic_partitions("chain", ["eth"])
    return tmp_path


def _interruptible() -> None:
    """Let SIGINT end the process, also where the tests run in a shell's background, which ignores it."""
    signal.signal(signal.SIGINT, signal.SIG_DFL)


@contextmanager
def web_ui(folder: Path) -> Iterator[tuple[DagsterGraphQLClient, subprocess.Popen[bytes]]]:
    """Run ``holderlake ui``, wait until it answers, and return its client and its process."""
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    command = [sys.executable, "-m", "holderlake.cli.main", "ui", "--open", "--port", str(port)]
    shell = os.environ | {"BROWSER": f"sh -c 'echo %s > {folder / 'opened'}'"}
    with (
        (folder / "ui.log").open("w") as log,
        subprocess.Popen(command, stdout=log, stderr=log, cwd=ROOT, env=shell, preexec_fn=_interruptible) as process,  # noqa: PLW1509 - the test has no threads yet
    ):
        try:
            server_info = f"http://127.0.0.1:{port}/server_info"
            wait_until(lambda: httpx.get(server_info).is_success, process, (folder / "ui.log").read_text)
            shown = wait_until(lambda: (folder / "opened").exists() and (folder / "opened").read_text(), process)
            assert shown == f"http://127.0.0.1:{port}/asset-groups\n"
            yield DagsterGraphQLClient("127.0.0.1", port), process
        finally:
            process.send_signal(signal.SIGINT)


@pytest.mark.filterwarnings("ignore:Using variable_values:DeprecationWarning")  # Dagster's client of gql
def test_a_terminated_run_lands_calls_in_flight_and_is_cancelled(home: Path, provider: SlowProvider) -> None:
    with web_ui(home) as (client, _):
        for job, config, tags in JOBS:
            before = len(provider.arrived)
            run = client.submit_job_execution(job, run_config=config, tags=tags)
            provider.wait_for(before + 3 * CONCURRENCY)
            client.terminate_run(run)
            wait_until(lambda run=run: client.get_run_status(run) in FINISHED)
            assert client.get_run_status(run) == DagsterRunStatus.CANCELED
            assert len(provider.arrived) - before < len(INSTANTS) / 2
    _all_landed(home, provider)


def test_ctrl_c_lands_calls_in_flight_and_ends_the_command(home: Path, provider: SlowProvider) -> None:
    command = [sys.executable, "-m", "holderlake.cli.main", "backfill", "--from", "2026-01-01", "--to", "2026-01-17"]
    process = subprocess.Popen(
        [*command, "--every", "1h", "--table", "maps"],
        cwd=ROOT,
        env=os.environ,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )
    provider.wait_for(3 * CONCURRENCY)
    process.send_signal(signal.SIGINT)
    _, errors = process.communicate()
    assert process.returncode == 3, errors
    assert "Traceback" not in errors
    assert len(provider.arrived) < len(INSTANTS) / 2
    _all_landed(home, provider)


def _all_landed(home: Path, provider: SlowProvider) -> None:
    """Fail if an answer is not in the lake, or a call is not settled."""
    landed = [one for family in ("maps", "holders") for one in Lake(home / "lake").manifests(family)]
    assert sum(len(one.covered) for one in landed) == len(provider.answered) == len(provider.arrived)
    with CreditLedger(home / "ledger.sqlite") as ledger:
        assert ledger.unsettled() == []
    archived = [one for one in AnswerArchive(home / "archive").stored() if "/tokens/m" in one.request["path"]]
    assert archived
