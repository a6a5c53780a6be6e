"""Time and memory of a plan: many tokens on all chains at many instants.

    python -m benchmarks.plan [--tokens 5000] [--instants 51] [--filled 0.5]

Plans all tables of synthetic tokens (``--tokens`` on each of 14 chains) over a lake of which a part is ``filled``: that
part of the instants is complete, each with the top holders of all tokens, and a tenth of the other maps is in the
archive. No request is sent. The plan runs in a separate process, whose peak of memory is printed.

The floor is the least work that such a plan needs: read each manifest once, and look up each missing answer in the
archive once, as the hash of a text of its length.
"""

from __future__ import annotations

import argparse
import hashlib
import json
import os
import resource
import sqlite3
import subprocess
import sys
import tempfile
import time
from contextlib import closing
from datetime import datetime, timedelta
from multiprocessing import get_context
from pathlib import Path
from typing import Final

import pyarrow as pa

from holderlake.assets import STREAMS
from holderlake.assets.maps import MAPS
from holderlake.core.archive.archive import AnswerArchive, NewAnswer
from holderlake.core.contract.tables import TABLES, build
from holderlake.core.ingest.stream import partition_of
from holderlake.core.lake.lake import Lake, PartitionUpdate
from holderlake.core.settings import Settings
from holderlake.core.workspace import Endpoint, Workspace
from holderlake.operations.backfill.plan import make_plan

LIMIT_SECONDS: Final = 60
"""Seconds of CPU."""
LIMIT_MEGABYTES: Final = 500
_CHAINS: Final = [f"chain-{number:02}" for number in range(14)]
_LOOK_UP: Final = "SELECT name FROM pieces WHERE name IN (SELECT value FROM json_each(?))"
_PROVIDER: Final = "benchmark"
_TOP: Final = 10
_START: Final = datetime(2025, 11, 1)
_FETCHED: Final = datetime(2026, 11, 20)


def settings_of(home: Path, tokens: int) -> Settings:
    """Return settings with a watchlist of this number of synthetic tokens on each chain, with a ceiling a month."""
    watchlist = {chain: [_address(chain, number) for number in range(tokens)] for chain in _CHAINS}
    budget = {"per_month": 1_000_000}
    return Settings.model_validate({"home": home, "watchlist": watchlist, "budget": budget})


def instants_of(count: int) -> list[datetime]:
    """Return weekly instants, the newest first."""
    return [_START - timedelta(weeks=week) for week in range(count)]


def fill(settings: Settings, instants: list[datetime]) -> None:
    """Write complete partitions of all streams with the top holders of each token."""
    lake = Lake(settings.lake_folder)
    for chain, tokens in settings.watchlist.items():
        for when in instants:
            for stream in STREAMS:
                rows = []
                if stream.name == "holders":
                    common = {"chain": chain, "as_of": when}
                    rows = [
                        {**common, "token_address": token, "rank": rank, "address": _address(token, rank)}
                        for token in tokens
                        for rank in range(1, _TOP + 1)
                    ]
                tables = {name: build(TABLES[name], rows, _FETCHED) for name in stream.tables}
                covered = tokens if stream.by == "token" else ["chains"]
                if stream.by in ("token", "chain"):
                    lake.write(
                        PartitionUpdate(
                            stream.name,
                            chain,
                            when,
                            tables,
                            provider=_PROVIDER,
                            by=stream.by,
                            requested=set(covered),
                            covered=dict.fromkeys(covered, _FETCHED),
                            options=stream.options_in(settings),
                        )
                    )


def archive_answers(settings: Settings, workspace: Workspace, instants: list[datetime]) -> None:
    """Archive a map of every tenth token, so that the plan has to look all answers up."""
    archive = AnswerArchive(settings.archive)
    for chain, tokens in settings.watchlist.items():
        for when in instants:
            partition = partition_of(workspace, chain, when)
            requests = MAPS.requests(settings, partition, tokens[::10], False)
            archive.put_all(
                [NewAnswer(archive.key(_PROVIDER, one, when), one, b"{}", _FETCHED, _PROVIDER, "") for one in requests]
            )


def prepare(home: Path, tokens: int, count: int, complete: int) -> None:
    """Fill a home: partitions at the first ``complete`` of ``count`` instants, archived answers at the others."""
    pa.set_cpu_count(2)
    settings, instants = settings_of(home, tokens), instants_of(count)
    fill(settings, instants[:complete])
    archive_answers(settings, workspace_of(settings), instants[complete:])


def workspace_of(settings: Settings) -> Workspace:
    """Return a workspace of the settings, whose provider is never called."""
    return Workspace(settings, lambda: Endpoint("http://127.0.0.1:1", None, _PROVIDER))


def plan(home: Path, tokens: int, instants: int) -> None:
    """Make the plan and print its cost, seconds and peak of memory as JSON."""
    with closing(workspace_of(settings_of(home, tokens))) as workspace:
        before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
        began, cpu = time.perf_counter(), time.process_time()
        made = make_plan(workspace, _PROVIDER, _CHAINS, instants_of(instants))
        found = {
            "seconds": time.perf_counter() - began,
            "cpu": time.process_time() - cpu,
            "megabytes": resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1_000,
            "before": before / 1_000,
            "calls": made.calls,
            "credits": made.credits,
            "archived": sum(line.archived for line in made.lines),
            "advice": len(made.advice),
        }
    print(json.dumps(found))


def floor(settings: Settings, missing: int) -> float:
    """Return the seconds of reading all manifests once, and of hashing and looking up each missing answer once."""
    index = settings.archive / "index.sqlite"
    began = time.process_time()
    for path in Lake(settings.lake_folder).manifest_paths():
        json.loads(path.read_bytes())
    if index.exists():
        with closing(sqlite3.connect(index)) as database:
            for first in range(0, missing, 500):
                names = [hashlib.sha256(b"%200d" % number).hexdigest() for number in range(first, first + 500)]
                database.execute(_LOOK_UP, [json.dumps(names)]).fetchall()
    return time.process_time() - began


def _address(kind: str, number: int) -> str:
    return "0x" + hashlib.sha256(f"{kind} {number}".encode()).hexdigest()[:40]


def main() -> None:
    """Prepare a home, plan it in a separate process, and print the ratio to the floor."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--tokens", type=int, default=5_000)
    parser.add_argument("--instants", type=int, default=51)
    parser.add_argument("--filled", type=float, default=0.0)
    parser.add_argument("--home", type=Path, help="a folder that is kept; default: a temporary one")
    parser.add_argument("--plan", action="store_true", help=argparse.SUPPRESS)
    chosen = parser.parse_args()
    if chosen.plan:
        plan(chosen.home, chosen.tokens, chosen.instants)
        return
    with tempfile.TemporaryDirectory() as folder:
        home = chosen.home or Path(folder)
        if not home.joinpath("lake").exists() and chosen.filled:
            # a separate process, because the peak of a child's memory counts what its parent holds at the start
            filling = get_context("spawn").Process(
                target=prepare, args=(home, chosen.tokens, chosen.instants, round(chosen.instants * chosen.filled))
            )
            filling.start()
            filling.join()
        sizes = ["--tokens", str(chosen.tokens), "--instants", str(chosen.instants), "--home", str(home)]
        run = subprocess.run(
            [sys.executable, "-m", "benchmarks.plan", "--plan", *sizes],
            capture_output=True,
            text=True,
            check=False,
            env=os.environ,
        )
        if run.returncode:
            sys.exit(run.stderr[-3_000:])
        found = json.loads(run.stdout.splitlines()[-1])
        least = floor(settings_of(home, chosen.tokens), found["calls"] + found["archived"])
    print(
        f"{chosen.tokens:,} tokens on each of 14 chains, {chosen.instants} instants, {chosen.filled:.0%} filled: "
        f"{found['calls']:,} calls, {found['archived']:,} archived, {found['advice']} suggestions"
    )
    print(f"{found['seconds']:.1f} s ({found['cpu']:.1f} s of CPU), peak {found['megabytes']:,.0f} MB")
    print(f"floor {least:.1f} s of CPU: {found['cpu'] / max(least, 1e-3):.1f} times the floor")
    sys.exit(found["cpu"] > LIMIT_SECONDS or found["megabytes"] > LIMIT_MEGABYTES)


if __name__ == "__main__":
    main()
