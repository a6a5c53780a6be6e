"""Sums over the balances of a token's holders at each of many instants, in loops that numba compiles.

A row is a balance that an address has from its first instant to its last instant (excluded). Rows are sorted by
descending balance. A digit is 32 bits of a balance, the lowest digit first.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from holderlake.engine.numeric.bigint import Array
from holderlake.engine.numeric.graph_kernels import compiled


@compiled
def descending_places(limbs: Array) -> Array:
    """Return the indices that sort exact integers (limbs) in descending order; equal ones keep their order.

    This is a radix sort, three times as fast as numpy's sorts for 100,000 numbers.
    """
    count, width = limbs.shape
    order, next_order = np.arange(count, dtype=np.int32), np.empty(count, np.int32)
    keys, next_keys, starts = np.empty(count, np.uint64), np.empty(count, np.uint64), np.empty(2_049, np.int64)
    for limb in range(width):
        flipped = np.uint64(1) << np.uint64(63) if limb == width - 1 else np.uint64(0)  # the sign of the number
        for place in range(count):
            keys[place] = ~limbs[order[place], limb] ^ flipped
        for shift in range(0, 64, 11):
            starts[:] = 0
            for place in range(count):
                starts[np.int64((keys[place] >> np.uint64(shift)) & np.uint64(2_047)) + 1] += 1
            if starts.max() == count:
                continue  # the digit is the same in all numbers
            for digit in range(2_048):
                starts[digit + 1] += starts[digit]
            for place in range(count):
                own = np.int64((keys[place] >> np.uint64(shift)) & np.uint64(2_047))
                next_order[starts[own]], next_keys[starts[own]] = order[place], keys[place]
                starts[own] += 1
            order, next_order, keys, next_keys = next_order, order, next_keys, keys
    return order


@compiled
def _digit(limbs: Array, row: int, place: int) -> Any:
    return np.int64((limbs[row, place >> 1] >> np.uint64(32 * (place & 1))) & np.uint64(0xFFFFFFFF))


@compiled
def add_intervals(limbs: Array, firsts: Array, lasts: Array, sums: Array) -> None:
    """Add each row's digits to ``sums`` (instants x digits) at its first instant, and subtract them at its last.

    The running total of ``sums`` over the instants is then the sum of the balances at each instant. ``limbs`` are the
    balances, ``firsts`` and ``lasts`` the instants of each row.
    """
    for row in range(len(firsts)):
        for place in range(sums.shape[1]):
            digit = _digit(limbs, row, place)
            sums[firsts[row], place] += digit
            sums[lasts[row], place] -= digit


@compiled
def interval_aggregates(
    limbs: Array, size: int, firsts: Array, lasts: Array, instants: int
) -> tuple[Array, Array, Array, Array, Array]:
    """Return five aggregates of the balances at each instant, as arrays with a value or a row of digits for each
    instant.

    The aggregates are:

    - the number of balances,
    - the digits of their sum,
    - the digits of the sum of their squares,
    - the digits of the sum of each balance times its rank (from 1),
    - the least number of the largest balances that make at least half of the sum.

    Rows (``limbs``) are sorted by descending balance and count from their first to their last instant (excluded).
    ``size`` is the number of digits of a balance. A digit of a result may exceed 32 bits.
    """
    counts, totals = np.zeros(instants, np.int64), np.zeros((instants, size), np.int64)
    squares, weighted = np.zeros((instants, 2 * size), np.int64), np.zeros((instants, size + 1), np.int64)
    digits, square = np.zeros(size, np.int64), np.zeros(2 * size, np.int64)
    for row in range(len(firsts)):
        square[:] = 0
        for place in range(size):
            digits[place] = _digit(limbs, row, place)
            for lower_place in range(place + 1):
                times = 1 + (lower_place < place)
                product = np.uint64(digits[place]) * np.uint64(digits[lower_place])
                square[place + lower_place] += times * np.int64(product & np.uint64(0xFFFFFFFF))
                square[place + lower_place + 1] += times * np.int64(product >> np.uint64(32))
        for instant in range(firsts[row], lasts[row]):
            counts[instant] += 1
            for place in range(size):
                totals[instant, place] += digits[place]
                product_of_rank = digits[place] * counts[instant]
                weighted[instant, place] += product_of_rank & 0xFFFFFFFF
                weighted[instant, place + 1] += product_of_rank >> 32
            for place in range(2 * size):
                squares[instant, place] += square[place]
    return counts, totals, squares, weighted, _halves(limbs, firsts, lasts, totals)


@compiled
def _halves(limbs: Array, firsts: Array, lasts: Array, totals: Array) -> Array:
    """Return, for each instant, the least number of the largest balances that make at least half of the total."""
    instants, size = totals.shape
    halves, ranks, sums = np.zeros(instants, np.int64), np.zeros(instants, np.int64), np.zeros_like(totals)
    found = 0
    for row in range(len(firsts)):
        if found == instants:
            break
        for instant in range(firsts[row], lasts[row]):
            if halves[instant]:
                continue
            ranks[instant] += 1
            difference = 0
            for place in range(size):
                sums[instant, place] += _digit(limbs, row, place)
                difference = (difference >> 32) + 2 * sums[instant, place] - totals[instant, place]
            if difference >= 0:
                halves[instant] = ranks[instant]
                found += 1
    return halves
