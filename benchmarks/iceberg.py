"""Measure the cost of publishing the lake as Iceberg tables, and the time that merged files save a reader.

python -m benchmarks.iceberg [--partitions 10000]
"""

from __future__ import annotations

import argparse
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager
from datetime import datetime, timedelta
from pathlib import Path

from holderlake.core.lake.lake import Lake
from holderlake.scale.iceberg.snapshots import NAMESPACE
from holderlake.scale.iceberg.tables import IcebergTables
from tests.helpers.lakes import write_holders

_ADDRESSES = 50


@contextmanager
def measured(text: str) -> Iterator[None]:
    """Print the seconds of CPU that the block takes."""
    began = time.process_time()
    yield
    print(f"{text}: {time.process_time() - began:.1f} s of CPU")


def main() -> None:
    """Make a lake of hourly holders, publish it, replace a partition, publish again, and merge the small files."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--partitions", type=int, default=10_000)
    partitions = parser.parse_args().partitions
    with tempfile.TemporaryDirectory() as folder:
        lake = Lake(Path(folder) / "lake")
        tables = IcebergTables(lake, Path(folder) / "iceberg")
        first = datetime(2020, 1, 1)
        for number in range(partitions):
            chain, hour = ("eth", "bsc")[number % 2], first + timedelta(hours=number // 2)
            write_holders(lake, chain, hour, {"0x1": {f"0x{place:040x}": 1 + number for place in range(_ADDRESSES)}})
        with measured(f"{partitions:,} partitions published"):
            tables.publish()
        write_holders(lake, "eth", first, {"0x1": {"0xa": 7}})
        with measured("one replaced and published"):
            tables.publish()
        with measured("nothing changed"):
            tables.publish()
        read(tables)
        merging = IcebergTables(lake, Path(folder) / "iceberg", keep=1, compact_bytes=64_000_000)
        with measured("small files merged, and older publications deleted"):
            merging.publish()
        read(merging)


def read(tables: IcebergTables) -> None:
    """Read the table ``holders`` with pyiceberg, whole and one instant of it."""
    table = tables.open_catalog().load_table((NAMESPACE, "holders"))
    files = [task.file for task in table.scan().plan_files()]
    size = sum(file.file_size_in_bytes for file in files)
    with measured(f"all rows read from {len(files):,} files with {size / 1e6:.1f} MB"):
        table.scan().to_arrow()
    with measured("one instant read"):
        table.scan(row_filter="chain = 'eth' and as_of = '2020-01-02T00:00:00'").to_arrow()


if __name__ == "__main__":
    main()
