"""Exact balances of a token as of any second, and the errors for tokens that have none.

If transfers are missing in the store, an address can have a balance below zero. Such an address is never a holder;
``negative_balances`` reports it.
"""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime

import numpy as np

from holderlake.core.contract.times import to_unix
from holderlake.engine.errors import NoHolders, UnknownToken, UnsupportedToken
from holderlake.engine.files.listing import View
from holderlake.engine.numeric.bigint import Array, to_ints
from holderlake.engine.queries.balance_rows import BalanceSpans, read_balances
from holderlake.engine.records import Key, TokenInfo
from holderlake.engine.store.store import Store


@dataclass(frozen=True)
class Balances:
    """Balances of a token in raw integers.

    ``supply`` is the sum of mints minus the sum of burns to the zero address. ``holders`` has a pair (address, balance)
    for each balance above zero, by descending balance, then address. ``negative`` has the pairs of balances below zero.
    """

    supply: int
    holders: list[tuple[str, int]]
    negative: list[tuple[str, int]]


def share_of(amount: int, supply: int) -> float:
    """Return a raw amount as a part of the supply, from 0 to 1; 0 if the supply is 0.

    If transfers are missing in the store, an address can have more than the supply. Its share is 1.
    """
    return min(1.0, amount / supply) if supply > 0 else 0.0


def shares_of(amounts: Sequence[int], instants: Array, supplies: Sequence[int]) -> list[float]:
    """Return each amount as a part of the supply at its instant; ``instants`` are positions in ``supplies``."""
    return [share_of(amount, supplies[instant]) for amount, instant in zip(amounts, instants.tolist(), strict=True)]


def supported_token(store: Store, chain: str, token_address: str) -> TokenInfo:
    """Return a token's metadata.

    Raises ``UnknownToken``, or ``UnsupportedToken`` if no map can be made for the token.
    """
    token = store.token(chain, token_address)
    if token is None:
        raise UnknownToken(f"the store has no token {token_address} on chain {chain}; check chain and address")
    if token.unsupported:
        raise UnsupportedToken(f"no map can be made for {token.name} ({token_address} on {chain}): {token.unsupported}")
    return token


def balances_as_of(store: Store, chain: str, token_address: str, as_of: datetime) -> Balances:
    """Return all balances of a token at the end of the second ``as_of``."""
    view = store.view()
    token_balances = read_balances(view, (chain, token_address), np.array([to_unix(as_of)]))
    return Balances(
        token_balances.supplies[0],
        _with_addresses(view, token_balances.rows),
        _with_addresses(view, token_balances.negative),
    )


def _with_addresses(view: View, rows: BalanceSpans) -> list[tuple[str, int]]:
    return list(zip(view.dictionary.texts(rows.addresses), to_ints(rows.balances), strict=True))


def largest_balances(store: Store, chain: str, token_address: str, as_of: datetime, limit: int) -> Balances:
    """Return the supply and the ``limit`` largest holders at the end of the second ``as_of``, without balances below
    zero. Without holders, the supply is 0, because no share has to be computed."""
    view = store.view()
    supply, rows = holders_after(store, view, (chain, token_address), to_unix(as_of), limit, None)
    return Balances(supply, _with_addresses(view, rows), [])


def holders_after(
    store: Store, view: View, key: Key, second: int, limit: int, after_holder: tuple[int, str] | None
) -> tuple[int, BalanceSpans]:
    """Return the raw supply and the ``limit`` largest holders of a token (chain, address) at the end of a unix second.

    If ``after_holder`` (raw balance and address of a holder) is given, return the ``limit`` holders that follow this
    holder, by descending balance, then address. The balances of the last call are kept for the next page.
    """
    seconds = np.array([second])
    if after_holder is None:
        balances, start = read_balances(view, key, seconds, limit, only_largest=True), 0
        rows = balances.rows
    else:
        balances = store.cached("holders", (view, key, second), lambda: read_balances(view, key, seconds))
        rows, place_after = balances.rows, (-after_holder[0], after_holder[1])
        start = bisect_right(range(len(rows.addresses)), place_after, key=lambda place: _rank_of(view, rows, place))
    page = rows.at(slice(start, start + limit))
    return balances.supplies[0] if len(page.addresses) else 0, page


def _rank_of(view: View, rows: BalanceSpans, place: int) -> tuple[int, str]:
    """Return a key by which holders are sorted: the negative balance, then the address."""
    ((address, balance),) = _with_addresses(view, rows.at(slice(place, place + 1)))
    return -balance, address


def no_holders(token: TokenInfo, as_of: datetime) -> NoHolders:
    """Return the error of a token without holders as of an instant."""
    return NoHolders(f"{token.name} ({token.address} on {token.chain}) has no holders at {as_of.isoformat()}Z")
