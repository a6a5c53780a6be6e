"""A backfill in a separate process: ``holderlake backfill`` without Dagster, which takes seconds to start.

Settings come from the environment; the arguments are the run's name and the instants. It prints which folder of its
home it is about to write to, so that a test may kill it there. It exits with 3 after a ceiling.
"""

from __future__ import annotations

import asyncio
import os
import sys
from collections.abc import Sequence
from contextlib import closing
from datetime import datetime
from pathlib import Path
from typing import Any

from holderlake.assets.addresses import ADDRESSES
from holderlake.assets.chains import CHAINS
from holderlake.assets.holders import HOLDERS
from holderlake.assets.maps import MAPS
from holderlake.assets.subgraphs import SUBGRAPHS
from holderlake.assets.tokens import TOKENS
from holderlake.core.ingest.run import ingest
from holderlake.core.ingest.stream import IngestContext
from holderlake.core.provider.errors import BudgetExceeded
from holderlake.core.settings import load_settings
from holderlake.core.workspace import Workspace, make_workspace

STREAMS = (CHAINS, TOKENS, HOLDERS, MAPS, SUBGRAPHS, ADDRESSES)
ROOMS = ("archive", "lake", "warehouse")
READY = "ready"
BETWEEN_LOADS = 2
STOPPED_BY_A_CEILING = 3


async def fill(workspace: Workspace, run: str, instants: Sequence[datetime]) -> None:
    """Fill all streams of all watched chains, and load the warehouse after each two instants of a chain."""
    async with workspace.fetcher(run) as fetcher:
        for start in range(0, len(instants), BETWEEN_LOADS):
            for chain in sorted(workspace.settings.watchlist):
                for stream in STREAMS:
                    some = instants[start : start + BETWEEN_LOADS]
                    await ingest(IngestContext(fetcher, workspace), stream, chain, some)
                workspace.warehouse.load(workspace.lake)


def print_writes(home: Path) -> None:
    """Print the name of a folder whenever a file in it is created or renamed."""

    def report(event: str, arguments: tuple[Any, ...]) -> None:
        if event == "os.rename" or (event == "open" and arguments[2] & (os.O_WRONLY | os.O_RDWR)):
            path = str(arguments[0])
            room = path.removeprefix(f"{home}/").split("/")[0].split(".")[0]
            if room in ROOMS and not path.endswith(".lock"):
                os.write(1, f"{room}\n".encode())

    sys.addaudithook(report)


def main(run: str, *instants: str) -> int:
    """Run the backfill and return the exit status."""
    with closing(make_workspace(load_settings())) as workspace:
        print_writes(workspace.settings.home)
        os.write(1, f"{READY}\n".encode())
        try:
            asyncio.run(fill(workspace, run, [*map(datetime.fromisoformat, instants)]))
        except BudgetExceeded:
            return STOPPED_BY_A_CEILING
    return 0
