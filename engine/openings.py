"""Opening balances: what addresses hold where a windowed history begins. They are kept as mints that nobody made.

How they are stored is ``importing``'s work.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Final

import pyarrow as pa
import pyarrow.compute as pc

from contract.chains import NATIVE, ZERO_ADDRESS
from engine.errors import BadSource
from engine.importing.change import Change
from engine.manifest import OPENING
from engine.records import TRANSFERS

OPENINGS: Final = pa.schema(
    [
        pa.field("chain", pa.string(), nullable=False),
        pa.field("token_address", pa.string(), nullable=False),
        pa.field("address", pa.string(), nullable=False),
        pa.field("balance", pa.string(), nullable=False),
        pa.field("block_number", pa.int64(), nullable=False),
        pa.field("block_time", pa.int64(), nullable=False),
    ]
)
"""A balance a row: addresses normalised, ``balance`` a raw integer from 0 as decimal text (up to 256 bits), as it was
at the end of the block; ``block_time`` unix seconds UTC."""


@dataclass(frozen=True)
class Openings:
    """Opening balances of a token: those that are new, as rows of ``TRANSFERS``, and how the others were judged."""

    key: tuple[str, str]
    new: pa.Table
    duplicates: int
    conflicts: int


def new_openings(change: Change, balances: pa.Table) -> Iterator[Openings]:
    """The opening balances token by token, told apart from those that are stored. Raises ``BadSource``."""
    rows = balances.select(OPENINGS.names).cast(OPENINGS)
    if rows.num_rows and not pc.all(pc.match_substring_regex(rows["balance"], r"^[0-9]{1,78}$")).as_py():
        raise BadSource("an opening balance is no whole number from 0; write raw integers without a sign")
    keys = rows.select(["chain", "token_address"]).group_by(["chain", "token_address"]).aggregate([])
    for chain, address in sorted(zip(keys["chain"].to_pylist(), keys["token_address"].to_pylist(), strict=True)):
        mine = pc.and_(pc.equal(rows["chain"], chain), pc.equal(rows["token_address"], address))
        yield _judged(change, (chain, address), rows.filter(mine))


def _judged(change: Change, key: tuple[str, str], rows: pa.Table) -> Openings:
    known = change.opening_rows(key)
    stored = dict(zip(known["to_address"].to_pylist(), known["value"].to_pylist(), strict=True))
    new: dict[str, dict[str, object]] = {}
    duplicates = conflicts = 0
    for row in rows.to_pylist():
        address, balance = row["address"], str(int(row["balance"]))
        if address in stored:
            duplicates += stored[address] == balance
            conflicts += stored[address] != balance
            continue
        stored[address] = balance
        new[address] = _mint(row, balance)
    _refuse_overlap(change, key, rows)
    return Openings(key, pa.Table.from_pylist(list(new.values()), TRANSFERS), duplicates, conflicts)


def _refuse_overlap(change: Change, key: tuple[str, str], rows: pa.Table) -> None:
    first = min(
        (part.first_block for part in change.manifest.parts_of(key) if part.kind != OPENING and part.transfers),
        default=None,
    )
    last = pc.max(rows["block_number"]).as_py()
    if first is not None and first <= last:
        raise BadSource(
            f"opening balances of {key[1]} on {key[0]} are of block {last}, but transfers from block {first} on are "
            "stored, which would count twice; give the balances of a block before the first transfer"
        )


def _mint(row: dict[str, object], balance: str) -> dict[str, object]:
    return {
        "chain": row["chain"],
        "token_address": row["token_address"],
        "token_standard": "native" if row["token_address"] == NATIVE else "erc20",
        "from_address": ZERO_ADDRESS,
        "to_address": row["address"],
        "value": balance,
        "token_id": None,
        "block_number": row["block_number"],
        "block_time": row["block_time"],
        "tx_hash": None,
        "log_index": -1,
        "time_kind": "exact",
        "log_index_kind": "opening",
        "source": "opening balances",
    }
