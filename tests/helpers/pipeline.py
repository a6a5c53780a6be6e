"""The definitions of a workspace: tests tick the schedule and sensors, and execute the runs that they request."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import datetime
from typing import Any

from dagster import (
    AssetKey,
    DagsterInstance,
    RunRequest,
    SkipReason,
    build_schedule_context,
    build_sensor_context,
)
from dagster._core.storage.partition_status_cache import get_and_update_asset_status_cache_value

from holderlake.core.dagster.partitions import CHAIN_BY_DAY
from holderlake.core.workspace import Workspace
from holderlake.pipelines.definitions import build_defs


class Pipeline:
    """A workspace whose schedule and sensors are ticked by hand. ``results`` has the success of each executed run."""

    def __init__(self, workspace: Workspace, instance: DagsterInstance) -> None:
        self.workspace, self.instance = workspace, instance
        self.defs = build_defs(workspace)
        self.cursors: dict[str, str | None] = {}

    def at(self, now: datetime) -> None:
        """Set the time of the sensors and of the ledger's days."""
        self.workspace.now = lambda: now  # type: ignore[method-assign]

    def schedule(self, tick: datetime) -> list[Any]:
        """Return the results of the runs that a tick of the schedule requests, or the reason why it requests none."""
        with build_schedule_context(
            instance=self.instance,
            scheduled_execution_time=tick,
            repository_def=self.defs.get_repository_def(),
            resources={"workspace": self.workspace},
        ) as context:
            data = self.defs.resolve_schedule_def("daily").evaluate_tick(context)
        return self.execute(data.run_requests or []) or [data.skip_message]

    def notify(self) -> None:
        """Tick the sensor that sends notices."""
        with build_sensor_context(instance=self.instance, resources={"workspace": self.workspace}) as context:
            self.defs.resolve_sensor_def("notices").evaluate_tick(context)

    def requests(self, name: str) -> list[RunRequest | SkipReason]:
        """Return what a tick of a sensor yields."""
        with build_sensor_context(
            instance=self.instance, cursor=self.cursors.get(name), resources={"workspace": self.workspace}
        ) as context:
            found = self.defs.resolve_sensor_def(name).evaluate_tick(context)
        self.cursors[name] = found.cursor
        return [*(found.run_requests or ()), *([SkipReason(found.skip_message)] if found.skip_message else [])]

    def sensor(self, name: str) -> list[Any]:
        """Return the results of the runs that a sensor requests, or the reason why it requests none."""
        found = self.requests(name)
        reasons = [one.skip_message for one in found if isinstance(one, SkipReason)]
        return self.execute([one for one in found if isinstance(one, RunRequest)]) or reasons

    def execute(self, requests: Sequence[RunRequest]) -> list[tuple[str, bool]]:
        return [(_about(one), self._run(one)) for one in requests]

    def by_hand(self, key: str, tables: Sequence[str]) -> bool:
        """Execute a run of some tables as Dagster's page launches it, without a job's name; return its success."""
        self.instance.add_dynamic_partitions("chain", [key.partition("|")[0]])
        job = self.defs.resolve_implicit_global_asset_job_def()
        selected = [AssetKey(table) for table in tables]
        return job.execute_in_process(
            instance=self.instance, partition_key=key, asset_selection=selected, raise_on_error=False
        ).success

    def _run(self, request: RunRequest) -> bool:
        job = self.defs.resolve_job_def(request.job_name or ("ingest" if request.partition_key else "backfill"))
        config, key = dict(request.run_config), request.partition_key
        return job.execute_in_process(config, self.instance, key, tags=dict(request.tags), raise_on_error=False).success

    def shown(self, table: str) -> dict[str, set[str]]:
        """Return the partitions of a table that Dagster's page shows as materialised and as failed."""
        found = get_and_update_asset_status_cache_value(self.instance, AssetKey(table), CHAIN_BY_DAY)
        if found is None:
            return {"materialised": set(), "failed": set()}
        failed = {*found.deserialize_failed_partition_subsets(CHAIN_BY_DAY).get_partition_keys()}
        materialised = {*found.deserialize_materialized_partition_subsets(CHAIN_BY_DAY).get_partition_keys()}
        return {"materialised": {str(key) for key in materialised - failed}, "failed": {str(key) for key in failed}}


def _about(request: RunRequest) -> str:
    """Return the partition of a run, or the chain and the days of a repair."""
    if request.partition_key:
        return str(request.partition_key)
    config: Any = request.run_config["ops"]["fill_history"]["config"]
    days = sorted({instant[:10] for instant in config["instants"]})
    return f"{config['chains'][0]}|{','.join(days)}"
