"""Run a planned backfill, or compute stale partitions again, and report the results."""

from __future__ import annotations

import asyncio
from collections import Counter
from collections.abc import Sequence
from datetime import datetime
from itertools import groupby
from typing import Final

from holderlake.assets import STREAMS
from holderlake.cli.launch import fill
from holderlake.cli.outcome import Outcome
from holderlake.cli.plan_report import plan_report
from holderlake.core.ingest.run import cancelling, check_before_run, ingest
from holderlake.core.ingest.stream import IngestContext, PartitionResult
from holderlake.core.units import counted
from holderlake.core.workspace import Workspace
from holderlake.operations.backfill.plan import make_plan
from holderlake.operations.backfill.report import plan_markdown
from holderlake.operations.history.instance import dagster_instance
from holderlake.presentation import console

_RECOMPUTE: Final = "recompute"
"""Run of the ledger for partitions that the own store computes again."""


def run_backfill(
    workspace: Workspace,
    chains: Sequence[str],
    instants: Sequence[datetime],
    tokens: Sequence[str],
    tables: Sequence[str],
    as_json: bool,
    refresh: bool = False,
) -> None:
    """Print the plan, run the backfill, and print the committed rows.

    Raises ``RunFailed`` if it stops early. Its finished partitions stay in the lake.
    """
    workspace.check()
    plan = make_plan(
        workspace, workspace.provider_id, chains, instants, tokens or None, tables=tables or None, refresh=refresh
    )
    if not as_json:
        plan_report(plan, False)
    outcome = Outcome(workspace, chains, instants, tables)
    if plan.is_finished:
        workspace.warehouse.load(workspace.lake)  # the run that fetched it may have been killed before
    else:
        summary = plan_markdown(plan)
        with dagster_instance(workspace.settings.dagster_home) as instance:
            options = {"tokens": list(tokens), "refresh": refresh, "plan": summary}
            outcome.run(lambda: fill(workspace, instance, chains, instants, tables=tables, **options))
    outcome.conclude(as_json)


def recompute(workspace: Workspace, as_json: bool) -> None:
    """Compute the partitions again that were computed before the user's own store changed, free.

    Load the warehouse, and print the number of partitions by family.
    """
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
    async with workspace.fetcher(_RECOMPUTE) as fetcher:
        with cancelling(fetcher):
            context = IngestContext(fetcher, workspace)
            for (family, chain), group in groupby(stale_manifests, lambda manifest: (manifest.family, manifest.chain)):
                instants = [manifest.as_of for manifest in group]
                results += await ingest(context, STREAMS[order.index(family)], chain, instants)
            fetcher.check_running()
    return results
