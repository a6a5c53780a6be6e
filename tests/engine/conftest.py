"""Stores for the tests of the engine: small worlds, and histories with flaws."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import ExitStack
from typing import Any

import pytest

from holderlake.engine.store.store import Store
from tests.engine.world import Row, table, world
from tests.helpers import flawed_histories


@pytest.fixture
def build() -> Iterator[Callable[..., Store]]:
    """Makes stores as ``world`` does; they live as long as the test."""
    with ExitStack() as open_worlds:

        def make(*transfers: Row, **more: Any) -> Store:
            return open_worlds.enter_context(world(*transfers, **more))

        yield make


@pytest.fixture(scope="session")
def flawed_store(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Store]:
    """One store of all histories with flaws."""
    with Store(tmp_path_factory.mktemp("flawed")) as store:
        for name in flawed_histories.NAMES:
            store.add_transfers(table(flawed_histories.history(name)), name)
        yield store
