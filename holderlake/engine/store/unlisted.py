"""Files in a store's folder that the catalogue does not list. Only files that are recorded as replaced are deleted.

A store is refused if it has unlisted files of transfers. Then the catalogue was emptied, or replaced by an older one.
Other unlisted files are moved to the folder ``quarantine`` after an hour, and stay there
until ``holderlake delete quarantine``.
"""

from __future__ import annotations

import logging
import sqlite3
import time
from collections.abc import Collection, Iterator, Sequence
from pathlib import Path
from typing import Final

from holderlake.engine.catalog.catalog import EMPTY
from holderlake.engine.catalog.catalog_copy import CATALOG
from holderlake.engine.errors import DamagedCatalog
from holderlake.engine.files.disk_errors import REBUILD
from holderlake.engine.importing.paths import FOLDERS, import_of, imports_under_way

_log = logging.getLogger(__name__)

QUARANTINE: Final = "quarantine"
GRACE_SECONDS: Final = 3_600
_SPILL_SECONDS: Final = 86_400

_KNOWN_PATHS: Final = "SELECT path FROM listed UNION SELECT path FROM files"
_EXPIRED: Final = "SELECT path FROM files WHERE replaced_at < ?"


def refuse_unlisted_transfers(catalog: sqlite3.Connection, root: Path) -> None:
    """Raise ``DamagedCatalog`` if the folder has an unlisted file of transfers."""
    unlisted = [path for path in unlisted_files(catalog, root) if path.startswith(("transfers/", "openings/"))]
    if unlisted:
        raise DamagedCatalog(
            f"{root / CATALOG} was emptied or is older than the files in {root}: it does not list {unlisted[0]} "
            f"(unlisted files of transfers: {len(unlisted)}); {REBUILD} to add them"
        )


def unlisted_files(catalog: sqlite3.Connection, root: Path) -> list[str]:
    """Return the files that the catalogue does not list, as paths relative to the store.

    Files that an import replaced, and files of a running import, are left out.
    """
    paths = sorted(_files(root))  # before the catalogue is read: an import in between adds no unlisted file
    running = imports_under_way(root)
    known_paths = {path for (path,) in catalog.execute(_KNOWN_PATHS)}
    return [
        path
        for path in paths
        if path not in known_paths and import_of(Path(path).name) not in running and (root / path).exists()
    ]


def tidy(catalog: sqlite3.Connection, root: Path, listed: Collection[str]) -> None:
    """Delete files that were replaced over an hour ago. Move other unlisted files that are over an hour old to
    quarantine.

    ``listed`` are the paths that the catalogue lists. The caller must hold the write transaction.
    """
    for (path,) in catalog.execute(_EXPIRED, (int(time.time()) - GRACE_SECONDS,)).fetchall():
        if path not in listed:
            (root / path).unlink(missing_ok=True)
        catalog.execute("DELETE FROM files WHERE path = ? AND replaced_at IS NOT NULL", (path,))
    strays = [path for path in unlisted_files(catalog, root) if _age(root / path) > GRACE_SECONDS]
    set_aside(root, strays, "not listed in the catalogue")
    for path in root.glob(".spill/*"):
        if _age(path) > _SPILL_SECONDS:
            path.unlink(missing_ok=True)


def set_aside(root: Path, paths: Sequence[str], reason: str) -> None:
    """Move files of the store to its quarantine folder, where they keep their path and name. ``reason`` is logged."""
    for path in paths:
        target = _free(root / QUARANTINE / path)
        target.parent.mkdir(parents=True, exist_ok=True)
        (root / path).replace(target)
    if paths:
        _log.warning(
            "moved %d files of %s to its folder %s, such as %s: %s. To use one again, move it back and run "
            "'holderlake store rebuild'; 'holderlake delete quarantine --yes' deletes them",
            len(paths), root, QUARANTINE, paths[0], reason,
        )  # fmt: skip


def quarantined(root: Path) -> list[Path]:
    """Return the files in the quarantine folder, sorted."""
    return sorted(path for path in (root / QUARANTINE).rglob("*") if path.is_file())


def _free(path: Path) -> Path:
    number, free_path = 1, path
    while free_path.exists():
        number += 1
        free_path = path.with_name(f"{path.name}.{number}")
    return free_path


def _files(root: Path) -> Iterator[str]:
    for folder in FOLDERS:
        for path in (root / folder).iterdir():
            if path.name != EMPTY and path.is_file():
                yield f"{folder}/{path.name}"


def _age(path: Path) -> float:
    """Return the seconds since a file was last written; 0 if it is missing."""
    try:
        return time.time() - path.stat().st_mtime
    except FileNotFoundError:
        return 0.0
