"""Computed log indexes of transfers from sources without log indexes.

The index is a hash of the addresses and the value, plus the number of equal transfers before it in its transaction.
So a transfer has the same index in every file, at any place of the file.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Final

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from holderlake.engine.numeric.bigint import Array
from holderlake.engine.numeric.hashing import digests

_HASH_BITS: Final = 40
_REPEATS: Final = 1 << 12
"""Number of indexes after each hash for equal transfers of a transaction."""
_MOST_REPEATS: Final = 1 << 24


def content_indexes(columns_by_name: Mapping[str, pa.Array]) -> pa.Array:
    """Return a computed ``log_index`` for each row of a file without log indexes, from the row's content.

    ``columns_by_name`` has the columns of ``TRANSFERS``. Files may overlap and split a block, and a transaction
    of one file may repeat a transfer. The index is below 2^53, so that every program reads it exactly.

    Items of ERC-721 have their position among the transfers of the item in the block, because their order gives the
    owner.
    """
    bases = pa.array(_bases(columns_by_name))
    is_item = _are_items(columns_by_name)
    key_columns = [columns_by_name[name] for name in ("chain", "token_address", "token_id", "block_number")]
    transaction = pc.if_else(is_item, pa.scalar(None, pa.string()), columns_by_name["tx_hash"])
    sender, receiver = (
        pc.if_else(is_item, pa.scalar(None, pa.string()), columns_by_name[name])
        for name in ("from_address", "to_address")
    )
    return pc.add(bases, _places_among_equals([*key_columns, transaction, sender, receiver, bases]))


def content_places(rows: pa.Table) -> Array:
    """Return the number of equal transfers before each row, as its computed ``log_index`` says; -1 for other indexes.

    ``rows`` have the columns of ``TRANSFERS``. The number of an ERC-721 item is 0.
    """
    is_synthetic = pc.equal(rows["log_index_kind"].cast(pa.string()), "synthetic").to_numpy()
    if not is_synthetic.any():
        return np.full(rows.num_rows, -1)
    columns = {name: rows[name].combine_chunks() for name in ("from_address", "to_address", "value")}
    columns["token_standard"] = rows["token_standard"].cast(pa.string()).combine_chunks()
    places = rows["log_index"].to_numpy() - _bases(columns)
    is_item = _are_items(columns).to_numpy(zero_copy_only=False)
    is_computed = is_synthetic & (places >= 0) & (places < _MOST_REPEATS)
    return np.where(is_computed, np.where(is_item, 0, places), -1)


def _are_items(columns_by_name: Mapping[str, pa.Array]) -> pa.Array:
    return pc.fill_null(pc.equal(columns_by_name["token_standard"], "erc721"), False)


def _bases(columns_by_name: Mapping[str, pa.Array]) -> Array:
    """Return the first index of each row's content."""
    ends = [pc.fill_null(columns_by_name[name], "") for name in ("from_address", "to_address", "value")]
    hashes = digests(pc.binary_join_element_wise(*ends, "/")) >> np.uint64(64 - _HASH_BITS)
    is_item = _are_items(columns_by_name).to_numpy(zero_copy_only=False)
    bases: Array = np.where(is_item, 0, hashes.astype(np.int64) * _REPEATS)
    return bases


def _places_among_equals(columns: Sequence[pa.Array]) -> pa.Array:
    """Return the position of each row, from 0, among the rows that are equal in all columns, in the file's order."""
    group = np.zeros(len(columns[0]), np.int64)
    for column in columns:
        codes = pc.fill_null(column.dictionary_encode().indices, -1).to_numpy(zero_copy_only=False).astype(np.int64)
        group = np.unique(group * (codes.max(initial=0) + 2) + codes + 1, return_inverse=True)[1]
    order = np.argsort(group, kind="stable")
    ordered = group[order]
    begins = np.concatenate([[True], ordered[1:] != ordered[:-1]]) if len(order) else np.zeros(0, bool)
    group_starts = np.maximum.accumulate(np.where(begins, np.arange(len(order)), 0))
    places = np.empty(len(order), np.int64)
    places[order] = np.arange(len(order)) - group_starts
    return pa.array(places)
