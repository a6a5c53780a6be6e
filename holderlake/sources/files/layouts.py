"""Rows of ``engine.records.TRANSFERS`` from files whose columns have our names. ``columns`` checks the values."""

from __future__ import annotations

from dataclasses import replace
from typing import Final

import pyarrow as pa
import pyarrow.compute as pc

from holderlake.core.contract.chains import NATIVE
from holderlake.engine.content_indexes import content_indexes
from holderlake.engine.records import NATIVE_LOG_INDEX, TRANSFERS
from holderlake.sources.files import columns
from holderlake.sources.formats import STANDARDS
from holderlake.sources.problems import Problems
from holderlake.sources.raw_rows import RawTable, rows_where

DECIMALS: Final = "decimals"
"""Name of the column with the token's decimals, which a column map may set. With it, the file's amounts are in token
units."""
TIME_COLUMNS: Final = ("block_timestamp", "block_time", "timestamp", "blockTimestamp", "timeStamp")
NO_TIMES: Final = (
    "there is no time column, and a transfer needs a time; map one (--map block_time=COLUMN), or add a file of blocks "
    "with their times (--blocks FILE; ethereum-etl: export_blocks_and_transactions; cryo: cryo blocks)"
)


def read_holderlake(raw: RawTable, chain: str | None) -> pa.Table:
    """Return the valid rows of a file with our columns as transfers, of any chain. Optional columns may be absent."""
    rows, names = raw.table.num_rows, raw.columns
    chains = columns.chains(raw, chain)
    columns_by_name: dict[str, pa.Array] = {
        name: columns.texts(raw, name) for name in ("time_kind", "log_index_kind", "source") if name in names
    }
    if "tx_hash" in names:
        columns_by_name["tx_hash"] = columns.hashes(raw, "tx_hash", chains, optional=True)
    token = columns.addresses(raw, "token_address", chains, token=True)
    token_id = _optional_ids(raw)
    if "token_standard" in names:
        columns_by_name["token_standard"] = columns.choices(raw, "token_standard", STANDARDS, blank="erc20")
        # exports have an id, mostly 0 or 1, for fungible tokens too, which has no meaning
        has_id = pc.is_in(columns_by_name["token_standard"], pa.array(["erc721", "erc1155"]))
        token_id = pc.if_else(has_id, token_id, pa.scalar(None, pa.string()))
    else:
        _refuse_items(raw, token_id)
        token_id = pa.nulls(rows, pa.string())
    standard = columns_by_name.get("token_standard", pa.repeat("erc20", rows))
    columns_by_name["token_standard"] = pc.if_else(pc.fill_null(pc.equal(token, NATIVE), False), "native", standard)
    in_units = DECIMALS in names
    return _transfers_table(
        raw,
        chain=chains,
        token_address=token,
        from_address=columns.addresses(raw, "from_address", chains),
        to_address=columns.addresses(raw, "to_address", chains),
        value=columns.scaled_amounts(raw, "value", DECIMALS) if in_units else columns.amounts(raw, "value"),
        token_id=token_id,
        block_time=_block_times(raw),
        **({"tx_hash": pa.nulls(rows, pa.string())} | columns_by_name),
    )


def _refuse_items(raw: RawTable, token_id: pa.Array) -> None:
    """Raise ``BadSource`` if a file without token standards has ids of items. Fungible tokens have the id 0 or 1."""
    is_item = pc.and_(pc.is_valid(token_id), pc.invert(pc.is_in(token_id, pa.array(["0", "1"]))))
    row = columns.first_row(is_item)
    if row is not None:
        raise raw.bad(
            f"{token_id[row]} is the id of an item, but the file has no token standard; map it (--map token_standard="
            "COLUMN), or set --set token_standard=erc721, or erc1155 for items of several pieces",
            column="token_id",
            row=row,
        )


def with_log_indexes(raw: RawTable) -> RawTable:
    """Return the rows of a file of the chain's own coin that move a value, with computed log indexes.

    The rows are transactions, or with a ``transfer_index``, which counts within the block, also calls.
    """
    scratch = replace(raw, problems=Problems())  # invalid values stay, and are problems of the transfers
    transactions = columns.counts(scratch, "transaction_index")
    index = pc.multiply(transactions, NATIVE_LOG_INDEX)
    if "transfer_index" in raw.columns:
        rows = pa.array(range(raw.table.num_rows), pa.int64())
        blocks, transfers = (columns.counts(scratch, name) for name in ("block_number", "transfer_index"))
        places = pa.table([blocks, transactions, transfers, rows], ["block", "transaction", "transfer", "row"])
        # the first transfer of a transaction is its own value
        first_transfers = places.group_by(["block", "transaction"]).aggregate([("transfer", "min")])
        joined = places.join(first_transfers, ["block", "transaction"]).sort_by("row")
        index = pc.add(index, pc.subtract(joined["transfer"], joined["transfer_min"]).combine_chunks())
    receivers = raw.table["to_address"]
    if "receipt_contract_address" in raw.columns:
        is_creation = pc.fill_null(pc.equal(pc.utf8_trim_whitespace(receivers), ""), True)
        receivers = pc.if_else(is_creation, raw.table["receipt_contract_address"], receivers)
    place = raw.columns.index("to_address")
    table = raw.table.set_column(place, "to_address", receivers).append_column("log_index", index)
    is_moved = pc.fill_null(pc.not_equal(columns.amounts(scratch, "value"), "0"), True)
    moved = rows_where(raw.over(table), is_moved)
    texts = moved.table["to_address"].to_pylist()
    row = next((row for row, text in enumerate(texts) if not text), None)
    if row is not None:
        raise moved.bad(
            "the receiver is empty, but the row creates a contract and sends it a value; write the contract's address",
            column="to_address",
            row=row,
        )
    return moved


def _transfers_table(raw: RawTable, **columns_by_name: pa.Array) -> pa.Table:
    """Return the valid rows as transfers. ``columns_by_name`` has the columns of ``TRANSFERS`` by name."""
    rows = raw.table.num_rows
    defaults = {"time_kind": "exact", "log_index_kind": "exact", "source": raw.path.name}
    columns_by_name = {name: pa.repeat(value, rows) for name, value in defaults.items()} | columns_by_name
    for name in ("block_number", "log_index"):
        if name not in columns_by_name and (name == "block_number" or name in raw.columns):
            columns_by_name[name] = columns.counts(raw, name)
    _check_items(raw, columns_by_name)
    if "log_index" not in columns_by_name:
        columns_by_name["log_index"] = content_indexes(columns_by_name)
        columns_by_name["log_index_kind"] = pa.repeat("synthetic", rows)
    table = pa.table([columns_by_name[name] for name in TRANSFERS.names], schema=TRANSFERS)
    return table.filter(pc.invert(raw.problems.bad_rows(rows))) if raw.problems.reasons else table


def _check_items(raw: RawTable, columns_by_name: dict[str, pa.Array]) -> None:
    """Add a problem for NFT transfers without a ``token_id``, and for ERC-721 transfers with a value other than 1."""
    standard = columns_by_name["token_standard"]
    if isinstance(standard, pa.ChunkedArray):
        standard = standard.combine_chunks()
    nft = pc.fill_null(pc.equal(standard, "erc721"), False)
    is_item = pc.or_(nft, pc.fill_null(pc.equal(standard, "erc1155"), False))
    unnamed = pc.and_(is_item, pc.is_null(columns_by_name["token_id"]))
    _note(raw, unnamed, "token_id", "an erc721 or erc1155 transfer needs a token_id, which is missing; add it")
    several = pc.and_(nft, pc.fill_null(pc.not_equal(columns_by_name["value"], "1"), False))
    _note(raw, several, "value", "the value of an erc721 transfer is always 1; put the item's number into token_id")


def _note(raw: RawTable, rows: pa.Array, column: str, reason: str) -> None:
    if columns.first_row(rows) is not None:
        raw.problems.add(column, pc.if_else(rows, reason, pa.scalar(None, pa.string())))


def _optional_ids(raw: RawTable) -> pa.Array:
    """Return the column ``token_id`` as decimal text; null in rows without a token id."""
    if "token_id" not in raw.columns:
        return pa.nulls(raw.table.num_rows, pa.string())
    return columns.amounts(raw, "token_id", optional=True)


def _block_times(raw: RawTable) -> pa.Array:
    """Return unix seconds from the file's first time column. Raises ``BadSource`` if it has none."""
    name = raw.first_of(*TIME_COLUMNS)
    if name is None:
        raise raw.bad(NO_TIMES)
    return columns.times(raw, name)
