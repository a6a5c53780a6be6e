"""Exact integers of up to 320 bits in numpy: a row of 64-bit words a number, two's complement, lowest word first.

Sums are taken over limbs of 32 bits in 64-bit columns, so two thousand million numbers are added before one could
overflow. A lane is the number of words that a set of numbers needs; nothing here is ever a float.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, Final

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

Array = npt.NDArray[Any]

LANES: Final = (1, 2, 5)
"""Words a number: 64 bits, 128 bits (what DECIMAL(38, 0) holds), and 320 bits (sums of 256-bit values)."""

_MASK: Final = 0xFFFFFFFF


def lane_of(bound: int) -> int:
    """The narrowest lane that holds every number from ``-bound`` to ``bound``."""
    return next(lane for lane in LANES if bound.bit_length() < 64 * lane)


def wider(lane: int) -> int:
    """The lane that holds sums of numbers of a lane."""
    return next((wide for wide in LANES if wide > lane), lane)


def to_digits(words: Array) -> Array:
    """The numbers as 32-bit limbs in int64 columns; the highest limb carries the sign."""
    rows, lane = words.shape
    halves = np.ascontiguousarray(words).view(np.uint32).reshape(rows, 2 * lane)
    spread = halves.astype(np.int64)
    spread[:, -1] = halves[:, -1].astype(np.int32)
    return spread


def from_digits(spread: Array) -> Array:
    """Words of sums of limbs. The sums may be negative or beyond 32 bits; ``spread`` is used up."""
    for place in range(spread.shape[1] - 1):
        spread[:, place + 1] += spread[:, place] >> 32
        spread[:, place] &= _MASK
    return (spread & _MASK).astype(np.uint32).view(np.uint64)


def widened(words: Array, lane: int) -> Array:
    """The same numbers in a lane as wide or wider."""
    rows, given = words.shape
    if given == lane:
        return words
    wide = np.empty((rows, lane), np.uint64)
    wide[:, :given] = words
    wide[:, given:] = (words[:, -1:].view(np.int64) >> 63).view(np.uint64)
    return wide


def narrowed(words: Array, lane: int) -> Array:
    """The same numbers in a lane that is known to hold them."""
    return np.ascontiguousarray(words[:, :lane])


def concatenated(*parts: Array) -> Array:
    """The rows of all parts, in the widest of their lanes."""
    lane = max(part.shape[1] for part in parts)
    return np.concatenate([widened(part, lane) for part in parts])


def to_ints(words: Array) -> list[int]:
    """The numbers as Python's integers."""
    lane = words.shape[1]
    high = words[:, lane - 1].view(np.int64) if words.flags.c_contiguous else words[:, lane - 1].copy().view(np.int64)
    numbers: list[int] = high.tolist()
    for place in range(lane - 2, -1, -1):
        numbers = [(above << 64) | below for above, below in zip(numbers, words[:, place].tolist(), strict=True)]
    return numbers


def from_ints(numbers: Sequence[int], lane: int) -> Array:
    """Python's integers as words."""
    size = 8 * lane
    raw = b"".join(number.to_bytes(size, "little", signed=True) for number in numbers)
    return np.frombuffer(raw, np.uint64).reshape(len(numbers), lane).copy()


def from_texts(texts: pa.Array) -> Array:
    """Words of decimal texts without sign, in the narrowest lane that holds each of them."""
    short = pc.less_equal(pc.binary_length(texts), 38)
    if not pc.all(short, min_count=0).as_py():
        plain = [int(text) for text in texts.to_pylist()]
        return from_ints(plain, lane_of(max(plain)))
    decimals = texts.cast(pa.decimal128(38, 0))
    raw = np.frombuffer(decimals.buffers()[1], np.uint64) if len(decimals) else np.empty(0, np.uint64)
    words = raw[2 * decimals.offset : 2 * (decimals.offset + len(decimals))].reshape(-1, 2)
    is_narrow = not words[:, 1].any() and not (words[:, 0] >> np.uint64(63)).any()
    return narrowed(words, 1 if is_narrow else 2)


def total(words: Array) -> int:
    """The exact sum of all numbers."""
    rows, lane = words.shape
    halves = np.ascontiguousarray(words).view(np.uint32).reshape(rows, 2 * lane)
    found: int = int(halves.view(np.int32)[:, -1].sum(dtype=np.int64)) << (32 * (2 * lane - 1))
    return found + sum(int(halves[:, place].sum(dtype=np.uint64)) << (32 * place) for place in range(2 * lane - 1))


def digits_to_ints(spread: Array) -> list[int]:
    """Limbs, of any size and sign, as Python's integers."""
    numbers = [0] * len(spread)
    for place in range(spread.shape[1] - 1, -1, -1):
        numbers = [(above << 32) + limb for above, limb in zip(numbers, spread[:, place].tolist(), strict=True)]
    return numbers


def count_positive(words: Array) -> int:
    """How many of the numbers, which stand by falling size, are above nothing."""
    low, high = 0, len(words)
    while low < high:
        middle = (low + high) // 2
        if to_ints(words[middle : middle + 1])[0] > 0:
            low = middle + 1
        else:
            high = middle
    return low


def is_nonzero(words: Array) -> Array:
    """For each number, whether it is not nought."""
    found: Array = np.bitwise_or.reduce([words[:, place] for place in range(words.shape[1])]) != 0
    return found


def fit_lane(words: Array, lane: int) -> Array:
    """The same numbers in the lane, where it is wider or holds them all; else as they are."""
    if lane >= words.shape[1]:
        return widened(words, lane)
    narrow = narrowed(words, lane)
    return narrow if (widened(narrow, words.shape[1]) == words).all() else words


def insertion_points(
    keys: Array, ordered: Callable[[Array], Array], low: Array, high: Array, after_equals: bool = False
) -> Array:
    """Where each of the keys (rows of words) belongs among rows that rise from its ``low`` place to its ``high`` one.

    That is before equal ones, or after them. ``ordered`` gives the rows at some places; words are compared as signed
    (the first) and unsigned numbers.
    """
    low, high = low.copy(), high.copy()
    while (undecided := np.flatnonzero(low < high)).size:
        middle = (low[undecided] + high[undecided]) // 2
        rows, mine = ordered(middle), keys[undecided]
        is_below = ~_less(mine, rows) if after_equals else _less(rows, mine)
        low[undecided[is_below]] = middle[is_below] + 1
        high[undecided[~is_below]] = middle[~is_below]
    return low


def _less(ones: Array, others: Array) -> Array:
    less = ones[:, 0].view(np.int64) < others[:, 0].view(np.int64)
    same = ones[:, 0] == others[:, 0]
    for place in range(1, ones.shape[1]):
        less |= same & (ones[:, place] < others[:, place])
        same &= ones[:, place] == others[:, place]
    return less


def descending_keys(words: Array) -> Array:
    """Rows, highest word first, that rise as the numbers fall."""
    return np.ascontiguousarray(~words[:, ::-1])


def descending_order(words: Array, *ties: Array) -> Array:
    """The order of the numbers from the largest to the smallest; of equal ones by the ties, rising, the first first."""
    keys = [~words[:, place] for place in range(words.shape[1] - 1)]
    return np.lexsort((*reversed(ties), *keys, ~words[:, -1].astype(np.int64)))
