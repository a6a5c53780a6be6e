"""The time of queries about the transfers of a store in the warehouse, and the same queries over its plain file.

    python -m benchmarks.transfers [--rows 1000000] [--folder DIR]

The transfers are those of ``benchmarks.engine``: 200 tokens in three years, of which the largest has 17 %. The plain
file is the Parquet file of that token's transfers, named by hand and without types or units. All balances as of a
second (``balances_at``) are compared with exact sums of the plain file. Wall milliseconds, the median of nine queries
that alternate; two threads. Then CPU seconds of figures of all its holders for a year by month, and the most memory.
With ``--folder`` the store is kept and used again.
"""

from __future__ import annotations

import argparse
import resource
import tempfile
import time
from collections.abc import Iterator, Mapping
from datetime import datetime
from pathlib import Path
from statistics import median
from typing import Final

import duckdb

from benchmarks.engine import build, token_address, write_raw
from holderlake.core.lake.lake import Lake
from holderlake.core.warehouse.warehouse import Warehouse
from holderlake.engine.store.store import Store
from holderlake.sources.store import stored_transfers

LARGEST: Final = token_address(0)
_ROUNDS: Final = 9
_LIMIT: Final = 300


def questions(files: list[str]) -> Iterator[tuple[str, str, str]]:
    """Yield (name, query of the warehouse, query of the plain files) about the largest token."""
    month = [datetime(2024, 3, 1), datetime(2024, 4, 1)]
    ours = f"FROM transfers WHERE token_address = '{LARGEST}'"
    theirs = f"FROM read_parquet({files})"
    times = " AND ".join(f"block_time {sign} TIMESTAMP '{at}'" for sign, at in zip((">=", "<"), month, strict=True))
    seconds = " AND ".join(f"block_time {sign} {unix(at)}" for sign, at in zip((">=", "<"), month, strict=True))
    sums = "SELECT count(*), count(DISTINCT from_address)"
    yield "a month: rows and senders", f"{sums} {ours} AND {times}", f"{sums} {theirs} WHERE {seconds}"
    yield (
        "a month: amounts by day",
        f"SELECT date_trunc('day', block_time), exact_total(amount, amount_exact) {ours} AND {times} GROUP BY ALL",
        f"SELECT block_time // 86400, sum(CAST(value AS DOUBLE)) {theirs} WHERE {seconds} GROUP BY ALL",
    )
    second = unix(datetime(2025, 12, 1))
    changes = " UNION ALL ".join(
        f"SELECT {side} AS address, {sign}CAST(value AS BIGNUM) AS change {theirs} WHERE block_time <= {second}"
        for side, sign in (("from_address", "-"), ("to_address", ""))
    )
    balances = f"SELECT address, sum(change) AS balance FROM ({changes}) GROUP BY address HAVING balance > 0::BIGNUM"
    yield (
        "all balances as of a second",
        f"SELECT count(*), max(address), max(amount) FROM balances_at('{LARGEST}', {second})",
        f"SELECT count(*), max(address), max(balance) FROM ({balances})",
    )
    rows = "SELECT max(tx_hash), max(to_address)"
    yield "a month: all rows with hashes", f"{rows} {ours} AND {times}", f"{rows} {theirs} WHERE {seconds}"


def by_month() -> Iterator[tuple[str, str]]:
    """Yield (name, query) of figures of all holders of the largest token at the end of each month of a year."""
    for name in ("concentration_by_period", "supply_age", "retention"):
        yield name, f"FROM {name}('{LARGEST}', 'month', '2025-01-01', '2025-12-31')"
    yield "holders_by_day", f"FROM holders_by_day('{LARGEST}', '2025-01-01', '2025-12-31')"
    yield "net_flows", f"FROM net_flows('{LARGEST}', '2025-01-01', '2025-12-31')"


def unix(at: datetime) -> int:
    """Return the unix seconds of a time in UTC without a zone."""
    return int((at - datetime(1970, 1, 1)).total_seconds())


def measure(folder: Path, rows: int) -> None:
    """Build the store unless there is one, load the warehouse, and print the medians and their ratios."""
    if not (folder / "store").exists():
        write_raw(folder / "raw.parquet", rows)
        build(folder, rows, "2GB")
    warehouse = Warehouse(folder / "warehouse.duckdb", lambda: stored_transfers(folder / "store"))
    start = time.perf_counter()
    warehouse.load(Lake(folder / "lake"))
    print(f"load: {time.perf_counter() - start:.2f} s")
    with Store(folder / "store") as store:
        files = store.files([("eth", LARGEST)])
    with duckdb.connect(str(warehouse.path), read_only=True) as ours, duckdb.connect() as plain:
        for connection in (ours, plain):
            connection.execute("SET threads = 2")
            connection.execute("SET enable_progress_bar = false")
        (held,) = ours.execute("SELECT count(*) FROM transfers WHERE token_address = ?", [LARGEST]).fetchall()
        print(f"transfers of the largest token: {held[0]:,}")
        for name, view, file in questions(files):
            spent = alternate({"view": (ours, view), "file": (plain, file)})
            print(
                f"{name:32} {spent['view']:6,.0f} ms; plain file {spent['file']:6,.0f} ms;"
                f" {spent['view'] / spent['file']:.2f} times"
            )
        for name, query in by_month():
            start = time.process_time()
            ours.execute(f"SELECT count(*) FROM ({query})").fetchall()
            print(f"{name:32} {time.process_time() - start:6.2f} CPU seconds")
    print(f"most memory: {resource.getrusage(resource.RUSAGE_SELF).ru_maxrss // 1024:,} MB")


def alternate(ways: Mapping[str, tuple[duckdb.DuckDBPyConnection, str]]) -> dict[str, float]:
    """Return the median milliseconds of each way's query."""
    spent: dict[str, list[float]] = {name: [] for name in ways}
    for _ in range(_ROUNDS):
        for name, (connection, query) in ways.items():
            start = time.perf_counter()
            connection.execute(query).fetchall()
            spent[name].append(1000 * (time.perf_counter() - start))
    return {name: median(times) for name, times in spent.items()}


def main() -> None:
    """Measure what the command line asks for."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--rows", type=int, default=1_000_000, help="transfers")
    parser.add_argument("--folder", type=Path, help="where the store is kept")
    chosen = parser.parse_args()
    with tempfile.TemporaryDirectory() as temporary:
        folder = chosen.folder or Path(temporary)
        folder.mkdir(parents=True, exist_ok=True)
        measure(folder, chosen.rows)


if __name__ == "__main__":
    main()
