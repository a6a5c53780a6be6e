"""Commits of partitions: all files of a family's partition appear together, even if the process is killed.

A commit has three steps, under the chain's lock:

1. Write each new file under a temporary name in its own folder, and sync it.
2. Rename the new manifest to ``<family>.next``, next to the old one. From here on the commit counts.
3. Rename the temporary files to their final names, then ``<family>.next`` to the manifest's name.

After a kill before step 2 the old manifest counts, and the next commit deletes the temporary files. After a kill in
step 3 the next reader or writer finishes it. Files are synced, folders are not, because each sync costs milliseconds:
if a power cut undoes a rename, the file does not match its manifest, and the partition is written again.

The rows of the files belong in ``lake``.
"""

from __future__ import annotations

import logging
import os
import re
from collections.abc import Callable, Collection, Iterator, Mapping
from contextlib import ExitStack, contextmanager, suppress
from pathlib import Path
from typing import Final

import msgspec

from holderlake.core.contract.tables import FAMILY_TABLES, SIDE_TABLES
from holderlake.core.lake.manifests import (
    NO_FILE,
    Manifest,
    file_of,
    has_its_files,
    read_manifest,
    sealed,
)
from holderlake.core.storage import locks
from holderlake.core.storage.atomic_files import set_aside
from holderlake.core.storage.layout import (
    chain_folder,
    manifest_folder,
    manifest_path,
    place_of,
    table_name,
    timestamp_folder,
    value_of,
)

QUARANTINE: Final = "_quarantine"
"""The folder of a lake that damaged files are moved to."""
_STALE: Final = re.compile(r".+\.[0-9a-f]{32}\.tmp")
_log = logging.getLogger(__name__)


def settled_manifest_path(root: Path, family: str, chain: str, timestamp: str) -> Path:
    """Return the path of a partition's manifest, existing or not. Finishes an interrupted commit of it first."""
    path = manifest_path(root, family, chain, timestamp)
    if _journal(path).exists():
        with locked(root, chain):
            finish(root, path)
    return path


def manifest_paths(root: Path, chain: str | None = None, timestamp: str | None = None) -> Iterator[Path]:
    """Yield the paths of all manifests, or of one chain or timestamp, sorted by chain, timestamp and family.

    Finishes interrupted commits of these partitions first.
    """
    for of_chain in _folders(root / manifest_folder(), chain_folder, chain):
        for folder in _folders(of_chain, timestamp_folder, timestamp):
            yield from _paths_in(root, value_of(of_chain.name), folder)


def complete_manifests(root: Path, chain: str, timestamps: Collection[str]) -> Iterator[Manifest]:
    """Yield a chain's manifests at some timestamps, without those that lack a file (see ``has_its_files``)."""
    for folder in _folders(root / manifest_folder(chain), timestamp_folder, None):
        if value_of(folder.name) in timestamps:
            manifests = map(read_manifest, _paths_in(root, chain, folder))
            yield from (manifest for manifest in manifests if manifest and has_its_files(root, manifest))


def commit(root: Path, manifest: Manifest, files: Mapping[str, bytes]) -> None:
    """Write a partition's manifest and ``files`` (Parquet bytes by table) so that they appear together.

    The caller holds the chain's lock.
    """
    path = manifest_path(root, manifest.family, manifest.chain, manifest.timestamp)
    path.parent.mkdir(parents=True, exist_ok=True)
    _sweep(root, manifest)
    _write_synced({_temporary(file_of(root, manifest, table), manifest): data for table, data in files.items()})
    staged = _temporary(path, manifest)
    _write_synced({staged: msgspec.json.encode(sealed(manifest), order="sorted")})
    os.replace(staged, _journal(path))  # noqa: PTH105 - tests stop a commit at its renames
    finish(root, path)


def finish(root: Path, path: Path) -> None:
    """Finish an interrupted commit of the manifest ``path``, if there is one. The caller holds the chain's lock."""
    journal = _journal(path)
    manifest = read_manifest(journal)
    if manifest is None:
        if journal.exists():
            _log.warning(
                "the interrupted commit %s is damaged; it was moved to %s",
                journal,
                set_aside(journal, root, QUARANTINE),
            )
        return
    for table, file in manifest.tables.items():
        final = file_of(root, manifest, table)
        if file == NO_FILE:
            final.unlink(missing_ok=True)
            continue
        with suppress(FileNotFoundError):  # renamed before the commit was interrupted
            os.replace(_temporary(final, manifest), final)  # noqa: PTH105
    os.replace(journal, path)  # noqa: PTH105


def set_partition_aside(root: Path, path: Path) -> list[Path]:
    """Move a damaged partition's manifest ``path``, and all files that it may list, to the quarantine.

    Returns the new paths. The caller holds the chain's lock.
    """
    family, chain, timestamp = place_of(path)
    tables = (*FAMILY_TABLES.get(family, ()), *SIDE_TABLES)
    files = [path, *(root / table_name(table, chain, timestamp, family) for table in tables)]
    return [set_aside(file, root, QUARANTINE) for file in files if file.exists()]


@contextmanager
def locked(root: Path, chain: str | None) -> Iterator[None]:
    """Hold the lock of a chain's commits, or of the lake itself if ``chain`` is None."""
    with locks.locked(root / manifest_folder(chain) / ".lock"):
        yield


def _paths_in(root: Path, chain: str, folder: Path) -> Iterator[Path]:
    """Yield the paths of the manifests in ``folder`` (one chain and timestamp), sorted by family."""
    names = {Path(entry.name) for entry in os.scandir(folder)}
    for name in names:
        if name.suffix == ".next":
            with locked(root, chain):
                finish(root, folder / name.with_suffix(".json"))
    families = {name.stem for name in names if name.suffix in (".json", ".next")}
    yield from (folder / f"{family}.json" for family in sorted(families))


def _journal(path: Path) -> Path:
    return path.with_suffix(".next")


def _temporary(final: Path, manifest: Manifest) -> Path:
    return final.with_name(f"{final.name}.{manifest.commit}.tmp")


def _sweep(root: Path, manifest: Manifest) -> None:
    """Delete temporary files of killed commits of a partition. The caller holds the chain's lock."""
    folders = {file_of(root, manifest, table).parent for table in manifest.tables}
    for folder in folders | {manifest_path(root, *manifest.place).parent}:
        for stale in folder.glob("*.tmp"):
            if _STALE.fullmatch(stale.name):
                stale.unlink()


def _write_synced(files: Mapping[Path, bytes]) -> None:
    """Write all files (bytes by path), then sync each to disk: one sync often writes the other files too."""
    with ExitStack() as stack:
        opened = []
        for path, data in files.items():
            path.parent.mkdir(parents=True, exist_ok=True)
            opened.append(stack.enter_context(path.open("wb")))
            opened[-1].write(data)
            opened[-1].flush()
        for file in opened:
            os.fsync(file.fileno())


def _folders(parent: Path, name_of: Callable[[str], str], value: str | None) -> list[Path]:
    """Return the folders in ``parent`` whose names ``name_of`` makes from ``value``, or from any value (None)."""
    if value is not None:
        only = parent / name_of(value)
        return [only] if only.is_dir() else []
    try:
        names = sorted(entry.name for entry in os.scandir(parent) if entry.name.startswith(name_of("")))
    except FileNotFoundError:
        return []
    return [parent / name for name in names]
