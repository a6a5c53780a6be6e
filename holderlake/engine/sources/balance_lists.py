"""Read balance lists: files with the balances of a token as of a block or a time.

The balances are stored as opening balances (``engine.catalog.opening_balances``).
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Final

import pyarrow as pa

from holderlake.engine.catalog.opening_balances import NO_BLOCK, OPENING_BALANCES
from holderlake.engine.errors import BadSource
from holderlake.engine.sources.files import columns
from holderlake.engine.sources.rows.problems import bad_source
from holderlake.engine.sources.rows.raw import RawTable, read_raw
from holderlake.engine.sources.rows.rejected import rejected_rows

_NAMES: Final[Mapping[str, tuple[str, ...]]] = {
    "chain": (),
    "token_address": ("token", "contract_address"),
    "address": ("holder", "owner", "wallet", "account", "holderaddress", "holder_address", "owner_address"),
    "balance": ("amount", "value", "quantity", "balance_raw", "raw_balance", "amount_raw"),
    "block_number": ("block", "blockNumber", "number"),
    "block_time": ("block_timestamp", "timestamp", "time"),
    "token_id": ("tokenid", "item"),
    "token_standard": ("standard",),
}
"""Our columns, and the other names under which a file may have each column. Upper and lower case are equal."""

_STANDARDS: Final = {name: name for name in ("erc20", "erc721", "erc1155", "native")}


@dataclass(frozen=True)
class BalanceOptions:
    """Values that a balance list lacks, from the command line.

    ``chain``, ``token``, ``standard``, ``block`` and ``at`` (unix seconds) apply to all rows. ``names`` is a dictionary
    from our column names to those of the file. ``block_times`` has the unix second of each block, by number.
    """

    chain: str | None = None
    token: str | None = None
    standard: str | None = None
    block: int | None = None
    at: int | None = None
    names: Mapping[str, str] = field(default_factory=dict)
    block_times: Mapping[int, int] = field(default_factory=dict)


def read_balances(path: Path, options: BalanceOptions) -> pa.Table:
    """Return the balances of a file in the schema ``opening_balances.OPENING_BALANCES``, in the file's order.

    If the file has no column ``balance``, each row is one item with its ``token_id``, and the balance is 1. Raises
    ``BadSource`` if any value is invalid.
    """
    raw = _named(read_raw(path), options)
    rows = raw.table.num_rows
    chains = columns.chains(raw, options.chain)
    blocks, times = _instants(raw, options)
    token_ids = columns.amounts(raw, "token_id", optional=True) if "token_id" in raw.columns else pa.nulls(rows)
    found = {
        "chain": chains,
        "token_address": columns.addresses(raw, "token_address", chains, token=True),
        "address": columns.addresses(raw, "address", chains),
        "balance": _balances(raw, token_ids),
        "block_number": blocks,
        "block_time": times,
        "token_id": token_ids,
        "token_standard": _standards(raw, options.standard),
    }
    _refuse_bad_rows(raw)
    arrays = [
        pa.chunked_array([found[name]]).cast(OPENING_BALANCES.field(name).type) for name in OPENING_BALANCES.names
    ]
    return pa.table(arrays, OPENING_BALANCES)


def parse_names(pairs: list[str]) -> dict[str, str]:
    """Parse texts ``OURS=THEIRS`` into a dictionary. Its keys are our column names, its values the file's column names.

    Raises ``BadSource`` for other texts.
    """
    found = {}
    for pair in pairs:
        own, equals, theirs = (part.strip() for part in pair.partition("="))
        if not equals or not theirs or own not in _NAMES:
            raise BadSource(
                f"invalid column map {pair!r}; write OURS=THEIRS, for example balance=amount. Our columns are "
                f"{', '.join(_NAMES)}"
            )
        found[own] = theirs
    return found


def _named(raw: RawTable, options: BalanceOptions) -> RawTable:
    """Return the file with our column names. Columns that are neither mapped nor recognised are left out."""
    names, by_name = options.names, {name.lower(): name for name in reversed(raw.columns)}
    found = {}
    for own, others in _NAMES.items():
        if own in names:
            if names[own] not in raw.columns:
                listed = ", ".join(raw.columns)
                raise raw.bad(
                    f"{own} is mapped to {names[own]}, which is not a column of the file; the file has {listed}"
                )
            found[own] = names[own]
        else:
            theirs = next((by_name[name.lower()] for name in (own, *others) if name.lower() in by_name), None)
            if theirs is not None and theirs not in names.values():
                found[own] = theirs
    table = pa.table({own: raw.table.column(theirs) for own, theirs in found.items()})
    if options.token is not None:
        given = pa.repeat(options.token, table.num_rows)
        names_kept = [name for name in table.column_names if name != "token_address"]
        table = table.select(names_kept).append_column("token_address", given)
    for own, hint in (
        ("token_address", "--token ADDRESS or --map token_address=COLUMN"),
        ("address", "--map address=COLUMN"),
    ):
        if own not in table.column_names:
            raise raw.bad(f"there is no column {own}; set it with {hint}. The file has {', '.join(raw.columns)}")
    return raw.over(table)


def _refuse_bad_rows(raw: RawTable) -> None:
    """Raise ``BadSource`` with the first invalid value and the number of bad rows, if there are any."""
    rejected = rejected_rows(raw)
    if rejected is not None:
        first = rejected.rows[0]
        count = f"{len(rejected.rows):,} of {rejected.of_rows:,} rows cannot be read, so nothing was imported"
        raise bad_source(raw.path, f"{first.reason} ({count})", column=first.column, row=first.number)


def _balances(raw: RawTable, token_ids: pa.Array) -> pa.Array:
    if "balance" in raw.columns:
        return columns.amounts(raw, "balance")
    if token_ids.null_count == len(token_ids):
        columns_seen = ", ".join(raw.columns)
        raise raw.bad(f"there is no column balance; set it with --map balance=COLUMN. The file has {columns_seen}")
    return pa.repeat("1", len(token_ids))


def _instants(raw: RawTable, options: BalanceOptions) -> tuple[pa.Array, pa.Array]:
    """Return two columns for the rows: the block (``NO_BLOCK`` if unknown), and the unix second."""
    rows = raw.table.num_rows
    blocks = columns.counts(raw, "block_number") if "block_number" in raw.columns else pa.repeat(NO_BLOCK, rows)
    if options.block is not None:
        blocks = pa.repeat(options.block, rows)
    if options.at is not None:
        return blocks, pa.repeat(options.at, rows)
    if "block_time" in raw.columns:
        return blocks, columns.times(raw, "block_time")
    _refuse_bad_rows(raw)
    seconds = [options.block_times.get(block) for block in blocks.to_pylist()]
    if None in seconds:
        block = blocks[seconds.index(None)].as_py()
        of = "the balances" if block == NO_BLOCK else f"block {block}"
        raise raw.bad(f"the time of {of} is not known; set it with --at, a column block_time, or --blocks FILE")
    return blocks, pa.array(seconds, pa.int64())


def _standards(raw: RawTable, constant: str | None) -> pa.Array:
    if constant is not None and constant not in _STANDARDS:
        raise BadSource(f"{constant!r} is not a token standard; write one of {', '.join(_STANDARDS)}")
    if constant is not None or "token_standard" not in raw.columns:
        return pa.repeat(pa.scalar(constant, pa.string()), raw.table.num_rows)
    return columns.choices(raw, "token_standard", _STANDARDS)
