"""The resources of Dagster's daemon open the same home as the commands."""

from __future__ import annotations

from datetime import datetime
from pathlib import Path
from typing import Any

import pytest

from holderlake.core.provider.ledger.entries import Reserve
from holderlake.core.settings import load_settings
from holderlake.core.workspace import Workspace
from holderlake.core.workspace import make_workspace as workspace_of_command
from holderlake.resources.workspace import all_resources
from tests.helpers.lakes import write_holders

_CALL = Reserve("run", "map", "eth/0xaa", 2500, None)
_TABLES = "SELECT table_name FROM duckdb_tables() WHERE schema_name = 'main' ORDER BY table_name"


def _workspace_of_daemon() -> Workspace:
    return all_resources(load_settings())["workspace"].open()  # type: ignore[no-any-return]


def _loaded(workspace: Workspace) -> dict[str, list[tuple[Any, ...]]]:
    """Load the warehouse, and return the rows of each table and of the view ``transfers``."""
    workspace.warehouse.load(workspace.lake)
    with workspace.warehouse.connect() as connection:
        names = [name for (name,) in connection.execute(_TABLES).fetchall()]
        return {
            name: connection.execute(f'FROM "{name}" ORDER BY ALL').fetchall() for name in [*names, "transfers"]
        }  # fmt: skip


@pytest.fixture
def home(sample_folder: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The home of the settings, with rows in the lake, calls in the ledger, and a store with transfers."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("HOLDERLAKE_HOME", str(tmp_path))
    monkeypatch.setenv("HOLDERLAKE_PROVIDER__LOCAL", "store")
    monkeypatch.setenv("HOLDERLAKE_ENGINE__STORE", str(sample_folder))
    return tmp_path


@pytest.mark.integration
def test_daemon_and_command_load_the_same_tables(home: Path) -> None:
    command, daemon = workspace_of_command(load_settings()), _workspace_of_daemon()
    write_holders(command.lake, "eth", datetime(2026, 5, 1), {"0xaa": {"0x01": 10}})
    command.ledger.apply([_CALL])
    by_command = _loaded(command)
    command.warehouse.path.unlink()
    assert _loaded(daemon) == by_command
    assert all(by_command[name] for name in ("holders", "spending", "transfers"))
    daemon.ledger.apply([_CALL])
    by_daemon, version = _loaded(daemon), daemon.warehouse.version
    assert by_daemon["spending"] != by_command["spending"]
    assert _loaded(command) == by_daemon
    assert command.warehouse.version == version
    command.close()
    daemon.close()
