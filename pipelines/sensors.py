"""Sensors: new chains of the provider, parked backfills that can go on, and alerts that are to be told."""

import asyncio
import hashlib
import json
from collections.abc import Iterator, Sequence
from datetime import timedelta
from typing import Final

from dagster import (
    DefaultSensorStatus,
    RunRequest,
    SensorDefinition,
    SensorEvaluationContext,
    SensorResult,
    SkipReason,
    sensor,
)

from holderlake.alerts.delivery import tell
from holderlake.backfill.paused import Parked
from holderlake.backfill.paused import parked_backfills as parked_backfills_of
from holderlake.contract.requests import ChainsRequest
from holderlake.contract.times import parse_when, utc_now
from holderlake.dagster.partitions import CHAINS
from holderlake.ingest.stream import partition_of
from holderlake.ingest.streams.chains import CHAINS as CHAINS_FAMILY
from holderlake.ingest.streams.chains import listed
from holderlake.workspace import Workspace
from pipelines.jobs import BACKFILL

_LATE_IS_LOOKED_FOR: Final = timedelta(minutes=15)
"""Late data is noticed by the clock, not by a load."""


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


def parked_sensor(workspace: Workspace) -> SensorDefinition:
    """Starts what is parked again once there are credits for it; it runs where the settings say so."""
    wanted = workspace.settings.schedule.resume_parked

    @sensor(
        name="parked_backfills",
        job_name=BACKFILL,
        minimum_interval_seconds=600,
        default_status=DefaultSensorStatus.RUNNING if wanted else DefaultSensorStatus.STOPPED,
        description="Goes on with backfills that ran out of credits, from the day on which there are some again.",
    )
    def parked_backfills(context: SensorEvaluationContext) -> Iterator[RunRequest | SkipReason]:
        parked = parked_backfills_of(workspace)
        for one in parked:
            if one.is_due(workspace):
                lists = ("instants", "chains", "tokens", "tables")
                since = one.of.refresh_since
                options: dict[str, object] = {"refresh": bool(since), "refresh_since": since}
                options |= {name: list(getattr(one.of, name)) for name in lists}
                # one try a day, date and budget: a run that lacks credits parks itself again, with a later date
                budget = hashlib.sha256(workspace.settings.budget.model_dump_json().encode()).hexdigest()[:8]
                key = f"{one.of.id} {one.resume_on} {utc_now():%Y-%m-%d} {budget}"
                yield RunRequest(run_key=key, run_config={"ops": {"fill_history": {"config": options}}})
        if not any(one.is_due(workspace) for one in parked):
            yield SkipReason(_waits_for(parked))

    return parked_backfills


def alerts_sensor(workspace: Workspace) -> SensorDefinition:
    """Tells alerts after each load of the warehouse; it runs where the settings name rules or a webhook."""
    chosen = workspace.settings.alerts
    wanted = chosen.is_chosen or workspace.settings.has_webhook

    @sensor(
        name="alerts",
        minimum_interval_seconds=60,
        default_status=DefaultSensorStatus.RUNNING if wanted else DefaultSensorStatus.STOPPED,
        description="Evaluates the alert rules when the warehouse was loaded, and delivers what is new, once.",
    )
    def alerts(context: SensorEvaluationContext) -> SkipReason:
        now = utc_now()
        loaded = workspace.warehouse.version
        if loaded is None:
            return SkipReason("there is no warehouse yet")
        seen = json.loads(context.cursor or "{}")
        is_due = seen.get("loaded") != loaded or now - parse_when(seen["at"]) >= _LATE_IS_LOOKED_FOR
        told = tell(workspace, now, anew=is_due)
        if is_due and not told.is_busy:
            context.update_cursor(json.dumps({"loaded": loaded, "at": now.isoformat()}))
        for error in told.errors:
            context.log.warning(error)
        return SkipReason(str(told))

    return alerts


def _waits_for(parked: Sequence[Parked]) -> str:
    if not parked:
        return "no backfill is parked"
    return f"{len(parked)} parked, the first to go on is due on {parked[0].resume_on}"


async def _listed(workspace: Workspace) -> list[str]:
    part = partition_of(workspace, "", workspace.now())
    async with workspace.provider("sensor new_chains") as provider:
        fetched = await provider.fetch(ChainsRequest(), CHAINS_FAMILY.archive_as_of(part))
    return listed(fetched)
