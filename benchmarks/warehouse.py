"""The analyst's warehouse: every documented query against raw Parquet and against a scan of the columns it needs.

    python -m benchmarks.warehouse                                                       # small: a minute
    python -m benchmarks.warehouse --chains 14 --tokens 20 --days 365 --transfers 980    # 8 M holders, 100 M transfers
    python -m benchmarks.warehouse --lake data/lake                                      # a lake that is there

One run, one machine, side by side: the same SQL over the warehouse, over the lake's Parquet files by ``lake views``,
and a plain scan of all rows of the columns that the query needs, in the warehouse, which is what an engine without any
pruning would have to read at least. Then the load's rate, the sizes, and readers of other processes that ask all the
time while 100 partitions more are loaded and a load is killed. Times are wall times of the quickest of ``--rounds``
(Parquet: of one), over warm files.
"""

from __future__ import annotations

import argparse
import os
import shutil
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

import duckdb

from benchmarks.warehouse_lake import Size, make_lake
from holderlake.core.lake.lake import Lake
from holderlake.core.warehouse.connections import prepared
from holderlake.core.warehouse.warehouse import Warehouse
from holderlake.presentation import lake_views

HELD_BACK: Final = 100
"""Partitions that are loaded while other processes query the warehouse."""

READER: Final = """
import json, sys, time
from pathlib import Path
from holderlake.core.warehouse.warehouse import Warehouse

warehouse, folder = Warehouse(Path(sys.argv[1])), Path(sys.argv[2])
reads, slowest, partial, failed = 0, 0.0, 0, []
while not (folder / "done").exists():
    began = time.monotonic()
    try:
        missing = warehouse.query(
            "SELECT count(*) AS n FROM coverage LEFT JOIN maps ON maps.chain = coverage.chain"
            " AND maps.token_address = coverage.subject AND maps.timestamp = coverage.timestamp"
            " WHERE family = 'maps' AND maps.chain IS NULL"
        ).to_pylist()[0]["n"]
        warehouse.query("SELECT count(*), sum(share) FROM latest_holders")
        partial += missing
    except Exception as error:
        failed.append(str(error)[:200])
    reads += 1
    slowest = max(slowest, time.monotonic() - began)
result = {"reads": reads, "failed": len(failed), "partial": partial, "slowest s": round(slowest, 2)}
print(json.dumps(result | {"first": failed[:1]}))
"""
LOADER: Final = """
import sys
from pathlib import Path
from holderlake.core.lake.lake import Lake
from holderlake.core.warehouse.warehouse import Warehouse

print("loading", flush=True)
Warehouse(Path(sys.argv[1])).load(Lake(Path(sys.argv[2])))
"""

HOLDER: Final = "chain, token_address, timestamp, address, rank, share, amount, amount_exact"
MOVED: Final = (
    "chain, token_address, timestamp, from_address, to_address, total_value, total_value_exact, total_transfers"
)


@dataclass(frozen=True)
class Question:
    """A documented query, and the columns of each table that it needs."""

    name: str
    sql: str
    needs: dict[str, str]


QUESTIONS: Final = (
    Question("latest_holders", "FROM latest_holders", {"holders": HOLDER}),
    Question("holders_as_of, all tokens", "FROM holders_as_of('{t}')", {"holders": HOLDER}),
    Question(
        "holders_as_of, one token",
        "FROM holders_as_of('{t}') WHERE chain = '{chain}' AND token_address = '{token}'",
        {"holders": HOLDER},
    ),
    Question("holders_known_at", "FROM holders_known_at('{t}', '2027-01-01')", {"holders": HOLDER + ", fetched_at"}),
    Question("holder_changes", "FROM holder_changes('{t1}', '{t}')", {"holders": HOLDER}),
    Question("holder_changes, each list", "FROM holder_changes('{t1}', '{t}', each_list := true)", {"holders": HOLDER}),
    Question(
        "holding_periods, all",
        "SELECT count(*) FROM holding_periods",
        {"holders": "chain, token_address, timestamp, address"},
    ),
    Question(
        "holding_periods, one token",
        "FROM holding_periods WHERE chain = '{chain}' AND token_address = '{token}'",
        {"holders": HOLDER},
    ),
    Question(
        "concentration_history, all",
        "FROM concentration_history",
        {"holders": "chain, token_address, timestamp, rank, share", "maps": "service_score, gini_index"},
    ),
    Question(
        "concentration_history, one token",
        "FROM concentration_history WHERE chain = '{chain}' AND token_address = '{token}'",
        {"holders": "chain, token_address, timestamp, rank, share", "maps": "service_score, gini_index"},
    ),
    Question(
        "cluster_lineage, one token",
        "FROM cluster_lineage WHERE chain = '{chain}' AND token_address = '{token}'",
        {"cluster_members": "chain, token_address, timestamp, cluster_id, address", "clusters": "share, cluster_id"},
    ),
    Question(
        "cluster_history",
        "FROM cluster_history('{token}')",
        {"cluster_members": "chain, token_address, timestamp, cluster_id, address", "clusters": "share, cluster_id"},
    ),
    Question(
        "cluster_flows",
        "FROM cluster_flows('{t}')",
        {"grouped_transfers": MOVED, "map_nodes": "address, is_cex, is_dex"},
    ),
    Question(
        "exchange_flows",
        "FROM exchange_flows('{t}')",
        {"grouped_transfers": MOVED, "map_nodes": "address, is_cex, is_dex"},
    ),
    Question(
        "holder_overlap", "FROM holder_overlap('{t}')", {"holders": "chain, token_address, timestamp, address, share"}
    ),
    Question(
        "address_history",
        "FROM address_history('{address}')",
        {"holders": HOLDER, "map_nodes": "chain, token_address, timestamp, address, kind"},
    ),
    Question("address_transfers", "FROM address_transfers('{address}')", {"grouped_transfers": MOVED}),
    Question("flows_between", "FROM flows_between('{address}', '{other}')", {"grouped_transfers": MOVED}),
    Question(
        "data_quality",
        "SELECT issue, count(*) FROM data_quality GROUP BY issue",
        {"holders": "chain, token_address, timestamp, rank, share", "grouped_transfers": "rel_type"},
    ),
)


def main() -> None:
    """Run all parts of the benchmark and print the results."""
    given = _arguments()
    with _folder(given.keep) as folder:
        lake = Lake(given.lake) if given.lake else make_lake(folder / "lake", _size(given))
        held = _hold_back(lake, folder)
        warehouse = Warehouse(folder / "warehouse.duckdb")
        try:
            _load(lake, warehouse)
            _ask(lake, warehouse, given.rounds)
        finally:
            _give_back(held)
        _read_all_the_while(lake, warehouse, folder, held)


def _load(lake: Lake, warehouse: Warehouse) -> None:
    before = time.process_time()
    report = warehouse.load(lake)
    cpu = time.process_time() - before
    rows = sum(report.rows.values())
    parquet = sum(file.bytes for manifest in lake.manifests() for file in manifest.tables.values())
    size = warehouse.path.stat().st_size
    print(
        f"loaded {report.partitions:,} partitions, {rows:,} rows in {report.seconds:.0f} s ({cpu:.0f} s of CPU): ",
        end="",
    )
    print(f"{rows / report.seconds:,.0f} rows a second, {rows / cpu:,.0f} rows a second of CPU")
    for table, count in report.rows.items():
        print(f"  {table:20}{count:>14,}")
    print(f"Parquet {parquet / 1e6:,.0f} MB, warehouse {size / 1e6:,.0f} MB: {size / parquet:.2f} of it\n")


def _ask(lake: Lake, warehouse: Warehouse, rounds: int) -> None:
    names = _names(warehouse)
    with warehouse.connect() as ours, prepared(duckdb.connect()) as parquet:
        began = time.monotonic()
        parquet.execute(lake_views.script(lake))
        print(f"lake views took {time.monotonic() - began:.1f} s to be read; {names}\n")
        print(f"{'question':34}{'warehouse':>12}{'Parquet':>12}{'times':>8}{'full scan':>12}{'of it':>8}")
        for question in QUESTIONS:
            sql = question.sql.format(**names)
            mine = min(_seconds(ours, sql) for _ in range(rounds))
            theirs = _seconds(parquet, sql)
            scan = min(_seconds(ours, _scan(question)) for _ in range(rounds))
            print(
                f"{question.name:34}{mine * 1000:9,.0f} ms{theirs * 1000:9,.0f} ms{theirs / mine:8.1f}"
                f"{scan * 1000:9,.0f} ms{mine / scan:8.2f}",
                flush=True,
            )
    print()


def _names(warehouse: Warehouse) -> dict[str, Any]:
    """Return parameters of the queries: a token, two addresses with transfers between them, and two instants."""
    (row,) = warehouse.query(
        "SELECT chain, token_address AS token, from_address AS address, to_address AS other"
        " FROM latest_grouped_transfers"
        " ORDER BY total_transfers DESC, from_address, to_address LIMIT 1"
    ).to_pylist()
    (times,) = warehouse.query(
        "SELECT quantile_disc(timestamp, 0.5) AS t1, quantile_disc(timestamp, 0.75) AS t FROM partitions"
    ).to_pylist()
    return row | times


def _scan(question: Question) -> str:
    parts = []
    for table, columns in question.needs.items():
        read = " ".join(f", bit_xor(hash({column}))" for column in columns.split(", "))
        parts.append(f"(SELECT list_value(count(*){read}) FROM {table})")
    return f"SELECT {', '.join(parts)}"


def _seconds(connection: duckdb.DuckDBPyConnection, sql: str) -> float:
    began = time.monotonic()
    connection.sql(sql).to_arrow_table()
    return time.monotonic() - began


# ---------------------------------------------------------------------- readers during loads


def _hold_back(lake: Lake, folder: Path) -> list[tuple[Path, Path]]:
    """Move the newest manifests of each chain into ``folder``; return the pairs of moved and original path."""
    paths = sorted(lake.manifest_paths(), key=lambda path: path.parent.name)[-HELD_BACK:]
    (folder / "held").mkdir()
    held = [(folder / "held" / f"{number}.json", path) for number, path in enumerate(paths)]
    for elsewhere, path in held:
        shutil.move(path, elsewhere)
    return held


def _give_back(held: list[tuple[Path, Path]]) -> None:
    for elsewhere, path in held:
        if elsewhere.exists():
            shutil.move(elsewhere, path)


def _read_all_the_while(lake: Lake, warehouse: Warehouse, folder: Path, held: list[tuple[Path, Path]]) -> None:
    for elsewhere, path in held:
        shutil.move(path, elsewhere)
    asked = [sys.executable, "-c", READER, str(warehouse.path), str(folder)]
    readers = [subprocess.Popen(asked, stdout=subprocess.PIPE, text=True) for _ in range(os.cpu_count() or 2)]
    try:
        time.sleep(3)
        _give_back(held[: len(held) // 2])
        loading = [sys.executable, "-c", LOADER, str(warehouse.path), str(lake.root)]
        killed = subprocess.Popen(loading, stdout=subprocess.PIPE, text=True)
        while not warehouse.path.with_name(f"{warehouse.path.name}.next").exists() and killed.poll() is None:
            time.sleep(0.001)
        killed.send_signal(signal.SIGKILL)
        print(f"a load was killed: {killed.wait() == -signal.SIGKILL}")
        for part in (held[: len(held) // 2], held[len(held) // 2 :]):
            _give_back(part)
            began = time.monotonic()
            report = warehouse.load(lake)
            rows = sum(report.rows.values())
            print(f"loaded {report.partitions} partitions more, {rows:,} rows, in {time.monotonic() - began:.1f} s")
    finally:
        _give_back(held)
        (folder / "done").touch()
    for reader in readers:
        print("reader:", reader.communicate()[0].strip())


@contextmanager
def _folder(keep: Path | None) -> Iterator[Path]:
    if keep:
        keep.mkdir(parents=True, exist_ok=True)
        yield keep
        return
    with tempfile.TemporaryDirectory() as folder:
        yield Path(folder)


def _size(given: argparse.Namespace) -> Size:
    return Size(given.chains, given.tokens, given.days, given.holders, given.transfers)


def _arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    for name, default in vars(Size()).items():
        parser.add_argument(f"--{name}", type=int, default=default)
    parser.add_argument("--lake", type=Path, help="a lake that is there, instead of a made one")
    parser.add_argument("--keep", type=Path, help="the folder for the data; a temporary one by default")
    parser.add_argument("--rounds", type=int, default=3)
    return parser.parse_args()


if __name__ == "__main__":
    main()
