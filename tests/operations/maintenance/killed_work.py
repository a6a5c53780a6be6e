"""Commands on a home for ``tests.helpers.killing``: the home is the folder, and other folders lie next to it."""

from __future__ import annotations

from pathlib import Path

from holderlake.core.settings import Settings
from holderlake.core.workspace import Endpoint, Workspace
from holderlake.operations.history.steps import history_steps
from holderlake.operations.maintenance.backup.backup import backup
from holderlake.operations.maintenance.backup.restore import restore
from holderlake.operations.maintenance.upgrade import upgrade


def workspace_of(home: Path) -> Workspace:
    """Return a workspace that cannot send requests."""
    return Workspace(Settings(home=home), lambda: Endpoint("http://127.0.0.1:9", None, "sample"))


def restored(home: Path) -> None:
    """Restore the backup that lies in the folder ``backups`` next to the home."""
    restore(workspace_of(home), home.parent / "backups")


def backed_up(folder: Path) -> None:
    """Back up the home that lies next to the folder of the backups."""
    backup(workspace_of(folder.parent / "home"), folder)


def upgraded(home: Path) -> None:
    """Upgrade a home, with Dagster's history in it."""
    workspace = workspace_of(home)
    upgrade(workspace, lambda: history_steps(workspace.settings.dagster_home))
