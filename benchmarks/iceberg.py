"""How long publishing the lake as Iceberg tables takes: all partitions at once, then one replaced partition.

python -m benchmarks.iceberg [--partitions 10000]
"""

from __future__ import annotations

import argparse
import tempfile
import time
from datetime import datetime, timedelta
from pathlib import Path

from holderlake.iceberg import IcebergTables
from holderlake.lake.lake import Lake
from tests.lakes import write_holders


def main() -> None:
    """Make a lake, publish it, replace a partition, and publish again."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--partitions", type=int, default=10_000)
    partitions = parser.parse_args().partitions
    with tempfile.TemporaryDirectory() as folder:
        lake = Lake(Path(folder) / "lake")
        tables = IcebergTables(lake, Path(folder) / "iceberg")
        first = datetime(2020, 1, 1)
        for number in range(partitions):
            chain, hour = ("eth", "bsc")[number % 2], first + timedelta(hours=number // 2)
            write_holders(lake, chain, hour, {"0x1": {"0xa": 1 + number, "0xb": 1}})
        began = time.perf_counter()
        publication = tables.publish()
        taken = time.perf_counter() - began
        print(
            f"{publication.added['holders']:,} partitions published: {taken:.1f} s, {partitions / taken:,.0f} a second"
        )
        write_holders(lake, "eth", first, {"0x1": {"0xa": 7}})
        began = time.perf_counter()
        publication = tables.publish()
        print(f"{publication.removed['holders']} replaced and published: {time.perf_counter() - began:.1f} s")


if __name__ == "__main__":
    main()
