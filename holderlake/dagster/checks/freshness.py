"""Asset checks by the clock: the newest instant of each chain.

They examine all watched chains, not only those of the run: a chain that succeeds never hides one that fails, and a load
of an old year never makes a table fresh.
"""

from collections.abc import Iterator, Sequence
from datetime import datetime, timedelta
from typing import Final

from dagster import (
    AssetCheckExecutionContext,
    AssetCheckResult,
    AssetChecksDefinition,
    AssetCheckSeverity,
    AssetCheckSpec,
    ResourceParam,
    multi_asset_check,
)

from holderlake.dagster.checks.streams import selected
from holderlake.dagster.metadata.tables import asset_key
from holderlake.ingest.stream import Stream
from holderlake.settings.cron import interval_of
from holderlake.workspace import Workspace

FRESH: Final = "is_fresh"
_GRACE: Final = timedelta(hours=12)


def freshness_checks(streams: Sequence[Stream], *, key_prefix: Sequence[str] = ()) -> AssetChecksDefinition:
    """Return one check per stream, on its first table. It fails if the newest instant of a watched chain is too old."""
    description = "The newest instant of each watched chain is at most one interval of the schedule and 12 h old."
    specs = [
        AssetCheckSpec(FRESH, asset=asset_key(stream.tables[0], key_prefix), description=description)
        for stream in streams
    ]

    @multi_asset_check(name="__".join([*key_prefix, "freshness_checks"]), specs=specs, can_subset=True)
    def check(context: AssetCheckExecutionContext, workspace: ResourceParam[Workspace]) -> Iterator[AssetCheckResult]:
        yield from selected(context, results(workspace))

    def results(workspace: Workspace) -> Iterator[AssetCheckResult]:
        oldest = workspace.now() - interval_of(workspace.settings.schedule.cron) - _GRACE
        for stream in streams:
            newest = newest_instants(workspace, stream)
            yield AssetCheckResult(
                passed=all(when is not None and when >= oldest for when in newest.values()),
                check_name=FRESH,
                asset_key=asset_key(stream.tables[0], key_prefix),
                severity=AssetCheckSeverity.WARN,
                metadata={chain: f"{when.isoformat()}Z" if when else "no partition" for chain, when in newest.items()},
            )

    return check


def newest_instants(workspace: Workspace, stream: Stream) -> dict[str, datetime | None]:
    """Return the newest as-of instant (UTC) that the lake has of a stream, by watched chain.

    A stream by token or chain has a value for every watched chain, None without any partition. A stream by address or
    address set has only the chains that have a partition, because these subjects are optional.
    """
    watched = sorted(workspace.settings.watchlist)
    newest: dict[str, datetime | None] = dict.fromkeys(watched if stream.by in ("token", "chain") else ())
    for manifest in workspace.lake.manifests(stream.name):
        if manifest.chain in watched:
            newest[manifest.chain] = max(newest.get(manifest.chain) or manifest.as_of, manifest.as_of)
    return newest
