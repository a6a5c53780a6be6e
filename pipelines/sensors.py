"""The sensors ``watchlist`` and ``new_chains``, and the automation that loads the warehouse.

A sensor looks and launches; the job that it launches does the work. Other rooms add sensors: healing, alerts and
notices (operations), followers of a chain's head (sources).
"""

from __future__ import annotations

from dagster import (
    AssetSelection,
    AutomationConditionSensorDefinition,
    DefaultSensorStatus,
    ResourceParam,
    SensorDefinition,
    SensorEvaluationContext,
    SkipReason,
    sensor,
)

from holderlake.assets.chains import CHAINS
from holderlake.core.contract.requests import ChainsRequest
from holderlake.core.dagster.versions import watch
from holderlake.core.decoding.answers import chain_ids
from holderlake.core.ingest.stream import partition_of
from holderlake.core.workspace import Workspace


def all_sensors() -> list[SensorDefinition]:
    """Return the sensors."""
    automation = AutomationConditionSensorDefinition(
        "warehouse_automation",
        target=AssetSelection.assets("warehouse"),
        minimum_interval_seconds=60,
        description="Loads the warehouse after tables of the last two days were fetched without it.",
    )
    return [_watchlist_sensor(), _chain_sensor(), automation]


def _watchlist_sensor() -> SensorDefinition:
    @sensor(
        name="watchlist",
        minimum_interval_seconds=60,
        default_status=DefaultSensorStatus.RUNNING,
        description="Adds a partition for each newly watched chain, and shows where tokens changed. It sends no call.",
    )
    def observe(context: SensorEvaluationContext, workspace: ResourceParam[Workspace]) -> SkipReason:
        watchlist = workspace.settings.watchlist
        changed = watch(context.instance, watchlist, watchlist)
        return SkipReason(f"changed: {', '.join(changed)}" if changed else "the watchlist has not changed")

    return observe


def _chain_sensor() -> SensorDefinition:
    @sensor(
        name="new_chains",
        minimum_interval_seconds=3_600,
        default_status=DefaultSensorStatus.STOPPED,
        description="Names the provider's chains that you do not watch, from today's answer of the asset chains. It "
        "sends no call.",
    )
    def new_chains(workspace: ResourceParam[Workspace]) -> SkipReason:
        watched = workspace.settings.watchlist
        chains = _chains_of_provider(workspace)
        if chains is None:
            return SkipReason("no run has fetched the provider's chains today")
        if unwatched := [chain for chain in chains if chain not in watched]:
            return SkipReason(
                f"not watched: {', '.join(unwatched)}; name tokens of a chain in the watchlist to watch it"
            )
        return SkipReason(f"every chain of the provider is watched ({len(chains)})")

    return new_chains


def _chains_of_provider(workspace: Workspace) -> list[str] | None:
    """Return the chains in the archived answer of today; None if no run has fetched it yet."""
    known_today = CHAINS.archive_as_of(partition_of(workspace, "", workspace.now()))
    answer = workspace.archive.get(workspace.archive.key(workspace.provider_id, ChainsRequest(), known_today))
    return None if answer is None else chain_ids(answer.raw, answer.fetched_at)
