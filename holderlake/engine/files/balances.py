"""Balances of a part by second, as a Parquet file. The engine reads it, and any DuckDB can query it.

A row is an interval: an address has a balance from the second ``since`` until the second ``until``, which is excluded.
So the balances as of a second are the rows whose interval contains it. A token's balances are the sums over its parts.

The rows are divided by ranges of addresses, a range is divided into slabs by ``since``, and a slab is sorted by
``until``. So a reader of one second or one address skips most row groups by their statistics.
"""

from __future__ import annotations

from pathlib import Path
from typing import Final

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

from holderlake.engine.files.arrays import mapped_file
from holderlake.engine.files.integrity import damaged
from holderlake.engine.numeric.bigint import Array, concatenated, fit_width, from_ints, resized

NO_END: Final = 2**62
"""``until`` of an interval without an end."""
BALANCES: Final = pa.schema(
    [
        pa.field("holder", pa.int32(), nullable=False),
        pa.field("address", pa.large_string(), nullable=False),
        pa.field("since", pa.int64(), nullable=False),
        pa.field("until", pa.int64(), nullable=False),
        pa.field("balance", pa.decimal128(38, 0)),
        pa.field("wide_balance", pa.string()),
        pa.field("is_base", pa.bool_(), nullable=False),
    ]
)
"""Columns of the file. ``holder`` is the number of ``address`` in the dictionary. ``since`` and ``until`` are unix
seconds. Balances are raw, and below zero where transfers are missing. ``wide_balance`` is the decimal text of a balance
of more than 36 digits, whose ``balance`` is null; so a thousand balances can be added as DECIMAL(38). ``is_base`` is
True in the file of the token's large part."""

_BATCH: Final = 65_536


class BalanceFile:
    """The balances of a part. ``path`` is the file's path within the folder ``root`` of the store."""

    def __init__(self, root: Path, path: str) -> None:
        self._root, self._path = root, path
        self.bytes = mapped_file(root / path)
        self._metadata = pq.read_metadata(self._source())
        groups = [self._metadata.row_group(number) for number in range(self._metadata.num_row_groups)]
        since, until, balance = (
            [group.column(BALANCES.get_field_index(name)).statistics for group in groups]
            for name in ("since", "until", "balance")
        )
        self._since = np.array([statistics.min for statistics in since], np.int64)
        self._until = np.array([statistics.max for statistics in until], np.int64)
        self._is_below = np.array([statistics.min is None or statistics.min < 0 for statistics in balance], np.bool_)
        self._compared: set[int] = set()  # row groups whose checksums were right, which takes a quarter of a read
        self._columns = ["holder", "since", "until", "balance"]
        if any(statistics.null_count for statistics in balance):
            self._columns.append("wide_balance")

    def at(self, seconds: Array, *, below_zero: bool = False) -> tuple[Array, Array, Array, Array]:
        """Return the intervals that contain one or more of the ascending unix ``seconds``, in any order.

        The columns are holders (address numbers), balances (limbs), and the indices of the first second in the interval
        and of the first one after it. With ``below_zero``, row groups without a balance below zero are left out.
        """
        is_read = (self._since <= seconds[-1]) & (self._until > seconds[0])
        groups = np.flatnonzero(is_read & self._is_below if below_zero else is_read).tolist()
        options = {"page_checksum_verification": not self._compared.issuperset(groups), "pre_buffer": False}
        nothing = np.empty(0, np.int32)
        pieces = [(nothing, np.empty((0, 1), np.uint64), nothing, nothing)]
        try:
            with pq.ParquetFile(self._source(), metadata=self._metadata, **options) as file:
                for batch in file.iter_batches(_BATCH, groups, self._columns, use_threads=False):
                    firsts, lasts = (_places(seconds, batch[name].to_numpy()) for name in ("since", "until"))
                    places = np.flatnonzero(firsts < lasts)
                    balances = _limbs(batch, places)
                    pieces.append((batch["holder"].to_numpy()[places], balances, firsts[places], lasts[places]))
        except (OSError, pa.ArrowException) as error:  # damaged on the disk, which keeps the signature
            raise damaged(self._root, self._path, f"can't be read ({error})") from error
        self._compared.update(groups)
        columns = list(zip(*pieces, strict=True))
        holders, firsts, lasts = (np.concatenate(columns[place]) for place in (0, 2, 3))
        return holders, concatenated(*columns[1]), firsts, lasts

    def _source(self) -> pa.BufferReader:
        return pa.BufferReader(pa.py_buffer(self.bytes))


def _places(seconds: Array, times: Array) -> Array:
    """Return for each of ``times`` the index of the first of ``seconds`` that is not before it."""
    # for one second, a comparison is ten times as fast as a search
    places = times > seconds[0] if len(seconds) == 1 else np.searchsorted(seconds, times)
    return np.asarray(places, np.int32)


def _limbs(batch: pa.RecordBatch, places: Array) -> Array:
    """Return the balances of the rows ``places`` as limbs of the smallest width, 1 or 2 where they are not wide."""
    decimals = batch["balance"]
    raw = np.frombuffer(decimals.buffers()[1], np.uint64).reshape(-1, 2)
    limbs: Array = raw[decimals.offset :].take(places, axis=0)
    if decimals.null_count:
        wide = np.flatnonzero(~decimals.is_valid().to_numpy(zero_copy_only=False)[places])
        limbs = resized(limbs, 5)
        limbs[wide] = from_ints(list(map(int, batch["wide_balance"].take(pa.array(places[wide])).to_pylist())), 5)
    fitting: Array = fit_width(limbs, 1) if limbs.shape[1] == 2 else limbs
    return fitting
