"""Fills partitions as a run does, without Dagster around it."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Sequence
from datetime import datetime

from assets.family import Asking, Family, Landed, ingest
from resources.workspace import Workspace

MakeWorkspace = Callable[..., Workspace]


def fill(
    workspace: Workspace,
    family: Family,
    chain: str,
    *instants: datetime,
    only: Sequence[str] | None = None,
    refresh: bool = False,
) -> list[Landed]:
    """Ingests a family's partitions."""

    async def run() -> list[Landed]:
        async with workspace.provider("test") as provider:
            return await ingest(Asking(provider, workspace, refresh), family, chain, instants, only)

    return asyncio.run(run())
