"""Who holds how much of a token as of any seconds: exact integers from the token's parts.

A lossy history can leave an address below zero. Such an address is never a holder; ``negatives`` reports it.
"""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime
from functools import cached_property
from typing import Final, NamedTuple

import numpy as np

from holderlake.contract.times import to_unix
from holderlake.engine.errors import NoHolders, UnknownToken, UnsupportedToken
from holderlake.engine.files.arrays import expand_ranges
from holderlake.engine.files.dictionary import Dictionary
from holderlake.engine.files.manifest import View
from holderlake.engine.files.parts import DAY, Part, changes_of
from holderlake.engine.numeric import aggregates
from holderlake.engine.numeric.bigint import (
    Array,
    count_positive,
    descending_order,
    digits_to_ints,
    fit_width,
    from_digits,
    insertion_points,
    is_nonzero,
    resized,
    sum_width,
    to_digits,
    to_ints,
)
from holderlake.engine.numeric.interval_kernels import (
    descending_insertion_points,
    enough_rows,
    intervals_of,
    kept_rows,
    merge_rows,
    places_of_holders,
)
from holderlake.engine.records import TokenInfo
from holderlake.engine.store.store import Store

_FEW_EQUALS: Final = 64
"""Holders of the same balance who are looked through one by one."""


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


class Rows(NamedTuple):
    """Balances at some instants: numbers of addresses and words, each from one instant to another (by their places,
    the latter excluded)."""

    addresses: Array
    balances: Array
    firsts: Array
    lasts: Array

    def at(self, places: Array | slice) -> Rows:
        """Some of them."""
        return Rows(*(column[places] for column in self))


@dataclass(frozen=True)
class Held:
    """Balances of a token at some instants, by falling balance, then address: ``rows`` of those that hold more than
    nothing, ``owing`` of those below; the supply at each instant."""

    supplies: list[int]
    rows: Rows
    owing: Rows


def largest(rows: Rows, instants: int, most: int) -> tuple[Array, Array]:
    """The ``most`` largest of rows by falling balance at each instant, by instant and rank: instants, and places."""
    size = 4 * most
    while size < len(rows.addresses) and _held_at_once(rows.at(slice(size)), instants).min() < most:
        size *= 2
    firsts, lasts = rows.firsts[:size].astype(np.int64), rows.lasts[:size].astype(np.int64)
    found, places = expand_ranges(firsts, lasts), np.repeat(np.arange(len(firsts)), lasts - firsts)
    order = np.argsort(found, kind="stable")
    found, places = found[order], places[order]
    kept = np.arange(len(found)) - np.searchsorted(found, found) < most
    return found[kept], places[kept]


def sums_at(rows: Rows, instants: int) -> list[int]:
    """The exact sum of the rows at each instant."""
    sums = np.zeros((instants + 1, 2 * rows.balances.shape[1]), np.int64)
    aggregates.add_intervals(rows.balances, rows.firsts, rows.lasts, sums)
    return digits_to_ints(np.cumsum(sums, axis=0)[:-1])


def _held_at_once(rows: Rows, instants: int) -> Array:
    """How many of the rows hold at each instant."""
    begun, ended = (np.bincount(ends, minlength=instants + 1) for ends in (rows.firsts, rows.lasts))
    counts: Array = np.cumsum(begun - ended)[:instants]
    return counts


def share_of(amount: int, supply: int) -> float:
    """An amount as a part of the supply, 0 to 1; 0 where there is no supply."""
    return min(1.0, amount / supply) if supply > 0 else 0.0


def shares_of(amounts: Sequence[int], instants: Array, supplies: Sequence[int]) -> list[float]:
    """Amounts as parts of the supplies of their instants, as ``share_of`` has each."""
    pairs = zip(amounts, instants.tolist(), strict=True)
    return [min(1.0, amount / supplies[one]) if supplies[one] > 0 else 0.0 for amount, one in pairs]


def supported_token(store: Store, chain: str, token_address: str) -> TokenInfo:
    """The token's metadata. Raises ``UnknownToken``, or ``UnsupportedToken`` where no map can be made for it."""
    token = store.token(chain, token_address)
    if token is None:
        raise UnknownToken(f"token {token_address} on chain {chain} is not known")
    if token.unsupported:
        raise UnsupportedToken(f"no map can be made for {token.name} ({token_address} on {chain}): {token.unsupported}")
    return token


def balances_at(view: View, key: tuple[str, str], seconds: Array, most: int | None = None) -> Held:
    """All balances of a token at the end of each of the rising seconds, or at least those of its ``most`` largest
    holders."""
    return _Ledger(view, view.parts(*key), seconds).held(0, most)


def negative_at(view: View, key: tuple[str, str], seconds: Array) -> Rows:
    """Balances below zero at the end of each of the rising seconds."""
    return _Ledger(view, view.parts(*key), seconds).owing()


def held_as_of(view: View, key: tuple[str, str], second: int, most: int | None = None) -> Held:
    """All balances of a token at the end of the second, or those of its ``most`` largest holders."""
    return balances_at(view, key, np.array([second]), most)


def balances_as_of(store: Store, chain: str, token_address: str, as_of: datetime) -> Balances:
    """All balances of a token at the end of the second ``as_of``."""
    view = store.view()
    held = held_as_of(view, (chain, token_address), to_unix(as_of))
    return Balances(held.supplies[0], listed(view, held.rows), listed(view, held.owing))


def listed(view: View, rows: Rows) -> list[tuple[str, int]]:
    """Address and raw balance of each."""
    return list(zip(view.dictionary.texts(rows.addresses), to_ints(rows.balances), strict=True))


def largest_balances(
    store: Store, chain: str, token_address: str, as_of: datetime, limit: int, after: tuple[int, str] | None = None
) -> Balances:
    """The supply and the ``limit`` largest holders at the end of the second ``as_of``; negative balances are left out.

    With ``after``, a balance and an address, the holders that come after these in the order of ``Balances``. Where
    there are none the supply is 0, for nobody asks for a share of it.
    """
    view = store.view()
    supply, rows = holders_after(view, (chain, token_address), to_unix(as_of), limit, after)
    return Balances(supply, listed(view, rows), [])


def holders_after(
    view: View, key: tuple[str, str], second: int, limit: int, after: tuple[int, str] | None = None
) -> tuple[int, Rows]:
    """As ``largest_balances``: the supply, and rows of the holders."""
    ledger = _Ledger(view, view.parts(*key), np.array([second]))
    rows = ledger.page(limit, after)
    return ledger.supplies[0] if len(rows.addresses) else 0, rows


class _Ledger:
    """The balances of a token's parts at the end of rising seconds: what the base says, and who differs from it."""

    def __init__(self, view: View, parts: list[Part], seconds: Array) -> None:
        self._dictionary: Dictionary = view.dictionary
        self._zero = view.zero
        self._instants = len(seconds)
        # the end of a day's last second is what the intervals of that day say; many intervals and few days: the instant
        # that each day comes to is worked out once
        days = (seconds + 1) // DAY - 1
        self._first_day = int(days[0])
        self._instant_of = np.searchsorted(days, np.arange(days[0], days[-1] + 2)).astype(np.int32)
        self._base = parts[0] if parts else None
        zero = np.array([self._zero], np.int32)
        self._zero_places = self._places(self._base, zero) if self._base else zero[:0]
        self._changed, self._replaced, self._now = self._changes(parts, seconds)

    def _spans(self, part: Part, places: Array | slice) -> tuple[Array, Array]:
        """The instants at which intervals hold, from one to another (excluded); none where these are the same."""
        last = len(self._instant_of) - 1
        days = (part.first_days[places].astype(np.int64), part.end_days[places].astype(np.int64))
        firsts, lasts = (self._instant_of[np.clip(ends - self._first_day, 0, last)] for ends in days)
        return firsts, lasts

    def _places(self, part: Part, addresses: Array) -> Array:
        """The places of the part's intervals of the rising addresses that hold at some of the instants."""
        days = (self._first_day, self._first_day + len(self._instant_of) - 1)
        numbers = addresses.astype(np.int32)
        places = intervals_of(numbers, part.index, part.places, part.first_days, part.end_days, *days)
        firsts, lasts = self._spans(part, places)
        held: Array = places[firsts < lasts]
        return held

    def _intervals(self, part: Part, places: Array) -> Rows:
        """What the part says at the places."""
        return Rows(part.holders[places], part.balances[places], *self._spans(part, places))

    def _changes(self, parts: list[Part], seconds: Array) -> tuple[Array, Array, Rows]:
        """Addresses, rising, whose balance is not always what the base says of the day before; the places of what it
        says of them; and their balances."""
        pieces = []
        for part in parts[1:]:
            firsts, lasts = self._spans(part, slice(None))
            held = np.flatnonzero(firsts < lasts)
            pieces.append(Rows(part.holders[held], to_digits(part.balances[held]), firsts[held], lasts[held]))
        for instant, second in enumerate(seconds.tolist()):
            if (second + 1) % DAY:
                for part in parts:
                    holders, spread = changes_of(part.open_day(second))
                    once = np.full(len(holders), instant, np.int32)
                    pieces.append(Rows(holders, spread, once, once + np.int32(1)))
        pieces = [piece for piece in pieces if len(piece.addresses)]
        if not pieces or self._base is None:
            return np.empty(0, np.int32), np.empty(0, np.int32), _no_rows()
        changed = np.unique(np.concatenate([piece.addresses for piece in pieces]))
        places = self._places(self._base, changed)
        unchanged = self._intervals(self._base, places)
        pieces.append(unchanged._replace(balances=to_digits(unchanged.balances)))
        width = max(part.balances.shape[1] for part in parts)
        if len(parts) > 1:  # a part's width holds its own sums, not those of several parts
            width = sum_width(width)
        rows = self._added_up(
            [piece._replace(balances=to_digits(resized(from_digits(piece.balances), width))) for piece in pieces]
        )
        return changed, places, rows._replace(balances=fit_width(rows.balances, self._base.balances.shape[1]))

    def _added_up(self, pieces: list[Rows]) -> Rows:
        """What the pieces, in limbs, add up to for each address, from each instant at which that changes."""
        whole = Rows(*(np.concatenate(column) for column in zip(*pieces, strict=True)))
        keys = whole.addresses.astype(np.int64) * (self._instants + 1)
        keys, deltas = (
            np.concatenate([keys + whole.firsts, keys + whole.lasts]),
            np.concatenate([whole.balances, -whole.balances]),
        )
        order = np.argsort(keys, kind="stable")
        starts = np.flatnonzero(np.diff(keys[order], prepend=-1))
        keys = keys[order[starts]]
        # what an address gains is lost again at its last instant at the latest, so each begins with nothing
        reached = from_digits(np.cumsum(np.add.reduceat(deltas[order], starts, axis=0), axis=0))
        addresses, firsts = np.divmod(keys, self._instants + 1)
        lasts = np.append(firsts[1:], 0)
        held = np.flatnonzero(is_nonzero(reached))
        return Rows(
            addresses[held].astype(np.int32),
            reached[held],
            firsts[held].astype(np.int32),
            lasts[held].astype(np.int32),
        )

    @cached_property
    def supplies(self) -> list[int]:
        """What was minted less what was burnt, at each instant."""
        told = [0] * self._instants
        if self._base is None:
            return told
        rows = self._now.at(self._now.addresses == self._zero)
        if not (self._changed == self._zero).any():
            rows = self._intervals(self._base, self._zero_places)
        for balance, first, last in zip(to_ints(rows.balances), rows.firsts.tolist(), rows.lasts.tolist(), strict=True):
            told[first:last] = [-balance] * (last - first)
        return told

    def held(self, start: int, most: int | None) -> Held:
        """Balances of the base's intervals from the place on, and all that differ."""
        if self._base is None:
            return Held(self.supplies, _no_rows(), _no_rows())
        rows = self._merged(self._base, start, most)
        above = count_positive(rows.balances)
        return Held(self.supplies, rows.at(slice(above)), rows.at(slice(None, above - 1 if above else None, -1)))

    def owing(self) -> Rows:
        """Balances below zero; the intervals above are not looked at."""
        start = count_positive(self._base.balances) if self._base else 0
        return self.held(start, None).owing

    def _merged(self, base: Part, start: int, most: int | None) -> Rows:
        """The base's intervals of all addresses that never differ, and all that do, in one order; the zero address
        apart."""
        left_out = np.union1d(self._replaced, self._zero_places)
        days = (self._first_day, self._instant_of)
        intervals, stop = (base.first_days, base.end_days, start), len(base.holders)
        if most is not None:
            stop = enough_rows(*intervals, left_out, *days, self._instants, most)
        new = self._now.at(self._now.addresses != self._zero)
        width = max(base.balances.shape[1], new.balances.shape[1])
        new = new._replace(balances=resized(new.balances, width))
        numbers, which = np.unique(new.addresses, return_inverse=True)
        new = new.at(descending_order(new.balances, self._dictionary.ranks(numbers)[which]))
        places = self._places_of_new(new, base, start, stop)
        rows = np.empty(stop - start, np.int32)
        rows = rows[: kept_rows(*intervals, stop, left_out, *days, rows)]
        size = len(rows) + len(places)
        found = Rows(*(np.empty((size, *column.shape[1:]), column.dtype) for column in new))
        merge_rows(base.holders, base.balances, base.first_days, base.end_days, *days, rows, *new, places, *found)
        return found

    def _places_of_new(self, new: Rows, base: Part, start: int, stop: int) -> Array:
        """Where new rows belong among the intervals from start to stop: by falling balance, then address."""
        places, ends = descending_insertion_points(base.balances, new.balances, start, stop)
        tied = np.flatnonzero(places < ends)
        # most are as large as the base says of the day's end, and stand there already
        own = places_of_holders(base.holders, new.addresses[tied], places[tied], ends[tied], _FEW_EQUALS)
        many = np.flatnonzero((own < 0) & (ends[tied] - places[tied] > _FEW_EQUALS))
        own[many] = _own_places(base, new.at(tied[many]))
        places[tied] = np.where(own < 0, places[tied], own)
        tied = tied[own < 0]
        if len(tied):
            addresses = new.addresses[tied]
            places[tied] = self._places_among_equals(addresses, base.holders, places[tied], ends[tied])
        return places

    def _places_among_equals(self, newcomers: Array, addresses: Array, starts: Array, ends: Array) -> Array:
        """Where each of the newcomers belongs among the addresses from its start to its end, which stand in order."""
        find = self._dictionary.beginnings
        own = find(newcomers)
        firsts = insertion_points(own, lambda places: find(addresses[places]), starts, ends)
        lasts = insertion_points(own, lambda places: find(addresses[places]), firsts, ends, after_equals=True)
        for place in np.flatnonzero(firsts < lasts).tolist():
            # these begin alike, so the whole texts decide
            (text,) = self._dictionary.texts(newcomers[place : place + 1])
            texts = self._dictionary.texts(addresses[firsts[place] : lasts[place]])
            firsts[place] += bisect_left(texts, text)
        return firsts

    def page(self, limit: int, after: tuple[int, str] | None) -> Rows:
        """The first holders, or the first after a balance and an address."""
        if after is None:
            return self.held(0, limit).rows.at(slice(limit))
        balance, address = after
        rows = self.held(self._place_after(balance, address), limit).rows
        named = zip(to_ints(rows.balances), self._dictionary.texts(rows.addresses), strict=True)
        beyond = [place for place, (held, text) in enumerate(named) if (-held, text) > (-balance, address)]
        return rows.at(np.array(beyond[:limit], np.int64))

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


def _places_of(part: Part, addresses: Array) -> tuple[Array, Array]:
    """The places of all intervals of the addresses, and which of the addresses each is of."""
    addresses = addresses.astype(np.int32)  # or the index is copied to be compared with them
    starts, ends = (np.searchsorted(part.index, addresses, side=side) for side in ("left", "right"))
    return np.repeat(np.arange(len(addresses)), ends - starts), part.places[expand_ranges(starts, ends)]


def _own_places(base: Part, new: Rows) -> Array:
    """For each row the place of an interval of the same address and balance, -1 where there is none."""
    which, places = _places_of(base, new.addresses)
    same = (resized(base.balances[places], new.balances.shape[1]) == new.balances[which]).all(axis=1)
    found = np.full(len(new.addresses), -1)
    found[which[same]] = places[same]
    return found


def _no_rows() -> Rows:
    nothing = np.empty(0, np.int32)
    return Rows(nothing, np.empty((0, 1), np.uint64), nothing, nothing)


def no_holders(token: TokenInfo, as_of: datetime) -> NoHolders:
    """The error to raise where nobody holds the token then."""
    return NoHolders(f"nobody holds {token.name} ({token.address} on {token.chain}) at {as_of.isoformat()}Z")
