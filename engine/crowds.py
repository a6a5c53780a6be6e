"""Loops over the balances of a token's holders: merged in their order, and summed at each of many instants. Compiled
as those of ``kernels``; what is large is made by who calls them, for numpy asks the system for large pages.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from engine.kernels import compiled, is_in
from engine.words import Array

# ---------------------------------------------------------------------- balances in their order


@compiled
def _instant(day: int, first_day: int, instant_of: Array) -> Any:
    return instant_of[min(max(day - first_day, 0), len(instant_of) - 1)]


@compiled
def enough_rows(
    holders: Array,
    first_days: Array,
    end_days: Array,
    start: int,
    left_out: Array,
    first_day: int,
    instant_of: Array,
    instants: int,
    most: int,
) -> int:
    """The row of the intervals, from the start on, before which there are ``most`` that hold at each of the instants;
    ``left_out`` are slots of addresses that do not count."""
    counts, short = np.zeros(instants, np.int64), instants
    for row in range(start, len(holders)):
        if short == 0:
            return row
        first, last = _instant(first_days[row], first_day, instant_of), _instant(end_days[row], first_day, instant_of)
        if first == last or is_in(left_out, holders[row]):
            continue
        for instant in range(first, last):
            counts[instant] += 1
            short -= counts[instant] == most
    return len(holders)


@compiled
def kept_rows(
    holders: Array,
    first_days: Array,
    end_days: Array,
    start: int,
    stop: int,
    left_out: Array,
    first_day: int,
    instant_of: Array,
    rows: Array,
) -> int:
    """Puts into ``rows`` the intervals from start to stop that hold at some instant, but for addresses in the slots
    ``left_out``, and tells how many they are."""
    count, last_day = 0, first_day + len(instant_of) - 1
    for row in range(start, stop):  # without a branch, for nobody could foretell it
        rows[count] = row
        count += (first_days[row] < last_day) & (end_days[row] > first_day)
    kept = 0
    for place in range(count):
        row = rows[place]
        rows[kept] = row
        first = _instant(first_days[row], first_day, instant_of)
        holds = first < _instant(end_days[row], first_day, instant_of)
        kept += holds & (not is_in(left_out, holders[row]))
    return kept


@compiled
def merge_rows(
    holders: Array,
    balances: Array,
    first_days: Array,
    end_days: Array,
    first_day: int,
    instant_of: Array,
    rows: Array,
    new_holders: Array,
    new_balances: Array,
    new_firsts: Array,
    new_lasts: Array,
    places: Array,
    found_holders: Array,
    found_balances: Array,
    firsts: Array,
    lasts: Array,
) -> None:
    """Puts into the last four the intervals' ``rows`` and new ones, which stand before the intervals at their rising
    places: holders, balances, first and last instants (excluded)."""
    kept, lane, wide = len(rows), balances.shape[1], new_balances.shape[1]
    found, new = 0, 0
    for place in range(kept + 1):
        while new < len(places) and (place == kept or places[new] <= rows[place]):
            found_holders[found], firsts[found], lasts[found] = new_holders[new], new_firsts[new], new_lasts[new]
            for word in range(wide):
                found_balances[found, word] = new_balances[new, word]
            found, new = found + 1, new + 1
        if place == kept:
            break
        row = rows[place]
        found_holders[found] = holders[row]
        firsts[found] = _instant(first_days[row], first_day, instant_of)
        lasts[found] = _instant(end_days[row], first_day, instant_of)
        for word in range(lane):
            found_balances[found, word] = balances[row, word]
        for word in range(lane, wide):  # the sign goes on
            found_balances[found, word] = np.uint64(np.int64(balances[row, lane - 1]) >> 63)
        found += 1


# ---------------------------------------------------------------------- sums of balances


@compiled
def _limb(words: Array, row: int, place: int) -> Any:
    return np.int64((words[row, place >> 1] >> np.uint64(32 * (place & 1))) & np.uint64(0xFFFFFFFF))


@compiled
def _carry(limbs: Array) -> None:
    for place in range(len(limbs) - 1):
        limbs[place + 1] += limbs[place] >> 32
        limbs[place] &= 0xFFFFFFFF


@compiled
def by_instant(instants: Array, others: Array, count: int) -> tuple[Array, Array]:
    """Rows by their instants, of which there are so many, rising within each; and where each instant's begin. Rows of
    later instants, and those whose other instant is the same, are left out."""
    starts = np.zeros(count + 1, np.int64)
    for row in range(len(instants)):
        if instants[row] < count and instants[row] != others[row]:
            starts[instants[row] + 1] += 1
    for instant in range(count):
        starts[instant + 1] += starts[instant]
    rows, filled = np.empty(starts[count], np.int32), starts.copy()
    for row in range(len(instants)):
        if instants[row] < count and instants[row] != others[row]:
            rows[filled[instants[row]]] = row
            filled[instants[row]] += 1
    return rows, starts


@compiled
def add_spans(words: Array, firsts: Array, lasts: Array, sums: Array) -> None:
    """Adds each number's limbs to the row of its first instant and takes them from the row of its last: added up row
    after row, they are the sums at each instant."""
    for row in range(len(firsts)):
        for place in range(sums.shape[1]):
            limb = _limb(words, row, place)
            sums[firsts[row], place] += limb
            sums[lasts[row], place] -= limb


@compiled
def _square(words: Array, row: int, sign: int, size: int, squares: Array) -> None:
    for one in range(size):
        for other in range(size):
            product = np.uint64(_limb(words, row, one)) * np.uint64(_limb(words, row, other))
            squares[one + other] += sign * np.int64(product & np.uint64(0xFFFFFFFF))
            squares[one + other + 1] += sign * np.int64(product >> np.uint64(32))
    _carry(squares)


@compiled
def _before(words: Array, row: int, active: Array, counts: Array, sums: Array, size: int, reached: Array) -> int:
    """How many numbers are active before the row; their limbs' sums are put into ``reached``."""
    reached[:] = 0
    found, block = 0, row >> 6
    while block > 0:
        found += counts[block]
        for place in range(size):
            reached[place] += sums[block, place]
        block &= block - 1
    for other in range(row & ~63, row):
        if active[other]:
            found += 1
            for place in range(size):
                reached[place] += _limb(words, other, place)
    return found


@compiled
def _change(
    words: Array,
    row: int,
    sign: int,
    active: Array,
    counts: Array,
    sums: Array,
    size: int,
    total: Array,
    squares: Array,
    weighted: Array,
    reached: Array,
) -> None:
    if sign < 0:
        active[row] = False
        for place in range(size):
            total[place] -= _limb(words, row, place)
    rank = _before(words, row, active, counts, sums, size, reached) + 1
    for place in range(len(weighted)):  # those after it stand one place further down with it
        own = _limb(words, row, place) if place < size else 0
        weighted[place] += sign * (rank * own + total[place] - reached[place])
    _carry(weighted)
    if sign > 0:
        active[row] = True
        for place in range(size):
            total[place] += _limb(words, row, place)
    _carry(total)
    _square(words, row, sign, size, squares)
    block = (row >> 6) + 1
    while block < len(counts):
        counts[block] += sign
        for place in range(size):
            sums[block, place] += sign * _limb(words, row, place)
        block += block & -block


@compiled
def _reaches_half(reached: Array, total: Array) -> bool:
    difference = 2 * reached - total
    _carry(difference)
    return bool(difference[-1] >= 0)


@compiled
def _half(words: Array, active: Array, counts: Array, sums: Array, size: int, total: Array) -> int:
    """How many of the first active numbers together make half of the total."""
    step, block, found = 1, 0, 0
    while 2 * step < len(counts):
        step *= 2
    reached, tried = np.zeros_like(total), np.zeros_like(total)
    while step:
        if block + step < len(counts):
            tried[:] = reached
            for place in range(size):
                tried[place] += sums[block + step, place]
            if not _reaches_half(tried, total):
                block += step
                reached[:] = tried
                found += counts[block]
        step //= 2
    for row in range(64 * block, min(64 * block + 64, len(active))):
        if active[row]:
            if _reaches_half(reached, total):
                break
            found += 1
            for place in range(size):
                reached[place] += _limb(words, row, place)
    return found


@compiled
def crowd_sums(
    words: Array, size: int, begins: Array, begin_starts: Array, ends: Array, end_starts: Array
) -> tuple[Array, Array, Array, Array, Array]:
    """Of numbers that stand by falling size, each active for some instants: at each instant the number of active ones,
    and as limbs their sum, the sum of their squares and that of each times its place (from 1); and how many of the
    largest make half of the sum.

    ``begins`` are the rows by their first instant (``begin_starts`` where each instant's begin), ``ends`` those that
    end before the last instant. ``size`` limbs of each number are looked at. Sums by blocks of 64 rows stand in a
    Fenwick tree, so a change costs the logarithm of their number.
    """
    rows, instants = len(words), len(begin_starts) - 1
    blocks = (rows + 63) // 64
    active = np.zeros(rows, np.bool_)
    counts, sums = np.zeros(blocks + 1, np.int64), np.zeros((blocks + 1, size), np.int64)
    total, weighted = np.zeros(size + 2, np.int64), np.zeros(size + 2, np.int64)
    squares, reached = np.zeros(2 * size + 2, np.int64), np.zeros(size + 2, np.int64)
    count = 0
    told_counts, told_halves = np.zeros(instants, np.int64), np.zeros(instants, np.int64)
    told_totals, told_weighted = np.zeros((instants, size + 2), np.int64), np.zeros((instants, size + 2), np.int64)
    told_squares = np.zeros((instants, 2 * size + 2), np.int64)
    for now in range(instants):
        if now == 0:
            for place in range(begin_starts[0], begin_starts[1]):
                row = begins[place]
                active[row], block = True, (row >> 6) + 1
                count += 1
                counts[block] += 1
                for limb in range(size):
                    value = _limb(words, row, limb)
                    sums[block, limb] += value
                    total[limb] += value
                    weighted[limb] += (count * value) & 0xFFFFFFFF
                    weighted[limb + 1] += (count * value) >> 32
                    for other in range(limb + 1):
                        product, twice = np.uint64(value) * np.uint64(_limb(words, row, other)), 1 + (other < limb)
                        squares[limb + other] += twice * np.int64(product & np.uint64(0xFFFFFFFF))
                        squares[limb + other + 1] += twice * np.int64(product >> np.uint64(32))
                if count & 0xFFFFF == 0:  # what so many rows add to a limb fits into its word
                    _carry(weighted)
                    _carry(squares)
            _carry(total)
            _carry(weighted)
            _carry(squares)
            for block in range(1, blocks + 1):
                above = block + (block & -block)
                if above <= blocks:
                    counts[above] += counts[block]
                    sums[above] += sums[block]
        else:
            for place in range(end_starts[now], end_starts[now + 1]):
                _change(words, ends[place], -1, active, counts, sums, size, total, squares, weighted, reached)
                count -= 1
            for place in range(begin_starts[now], begin_starts[now + 1]):
                _change(words, begins[place], 1, active, counts, sums, size, total, squares, weighted, reached)
                count += 1
        told_counts[now], told_totals[now], told_squares[now], told_weighted[now] = count, total, squares, weighted
        told_halves[now] = _half(words, active, counts, sums, size, total) if count else 0
    return told_counts, told_totals, told_squares, told_weighted, told_halves
