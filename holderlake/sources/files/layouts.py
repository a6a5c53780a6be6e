"""Layouts of transfer files, and a reader for each layout, which returns rows of ``engine.records.TRANSFERS``.

A file's columns show its layout, in Parquet, CSV and JSON. ``columns`` checks the values. Layouts that differ from ours
only in the names of columns are in ``presets``.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Sequence
from dataclasses import dataclass
from typing import Final

import pyarrow as pa
import pyarrow.compute as pc

from holderlake.core.contract.chains import NATIVE, ZERO_ADDRESS
from holderlake.engine.content_indexes import content_indexes
from holderlake.engine.records import NATIVE_LOG_INDEX, TRANSFERS
from holderlake.sources.files import columns
from holderlake.sources.files.event_logs import LOG_COLUMNS, decoded_logs
from holderlake.sources.formats import STANDARDS
from holderlake.sources.raw_rows import RawTable

DECIMALS: Final = "decimals"
"""Name of the column with the token's decimals, which a column map may set. With it, the file's amounts are in token
units."""
_COMMON: Final = frozenset({"from_address", "to_address", "block_number", "log_index"})
_NATIVE: Final = frozenset({"block_number", "from_address", "to_address"})
TIME_COLUMNS: Final = ("block_timestamp", "block_time", "timestamp", "blockTimestamp", "timeStamp")
NO_TIMES: Final = (
    "there is no time column, and a transfer needs a time; map one (--map block_time=COLUMN), or add a file of blocks "
    "with their times (--blocks FILE; ethereum-etl: export_blocks_and_transactions; cryo: cryo blocks)"
)


@dataclass(frozen=True)
class Layout:
    """A layout of files, and its reader.

    A file has the layout if it has all columns of ``needs`` and none of ``lacks``. ``read`` takes the file, and a chain
    for files without a chain column, and returns the transfers. ``format`` is the name for users, ``title`` a longer
    one for messages.
    """

    format: str
    title: str
    needs: frozenset[str]
    read: Callable[[RawTable, str | None], pa.Table]
    lacks: frozenset[str] = frozenset()
    decode: Callable[[RawTable], RawTable] | None = None
    """Function that converts the file's rows into rows for ``read``; None if this is not needed."""

    @property
    def is_evm(self) -> bool:
        """True if only EVM chains have files of this layout."""
        return self.format != "holderlake"

    def fits(self, names: Collection[str]) -> bool:
        """Return whether a file with these columns has this layout."""
        return self.needs <= set(names) and self.lacks.isdisjoint(names)


def read_holderlake(raw: RawTable, chain: str | None) -> pa.Table:
    """Return the transfers of a file in our own layout, of any chain. Optional columns may be absent."""
    rows, names = raw.table.num_rows, raw.columns
    chains = columns.chains(raw, chain)
    columns_by_name: dict[str, pa.Array] = {
        name: columns.texts(raw, name) for name in ("time_kind", "log_index_kind", "source") if name in names
    }
    if "tx_hash" in names:
        columns_by_name["tx_hash"] = columns.hashes(raw, "tx_hash", chains, optional=True)
    token = columns.addresses(raw, "token_address", chains, token=True)
    token_id = optional_ids(raw)
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
    return transfers_table(
        raw,
        chain=chains,
        token_address=token,
        from_address=columns.addresses(raw, "from_address", chains),
        to_address=columns.addresses(raw, "to_address", chains),
        value=columns.scaled_amounts(raw, "value", DECIMALS) if in_units else columns.amounts(raw, "value"),
        token_id=token_id,
        block_time=block_times(raw),
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


def _read_etl_transactions(raw: RawTable, chain: str | None) -> pa.Table:
    """Return the transactions that move the chain's coin as transfers.

    The export does not contain fees, nor amounts that contracts send.
    """
    if "receipt_status" not in raw.columns:
        raise raw.bad(
            "the column receipt_status is missing, which marks failed transactions; add two columns of ethereum-etl's "
            "receipts: status as receipt_status, and contract_address as receipt_contract_address"
        )
    is_done = pc.fill_null(pc.not_equal(columns.amounts(raw, "receipt_status", optional=True), "0"), True)
    index = pc.multiply(columns.counts(raw, "transaction_index"), NATIVE_LOG_INDEX)
    return _native_table(raw, chain, "hash", ("to_address", "receipt_contract_address"), index, is_done)


def _read_cryo_native(raw: RawTable, chain: str | None) -> pa.Table:
    """Return the transactions and calls that move the chain's coin as transfers.

    Failed transactions and calls are included, because the export does not mark them.
    """
    places = pa.table(
        {
            "block": columns.counts(raw, "block_number"),
            "transaction": columns.counts(raw, "transaction_index"),
            "transfer": columns.counts(raw, "transfer_index"),
        }
    )
    # transfer_index counts within the block; the first transfer of a transaction is its own value
    first_transfers = places.group_by(["block", "transaction"]).aggregate([("transfer", "min")])
    rows = pa.array(range(raw.table.num_rows), pa.int64())
    table = places.append_column("row", rows).join(first_transfers, ["block", "transaction"]).sort_by("row")
    place = pc.subtract(table["transfer"], table["transfer_min"])
    index = pc.add(pc.multiply(table["transaction"], NATIVE_LOG_INDEX), place).combine_chunks()
    return _native_table(raw, chain, "transaction_hash", ("to_address",), index, pa.repeat(True, len(rows)))


def _receivers(raw: RawTable, chains: pa.Array, names: Sequence[str]) -> pa.Array:
    """Return an address for each row: that of the first of the columns ``names`` in which the row has an address."""
    return pc.coalesce(*(columns.addresses(raw, name, chains, optional=True) for name in names if name in raw.columns))


def _native_table(
    raw: RawTable, chain: str | None, hash_column: str, receivers: Sequence[str], index: pa.Array, is_done: pa.Array
) -> pa.Table:
    """Return the rows with a value above zero as transfers of the chain's own coin.

    ``hash_column`` is the column of transaction hashes. ``receivers`` are the columns that may have the receiver; the
    first with an address counts. ``index`` has the computed ``log_index`` of each row. ``is_done`` is a mask of the
    successful rows.
    """
    rows = raw.table.num_rows
    chains = columns.chains(raw, chain)
    value = columns.amounts(raw, _exact_column(raw, "value"))
    receiver = _receivers(raw, chains, receivers)
    is_moved = pc.fill_null(pc.and_(is_done, pc.not_equal(value, "0")), True)
    row = columns.first_row(pc.and_(is_moved, pc.and_(pc.is_null(receiver), pc.invert(raw.problems.bad_rows(rows)))))
    if row is not None:
        raise raw.bad(
            "the receiver is empty, but the row creates a contract and sends it a value; write the contract's address",
            column="to_address",
            row=row,
        )
    return transfers_table(
        raw,
        is_transfer=is_moved,
        chain=chains,
        token_address=pa.repeat(NATIVE, rows),
        token_standard=pa.repeat("native", rows),
        from_address=columns.addresses(raw, "from_address", chains),
        to_address=pc.fill_null(receiver, ZERO_ADDRESS),
        value=value,
        token_id=pa.nulls(rows, pa.string()),
        block_time=block_times(raw),
        tx_hash=columns.hashes(raw, hash_column, chains),
        log_index=index,
        log_index_kind=pa.repeat("synthetic", rows),
    )


def _exact_column(raw: RawTable, name: str) -> str:
    """Return the column with exact values of the 256-bit number ``name``, among the columns that cryo writes for it."""
    exact = raw.first_of(f"{name}_string", f"{name}_binary", name)
    if exact is None:
        raise raw.bad(
            f"the file has only {name}_f64, and a floating-point number is not exact; export again with --u256-types "
            "binary string"
        )
    return exact


LAYOUTS: Final = (
    Layout(
        "holderlake",
        "holderlake",
        _COMMON | {"token_address", "token_standard", "value", "tx_hash"},
        read_holderlake,
    ),
    Layout("logs", "event logs (eth_getLogs)", LOG_COLUMNS, read_holderlake, decode=decoded_logs),
    Layout(
        "cryo",
        "cryo native_transfers",
        _NATIVE | {"transaction_index", "transfer_index", "transaction_hash"},
        _read_cryo_native,
    ),
    Layout(
        "ethereum-etl",
        "ethereum-etl transactions",
        _NATIVE | {"hash", "transaction_index", "value"},
        _read_etl_transactions,
    ),
    Layout(
        "holderlake",
        "holderlake",
        _NATIVE | {"token_address", "value"},
        read_holderlake,
        lacks=frozenset({"transaction_hash", "hash"}),
    ),
)
"""All layouts in the order of trial: a layout comes before another one that needs only some of its columns."""


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
