"""Balances of a token at several seconds, as arrays.

``BalanceReader`` starts from the balance intervals of the token's base (its large part). It adds the intervals of the
newer parts, and the transfers of a day that is not over at a requested second. ``balances`` has the queries that use
it.
"""

from __future__ import annotations

from bisect import bisect_left
from dataclasses import dataclass
from functools import cached_property
from typing import Final, NamedTuple

import numpy as np

from holderlake.engine.files.arrays import expand_ranges
from holderlake.engine.files.dictionary import Dictionary
from holderlake.engine.files.listing import View
from holderlake.engine.files.parts import DAY, Part, changes_of
from holderlake.engine.numeric import aggregates
from holderlake.engine.numeric.bigint import (
    Array,
    count_positive,
    descending_order,
    digits_to_ints,
    equal_neighbours,
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

_FEW_EQUALS: Final = 64
"""The most holders with equal balances among which an address is searched one by one."""


class Rows(NamedTuple):
    """Balances over instants, as arrays with one value for each balance.

    ``addresses`` are address numbers, ``balances`` are raw, as limbs (64-bit words, see ``bigint``). A balance is valid
    from the instant with the index ``firsts`` to the one with the index ``lasts`` (excluded).
    """

    addresses: Array
    balances: Array
    firsts: Array
    lasts: Array

    def at(self, places: Array | slice) -> Rows:
        """Return the rows at the indices ``places``."""
        return Rows(*(column[places] for column in self))


@dataclass(frozen=True)
class TokenBalances:
    """The balances of a token at several instants, as raw amounts.

    ``supplies`` has the supply at each instant. ``rows`` are the balances above zero, by descending balance, then
    address. ``negative`` are those below zero, the lowest first.
    """

    supplies: list[int]
    rows: Rows
    negative: Rows


def largest(rows: Rows, instants: int, count: int) -> tuple[Array, Array]:
    """Return the ``count`` largest rows at each instant, as two arrays: indices of instants, and indices of rows.

    The result is sorted by instant, then rank. ``instants`` is the number of instants.
    """
    size = 4 * count
    while size < len(rows.addresses) and _counts_at(rows.at(slice(size)), instants).min() < count:
        size *= 2
    firsts, lasts = rows.firsts[:size].astype(np.int64), rows.lasts[:size].astype(np.int64)
    instant_of, places = expand_ranges(firsts, lasts), np.repeat(np.arange(len(firsts)), lasts - firsts)
    order = np.argsort(instant_of, kind="stable")
    instant_of, places = instant_of[order], places[order]
    is_largest = np.arange(len(instant_of)) - np.searchsorted(instant_of, instant_of) < count
    return instant_of[is_largest], places[is_largest]


def sums_at(rows: Rows, instants: int) -> list[int]:
    """Return the exact sum of the balances at each instant; ``instants`` is the number of instants."""
    sums = np.zeros((instants + 1, 2 * rows.balances.shape[1]), np.int64)
    aggregates.add_intervals(rows.balances, rows.firsts, rows.lasts, sums)
    return digits_to_ints(np.cumsum(sums, axis=0)[:-1])


def _counts_at(rows: Rows, instants: int) -> Array:
    """Return the number of rows at each instant; ``instants`` is the number of instants."""
    begun, ended = (np.bincount(ends, minlength=instants + 1) for ends in (rows.firsts, rows.lasts))
    counts: Array = np.cumsum(begun - ended)[:instants]
    return counts


class BalanceReader:
    """Reader of a token's balances at the end of each of the ascending unix ``seconds``.

    The first of the ``parts`` is the base. The reader computes which balances differ from those of the base, because of
    newer parts or of the transfers of a day that is not over.
    """

    def __init__(self, view: View, parts: list[Part], seconds: Array) -> None:
        self._dictionary: Dictionary = view.dictionary
        self._zero = view.zero
        self._instants = len(seconds)
        # the intervals of a day have the balances at the end of its last second; there are many intervals and few days,
        # so the position of the first instant after each day is computed once
        days = (seconds + 1) // DAY - 1
        self._first_day = int(days[0])
        self._instant_of = np.searchsorted(days, np.arange(days[0], days[-1] + 2)).astype(np.int32)
        self._base = parts[0] if parts else None
        zero = np.array([self._zero], np.int32)
        self._zero_places = self._places(self._base, zero) if self._base else zero[:0]
        self._changed, self._replaced, self._now = self._changes(parts, seconds)

    def _spans(self, part: Part, places: Array | slice) -> tuple[Array, Array]:
        """Return two arrays with a value for each of the part's intervals at the indices ``places``.

        Both have indices of requested seconds: of the first second in the interval, and of the first second after it.
        """
        last_place = len(self._instant_of) - 1
        days = (part.first_days[places].astype(np.int64), part.end_days[places].astype(np.int64))
        firsts, lasts = (self._instant_of[np.clip(ends - self._first_day, 0, last_place)] for ends in days)
        return firsts, lasts

    def _places(self, part: Part, addresses: Array) -> Array:
        """Return the rows of the part's intervals that belong to one of ``addresses`` (ascending) and include an
        instant."""
        days = (self._first_day, self._first_day + len(self._instant_of) - 1)
        numbers = addresses.astype(np.int32)
        places = intervals_of(numbers, part.index, part.places, part.first_days, part.end_days, *days)
        firsts, lasts = self._spans(part, places)
        included: Array = places[firsts < lasts]
        return included

    def _intervals(self, part: Part, places: Array) -> Rows:
        """Return the part's intervals with the row numbers ``places``, with indices of requested seconds instead of
        days."""
        return Rows(part.holders[places], part.balances[places], *self._spans(part, places))

    def _changes(self, parts: list[Part], seconds: Array) -> tuple[Array, Array, Rows]:
        """Return three values about the addresses whose balances differ from the base at one or more instants.

        The first has their address numbers, ascending. The second has the rows of the base with their intervals. The
        third has their balances at all instants.
        """
        pieces = []
        for part in parts[1:]:
            firsts, lasts = self._spans(part, slice(None))
            included = np.flatnonzero(firsts < lasts)
            pieces.append(
                Rows(part.holders[included], to_digits(part.balances[included]), firsts[included], lasts[included])
            )
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
        if len(parts) > 1:  # the width of a part has room for the sums of that part only
            width = sum_width(width)
        rows = self._added_up(
            [piece._replace(balances=to_digits(resized(from_digits(piece.balances), width))) for piece in pieces]
        )
        return changed, places, rows._replace(balances=fit_width(rows.balances, self._base.balances.shape[1]))

    def _added_up(self, pieces: list[Rows]) -> Rows:
        """Return the balances of each address as the sums over all ``pieces``.

        Each sum is valid until the next instant at which the address's balance changes. The balances in ``pieces`` are
        rows of 32-bit digits. The balances of the result are limbs.
        """
        all_rows = Rows(*(np.concatenate(column) for column in zip(*pieces, strict=True)))
        keys = all_rows.addresses.astype(np.int64) * (self._instants + 1)
        keys, deltas = (
            np.concatenate([keys + all_rows.firsts, keys + all_rows.lasts]),
            np.concatenate([all_rows.balances, -all_rows.balances]),
        )
        order = np.argsort(keys, kind="stable")
        starts = np.flatnonzero(np.diff(keys[order], prepend=-1))
        keys = keys[order[starts]]
        # each piece is subtracted at its last instant, so the running sum of an address begins at 0
        reached = from_digits(np.cumsum(np.add.reduceat(deltas[order], starts, axis=0), axis=0))
        addresses, firsts = np.divmod(keys, self._instants + 1)
        lasts = np.append(firsts[1:], 0)
        nonzero = np.flatnonzero(is_nonzero(reached))
        return Rows(
            addresses[nonzero].astype(np.int32),
            reached[nonzero],
            firsts[nonzero].astype(np.int32),
            lasts[nonzero].astype(np.int32),
        )

    @cached_property
    def supplies(self) -> list[int]:
        """The raw supply at each instant: minted minus burnt amounts."""
        supplies = [0] * self._instants
        if self._base is None:
            return supplies
        rows = self._now.at(self._now.addresses == self._zero)
        if not (self._changed == self._zero).any():
            rows = self._intervals(self._base, self._zero_places)
        for balance, begin, end in zip(to_ints(rows.balances), rows.firsts.tolist(), rows.lasts.tolist(), strict=True):
            supplies[begin:end] = [-balance] * (end - begin)
        return supplies

    def balances(self, start: int, count: int | None) -> TokenBalances:
        """Return the balances in the base from its row ``start`` on, and all balances that differ from the base.

        If ``count`` is given, the result has at least the ``count`` largest holders at each instant, and smaller
        holders may be missing. None returns all holders.
        """
        if self._base is None:
            return TokenBalances(self.supplies, _no_rows(), _no_rows())
        rows = self._merge(self._base, start, count)
        above = count_positive(rows.balances)
        return TokenBalances(
            self.supplies, rows.at(slice(above)), rows.at(slice(None, above - 1 if above else None, -1))
        )

    def negative(self) -> Rows:
        """Return only the balances below zero. The other balances are not read."""
        start = count_positive(self._base.balances) if self._base else 0
        return self.balances(start, None).negative

    def _merge(self, base: Part, start: int, count: int | None) -> Rows:
        """Return the balances of all addresses except the zero address, by descending balance, then address.

        The balances of an address that differs from the base are its new balances. Those of any other address are its
        intervals in the base, from row ``start`` on. With ``count``, holders that are not among the ``count`` largest
        at any instant may be missing.
        """
        left_out = np.union1d(self._replaced, self._zero_places)
        days = (self._first_day, self._instant_of)
        intervals, stop = (base.first_days, base.end_days, start), len(base.holders)
        if count is not None:
            stop = enough_rows(*intervals, left_out, *days, self._instants, count)
        new_rows = self._now.at(self._now.addresses != self._zero)
        width = max(base.balances.shape[1], new_rows.balances.shape[1])
        new_rows = new_rows._replace(balances=resized(new_rows.balances, width))
        new_rows = new_rows.at(self._order(new_rows))
        places = self._places_of_new(new_rows, base, start, stop)
        rows = np.empty(stop - start, np.int32)
        rows = rows[: kept_rows(*intervals, stop, left_out, *days, rows)]
        size = len(rows) + len(places)
        all_rows = Rows(*(np.empty((size, *column.shape[1:]), column.dtype) for column in new_rows))
        merge_rows(
            base.holders, base.balances, base.first_days, base.end_days, *days, rows, *new_rows, places, *all_rows
        )
        return all_rows

    def _order(self, rows: Rows) -> Array:
        """Return the indices that sort rows by descending balance, then address."""
        order = descending_order(rows.balances)
        tied = equal_neighbours(*rows.balances[order].T)
        among = order[tied]
        numbers, inverse = np.unique(rows.addresses[among], return_inverse=True)
        order[tied] = among[descending_order(rows.balances[among], self._dictionary.ranks(numbers)[inverse])]
        return order

    def _places_of_new(self, new_rows: Rows, base: Part, start: int, stop: int) -> Array:
        """Return for each of ``new_rows`` the row of the base before which it belongs, between ``start`` and
        ``stop``.

        The intervals of the base and the new rows are sorted by descending balance, then address.
        """
        places, ends = descending_insertion_points(base.balances, new_rows.balances, start, stop)
        tied = np.flatnonzero(places < ends)
        # most have the balance of the base at the end of the day, and so their own interval is at the position
        own_places = places_of_holders(base.holders, new_rows.addresses[tied], places[tied], ends[tied], _FEW_EQUALS)
        undecided = np.flatnonzero((own_places < 0) & (ends[tied] - places[tied] > _FEW_EQUALS))
        own_places[undecided] = _same_intervals(base, new_rows.at(tied[undecided]))
        places[tied] = np.where(own_places < 0, places[tied], own_places)
        tied = tied[own_places < 0]
        if len(tied):
            addresses = new_rows.addresses[tied]
            places[tied] = self._places_among_equals(addresses, base.holders, places[tied], ends[tied])
        return places

    def _places_among_equals(self, newcomers: Array, addresses: Array, starts: Array, ends: Array) -> Array:
        """Return for each of ``newcomers`` the index at which it belongs in ``addresses``, by alphabetical order.

        Newcomer n belongs between ``starts[n]`` and ``ends[n]``. Between them, ``addresses`` are in alphabetical order.
        """
        find = self._dictionary.beginnings
        beginnings = find(newcomers)
        firsts = insertion_points(beginnings, lambda places: find(addresses[places]), starts, ends)
        lasts = insertion_points(beginnings, lambda places: find(addresses[places]), firsts, ends, after_equals=True)
        for place in np.flatnonzero(firsts < lasts).tolist():
            # their beginnings are equal, so the complete texts decide
            (text,) = self._dictionary.texts(newcomers[place : place + 1])
            texts = self._dictionary.texts(addresses[firsts[place] : lasts[place]])
            firsts[place] += bisect_left(texts, text)
        return firsts

    def page(self, limit: int, after_holder: tuple[int, str] | None) -> Rows:
        """Return the ``limit`` largest holders, by descending balance, then address.

        If ``after_holder`` (raw balance, address) is given, return the ``limit`` holders that follow this holder.
        """
        if after_holder is None:
            return self.balances(0, limit).rows.at(slice(limit))
        balance, address = after_holder
        rows = self.balances(self._place_after(balance, address), limit).rows
        holders = zip(to_ints(rows.balances), self._dictionary.texts(rows.addresses), strict=True)
        beyond = [
            place for place, (raw_amount, text) in enumerate(holders) if (-raw_amount, text) > (-balance, address)
        ]
        return rows.at(np.array(beyond[:limit], np.int64))

    def _place_after(self, balance: int, address: str) -> int:
        """Return the first row of the base that comes after the raw balance and the address, in the order of
        holders."""
        base = self._base
        low, high = 0, len(base.holders) if base else 0
        while base and low < high:
            middle = (low + high) // 2
            (middle_balance,) = to_ints(base.balances[middle : middle + 1])
            (holder,) = self._dictionary.texts(base.holders[middle : middle + 1])
            if (-middle_balance, holder) <= (-balance, address):
                low = middle + 1
            else:
                high = middle
        return low


def _places_of(part: Part, addresses: Array) -> tuple[Array, Array]:
    """Return two arrays with a value for each interval that the addresses have in the part.

    The first has the index into ``addresses`` of the interval's holder, the second the interval's row in the part.
    """
    addresses = addresses.astype(np.int32)  # with another type, numpy would copy the index
    starts, ends = (np.searchsorted(part.index, addresses, side=side) for side in ("left", "right"))
    return np.repeat(np.arange(len(addresses)), ends - starts), part.places[expand_ranges(starts, ends)]


def _same_intervals(base: Part, new_rows: Rows) -> Array:
    """Return for each row of ``new_rows`` the index of the row of ``base`` with the same address and balance, or -1."""
    row_places, places = _places_of(base, new_rows.addresses)
    is_same = (resized(base.balances[places], new_rows.balances.shape[1]) == new_rows.balances[row_places]).all(axis=1)
    base_places = np.full(len(new_rows.addresses), -1)
    base_places[row_places[is_same]] = places[is_same]
    return base_places


def _no_rows() -> Rows:
    nothing = np.empty(0, np.int32)
    return Rows(nothing, np.empty((0, 1), np.uint64), nothing, nothing)
