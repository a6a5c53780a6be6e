"""Backups of a home: one folder each, named after its time. Equal files of two backups are one file on disk.

A backup gets its name when it is complete. Each is complete in itself, so any of them can be deleted.
"""

from __future__ import annotations

import shutil
import time
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import Final

import msgspec

from holderlake.core.contract.times import partition_text, utc_now
from holderlake.core.lake.lake import LakeError
from holderlake.core.storage.atomic_files import sync_files
from holderlake.core.storage.locks import locked
from holderlake.core.workspace import Workspace
from holderlake.operations.maintenance.backup.elsewhere import elsewhere
from holderlake.operations.maintenance.backup.files import LIST, Copier, Listing, damaged, read_listing
from holderlake.operations.maintenance.backup.home import copy_home
from holderlake.operations.maintenance.replace_lake import only_rebuild, recover
from holderlake.presentation import console

_PARTIAL: Final = ".partial"


@dataclass(frozen=True)
class BackupReport:
    """A backup: its folder, numbers of files, bytes and copied bytes, seconds, and texts about damaged files.

    ``elsewhere`` are the parts of the home that are not in the backup, with how to copy them.
    """

    folder: str
    files: int
    bytes: int
    copied_bytes: int
    seconds: float
    problems: list[str] = field(default_factory=list)
    elsewhere: list[str] = field(default_factory=list)


def backups(folder: Path) -> list[Path]:
    """Return the folders of all complete backups in ``folder``, oldest first."""
    return sorted(path.parent for path in folder.glob(f"[!.]*/{LIST}"))


def backup(workspace: Workspace, folder: Path) -> BackupReport:
    """Copy the home into a new folder below ``folder``; runs may write meanwhile.

    Raises ``LakeError`` if there is no home, while the lake is rebuilt, and during another backup into ``folder``.
    """
    began = time.monotonic()
    home, folder = workspace.settings.home.resolve(), folder.resolve()
    if not home.is_dir() or not any(home.iterdir()):
        raise LakeError(f"there is nothing to back up: {home} is empty or missing; check HOLDERLAKE_HOME")
    if folder.is_relative_to(home):
        raise LakeError(f"{folder} is in the home {home}: choose a folder outside, best on another disk")
    folder.mkdir(mode=0o700, parents=True, exist_ok=True)
    busy = LakeError(f"another process writes a backup into {folder}; wait until it ends")
    with locked(folder / ".lock", busy), only_rebuild(workspace):
        recover(workspace.settings.lake_folder)
        partial = folder / _PARTIAL
        if partial.exists():  # of a backup that was killed
            shutil.rmtree(partial)
        partial.mkdir(mode=0o700)
        now = utc_now()
        copier = Copier(partial, _latest(folder))
        copy_home(workspace, copier)
        other_parts = elsewhere(workspace)
        listing = Listing(now.isoformat(), str(home), copier.files, copier.problems, list(other_parts))
        (partial / LIST).write_bytes(msgspec.json.encode(listing, order="sorted"))
        sync_files([*copier.unsynced, partial / LIST])
        final = _free_name(folder, partition_text(now))
        partial.rename(final)
    size = sum(entry.bytes for entry in copier.files.values())
    seconds = round(time.monotonic() - began, 1)
    copied = copier.copied_bytes
    return BackupReport(str(final), len(copier.files), size, copied, seconds, copier.problems, [*other_parts.values()])


def verify_backups(folder: Path) -> list[str]:
    """Compare every file of all backups in ``folder`` with its checksum, and return the paths of damaged ones.

    Raises ``LakeError`` if there is no backup.
    """
    listings = [(path, read_listing(path)) for path in backups(folder)]
    if not listings:
        raise LakeError(f"{folder} has no backup; 'holderlake home backup {folder}' makes one")
    checked_files: set[tuple[int, str]] = set()
    damaged_paths: list[str] = []
    with console.progress("reading files", sum(len(listing.files) for _, listing in listings)) as bar:
        for path, listing in listings:
            files = {}
            for name, entry in listing.files.items():
                inode = (path / name).stat().st_ino if (path / name).exists() else 0
                if not inode or (inode, entry.sha256) not in checked_files:
                    files[name] = entry
                checked_files.add((inode, entry.sha256))
            bar.advance(bar.task_ids[0], len(listing.files) - len(files))
            damaged_paths += damaged(path, files, lambda: bar.advance(bar.task_ids[0]))
    return damaged_paths


def _latest(folder: Path) -> tuple[Path, Listing] | None:
    """Return the newest backup with a readable list, and that list."""
    for path in reversed(backups(folder)):
        with suppress(LakeError):
            return path, read_listing(path)
    return None


def _free_name(folder: Path, name: str) -> Path:
    """Return the path ``folder/name`` for a new backup; if it exists, with a number, as in ``name-2``."""
    paths = [folder / name, *(folder / f"{name}-{number}" for number in range(2, 1_000))]
    return next(path for path in paths if not path.exists())
