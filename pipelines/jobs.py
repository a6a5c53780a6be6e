"""The jobs: ``ingest`` materialises one day of a chain, ``freshness`` and ``checks`` fetch nothing.

Other rooms add jobs of their own: backfills, alerts and retention (operations), transfers from nodes (sources).
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any, Final

from dagster import AssetCheckKey, AssetSelection, define_asset_job

from holderlake.assets import STREAMS
from holderlake.assets.freshness import COMPLETE, FRESH
from holderlake.core.dagster.runs import INGEST

FRESHNESS: Final = "freshness"
CHECKS: Final = "checks"


def all_jobs(checks: Iterable[AssetCheckKey]) -> list[Any]:
    """Return the jobs. ``checks`` are the keys of all asset checks."""
    by_clock = [key for key in checks if key.name in (FRESH, COMPLETE)]
    # a run of past days would fail the checks is_fresh
    fresh = AssetSelection.checks(*(key for key in by_clock if key.name == FRESH))
    ingest_job = define_asset_job(
        INGEST,
        selection=AssetSelection.assets(*(table for stream in STREAMS for table in stream.tables), "warehouse") - fresh,
        description="Fetches one day of a chain, all tables, and loads the warehouse.",
    )
    freshness_job = define_asset_job(
        FRESHNESS,
        selection=AssetSelection.checks(*by_clock),
        description="Checks that the newest instant of each table is not too old.",
    )
    checks_job = define_asset_job(
        CHECKS,
        selection=AssetSelection.all_asset_checks(),
        description="Checks all tables of the lake, the newest data, and the alert rules. It fetches nothing.",
    )
    return [ingest_job, freshness_job, checks_job]
