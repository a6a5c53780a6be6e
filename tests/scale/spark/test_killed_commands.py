"""A killed command costs only the tasks that had not ended, even if it is killed while it commits."""

from __future__ import annotations

import json
import os
import shutil
import signal
from pathlib import Path

import pyarrow as pa
import pytest

from holderlake.core.contract.requests import MapOptions
from holderlake.core.lake.lake import Lake
from holderlake.engine.maps.batch import holder_batches, map_batches
from holderlake.engine.store.store import Store
from holderlake.engine.store.verify import verify
from holderlake.scale.spark.build import build
from holderlake.scale.spark.tasks import Workers
from tests.helpers.killing import kill_everywhere
from tests.helpers.processes import PIPE, start
from tests.helpers.spark import SparkCluster
from tests.scale.spark.conftest import SMALL, Asking, Tables

pytestmark = pytest.mark.integration

STOPPED = """
import os, re, signal, sys

number, of_event, times = int(sys.argv.pop(1)), re.compile(sys.argv.pop(1)), int(sys.argv.pop(1))
left = iter([*[False] * (times - 1), True])

def hook(event, arguments):
    if event in ("open", "os.rename", "shutil.rmtree") and of_event.search(f"{event} {arguments}"):
        if next(left, False):
            os.kill(os.getpid(), number)

sys.addaudithook(hook)
from holderlake.cli import cluster_jobs
from holderlake.cli.main import main
cluster_jobs._INSTANTS = 2
main()
"""
"""The command ``holderlake``, which gets a signal when an event happens for the n-th time.

It computes two instants together, so that a fill of three has two steps.
"""
_NEVER = (str(int(signal.SIGKILL)), "^$", "1")

OF_REQUEST = {"dt_update", "holder_limit", "use_magic_nodes", "use_time_nodes", "rules"}
"""Columns of the lake with the options and the time of a request."""
Versions = dict[Path, tuple[int, int]]


class Host:
    """The host of the commands, with a home in ``folder``. ``master`` is the cluster's address; None for no cluster."""

    def __init__(self, folder: Path, master: str | None) -> None:
        self.home = folder
        folder.mkdir(exist_ok=True)
        settings = {"HOME": str(folder), "ENGINE__MEMORY_LIMIT": "64MB"}
        if master:
            settings |= {"CLUSTER__MASTER": master, "CLUSTER__OPTIONS": json.dumps(SMALL)}
        self.environment = os.environ | {f"HOLDERLAKE_{name}": text for name, text in settings.items()}

    def stop(self, number: signal.Signals, event: str, times: int, *command: str) -> None:
        """Send a signal to a command when an event happens for the n-th time, and wait for its end."""
        arguments = (str(int(number)), event, str(times), *command)
        with start(STOPPED, *arguments, env=self.environment, cwd=self.home, stderr=PIPE) as process:
            _, error = process.communicate()
        expected = -signal.SIGKILL if number == signal.SIGKILL else 130
        assert process.returncode == expected, error

    def run(self, *command: str) -> dict[str, int]:
        """Run a command to its end, and return what it prints."""
        arguments = (*_NEVER, *command, "--json")
        with start(STOPPED, *arguments, env=self.environment, cwd=self.home, stdout=PIPE, stderr=PIPE) as process:
            printed, error = process.communicate()
        assert process.returncode == 0, error
        report: dict[str, int] = json.loads(printed)
        return report

    def ended_tasks(self) -> Versions:
        """Return the version of each ended task's result. A task that runs again writes a new version."""
        paths = [*self.home.glob("engine/.build-*/tasks/[!.]*"), *self.home.glob("cluster/fill-*/tasks/[!.]*")]
        return {path: (path.stat().st_ino, path.stat().st_mtime_ns) for path in paths}


@pytest.fixture(scope="module", params=["this process", "Spark"])
def master(request: pytest.FixtureRequest) -> str | None:
    """The address of a cluster of two workers; None to compute in the command's process."""
    cluster: SparkCluster | None = request.getfixturevalue("spark_cluster") if request.param == "Spark" else None
    return cluster and cluster.master


@pytest.fixture
def host(master: str | None, tmp_path: Path) -> Host:
    """A host whose commands compute on the cluster."""
    return Host(tmp_path / "home", master)


@pytest.mark.later(long=1)
@pytest.mark.parametrize("while_committing", [signal.SIGKILL, signal.SIGINT], ids=["killed", "interrupted"])
def test_a_stopped_build_repeats_no_ended_task(
    host: Host, asking: Asking, embedded: Tables, tmp_path: Path, while_committing: signal.Signals
) -> None:
    asking.empty_copy(host.home / "engine").close()
    command = ("cluster", "build", *asking.store.files())
    host.stop(signal.SIGKILL, "open .*/tasks/shard-", 3, *command)
    of_first = host.ended_tasks()
    assert len(of_first) > 3
    host.stop(while_committing, "os.rename .*/engine/transfers/", 5, *command)
    of_second = host.ended_tasks()
    assert len(of_second) > len(of_first)
    assert of_first.items() <= of_second.items()
    host.stop(signal.SIGKILL, r"shutil.rmtree .*/\.build-", 1, *command)
    assert host.ended_tasks() == of_second
    transfers = sum(history.transfers for history in asking.store.histories())
    assert host.run(*command)["added"] == transfers
    assert not list(host.home.glob("engine/.build-*"))
    result = verify(host.home / "engine")
    assert (result.damaged, result.unlisted) == ([], [])
    with Store(host.home / "engine", asking.store.rules) as store:
        assert asking.computed(Workers(), store, tmp_path / "results") == embedded


@pytest.mark.long
def test_a_build_that_was_killed_at_any_change_can_be_repeated(asking: Asking, tmp_path: Path) -> None:
    folders = [tmp_path / str(number) for number in range(12)]
    for folder in folders:
        folder.mkdir()
        (folder / "raw").symlink_to(asking.store.root / "transfers")
    kill_everywhere("tests.scale.spark.test_killed_commands:build_here", folders)
    for folder in folders[1:]:
        build_here(folder)
        result = verify(folder / "store")
        assert (result.damaged, result.unlisted, [*folder.glob("store/.build-*")]) == ([], [], [])
        with Store(folder / "store") as store, Store(folders[0] / "store") as undisturbed:
            assert [*store.histories()] == [*undisturbed.histories()]


def build_here(folder: Path) -> None:
    """Build the store of a folder from its folder ``raw``, in this process."""
    with Store(folder / "store") as store:
        build(Workers(), store, [str(folder / "raw")], 64_000_000, lambda step, tasks: None)


@pytest.mark.later(long=1)
def test_a_killed_fill_repeats_no_ended_task(host: Host, asking: Asking, tmp_path: Path) -> None:
    (tmp_path / "instants").write_text("\n".join(instant.isoformat() for instant in asking.instants[-3:]))
    fill = ("cluster", "fill", "--instants", str(tmp_path / "instants"))
    shutil.copytree(asking.store.root, host.home / "engine")
    host.stop(signal.SIGKILL, "open .*/cluster/fill-.*/tasks/[0-9a-f]", 3, *fill)
    of_first = host.ended_tasks()
    assert len(of_first) > 2
    host.stop(signal.SIGKILL, "os.rename .*/lake/", 20, *fill)
    of_second = host.ended_tasks()
    assert of_first.items() <= of_second.items()
    assert host.run(*fill)["already"] > 0
    assert not list(host.home.glob("cluster/fill-*"))
    with Store(host.home / "engine") as store:
        request = asking.tokens, asking.instants[-3:]
        embedded = [*map_batches(store, *request, MapOptions())]
        embedded += [{"holders": rows} for rows in holder_batches(store, *request, 80, details=True)]
    lake = Lake(host.home / "lake")
    for name in ("maps", "map_nodes", "grouped_transfers", "clusters", "cluster_members", "holders"):
        expected = pa.concat_tables(tables[name] for tables in embedded if name in tables)
        columns = [column for column in expected.column_names if column not in OF_REQUEST]
        rows = lake.read(name).select(columns).to_pylist()
        assert sorted(map(str, rows)) == sorted(map(str, expected.select(columns).to_pylist())), name
