"""Replace the lake by a rebuilt one, so that a complete lake remains if the process is killed at any point."""

from __future__ import annotations

import shutil
from collections.abc import Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import Final

from holderlake.core.lake import commits, manifests
from holderlake.core.lake.damage import damaged_files
from holderlake.core.lake.lake import Lake, LakeError
from holderlake.core.lake.manifests import content
from holderlake.core.storage.layout import Place, manifest_folder
from holderlake.core.storage.locks import locked
from holderlake.core.warehouse.warehouse import Warehouse
from holderlake.core.workspace import Workspace

_KEPT_FOLDERS: Final = (commits.QUARANTINE, "_buckets")


@contextmanager
def only_rebuild(workspace: Workspace) -> Iterator[None]:
    """Hold the lock for rebuilds during the ``with`` block. Raises ``LakeError`` if another process holds it."""
    if_held = LakeError("another process rebuilds the lake or backs up the home; wait until it ends")
    lock = workspace.settings.home / "lake.rebuilding.lock"
    with locked(lock, if_held):
        try:
            yield
        finally:
            lock.unlink(missing_ok=True)


def _old_folder(lake: Path) -> Path:
    return lake.with_name("lake.before")


def recover(lake: Path) -> list[Lake]:
    """Restore the lake if its replacement was killed midway. Return the existing lakes, the old one last."""
    if _old_folder(lake).exists() and not lake.exists():
        _old_folder(lake).rename(lake)
    return [Lake(path) for path in (lake, _old_folder(lake)) if path.exists()]


def remove_folder(folder: Path) -> None:
    """Remove the folder and its content if it exists."""
    if folder.exists():
        shutil.rmtree(folder)


def _remove_all(warehouse: Path) -> None:
    """Remove a warehouse's file, and the files and folders of its loads: its lock, and what a killed load left."""
    for path in warehouse.parent.glob(f"{warehouse.name}*"):
        if path.is_dir() and not path.is_symlink():
            shutil.rmtree(path)
        else:
            path.unlink()


@contextmanager
def writers_locked_out(lakes: Sequence[Lake]) -> Iterator[None]:
    """Lock every chain of the first lake in ``lakes`` during the ``with`` block, so that no process commits to it."""
    with ExitStack() as locks:
        for lake in lakes[:1]:
            for chain in sorted({manifest.chain for manifest in lake.manifests()}):
                locks.enter_context(commits.locked(lake.root, chain))
                for path in _unfinished(lake.root, chain):  # readers of one wait for the lock that we hold
                    commits.finish(lake.root, path)
        yield


def _unfinished(root: Path, chain: str) -> list[Path]:
    """Return the manifests of a chain whose commit was interrupted."""
    folder = root / manifest_folder(chain)
    return [path.with_suffix(".json") for path in folder.glob("*/*.next")]


def _keep_unlisted(old_folder: Path, place: Path) -> None:
    """Move files that no manifest lists from the old lake (``old_folder``) to the quarantine of the lake ``place``."""
    if not old_folder.exists():
        return
    old_lake = Lake(old_folder)
    ours = {path for manifest in old_lake.manifests() for path in manifests.files_of(old_folder, manifest)}
    for path in sorted(old_folder.rglob("*")):
        if path.is_file() and path not in ours and path.name not in (".lock", old_lake.provider_path.name):
            target = place / path.relative_to(old_folder)
            if target.parts[len(place.parts)] not in _KEPT_FOLDERS:
                target = place / commits.QUARANTINE / "before-rebuild" / path.relative_to(old_folder)
            if not target.exists():
                target.parent.mkdir(parents=True, exist_ok=True)
                path.rename(target)


def replace_partitions(workspace: Workspace, fresh: Lake, start_commits: Mapping[Place, str]) -> None:
    """Replace the partitions of the lake in the bucket that differ from ``fresh``, and load the warehouse.

    ``start_commits`` has the commit of each partition at the start of the rebuild. Partitions that another process has
    changed since then are kept. The replaced partitions move to the bucket's quarantine.
    """
    lake = workspace.lake
    for manifest in fresh.manifests():
        latest = lake.storage.latest(manifest.place)
        current_manifest = latest.manifest
        if current_manifest and current_manifest.commit != start_commits.get(current_manifest.place):
            continue
        if (
            current_manifest
            and content(current_manifest) == content(manifest)
            and not any(damaged_files(lake, current_manifest, every_byte=True))
        ):
            continue
        lake.replace(manifest, fresh.files(manifest), latest, quarantine=current_manifest is not None)
    workspace.warehouse.set_damaged_aside()
    workspace.warehouse.load(lake)
    remove_folder(fresh.root)


def replace_lake(workspace: Workspace, fresh: Lake) -> None:
    """Replace the lake by ``fresh``, and the warehouse by one that is loaded from ``fresh``."""
    place, old_folder = workspace.settings.lake_folder, _old_folder(workspace.settings.lake_folder)
    published = workspace.settings.warehouse
    loaded = Warehouse(published.with_name(f"{published.name}.rebuilt"), sql=workspace.settings.sql)
    _remove_all(loaded.path)
    loaded.load(fresh)
    remove_folder(old_folder)
    if place.exists():
        place.rename(old_folder)
    fresh.root.mkdir(exist_ok=True)  # if there was nothing to rebuild
    fresh.root.rename(place)
    loaded.path.replace(published)
    _keep_unlisted(old_folder, place)
    remove_folder(old_folder)
    _remove_all(loaded.path)
    workspace.warehouse.load(workspace.lake)  # shows the transfers of the user's own store again
