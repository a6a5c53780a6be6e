"""The cost of bulk answers on a Spark cluster of two workers and by the embedded engine, on the same rows, in one run.

    python -m benchmarks.cluster [--rows 1000000] [--instants 4] [--folder DIR] [--kill] [--memory 2g]

The rows are those of ``benchmarks.engine``: 200 tokens in three years. The answers are maps and lists of 250 holders of
all tokens, half of the instants at midnight and half within a day, compared row for row.
``--kill`` ends a worker with kill -9 in the middle of the answers. CPU seconds are of all processes: master, workers,
executors, their Python, and this one. With ``--folder`` the rows and the store are kept and used again.
"""

from __future__ import annotations

import argparse
import os
import tempfile
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from datetime import datetime
from pathlib import Path
from typing import Any, Final

import pyarrow as pa
import pyarrow.parquet as pq

from benchmarks.engine import DAY, END, TOKENS, alone, build, token_address, write_raw
from holderlake.cluster.answers import BulkRequest, answers
from holderlake.cluster.answers import build as build_tables
from holderlake.cluster.duckdb_engine import DuckDbEngine
from holderlake.cluster.spark_engine import SparkEngine, session
from holderlake.contract.requests import MapOptions
from holderlake.contract.times import from_unix
from holderlake.engine.maps.batch import holder_batches, map_batches
from holderlake.engine.store.store import Store
from tests.spark import SparkCluster

_AT: Final = datetime(2026, 1, 1)
_HOLDERS: Final = 250
_KEYS: Final = ("chain", "token_address", "as_of")
_TICKS: Final = os.sysconf("SC_CLK_TCK")


def asked(instants: int) -> BulkRequest:
    """Return a bulk request for all tokens at ``instants`` instants of the last year."""
    step = 360 * DAY // instants
    seconds = [END - DAY - number * step + (40_000 if number % 2 else 0) for number in range(instants)]
    tokens = [("eth", token_address(number)) for number in range(TOKENS)]
    return BulkRequest(tokens, [from_unix(second) for second in seconds], MapOptions(), _HOLDERS, True)


def embedded(folder: Path, instants: int) -> dict[str, float]:
    """Write the embedded engine's answers as Parquet; return their ``cpu`` and ``wall`` time in seconds."""
    chosen, began = asked(instants), time.monotonic()
    found: dict[str, list[pa.Table]] = {}
    with Store(folder / "store") as store:
        assert chosen.maps is not None
        for batch in map_batches(store, chosen.tokens, chosen.instants, chosen.maps, _AT):
            for name, rows in batch.items():
                found.setdefault(name, []).append(rows)
        found["holders"] = list(holder_batches(store, chosen.tokens, chosen.instants, _HOLDERS, True))
    cost = {"cpu": time.process_time(), "wall": time.monotonic() - began}
    for name, rows in found.items():
        pq.write_table(in_order(pa.concat_tables(rows)), folder / f"embedded-{name}.parquet")
    return cost


def in_order(rows: pa.Table) -> pa.Table:
    """Return the rows sorted by chain, token and instant. Rows of one map keep their order."""
    numbered = rows.append_column("place", pa.array(range(rows.num_rows)))
    return numbered.sort_by([(key, "ascending") for key in (*_KEYS, "place")]).drop_columns(["place"])


def differing(folder: Path, found: dict[str, list[pa.Table]]) -> list[str]:
    """Return the names of the tables in ``found`` that differ from the embedded engine's in a row or in order."""
    names = [path.stem.removeprefix("embedded-") for path in sorted(folder.glob("embedded-*.parquet"))]
    odd = []
    for name in names:
        ours = pq.read_table(folder / f"embedded-{name}.parquet")
        theirs = in_order(pa.concat_tables(found[name])) if name in found else ours.slice(0, 0)
        print(f"  {name}: {ours.num_rows:,} rows, {'equal' if theirs.cast(ours.schema).equals(ours) else 'DIFFERENT'}")
        if not theirs.cast(ours.schema).equals(ours):
            odd.append(name)
    return odd


def run(folder: Path, chosen: argparse.Namespace) -> list[str]:
    """Build missing data, compute the answers on both engines, print the results, and return the tables that differ."""
    rows = chosen.rows
    print(f"{rows:,} transfers of {TOKENS} tokens, {chosen.instants} instants", flush=True)
    if not (folder / "raw.parquet").exists():
        alone(write_raw, folder / "raw.parquet", rows)
    costs: dict[str, dict[str, float]] = {}
    if not (folder / "store").exists():
        costs["embedded, import"] = alone(build, folder, rows, "2GB")
        _say(costs)
    costs["embedded, answers"] = alone(embedded, folder, chosen.instants)
    _say(costs)
    if chosen.duckdb:
        with DuckDbEngine("4GB") as duck:
            found = _ask(duck, folder, chosen.instants, "DuckDB", costs)
            differing(folder, found)
    with _cluster(chosen.memory) as cluster:
        options = {
            "spark.driver.host": "127.0.0.1",
            "spark.driver.memory": chosen.memory,
            "spark.executor.memory": chosen.memory,
            "spark.sql.shuffle.partitions": "8",
        }
        with session(cluster.master, options) as opened, SparkEngine(opened, str(folder)) as spark:
            found = _ask(spark, folder, chosen.instants, "Spark", costs, cluster if chosen.kill else None)
    odd = differing(folder, found)
    ours, theirs = costs["embedded, answers"]["cpu"], costs["Spark, answers"]["cpu"]
    print(f"Spark took {theirs / ours:.1f} times the CPU of the embedded engine's answers; {len(odd)} tables differ")
    return odd


def _ask(
    engine: Any,
    folder: Path,
    instants: int,
    name: str,
    costs: dict[str, dict[str, float]],
    victim: SparkCluster | None = None,
) -> dict[str, list[pa.Table]]:
    began, spent = time.monotonic(), _cpu()
    built = build_tables(engine, [str(folder / "raw.parquet")], str(folder / "tables"))
    costs[f"{name}, build"] = {"cpu": _cpu() - spent, "wall": time.monotonic() - began}
    _say(costs)
    began, spent = time.monotonic(), _cpu()
    found: dict[str, list[pa.Table]] = {}
    lost = [0.0]
    if victim:
        threading.Thread(target=_kill_later, args=(victim, lost), daemon=True).start()
    with Store(folder / "store") as store:
        for partition in answers(engine, store, built.location, asked(instants), _AT):
            for table, rows in partition.tables.items():
                found.setdefault(table, []).append(rows)
    costs[f"{name}, answers"] = {"cpu": _cpu() - spent + lost[0], "wall": time.monotonic() - began}
    _say(costs)
    return found


def _kill_later(cluster: SparkCluster, lost: list[float]) -> None:
    """Kill a worker while the cluster computes answers; write its CPU seconds to ``lost[0]``."""
    time.sleep(15)
    before = _cpu()
    cluster.kill(cluster.workers[0])
    lost[0] = before - _cpu()
    print("  a worker was killed", flush=True)


@contextmanager
def _cluster(memory: str) -> Iterator[SparkCluster]:
    cluster = SparkCluster(memory)
    try:
        cluster.start()
        yield cluster
    finally:
        cluster.stop()


def _cpu() -> float:
    """Return the CPU seconds of this process and of all its descendants."""
    parents: dict[int, int] = {}
    spent: dict[int, float] = {}
    for path in Path("/proc").glob("[0-9]*/stat"):
        try:
            fields = path.read_text().rpartition(")")[2].split()
        except OSError:
            continue
        pid = int(path.parent.name)
        parents[pid] = int(fields[1])
        spent[pid] = sum(map(int, fields[11:15])) / _TICKS
    mine = {os.getpid()}
    while more := {pid for pid, parent in parents.items() if parent in mine} - mine:
        mine |= more
    return sum(spent.get(pid, 0.0) for pid in mine)


def _say(costs: dict[str, dict[str, float]]) -> None:
    name = list(costs)[-1]
    print(f"{name}: {costs[name]['cpu']:.1f} s of CPU, {costs[name]['wall']:.1f} s", flush=True)


def main() -> None:
    """Run the benchmark in ``--folder``, or in a temporary folder that is deleted at the end."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--rows", type=int, default=1_000_000, help="transfers")
    parser.add_argument("--instants", type=int, default=4, help="instants to ask for")
    parser.add_argument("--kill", action="store_true", help="kill a worker in the middle")
    parser.add_argument("--duckdb", action="store_true", help="run the same SQL on DuckDB in this process, too")
    parser.add_argument("--memory", default="2g", help="memory of the driver and of each executor")
    parser.add_argument("--folder", type=Path, help="where rows and store are kept")
    chosen = parser.parse_args()
    with tempfile.TemporaryDirectory() as folder:
        place = chosen.folder or Path(folder)
        place.mkdir(parents=True, exist_ok=True)
        run(place, chosen)


if __name__ == "__main__":
    main()
