"""The holders of a token as of any second, by rank: the largest, or all of them page by page."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from datetime import datetime
from typing import Final

import pyarrow as pa

from contract.tables import TABLES
from contract.times import to_unix
from engine.addresses import (
    AddressFacts,
    activity,
    address_facts,
    detail_columns,
    facts_of,
    kinds_of_addresses,
    labelled_ones,
)
from engine.balances import (
    Balances,
    held_as_of,
    largest_balances,
    listed,
    mappable_token,
    nobody_holds,
)
from engine.manifest import View
from engine.records import Rules, TokenInfo
from engine.store import Store
from engine.tables import Columns, column, repeated, table_of

HOLDERS_PAGE: Final = TABLES["holders"].engine_schema.append(
    column("amount_raw", pa.string(), "What it holds as a raw integer, exact")
)
"""The lake's ``holders`` without ``fetched_at``, and the raw amount."""


@dataclass(frozen=True)
class HolderPosition:
    """Where a page of holders ended: its last holder's raw balance, address and rank."""

    balance: int
    address: str
    rank: int


def holders_as_of(
    store: Store, chain: str, token_address: str, as_of: datetime, limit: int, details: bool = False
) -> pa.Table:
    """The lake's ``holders`` rows: the ``limit`` largest, with address details or nulls in their place.

    Raises ``UnknownToken``, ``UnsupportedToken`` or ``NoHolders``.
    """
    page, _ = holders_page(store, chain, token_address, as_of, limit, details=details)
    return page.drop_columns(["amount_raw"])


def holders_page(
    store: Store,
    chain: str,
    token_address: str,
    as_of: datetime,
    limit: int,
    after: HolderPosition | None = None,
    details: bool = False,
) -> tuple[pa.Table, HolderPosition | None]:
    """At most ``limit`` (from 1) holders after the position, by rank, and where to go on, or None at the end.

    The table is ``HOLDERS_PAGE``, with address details or nulls in their place. Pages of the same instant, one after
    another, are the whole list, each holder once; ranks are counted on from the position's. The position itself need
    not be a holder (any more). Raises ``UnknownToken``, ``UnsupportedToken``, and ``NoHolders`` without a position.
    """
    token = mappable_token(store, chain, token_address)
    place = (after.balance, after.address) if after else None
    # one holder more than asked for tells whether there is a further page
    balances = largest_balances(store, chain, token_address, as_of, limit + 1, place)
    if not balances.holders and after is None:
        raise nobody_holds(token, as_of)
    facts: dict[str, AddressFacts] | None = None
    if details:
        facts = address_facts(store, [address for address, _ in balances.holders[:limit]], as_of, chain)
    first = after.rank + 1 if after else 1
    told = Balances(balances.supply, balances.holders[:limit], [])
    page = table_of(TABLES["holders"], largest_columns(store.rules, token, to_unix(as_of), told, facts, first))
    raw = pa.array([str(balance) for _, balance in balances.holders[:limit]], pa.string())
    page = page.append_column(HOLDERS_PAGE.field("amount_raw"), raw)
    if len(balances.holders) <= limit:
        return page, None
    address, balance = balances.holders[limit - 1]
    return page, HolderPosition(balance, address, first + limit - 1)


def holder_columns(store: Store, view: View, token: TokenInfo, as_of: datetime, limit: int, details: bool) -> Columns:
    """Columns of the lake's ``holders``: the largest ones at the instant; no row where nobody holds the token."""
    held = held_as_of(view, (token.chain, token.address), to_unix(as_of), limit)
    addresses = held.addresses[:limit]
    largest = Balances(held.supply, listed(view, held, limit), [])
    facts: dict[str, AddressFacts] | None = None
    if details:
        texts = [address for address, _ in largest.holders]
        known = activity(view, addresses, to_unix(as_of))
        labelled = labelled_ones(kinds_of_addresses(store, view), addresses, texts)
        facts = facts_of(store, texts, known, labelled, token.chain)
    return largest_columns(store.rules, token, to_unix(as_of), largest, facts)


def largest_columns(
    rules: Rules,
    token: TokenInfo,
    second: int,
    largest: Balances,
    facts: Mapping[str, AddressFacts] | None,
    first: int = 1,
) -> Columns:
    """Columns of the lake's ``holders`` from the holders, wherever these were found; ``first`` is the first rank."""
    holders = largest.holders
    holding: Columns = {
        "rank": list(range(first, first + len(holders))),
        "address": [address for address, _ in holders],
        "amount": [(balance, token.decimals) for _, balance in holders],
        "share": [largest.share(balance) for _, balance in holders],
    }
    common = {"chain": token.chain, "as_of": second * 1_000_000, "token_address": token.address}
    details = {} if facts is None else detail_columns([facts[address] for address, _ in holders], rules)
    return repeated(common, holding) | holding | details
