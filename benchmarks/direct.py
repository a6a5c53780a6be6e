"""The cost of a backfill of maps and holders from a local provider: directly from its engine, and over HTTP.

    python -m benchmarks.direct [--days 365] [--rounds 1]

The sample world's tokens on all its chains, one partition a day, newest first, into lake and DuckDB. Each way runs in
a separate process. Over HTTP its CPU includes the service, because one machine runs both. ``engine`` is the pass
alone, without lake and warehouse: the limit of any gain. Dagster is left out: its events cost the same in both ways.
"""

from __future__ import annotations

import argparse
import asyncio
import json
import os
import resource
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Sequence
from contextlib import closing
from datetime import datetime, timedelta
from pathlib import Path
from typing import Final

from holderlake.assets.holders import HOLDERS
from holderlake.assets.maps import MAPS
from holderlake.core.ingest.run import ingest
from holderlake.core.ingest.stream import IngestContext, PartitionResult
from holderlake.core.settings import Settings
from holderlake.core.workspace import Workspace, make_workspace
from holderlake.operations.backfill.job import groups_of_days
from holderlake.sources.sample_world import sample_period

Found = dict[str, float]


def engine(home: Path, days: int) -> Found:
    """Compute the tables of the other ways and discard them: the cost of the engine alone."""
    with closing(make_workspace(_settings(home, True))) as workspace:
        at_hand, settings = workspace.filler, workspace.settings
        assert at_hand is not None
        began = _clock()
        for chain, tokens in settings.watchlist.items():
            for some in groups_of_days(_instants(days), len(tokens)):
                for stream in (HOLDERS, MAPS):
                    assert stream.compute is not None
                    stream.compute(at_hand, settings, chain, tokens, sorted(some))
        return _since(began)


def direct(home: Path, days: int) -> Found:
    """Run the backfill on the engine in this process: what ``ingest`` does if the provider is local."""
    return _filled(make_workspace(_settings(home, True)), days)


def http(home: Path, days: int) -> Found:
    """Run the backfill over HTTP (``provider.direct = false``): answers are requested, paid, archived and decoded."""
    return _filled(make_workspace(_settings(home, False)), days)


WAYS: Final[dict[str, Callable[[Path, int], Found]]] = {"engine": engine, "direct": direct, "http": http}


def _settings(home: Path, is_direct: bool) -> Settings:
    return Settings.model_validate({"home": home, "provider": {"direct": is_direct}})


def _instants(days: int) -> list[datetime]:
    _, end = sample_period()
    return [end.replace(microsecond=0) - timedelta(days=day) for day in range(days)]


def _filled(workspace: Workspace, days: int) -> Found:
    async def run() -> list[PartitionResult]:
        landed: list[PartitionResult] = []
        async with workspace.fetcher("benchmark") as fetcher:
            context = IngestContext(fetcher, workspace)
            for chain, tokens in workspace.settings.watchlist.items():
                for some in groups_of_days(_instants(days), len(tokens)):
                    for stream in (HOLDERS, MAPS):
                        landed += await ingest(context, stream, chain, some)
        return landed

    with closing(workspace):
        workspace.check()  # the sample world is made and, where it is asked, served
        began = _clock()
        landed = asyncio.run(run())
        lake = _since(began)
        workspace.warehouse.load(workspace.lake)
        rows = sum(sum(one.rows.values()) for one in landed)
        answers = sum(one.calls + one.computed for one in landed)
        calls = {"calls": sum(one.calls for one in landed), "rows": rows, "answers": answers}
        return _since(began) | {"lake cpu": lake["cpu"], "lake seconds": lake["seconds"]} | calls


def _clock() -> tuple[float, float]:
    return time.process_time(), time.perf_counter()


def _since(began: tuple[float, float]) -> Found:
    cpu, seconds = _clock()
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1_000
    return {"cpu": cpu - began[0], "seconds": seconds - began[1], "peak": peak}


def measured(way: str, days: int) -> Found:
    """Run a way in a separate process and return its cost."""
    with tempfile.TemporaryDirectory() as home:
        command = [sys.executable, "-m", "benchmarks.direct", "--days", str(days), "--carry-out", way, "--home", home]
        run = subprocess.run(command, capture_output=True, text=True, check=False)
    if run.returncode:
        sys.exit(f"{way} failed:\n{run.stderr[-3_000:]}")
    found: Found = json.loads(run.stdout.splitlines()[-1])
    return found


def compare(days: int, rounds: int) -> None:
    """Print the cheaper round of each way, and the ratio of HTTP to the direct way."""
    took: dict[str, list[Found]] = {way: [measured(way, days) for _ in range(rounds)] for way in WAYS}
    best = {way: min(found, key=lambda one: one["cpu"]) for way, found in took.items()}
    answers, rows = best["direct"]["answers"], best["direct"]["rows"]
    if (best["http"]["answers"], best["http"]["rows"]) != (answers, rows):
        sys.exit("the two ways did not bring the same")
    print(f"{answers:,.0f} answers of {days:,} days, {rows:,.0f} rows")
    for way, found in best.items():
        each = found["cpu"] / answers * 1_000
        lake = f"   (until the lake {found['lake cpu']:.1f} s CPU)" if "lake cpu" in found else ""
        print(
            f"  {way:<8}{found['cpu']:8.1f} s CPU {each:7.2f} ms an answer {found['seconds']:8.1f} s "
            f"{found.get('calls', 0):7,.0f} calls {found['peak']:6.0f} MB peak{lake}"
        )
    ratio = best["http"]["cpu"] / best["direct"]["cpu"]
    lake = best["http"]["lake cpu"] / best["direct"]["lake cpu"]
    print(f"  HTTP takes {ratio:.1f} x the CPU of the direct way, {lake:.1f} x until the lake")


def main(arguments: Sequence[str] | None = None) -> None:
    """Print the comparison of the ways."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--days", type=int, default=365, help="days of the sample world, back from its end")
    parser.add_argument("--rounds", type=int, default=1, help="times that each way does it")
    parser.add_argument("--carry-out", choices=list(WAYS), help=argparse.SUPPRESS)
    parser.add_argument("--home", type=Path, help=argparse.SUPPRESS)
    chosen = parser.parse_args(arguments)
    if chosen.carry_out:
        print(json.dumps(WAYS[chosen.carry_out](chosen.home, chosen.days)), flush=True)
        os._exit(0)  # the service's thread need not be waited for
    compare(chosen.days, chosen.rounds)


if __name__ == "__main__":
    main()
