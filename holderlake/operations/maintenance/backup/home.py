"""The parts of a home in the order of a consistent copy, while runs write to it.

Runs archive an answer, then commit its rows, then load the warehouse. So the warehouse is copied first, then the lake,
then the archive: a later part always has what an earlier part refers to. The ledger is last, so that it has every call
whose answer is in the archive.
"""

from __future__ import annotations

import os
import re
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path
from typing import Final

from holderlake.core.lake import commits, manifests
from holderlake.core.lake.lake import Lake
from holderlake.core.lake.manifests import NO_FILE, DamagedManifest
from holderlake.core.storage.layout import MANIFESTS, chain_folder, place_of
from holderlake.core.workspace import Workspace
from holderlake.engine.catalog.catalog_copy import CATALOG, COPY
from holderlake.engine.importing.paths import FOLDERS
from holderlake.engine.settings import store_folder
from holderlake.engine.store.snapshot import snapshot
from holderlake.operations.maintenance.backup.files import STORE, TEMPORARY, Copier, is_database

_ATTEMPTS: Final = 5
_SKIPPED: Final = re.compile(
    rf"warehouse\.duckdb($|\..*)|ledger\.sqlite$|lake/(?!_)[^/]+/{chain_folder('.*')}|lake/{MANIFESTS}/.*"
    r"|lake\.(rebuilding|before)/.*|archive/.*|bucket/.*|sample-world/engine-.*|\.restor(ing|ed)/.*"
)
"""Paths within a home that are copied in another way, or can be made again: the sample world, copies of a bucket."""


def copy_home(workspace: Workspace, copier: Copier) -> None:
    """Copy all parts of a home."""
    settings = workspace.settings
    home, store = settings.home.resolve(), store_folder(settings).resolve()
    with suppress(FileNotFoundError):
        copier.add(settings.warehouse, f"home/{settings.warehouse.name}")
    if settings.lake_folder.is_dir():
        _copy_lake(Lake(settings.lake_folder), copier, "home/lake")
    _copy_archive(settings.archive, copier, "home/archive")
    catalogs = (path for path in _files(home) if path.name == CATALOG)
    stores = {path.parent for path in catalogs if not _SKIPPED.match(path.relative_to(home).as_posix())}
    for root in {*stores, *([store] if (store / CATALOG).exists() else [])}:
        _copy_store(root, copier, f"home/{root.relative_to(home)}" if root.is_relative_to(home) else STORE)
    for path in _files(home):
        name = path.relative_to(home).as_posix()
        if not _SKIPPED.match(name) and not any(path.is_relative_to(root) for root in stores):
            _copy(path, copier, f"home/{name}")
    if settings.ledger.exists():
        copier.add_database(settings.ledger, f"home/{settings.ledger.name}")


def _copy_lake(lake: Lake, copier: Copier, name: str) -> None:
    for path in lake.manifest_paths():
        reason = _copy_partition(lake.root, path, copier, name)
        if reason:
            copier.problems.append(f"{reason}; its partition is not in the backup")


def _copy_partition(root: Path, path: Path, copier: Copier, name: str) -> str:
    """Copy a partition's manifest and the files it names. Return the fault of a damaged partition, or an empty text.

    A new commit may replace the files after the manifest was read. So if a file does not match, the manifest and its
    files are read again, after the end of that commit.
    """
    reason, previous_data = "", b""
    for _ in range(_ATTEMPTS):
        try:
            commits.settled_manifest_path(root, *place_of(path))
            data, stat = path.read_bytes(), path.stat()
            manifest = manifests.parsed_manifest(data, path)
        except FileNotFoundError:
            return ""  # moved to the quarantine, which is copied later
        except DamagedManifest as error:
            return str(error)
        names = []
        for table, file in manifest.tables.items():
            source = manifests.file_of(root, manifest, table)
            names.append(f"{name}/{source.relative_to(root).as_posix()}")
            if file != NO_FILE and not _add_file(copier, source, names[-1], file.sha256):
                reason = f"{source} does not match its manifest"
                break
        else:
            copier.add_bytes(data, f"{name}/{path.relative_to(root).as_posix()}", stat)
            return ""
        for copied_name in names:
            copier.drop(copied_name)
        if data == previous_data:
            break
        previous_data = data
    return reason


def _add_file(copier: Copier, source: Path, name: str, sha256: str) -> bool:
    try:
        return copier.add(source, name, sha256)
    except FileNotFoundError:
        return False


def _copy_archive(root: Path, copier: Copier, name: str) -> None:
    """Copy the archive: all segments and commit records, which never change, and the index.

    The folder is listed again until no new file appears, because a removal of answers moves a segment's remaining
    answers to a new segment.
    """
    copied_paths: set[Path] = set()
    while fresh := {path for path in _files(root) if path.relative_to(root).parts[0] != "locks"} - copied_paths:
        copied_paths |= fresh
        for path in sorted(fresh):
            if path.name != "index.sqlite":
                _copy(path, copier, f"{name}/{path.relative_to(root).as_posix()}")
    if (root / "index.sqlite").exists():
        copier.add_database(root / "index.sqlite", f"{name}/index.sqlite")


def _copy_store(root: Path, copier: Copier, name: str) -> None:
    """Copy an engine's store: first the other files, such as the list of blocks, then all files of its catalogue.

    The list of imported blocks may thus lack the last blocks. After a restore, they are imported again.
    """
    listed = {root / CATALOG, root / COPY}
    for path in _files(root):
        if path not in listed and path.relative_to(root).parts[0] not in FOLDERS:
            _copy(path, copier, f"{name}/{path.relative_to(root).as_posix()}")
    missing_file = ""
    for _ in range(_ATTEMPTS):
        store_snapshot, stat = snapshot(root), (root / CATALOG).stat()
        try:
            for file in store_snapshot.files:
                missing_file = file
                copier.add(root / file, f"{name}/{file}")
        except FileNotFoundError:  # an import replaced it since
            continue
        copier.add_bytes(store_snapshot.catalog, f"{name}/{CATALOG}", stat)
        copier.add_bytes(store_snapshot.copy, f"{name}/{COPY}", stat)
        return
    copier.problems.append(
        f"{root / missing_file} is missing; the store is not in the backup ('holderlake store verify')"
    )


def _copy(path: Path, copier: Copier, name: str) -> None:
    with suppress(FileNotFoundError):
        if is_database(path):
            copier.add_database(path, name)
        else:
            copier.add(path, name)


def _files(root: Path) -> Iterator[Path]:
    """Yield the files below a folder, sorted, without links and temporary files.

    A folder that a run deletes meanwhile is left out.
    """
    for folder, folders, names in os.walk(root):
        folders[:] = sorted(subfolder for subfolder in folders if not TEMPORARY.fullmatch(subfolder))
        for name in sorted(names):
            path = Path(folder) / name
            if not TEMPORARY.fullmatch(name) and path.is_file() and not path.is_symlink():
                yield path
