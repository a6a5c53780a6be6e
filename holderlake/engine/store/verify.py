"""Check all files of a store byte by byte: catalogue, transfers and derived files."""

from __future__ import annotations

import os
import sqlite3
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import Final

from holderlake.engine.catalog import catalog as catalogue
from holderlake.engine.catalog import catalog_copy
from holderlake.engine.errors import DamagedCatalog
from holderlake.engine.files.disk_errors import REBUILD
from holderlake.engine.files.integrity import Sums, fault_of, read_sums
from holderlake.engine.store.unlisted import QUARANTINE, quarantined, refuse_unlisted_transfers, unlisted_files

CATALOG: Final = catalog_copy.CATALOG
DERIVED: Final = ("arrays/", "balances/")
"""Folders of the files that can be made again from the transfers."""

_HISTORY: Final = """
SELECT chain, token_address, transfers, first_block, last_block
FROM parts JOIN histories ON token = number
WHERE file = ?
"""
_DISTRUST: Final = "UPDATE files SET signature = NULL WHERE path = ? AND signature IS NOT NULL"


@dataclass(frozen=True)
class FileProblem:
    """A damaged file. ``path`` is its path within the store.

    ``problem`` is a text about the damage, ``remedy`` the way to repair it. ``token`` is the chain and address of the
    token whose rows the file has; None for other files.
    """

    path: str
    problem: str
    remedy: str
    token: tuple[str, str] | None = None


@dataclass
class StoreCheck:
    """Result of a check.

    ``files`` and ``bytes`` are the numbers of compared files and bytes. ``damaged`` has the damaged files, ``unlisted``
    the files that the catalogue does not list. ``quarantined`` is the number of files in quarantine.
    """

    files: int = 0
    bytes: int = 0
    damaged: list[FileProblem] = field(default_factory=list)
    unlisted: list[str] = field(default_factory=list)
    quarantined: int = 0


def _ignore(size: int) -> None:
    """Default of ``begin`` and ``step``, for callers that show no progress."""


def verify(
    root: Path, begin: Callable[[int], None] = _ignore, step: Callable[[int], None] = _ignore, reads: bool = True
) -> StoreCheck:
    """Compare every file of a store with its recorded size and checksum. With ``reads=False``, read only changed files.

    ``begin`` is called with the total number of bytes to read, and ``step`` with the size of each file after it was
    read.
    """
    verified = StoreCheck(quarantined=len(quarantined(root)))
    sums = _check_catalog(root, verified)
    begin(sum(file_sum.size for file_sum in sums.values()))
    with ThreadPoolExecutor(min(4, os.cpu_count() or 1)) as threads:
        for path, problem in zip(
            sums, threads.map(lambda path: fault_of(root / path, sums[path], every_byte=reads), sums), strict=True
        ):
            verified.files += 1
            verified.bytes += sums[path].size
            if problem:
                verified.damaged.append(_described(root, path, problem))
            step(sums[path].size)
    if reads and verified.damaged:
        _distrust(root, [damage.path for damage in verified.damaged])
    return verified


def _distrust(root: Path, paths: list[str]) -> None:
    """Remove the recorded signatures of damaged files. Each process then compares these files before it uses them."""
    with suppress(DamagedCatalog), catalogue.transaction(root) as catalog:
        catalog.executemany(_DISTRUST, [(path,) for path in paths])


def _check_catalog(root: Path, verified: StoreCheck) -> Sums:
    """Check the catalogue and its copy. Return the recorded ``Sum`` of each file that it lists."""
    try:
        with catalogue.transaction(root) as catalog:
            catalog_copy.check(catalog, root, always=True)
            _check_pages(catalog, root)
            sums = read_sums(catalog)
            verified.unlisted = unlisted_files(catalog, root)
            _check_listing(catalog, root, verified)
    except DamagedCatalog as error:
        verified.damaged.append(FileProblem(CATALOG, str(error), f"{REBUILD} to make the catalogue again"))
        return {}
    if catalog_copy.read_copy(root) is None:
        verified.damaged.append(FileProblem(catalog_copy.COPY, "is missing or damaged", f"{REBUILD} to make it again"))
    return sums


def _check_listing(catalog: sqlite3.Connection, root: Path, verified: StoreCheck) -> None:
    try:
        refuse_unlisted_transfers(catalog, root)
    except DamagedCatalog as error:
        verified.damaged.append(FileProblem(CATALOG, str(error), f"{REBUILD} to add the transfers"))


def _check_pages(catalog: sqlite3.Connection, root: Path) -> None:
    (answer,) = catalog.execute("PRAGMA integrity_check(1)").fetchone()
    if answer != "ok":
        raise DamagedCatalog(f"{root / CATALOG} is damaged: {answer}; {REBUILD} to restore it from its copy")


def _described(root: Path, path: str, problem: str) -> FileProblem:
    if path.startswith(DERIVED):
        return FileProblem(path, problem, f"{REBUILD} to make it again from the transfers")
    with catalogue.transaction(root) as catalog:
        row = catalog.execute(_HISTORY, (Path(path).stem,)).fetchone()
    chain, address, transfers, first_block, last_block = row
    kind = "opening balances" if path.startswith("openings/") else "transfers"
    remedy = (
        f"{REBUILD}, then import the {kind} of token {address} on {chain} again; this file holds {transfers:,} "
        f"of blocks {first_block} to {last_block}"
    )
    return FileProblem(path, problem, remedy, (chain, address))


def describe_quarantine(root: Path) -> tuple[int, int]:
    """Return the number of files in quarantine, and their total size in bytes."""
    files = quarantined(root)
    return len(files), sum(path.stat().st_size for path in files)


def empty_quarantine(root: Path) -> int:
    """Delete the files in quarantine permanently. Return their number."""
    files = quarantined(root)
    for path in files:
        path.unlink()
    for folder in sorted((root / QUARANTINE).rglob("*"), reverse=True):
        folder.rmdir()
    return len(files)
