"""The holders of a token as of any second, by rank: the largest, or all of them page by page."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Final, NamedTuple

import numpy as np
import pyarrow as pa

from holderlake.contract.tables import TABLES
from holderlake.contract.times import to_unix
from holderlake.engine.files.manifest import View
from holderlake.engine.numeric.bigint import Array, to_ints
from holderlake.engine.queries.addresses import activity, detail_columns, kinds_of_addresses, labels_of_kinds
from holderlake.engine.queries.balances import (
    balances_at,
    holders_after,
    largest,
    no_holders,
    shares_of,
    supported_token,
)
from holderlake.engine.queries.tables import Amounts, Columns, column, in_order, instants_of, table_of, texts_of
from holderlake.engine.records import TokenInfo
from holderlake.engine.store.store import Store

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
    token, view, second = supported_token(store, chain, token_address), store.view(), to_unix(as_of)
    place = (after.balance, after.address) if after else None
    # one holder more than asked for tells whether there is a further page
    supply, rows = holders_after(view, (chain, token_address), second, limit + 1, place)
    if not len(rows.addresses) and after is None:
        raise no_holders(token, as_of)
    told, first = rows.at(slice(limit)), after.rank + 1 if after else 1
    ranks = np.arange(first, first + len(told.addresses))
    listed = RankedHolders(np.zeros(len(ranks), np.int64), ranks, told.addresses, told.balances)
    page = _table(store, view, token, np.array([second]), [supply], listed, details)
    raw = pa.array([str(balance) for balance in to_ints(told.balances)], pa.string())
    page = page.append_column(HOLDERS_PAGE.field("amount_raw"), raw)
    if len(rows.addresses) <= limit:
        return page, None
    return page, HolderPosition(to_ints(told.balances)[-1], page["address"][-1].as_py(), int(ranks[-1]))


def holders_of(
    store: Store, view: View, token: TokenInfo, asked: Sequence[datetime], limit: int, details: bool
) -> pa.Table:
    """The lake's ``holders`` rows of the instants asked for, one after another: the ``limit`` largest of each; no row
    where nobody holds the token."""
    seconds, which = np.unique([to_unix(instant) for instant in asked], return_inverse=True)
    held = balances_at(view, (token.chain, token.address), seconds, limit)
    instants, places = largest(held.rows, len(seconds), limit)
    ranks = np.arange(len(instants)) - np.searchsorted(instants, instants) + 1
    listed = RankedHolders(instants, ranks, held.rows.addresses[places], held.rows.balances[places])
    return in_order(_table(store, view, token, seconds, held.supplies, listed, details), seconds, which)


class RankedHolders(NamedTuple):
    """Holders by instant and rank: places of instants, ranks, numbers of addresses, and balances as words."""

    instants: Array
    ranks: Array
    addresses: Array
    balances: Array


def _table(
    store: Store,
    view: View,
    token: TokenInfo,
    seconds: Array,
    supplies: list[int],
    listed: RankedHolders,
    details: bool,
) -> pa.Table:
    distinct, which = np.unique(listed.addresses, return_inverse=True)
    texts, told = texts_of(view, distinct), None
    if details:
        labels = labels_of_kinds(store, kinds_of_addresses(store, view), distinct, texts.to_pylist(), token.chain)
        known = activity(view, listed.addresses, seconds[listed.instants])
        told = detail_columns(known, labels, which, store.rules)
    return holders_table(token, seconds, supplies, listed._replace(addresses=which), texts, told)


def holders_table(
    token: TokenInfo,
    seconds: Array,
    supplies: list[int],
    listed: RankedHolders,
    texts: pa.Array,
    details: Columns | None,
) -> pa.Table:
    """The lake's ``holders`` of some instants (rising ``seconds``) wherever these were found; addresses are places in
    the ``texts``, and ``details`` columns of address details, if any."""
    columns: Columns = {
        "as_of": instants_of(seconds[listed.instants]),
        "rank": pa.array(listed.ranks),
        "address": texts.take(pa.array(listed.addresses)),
        "amount": Amounts(listed.balances, np.full(len(listed.ranks), token.decimals)),
        "share": shares_of(to_ints(listed.balances), listed.instants, supplies),
    }
    common = {"chain": token.chain, "token_address": token.address}
    return table_of(TABLES["holders"], columns | (details or {}), common)
