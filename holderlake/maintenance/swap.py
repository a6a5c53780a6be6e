"""How a lake that was made again takes the place of the old one: whatever is killed and when, there is a lake."""

from __future__ import annotations

import shutil
from collections.abc import Iterator, Sequence
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import Final

from holderlake.lake import commits, manifests
from holderlake.lake.lake import Lake, LakeError
from holderlake.storage.locks import locked
from holderlake.warehouse.warehouse import Warehouse
from holderlake.workspace import Workspace

_KEPT_AS_THEY_ARE: Final = (commits.QUARANTINE, "_buckets")


@contextmanager
def alone(workspace: Workspace) -> Iterator[None]:
    """Raises ``LakeError`` while another process makes the same lake again."""
    if_held = LakeError("another process is rebuilding the lake; wait until it ends")
    with locked(workspace.settings.home / "lake.rebuilding.lock", if_held):
        yield


def _before(lake: Path) -> Path:
    return lake.with_name("lake.before")


def lakes_of(lake: Path) -> list[Lake]:
    """The lake of that place, and the one that was there before, as far as there are such."""
    return [Lake(path) for path in (lake, _before(lake)) if path.exists()]


def recovered(lake: Path) -> list[Lake]:
    """The old lakes: two where a rebuild was killed while they changed places, and somebody ingested since."""
    if _before(lake).exists() and not lake.exists():
        _before(lake).rename(lake)
    return lakes_of(lake)


def emptied(folder: Path) -> None:
    """Removes the folder and all in it, where there is one."""
    if folder.exists():
        shutil.rmtree(folder)


@contextmanager
def writers_held(old: Sequence[Lake]) -> Iterator[None]:
    """Holds back those who would commit to the lake while it changes places."""
    with ExitStack() as held:
        for lake in old[:1]:
            for chain in sorted({manifest.chain for manifest in lake.manifests()}):
                held.enter_context(commits.locked(lake.root, chain))
                for path in _unfinished(lake.root, chain):  # whoever looks at one waits for the lock that we hold
                    commits.finish(lake.root, path)
        yield


def _unfinished(root: Path, chain: str) -> list[Path]:
    """The manifests of a chain whose commit was interrupted."""
    folder = manifests.manifest_path(root, "any", chain, "any").parent.parent
    return [path.with_suffix(".json") for path in folder.glob("*/*.next")]


def _keep_unlisted(before: Path, place: Path) -> None:
    """Move what no manifest of the old lake lists to the new lake's quarantine: it may be the only copy."""
    if not before.exists():
        return
    old = Lake(before)
    ours = {path for manifest in old.manifests() for path in manifests.files_of(before, manifest)}
    for path in sorted(before.rglob("*")):
        if path.is_file() and path not in ours and path.name not in (".lock", old.provider_path.name):
            moved = place / path.relative_to(before)
            if moved.parts[len(place.parts)] not in _KEPT_AS_THEY_ARE:
                moved = place / commits.QUARANTINE / "before-rebuild" / path.relative_to(before)
            if not moved.exists():
                moved.parent.mkdir(parents=True, exist_ok=True)
                path.rename(moved)


def take_over(workspace: Workspace, fresh: Lake) -> None:
    """Puts the new lake and a warehouse made of it in place of the old ones."""
    place, before = workspace.settings.lake, _before(workspace.settings.lake)
    published = workspace.settings.warehouse
    made = Warehouse(published.with_name(f"{published.name}.rebuilt"))
    for leftover in published.parent.glob(f"{made.path.name}*"):
        leftover.unlink()
    made.load(fresh)
    emptied(before)
    if place.exists():
        place.rename(before)
    fresh.root.mkdir(exist_ok=True)  # where nothing could be made
    fresh.root.rename(place)
    made.path.replace(published)
    _keep_unlisted(before, place)
    emptied(before)
    for leftover in published.parent.glob(f"{made.path.name}*"):
        leftover.unlink()
