"""Check opening balances: the balances of a token's addresses at the block at which its imported transfers begin.

Opening balances are stored as mints without a transaction. All opening balances of a token are as of one block and
time. They may be imported in several files if the files do not contradict each other. ``importing`` stores the
balances.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Final

import pyarrow as pa
import pyarrow.compute as pc

from holderlake.core.contract.chains import NATIVE, ZERO_ADDRESS
from holderlake.core.contract.times import from_unix
from holderlake.engine.errors import BadSource
from holderlake.engine.files.listing import PartFile
from holderlake.engine.records import TRANSFERS, schema_of

NO_BLOCK: Final = -1
"""``block_number`` of opening balances that have a time but no block."""

OPENING_BALANCES: Final = schema_of(
    "chain VARCHAR, token_address VARCHAR, address VARCHAR, balance VARCHAR, block_number BIGINT, "
    "block_time BIGINT, token_id VARCHAR?, token_standard VARCHAR?"
)
"""Columns of a table with one opening balance per row.

- Addresses are normalised (``contract.chains``).
- ``balance`` is a raw integer, 0 or more, as decimal text (up to 256 bits).
- A balance is as of the end of the block. If the block is ``NO_BLOCK``, it is as of the end of the unix second
  ``block_time``.
- ``token_id`` (decimal text) is set if the balances of an NFT are listed for each token id.
- ``token_id`` and ``token_standard`` may be missing or null.
"""


@dataclass(frozen=True)
class NewBalances:
    """The opening balances of a token (``key``: chain and address) in one import.

    ``balances`` are those that are not stored yet, as rows of ``TRANSFERS``. ``duplicates`` is the number of balances
    that are repeated or already stored.
    """

    key: tuple[str, str]
    balances: pa.Table
    duplicates: int


def balances_by_token(balances: pa.Table) -> Iterator[tuple[tuple[str, str], pa.Table]]:
    """Yield each token (chain, address) with its rows of ``balances``, which have the schema ``OPENING_BALANCES``.

    Raises ``BadSource`` for a balance that is not a whole number from 0 on.
    """
    for name in ("token_id", "token_standard"):
        if name not in balances.column_names:
            balances = balances.append_column(name, pa.nulls(balances.num_rows, pa.string()))
    rows = balances.select(OPENING_BALANCES.names).cast(OPENING_BALANCES)
    if rows.num_rows and not pc.all(pc.match_substring_regex(rows["balance"], r"^[0-9]{1,78}$")).as_py():
        wrong = rows.filter(pc.invert(pc.match_substring_regex(rows["balance"], r"^[0-9]{1,78}$"))).to_pylist()[0]
        raise BadSource(
            f"the opening balance {wrong['balance']!r} of {wrong['address']} is not a whole number from 0 on; write "
            "raw integers of at most 78 digits without a sign"
        )
    keys = rows.select(["chain", "token_address"]).group_by(["chain", "token_address"]).aggregate([])
    for chain, address in sorted(zip(keys["chain"].to_pylist(), keys["token_address"].to_pylist(), strict=True)):
        mine = pc.and_(pc.equal(rows["chain"], chain), pc.equal(rows["token_address"], address))
        yield (chain, address), rows.filter(mine)


def new_balances(key: tuple[str, str], rows: pa.Table, stored_rows: pa.Table) -> NewBalances:
    """Return the opening balances of a token that are not stored yet.

    ``rows`` are the given balances (``OPENING_BALANCES``), ``stored_rows`` those in the store (``TRANSFERS``).
    Raises ``BadSource`` if rows contradict each other or stored rows.
    """
    given_rows, known_rows = _as_transfers(key, rows), stored_rows.select(TRANSFERS.names)
    all_rows = pa.concat_tables([known_rows, given_rows])
    token = f"{key[1]} on {key[0]}"
    _refuse_two_instants(token, all_rows)
    _refuse_two_values(token, all_rows)
    _refuse_two_owners(token, all_rows)
    distinct = given_rows.group_by(["to_address", "token_id"], use_threads=False).aggregate([("value", "min")])
    new_rows = distinct.filter(_is_new(distinct, known_rows))
    first_row = given_rows.slice(0, 1).drop_columns(["to_address", "token_id", "value"])
    columns = {name: pa.repeat(first_row[name][0], new_rows.num_rows) for name in first_row.column_names}
    columns |= {"to_address": new_rows["to_address"], "token_id": new_rows["token_id"], "value": new_rows["value_min"]}
    fresh = pa.table([columns[name] for name in TRANSFERS.names], TRANSFERS)
    return NewBalances(key, fresh, rows.num_rows - new_rows.num_rows)


def refuse_overlap(key: tuple[str, str], openings: list[PartFile], transfers: list[PartFile]) -> None:
    """Raise ``BadSource`` if a token has transfers at or before the instant of its opening balances.

    Such transfers would count twice. ``openings`` and ``transfers`` are the token's parts of the two kinds.
    """
    if not openings or not transfers:
        return
    block, second = openings[0].last_block, openings[0].last_time
    first_block, first_time = min(part.first_block for part in transfers), min(part.first_time for part in transfers)
    if first_block <= block if block != NO_BLOCK else first_time <= second:
        opening = f"block {block}" if block != NO_BLOCK else f"{from_unix(second)} UTC"
        first_instant = f"block {first_block}" if block != NO_BLOCK else f"{from_unix(first_time)} UTC"
        raise BadSource(
            f"opening balances of {key[1]} on {key[0]} are as of {opening}, but there are transfers from "
            f"{first_instant}, which would count twice; import only later transfers, or remove the balances: "
            f"holderlake delete balances {key[0]} {key[1]} --yes"
        )


def _as_transfers(key: tuple[str, str], rows: pa.Table) -> pa.Table:
    """Return rows of ``OPENING_BALANCES`` as rows of ``TRANSFERS``: mints from the zero address."""
    count = rows.num_rows
    digits = pc.utf8_ltrim(rows["balance"], characters="0")
    assumed = "native" if key[1] == NATIVE else "erc20" if rows["token_id"].null_count == count else "erc1155"
    constants = {
        "from_address": ZERO_ADDRESS,
        "time_kind": "exact",
        "log_index_kind": "opening",
        "source": "opening balances",
    }
    columns = {name: pa.repeat(value, count) for name, value in constants.items()} | {
        "chain": rows["chain"],
        "token_address": rows["token_address"],
        "token_standard": pc.fill_null(rows["token_standard"], assumed),
        "to_address": rows["address"],
        "value": pc.if_else(pc.equal(digits, ""), "0", digits),
        "token_id": rows["token_id"],
        "block_number": rows["block_number"],
        "block_time": rows["block_time"],
        "tx_hash": pa.nulls(count, pa.string()),
        "log_index": pa.repeat(pa.scalar(-1, pa.int64()), count),
    }
    return pa.table([columns[name] for name in TRANSFERS.names], TRANSFERS)


def _refuse_two_instants(token: str, rows: pa.Table) -> None:
    for name, noun in (
        ("block_number", "blocks"),
        ("block_time", "times (unix seconds)"),
        ("token_standard", "token standards"),
    ):
        values = sorted(pc.unique(rows[name]).to_pylist())
        if len(values) > 1:
            raise BadSource(
                f"opening balances of {token} have different {noun}, for example {values[0]} and {values[1]}; give "
                f"one list, as of one block. To replace a stored list, first remove it: {_remove_command(rows)}"
            )
    if 0 < rows["token_id"].null_count < rows.num_rows:
        raise BadSource(
            f"{rows['token_id'].null_count} of {rows.num_rows} opening balances of {token} have no token_id; give it "
            "in all rows or in none"
        )


def _refuse_two_values(token: str, rows: pa.Table) -> None:
    extremes = rows.group_by(["to_address", "token_id"]).aggregate([("value", "min"), ("value", "max")])
    wrong = extremes.filter(pc.not_equal(extremes["value_min"], extremes["value_max"]))
    if wrong.num_rows:
        address, item, low, high = (wrong[name][0].as_py() for name in wrong.column_names)
        suffix = "" if item is None else f" of item {item}"
        raise BadSource(
            f"there are two opening balances{suffix} of {address} for {token}, {low} and {high}; give each address one "
            f"balance. To replace a stored list, first remove it: {_remove_command(rows)}"
        )


def _remove_command(rows: pa.Table) -> str:
    chain, address = (rows[name][0].as_py() for name in ("chain", "token_address"))
    return f"holderlake delete balances {chain} {address} --yes"


def _refuse_two_owners(token: str, rows: pa.Table) -> None:
    """Raise ``BadSource`` if a token id of an ERC-721 token has several owners, or a quantity other than 1."""
    items = rows.filter(pc.and_(pc.equal(rows["token_standard"], "erc721"), pc.is_valid(rows["token_id"])))
    items = items.filter(pc.not_equal(items["value"], "0"))
    owners = items.group_by("token_id").aggregate([("to_address", "count_distinct"), ("value", "max")])
    wrong = owners.filter(
        pc.or_(pc.greater(owners["to_address_count_distinct"], 1), pc.not_equal(owners["value_max"], "1"))
    )
    if wrong.num_rows:
        item = wrong["token_id"][0].as_py()
        raise BadSource(
            f"token_id {item} of {token} is held more than once; an ERC-721 item has one owner, so give it one row "
            "with balance 1"
        )


def _is_new(given_rows: pa.Table, known_rows: pa.Table) -> pa.Array:
    """Return a mask of the rows of ``given_rows`` whose pair of address and token id is not in ``known_rows``."""

    def keys(rows: pa.Table) -> pa.ChunkedArray:
        return pc.binary_join_element_wise(rows["to_address"], pc.fill_null(rows["token_id"], ""), " ")

    return pc.invert(pc.is_in(keys(given_rows), pc.unique(keys(known_rows))))
