"""A workspace in a folder of its own, over the real service on loopback."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Sequence
from datetime import datetime
from pathlib import Path
from typing import Any

import pytest
from pydantic import SecretStr

from assets.family import Asking, Family, Landed, ingest
from pipelines.embedded import with_sample_watchlist
from resources.settings import Settings
from resources.workspace import Endpoint, Workspace

MakeWorkspace = Callable[..., Workspace]


@pytest.fixture
def make_workspace(sample_service: Any, tmp_path: Path) -> MakeWorkspace:
    """Makes workspaces of one home; ``secret`` and ``base_url`` may be others than the sample service's."""

    def make(secret: str | None = None, base_url: str | None = None, **settings: Any) -> Workspace:
        chosen = with_sample_watchlist(Settings(home=tmp_path, **settings))
        key = SecretStr(secret or sample_service.secret)
        return Workspace(chosen, lambda: Endpoint(base_url or sample_service.base_url, key, "sample"))

    return make


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
