"""Build rows of ``engine.records.TRANSFERS`` from checked columns, without the invalid rows."""

from __future__ import annotations

from typing import Final

import pyarrow as pa
import pyarrow.compute as pc

from holderlake.engine.content_indexes import content_indexes
from holderlake.engine.records import TRANSFERS
from holderlake.engine.sources.files import columns
from holderlake.engine.sources.rows.raw import RawTable

TIME_COLUMNS: Final = ("block_timestamp", "block_time", "timestamp", "blockTimestamp", "timeStamp")
NO_TIMES: Final = (
    "there is no time column, and a transfer needs a time; map one (--map block_time=COLUMN), or add a file of blocks "
    "with their times (--blocks FILE; ethereum-etl: export_blocks_and_transactions; cryo: cryo blocks)"
)


def evm_table(raw: RawTable, chain: str | None, token_column: str, **columns_by_name: pa.Array) -> pa.Table:
    """Return the rows as transfers of an EVM chain, from the columns that most exports have in common.

    ``chain`` is the chain of all rows if the file has no chain column. ``token_column`` is the name of the column with
    the token's address. ``columns_by_name`` has further columns of ``TRANSFERS``.
    """
    rows = raw.table.num_rows
    chains = columns.chains(raw, chain)
    return transfers_table(
        raw,
        chain=chains,
        token_address=columns.addresses(raw, token_column, chains),
        from_address=columns.addresses(raw, "from_address", chains),
        to_address=columns.addresses(raw, "to_address", chains),
        block_time=block_times(raw),
        tx_hash=columns.hashes(raw, "transaction_hash", chains),
        **{"token_standard": pa.repeat("erc20", rows), "token_id": pa.nulls(rows, pa.string()), **columns_by_name},
    )


def transfers_table(raw: RawTable, *, is_transfer: pa.Array | None = None, **columns_by_name: pa.Array) -> pa.Table:
    """Return the valid rows as transfers. ``columns_by_name`` has the columns of ``TRANSFERS`` by name.

    ``is_transfer`` is a mask of the rows that are transfers; None keeps all rows.
    """
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
    if raw.problems.reasons:
        is_good = pc.invert(raw.problems.bad_rows(rows))
        is_transfer = is_good if is_transfer is None else pc.and_(is_transfer, is_good)
    return table if is_transfer is None else table.filter(is_transfer)


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


def optional_ids(raw: RawTable) -> pa.Array:
    """Return the column ``token_id`` as decimal text; null in rows without a token id."""
    if "token_id" not in raw.columns:
        return pa.nulls(raw.table.num_rows, pa.string())
    return columns.amounts(raw, "token_id", optional=True)


def block_times(raw: RawTable) -> pa.Array:
    """Return unix seconds from the file's first time column. Raises ``BadSource`` if it has none."""
    name = raw.first_of(*TIME_COLUMNS)
    if name is None:
        raise raw.bad(NO_TIMES)
    return columns.times(raw, name)
