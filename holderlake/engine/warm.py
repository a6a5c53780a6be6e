"""Compile the engine's loops before the first request: ``python -m holderlake.engine.warm``.

It makes a map of a few transfers in a temporary folder, which compiles all loops that maps need.
"""

from __future__ import annotations

from datetime import timedelta
from pathlib import Path
from tempfile import TemporaryDirectory

import pyarrow as pa

from holderlake.core.contract.chains import ZERO_ADDRESS
from holderlake.core.contract.requests import MapOptions
from holderlake.core.contract.times import from_unix
from holderlake.engine.maps.batch import holder_batches, map_batches
from holderlake.engine.records import TRANSFERS
from holderlake.engine.store.store import Store


def warm() -> None:
    """Compile the numba functions that are missing in the compilation cache on disk."""
    token, ends = ("eth", "coin"), [(ZERO_ADDRESS, "a"), ("a", "b"), ("b", "c"), ("a", "c")]
    rows = [
        {
            "chain": token[0],
            "token_address": token[1],
            "token_standard": "erc20",
            "from_address": sender,
            "to_address": receiver,
            "value": str(10 - number),
            "block_number": number,
            "block_time": 86_400 * number,
            "log_index": 0,
            "time_kind": "exact",
            "log_index_kind": "exact",
            "source": "warm",
        }
        for number, (sender, receiver) in enumerate(ends, start=1)
    ]
    instants = [from_unix(86_400) + timedelta(hours=36 * number) for number in range(3)]
    with TemporaryDirectory() as folder, Store(Path(folder)) as store:
        store.add_transfers(pa.Table.from_pylist(rows, schema=TRANSFERS), "warm")
        list(map_batches(store, [token], instants, MapOptions()))
        list(holder_batches(store, [token], instants, 80, details=True))


if __name__ == "__main__":
    warm()
