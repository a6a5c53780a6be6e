"""Empty lakes and warehouses, and one with a single row."""

from __future__ import annotations

import shutil
from pathlib import Path

import pytest

from holderlake.core.lake.lake import Lake
from holderlake.core.warehouse.warehouse import Warehouse
from tests.helpers.lakes import DAYS, write_holders


@pytest.fixture
def lake(tmp_path: Path) -> Lake:
    return Lake(tmp_path / "lake")


@pytest.fixture
def new_warehouse(tmp_path: Path) -> Warehouse:
    """A warehouse without a file."""
    return Warehouse(tmp_path / "warehouse.duckdb")


@pytest.fixture
def warehouse(new_warehouse: Warehouse, empty_warehouse: Path) -> Warehouse:
    """A warehouse without rows, copied: the first load takes a quarter of a second to create views and macros."""
    shutil.copy(empty_warehouse, new_warehouse.path)
    return new_warehouse


@pytest.fixture(scope="session")
def empty_warehouse(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A warehouse with all tables, views and macros, and no rows."""
    folder = tmp_path_factory.mktemp("empty")
    warehouse = Warehouse(folder / "warehouse.duckdb")
    warehouse.load(Lake(folder / "lake"))
    return warehouse.path


@pytest.fixture
def home_with_warehouse(empty_warehouse: Path, tmp_path: Path) -> Path:
    """The home of ``make_workspace``, with a warehouse without rows."""
    shutil.copy(empty_warehouse, tmp_path)
    return tmp_path


@pytest.fixture(scope="session")
def small(tmp_path_factory: pytest.TempPathFactory) -> Warehouse:
    """A warehouse with one row, for tests that only read."""
    folder = tmp_path_factory.mktemp("small")
    lake, warehouse = Lake(folder / "lake"), Warehouse(folder / "warehouse.duckdb")
    write_holders(lake, "eth", DAYS[0], {"0xa": {"0x1": 1}})
    warehouse.load(lake)
    return warehouse
