"""Loops over the balances of a token's holders, summed at each of many instants. Compiled as those of ``kernels``.

Balances stand by falling size, so they are gone through once, whatever the instants: what the ones so far come to at
each instant is kept as what it differs from the instant before, in a Fenwick tree that stays near the processor.
"""

from __future__ import annotations

from typing import Any, Final

import numpy as np

from holderlake.engine.numeric.bigint import Array
from holderlake.engine.numeric.graph_kernels import compiled

_NOTES: Final = 1 << 19
"""So often at most, over all instants, is noted what rows so far come to: between two notes stands the one that makes
half of the whole."""
_FEWEST: Final = 512
"""Rows from one note to the next, at least."""


@compiled
def _limb(words: Array, row: int, place: int) -> Any:
    return np.int64((words[row, place >> 1] >> np.uint64(32 * (place & 1))) & np.uint64(0xFFFFFFFF))


@compiled
def _carry(limbs: Array) -> None:
    for place in range(len(limbs) - 1):
        limbs[place + 1] += limbs[place] >> 32
        limbs[place] &= 0xFFFFFFFF


@compiled
def add_intervals(words: Array, firsts: Array, lasts: Array, sums: Array) -> None:
    """Adds each number's limbs to the row of its first instant and takes them from the row of its last: added up row
    after row, they are the sums at each instant."""
    for row in range(len(firsts)):
        for place in range(sums.shape[1]):
            limb = _limb(words, row, place)
            sums[firsts[row], place] += limb
            sums[lasts[row], place] -= limb


@compiled
def _add_square(limbs: Array, sign: int, squares: Array, instant: int) -> None:
    for one in range(len(limbs)):
        for other in range(one + 1):
            product, times = np.uint64(limbs[one]) * np.uint64(limbs[other]), sign * (1 + (other < one))
            squares[instant, one + other] += times * np.int64(product & np.uint64(0xFFFFFFFF))
            squares[instant, one + other + 1] += times * np.int64(product >> np.uint64(32))


@compiled
def _add_product(limbs: Array, instant: int, place: int, product: int) -> None:
    """Adds a product in halves, of which a thousand million fit into a word."""
    limbs[instant, place] += product & 0xFFFFFFFF
    limbs[instant, place + 1] += product >> 32


@compiled
def _add_change(
    weighted: Array, instant: int, limbs: Array, sign: int, rank: int, reached: Array, begun: Array
) -> None:
    """Adds what a row of that rank changes by beginning or ending (the sign) at an instant: its own part, and one place
    more or less for those after it that stay. These are all that stay, which are added at the end, but for those before
    it: what is ``reached`` without what has ``begun`` at the instant."""
    for place in range(len(limbs)):
        _add_product(weighted, instant, place, limbs[place] * (sign * rank))
        _add_product(weighted, instant, place, -sign * (reached[place] - begun[instant, place]))


@compiled
def _add_from(tree: Array, instant: int, limbs: Array, sign: int) -> None:
    """Adds the row, or takes it away, at the instant (not the first) and all later ones."""
    size = len(limbs)
    while instant < len(tree):
        for place in range(size):
            tree[instant, place] += sign * limbs[place]
        tree[instant, size] += sign
        instant += instant & -instant


@compiled
def _reached_at(tree: Array, instant: int, reached: Array) -> None:
    """Puts into ``reached`` what the rows so far come to at the instant: limbs of their sum, and their number."""
    for place in range(len(reached)):
        reached[place] = tree[0, place]  # what is active from the first instant on
    while instant > 0:
        for place in range(len(reached)):
            reached[place] += tree[instant, place]
        instant -= instant & -instant


@compiled
def interval_aggregates(
    words: Array, size: int, firsts: Array, lasts: Array, instants: int
) -> tuple[Array, Array, Array, Array, Array]:
    """Of numbers that stand by falling size, each active from one instant to another (excluded): at each instant the
    number of active ones, and as limbs their sum, the sum of their squares and that of each times its place (from 1);
    and how many of the largest make half of the sum.

    ``size`` limbs of each number are looked at, and of those that are smaller fewer.
    """
    tree, step = np.zeros((instants, size + 1), np.int64), max(_FEWEST, len(firsts) * instants // _NOTES)
    notes = np.zeros((max(1, -(-len(firsts) // step)), instants, size + 1), np.int64)
    squares, weighted = np.zeros((instants, 2 * size + 2), np.int64), np.zeros((instants, size + 2), np.int64)
    began, ended = np.zeros(instants, np.int64), np.zeros(instants, np.int64)
    begun = np.zeros((instants, size), np.int64)
    limbs, reached = np.zeros(size, np.int64), np.zeros(size + 1, np.int64)
    noted, width = 0, size
    for row in range(len(firsts)):
        if row == noted * step:
            for now in range(instants):
                _reached_at(tree, now, notes[noted, now])
            noted += 1
        first, last = firsts[row], lasts[row]
        if first >= last:
            continue
        for place in range(width):
            limbs[place] = _limb(words, row, place)
        while width > 1 and limbs[width - 1] == 0:  # and so it is in all rows after this one
            width -= 1
        if last < instants:
            _reached_at(tree, last, reached)
            rank = reached[size] - began[last] + ended[last] + 1  # at the instant before
            _add_change(weighted, last, limbs, -1, rank, reached, begun)
            _add_square(limbs[:width], -1, squares, last)
            _add_from(tree, last, limbs, -1)
            ended[last] += 1
        if first > 0:
            _reached_at(tree, first, reached)
            _add_change(weighted, first, limbs, 1, reached[size] + 1, reached, begun)
            _add_from(tree, first, limbs, 1)
            began[first] += 1
            for place in range(size):
                begun[first, place] += limbs[place]
        else:
            tree[0, size] += 1
            for place in range(width):
                tree[0, place] += limbs[place]
                _add_product(weighted, 0, place, limbs[place] * tree[0, size])
        _add_square(limbs[:width], 1, squares, first)
        if row & 0xFFFFF == 0:  # what so many rows add to a limb fits into its word
            _carry(squares[0])
    counts, totals = _whole(tree)
    _add_up(squares, weighted, totals, begun, began - ended)
    return counts, totals, squares, weighted, _halves(words, firsts, lasts, totals, notes, step)


@compiled
def _whole(tree: Array) -> tuple[Array, Array]:
    """How many rows are active at each instant, and the limbs of their sum."""
    size, reached = tree.shape[1] - 1, np.zeros(tree.shape[1], np.int64)
    counts, totals = np.zeros(len(tree), np.int64), np.zeros((len(tree), size + 2), np.int64)
    for now in range(len(tree)):
        _reached_at(tree, now, reached)
        counts[now], totals[now, :size] = reached[size], reached[:size]
        _carry(totals[now])
    return counts, totals


@compiled
def _add_up(squares: Array, weighted: Array, totals: Array, begun: Array, more: Array) -> None:
    """Makes sums of what they change by at each instant, in place. ``more`` is by how many rows there are more."""
    size, stay = begun.shape[1], np.zeros(totals.shape[1], np.int64)
    for now in range(len(totals)):
        if now > 0:
            stay[:] = totals[now]
            stay[:size] -= begun[now]
            _carry(stay)
            for place in range(size + 1):
                _add_product(weighted, now, place, stay[place] * more[now])
            weighted[now] += weighted[now - 1]
            squares[now] += squares[now - 1]
        _carry(weighted[now])
        _carry(squares[now])


@compiled
def _halves(words: Array, firsts: Array, lasts: Array, totals: Array, notes: Array, step: int) -> Array:
    """How many of the rows make half of the total at each instant; the notes tell what those before every so many rows
    come to then."""
    instants, width = notes.shape[1:]
    halves, reached = np.zeros(instants, np.int64), np.zeros(width, np.int64)
    for now in range(instants):
        low, high = 0, len(notes)
        while low < high:
            middle = (low + high) // 2
            if _is_half(notes[middle, now], totals, now):
                high = middle
            else:
                low = middle + 1
        note = max(low - 1, 0)
        row, reached[:] = note * step, notes[note, now]
        while not _is_half(reached, totals, now):
            if firsts[row] <= now < lasts[row]:
                reached[-1] += 1
                for place in range(width - 1):
                    reached[place] += _limb(words, row, place)
            row += 1
        halves[now] = reached[-1]
    return halves


@compiled
def _is_half(reached: Array, totals: Array, instant: int) -> bool:
    """Whether what is reached is at least half of the total, which is carried."""
    above = 0
    for place in range(totals.shape[1]):
        above = (above >> 32) - totals[instant, place]
        if place < len(reached) - 1:
            above += 2 * reached[place]
    return above >= 0
