"""Checks and repairs that every run does once, before it pays for answers."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from datetime import datetime

from holderlake.contract.times import partition_text
from holderlake.ingest.free_space import check_free_space
from holderlake.workspace import Workspace


def prepare_run(
    workspace: Workspace,
    run_id: str,
    wanted: Mapping[str, Collection[datetime]],
    families: int,
    *,
    every_byte: bool,
) -> None:
    """Check the provider and the free space of the disk, and repair damaged partitions from the archive at no cost.

    ``wanted`` gives the instants of each chain, and ``families`` how many families the run fills. The first step of a
    run does this for all its steps. ``every_byte`` reads the files of these partitions; otherwise their sizes are
    compared. Raises ``SettingsError`` where the disk has too little room, and ``LakeError`` where the lake is another
    provider's.
    """
    if workspace.prepared_run == run_id:
        return
    workspace.check()
    check_free_space(workspace, families * sum(map(len, wanted.values())))
    if workspace.repair is not None:
        for chain, instants in wanted.items():
            workspace.repair([chain], {partition_text(when) for when in instants}, every_byte=every_byte)
    workspace.prepared_run = run_id
