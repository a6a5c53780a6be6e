"""The cost of a build and of bulk answers on a Spark cluster of two workers, and by the embedded engine on equal rows.

    python -m benchmarks.cluster [--rows 1000000] [--instants 4] [--folder DIR] [--kill] [--memory 2g] [--budget 2GB]

The rows are those of ``benchmarks.engine``: 200 tokens in three years. The answers are maps and lists of 250 holders of
all tokens, half of the instants at midnight and half within a day, compared row for row.
``--kill`` ends a worker with kill -9 in the middle of the build, and another one in the middle of the answers. CPU
seconds are of all processes: master, workers, executors, their Python, and this one. With ``--folder`` the rows and the
store are kept and used again.
"""

from __future__ import annotations

import argparse
import os
import shutil
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager
from datetime import datetime
from pathlib import Path
from typing import Final

import pyarrow as pa
import pyarrow.parquet as pq

from benchmarks.engine import DAY, END, TOKENS, alone, build, token_address, write_raw
from holderlake.core.contract.requests import MapOptions
from holderlake.core.contract.times import from_unix
from holderlake.core.units import parse_memory_limit
from holderlake.engine.catalog.labels import labels_of, marked_addresses
from holderlake.engine.maps.batch import holder_batches, map_batches
from holderlake.engine.store.store import Store
from holderlake.scale.spark.answers import BulkRequest, answers
from holderlake.scale.spark.build import build as build_store
from holderlake.scale.spark.spark import session
from holderlake.scale.spark.tasks import Workers
from tests.helpers.spark import SparkCluster

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
        costs["embedded, import"] = alone(build, folder, rows, chosen.budget)
        _say(costs)
    costs["embedded, answers"] = alone(embedded, folder, chosen.instants)
    _say(costs)
    with _cluster(chosen.memory) as cluster:
        options = {
            "spark.driver.host": "127.0.0.1",
            "spark.driver.memory": "1g",
            "spark.executor.memory": "1g",
        }
        with session(cluster.master, options) as opened:
            found = _computed(Workers(opened), folder, chosen, costs, cluster)
    odd = differing(folder, found)
    for step in ("import", "answers"):
        theirs, ours = (costs[f"{name}, {step}"]["cpu"] for name in ("Spark", "embedded"))
        print(f"Spark took {theirs / ours:.1f} times the CPU of the embedded engine's {step}")
    print(f"{len(odd)} tables differ")
    return odd


def _computed(
    workers: Workers,
    folder: Path,
    chosen: argparse.Namespace,
    costs: dict[str, dict[str, float]],
    cluster: SparkCluster,
) -> dict[str, list[pa.Table]]:
    """Build a store on the cluster, compute the answers from it, and return them by table."""
    shutil.rmtree(folder / "built", ignore_errors=True)
    lost: list[float] = []
    steps: dict[str, float] = {}

    def on_step(step: str, tasks: int) -> None:
        if step not in steps:
            steps[step] = _cpu() + sum(lost)
            print(f"  {step}: {tasks} tasks", flush=True)
        elif chosen.kill and step == "importing tokens" and not lost:
            lost.append(_killed(cluster))

    with Store(folder / "store") as embedded_store, Store(folder / "built") as store:
        keys = [("eth", token_address(number)) for number in range(TOKENS)]
        store.add_tokens(embedded_store.tokens(keys).values())
        store.add_labels(
            label for text in embedded_store.read(marked_addresses) for label in embedded_store.read(labels_of, text)
        )
        began, spent = time.monotonic(), _cpu()
        build_store(workers, store, [str(folder / "raw.parquet")], parse_memory_limit(chosen.budget), on_step)
        steps["end"] = _cpu() + sum(lost)
        costs["Spark, import"] = {"cpu": steps["end"] - spent, "wall": time.monotonic() - began}
        _say(costs)
        for (step, start), end in zip(steps.items(), list(steps.values())[1:], strict=False):
            print(f"  {step}: {end - start:.1f} s of CPU")
        if chosen.kill:
            cluster.add_worker()
            lost.clear()
        began, spent = time.monotonic(), _cpu()
        found: dict[str, list[pa.Table]] = {}

        def on_task(tasks: int) -> None:
            if chosen.kill and not lost and time.monotonic() > began + 3:
                lost.append(_killed(cluster))

        for partition in answers(
            workers, store, folder / "results", asked(chosen.instants), computed_at=_AT, on_task=on_task
        ):
            for table, rows in partition.tables.items():
                found.setdefault(table, []).append(rows)
        costs["Spark, answers"] = {"cpu": _cpu() + sum(lost) - spent, "wall": time.monotonic() - began}
        _say(costs)
    return found


def _killed(cluster: SparkCluster) -> float:
    """Kill a worker, and return its CPU seconds."""
    before = _cpu()
    cluster.kill(cluster.workers[0])
    print("  a worker was killed", flush=True)
    return before - _cpu()


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
    parser.add_argument("--memory", default="2g", help="memory that a worker offers to Spark")
    parser.add_argument("--budget", default="2GB", help="memory of an import, and of a task")
    parser.add_argument("--folder", type=Path, help="where rows and store are kept")
    chosen = parser.parse_args()
    with tempfile.TemporaryDirectory() as folder:
        place = chosen.folder or Path(folder)
        place.mkdir(parents=True, exist_ok=True)
        if different := run(place, chosen):
            raise SystemExit(f"different answers: {', '.join(different)}")


if __name__ == "__main__":
    main()
