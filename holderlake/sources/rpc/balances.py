"""Read the balances of tokens by ``balanceOf`` at chosen instants, and store what differs as corrections.

The holders are all addresses with stored transfers or opening balances until then. ``catalog.corrections`` describes
what is stored.
"""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final

import numpy as np
import pyarrow as pa

from holderlake.core.contract.chains import NATIVE, ZERO_ADDRESS
from holderlake.core.contract.times import from_unix
from holderlake.engine.catalog.corrections import Instant, correction_rows
from holderlake.engine.errors import BadSource
from holderlake.engine.files.listing import CORRECTION
from holderlake.engine.files.transfer_arrays import changes_of
from holderlake.engine.numeric.bigint import digits_to_ints
from holderlake.engine.records import Key
from holderlake.engine.store.store import Store
from holderlake.sources.rpc.causes import FAILURES, Contract
from holderlake.sources.rpc.messages import number
from holderlake.sources.rpc.node import Node, first_block_from
from holderlake.sources.rpc.reading import parts

_BATCHES: Final = 20
"""Number of batches of calls between two looks at their results."""


@dataclass(frozen=True)
class BalancesRead:
    """Balances of a token that were read after ``block``, at the unix second ``second``.

    ``holders`` is their number, ``corrected`` how many differed from the stored transfers. ``unread`` is the number of
    addresses without an answer. ``unlisted`` is the part of the supply, in raw integers, that is held by addresses
    without transfers; None if the contract reports no supply.
    """

    token: str
    block: int
    second: int
    holders: int
    corrected: int
    unread: int
    unlisted: int | None


async def read_balances(
    store: Store, node: Node, chain: str, tokens: Sequence[str], seconds: Sequence[int], last_block: int
) -> list[BalancesRead]:
    """Read the balances of ERC-20 ``tokens`` at the end of the unix ``seconds``, and store corrections.

    Instants of earlier readings that are later than the first of ``seconds`` are read again. ``last_block`` is the last
    imported block. Raises ``RpcError``, and ``BadSource`` for an instant that is not imported, for tokens of other
    standards, and for a node that keeps no state of the instant.
    """
    instants = [await _instant_of(node, second, last_block) for second in sorted(set(seconds))]
    readings: list[BalancesRead] = []
    for token in tokens:
        readings += await _of_token(store, node, (chain, token), instants)
    return readings


async def _instant_of(node: Node, second: int, last_block: int) -> Instant:
    """Return the last block until the end of a second, with its time."""
    head = await node.head()
    block = await first_block_from(node, second + 1, head) - 1
    if block < 0:
        raise BadSource(f"the chain has no block until {from_unix(second)} UTC; name a later time with --balances-at")
    headers = await node.headers(sorted({block, head}))
    if block > last_block or number(headers[head].timestamp) < second:
        raise BadSource(
            f"the blocks until {from_unix(second)} UTC are not all imported: block {last_block:,} is the last one; "
            "name an earlier time with --balances-at, or import more blocks"
        )
    return Instant(block, number(headers[block].timestamp))


async def _of_token(store: Store, node: Node, key: Key, new_instants: Sequence[Instant]) -> list[BalancesRead]:
    token = store.token(*key)
    if key[1] == NATIVE or (token is not None and token.standard != "erc20"):
        raise BadSource(f"balances of {key[1]} can't be read with --balances-at: only those of ERC-20 tokens can")
    first_instant = new_instants[0]
    stored_rows = store.corrections(*key)
    blocks, times = stored_rows["block_number"].to_pylist(), stored_rows["block_time"].to_pylist()
    later_instants = {Instant(*pair) for pair in zip(blocks, times, strict=True) if pair[0] >= first_instant.block}
    basis = store.view().listing.parts_of(key)
    changes: dict[str, int] = {}
    tables: list[pa.Table] = []
    readings: list[BalancesRead] = []
    for instant in sorted(later_instants.union(new_instants), key=lambda instant: instant.block):
        sums = _sums_until(store, key, instant.second, first_instant.second)
        reading, differences = await _read(Contract(store, node, *key), sums, changes, instant)
        readings.append(reading)
        tables.append(correction_rows(key, instant, differences))
        for address, difference in differences.items():
            changes[address] = changes.get(address, 0) + difference
    if tables:
        store.replace_corrections(key, first_instant.block, pa.concat_tables(tables), basis)
    return readings


async def _read(
    contract: Contract, sums: dict[str, int], changes: dict[str, int], instant: Instant
) -> tuple[BalancesRead, dict[str, int]]:
    """Return the reading at an instant, and the differences from ``sums`` plus the earlier ``changes``."""
    holders = [address for address in sums if address != ZERO_ADDRESS]
    balances: list[int | None] = []
    supply = None
    try:
        (supply,) = await contract.state([None], instant.block)
        for group in parts(holders, contract.batch * _BATCHES):
            answers = (contract.state(batch, instant.block) for batch in parts(group, contract.batch))
            balances += [balance for batch in await asyncio.gather(*answers) for balance in batch]
    except FAILURES as error:
        if await contract.keeps_state(instant.block):
            raise
        raise _no_state(contract.token, instant) from error
    if None in balances and not await contract.keeps_state(instant.block):
        raise _no_state(contract.token, instant)
    pairs = zip(holders, balances, strict=True)
    differences = {
        address: balance - sums[address] - changes.get(address, 0) for address, balance in pairs if balance is not None
    }
    reading = BalancesRead(
        contract.token,
        instant.block,
        instant.second,
        len(holders),
        sum(difference != 0 for difference in differences.values()),
        balances.count(None),
        None if supply is None else supply - sum(balance or 0 for balance in balances),
    )
    return reading, differences


def _no_state(token: str, instant: Instant) -> BadSource:
    return BadSource(
        f"the node keeps no state of block {instant.block:,}, so the balances of {token} at that time can't be read; "
        "use an archive node"
    )


def _sums_until(store: Store, key: Key, second: int, first_correction: int) -> dict[str, int]:
    """Return the sum of transfers, opening balances, and corrections before the second ``first_correction``, by
    address, until the end of ``second``."""
    view = store.view()
    numbers, digits = [np.zeros(0, np.int64)], []
    for file, part in zip(view.listing.parts_of(key), view.parts(key), strict=True):
        last_second = min(second, first_correction - 1) if file.kind == CORRECTION else second
        earlier_moves = part.moves.at(slice(np.searchsorted(part.moves.times, last_second, side="right")))
        places, changes = changes_of(earlier_moves)
        distinct, inverse = np.unique(places, return_inverse=True)
        sums = np.zeros((len(distinct), changes.shape[1]), np.int64)
        np.add.at(sums, inverse, changes)
        numbers.append(distinct)
        digits += digits_to_ints(sums)
    totals: dict[int, int] = {}
    for address, change in zip(np.concatenate(numbers).tolist(), digits, strict=True):
        totals[address] = totals.get(address, 0) + change
    addresses = np.array(sorted(totals), np.int64)
    return dict(zip(view.dictionary.texts(addresses), (totals[place] for place in addresses.tolist()), strict=True))
