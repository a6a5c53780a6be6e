"""Checks before a run pays for answers: the provider and the free disk space."""

from __future__ import annotations

import logging
import shutil
from functools import cache
from itertools import islice
from typing import Final

from holderlake.settings import SettingsError
from holderlake.workspace import Workspace

_log = logging.getLogger(__name__)

LEAST_FREE: Final = 200 << 20
"""Bytes that must be free on the disk for any run."""
_PARTITION_BYTES: Final = 150_000
"""Estimated bytes of a partition in archive, lake and warehouse together, while the lake is empty."""
_COPIES: Final = 3
"""Number of copies of each row: in the archive, in the lake and in the warehouse."""
_SAMPLE: Final = 200


def check_before_run(workspace: Workspace, partitions: int) -> None:
    """Check the provider, and the free disk space for a run that fills at most ``partitions`` partitions.

    Raises ``SettingsError`` if the disk has too little space, and ``LakeError`` if the lake has data of another
    provider.
    """
    workspace.check()
    for sentence in workspace.settings.unscheduled_sets():
        _warn_once(sentence)
    check_free_space(workspace, partitions)


@cache
def _warn_once(sentence: str) -> None:
    """Log a warning once in a process, because one command may start several runs."""
    _log.warning("%s", sentence)


def check_free_space(workspace: Workspace, partitions: int) -> None:
    """Raise ``SettingsError`` if the disk has too little free space for a run that fills ``partitions`` partitions.

    The run needs ``LEAST_FREE``, plus ``_COPIES`` times the average size of a partition for each partition, plus the
    size of the warehouse, because a load writes a second warehouse file before it replaces the first.
    """
    home = workspace.settings.home
    home.mkdir(parents=True, exist_ok=True)
    warehouse = workspace.warehouse.path
    copy = warehouse.stat().st_size if warehouse.exists() else 0
    needed = LEAST_FREE + copy + partitions * _partition_bytes(workspace)
    free = shutil.disk_usage(home).free
    if free < needed:
        raise SettingsError(
            f"the disk of {home.resolve()} has {_megabytes(free)} free, and this run needs about "
            f"{_megabytes(needed)}; free some space or set HOLDERLAKE_HOME to another disk. Nothing was fetched"
        )


def _partition_bytes(workspace: Workspace) -> int:
    sizes = [
        sum(file.bytes for file in manifest.tables.values()) for manifest in islice(workspace.lake.manifests(), _SAMPLE)
    ]
    return _COPIES * sum(sizes) // len(sizes) if sizes else _PARTITION_BYTES


def _megabytes(count: int) -> str:
    return f"{count / 1e6:,.0f} MB"
