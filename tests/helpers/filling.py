"""Fills partitions as a run does, without Dagster around it."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Sequence
from datetime import datetime

from holderlake.core.archive.archive import AnswerArchive, StoredAnswer
from holderlake.core.ingest.run import ingest
from holderlake.core.ingest.stream import IngestContext, PartitionResult, Stream
from holderlake.core.workspace import Workspace

MakeWorkspace = Callable[..., Workspace]


def fill(
    workspace: Workspace,
    stream: Stream,
    chain: str,
    *instants: datetime,
    only: Sequence[str] | None = None,
    refresh: bool = False,
) -> list[PartitionResult]:
    """Ingest partitions of a stream."""

    async def run() -> list[PartitionResult]:
        async with workspace.fetcher("test") as fetcher:
            return await ingest(IngestContext(fetcher, workspace, refresh), stream, chain, instants, only)

    return asyncio.run(run())


def spoil(archive: AnswerArchive, stored: StoredAnswer) -> None:
    """Change the last byte of an answer on disk."""
    with (archive.root / stored.place.segment).open("r+b") as file:
        file.seek(stored.place.start + stored.place.length - 1)
        (last,) = file.read(1)
        file.seek(-1, 1)
        file.write(bytes([last ^ 1]))
