"""Balances of a token at several seconds, as arrays, from the balances of its parts.

``balances`` has the queries that use them.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final, NamedTuple

import numpy as np

from holderlake.engine.files.arrays import are_among, expand_ranges
from holderlake.engine.files.dictionary import Dictionary
from holderlake.engine.files.listing import View
from holderlake.engine.numeric import aggregates
from holderlake.engine.numeric.bigint import (
    Array,
    concatenated,
    count_positive,
    descending_order,
    digits_to_ints,
    equal_neighbours,
    fit_width,
    from_digits,
    is_nonzero,
    resized,
    rough_sizes,
    sum_width,
    to_digits,
    to_ints,
)
from holderlake.engine.records import Key

_LOWEST: Final = 128
"""The number of lowest balances that are always in the order of their addresses; maps list up to 100."""


class BalanceSpans(NamedTuple):
    """Balances over instants, as arrays with one value for each balance.

    ``addresses`` are address numbers, ``balances`` are raw, as limbs (64-bit words, see ``bigint``). A balance is valid
    from the instant with the index ``firsts`` to the one with the index ``lasts`` (excluded).
    """

    addresses: Array
    balances: Array
    firsts: Array
    lasts: Array

    def at(self, places: Array | slice) -> BalanceSpans:
        """Return the rows at the indices ``places``, or where the mask ``places`` is True."""
        if isinstance(places, slice) or places.dtype == np.bool_:
            return BalanceSpans(*(column[places] for column in self))
        return BalanceSpans(
            *(column.take(places, axis=0) for column in self)
        )  # ten times as fast as an index for limbs


@dataclass(frozen=True)
class TokenBalances:
    """The balances of a token at several instants, as raw amounts.

    ``supplies`` has the supply at each instant. ``rows`` are the balances above zero, by descending balance, then
    address. ``negative`` are those below zero, the lowest first.
    """

    supplies: list[int]
    rows: BalanceSpans
    negative: BalanceSpans


def largest(rows: BalanceSpans, instants: int, count: int) -> tuple[Array, Array]:
    """Return the ``count`` largest rows at each instant, as two arrays: indices of instants, and indices of rows.

    The result is sorted by instant, then rank. ``instants`` is the number of instants.
    """
    size = _enough(rows, instants, count)
    firsts, lasts = rows.firsts[:size].astype(np.int64), rows.lasts[:size].astype(np.int64)
    instant_of, places = expand_ranges(firsts, lasts), np.repeat(np.arange(len(firsts)), lasts - firsts)
    order = np.argsort(instant_of, kind="stable")
    instant_of, places = instant_of[order], places[order]
    is_largest = np.arange(len(instant_of)) - np.searchsorted(instant_of, instant_of) < count
    return instant_of[is_largest], places[is_largest]


def _enough(rows: BalanceSpans, instants: int, count: int, order: Array | None = None) -> int:
    """Return a number of rows, the first of which give each instant ``count`` rows; all if there are too few.

    ``order`` has the indices that sort the rows; None if they are sorted.
    """
    size = 4 * count
    while size < len(rows.addresses):
        first_rows = rows.at(slice(size) if order is None else order[:size])
        if _counts_at(first_rows, instants).min() >= count:
            break
        size *= 2
    return min(size, len(rows.addresses))


def sums_at(rows: BalanceSpans, instants: int) -> list[int]:
    """Return the exact sum of the balances at each instant; ``instants`` is the number of instants."""
    sums = np.zeros((instants + 1, 2 * rows.balances.shape[1]), np.int64)
    aggregates.add_intervals(rows.balances, rows.firsts, rows.lasts, sums)
    return digits_to_ints(np.cumsum(sums, axis=0)[:-1])


def _counts_at(rows: BalanceSpans, instants: int) -> Array:
    """Return the number of rows at each instant; ``instants`` is the number of instants."""
    begun, ended = (np.bincount(ends, minlength=instants + 1) for ends in (rows.firsts, rows.lasts))
    counts: Array = np.cumsum(begun - ended)[:instants]
    return counts


def negative_at(view: View, key: Key, seconds: Array) -> BalanceSpans:
    """Return the balances below zero of a token (chain, address) at the end of each of the ascending unix
    ``seconds``."""
    return read_balances(view, key, seconds, below_zero=len(view.balances(key)) == 1).negative


def read_balances(
    view: View,
    key: Key,
    seconds: Array,
    count: int | None = None,
    *,
    only_largest: bool = False,
    below_zero: bool = False,
) -> TokenBalances:
    """Return all balances of a token (chain, address) at the end of each of the ascending unix ``seconds``.

    If ``count`` is given, equal balances are in the order of their addresses only among the ``count`` largest of each
    second, and the lowest ones. With ``only_largest``, smaller balances may be missing; with ``below_zero``, all that
    are above zero.
    """
    parts = view.balances(key)
    rows, *later_parts = [BalanceSpans(*part.at(seconds, below_zero=below_zero)) for part in parts] or [_no_rows()]
    later_parts = [part for part in later_parts if len(part.addresses)]
    if later_parts:
        rows = _with_changes(rows, later_parts, len(seconds))
    zero = np.flatnonzero(rows.addresses == view.zero)
    supplies = [0] * len(seconds)
    of_zero = rows.at(zero)
    for balance, begin, end in zip(to_ints(of_zero.balances), of_zero.firsts, of_zero.lasts, strict=True):
        supplies[begin:end] = [-balance] * (end - begin)
    if only_largest and count is not None and len(seconds) == 1 and count < len(rows.addresses):
        sizes = rough_sizes(rows.balances)
        rows = rows.at(np.flatnonzero(sizes >= np.partition(sizes, -count)[-count]))
    order = _order(rows, view.dictionary, len(seconds), count)
    rows = rows.at(order[rows.addresses[order] != view.zero])
    above = count_positive(rows.balances)
    return TokenBalances(supplies, rows.at(slice(above)), rows.at(slice(None, above - 1 if above else None, -1)))


def _with_changes(base: BalanceSpans, later_parts: list[BalanceSpans], instants: int) -> BalanceSpans:
    """Return the balances of the large part ``base`` with those of the ``later_parts`` added."""
    is_changed = are_among(base.addresses, np.concatenate([part.addresses for part in later_parts]))
    pieces = [base.at(np.flatnonzero(is_changed)), *later_parts]
    width = sum_width(max(piece.balances.shape[1] for piece in pieces))  # the width of a part is for that part only
    summed = _added_up(
        [piece._replace(balances=to_digits(resized(piece.balances, width))) for piece in pieces], instants
    )
    unchanged = base.at(np.flatnonzero(~is_changed))
    balances = concatenated(unchanged.balances, fit_width(summed.balances, unchanged.balances.shape[1]))
    addresses, firsts, lasts = (
        np.concatenate([getattr(unchanged, name), getattr(summed, name)]) for name in ("addresses", "firsts", "lasts")
    )
    return BalanceSpans(addresses, balances, firsts, lasts)


def _added_up(pieces: list[BalanceSpans], instants: int) -> BalanceSpans:
    """Return the balances of each address as the sums over all ``pieces``.

    Each sum is valid until the next instant at which the address's balance changes. The balances in ``pieces`` are
    rows of 32-bit digits. The balances of the result are limbs.
    """
    all_rows = BalanceSpans(*(np.concatenate(column) for column in zip(*pieces, strict=True)))
    keys = all_rows.addresses.astype(np.int64) * (instants + 1)
    keys, deltas = (
        np.concatenate([keys + all_rows.firsts, keys + all_rows.lasts]),
        np.concatenate([all_rows.balances, -all_rows.balances]),
    )
    order = np.argsort(keys, kind="stable")
    starts = np.flatnonzero(np.diff(keys[order], prepend=-1))
    keys = keys[order[starts]]
    # each piece is subtracted at its last instant, so the running sum of an address begins at 0
    reached = from_digits(np.cumsum(np.add.reduceat(deltas[order], starts, axis=0), axis=0))
    addresses, firsts = np.divmod(keys, instants + 1)
    lasts = np.append(firsts[1:], 0)
    nonzero = np.flatnonzero(is_nonzero(reached))
    return BalanceSpans(
        addresses[nonzero].astype(np.int32),
        reached[nonzero],
        firsts[nonzero].astype(np.int32),
        lasts[nonzero].astype(np.int32),
    )


def _order(rows: BalanceSpans, dictionary: Dictionary, instants: int, count: int | None) -> Array:
    """Return the indices that sort rows by descending balance, then address (see ``read_balances``)."""
    order = aggregates.descending_places(rows.balances)
    ordered = rows.balances.take(order, axis=0)
    alike = equal_neighbours(*ordered.T)
    if count is not None and len(order):
        top = _enough(rows, instants, count, order)
        bottom = _enough(rows, instants, _LOWEST, order[::-1])
        of_alike = ordered.take(alike, axis=0)
        is_border = ((of_alike[:, None] == ordered[[top - 1, -bottom]]).all(axis=2)).any(axis=1)
        alike = alike[(alike < top) | (alike >= len(order) - bottom) | is_border]
    among = order[alike]
    numbers, inverse = np.unique(rows.addresses[among], return_inverse=True)
    order[alike] = among[descending_order(ordered.take(alike, axis=0), dictionary.ranks(numbers)[inverse])]
    return order


def _no_rows() -> BalanceSpans:
    nothing = np.empty(0, np.int32)
    return BalanceSpans(nothing, np.empty((0, 1), np.uint64), nothing, nothing)
