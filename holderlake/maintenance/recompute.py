"""Compute partitions of the lake again that were computed before the user's own store changed. It costs nothing."""

from __future__ import annotations

import asyncio
from collections import Counter
from itertools import groupby

from holderlake import console
from holderlake.ingest.run import cancelling, check_before_run, ingest
from holderlake.ingest.stream import IngestContext, PartitionResult
from holderlake.ingest.streams.all import STREAMS
from holderlake.units import counted
from holderlake.workspace import Workspace

_RUN = "recompute"


def recompute(workspace: Workspace, as_json: bool) -> None:
    """Compute the stale partitions again, load the warehouse, and print the number of partitions by family."""
    try:
        results = asyncio.run(_recompute(workspace))
    finally:
        workspace.warehouse.load(workspace.lake)
    counts = Counter(result.family for result in results)
    if as_json:
        console.as_json({"partitions": counts, "left": len(workspace.stale_partitions())})
    else:
        console.rows("Computed again", ("family", "partitions"), counts.items())
        console.out.print(f"{counted(len(results), 'partition')} computed again, free.")


async def _recompute(workspace: Workspace) -> list[PartitionResult]:
    order = [stream.name for stream in STREAMS]
    stale_manifests = [manifest for manifest in workspace.stale_partitions() if manifest.family in order]
    stale_manifests.sort(key=lambda manifest: (order.index(manifest.family), manifest.chain, manifest.timestamp))
    check_before_run(workspace, len(stale_manifests))
    results: list[PartitionResult] = []
    async with workspace.provider(_RUN) as provider:
        with cancelling(provider):
            context = IngestContext(provider, workspace)
            for (family, chain), group in groupby(stale_manifests, lambda manifest: (manifest.family, manifest.chain)):
                instants = [manifest.as_of for manifest in group]
                results += await ingest(context, STREAMS[order.index(family)], chain, instants)
            provider.check_running()
    return results
