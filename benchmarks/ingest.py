"""The cost of a backfill from HTTP to DuckDB: ours, a hand-written floor, and dlt, on the same documents.

    python -m benchmarks.ingest [--maps 1000] [--many 10000] [--tokens 1250] [--slow-maps 2000] [--way floor …]

One run, one machine: a provider in a separate process serves maps of 80 nodes and 1,000 relationships, and each way
fetches them in a separate process into Parquet and DuckDB, two rounds in turns. CPU is that process's, user and
system; memory is its peak. The floor (aiohttp, msgspec, pyarrow) is what one would write by hand for these documents
alone: no credits, no archive, no checks, nothing that can be resumed. The floor with Dagster is the same code as a step
of a Dagster run, which logs one event for each table and day: what any Dagster run of this size costs. Then the peak
memory of runs with few and with many partitions is printed, and of one partition with ``--tokens`` and with four times
as many tokens. dlt is not a dependency: ``pip install --group benchmarks`` brings it; ways that can't be run are left
out and named.
"""

from __future__ import annotations

import argparse
import asyncio
import json
import resource
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from datetime import datetime, timedelta
from importlib.util import find_spec
from pathlib import Path
from typing import Any, Final, cast

import uvloop

from benchmarks.decode import a_map

TOKENS: Final = 20
"""Tokens in each partition. The number of days follows from the number of maps."""
DOCUMENTS: Final = 50
FIRST: Final = datetime(2020, 1, 1)
CONCURRENCY: Final = 32
KEY: Final = "benchmark"
TABLES: Final = ("maps", "map_nodes", "grouped_transfers", "clusters", "cluster_members")


@dataclass(frozen=True)
class Work:
    """The input of a way: the provider's address, the number of maps, the output folder, and calls per minute."""

    url: str
    maps: int
    home: Path
    rate: int = 10_000
    concurrency: int = CONCURRENCY
    of_day: int = TOKENS
    """Tokens in each partition."""

    @property
    def tokens(self) -> list[str]:
        return [f"0x{number:040x}" for number in range(1, self.of_day + 1)]

    @property
    def days(self) -> list[datetime]:
        return [FIRST + timedelta(days=day) for day in range(self.maps // self.of_day)]


# ---------------------------------------------------------------------- the provider


class _Provider(asyncio.Protocol):
    """Answers each request with the next of some prepared documents, after a delay of ``seconds``."""

    def __init__(self, documents: Sequence[bytes], seconds: float) -> None:
        self._documents = documents
        self._seconds = seconds
        self._held = b""
        self._asked = 0

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self._transport = cast(asyncio.Transport, transport)
        self._asked = id(transport) // 64  # each connection begins with another document

    def data_received(self, data: bytes) -> None:
        self._held += data
        while b"\r\n\r\n" in self._held:
            _, _, self._held = self._held.partition(b"\r\n\r\n")
            self._asked += 1
            body = self._documents[self._asked % len(self._documents)]
            if self._seconds:
                asyncio.get_running_loop().call_later(self._seconds, self._answer, body)
            else:
                self._answer(body)

    def _answer(self, body: bytes) -> None:
        if not self._transport.is_closing():
            self._transport.write(
                b"HTTP/1.1 200 OK\r\nContent-Type: application/json\r\nX-Credits-Cost: 10.31\r\n"
                b"X-Credits-Remaining: 1000000\r\nContent-Length: %d\r\n\r\n" % len(body)
            )
            self._transport.write(body)


def serve(seconds: float) -> None:
    """Serve on a free port, which is printed, until the process is killed."""

    async def run() -> None:
        documents = [a_map(seed) for seed in range(DOCUMENTS)]
        loop = asyncio.get_running_loop()
        server = await loop.create_server(lambda: _Provider(documents, seconds), "127.0.0.1", 0, backlog=1_024)
        print(server.sockets[0].getsockname()[1], flush=True)
        await server.serve_forever()

    uvloop.run(run())


@contextmanager
def provider(seconds: float = 0.0) -> Iterator[str]:
    """Start a provider in a separate process and give its address."""
    command = [sys.executable, "-m", "benchmarks.ingest", "--serve", str(seconds)]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as process:
        assert process.stdout is not None
        try:
            yield f"http://127.0.0.1:{int(process.stdout.readline())}"
        finally:
            process.kill()


# ---------------------------------------------------------------------- the ways


def floor(work: Work) -> dict[str, float]:
    """Use aiohttp, msgspec structs and pyarrow columns; load DuckDB from one Parquet file per table and day."""
    from benchmarks.ingest_floor import backfill

    backfill(work.url, work.tokens, work.days, work.home, work.concurrency)
    return {}


def floor_with_dagster(work: Work) -> dict[str, float]:
    """Use the floor as one step of a Dagster run with Dagster's own history, an event for each table and day."""
    import logging

    from benchmarks.ingest_dagster import run

    logging.disable(logging.CRITICAL)
    run(lambda: floor(work), TABLES, work.days, work.home / "dagster")
    return {}


def ours(work: Work) -> dict[str, float]:
    """Use Holderlake without Dagster: requests are metered and archived, partitions are committed and loaded."""
    from holderlake.assets.maps import MAPS
    from holderlake.core.ingest.run import ingest
    from holderlake.core.ingest.stream import IngestContext

    workspace = _workspace(work)
    began = time.perf_counter()

    async def run() -> None:
        async with workspace.fetcher("benchmark") as asked:
            await ingest(IngestContext(asked, workspace), MAPS, "eth", work.days)

    asyncio.run(run())
    seconds = time.perf_counter() - began
    fetched = resource.getrusage(resource.RUSAGE_SELF)
    workspace.warehouse.load(workspace.lake)
    workspace.close()
    return {
        "cpu_until_lake": fetched.ru_utime + fetched.ru_stime,
        "seconds_until_lake": seconds,
        "peak_until_lake": fetched.ru_maxrss / 1_000,
    }


def ours_with_dagster(work: Work) -> dict[str, float]:
    """Use Holderlake as ``holderlake backfill`` does: a Dagster run with its events, checks and plots."""
    import logging

    from holderlake.cli.launch import fill
    from holderlake.operations.history.instance import dagster_instance

    logging.disable(logging.CRITICAL)
    workspace = _workspace(work)
    with dagster_instance(work.home / "dagster") as instance:
        fill(workspace, instance, ["eth"], work.days, tables=["maps"])
    workspace.close()
    return {}


def dlt_rest_api(work: Work) -> dict[str, float]:
    """Use dlt's declarative REST source, tuned. Amounts arrive as doubles, which lose their last digits."""
    from benchmarks.ingest_dlt import rest_api

    rest_api(work)
    return {}


def dlt_rest_api_exact(work: Work) -> dict[str, float]:
    """Use dlt's declarative REST source with exact amounts, like ``ours`` and ``floor``."""
    from benchmarks.ingest_dlt import rest_api

    rest_api(work, exact=True)
    return {}


def dlt_with_our_arrow(work: Work) -> dict[str, float]:
    """Use dlt for loading only: requests run in its threads, and our decoder makes Arrow tables of the answers."""
    from benchmarks.ingest_dlt import with_our_arrow

    with_our_arrow(work)
    return {}


def _workspace(work: Work) -> Any:
    from pydantic import SecretStr

    from holderlake.core.settings import Settings
    from holderlake.core.settings.sections.provider import ProviderSettings
    from holderlake.core.workspace import Endpoint, Workspace

    asked = ProviderSettings(url=work.url, rate_per_minute=work.rate)
    settings = Settings(home=work.home, provider=asked, watchlist={"eth": work.tokens})
    return Workspace(settings, lambda: Endpoint(work.url, SecretStr(KEY), "benchmark"))


WAYS: Final[dict[str, tuple[Callable[[Work], dict[str, float]], str | None]]] = {
    "floor": (floor, None),
    "floor with Dagster": (floor_with_dagster, None),
    "ours": (ours, None),
    "ours with Dagster": (ours_with_dagster, None),
    "dlt rest_api": (dlt_rest_api, "dlt"),
    "dlt rest_api, exact": (dlt_rest_api_exact, "dlt"),
    "dlt with our Arrow": (dlt_with_our_arrow, "dlt"),
}
"""The ways by name: a function, and the optional module that it needs (None without one)."""


# ---------------------------------------------------------------------- measuring


def carry_out(way: str, work: Work) -> None:
    """Run a way in this process, and print its cost as JSON."""
    began = time.perf_counter()
    with anonymous_peak() as megabytes:
        cost = WAYS[way][0](work)
    seconds = time.perf_counter() - began
    own, children = (resource.getrusage(who) for who in (resource.RUSAGE_SELF, resource.RUSAGE_CHILDREN))
    cpu = own.ru_utime + own.ru_stime + children.ru_utime + children.ru_stime
    rows = _rows(work)
    print(
        json.dumps(
            {
                "seconds": seconds,
                "cpu": cpu,
                "system": own.ru_stime,
                "peak": own.ru_maxrss / 1_000,
                "anonymous": megabytes[0],
                "rows": rows,
                **cost,
            }
        )
    )


@contextmanager
def anonymous_peak() -> Iterator[list[float]]:
    """Give a list with the peak of this process's anonymous memory in MB, which leaves out mapped files."""
    megabytes, done = [0.0], threading.Event()

    def sample() -> None:
        while not done.wait(0.05):
            status = Path("/proc/self/status").read_text("ascii")
            own = int(status.partition("RssAnon:")[2].split()[0]) * 1_024 / 1e6
            megabytes[0] = max(megabytes[0], own)

    thread = threading.Thread(target=sample)
    thread.start()
    try:
        yield megabytes
    finally:
        done.set()
        thread.join()


def _rows(work: Work) -> int:
    """Return the number of relationships in DuckDB, which shows that a way left none out."""
    import duckdb

    with duckdb.connect(str(work.home / "warehouse.duckdb"), read_only=True) as connection:
        names = connection.execute(
            "SELECT schema_name || '.' || table_name FROM duckdb_tables() "
            "WHERE table_name IN ('grouped_transfers', 'maps__relationships', 'maps__nodes__time_nodes__relationships')"
        ).fetchall()
        return sum(connection.execute(f"SELECT count(*) FROM {name}").fetchall()[0][0] for (name,) in names)


def measured(way: str, url: str, maps: int, **others: int) -> dict[str, float]:
    """Run a way in a separate process and return its cost. ``others`` are further fields of ``Work``."""
    with tempfile.TemporaryDirectory() as home:
        work = json.dumps({"url": url, "maps": maps, "home": home, **others})
        command = [sys.executable, "-m", "benchmarks.ingest", "--carry-out", way, "--work", work]
        run = subprocess.run(command, capture_output=True, text=True, check=False)
    if run.returncode:
        sys.exit(f"{way} failed:\n{run.stderr[-3_000:]}")
    found: dict[str, float] = json.loads(run.stdout.splitlines()[-1])
    if found["rows"] != maps * 1_000:
        sys.exit(f"{way} brought {found['rows']:,.0f} relationships of {maps * 1_000:,} into DuckDB")
    return found


def start_up(way: str) -> float:
    """Return the CPU seconds of a way for a single partition: the cost of its start."""
    with provider() as url:
        return measured(way, url, TOKENS)["cpu"]


def compare(ways: Sequence[str], maps: int, rounds: int) -> None:
    """Print one line per way: lowest CPU and wall time, and largest memory, of its rounds."""
    print(f"{maps:,} maps of {sum(map(len, map(a_map, range(5)))) / 5_000:.0f} kB, {TOKENS} a day", flush=True)
    found: dict[str, list[dict[str, float]]] = {way: [] for way in ways}
    with provider() as url:
        for _ in range(rounds):
            for way in ways:
                found[way].append(measured(way, url, maps))
    usual = {way: min(each["cpu"] for each in took) / maps * 1_000 for way, took in found.items()}
    lowest = usual.get("floor")
    for way, took in found.items():
        rate = maps / min(each["seconds"] for each in took)
        ratio = f"{usual[way] / lowest:6.2f} x the floor" if lowest else ""
        peak = max(each["peak"] for each in took)
        lake = min((each["cpu_until_lake"] for each in took if "cpu_until_lake" in each), default=None)
        note = "" if lake is None else f"   ({lake / maps * 1_000:.2f} ms until the lake)"
        print(f"  {way:<20}{usual[way]:8.2f} ms CPU a map {rate:7.0f} maps/s {peak:7.0f} MB peak  {ratio}{note}")
    if usual.keys() >= {"floor with Dagster", "ours with Dagster"}:
        ratio = usual["ours with Dagster"] / usual["floor with Dagster"]
        print(f"  ours with Dagster takes {ratio:.2f} x the CPU of the floor with Dagster")
    for other in (way for way, (_, needed) in WAYS.items() if needed == "dlt"):
        if other in usual and "ours" in usual:
            cost = [
                f"{usual[other] / usual[own]:.1f} x the CPU of {own}"
                for own in ("ours", "ours with Dagster")
                if own in usual
            ]
            print(f"  {other} takes {', '.join(cost)}")


def grow(maps: int, many: int) -> None:
    """Print our peak memory for ``maps`` and for ``many`` maps."""
    with provider() as url:
        few, lots = (measured("ours", url, count) for count in (maps, many))
    for phase, name in (("until the lake", "peak_until_lake"), ("with the warehouse", "peak")):
        ratio = f"{lots[name] / few[name]:.2f} x"
        print(f"Peak memory {phase}: {few[name]:.0f} MB for {maps:,} maps, {lots[name]:.0f} MB for {many:,}: {ratio}")


def widen(tokens: int) -> None:
    """Print our peak memory for one partition of ``tokens``, and of four times as many."""
    with provider() as url:
        few, lots = (measured("ours", url, count, of_day=count) for count in (tokens, 4 * tokens))
    print(f"One partition of {tokens:,} and of {4 * tokens:,} tokens, peak memory:")
    for name, kind in (("anonymous", "anonymous"), ("peak", "with mapped files")):
        print(f"  {kind:<18}{few[name]:7.0f} MB {lots[name]:7.0f} MB {lots[name] / few[name]:6.2f} x")


def slow(maps: int, rate: int) -> None:
    """Print the share of the rate limit that we reach if each answer takes one second."""
    with provider(1.0) as url:
        took = measured("ours", url, maps, rate=rate, concurrency=max(CONCURRENCY, rate // 40))
    reached = maps / took["seconds_until_lake"] * 60
    print(f"\nA provider that takes 1 s: {reached:,.0f} maps a minute of {rate:,} allowed: {reached / rate:.0%}")


def main() -> None:
    """Print the comparison of the ways."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--maps", type=int, default=1_000, help="maps of the comparison, a multiple of 20")
    parser.add_argument("--rounds", type=int, default=2, help="times that each way does it")
    parser.add_argument("--many", type=int, default=10_000, help="maps to see whether memory grows; 0 leaves it out")
    parser.add_argument("--tokens", type=int, default=1_250, help="tokens of one partition; 0 leaves it out")
    parser.add_argument("--slow-maps", type=int, default=3_000, help="maps of a slow provider; 0 leaves it out")
    parser.add_argument("--rate", type=int, default=6_000, help="calls a minute that the slow provider allows")
    parser.add_argument("--way", action="append", choices=list(WAYS), help="only this way; may be given again")
    parser.add_argument("--serve", type=float, help=argparse.SUPPRESS)
    parser.add_argument("--carry-out", choices=list(WAYS), help=argparse.SUPPRESS)
    parser.add_argument("--work", type=json.loads, help=argparse.SUPPRESS)
    chosen = parser.parse_args()
    if chosen.serve is not None:
        serve(chosen.serve)
    elif chosen.carry_out:
        carry_out(chosen.carry_out, Work(**chosen.work | {"home": Path(chosen.work["home"])}))
    else:
        ways = chosen.way or list(WAYS)
        missing = {way for way in ways if (module := WAYS[way][1]) and find_spec(module) is None}
        for way in sorted(missing):
            print(f"{way} is left out: {WAYS[way][1]} is not installed (pip install --group benchmarks)")
        compare([way for way in ways if way not in missing], chosen.maps, chosen.rounds)
        if chosen.many:
            grow(chosen.maps, chosen.many)
        if chosen.tokens:
            widen(chosen.tokens)
        if chosen.slow_maps:
            slow(chosen.slow_maps, chosen.rate)


if __name__ == "__main__":
    main()
