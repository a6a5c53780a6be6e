"""The jobs: ``ingest`` materialises one day of a chain, ``freshness`` and ``checks`` fetch nothing.

Other rooms add jobs of their own: backfills, alerts and retention (operations), transfers from nodes (sources).
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any, Final

from dagster import AssetCheckKey, AssetSelection, define_asset_job, in_process_executor

from holderlake.assets import STREAMS
from holderlake.assets.freshness import COMPLETE, FRESH
from holderlake.core.dagster.runs import INGEST

FRESHNESS: Final = "freshness"
CHECKS: Final = "checks"


def all_jobs(checks: Iterable[AssetCheckKey]) -> list[Any]:
    """Return the jobs. ``checks`` are the keys of all asset checks."""
    keys = list(checks)
    tables = [table for stream in STREAMS for table in stream.tables]
    checks_job = define_asset_job(
        CHECKS,
        selection=AssetSelection.all_asset_checks(),
        description="Checks all tables of the lake, the newest data, and the alert rules. It fetches nothing.",
    )
    return [
        ingest_job(INGEST, AssetSelection.assets(*tables, "warehouse"), keys),
        freshness_job(FRESHNESS, keys),
        checks_job,
    ]


def ingest_job(name: str, assets: AssetSelection, checks: Iterable[AssetCheckKey]) -> Any:
    """Return the job of one day of a chain. It leaves out the ``checks`` ``is_fresh``, which past days would fail."""
    return define_asset_job(
        name,
        selection=assets - AssetSelection.checks(*(key for key in checks if key.name == FRESH)),
        description="Fetches one day of a chain, all tables, and loads the warehouse.",
        executor_def=in_process_executor,  # a process for each step takes longer to start than most steps take
    )


def freshness_job(name: str, checks: Iterable[AssetCheckKey]) -> Any:
    """Return the job that evaluates those of the ``checks`` whose result depends on the time."""
    return define_asset_job(
        name,
        selection=AssetSelection.checks(*(key for key in checks if key.name in (FRESH, COMPLETE))),
        description="Checks that the newest instant of each table is not too old.",
        executor_def=in_process_executor,
    )
