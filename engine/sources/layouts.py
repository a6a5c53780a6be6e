"""The layouts of transfer files that are understood, each turned into rows of ``engine.records.TRANSFERS``.

A layout is recognised by its columns alone, whether they come from Parquet or CSV. Reading bytes belongs to ``raw``,
checking values to ``columns``.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Final

import pyarrow as pa
import pyarrow.compute as pc

from contract.chains import NATIVE, ZERO_ADDRESS
from engine.records import TRANSFERS
from engine.sources import columns
from engine.sources.raw import RawTable

_TIME_COLUMNS: Final = ("block_timestamp", "block_time", "timestamp")
_STANDARDS: Final = {"erc20": "erc20", "erc721": "erc721", "erc1155": "erc1155", "native": "native"}
_COMMON: Final = frozenset({"from_address", "to_address", "block_number", "log_index"})
_EVM: Final = _COMMON | {"transaction_hash"}
_NATIVE: Final = frozenset({"block_number", "from_address", "to_address"})
PLACES: Final = 1 << 20
"""A value has no log index, so it gets this number times its transaction's place, plus its call's place in there."""


@dataclass(frozen=True)
class Layout:
    """A layout: the format it belongs to, the columns it is known by, and the reader of its rows."""

    format: str
    title: str
    needs: frozenset[str]
    read: Callable[[RawTable, str | None], pa.Table]


def _read_holderlake(raw: RawTable, chain: str | None) -> pa.Table:
    rows = raw.table.num_rows
    return _table(
        raw,
        chain=columns.chains(raw, chain),
        token_address=columns.addresses(raw, "token_address", evm=False),
        token_standard=columns.choices(raw, "token_standard", _STANDARDS),
        from_address=columns.addresses(raw, "from_address", evm=False),
        to_address=columns.addresses(raw, "to_address", evm=False),
        value=columns.amounts(raw, "value"),
        token_id=_optional_ids(raw),
        block_time=_times(raw),
        tx_hash=columns.hashes(raw, "tx_hash", optional=True),
        **{
            name: columns.texts(raw, name) if name in raw.columns else pa.repeat(default, rows)
            for name, default in (("time_kind", "exact"), ("log_index_kind", "exact"), ("source", raw.path.name))
        },
    )


def _read_etl(raw: RawTable, chain: str | None) -> pa.Table:
    # this layout has no token kind and writes an item's id as its value, so an ERC-721 token reads as ERC-20
    return _evm_table(raw, chain, "token_address", value=columns.amounts(raw, "value"))


def _read_etl_typed(raw: RawTable, chain: str | None) -> pa.Table:
    standard = columns.choices(raw, "token_type", _STANDARDS)
    # exports fill token_id with 1 for fungible tokens, where it means nothing
    has_id = pc.is_in(standard, pa.array(["erc721", "erc1155"]))
    token_id = pc.if_else(has_id, _optional_ids(raw), pa.scalar(None, pa.string()))
    value = columns.amounts(raw, "amount")
    return _evm_table(raw, chain, "contract_address", token_standard=standard, value=value, token_id=token_id)


def _read_cryo_erc20(raw: RawTable, chain: str | None) -> pa.Table:
    return _evm_table(raw, chain, "erc20", value=columns.amounts(raw, _exact_column(raw, "value")))


def _read_cryo_erc721(raw: RawTable, chain: str | None) -> pa.Table:
    rows = raw.table.num_rows
    return _evm_table(
        raw,
        chain,
        # cryo up to 0.3 calls the token's column erc20 in its erc721 export too
        raw.first_of("erc721", "erc20") or "erc721",
        token_standard=pa.repeat("erc721", rows),
        value=pa.repeat("1", rows),
        token_id=columns.amounts(raw, _exact_column(raw, "token_id")),
    )


def _read_etl_transactions(raw: RawTable, chain: str | None) -> pa.Table:
    """Values of transactions. What contracts move, and what is paid as fees, this export does not hold."""
    if "receipt_status" not in raw.columns:
        raise raw.bad(
            "without a column receipt_status the transactions that failed can't be told, which move nothing; join "
            "status (as receipt_status) and contract_address (as receipt_contract_address) of ethereum-etl's receipts"
        )
    receiver = _addresses_of_either(raw, "to_address", "receipt_contract_address")
    is_done = pc.fill_null(pc.not_equal(columns.amounts(raw, "receipt_status", optional=True), "0"), True)
    index = pc.multiply(columns.counts(raw, "transaction_index"), PLACES)
    return _native_table(raw, chain, "hash", receiver, index, is_done)


def _read_cryo_native(raw: RawTable, chain: str | None) -> pa.Table:
    """Values of transactions and calls, failed ones among them: this export does not say which they are."""
    places = pa.table(
        {
            "block": columns.counts(raw, "block_number"),
            "transaction": columns.counts(raw, "transaction_index"),
            "transfer": columns.counts(raw, "transfer_index"),
        }
    )
    # transfers are counted through the block; the first of a transaction is its own value
    first = places.group_by(["block", "transaction"]).aggregate([("transfer", "min")])
    rows = pa.array(range(raw.table.num_rows), pa.int64())
    joined = places.append_column("row", rows).join(first, ["block", "transaction"]).sort_by("row")
    place = pc.subtract(joined["transfer"], joined["transfer_min"])
    index = pc.add(pc.multiply(joined["transaction"], PLACES), place).combine_chunks()
    receiver = columns.addresses(raw, "to_address", evm=True, optional=True)
    return _native_table(raw, chain, "transaction_hash", receiver, index, pa.repeat(True, len(rows)))


def _addresses_of_either(raw: RawTable, name: str, other: str) -> pa.Array:
    found = columns.addresses(raw, name, evm=True, optional=True)
    if other not in raw.columns:
        return found
    return pc.coalesce(found, columns.addresses(raw, other, evm=True, optional=True))


def _native_table(
    raw: RawTable, chain: str | None, hash_column: str, receiver: pa.Array, index: pa.Array, is_done: pa.Array
) -> pa.Table:
    """The rows that moved something of the chain's coin. ``log_index`` is made, as the node's reader makes it."""
    rows = raw.table.num_rows
    value = columns.amounts(raw, _exact_column(raw, "value"))
    is_moved = pc.and_(is_done, pc.not_equal(value, "0"))
    row = columns.first_row(pc.and_(is_moved, pc.is_null(receiver)))
    if row is not None:
        raise raw.bad("a value goes to a new contract whose address is missing", column="to_address", row=row)
    table = _table(
        raw,
        chain=columns.chains(raw, chain),
        token_address=pa.repeat(NATIVE, rows),
        token_standard=pa.repeat("native", rows),
        from_address=columns.addresses(raw, "from_address", evm=True),
        to_address=pc.fill_null(receiver, ZERO_ADDRESS),
        value=value,
        token_id=pa.nulls(rows, pa.string()),
        block_time=_times(raw),
        tx_hash=columns.hashes(raw, hash_column),
        log_index=index,
        time_kind=pa.repeat("exact", rows),
        log_index_kind=pa.repeat("synthetic", rows),
        source=pa.repeat(raw.path.name, rows),
    )
    return table.filter(is_moved)


def _exact_column(raw: RawTable, name: str) -> str:
    """cryo writes a 256-bit number in several columns, of which the floating-point one is not exact."""
    exact = raw.first_of(f"{name}_string", f"{name}_binary", name)
    if exact is None:
        raise raw.bad(
            f"only {name}_f64 is there, and a floating-point number is not exact; "
            "export again with --u256-types binary string"
        )
    return exact


def _evm_table(raw: RawTable, chain: str | None, token_column: str, **given: pa.Array) -> pa.Table:
    rows = raw.table.num_rows
    return _table(
        raw,
        chain=columns.chains(raw, chain),
        token_address=columns.addresses(raw, token_column, evm=True),
        from_address=columns.addresses(raw, "from_address", evm=True),
        to_address=columns.addresses(raw, "to_address", evm=True),
        block_time=_times(raw),
        tx_hash=columns.hashes(raw, "transaction_hash"),
        time_kind=pa.repeat("exact", rows),
        log_index_kind=pa.repeat("exact", rows),
        source=pa.repeat(raw.path.name, rows),
        **{"token_standard": pa.repeat("erc20", rows), "token_id": pa.nulls(rows, pa.string()), **given},
    )


def _table(raw: RawTable, **given: pa.Array) -> pa.Table:
    given["block_number"] = columns.counts(raw, "block_number")
    if "log_index" not in given:
        given["log_index"] = columns.counts(raw, "log_index")
    table = pa.table([given[name] for name in TRANSFERS.names], schema=TRANSFERS)
    _check_items(raw, table)
    return table


def _check_items(raw: RawTable, table: pa.Table) -> None:
    """An item (ERC-721) moves alone and is named; so is the kind of item that ERC-1155 moves."""
    standard = table["token_standard"].combine_chunks()
    nft = pc.equal(standard, "erc721")
    unnamed = pc.and_(pc.or_(nft, pc.equal(standard, "erc1155")), pc.is_null(table["token_id"].combine_chunks()))
    row = columns.first_row(unnamed)
    if row is not None:
        raise raw.bad(f"a token_id is missing, which {standard[row]} needs; fill it in", column="token_id", row=row)
    row = columns.first_row(pc.and_(nft, pc.not_equal(table["value"].combine_chunks(), "1")))
    if row is not None:
        raise raw.bad("an erc721 transfer moves exactly 1; put the item's number into token_id", row=row)


def _optional_ids(raw: RawTable) -> pa.Array:
    if "token_id" not in raw.columns:
        return pa.nulls(raw.table.num_rows, pa.string())
    return columns.amounts(raw, "token_id", optional=True)


def _times(raw: RawTable) -> pa.Array:
    name = raw.first_of(*_TIME_COLUMNS)
    if name is None:
        raise raw.bad(
            "there is no time column, and a transfer needs a time; join the blocks' timestamps on block_number "
            "into a column block_timestamp (ethereum-etl: export_blocks_and_transactions; cryo: cryo blocks)"
        )
    return columns.times(raw, name)


LAYOUTS: Final = (
    Layout(
        "holderlake",
        "holderlake",
        _COMMON | {"token_address", "token_standard", "value", "tx_hash"},
        _read_holderlake,
    ),
    Layout(
        "ethereum-etl",
        "ethereum-etl with token types",
        _EVM | {"contract_address", "token_type", "amount"},
        _read_etl_typed,
    ),
    Layout("ethereum-etl", "ethereum-etl token_transfers", _EVM | {"token_address", "value"}, _read_etl),
    Layout("cryo", "cryo erc721_transfers", _EVM | {"erc721"}, _read_cryo_erc721),
    *(
        Layout("cryo", "cryo erc721_transfers", _EVM | {"erc20", name}, _read_cryo_erc721)
        for name in ("token_id", "token_id_binary", "token_id_string", "token_id_f64")
    ),
    Layout("cryo", "cryo erc20_transfers", _EVM | {"erc20"}, _read_cryo_erc20),
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
)
"""In the order in which they are tried; those with more columns stand before those they contain."""
