"""Loops over the balances of a token's holders, summed at each of many instants. Compiled as those of ``kernels``."""

from __future__ import annotations

from typing import Any, Final

import numpy as np

from engine.kernels import compiled
from engine.words import Array

_SHIFT: Final = 4
_STEP: Final = 3
_LEVELS: Final = 4
"""Sums over active numbers stand in nodes: of 16 rows each, of 8 such nodes, and so on; so many levels of them."""


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
def _add_square(words: Array, row: int, sign: int, size: int, squares: Array) -> None:
    for one in range(size):
        value = np.uint64(_limb(words, row, one))
        for other in range(one + 1):
            product, times = value * np.uint64(_limb(words, row, other)), sign * (1 + (other < one))
            squares[one + other] += times * np.int64(product & np.uint64(0xFFFFFFFF))
            squares[one + other + 1] += times * np.int64(product >> np.uint64(32))


@compiled
def _add_product(limbs: Array, place: int, limb: int, times: int) -> None:
    """Adds a limb so many times (less than 2**31), in halves: a thousand million of them are added before a carry."""
    limbs[place] += (limb * times) & 0xFFFFFFFF
    limbs[place + 1] += (limb * times) >> 32


@compiled
def _add_before(words: Array, row: int, active: Array, nodes: Array, starts: Array, reached: Array) -> None:
    """Adds the active numbers before the row to what those before its node of the highest level come to."""
    width = nodes.shape[1]
    for level in range(_LEVELS - 2, -1, -1):
        shift, start = _SHIFT + _STEP * level, starts[level]
        for node in range(start + ((row >> (shift + _STEP)) << _STEP), start + (row >> shift)):
            for place in range(width):
                reached[place] += nodes[node, place]
    for other in range((row >> _SHIFT) << _SHIFT, row):
        if active[other]:
            reached[width - 1] += 1
            for place in range(width - 1):
                reached[place] += _limb(words, other, place)


@compiled
def _reaches_half(reached: Array, total: Array) -> bool:
    difference = 2 * reached - total
    _carry(difference)
    return bool(difference[-1] >= 0)


@compiled
def _half(words: Array, active: Array, nodes: Array, starts: Array, total: Array) -> int:
    """How many of the first active numbers together make half of the total."""
    size, found, node = nodes.shape[1] - 1, 0, 0
    reached, tried = np.zeros_like(total), np.zeros_like(total)
    for level in range(_LEVELS - 1, -1, -1):
        node <<= _STEP
        while starts[level] + node < starts[level + 1]:
            tried[:] = reached
            for place in range(size):
                tried[place] += nodes[starts[level] + node, place]
            if _reaches_half(tried, total):
                break
            reached[:] = tried
            found += nodes[starts[level] + node, size]
            node += 1
    for row in range(node << _SHIFT, min((node + 1) << _SHIFT, len(active))):
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
    end before the last instant. ``size`` limbs of each number are looked at. An instant's changes are made in the order
    of rows, so what stands before one is found by a few sums near it.
    """
    rows, instants = len(words), len(begin_starts) - 1
    active, starts = np.zeros(rows, np.bool_), np.zeros(_LEVELS + 1, np.int64)
    for level in range(_LEVELS):
        starts[level + 1] = starts[level] + (rows >> (_SHIFT + _STEP * level)) + 1
    nodes = np.zeros((starts[_LEVELS], size + 1), np.int64)  # sums of limbs, and how many they are
    total, weighted = np.zeros(size + 2, np.int64), np.zeros(size + 2, np.int64)
    squares = np.zeros(2 * size + 2, np.int64)
    count = 0
    told_counts, told_halves = np.zeros(instants, np.int64), np.zeros(instants, np.int64)
    told_totals, told_weighted = np.zeros((instants, size + 2), np.int64), np.zeros((instants, size + 2), np.int64)
    told_squares = np.zeros((instants, 2 * size + 2), np.int64)
    for place in range(begin_starts[0], begin_starts[1]):
        row = begins[place]
        active[row], node = True, row >> _SHIFT
        count += 1
        nodes[node, size] += 1
        for limb in range(size):
            value = _limb(words, row, limb)
            nodes[node, limb] += value
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
    for level in range(_LEVELS - 1):
        for node in range(starts[level + 1] - starts[level]):
            for place in range(size + 1):
                nodes[starts[level + 1] + (node >> _STEP), place] += nodes[starts[level] + node, place]
    for now in range(instants):
        if now > 0:
            count += _make_changes(
                words,
                ends[end_starts[now] : end_starts[now + 1]],
                begins[begin_starts[now] : begin_starts[now + 1]],
                active,
                nodes,
                starts,
                total,
                squares,
                weighted,
            )
        _carry(total)
        _carry(weighted)
        _carry(squares)
        told_counts[now], told_totals[now], told_squares[now], told_weighted[now] = count, total, squares, weighted
        told_halves[now] = _half(words, active, nodes, starts, total) if count else 0
    return told_counts, told_totals, told_squares, told_weighted, told_halves


@compiled
def _make_changes(
    words: Array,
    ends: Array,
    begins: Array,
    active: Array,
    nodes: Array,
    starts: Array,
    total: Array,
    squares: Array,
    weighted: Array,
) -> int:
    """Makes the rows active no more that end, and those that begin, both rising; and tells how many more there are.

    A number that stays active is moved by as many places as rows changed before it: those after a change are all but
    what stands before it.
    """
    size, shift = nodes.shape[1] - 1, 0
    before, reached, begun = np.zeros(size + 1, np.int64), np.zeros(size + 1, np.int64), np.zeros(size, np.int64)
    top, ended, began, made = starts[_LEVELS - 1], 0, 0, 0
    while ended < len(ends) or began < len(begins):
        sign = -1 if began == len(begins) or (ended < len(ends) and ends[ended] < begins[began]) else 1
        if sign < 0:
            row, ended = ends[ended], ended + 1
        else:
            row, began = begins[began], began + 1
        while top < starts[_LEVELS - 1] + (row >> (_SHIFT + _STEP * (_LEVELS - 1))):
            for place in range(size + 1):
                before[place] += nodes[top, place]
            top += 1
        reached[:] = before
        _add_before(words, row, active, nodes, starts, reached)
        rank = reached[size] + 1 - (shift if sign < 0 else 0)
        for place in range(size):
            limb, unchanged = _limb(words, row, place), reached[place] - begun[place]
            _add_product(weighted, place, limb, sign * rank)
            weighted[place] -= sign * (unchanged & 0xFFFFFFFF)
            weighted[place + 1] -= sign * (unchanged >> 32)
            total[place] += sign * limb
            begun[place] += limb if sign > 0 else 0
        _add_square(words, row, sign, size, squares)
        active[row] = sign > 0
        for level in range(_LEVELS):
            node = starts[level] + (row >> (_SHIFT + _STEP * level))
            nodes[node, size] += sign
            for place in range(size):
                nodes[node, place] += sign * _limb(words, row, place)
        shift += sign
        made += 1
        if made & 0xFFFFF == 0:
            _carry(weighted)
            _carry(squares)
    rest = total.copy()
    rest[:size] -= begun
    _carry(rest)
    for place in range(size + 1):
        _add_product(weighted, place, rest[place], shift)
    weighted[size + 1] += rest[size + 1] * shift
    return shift
