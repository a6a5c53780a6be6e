"""Check before an import that its rows fit on the disk."""

from __future__ import annotations

import shutil
from pathlib import Path
from typing import Final

from holderlake.engine.errors import UnusableStore
from holderlake.engine.files.manifest import Manifest
from holderlake.units import counted

_LEAST_BYTES: Final = 50
"""Least number of bytes that a new transfer needs: 28 in a part, 26 in a run (two entries), and its row in Parquet.

Typical transfers need 200.
"""


def refuse_if_too_large(root: Path, rows: int, manifest: Manifest) -> None:
    """Raise ``UnusableStore`` if an import of ``rows`` transfers does not fit on the disk.

    The check is lenient. It assumes that the import repeats all stored transfers, which need no more space.
    """
    free = shutil.disk_usage(root).free
    if rows * _LEAST_BYTES <= free:
        return
    stored_rows = sum(part.transfers for parts in manifest.parts.values() for part in parts if part.has_transfers)
    need = (rows - stored_rows) * _LEAST_BYTES
    if need > free:
        raise UnusableStore(
            f"{root}: importing {counted(rows, 'transfer')} needs at least {need / 1e6:,.1f} MB, and "
            f"{free / 1e6:,.1f} MB are "
            "free; free some space, or set engine.store to a folder on a larger disk"
        )
