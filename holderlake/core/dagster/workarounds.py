"""Workarounds that use undocumented behaviour of Dagster 1.13.

If a new version of Dagster logs other partitions, look here first. Remove each workaround that it does not need.
"""

from __future__ import annotations

from typing import Any, Final

from dagster import AssetKey, DagsterEvent, DagsterInstance, DagsterRun
from dagster._core.events import AssetMaterializationPlannedData

UNLOGGED: Final = {"__source_asset_observation__": True}
"""Metadata of a result for which Dagster logs no materialisation. Without it, Dagster logs each partition of a range as
materialised; so a step logs those that are complete."""
_DIMENSION_TAGS: Final = ("dagster/partition/chain", "dagster/partition/date")


def forget_first_partition(run: DagsterRun) -> None:
    """Remove the dimension tags of a run over a range of partitions, in this process.

    A backfill of a job page gives each run of a range the dimension tags of the backfill's first partition, and Dagster
    takes the run for one of that partition. It reads this dictionary again for each event, so without the tags it logs
    the right partitions as materialised.
    """
    tags: Any = run.tags
    for tag in _DIMENSION_TAGS:
        tags.pop(tag, None)


def log_planned(instance: DagsterInstance, run_id: str, job: str, step: str, asset: AssetKey, partition: str) -> None:
    """Log that a run was to materialise a partition of an asset.

    If the run then fails without it, Dagster shows the partition as failed. A job of ops has no public way to say it.
    """
    planned = AssetMaterializationPlannedData(asset, partition)
    instance.report_dagster_event(DagsterEvent.build_asset_materialization_planned_event(job, step, planned), run_id)
