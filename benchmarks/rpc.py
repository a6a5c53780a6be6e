"""Transfer events a second from a real node (anvil): our reader, cryo and ethereum-etl, if installed.

    python -m benchmarks.rpc [--logs 100000] [--rounds 3] [--cryo PYTHON] [--ethereum-etl COMMAND]

``--cryo`` names a Python that has the package cryo, ``--ethereum-etl`` its command (both may live in environments of
their own). All read the same blocks of the same node, in turns; of each the middle round counts. Each writes files but
"store", which imports. Ours and cryo are timed from the first request to the last file, ethereum-etl as a process, on a
tenth of the blocks, for it is slow.
"""

from __future__ import annotations

import argparse
import asyncio
import shutil
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path
from statistics import median
from tempfile import TemporaryDirectory
from typing import Final

import pyarrow as pa
import pyarrow.parquet as pq
from pydantic import SecretStr

from holderlake.engine.store.store import Store
from holderlake.sources.rpc.node import Node
from holderlake.sources.rpc.reading import EventReader, Width, in_order
from holderlake.sources.rpc.run import ChainImport, ReadOptions, Selection
from tests.helpers.chain.anvil import GENESIS_TIME, MISSING, Anvil, call, find

LOGS_A_CALL: Final = 97
CALLS_A_BLOCK: Final = 2
SLOW_PART: Final = 10
CRYO: Final = """
import sys, time, cryo
began = time.perf_counter()
cryo.freeze("erc20_transfers", rpc=sys.argv[1], blocks=[f"0:{int(sys.argv[2]) + 1}"], output_dir=sys.argv[3],
            verbose=False, no_report=True)
print("seconds", time.perf_counter() - began)
"""


def filled(anvil: Anvil, logs: int) -> int:
    """Put ``logs`` transfer events on the chain and return the number of the last block."""
    coin = anvil.deploy("Coin")
    holders = [f"0x{number:040x}" for number in range(1, 101)]
    anvil.mine([call("Coin", coin, "mint", holder, 10**30) for holder in holders], GENESIS_TIME + 10)
    for block in range(logs // (LOGS_A_CALL * CALLS_A_BLOCK)):
        ends = ((holders[(block + turn) % 100], holders[(7 * block + turn + 1) % 100]) for turn in range(CALLS_A_BLOCK))
        calls = [call("Coin", coin, "moveMany", *pair, 10**18 + block, LOGS_A_CALL) for pair in ends]
        anvil.mine([one | {"gas": hex(20_000_000)} for one in calls], GENESIS_TIME + 20 + 12 * block)
    return anvil.head()


def read_to_parquet(url: str, last: int, folder: Path) -> float:
    """Read the blocks with our reader into Parquet files; return the seconds."""

    async def read() -> pa.Table:
        async with Node([SecretStr(url)]) as node:
            reader = EventReader(node, "test", None, last, Width(50, 50))
            return pa.concat_tables([one.rows async for some in in_order(reader, 0, last, 4) for one in some])

    began = time.perf_counter()
    pq.write_table(asyncio.run(read()), folder / "ours.parquet")
    return time.perf_counter() - began


def import_to_store(url: str, last: int, folder: Path) -> float:
    """Import the blocks into a new store; return the seconds."""

    async def run(store: Store) -> None:
        async with Node([SecretStr(url)]) as node:
            await ChainImport(
                store, node, "test", Selection(last_block=last), ReadOptions(blocks=50, most_blocks=50)
            ).run()

    began = time.perf_counter()
    with Store(folder / "store") as store:
        asyncio.run(run(store))
    return time.perf_counter() - began


def by_cryo(python: str) -> Callable[[str, int, Path], float]:
    """Return a way that runs cryo's ``erc20_transfers`` to Parquet and returns the seconds that cryo reports."""

    def run(url: str, last: int, folder: Path) -> float:
        done = subprocess.run(
            [python, "-c", CRYO, url, str(last), str(folder)], capture_output=True, text=True, check=True
        )
        return float(done.stdout.split()[-1])

    return run


def by_ethereum_etl(command: str) -> Callable[[str, int, Path], float]:
    """Return a way that runs ethereum-etl's ``export_token_transfers`` to CSV and returns its seconds."""

    def run(url: str, last: int, folder: Path) -> float:
        began = time.perf_counter()
        where = ["--provider-uri", url, "--output", str(folder / "transfers.csv"), "--end-block", str(last)]
        subprocess.run(
            [command, "export_token_transfers", "--start-block", "0", *where], capture_output=True, check=True
        )
        return time.perf_counter() - began

    return run


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--logs", type=int, default=100_000)
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--cryo", help="a Python that has the package cryo")
    parser.add_argument("--ethereum-etl", default=shutil.which("ethereumetl"), help="its command")
    chosen = parser.parse_args()
    program = find()
    if program is None:
        sys.exit(MISSING)
    ways: dict[str, Callable[[str, int, Path], float]] = {"ours, to Parquet": read_to_parquet, "store": import_to_store}
    if chosen.cryo:
        ways["cryo, to Parquet"] = by_cryo(chosen.cryo)
    else:
        print("cryo is left out: name a Python that has it with --cryo")
    if chosen.ethereum_etl:
        ways["ethereum-etl, to CSV"] = by_ethereum_etl(chosen.ethereum_etl)
    else:
        print("ethereum-etl is left out: name its command with --ethereum-etl")
    with Anvil(program) as anvil:
        last = filled(anvil, chosen.logs)
        print(f"{last} blocks with {chosen.logs:,} events")
        compare(ways, anvil.url, last, chosen.logs, chosen.rounds)


def compare(ways: dict[str, Callable[[str, int, Path], float]], url: str, last: int, logs: int, rounds: int) -> None:
    """Print the events per second of each way, and the ratio to ours."""
    rates: dict[str, list[float]] = {name: [] for name in ways}
    for _ in range(rounds):
        for name, way in ways.items():
            part = SLOW_PART if name.startswith("ethereum-etl") else 1
            with TemporaryDirectory() as folder:
                rates[name].append(logs / part / way(url, last // part, Path(folder)))
    ours = median(rates["ours, to Parquet"])
    for name, found in rates.items():
        print(f"{name:24} {median(found):>10,.0f} events/s  {median(found) / ours:>7.3f} of our rate")


if __name__ == "__main__":
    main()
