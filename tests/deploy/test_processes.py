"""Dagster as separate processes over PostgreSQL, with the settings of deploy/dagster."""

from __future__ import annotations

import importlib.util
import os
import shutil
import signal
import socket
import subprocess
import sys
from collections.abc import Iterator, Mapping
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import Any, Final

import httpx
import pytest
from dagster import AssetKey, DagsterInstance, StaticPartitionsDefinition, asset, materialize
from sqlalchemy import make_url

from holderlake.core.lake.lake import Lake
from tests.helpers.processes import ROOT, wait_until
from tests.helpers.real import missing

pytestmark = pytest.mark.integration

SETTINGS: Final = ROOT / "deploy" / "dagster"
TOKEN: Final = "0x6e292a54492fcbc538ad4ccd9429d76f4847531e"

LAUNCH: Final = """
mutation($parameters: ExecutionParams!) {
  launchRun(executionParams: $parameters) { ... on LaunchRunSuccess { run { runId } } }
}
"""
STATE: Final = "query($run: ID!) { runOrError(runId: $run) { ... on Run { status startTime endTime } } }"
DAYS: Final = ("2026-05-01", "2026-05-02")
JOB: Final = {"repositoryLocationName": "holderlake", "repositoryName": "__repository__", "jobName": "ingest"}


@pytest.fixture
def environment(postgres_url: str) -> dict[str, str]:
    """The variables of deploy/dagster for a new database."""
    if importlib.util.find_spec("dagster_postgres") is None:
        missing("dagster-postgres is not installed: run 'make extras'")
    url = make_url(postgres_url)
    parts = {"HOST": url.host, "PORT": url.port, "USER": url.username, "PASSWORD": url.password, "DB": url.database}
    return {f"DAGSTER_POSTGRES_{name}": str(value) for name, value in parts.items()}


@asset(partitions_def=StaticPartitionsDefinition(["eth"]))
def counted() -> None:
    pass


@pytest.fixture
def dagster_home(environment: dict[str, str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A folder for DAGSTER_HOME with the settings for one host."""
    for name, value in environment.items():
        monkeypatch.setenv(name, value)
    folder = tmp_path / "dagster"
    folder.mkdir()
    shutil.copy(SETTINGS / "local" / "dagster.yaml", folder)
    return folder


@pytest.mark.filterwarnings("ignore:.*logging configuration:dagster.BetaWarning")
def test_history_is_in_postgresql(dagster_home: Path) -> None:
    for _ in range(2):  # the second time with existing tables
        with DagsterInstance.from_config(str(dagster_home)) as instance:
            assert materialize([counted], instance=instance, partition_key="eth").success
            assert instance.get_materialized_partitions(AssetKey("counted")) == {"eth"}
            stores = (instance.event_log_storage, instance.run_storage, instance.schedule_storage)
            assert {type(one).__module__.partition(".")[0] for one in stores} == {"dagster_postgres"}


@pytest.mark.long
def test_webserver_daemon_and_code_server_run_one_job_of_a_pool_after_the_other(
    environment: dict[str, str], dagster_home: Path, tmp_path: Path
) -> None:
    with DagsterInstance.from_config(str(dagster_home)) as instance:
        instance.add_dynamic_partitions("chain", ["eth"])
        instance.event_log_storage.set_concurrency_slots("provider", 1)
    with stack(environment | {"DAGSTER_HOME": str(dagster_home)}, tmp_path) as port:
        runs = [launch(port, day) for day in DAYS]
        wait_until(lambda: all(state(port, run)["status"] in ("SUCCESS", "FAILURE") for run in runs))
        first, second = sorted((state(port, run) for run in runs), key=lambda run: run["startTime"])
    assert [first["status"], second["status"]] == ["SUCCESS"] * 2, (tmp_path / "code.out").read_text()[-4_000:]
    assert first["endTime"] <= second["startTime"]
    assert Lake(tmp_path / "home" / "lake").read("holders", "eth").num_rows > 0
    assert f'"partition": "eth|{DAYS[0]}"' in (tmp_path / "code.out").read_text()


def launch(port: int, day: str) -> str:
    """Launch the job ``ingest`` for a day, and return the run's id."""
    partition = {"dagster/partition": f"eth|{day}", "dagster/partition/chain": "eth", "dagster/partition/date": day}
    tags = [{"key": key, "value": value} for key, value in partition.items()]
    parameters = {"selector": JOB, "executionMetadata": {"tags": tags}}
    return str(graphql(port, LAUNCH, parameters=parameters)["launchRun"]["run"]["runId"])


def state(port: int, run: str) -> dict[str, Any]:
    """Return status, start and end of a run."""
    return dict(graphql(port, STATE, run=run)["runOrError"])


PARTITIONS: Final = [f"{chain}|{day}" for chain in ("base", "eth") for day in DAYS]
BACKFILL: Final = """
mutation($parameters: LaunchBackfillParams!) {
  launchPartitionBackfill(backfillParams: $parameters) {
    __typename ... on LaunchBackfillSuccess { backfillId } ... on PythonError { message }
  }
}
"""
BACKFILL_STATE: Final = """
query($id: String!) { partitionBackfillOrError(backfillId: $id) { ... on PartitionBackfill { status } } }
"""
PAGES: Final = {
    "job": {
        "selector": {
            "partitionSetName": "ingest_partition_set",
            "repositorySelector": {name: value for name, value in JOB.items() if name != "jobName"},
        }
    },
    "lineage": {"assetSelection": [{"path": ["chains"]}, {"path": ["tokens"]}]},
}


@pytest.mark.long
@pytest.mark.parametrize("page", PAGES)
def test_a_backfill_of_a_page_fetches_every_partition(
    page: str, environment: dict[str, str], dagster_home: Path, tmp_path: Path
) -> None:
    with DagsterInstance.from_config(str(dagster_home)) as instance:
        instance.add_dynamic_partitions("chain", ["base", "eth"])
        with stack(environment | {"DAGSTER_HOME": str(dagster_home)}, tmp_path) as port:
            parameters = PAGES[page] | {"partitionNames": PARTITIONS}
            launched = graphql(port, BACKFILL, parameters=parameters)["launchPartitionBackfill"]
            wait_until(lambda: backfill_state(port, launched["backfillId"]) not in ("REQUESTED", "COMPLETING"))
            assert backfill_state(port, launched["backfillId"]) == "COMPLETED_SUCCESS"
        lake = Lake(tmp_path / "home" / "lake")
        assert {f"{one.chain}|{one.as_of:%Y-%m-%d}" for one in lake.manifests("chains")} == set(PARTITIONS)
        assert instance.get_materialized_partitions(AssetKey("chains")) == set(PARTITIONS)


def backfill_state(port: int, backfill: str) -> str:
    return str(graphql(port, BACKFILL_STATE, id=backfill)["partitionBackfillOrError"]["status"])


@contextmanager
def stack(environment: Mapping[str, str], folder: Path) -> Iterator[int]:
    """Run a code server, a webserver and a daemon; yield the webserver's port."""
    code, web = free_port(), free_port()
    workspace = (SETTINGS / "workspace.yaml").read_text().replace("4000", str(code))
    (folder / "workspace.yaml").write_text(workspace)
    own = {name: value for name, value in os.environ.items() if not name.startswith("HOLDERLAKE_")}
    own |= environment | {
        "HOLDERLAKE_HOME": str(folder / "home"),
        "HOLDERLAKE_WATCHLIST": f'{{"eth": ["{TOKEN}"]}}',
        "HOLDERLAKE_CODE_HOST": "127.0.0.1",
        "HOLDERLAKE_SCHEDULE__START": DAYS[0],
        "PYTHONPATH": f"{folder}{os.pathsep}{ROOT}",
    }
    with ExitStack() as running:

        def start(name: str, program: str, *arguments: str) -> None:
            output = running.enter_context((folder / f"{name}.out").open("wb"))
            process = subprocess.Popen(
                [Path(sys.executable).with_name(program), *arguments, "--log-format", "json"],
                cwd=folder,
                env=own,
                stdout=output,
                stderr=subprocess.STDOUT,
                start_new_session=True,
            )
            running.callback(end, process)

        location = ("-m", "holderlake.pipelines.definitions", "--location-name", "holderlake")
        start("code", "dagster", "code-server", "start", "-h", "127.0.0.1", "-p", str(code), *location)
        wait_until(lambda: "Started Dagster code proxy server" in (folder / "code.out").read_text())
        start("daemon", "dagster-daemon", "run")
        start("webserver", "dagster-webserver", "-h", "127.0.0.1", "-p", str(web))
        wait_until(lambda: answers(f"http://127.0.0.1:{web}/server_info"))
        yield web


def graphql(port: int, query: str, **variables: Any) -> dict[str, Any]:
    answer = httpx.post(
        f"http://127.0.0.1:{port}/graphql", json={"query": query, "variables": variables}, timeout=None
    ).json()
    assert "errors" not in answer, answer
    return dict(answer["data"])


def end(process: subprocess.Popen[bytes]) -> None:
    """End a server, and kill all processes of its session if it takes too long."""
    process.terminate()
    try:
        process.wait(30)
    except subprocess.TimeoutExpired:
        os.killpg(process.pid, signal.SIGKILL)
        process.wait()


def answers(url: str) -> bool:
    try:
        return httpx.get(url).is_success
    except httpx.TransportError:
        return False


def free_port() -> int:
    with socket.create_server(("127.0.0.1", 0)) as server:
        return int(server.getsockname()[1])
