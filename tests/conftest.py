"""What tests of several rooms share: real data, PostgreSQL, a chain's node, the service over the sample world."""

from __future__ import annotations

import gc
import os
import shutil
import tempfile
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest
from hypothesis import settings

from tests import processes
from tests.chain.anvil import Anvil, program
from tests.examples import some
from tests.ledgers import Ledger
from tests.postgres import PostgresServer, programs

ROOT = Path(__file__).parents[1]

pytest_plugins = ["tests.lake_fixtures", "tests.dagster_fixtures"]
ROOM = 4 << 30
os.environ["DAGSTER_DISABLE_TELEMETRY"] = "yes"
# how long an example takes depends on who else computes here
settings.register_profile("holderlake", deadline=None, max_examples=some(100))
settings.load_profile("holderlake")


def pytest_configure() -> None:
    """Has all that tests write in memory where there is room, so that nothing waits for a disk."""
    memory = Path("/dev/shm")
    if "TMPDIR" not in os.environ and memory.is_dir() and shutil.disk_usage(memory).free > ROOM:
        os.environ["TMPDIR"] = tempfile.tempdir = str(memory)


def pytest_collection_finish() -> None:
    gc.freeze()  # what was imported stays; no collection looks at it again


def pytest_sessionfinish() -> None:
    processes.close()
    gc.unfreeze()  # or DuckDB's binding prints what is never freed


@pytest.fixture(scope="session")
def shared_data() -> Path:
    """The folder of real data; tests that need it are skipped where it is not."""
    folder = ROOT.parent / "shared" / "data"
    if not folder.exists():
        pytest.skip(f"real data is not here: {folder.name} is expected beside the checkout, under shared")
    return folder


@pytest.fixture(scope="session")
def contract_page() -> Path:
    """The page that closes the contract's gaps; tests that read it are skipped where it is not."""
    page = ROOT.parent / "shared" / "contract.md"
    if not page.exists():
        pytest.skip(f"the contract is not here: {page.name} is expected beside the checkout, under shared")
    return page


@pytest.fixture(scope="session")
def postgres_server() -> Iterator[PostgresServer]:
    """A PostgreSQL server that runs."""
    server = PostgresServer(programs())
    try:
        server.make()
        server.start()
        yield server
    finally:
        server.remove()


@pytest.fixture
def postgres_url(postgres_server: PostgresServer) -> str:
    """The address of a new database of its own."""
    return postgres_server.new_database()


@pytest.fixture(params=["sqlite", "postgresql"])
def ledger(request: pytest.FixtureRequest, tmp_path: Path) -> Ledger:
    """A new database of keys, of each kind."""
    if request.param == "sqlite":
        return Ledger(tmp_path / "accounts.sqlite")
    server = request.getfixturevalue("postgres_server")
    return Ledger(server.new_schema(), server)


@pytest.fixture
def anvil() -> Iterator[Anvil]:
    """A node of a new, empty chain."""
    with Anvil(program()) as node:
        yield node


@dataclass(frozen=True)
class RunningService:
    """A service in this process: where it listens, its store and keys, and a key with a large allowance."""

    base_url: str
    store: object
    keys: object
    secret: str


@pytest.fixture(scope="session")
def sample_folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The engine's store of the sample world."""
    from holderlake.local.embedded import sample_store

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
def make_workspace(sample_service: Any, tmp_path: Path) -> Iterator[Callable[..., Any]]:
    """Makes workspaces of one home; ``secret`` and ``base_url`` may be others than the sample service's."""

    from pydantic import SecretStr

    from holderlake.local.embedded import with_sample_watchlist
    from holderlake.settings import Settings
    from holderlake.workspace import Endpoint, Workspace

    def make(secret: str | None = None, base_url: str | None = None, **settings: Any) -> Any:
        chosen = with_sample_watchlist(Settings(home=tmp_path, **settings))
        key = SecretStr(secret or sample_service.secret)
        made.append(Workspace(chosen, lambda: Endpoint(base_url or sample_service.base_url, key, "sample")))
        return made[-1]

    made: list[Workspace] = []
    yield make
    for workspace in made:
        workspace.close()
