"""Empty lakes and warehouses, and one with a single row."""

from __future__ import annotations

from pathlib import Path

import pytest

from holderlake.lake.lake import Lake
from holderlake.warehouse.warehouse import Warehouse
from tests.lakes import DAYS, write_holders


@pytest.fixture
def lake(tmp_path: Path) -> Lake:
    return Lake(tmp_path / "lake")


@pytest.fixture
def warehouse(tmp_path: Path) -> Warehouse:
    return Warehouse(tmp_path / "warehouse.duckdb")


@pytest.fixture(scope="session")
def empty_warehouse(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A warehouse with all tables, views and macros, and no rows."""
    folder = tmp_path_factory.mktemp("empty")
    warehouse = Warehouse(folder / "warehouse.duckdb")
    warehouse.load(Lake(folder / "lake"))
    return warehouse.path


@pytest.fixture(scope="session")
def small(tmp_path_factory: pytest.TempPathFactory) -> Warehouse:
    """A warehouse with one row, for tests that only read."""
    folder = tmp_path_factory.mktemp("small")
    lake, warehouse = Lake(folder / "lake"), Warehouse(folder / "warehouse.duckdb")
    write_holders(lake, "eth", DAYS[0], {"0xa": {"0x1": 1}})
    warehouse.load(lake)
    return warehouse
