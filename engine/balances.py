"""Who holds how much of a token as of any second: exact integers from the token's parts.

A lossy history can leave an address below nothing. Such an address is never a holder; it is reported by
``negative_balances`` as a matter of data quality.
"""

from __future__ import annotations

from bisect import bisect_left
from dataclasses import dataclass
from datetime import datetime
from typing import Final

import numpy as np
import pyarrow as pa

from contract.times import to_unix
from engine.dictionary import Dictionary
from engine.errors import NoHolders, UnknownToken, UnsupportedToken
from engine.manifest import View
from engine.parts import DAY, Part, changes_of, summed
from engine.records import TokenInfo
from engine.store import Store
from engine.words import (
    LANES,
    Array,
    count_positive,
    falling,
    falling_keys,
    fitting,
    from_limbs,
    is_something,
    limbs,
    places_among,
    to_ints,
    widened,
)

_BLOCK: Final = 4_096


@dataclass(frozen=True)
class Balances:
    """Balances of a token in raw integers.

    ``supply`` is what was minted less what was burnt to the zero address; ``holders`` (address, balance > 0) by falling
    balance, then address; ``negative`` the addresses that a lossy history leaves below nothing.
    """

    supply: int
    holders: list[tuple[str, int]]
    negative: list[tuple[str, int]]

    def share(self, amount: int) -> float:
        """An amount as a part of the supply, 0 to 1. A lossy history can hold more than its supply: then 1."""
        return share_of(amount, self.supply)


@dataclass(frozen=True)
class Held:
    """Balances of a token as arrays: numbers of addresses and words, by falling balance, then address.

    ``addresses`` and ``balances`` are of those that hold more than nothing, ``negative`` and ``debts`` of those below.
    """

    supply: int
    addresses: Array
    balances: Array
    negative: Array
    debts: Array


def share_of(amount: int, supply: int) -> float:
    """An amount as a part of the supply, 0 to 1; 0 where there is no supply."""
    return min(1.0, amount / supply) if supply > 0 else 0.0


def mappable_token(store: Store, chain: str, token_address: str) -> TokenInfo:
    """The token's metadata. Raises ``UnknownToken``, or ``UnsupportedToken`` where no map can be made for it."""
    token = store.token(chain, token_address)
    if token is None:
        raise UnknownToken(f"token {token_address} on chain {chain} is not known")
    if token.unsupported:
        raise UnsupportedToken(f"no map can be made for {token.name} ({token_address} on {chain}): {token.unsupported}")
    return token


def held_as_of(view: View, key: tuple[str, str], second: int, most: int | None = None) -> Held:
    """All balances of a token at the end of the second, or those of its ``most`` largest holders."""
    return _Ledger(view, view.parts(*key), second).held(0, most)


def balances_as_of(store: Store, chain: str, token_address: str, as_of: datetime) -> Balances:
    """All balances of a token at the end of the second ``as_of``."""
    view = store.view()
    held = held_as_of(view, (chain, token_address), to_unix(as_of))
    owing = list(zip(view.dictionary.texts(held.negative), to_ints(held.debts), strict=True))
    return Balances(held.supply, listed(view, held), owing)


def listed(view: View, held: Held, most: int | None = None) -> list[tuple[str, int]]:
    """Address and raw balance of the holders, or of the first of them."""
    texts = view.dictionary.texts(held.addresses[:most])
    return list(zip(texts, to_ints(held.balances[:most]), strict=True))


def largest_balances(
    store: Store, chain: str, token_address: str, as_of: datetime, limit: int, after: tuple[int, str] | None = None
) -> Balances:
    """The supply and the ``limit`` largest holders at the end of the second ``as_of``; negative balances are left out.

    With ``after``, a balance and an address, the holders that come after these in the order of ``Balances``. Where
    there are none the supply is 0, for nobody asks for a share of it.
    """
    view = store.view()
    ledger = _Ledger(view, view.parts(chain, token_address), to_unix(as_of))
    holders = ledger.page(limit, after)
    return Balances(ledger.supply if holders else 0, holders, [])


class _Ledger:
    """The balances of a token's parts at the end of a second: what the base says, and who differs from it."""

    def __init__(self, view: View, parts: list[Part], second: int) -> None:
        self._dictionary: Dictionary = view.dictionary
        self._zero = view.zero
        # the end of a day's last second is what the intervals of that day say
        self._day = (second + 1) // DAY - 1
        self._base = parts[0] if parts else None
        self._changed, self._now = self._changes(parts, second)

    def _changes(self, parts: list[Part], second: int) -> tuple[Array, Array]:
        """Addresses, rising, whose balance is not what the base says of the day before, and their balances."""
        pieces = []
        for part in parts[1:]:
            places = part.holding(self._day)
            pieces.append((part.holders[places], limbs(part.balances[places])))
        if (second + 1) % DAY:
            pieces += [changes_of(part.open_day(second)) for part in parts]
        pieces = [piece for piece in pieces if len(piece[0])]
        if not pieces or self._base is None:
            return np.empty(0, np.int32), np.empty((0, 1), np.uint64)
        lane = max(part.balances.shape[1] for part in parts)
        if len(parts) > 1:  # each part's lane holds its own sums, and no others
            lane = next((wider for wider in LANES if wider > lane), lane)
        words = [widened(from_limbs(spread), lane) for _, spread in pieces]
        changed, delta = summed(np.concatenate([piece[0] for piece in pieces]), limbs(np.concatenate(words)))
        delta = limbs(delta)
        which, places = self._base.places_of(changed, self._day)
        delta[which] += limbs(widened(self._base.balances[places], lane))
        return changed, fitting(from_limbs(delta), self._base.balances.shape[1])

    @property
    def supply(self) -> int:
        """What was minted less what was burnt."""
        if self._base is None:
            return 0
        place = np.searchsorted(self._changed, self._zero)
        if place < len(self._changed) and self._changed[place] == self._zero:
            return -to_ints(self._now[place : place + 1])[0]
        _, places = self._base.places_of(np.array([self._zero]), self._day)
        return -sum(to_ints(self._base.balances[places]))

    def held(self, start: int, most: int | None) -> Held:
        """Balances of the base's intervals from the place on, and all that differ."""
        if self._base is None:
            nobody, nothing = np.empty(0, np.int32), np.empty((0, 1), np.uint64)
            return Held(0, nobody, nothing, nobody, nothing)
        places = self._kept(start, most)
        addresses, balances = self._base.holders[places], self._base.balances[places]
        if len(self._changed):
            addresses, balances = self._merged(addresses, balances)
        above = count_positive(balances)
        return Held(self.supply, addresses[:above], balances[:above], addresses[above:][::-1], balances[above:][::-1])

    def _kept(self, start: int, most: int | None) -> Array:
        """Places of the base's intervals that hold, of all addresses that do not differ; the zero address apart."""
        base, found, count, block = self._base, [np.empty(0, np.int64)], 0, _BLOCK
        assert base is not None  # noqa: S101 - whoever asks has one
        size = len(base.holders)
        while start < size and (most is None or count < most):
            end = size if most is None else min(size, start + block)
            holds = (base.first_days[start:end] <= self._day) & (base.end_days[start:end] > self._day)
            places = start + np.flatnonzero(holds)
            holders = base.holders[places]
            kept = places[~_among(holders, self._changed, self._dictionary.size) & (holders != self._zero)]
            found.append(kept)
            start, count, block = end, count + len(kept), 2 * block
        return np.concatenate(found)[:most]

    def _merged(self, addresses: Array, balances: Array) -> tuple[Array, Array]:
        """The balances that do not differ and those that do, in one order."""
        others = np.flatnonzero((self._changed != self._zero) & is_something(self._now))
        lane = max(balances.shape[1], self._now.shape[1])
        balances, new = widened(balances, lane), widened(self._now[others], lane)
        newcomers = self._changed[others]
        order = falling(new, self._dictionary.ranks(newcomers))
        newcomers, new = newcomers[order], new[order]

        places = self._places(newcomers, new, addresses, balances)
        return np.insert(addresses, places, newcomers), np.insert(balances, places, new, axis=0)

    def _places(self, newcomers: Array, new: Array, addresses: Array, balances: Array) -> Array:
        """Where the newcomers belong among the holders: by falling balance, then address."""

        def held(places: Array) -> Array:
            return falling_keys(balances[places])

        keys, nowhere = falling_keys(new), np.zeros(len(new), np.int64)
        places = places_among(keys, held, nowhere, nowhere + len(addresses))
        ends = places_among(keys, held, places, nowhere + len(addresses), after_equals=True)
        tied = np.flatnonzero(places < ends)
        if len(tied):
            places[tied] = self._places_among_equals(newcomers[tied], addresses, places[tied], ends[tied])
        return places

    def _places_among_equals(self, newcomers: Array, addresses: Array, starts: Array, ends: Array) -> Array:
        """Where each of the newcomers belongs among the addresses from its start to its end, which stand in order."""
        find = self._dictionary.beginnings
        own = find(newcomers)
        firsts = places_among(own, lambda places: find(addresses[places]), starts, ends)
        lasts = places_among(own, lambda places: find(addresses[places]), firsts, ends, after_equals=True)
        for place in np.flatnonzero(firsts < lasts).tolist():
            # these begin alike, so the whole texts decide
            (text,) = self._dictionary.texts(newcomers[place : place + 1])
            texts = self._dictionary.texts(addresses[firsts[place] : lasts[place]])
            firsts[place] += bisect_left(texts, text)
        return firsts

    def page(self, limit: int, after: tuple[int, str] | None) -> list[tuple[str, int]]:
        """The first holders, or the first after a balance and an address."""
        if after is None:
            held = self.held(0, limit)
            return self._listed(held, limit)
        balance, address = after
        held = self.held(self._place_after(balance, address), limit)
        beyond = [item for item in self._listed(held, None) if (-item[1], item[0]) > (-balance, address)]
        return beyond[:limit]

    def _listed(self, held: Held, most: int | None) -> list[tuple[str, int]]:
        texts = self._dictionary.texts(held.addresses[:most])
        return list(zip(texts, to_ints(held.balances[:most]), strict=True))

    def _place_after(self, balance: int, address: str) -> int:
        """The first place in the base of an interval that comes after the balance and the address."""
        base = self._base
        low, high = 0, len(base.holders) if base else 0
        while base and low < high:
            middle = (low + high) // 2
            (found,) = to_ints(base.balances[middle : middle + 1])
            (holder,) = self._dictionary.texts(base.holders[middle : middle + 1])
            if (-found, holder) <= (-balance, address):
                low = middle + 1
            else:
                high = middle
        return low


def _among(addresses: Array, sorted_ones: Array, size: int) -> Array:
    """For each of the addresses, whether it is among those given."""
    if not len(sorted_ones):
        return np.zeros(len(addresses), np.bool_)
    if len(addresses) > 10_000:
        marks = np.zeros(size, np.bool_)
        marks[sorted_ones] = True
        return marks[addresses]
    places = np.minimum(np.searchsorted(sorted_ones, addresses), len(sorted_ones) - 1)
    found: Array = sorted_ones[places] == addresses
    return found


def nobody_holds(token: TokenInfo, as_of: datetime) -> NoHolders:
    """The error to raise where nobody holds the token then."""
    return NoHolders(f"nobody holds {token.name} ({token.address} on {token.chain}) at {as_of.isoformat()}Z")


def negative_balances(store: Store, chain: str, token_address: str, as_of: datetime) -> pa.Table:
    """Addresses that the stored history leaves below nothing: columns address, balance (raw integer as text).

    Any row means that transfers are missing from the history (or that amounts were rounded at its source).
    """
    view = store.view()
    held = held_as_of(view, (chain, token_address), to_unix(as_of))
    return pa.table(
        {
            "address": pa.array(view.dictionary.texts(held.negative), pa.string()),
            "balance": pa.array([str(balance) for balance in to_ints(held.debts)], pa.string()),
        }
    )
