"""Balances of a part by second as a Parquet file, which any DuckDB can query without the engine.

A row is an interval: an address has a balance from the second ``since`` until the second ``until``, which is excluded.
So the balances as of a second are the rows whose interval contains it. A token's balances are the sums over its parts.

The rows are divided by ranges of addresses. Within a range they are sorted as in an interval tree: by the size of the
smallest block of 2^n seconds that contains the interval, then by block. So a reader of one second or one address skips
most row groups by their statistics.
"""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any, Final

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

from holderlake.engine.files.dictionary import Dictionary
from holderlake.engine.files.parts import Moves, Part, changes_of
from holderlake.engine.importing.budget import Budget
from holderlake.engine.importing.part_writer import intervals_of
from holderlake.engine.importing.spill import ArrayBuckets, Columns, Sample
from holderlake.engine.numeric.bigint import Array, resized, to_ints

NO_END: Final = 2**62
"""``until`` of an interval without an end."""
BALANCES: Final = pa.schema(
    [
        pa.field("address", pa.large_string(), nullable=False),
        pa.field("since", pa.int64(), nullable=False),
        pa.field("until", pa.int64(), nullable=False),
        pa.field("balance", pa.decimal128(38, 0)),
        pa.field("wide_balance", pa.string()),
        pa.field("is_base", pa.bool_(), nullable=False),
    ]
)
"""Columns of the file. ``since`` and ``until`` are unix seconds. Balances are raw, and below zero where transfers are
missing. ``wide_balance`` is the decimal text of a balance of more than 36 digits, whose ``balance`` is null; so a
thousand balances can be added as DECIMAL(38). ``is_base`` is True in the file of the token's large part."""

_ROW_GROUP: Final = 8_192
_OPTIONS: Final[dict[str, Any]] = {
    "compression": "zstd",
    "use_dictionary": ["is_base"],
    "column_encoding": dict.fromkeys(("since", "until"), "DELTA_BINARY_PACKED"),  # DuckDB reads it twice as fast
    "write_page_checksum": True,
    "store_schema": False,
}
_NARROW: Final = 10**36 >> 64
"""The first value of the upper limb of a 128-bit number that may have more than 36 digits."""


def write_balances(
    path: Path, part: Part, dictionary: Dictionary, spool: Path, budget: Budget, *, is_base: bool
) -> None:
    """Write the balances of ``part`` as a Parquet file with the columns ``BALANCES``.

    ``dictionary`` has the addresses. Rows beyond the budget are spilled to the folder ``spool``.
    """
    changes = _changes_by_address(part.moves, dictionary, spool, budget)
    with pq.ParquetWriter(path, BALANCES, **_OPTIONS) as writer:
        for number in changes.numbers():
            rows = _rows(changes.take(number), dictionary, is_base)
            if rows.num_rows:
                writer.write_table(rows, row_group_size=_ROW_GROUP)


def _changes_by_address(moves: Moves, dictionary: Dictionary, spool: Path, budget: Budget) -> ArrayBuckets:
    """Return the changes of balances (address number, second, digits) in buckets by ranges of addresses."""
    heads = Sample()
    for batch in _batches(moves, budget):
        step = 1 + len(moves) // 2**16
        heads.add(dictionary.heads(np.concatenate([batch.senders[::step], batch.receivers[::step]])))
    rows = budget.chunk * 8 // moves.values.shape[1]  # a long range has fewer row groups that a second needs in part
    cuts = heads.cuts(-(-2 * len(moves) // rows))
    changes = ArrayBuckets(spool, budget.waiting)
    for batch in _batches(moves, budget):
        addresses, digits = changes_of(batch)
        seconds = batch.times[batch.senders != batch.receivers]
        ranges = np.searchsorted(cuts, dictionary.heads(addresses), side="right")
        changes.distribute(ranges, (addresses, np.concatenate([seconds, seconds]), digits))
    return changes


def _batches(moves: Moves, budget: Budget) -> Iterator[Moves]:
    size = budget.chunk // 2
    return (moves.at(slice(start, start + size)) for start in range(0, len(moves), size))


def _rows(changes: Columns, dictionary: Dictionary, is_base: bool) -> pa.Table:
    """Return the intervals that follow from balance changes, as rows of the file."""
    no_end = np.iinfo(changes[1].dtype).max
    holders, balances, since, until = intervals_of(*changes, no_end=no_end)
    since, until = since.astype(np.int64), until.astype(np.int64)
    until[until == no_end] = NO_END
    order = _tree_order(since, until)
    decimals, texts = _balances(balances[order])
    columns = (
        dictionary.text_array(holders[order]),
        pa.array(since[order]),
        pa.array(until[order]),
        decimals,
        texts,
        pa.repeat(is_base, len(order)),
    )
    return pa.table(columns, BALANCES)


def _tree_order(since: Array, until: Array) -> Array:
    """Return the indices that sort intervals by the size of their smallest block of 2^n seconds, then by the block.

    Within a block, the intervals that end first come first, because most questions are about a late second.
    """
    sizes = np.frexp((since ^ (until - 1)).astype(np.float64))[1].astype(np.int64)
    order: Array = np.lexsort((since, until, since >> sizes, sizes))
    return order


def _balances(limbs: Array) -> tuple[pa.Array, pa.Array]:
    """Return the columns ``balance`` and ``wide_balance`` of numbers."""
    low = np.ascontiguousarray(resized(limbs, 2))
    upper = low[:, 1].view(np.int64)
    is_wide = (upper >= _NARROW) | (upper < -_NARROW)
    if limbs.shape[1] > 2:
        is_wide |= (resized(low, limbs.shape[1]) != limbs).any(axis=1)
    wide = np.flatnonzero(is_wide)
    texts = np.full(len(limbs), None, object)
    texts[wide] = list(map(str, to_ints(limbs[wide])))
    low[wide] = 0
    decimals = pa.Array.from_buffers(pa.decimal128(38, 0), len(low), [None, pa.py_buffer(low)])
    if len(wide):
        decimals = pc.if_else(pa.array(is_wide), pa.scalar(None, decimals.type), decimals)
    return decimals, pa.array(texts, pa.string())
