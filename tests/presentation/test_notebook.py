"""The analyst's notebook on a fresh checkout. ``tests/end_to_end/test_demo.py`` runs its cells over the demo's data."""

from __future__ import annotations

import ast
import importlib.util
import re
import sys
from datetime import datetime
from pathlib import Path
from types import ModuleType
from typing import Final

import pytest

from holderlake.core.lake.lake import Lake
from holderlake.core.warehouse.warehouse import Warehouse
from tests.helpers.lakes import write_holders
from tests.helpers.real import missing

pytestmark = pytest.mark.integration

ROOT: Final = Path(__file__).parents[2]
NOTEBOOK: Final = ROOT / "notebooks" / "warehouse.py"


@pytest.fixture
def notebook(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> ModuleType:
    """The notebook over an empty home, ``tmp_path``."""
    if importlib.util.find_spec("marimo") is None:
        missing("the notebook needs marimo; run 'make extras' or 'make notebook'")
    monkeypatch.setenv("HOLDERLAKE_HOME", str(tmp_path))
    monkeypatch.setenv("MPLBACKEND", "agg")
    spec = importlib.util.spec_from_file_location("notebook", NOTEBOOK)
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


@pytest.mark.long
def test_without_a_warehouse_the_notebook_says_how_to_make_one(notebook: ModuleType) -> None:
    shown, made = notebook.app.run()
    assert [cell.text.count("make demo") for cell in shown if cell is not None] == [1]
    assert "tokens" not in made  # no cell fails: those below wait for the warehouse


@pytest.mark.long
def test_without_a_map_the_notebook_says_how_to_get_one(notebook: ModuleType, tmp_path: Path) -> None:
    lake = Lake(tmp_path / "lake")
    write_holders(lake, "eth", datetime(2026, 11, 1), {"0xa": {"0x1": 1}})
    Warehouse(tmp_path / "warehouse.duckdb").load(lake)
    shown, _ = notebook.app.run()
    assert ["no map yet" in cell.text for cell in shown if cell is not None] == [False, True]


def test_make_notebook_installs_every_package_that_the_notebook_needs() -> None:
    tree = ast.parse(NOTEBOOK.read_text())
    imported = {
        name.name.partition(".")[0] for one in ast.walk(tree) if isinstance(one, ast.Import) for name in one.names
    }
    frames = {one.attr for one in ast.walk(tree) if isinstance(one, ast.Attribute)} & {"pandas", "polars"}
    locked = "\n".join((ROOT / "locks" / f"requirements{part}.lock").read_text() for part in ("", "-notebook"))
    needed = (imported | frames) - sys.stdlib_module_names - {"holderlake"}
    assert {"marimo", "matplotlib", "pandas", "polars"} <= needed
    assert {name for name in needed if re.search(rf"^{name}==", locked, re.MULTILINE) is None} == set()
