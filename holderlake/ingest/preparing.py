"""Checks before a run pays for answers: the provider, free disk space, damaged files. They run once per run."""

from __future__ import annotations

import logging
import shutil
from collections.abc import Collection, Mapping
from datetime import datetime
from functools import cache
from itertools import islice
from typing import Final

from holderlake.contract.times import partition_text
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


def prepare_run(
    workspace: Workspace, run_id: str, instants: Mapping[str, Collection[datetime]], streams: int, *, every_byte: bool
) -> None:
    """Check the provider and the free disk space, and repair damaged partitions from the archive at no cost.

    ``instants`` are the run's as-of instants by chain, ``streams`` the number of streams to fill. Only the first call
    for a ``run_id`` does this. If ``every_byte``, the files of these partitions are read, else only their sizes are
    compared. Raises ``SettingsError`` if the disk has too little space, and ``LakeError`` if the lake has data of
    another provider.
    """
    if workspace.prepared_run == run_id:
        return
    workspace.check()
    for sentence in workspace.settings.unscheduled_sets():
        _warn_once(sentence)
    check_free_space(workspace, streams * sum(map(len, instants.values())))
    if workspace.repair is not None:
        for chain, chain_instants in instants.items():
            workspace.repair([chain], {partition_text(when) for when in chain_instants}, every_byte=every_byte)
    workspace.prepared_run = run_id


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
