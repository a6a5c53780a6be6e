"""All of Dagster's definitions, put together by one function, with overrides for tests."""

from __future__ import annotations

from functools import partial

from dagster import Definitions, definitions, in_process_executor

from assets.definitions import all_assets, all_checks
from holderlake.dagster.alert_checks import alert_checks
from holderlake.local.embedded import make_workspace
from holderlake.maintenance.repair import repair_before_run
from holderlake.settings import load_settings
from holderlake.workspace import Workspace
from pipelines.jobs import all_jobs
from pipelines.schedules import daily_schedule, transfers_schedule
from pipelines.sensors import alerts_sensor, chain_sensor, parked_sensor


def build_defs(workspace: Workspace | None = None) -> Definitions:
    """The definitions over a workspace; over that of the settings where none is given."""
    chosen = workspace or make_workspace(load_settings())
    chosen.repair = partial(repair_before_run, chosen)
    has_nodes = bool(chosen.settings.node_chains)
    return Definitions(
        assets=all_assets(has_nodes),
        asset_checks=[*all_checks(), *alert_checks(chosen)],
        jobs=all_jobs(has_nodes),
        schedules=[daily_schedule(chosen), *([transfers_schedule(chosen)] if has_nodes else [])],
        sensors=[chain_sensor(chosen), parked_sensor(chosen), alerts_sensor(chosen)],
        resources={"workspace": chosen},
        # a run is a process of its own already; a process a step would cost 2.6 s each
        executor=in_process_executor,
    )


@definitions
def defs() -> Definitions:
    """What Dagster's own commands load."""
    return build_defs()
