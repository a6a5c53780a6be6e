"""Write the balances of a part (``files.balances``), by ranges of addresses of limited size."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any, Final

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

from holderlake.core.storage.atomic_files import whole_file
from holderlake.engine.files.balances import BALANCES, NO_END
from holderlake.engine.files.dictionary import Dictionary
from holderlake.engine.files.transfer_arrays import Moves, changes_of
from holderlake.engine.importing.budget import Budget
from holderlake.engine.importing.spill import ArrayBuckets, Columns, Sample
from holderlake.engine.numeric.bigint import Array, from_digits, resized, to_ints

_ROW_GROUP: Final = 8_192
_COMPRESSED: Final = ("address", "wide_balance", "is_base")
_OPTIONS: Final[dict[str, Any]] = {
    # the columns that an answer reads are not compressed, which saves a third of its time
    "compression": {name: "zstd" if name in _COMPRESSED else "none" for name in BALANCES.names},
    "use_dictionary": ["is_base"],
    "column_encoding": dict.fromkeys(("since", "until"), "DELTA_BINARY_PACKED"),  # DuckDB reads it twice as fast
    "write_page_checksum": True,
    "store_schema": False,
}
_NARROW: Final = 10**36 >> 64
"""The first value of the upper limb of a 128-bit number that may have more than 36 digits."""


def write_balances(
    path: Path, moves: Moves, dictionary: Dictionary, spool: Path, budget: Budget, *, is_base: bool
) -> None:
    """Write the balances that follow from ``moves`` as a Parquet file with the columns ``BALANCES``.

    ``dictionary`` has the addresses. Rows beyond the budget are spilled to the folder ``spool``.
    """
    changes = _changes_by_address(moves, dictionary, spool, budget)
    with whole_file(path) as building, pq.ParquetWriter(building, BALANCES, **_OPTIONS) as writer:
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
    # a long range has fewer row groups that a second needs in part
    rows = max(budget.memory // 4_096 // moves.values.shape[1], 16)
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
    holders, balances, since, until = _intervals_of(*changes, no_end=no_end)
    since, until = since.astype(np.int64), until.astype(np.int64)
    until[until == no_end] = NO_END
    order = _order(since, until)
    decimals, texts = _balances(balances[order])
    columns = (
        pa.array(holders[order]),
        dictionary.text_array(holders[order]),
        pa.array(since[order]),
        pa.array(until[order]),
        decimals,
        texts,
        pa.repeat(is_base, len(order)),
    )
    return pa.table(columns, BALANCES)


def _intervals_of(addresses: Array, instants: Array, digits: Array, *, no_end: int) -> Columns:
    """Return the intervals that follow from balance changes, sorted by holder and instant.

    ``instants`` are days or unix seconds, ``digits`` signed digits. The columns are holders, balances (limbs), first
    instants and ends; the end of an interval without an end is ``no_end``.
    """
    if not len(addresses):
        return addresses, np.empty((0, digits.shape[1] // 2), np.uint64), instants, instants
    if instants.dtype.itemsize < 8:
        order = np.argsort((addresses.astype(np.int64) << 32) | instants)
    else:
        order = np.lexsort((instants, addresses))
    addresses, instants = addresses[order], instants[order]
    totals = np.cumsum(digits[order], axis=0)
    is_last_of_address = np.concatenate([addresses[1:] != addresses[:-1], [True]])
    is_last_of_instant = np.concatenate([instants[1:] != instants[:-1], [True]]) | is_last_of_address
    ends = np.flatnonzero(is_last_of_instant)
    # the running total before each address
    address_ends = np.flatnonzero(is_last_of_address)
    totals_before = np.concatenate([np.zeros((1, digits.shape[1]), np.int64), totals[address_ends[:-1]]])
    balances = from_digits(totals[ends] - totals_before[np.searchsorted(address_ends, ends)])
    first_instants = instants[ends]
    end_instants = np.concatenate([first_instants[1:], first_instants[:1]])
    end_instants[is_last_of_address[ends]] = no_end
    nonzero = np.flatnonzero(balances.any(axis=1))
    return addresses[ends][nonzero], balances[nonzero], first_instants[nonzero], end_instants[nonzero]


def _order(since: Array, until: Array) -> Array:
    """Return the indices that sort intervals into slabs of about equal size by ``since``, and within a slab by
    ``until``. There are as many slabs as a slab has row groups, so a second needs a few row groups of each slab."""
    slabs = int(np.ceil(np.sqrt(len(since) / _ROW_GROUP)))
    order = np.argsort(since, kind="stable")
    order = order[np.lexsort((until[order], np.arange(len(order)) * slabs // max(len(order), 1)))]
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
