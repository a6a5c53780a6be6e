"""The holders of a token as of any second, by rank: the largest ones, or every holder in pages."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Final, NamedTuple

import numpy as np
import pyarrow as pa

from holderlake.core.contract.tables import TABLES, column
from holderlake.core.contract.times import to_unix
from holderlake.engine.files.listing import View
from holderlake.engine.numeric.bigint import Array, to_ints
from holderlake.engine.queries.addresses import activity, detail_columns, kinds_of_addresses, labels_of_kinds
from holderlake.engine.queries.balance_rows import largest, read_balances
from holderlake.engine.queries.balances import holders_after, no_holders, shares_of, supported_token
from holderlake.engine.queries.tables import Amounts, Columns, in_order, instants_of, table_of, texts_of
from holderlake.engine.records import TokenInfo
from holderlake.engine.store.store import Store

HOLDERS_PAGE: Final = TABLES["holders"].engine_schema.append(
    column("amount_raw", pa.string(), "Balance as a raw integer, exact")
)
"""Columns of the lake's ``holders`` without ``fetched_at``, plus the raw amount."""


@dataclass(frozen=True)
class HolderPosition:
    """The position after a page of holders: raw balance, address and rank of the page's last holder."""

    balance: int
    address: str
    rank: int


def holders_as_of(
    store: Store, chain: str, token_address: str, as_of: datetime, limit: int, details: bool = False
) -> pa.Table:
    """Return the lake's ``holders`` rows of the ``limit`` largest holders.

    The columns of address details are null unless ``details`` is true. Raises ``UnknownToken``, ``UnsupportedToken`` or
    ``NoHolders``.
    """
    page, _ = holders_page(store, chain, token_address, as_of, limit, details=details)
    return page.drop_columns(["amount_raw"])


def holders_page(
    store: Store,
    chain: str,
    token_address: str,
    as_of: datetime,
    limit: int,
    after_holder: HolderPosition | None = None,
    details: bool = False,
) -> tuple[pa.Table, HolderPosition | None]:
    """Return a page of at most ``limit`` (1 or more) holders, by rank, and the position after the page.

    The page begins with the holder after ``after_holder``, or with the largest holder if ``after_holder`` is None. The
    returned position is ``after_holder`` for the next page; it is None after the last page. Consecutive pages of one
    instant have each holder once. The rank of the first holder is one more than the rank of ``after_holder``. The
    address of ``after_holder`` need not be a holder.

    The table has the columns of ``HOLDERS_PAGE``. Address details are null if ``details`` is false. Raises
    ``UnknownToken`` or ``UnsupportedToken``. Raises ``NoHolders`` if the first page has no holders.
    """
    token, view, second = supported_token(store, chain, token_address), store.view(), to_unix(as_of)
    place = (after_holder.balance, after_holder.address) if after_holder else None
    # one more holder than requested shows whether there is a next page
    supply, rows = holders_after(store, view, (chain, token_address), second, limit + 1, place)
    if not len(rows.addresses) and after_holder is None:
        raise no_holders(token, as_of)
    page_rows, first_rank = rows.at(slice(limit)), after_holder.rank + 1 if after_holder else 1
    ranks = np.arange(first_rank, first_rank + len(page_rows.addresses))
    balances = to_ints(page_rows.balances)
    ranked = RankedHolders(np.zeros(len(ranks), np.int64), ranks, page_rows.addresses, page_rows.balances)
    page = _table(store, view, token, np.array([second]), [supply], ranked, details)
    page = page.append_column(HOLDERS_PAGE.field("amount_raw"), pa.array(map(str, balances), pa.string()))
    if len(rows.addresses) <= limit:
        return page, None
    return page, HolderPosition(balances[-1], page["address"][-1].as_py(), int(ranks[-1]))


def holders_of(
    store: Store, view: View, token: TokenInfo, as_of: Sequence[datetime], limit: int, details: bool
) -> pa.Table:
    """Return the lake's ``holders`` rows of the ``limit`` largest holders at each of ``as_of``, in the order of
    ``as_of``.

    An instant without holders has no rows.
    """
    seconds, inverse = np.unique([to_unix(instant) for instant in as_of], return_inverse=True)

    def largest_in(span: Array) -> pa.Table:
        token_balances = read_balances(view, (token.chain, token.address), span, limit, only_largest=True)
        instants, places = largest(token_balances.rows, len(span), limit)
        ranks = np.arange(len(instants)) - np.searchsorted(instants, instants) + 1
        rows = token_balances.rows
        ranked = RankedHolders(instants, ranks, rows.addresses[places], rows.balances[places])
        return _table(store, view, token, span, token_balances.supplies, ranked, details)

    spans = store.label_spans(seconds) if details else [seconds]
    return in_order(pa.concat_tables(map(largest_in, spans)), seconds, inverse)


class RankedHolders(NamedTuple):
    """Holders by instant and rank, as arrays with one value for each holder.

    ``instants`` are positions in the list of requested instants, ``ranks`` begin with 1, ``addresses`` are address
    numbers. ``balances`` are raw, as limbs (64-bit words, see ``bigint``).
    """

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
    ranked: RankedHolders,
    details: bool,
) -> pa.Table:
    distinct, inverse = np.unique(ranked.addresses, return_inverse=True)
    texts, columns = texts_of(view, distinct), None
    if details:
        label_time = store.label_time(int(seconds[0]))
        kinds = kinds_of_addresses(store, view, token.chain, label_time)
        labels = labels_of_kinds(store, kinds, distinct, texts.to_pylist(), token.chain, label_time)
        activities = activity(view, ranked.addresses, seconds[ranked.instants])
        columns = detail_columns(activities, labels, inverse, store.rules)
    return holders_table(token, seconds, supplies, ranked._replace(addresses=inverse), texts, columns)


def holders_table(
    token: TokenInfo,
    seconds: Array,
    supplies: list[int],
    ranked: RankedHolders,
    texts: pa.Array,
    details: Columns | None,
) -> pa.Table:
    """Return the lake's ``holders`` rows of ranked holders at the ascending unix ``seconds``.

    ``supplies`` has the raw supply at each second. The ``addresses`` of ``ranked`` are positions in ``texts``.
    ``details`` are columns of address details; None leaves these columns null.
    """
    columns: Columns = {
        "as_of": instants_of(seconds[ranked.instants]),
        "rank": pa.array(ranked.ranks),
        "address": texts.take(pa.array(ranked.addresses)),
        "amount": Amounts(ranked.balances, np.full(len(ranked.ranks), token.decimals)),
        "share": shares_of(to_ints(ranked.balances), ranked.instants, supplies),
    }
    common = {"chain": token.chain, "token_address": token.address}
    return table_of(TABLES["holders"], columns | (details or {}), common)
