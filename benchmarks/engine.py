"""The cost of the engine's answers at 1, 10 and 50 million transfers, and of scans of the raw rows, all in one run.

    python -m benchmarks.engine [--rows 1000000] [--maps 100] [--folder DIR] [--days 365] [--all-days 5]

Compared with the engine: (a) DuckDB, (b) pandas and networkx, (c) polars, (d) chdb, see ``raw_ways``. Tools
that are not installed are named and left out; ``pip install --group benchmarks`` installs them.

The transfers are made up, the same in every run: 200 tokens in three years by a power law, with exchanges, pools,
airdrops, bundles and wallets that deal with each other. Each step is a separate process, so that its peak of memory
is its own. CPU milliseconds count, of one thread unless said otherwise; a ratio is how many times longer the other way
takes. With ``--folder`` the rows and the store are kept and used
again; ten million rows take about 6 GB of disk.
"""

from __future__ import annotations

import argparse
import json
import multiprocessing
import random
import resource
import sys
import tempfile
import threading
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from functools import partial
from pathlib import Path
from statistics import median
from typing import Any, Final

import duckdb
import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

from benchmarks.raw_ways import TOOLS, measured
from holderlake.core.contract.chains import ZERO_ADDRESS
from holderlake.core.contract.requests import MapOptions
from holderlake.core.contract.times import from_unix
from holderlake.engine.maps.batch import map_batches
from holderlake.engine.maps.maps import map_as_of
from holderlake.engine.queries.holders import holders_as_of
from holderlake.engine.records import TRANSFERS, Label, TokenInfo
from holderlake.engine.store.store import Store

TOKENS: Final = 200
INDEXED: Final = 10
EXCHANGES: Final = 20
START: Final = 1_672_531_200
YEARS: Final = 3
DAY: Final = 86_400
END: Final = START + YEARS * 365 * DAY
BATCH: Final = 250_000
ALIKE: Final = 40
"""The number of tokens that are compared with tokens of the same size in a larger store."""
ALIKE_ROWS: Final = 10_000_000

_TEXTS: Final = """
SELECT
    'eth' AS chain,
    '0x' || md5('token' || token) || '00000000' AS token_address,
    'erc20' AS token_standard,
    CASE WHEN sender < 0 THEN $zero ELSE '0x' || md5('address' || sender) || substr(md5(sender::VARCHAR), 1, 8) END
        AS from_address,
    '0x' || md5('address' || receiver) || substr(md5(receiver::VARCHAR), 1, 8) AS to_address,
    units || '000000000000' AS value,
    NULL::VARCHAR AS token_id,
    second // 12 AS block_number,
    second AS block_time,
    '0x' || md5('tx' || row) || md5('hash' || row) AS tx_hash,
    row % 300 AS log_index,
    'exact' AS time_kind,
    'exact' AS log_index_kind,
    'benchmark' AS source
FROM made
"""


def token_address(number: int) -> str:
    """Return the made-up EVM address of a token by its number."""
    (found,) = duckdb.execute("SELECT '0x' || md5('token' || ?) || '00000000'", [number]).fetchone() or ("",)
    return str(found)


def addresses(numbers: list[int]) -> list[str]:
    """Return the EVM addresses, as text, of wallets by their numbers."""
    sql = "SELECT '0x' || md5('address' || n) || substr(md5(n::VARCHAR), 1, 8) FROM (SELECT unnest(?) AS n)"
    return [text for (text,) in duckdb.execute(sql, [numbers]).fetchall()]


def transfers(rows: int, first: int = 0, start: int = START, end: int = END, world: int = 0) -> Iterator[pa.Table]:
    """Yield tables of made-up transfers, ordered by time.

    ``rows`` is their number, and ``first`` the number of the first one. ``world`` is the number of transfers of the
    store that they are added to; 0 means ``rows``.
    """
    world = world or rows
    rng = np.random.default_rng([rows, first])
    weights = 1 / np.arange(1, TOKENS + 1)
    wallets = max(world // 8, 1_000)
    connection = duckdb.connect()
    connection.execute("SET threads = 1")
    connection.execute("SET enable_progress_bar = false")
    for place in range(0, rows, BATCH):
        count = min(BATCH, rows - place)
        token = rng.choice(TOKENS, count, p=weights / weights.sum())
        crowd = np.maximum(wallets * weights[token] * 2, 50).astype(np.int64)

        def wallet(token: Any = token, crowd: Any = crowd, count: int = count) -> Any:
            own = (crowd * rng.random(count) ** 3).astype(np.int64)
            return 10_000 + (own * 2_654_435_761 + token * 40_503 * (own % 3 > 0)) % wallets

        sender, receiver = wallet(), wallet()
        exchange, pool = rng.integers(0, EXCHANGES, count), 100 + token
        kind = rng.choice(7, count, p=[0.25, 0.18, 0.08, 0.07, 0.17, 0.2, 0.05])
        sender = np.select([kind == 0, kind == 2, kind == 4], [pool, exchange, -1], sender)
        receiver = np.select([kind == 1, kind == 3], [pool, exchange], receiver)
        bundle = kind == 6
        sender[bundle] = 10_000 + (receiver[bundle] // 40) * 40 % wallets
        size = (10 ** (rng.random(count) * 7)).astype(np.int64) + 1
        units = np.where(kind == 4, 5_000_000, np.where(np.isin(kind, (1, 3, 5)), size, size * 5))
        seconds = np.sort(
            rng.integers(start + (end - start) * place // rows, start + (end - start) * (place + count) // rows, count)
        )
        made = {"token": token, "sender": sender, "receiver": receiver, "units": units, "second": seconds}
        connection.register("made", pa.table(made | {"row": first + place + np.arange(count)}))
        table = connection.sql(_TEXTS, params={"zero": ZERO_ADDRESS}).to_arrow_table()
        yield table.select(TRANSFERS.names).cast(TRANSFERS)


def write_raw(path: Path, rows: int) -> None:
    """Write the transfers to one Parquet file, ordered by time, as exports of raw data usually are."""
    with pq.ParquetWriter(path, TRANSFERS, compression="zstd") as writer:
        for table in transfers(rows):
            writer.write_table(table)


# ---------------------------------------------------------------------- the steps, each in a separate process


def spent() -> float:
    """Return the CPU seconds of this process."""
    used = resource.getrusage(resource.RUSAGE_SELF)
    return used.ru_utime + used.ru_stime


def peak() -> float:
    """Return the peak memory of this process in GB."""
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1e6


@contextmanager
def anonymous_peak() -> Iterator[list[float]]:
    """Yield a list whose one number is the peak of anonymous memory within the block, in GB.

    Memory limits are about anonymous memory: the system frees pages of mapped files itself. It is measured 100 times a
    second on Linux (``/proc``), and is 0 elsewhere.
    """
    most, over = [0.0], threading.Event()
    pages = Path("/proc/self/statm")  # all, those in memory, and of these the ones that files are mapped to

    def watch() -> None:
        while pages.exists() and not over.wait(0.01):
            _, resident, of_files, *_ = map(int, pages.read_bytes().split())
            most[0] = max(most[0], (resident - of_files) * resource.getpagesize() / 1e9)

    watching = threading.Thread(target=watch, daemon=True)
    watching.start()
    try:
        yield most
    finally:
        over.set()
        watching.join()


def build(folder: Path, rows: int, memory: str) -> dict[str, Any]:
    """Build a store and import all rows. Return CPU and wall seconds, peak memory and size on disk in GB."""
    with Store(folder / "store", memory_limit=memory) as store:
        store.add_tokens(
            TokenInfo("eth", token_address(number), f"Token {number}", f"T{number}", 18, is_indexed=number < INDEXED)
            for number in range(TOKENS)
        )
        exchanges = [
            Label(text, None, "benchmark", "Exchange", is_cex=True) for text in addresses(list(range(EXCHANGES)))
        ]
        pools = [100 + number for number in range(TOKENS)]
        store.add_labels(
            [
                *exchanges,
                *(Label(text, None, "benchmark", "Pool", is_dex=True, is_contract=True) for text in addresses(pools)),
            ]
        )
        file = pq.ParquetFile(folder / "raw.parquet", pre_buffer=False)
        reader = pa.RecordBatchReader.from_batches(TRANSFERS, file.iter_batches(100_000))
        began, wall = spent(), time.monotonic()
        with anonymous_peak() as most:
            store.add_transfers(reader, "benchmark")
        cost = {"cpu": spent() - began, "wall": time.monotonic() - wall, "peak": peak(), "anonymous": most[0]}
    size = sum(path.stat().st_size for path in (folder / "store").rglob("*") if path.is_file())
    return cost | {"disk": size / 1e9}


def one_more_day(folder: Path, rows: int) -> dict[str, Any]:
    """Import the rows of one more day into the store. Return their number, CPU and wall seconds."""
    with Store(folder / "store") as store:
        day = rows // (YEARS * 365)
        table = pa.concat_tables(transfers(day, rows, END, END + DAY, rows))
        began, wall = spent(), time.monotonic()
        added = store.add_transfers(table, "one more day").added
        return {"rows": added, "cpu": spent() - began, "wall": time.monotonic() - wall}


def alike(rows: int) -> list[int]:
    """Return numbers of tokens with as many transfers as the 40 largest tokens of a store of ten million rows.

    The cost of their maps shows the effect of the store's size, because the tokens' sizes are equal. A smaller store
    has none.
    """
    numbers = [(place + 1) * rows // ALIKE_ROWS - 1 for place in range(ALIKE)]
    return [number for number in numbers if 0 <= number < TOKENS] if rows >= ALIKE_ROWS else []


def cold_maps(folder: Path, count: int, tokens: Sequence[int]) -> dict[str, Any]:
    """Time maps and holder lists at random seconds, each requested for the first time.

    The tokens take turns in a random order, so that each run has the same share of large tokens, which have the slowest
    maps.
    """
    chance, times, holder_times = random.Random(7), [], []
    order = chance.sample(tokens, len(tokens))
    with Store(folder / "store") as store:
        for place in range(count):
            token, at = token_address(order[place % len(order)]), from_unix(chance.randint(START + 30 * DAY, END - 1))
            holder_times.append(_timed(partial(holders_as_of, store, "eth", token, at, 80)))
            times.append(_timed(partial(map_as_of, store, "eth", token, at, MapOptions(), at)))
    return {"map": quantiles(times), "holders": quantiles(holder_times), "peak": peak()}


def quantiles(milliseconds: list[float]) -> dict[str, float]:
    """Return the median and the 99th percentile."""
    ordered = sorted(milliseconds)
    return {"median": median(ordered), "p99": ordered[min(len(ordered) - 1, int(0.99 * len(ordered)))]}


def backfill(folder: Path, days: int, tokens: Sequence[int]) -> dict[str, Any]:
    """Compute the tokens' maps at the end of the last ``days`` days in one pass; return their number and cost."""
    instants = [from_unix(END - DAY * back) for back in range(days, 0, -1)]
    keys = [("eth", token_address(number)) for number in tokens]
    with Store(folder / "store") as store:
        began, wall, maps = spent(), time.monotonic(), 0
        for tables in map_batches(store, keys, instants, MapOptions()):
            maps += tables["maps"].num_rows
        return {"maps": maps, "cpu": spent() - began, "wall": time.monotonic() - wall, "peak": peak()}


def _timed(ask: Callable[[], object]) -> float:
    began = time.process_time()
    ask()
    return 1_000 * (time.process_time() - began)


# ---------------------------------------------------------------------- the report


def alone(step: Callable[..., Any], *given: Any) -> Any:
    """Call ``step`` with the arguments in a separate process and return its result."""
    with multiprocessing.get_context("spawn").Pool(1) as pool:
        return pool.apply(step, given)


def run(folder: Path, chosen: argparse.Namespace) -> None:
    """Build missing data, time the engine's answers, and print the results."""
    rows = chosen.rows
    print(f"{rows:,} transfers of {TOKENS} tokens")
    if not (folder / "raw.parquet").exists():
        alone(write_raw, folder / "raw.parquet", rows)
    print(f"raw file: {(folder / 'raw.parquet').stat().st_size / 1e9:.2f} GB", flush=True)
    if not (folder / "built.json").exists():
        cost = alone(build, folder, rows, chosen.memory)
        day = alone(one_more_day, folder, rows)
        (folder / "built.json").write_text(json.dumps({"build": cost, "day": day}))
    cost, day = (json.loads((folder / "built.json").read_text())[step] for step in ("build", "day"))
    print(
        f"build: {1e6 * cost['cpu'] / rows:.1f} µs CPU a transfer, {cost['wall']:.0f} s, budget {chosen.memory}, "
        f"peak {cost['anonymous']:.2f} GB anonymous, {cost['peak']:.2f} GB in all, store {cost['disk']:.2f} GB"
    )
    print(f"one more day of {day['rows']:,} rows: {day['cpu']:.2f} s CPU, {day['wall']:.2f} s", flush=True)
    like_sized = alike(rows)
    if like_sized:
        print(f"like-sized tokens: the {ALIKE} largest of {ALIKE_ROWS:,} rows, or as many of as many transfers each")
    asked = {
        "any": (chosen.maps, range(TOKENS)),
        "largest": (chosen.maps // 4 + 1, [0]),
        "like-sized": (chosen.maps, like_sized),
    }
    cold = {name: alone(cold_maps, folder, count, tokens) for name, (count, tokens) in asked.items() if tokens}
    for name, found in cold.items():
        for kind in ("map", "holders"):
            print(f"cold {kind}, {name} token: median {found[kind]['median']:.1f} ms, 99th {found[kind]['p99']:.1f} ms")
        print(f"    peak {found['peak']:.2f} GB", flush=True)
    passes = {
        "the largest token": (chosen.days, [0]),
        "all tokens": (chosen.all_days, range(TOKENS)),
        "like-sized tokens": (chosen.all_days, like_sized),
    }
    swept = {name: alone(backfill, folder, days, tokens) for name, (days, tokens) in passes.items() if tokens}
    for name, cost in swept.items():
        days, each = passes[name][0], 1_000 * cost["cpu"] / max(cost["maps"], 1)
        print(f"{days} days of {name}: {cost['maps']:,} maps, {cost['wall']:.1f} s, {each:.2f} ms CPU a map, "
              f"peak {cost['peak']:.2f} GB", flush=True)  # fmt: skip
    ours = {
        "holders": cold["largest"]["holders"]["median"],
        "map": cold["largest"]["map"]["median"],
        "any": cold["any"]["map"]["median"],
        "year": 1_000 * swept["the largest token"]["cpu"] * YEAR / chosen.days,
        "years": 1_000 * swept["all tokens"]["cpu"] * YEAR / chosen.all_days,
    }
    _compare(folder, ours)


YEAR: Final = 365
_MIDDLE: Final = END - 180 * DAY
"""The instant (unix seconds) of the one map that the other tools compute; a year costs them 365 times that."""


def _compare(folder: Path, ours: dict[str, float]) -> None:
    """Print the time of each tool, and its ratio to the engine's time."""
    print(f"\nCPU of an answer, and how many times the engine's it is (as of {from_unix(_MIDDLE):%Y-%m-%d})")
    heads = ("holders, largest", "map, largest", "map, any *", f"{YEAR} days, largest *", f"{YEAR} days x all *")
    print(f"{'':28}" + "".join(f"{head:>23}" for head in heads))
    print(f"{'the engine':28}" + "".join(f"{_written(ours[kind]):>23}" for kind in ours), flush=True)
    missing = []
    for name, tool in TOOLS.items():
        asked = [("holders", 0), ("map", 0), ("map", TOKENS // 2)]
        found = [alone(measured, name, kind, folder / "raw.parquet", token_address(t), _MIDDLE) for kind, t in asked]
        if None in found:
            missing.append(f"{name}: {' and '.join(tool.modules)} not installed")
            continue
        holders, one_map, other = found
        years = {"year": one_map * YEAR, "years": other * YEAR * TOKENS}
        theirs = {"holders": holders, "map": one_map, "any": other} | years
        cells = (f"{_written(theirs[kind])} ({theirs[kind] / ours[kind]:,.0f} x)" for kind in ours)
        print(f"{name:28}" + "".join(f"{cell:>23}" for cell in cells), flush=True)
    print(
        "* others: a token of middling size for any, and from one map, times the days and tokens; the engine: measured"
    )
    print("  (of any: the median), and where fewer days were asked for, extrapolated. They read the raw file again for")
    print(
        "  each map, so building and one more day cost them nothing. Their maps are holders and the relationships among"
    )
    print("  these alone: the engine's have clusters, magic nodes and scores besides.")
    print("\n".join(missing))


def _written(milliseconds: float) -> str:
    """Format milliseconds with a unit that is easy to read."""
    for unit, size in (("h", 3_600_000.0), ("min", 60_000.0), ("s", 1_000.0)):
        if milliseconds >= 2 * size:
            return f"{milliseconds / size:,.1f} {unit}"
    return f"{milliseconds:,.1f} ms"


def main() -> None:
    """Run the benchmark in ``--folder``, or in a temporary folder that is deleted at the end."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--rows", type=int, default=1_000_000, help="transfers")
    parser.add_argument("--maps", type=int, default=100, help="cold maps to ask for")
    parser.add_argument("--days", type=int, default=365, help="days of the largest token's backfill")
    parser.add_argument("--all-days", type=int, default=5, help="days of the backfill of all tokens")
    parser.add_argument("--memory", default="2GB", help="the memory that the import may use")
    parser.add_argument("--folder", type=Path, help="where rows and store are kept")
    chosen = parser.parse_args()
    if chosen.folder:
        chosen.folder.mkdir(parents=True, exist_ok=True)
        run(chosen.folder, chosen)
        return
    with tempfile.TemporaryDirectory() as folder:
        run(Path(folder), chosen)


if __name__ == "__main__":
    sys.exit(main())
