"""Fixtures that tests of several rooms share: real data, PostgreSQL, a chain's node, the service with sample data."""

from __future__ import annotations

import atexit
import gc
import logging
import os
import re
import shutil
import sys
import tempfile
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest
from hypothesis import settings

from tests.helpers.examples import some
from tests.helpers.processes import ended_processes, restore_signals

if TYPE_CHECKING:
    from tests.helpers.chain.anvil import Anvil
    from tests.helpers.ledgers import Ledger
    from tests.helpers.postgres import PostgresServer

REAL_DATA = Path(__file__).parents[2] / "shared" / "data"

pytest_plugins = ["tests.helpers.lake_fixtures", "tests.helpers.dagster_fixtures", "tests.helpers.versions"]
NEEDED_MEMORY = 4 << 30
os.environ["DAGSTER_DISABLE_TELEMETRY"] = "yes"
# no deadline, because the time of an example depends on the load of the machine
settings.register_profile("holderlake", deadline=None, max_examples=some(100))
settings.load_profile("holderlake")


def pytest_configure() -> None:
    """Restore signals, and write temporary files to memory if there is space, so that tests do not wait for a disk."""
    restore_signals()
    atexit.register(discard_standard_error)
    memory = Path("/dev/shm")
    if "TMPDIR" not in os.environ and memory.is_dir() and shutil.disk_usage(memory).free > NEEDED_MEMORY:
        os.environ["TMPDIR"] = tempfile.tempdir = str(memory)


def discard_standard_error() -> None:
    """Discard what the interpreter prints while it ends: DuckDB's binding lists objects of modules there as leaks."""
    sys.stderr.flush()
    os.dup2(os.open(os.devnull, os.O_WRONLY), 2)


def pytest_collection_finish() -> None:
    gc.freeze()  # imported modules stay, so that no collection has to look at them


def pytest_ignore_collect(collection_path: Path, config: pytest.Config) -> bool | None:
    """Leave out a file whose ``pytestmark`` is of another tier than the selected one: what it imports takes seconds."""
    if not collection_path.name.startswith("test_"):
        return None
    marked = re.search(r"^pytestmark = .*pytest\.mark\.(integration|long)", collection_path.read_text(), re.MULTILINE)
    return True if marked and f"not {marked[1]}" in config.option.markexpr else None


@pytest.hookimpl(tryfirst=True)  # before tests are left out or change their order: the number of a case counts
def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Mark later cases of a test: ``later(integration=2, long=5)`` marks those from a number on, counted from 0."""
    numbers: Counter[str] = Counter()
    for item in items:
        test = item.nodeid.partition("[")[0]
        for mark in item.iter_markers("later"):
            for tier, first in mark.kwargs.items():
                if numbers[test] >= first:
                    item.add_marker(tier)
        numbers[test] += 1


@pytest.fixture(scope="session")
def anyio_backend() -> str:
    """Return the event loop of tests that are coroutines, which the mark ``anyio`` runs."""
    return "asyncio"


@pytest.fixture(autouse=True)
def processes_end_with_their_test() -> Iterator[None]:
    """Kill the processes that a test leaves, however it ends. Fixtures of modules and of the session keep theirs."""
    with ended_processes():
        yield


@pytest.fixture(autouse=True)
def levels_of_logs_as_before() -> Iterator[None]:
    """Undo the log levels of a command that serves: in the tests, many commands share a process."""
    levels = {name: logging.getLogger(name).level for name in ("", "holderlake", "holderlake.service.requests")}
    yield
    for name, level in levels.items():
        logging.getLogger(name).setLevel(level)


def pytest_runtest_setup(item: pytest.Item) -> None:
    """Leave out a test of real data if they are missing. The reason names it, because pytest's summary does not."""
    if "shared_data" in getattr(item, "fixturenames", ()) and not REAL_DATA.exists():
        pytest.skip(f"left out {item.name}: there is no real data in {REAL_DATA}")


@pytest.fixture(scope="session")
def shared_data() -> Path:
    """The folder of real data, which is no part of the repository."""
    return REAL_DATA


@contextmanager
def running_postgres() -> Iterator[PostgresServer]:
    """Run a new PostgreSQL server until the block ends."""
    from tests.helpers.postgres import PostgresServer, programs

    server = PostgresServer(programs())
    try:
        server.make()
        server.start()
        yield server
    finally:
        server.remove()


@pytest.fixture(scope="session")
def postgres_server() -> Iterator[PostgresServer]:
    """A running PostgreSQL server."""
    with running_postgres() as server:
        yield server


@pytest.fixture
def own_postgres() -> Iterator[PostgresServer]:
    """A running PostgreSQL server that a test may stop."""
    with running_postgres() as server:
        yield server


@pytest.fixture
def postgres_url(postgres_server: PostgresServer) -> str:
    """The address of a new database."""
    return postgres_server.new_database()


@pytest.fixture(params=["sqlite", "postgresql"])
def ledger(request: pytest.FixtureRequest, tmp_path: Path) -> Ledger:
    """A new database of keys, of each kind."""
    from tests.helpers.ledgers import Ledger

    if request.param == "sqlite":
        return Ledger(tmp_path / "accounts.sqlite")
    server = request.getfixturevalue("postgres_server")
    return Ledger(tmp_path / "accounts", server.new_schema(), server)


@pytest.fixture
def anvil() -> Iterator[Anvil]:
    """A node of a new, empty chain."""
    from tests.helpers.chain.anvil import Anvil, program

    with Anvil(program()) as node:
        yield node


@dataclass(frozen=True)
class RunningService:
    """A service in this process: its address, store and keys, and a key with a large allowance."""

    base_url: str
    store: object
    keys: object
    secret: str


@pytest.fixture(scope="session")
def sample_folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The engine's store of the sample world."""
    from holderlake.sources.sample_world import sample_store

    return sample_store(tmp_path_factory.mktemp("home"))


@pytest.fixture(scope="session")
def sample_service(sample_folder: Path, tmp_path_factory: pytest.TempPathFactory) -> Iterator[RunningService]:
    """The real service over the sample world, on loopback."""
    from holderlake.engine.store.store import Store
    from holderlake.service.billing.keys import KeyStore
    from holderlake.service.run import BackgroundService

    with (
        Store(sample_folder) as store,
        KeyStore(tmp_path_factory.mktemp("keys") / "keys.sqlite") as keys,
        BackgroundService(store, keys) as service,
    ):
        secret = keys.create("tests", 10**9, custom_plan=True)
        yield RunningService(service.base_url, store, keys, secret)


@pytest.fixture
def make_workspace(sample_service: RunningService, tmp_path: Path) -> Iterator[Callable[..., Any]]:
    """Make workspaces of one home. ``secret`` and ``base_url`` are the sample service's by default."""
    with workspaces_of(sample_service, tmp_path) as make:
        yield make


@contextmanager
def workspaces_of(service: RunningService, home: Path) -> Iterator[Callable[..., Any]]:
    """Make workspaces of a home, and close them at the end of the block."""
    from pydantic import SecretStr

    from holderlake.core.settings import Settings
    from holderlake.core.workspace import Endpoint, Workspace
    from holderlake.sources.sample_world import with_sample_watchlist

    def make(secret: str | None = None, base_url: str | None = None, **settings: Any) -> Any:
        chosen = with_sample_watchlist(Settings(home=home, **settings))
        key = SecretStr(secret or service.secret)
        workspaces.append(Workspace(chosen, lambda: Endpoint(base_url or service.base_url, key, "sample")))
        return workspaces[-1]

    workspaces: list[Workspace] = []
    try:
        yield make
    finally:
        for workspace in workspaces:
            workspace.close()
