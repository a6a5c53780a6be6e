"""Checks that a home's disk has room for what a run writes, before the run pays for anything."""

from __future__ import annotations

import shutil
from pathlib import Path
from typing import Final

from holderlake.settings import SettingsError
from holderlake.workspace import Workspace

LEAST_FREE: Final = 200 << 20
"""Bytes that must be free before any run: answers, Parquet files and the ledger of a small run."""
_BYTES_A_PARTITION: Final = 150_000
"""Of a family, where the lake has none yet: in archive, lake and warehouse together."""
_COPIES: Final = 3
"""A row is in the archive, in the lake and in the warehouse."""
_SAMPLE: Final = 200


def check_free_space(workspace: Workspace, partitions: int) -> None:
    """Raise ``SettingsError`` where the disk has too little room for a run of so many partitions.

    The estimate is the average size of some partitions in the lake, for each place that keeps their rows, and another
    copy of the warehouse, which a load writes beside the published file.
    """
    home = workspace.settings.home
    home.mkdir(parents=True, exist_ok=True)
    warehouse = workspace.warehouse.path
    copy = warehouse.stat().st_size if warehouse.exists() else 0
    needed = LEAST_FREE + copy + partitions * _bytes_a_partition(workspace)
    free = shutil.disk_usage(home).free
    if free < needed:
        raise SettingsError(
            f"the disk of {Path(home).resolve()} has {_megabytes(free)} free, and this run needs about "
            f"{_megabytes(needed)}; free some space or set HOLDERLAKE_HOME to another disk. Nothing was fetched"
        )


def _bytes_a_partition(workspace: Workspace) -> int:
    sizes = [
        sum(file.bytes for file in manifest.tables.values())
        for manifest, _ in zip(workspace.lake.manifests(), range(_SAMPLE), strict=False)
    ]
    return _COPIES * sum(sizes) // len(sizes) if sizes else _BYTES_A_PARTITION


def _megabytes(count: int) -> str:
    return f"{count / 1e6:,.0f} MB"
