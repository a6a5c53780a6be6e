"""Return whether an import fits on the disk: refused before it begins where it certainly does not."""

from __future__ import annotations

import shutil
from pathlib import Path
from typing import Final

from holderlake.engine.errors import UnusableStore
from holderlake.engine.files.manifest import OPENING, Manifest

LEAST_BYTES: Final = 50
"""Bytes that a new transfer takes at least: 28 as a part's move and key, 26 as two entries of a run, and its row in
Parquet. Typical transfers take 200."""


def refuse_if_too_large(root: Path, rows: int, manifest: Manifest) -> None:
    """Raise ``UnusableStore`` where the rows do not fit, even if all that is stored is among them."""
    free = shutil.disk_usage(root).free
    if rows * LEAST_BYTES <= free:
        return
    stored = sum(part.transfers for parts in manifest.parts.values() for part in parts if part.kind != OPENING)
    need = (rows - stored) * LEAST_BYTES
    if need > free:
        raise UnusableStore(
            f"{root}: importing {rows:,} transfers needs at least {need / 1e6:,.1f} MB, and {free / 1e6:,.1f} MB are "
            "free; free some space, or set engine.store to a folder on a larger disk"
        )
