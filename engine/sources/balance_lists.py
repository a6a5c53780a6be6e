"""Balance lists: what addresses hold of a token at a block or time, as the opening balances of a windowed history."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Final

import pyarrow as pa
import pyarrow.compute as pc

from contract.addresses import parse_address, parse_addresses, parse_token
from engine.errors import BadSource
from engine.openings import NO_BLOCK, OPENINGS
from engine.sources import columns
from engine.sources.raw import RawTable, read_raw

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
"""Our columns, and the other names under which they are recognised, whatever their case."""

_STANDARDS: Final = {name: name for name in ("erc20", "erc721", "erc1155", "native")}


@dataclass(frozen=True)
class BalanceOptions:
    """What a list does not say: constants for all its rows, the file's names of our columns, and blocks' times."""

    chain: str | None = None
    token: str | None = None
    standard: str | None = None
    block: int | None = None
    at: int | None = None
    names: Mapping[str, str] = field(default_factory=dict)
    block_times: Mapping[int, int] = field(default_factory=dict)


def read_balances(path: Path, options: BalanceOptions) -> pa.Table:
    """Return the file's balances in the schema ``openings.OPENINGS``, in the file's order.

    Without a ``balance`` column each row is one item of ``token_id``. Raises ``BadSource`` for the whole file at the
    first value that can't be used.
    """
    raw = _named(read_raw(path), options.names)
    rows = raw.table.num_rows
    chains = _filled(raw, "chain", options.chain, "--chain eth")
    blocks, times = _instants(raw, options)
    token_ids = columns.amounts(raw, "token_id", optional=True) if "token_id" in raw.columns else pa.nulls(rows)
    found = {
        "chain": chains,
        "token_address": _addresses(raw, "token_address", chains, options.token),
        "address": _addresses(raw, "address", chains, None),
        "balance": _balances(raw, token_ids),
        "block_number": blocks,
        "block_time": times,
        "token_id": token_ids,
        "token_standard": _standards(raw, options.standard),
    }
    return pa.table(
        [pa.chunked_array([found[name]]).cast(OPENINGS.field(name).type) for name in OPENINGS.names], OPENINGS
    )


def parse_names(pairs: list[str]) -> dict[str, str]:
    """Return our columns and the file's, of texts ``ours=theirs``. Raises ``BadSource`` for another text or column."""
    found = {}
    for pair in pairs:
        own, equals, theirs = (part.strip() for part in pair.partition("="))
        if not equals or not theirs or own not in _NAMES:
            raise BadSource(f"{pair!r} does not name a column; write such as balance=amount, of {', '.join(_NAMES)}")
        found[own] = theirs
    return found


def _named(raw: RawTable, names: Mapping[str, str]) -> RawTable:
    """The file with our names for the columns that are chosen or recognised, and no others."""
    by_name = {name.lower(): name for name in reversed(raw.columns)}
    found = {}
    for own, others in _NAMES.items():
        if own in names:
            if names[own] not in raw.columns:
                listed = ", ".join(raw.columns)
                raise raw.bad(f"{own} is mapped to column {names[own]}, which is not there; there are {listed}")
            found[own] = names[own]
        else:
            theirs = next((by_name[name.lower()] for name in (own, *others) if name.lower() in by_name), None)
            if theirs is not None and theirs not in names.values():
                found[own] = theirs
    return RawTable(raw.path, pa.table({own: raw.table.column(theirs) for own, theirs in found.items()}))


def _filled(raw: RawTable, name: str, constant: str | None, example: str) -> pa.Array:
    if name in raw.columns and constant is None:
        return columns.texts(raw, name)
    if constant is None:
        raise raw.bad(f"there is no column {name}; name it by {example} or --map {name}=COLUMN")
    if name in raw.columns:
        other = pc.filter(columns.texts(raw, name), pc.not_equal(columns.texts(raw, name), constant))
        if len(other):
            raise raw.bad(f"{name} is {constant} by the option and {other[0]} in the file; leave the option out")
    return pa.repeat(constant, raw.table.num_rows)


def _addresses(raw: RawTable, name: str, chains: pa.Array, constant: str | None) -> pa.Array:
    """Checked addresses in their one spelling, of a column or a constant."""
    if name not in raw.columns and constant is None:
        hint = f"--token ADDRESS or --map {name}=COLUMN" if name == "token_address" else f"--map {name}=COLUMN"
        raise raw.bad(f"there is no column {name}; name it by {hint}. There are {', '.join(raw.columns)}")
    given = pa.repeat(constant, raw.table.num_rows) if constant else raw.table.column(name).combine_chunks()
    found = pa.nulls(len(given), pa.string())
    for chain in pc.unique(chains).to_pylist():
        mine = pc.equal(chains, chain)
        encoded = pc.filter(given, mine).dictionary_encode()
        texts = encoded.dictionary
        parsed = (
            pa.array([_token(chain, text) for text in texts.to_pylist()])
            if name == "token_address"
            else (parse_addresses(chain, texts))
        )
        found = pc.replace_with_mask(found, mine, parsed.cast(pa.string()).take(encoded.indices))
    row = columns.first_row(pc.is_null(found))
    if row is not None:
        _refuse_address(raw, name, row, chains[row].as_py(), given[row].as_py())
    return found


def _token(chain: str, text: str | bytes | None) -> str | None:
    try:
        return parse_token(chain, text) if isinstance(text, str) else parse_address(chain, text or "")
    except ValueError:
        return None


def _refuse_address(raw: RawTable, name: str, row: int, chain: str, value: str | bytes | None) -> None:
    try:
        parse_address(chain, value or "")
    except ValueError as error:
        raise raw.bad(str(error), column=name, row=row) from None
    raise raw.bad(f"{value!r} is not an address of chain {chain}", column=name, row=row)


def _balances(raw: RawTable, token_ids: pa.Array) -> pa.Array:
    if "balance" in raw.columns:
        return columns.amounts(raw, "balance")
    if token_ids.null_count == len(token_ids):
        raise raw.bad(f"there is no column balance; --map balance=COLUMN. There are {', '.join(raw.columns)}")
    return pa.repeat("1", len(token_ids))


def _instants(raw: RawTable, options: BalanceOptions) -> tuple[pa.Array, pa.Array]:
    """Blocks (``NO_BLOCK`` where only the time is given) and times of the rows."""
    rows = raw.table.num_rows
    blocks = columns.counts(raw, "block_number") if "block_number" in raw.columns else pa.repeat(NO_BLOCK, rows)
    if options.block is not None:
        blocks = pa.repeat(options.block, rows)
    if options.at is not None:
        return blocks, pa.repeat(options.at, rows)
    if "block_time" in raw.columns:
        return blocks, columns.times(raw, "block_time")
    seconds = [options.block_times.get(block) for block in blocks.to_pylist()]
    if None in seconds:
        block = blocks[seconds.index(None)].as_py()
        of = "the balances" if block == NO_BLOCK else f"block {block}"
        raise raw.bad(f"the time of {of} is not known; give it by --at, a column block_time, or --blocks FILE")
    return blocks, pa.array(seconds, pa.int64())


def _standards(raw: RawTable, constant: str | None) -> pa.Array:
    if constant is not None and constant not in _STANDARDS:
        raise BadSource(f"{constant!r} is no token standard; write one of {', '.join(_STANDARDS)}")
    if constant is not None or "token_standard" not in raw.columns:
        return pa.repeat(pa.scalar(constant, pa.string()), raw.table.num_rows)
    return columns.choices(raw, "token_standard", _STANDARDS)
