"""Stores for the tests of the engine: small worlds, and the real histories."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import ExitStack
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from holderlake.engine.records import TRANSFERS
from holderlake.engine.store.store import Store
from tests.engine.world import REAL_FILES, Row, world


@pytest.fixture
def build() -> Iterator[Callable[..., Store]]:
    """Makes stores as ``world`` does; they live as long as the test."""
    with ExitStack() as open_worlds:

        def make(*transfers: Row, **more: Any) -> Store:
            return open_worlds.enter_context(world(*transfers, **more))

        yield make


@pytest.fixture(scope="session")
def real_tables(shared_data: Path) -> dict[str, pa.Table]:
    """The real histories by name; they are not part of the repository."""
    return {name: pq.read_table(shared_data / "transfers" / f"{name}.parquet").cast(TRANSFERS) for name in REAL_FILES}


@pytest.fixture(scope="session")
def real_store(real_tables: dict[str, pa.Table], tmp_path_factory: pytest.TempPathFactory) -> Iterator[Store]:
    """One store that holds all real histories."""
    with Store(tmp_path_factory.mktemp("real")) as store:
        for name, transfers in real_tables.items():
            store.add_transfers(transfers, name)
        yield store
