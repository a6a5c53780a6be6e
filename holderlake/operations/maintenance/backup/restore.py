"""Restore of a backup into an empty home: every file is compared with its checksum.

The files are first copied into the folder ``.restoring`` of the home. When all are there, it becomes ``.restored``, and
its content is moved to its places. A restore that was killed is repeated by the same command.
"""

from __future__ import annotations

import shutil
import time
from dataclasses import dataclass
from pathlib import Path
from typing import Final

import msgspec

from holderlake.core.lake.lake import LakeError
from holderlake.core.storage.atomic_files import sync_files
from holderlake.core.storage.locks import locked
from holderlake.core.workspace import Workspace
from holderlake.engine.settings import store_folder
from holderlake.operations.maintenance.backup.backup import backups
from holderlake.operations.maintenance.backup.elsewhere import missing_elsewhere
from holderlake.operations.maintenance.backup.files import HOME, LIST, STORE, Entry, copied, read_listing
from holderlake.presentation import console

_COPYING: Final = ".restoring"
_COMPLETE: Final = ".restored"
_LOCK: Final = ".restore.lock"
_FIRST_PARTS: Final = ("ledger.sqlite", "archive")
"""Parts of a home that are moved first: without them a run could pay again for what the backup has."""


@dataclass(frozen=True)
class RestoreReport:
    """A restore: the backup, the home, its files and bytes, the time of the backup (ISO, UTC), and its problems.

    ``missing`` are parts that the backup lacks and that were not found at their places, with the remedy.
    """

    backup: str
    home: str
    files: int
    bytes: int
    taken_at: str
    seconds: float
    problems: list[str]
    missing: list[str]


def restore(workspace: Workspace, folder: Path, name: str | None = None) -> RestoreReport:
    """Restore the newest backup in ``folder``, or the one of this ``name``, into the home of the settings.

    Raises ``LakeError`` if the home is not empty, a file of the backup is damaged, or the disk is too small. The home
    stays empty then.
    """
    began = time.monotonic()
    home, store = workspace.settings.home.resolve(), store_folder(workspace.settings).resolve()
    backup_folder = _chosen_backup(folder.resolve(), name)
    listing = read_listing(backup_folder)
    home.mkdir(parents=True, exist_ok=True)
    with locked(home / _LOCK, LakeError(f"another process restores into {home}; wait until it ends")):
        outside = store if any(path.startswith(f"{STORE}/") for path in listing.files) else None
        _refuse_if_used(home, outside)
        if (home / _COMPLETE).exists():  # of a restore that was killed while it moved the files
            listing = read_listing(home / _COMPLETE)
        else:
            _copy(backup_folder, listing.files, home / _COPYING)
            (home / _COPYING / LIST).write_bytes(msgspec.json.encode(listing, order="sorted"))
            sync_files(home / _COPYING / name for name in [*listing.files, LIST])
            (home / _COPYING).rename(home / _COMPLETE)
        _move(home, outside)
    (home / _LOCK).unlink(missing_ok=True)
    size = sum(entry.bytes for entry in listing.files.values())
    seconds = round(time.monotonic() - began, 1)
    missing = missing_elsewhere(workspace, listing.elsewhere)
    return RestoreReport(
        str(backup_folder), str(home), len(listing.files), size, listing.taken_at, seconds, listing.problems, missing
    )


def _chosen_backup(folder: Path, name: str | None) -> Path:
    """Return the folder of a backup. ``folder`` may also be that folder itself."""
    folders = backups(folder)
    if name is None and (folder / LIST).exists():
        return folder
    if not folders:
        raise LakeError(f"{folder} has no backup; 'holderlake home backup' makes one")
    if name is not None and folder / name not in folders:
        raise LakeError(f"{folder} has no backup {name!r}; it has {', '.join(path.name for path in folders)}")
    return folders[-1] if name is None else folder / name


def _refuse_if_used(home: Path, outside: Path | None) -> None:
    """Raise ``LakeError`` if the home, or a store outside of it, has other files than those of a killed restore."""
    if (home / _COMPLETE).exists():
        return
    own_names = {_COPYING, _LOCK}
    if any(path.name not in own_names for path in home.iterdir()):
        raise LakeError(f"the home {home} is not empty: move it away, or set HOLDERLAKE_HOME to another folder")
    if outside is not None and outside.exists() and any(outside.iterdir()):
        raise LakeError(f"the store {outside} is not empty: move it away, or set engine.store to another folder")


def _copy(backup: Path, files: dict[str, Entry], target: Path) -> None:
    if target.exists():  # of a restore that was killed
        shutil.rmtree(target)
    target.mkdir(mode=0o700)
    needed, free = sum(entry.bytes for entry in files.values()), shutil.disk_usage(target).free
    if needed > free:
        target.rmdir()
        raise LakeError(
            f"the disk of {target.parent} has {free:,} bytes free, and the backup needs {needed:,}: delete files"
        )
    with console.progress("restoring files", len(files)) as bar:
        for name, entry in files.items():
            (target / name).parent.mkdir(parents=True, exist_ok=True)
            if not copied(backup, name, entry, target / name):
                shutil.rmtree(target)
                raise LakeError(f"{backup / name} is damaged or missing; choose another backup with --backup")
            bar.advance(bar.task_ids[0])


def _move(home: Path, outside: Path | None) -> None:
    """Move the restored files to their places. It can be repeated after a kill at any point."""
    restored = home / _COMPLETE
    if outside is not None and (restored / STORE).exists():
        _move_store(restored / STORE, outside)
    parts = list((restored / HOME).iterdir()) if (restored / HOME).exists() else []
    for path in sorted(parts, key=lambda path: (path.name not in _FIRST_PARTS, path.name)):
        path.rename(home / path.name)
    shutil.rmtree(restored)


def _move_store(restored: Path, outside: Path) -> None:
    """Move a store to its place outside of the home, which may be on another disk and is empty or missing at first."""
    if not (outside.exists() and any(outside.iterdir())):
        building = outside.with_name(f".{outside.name}.restoring")
        if building.exists():
            shutil.rmtree(building)
        shutil.copytree(restored, building)
        sync_files(path for path in building.rglob("*") if path.is_file())
        if outside.exists():
            outside.rmdir()
        building.rename(outside)
    shutil.rmtree(restored)
