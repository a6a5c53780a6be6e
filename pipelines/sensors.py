"""The sensor that notices a chain that the provider did not list before."""

import asyncio

from dagster import DefaultSensorStatus, SensorDefinition, SensorEvaluationContext, SensorResult, SkipReason, sensor

from assets.chains import CHAINS as CHAINS_FAMILY
from assets.family import slice_of
from assets.partitions import CHAINS
from contract.requests import ChainsRequest
from contract.times import utc_now
from resources.workspace import Workspace


def chain_sensor(workspace: Workspace) -> SensorDefinition:
    """Adds a partition for each new chain; it costs 0.01 credit a day, whatever its interval."""

    @sensor(
        name="new_chains",
        minimum_interval_seconds=3_600,
        default_status=DefaultSensorStatus.STOPPED,
        description="Looks whether the provider lists a chain that has no partition yet, and adds it.",
    )
    def new_chains(context: SensorEvaluationContext) -> SensorResult | SkipReason:
        listed = asyncio.run(_listed(workspace))
        known = set(context.instance.get_dynamic_partitions(CHAINS.name or "chain"))
        new = [chain for chain in listed if chain not in known]
        if not new:
            return SkipReason(f"all {len(listed)} chains of the provider are known")
        return SensorResult(dynamic_partitions_requests=[CHAINS.build_add_request(new)])

    return new_chains


async def _listed(workspace: Workspace) -> list[str]:
    part = slice_of(workspace.settings, "", utc_now())
    async with workspace.provider("sensor new_chains") as provider:
        fetched = await provider.fetch(ChainsRequest(), CHAINS_FAMILY.known_as_of(part))
    return [chain.id for chain in fetched.answer]
