"""The size of Dagster's history after a run over a range of partitions, in bytes per partition and table.

    python -m benchmarks.dagster_history [--days 200] [--home FOLDER]

The job ``ingest`` runs once over a range of days of one chain of the sample world. The size is what the run adds to the
files of the history (SQLite). A table's line has the text and tags of its events.
"""

from __future__ import annotations

import argparse
import os
import sqlite3
import sys
import tempfile
from contextlib import closing
from datetime import timedelta
from pathlib import Path
from typing import Final

from dagster import DagsterRunStatus

from holderlake.core.dagster.partitions import CHAIN, partition_key
from holderlake.core.settings import Settings
from holderlake.core.workspace import make_workspace
from holderlake.operations.history.instance import dagster_instance
from holderlake.pipelines.definitions import build_defs
from holderlake.sources.sample_world import sample_period

LIMIT: Final = 14_000
_CHAIN: Final = "solana"


def measure(home: Path, days: int) -> float:
    """Run the range in a home, print the sizes, and return the bytes per partition and table."""
    watchlist = {_CHAIN: make_workspace(Settings(home=home)).settings.watchlist[_CHAIN][:1]}
    settings = Settings(home=home, watchlist=watchlist)
    _, end = sample_period()
    with dagster_instance(settings.dagster_home) as instance:
        instance.add_dynamic_partitions(CHAIN, [_CHAIN])
        before = _size(settings.dagster_home / "history")
        first, last = (partition_key(_CHAIN, end - timedelta(days=ago)) for ago in (days - 1, 0))
        with closing(make_workspace(settings)) as workspace:
            job = build_defs(workspace).resolve_job_def("ingest")
            result = job.execute_in_process(
                instance=instance,
                tags={"dagster/asset_partition_range_start": first, "dagster/asset_partition_range_end": last},
            )
        assert instance.get_runs()[0].status == DagsterRunStatus.SUCCESS
        events = len(result.get_asset_materialization_events())
    added = _size(settings.dagster_home / "history") - before
    print(f"{days} days, {events // days} assets, {events:,} events: {added / 1e6:.2f} MB of history")
    for asset, size, count in _events(settings.dagster_home):
        print(f"  {asset:24} {size / count:8,.0f} bytes per event ({count} events)")
    print(f"lake: {_size(settings.lake_folder) / 1e6:.2f} MB")
    return added / events


def _size(folder: Path) -> int:
    for path in folder.rglob("*.db"):
        with closing(sqlite3.connect(path)) as database:
            database.execute("PRAGMA wal_checkpoint(TRUNCATE)")
    return sum(path.stat().st_size for path in folder.rglob("*") if path.is_file())


def _events(home: Path) -> list[tuple[str, int, int]]:
    """Return each asset with the bytes of its events' text and tags, and their number."""
    with closing(sqlite3.connect(home / "history" / "runs" / "index.db")) as index:
        found: list[tuple[str, int, int]] = index.execute(
            """
            SELECT asset_key, sum(length(event) + tags), count(*)
            FROM (
                SELECT asset_key, event, coalesce((
                    SELECT sum(length(key) + length(value) + length(asset_key))
                    FROM asset_event_tags AS tag WHERE tag.event_id = event_logs.id
                ), 0) AS tags
                FROM event_logs WHERE dagster_event_type = 'ASSET_MATERIALIZATION'
            )
            GROUP BY 1 ORDER BY 2 DESC
            """
        ).fetchall()
    return found


def main() -> None:
    """Measure, and fail above the limit."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--days", type=int, default=200)
    parser.add_argument("--home", type=Path, help="a new folder; default: a temporary one")
    chosen = parser.parse_args()
    os.environ["DAGSTER_DISABLE_TELEMETRY"] = "yes"
    with tempfile.TemporaryDirectory() as folder:
        found = measure(chosen.home or Path(folder), chosen.days)
    print(f"{found:,.0f} bytes per partition and table (limit {LIMIT:,}): {found / LIMIT:.2f} of the limit")
    sys.exit(found > LIMIT)


if __name__ == "__main__":
    main()
