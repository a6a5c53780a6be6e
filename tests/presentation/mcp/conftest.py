"""A client of the MCP server over the explorer's world. It is imported by the fixture: its SDK may be missing."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from holderlake.core.warehouse.warehouse import Warehouse
from tests.presentation.explorer.world import fill

if TYPE_CHECKING:
    from tests.presentation.mcp.client import Assistant


@pytest.fixture(scope="package")
def warehouse(tmp_path_factory: pytest.TempPathFactory) -> Warehouse:
    return fill(tmp_path_factory.mktemp("world"))


@pytest.fixture(scope="package")
def assistant(warehouse: Warehouse) -> Iterator[Assistant]:
    from holderlake.presentation.mcp.spending import Spending
    from tests.presentation.mcp.client import COMMAND, assisting

    with assisting(warehouse, Spending(COMMAND, is_allowed=False)) as made:
        yield made


@pytest.fixture(scope="package")
def home(warehouse: Warehouse) -> Path:
    return warehouse.path.parent
