"""Exact integers of up to 320 bits in numpy. A number is a row of limbs: 64-bit words in two's complement, lowest
first.

The width of an array is the number of limbs of each of its numbers. Sums are computed over digits of 32 bits in 64-bit
columns, which can hold the sum of 2,000 million digits. No function uses floats.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Final

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

Array = npt.NDArray[Any]
"""A numpy array of any type and shape."""

_WIDTHS: Final = (1, 2, 5)
"""Possible widths in limbs: 64 bits, 128 bits (as DECIMAL(38, 0)), and 320 bits (sums of 256-bit values)."""
_MASK: Final = 0xFFFFFFFF


def width_for(bound: int) -> int:
    """Return the smallest width (in limbs) that can hold all numbers from ``-bound`` to ``bound``."""
    return next(width for width in _WIDTHS if bound.bit_length() < 64 * width)


def sum_width(width: int) -> int:
    """Return the width (in limbs) for sums of numbers of the given width: the next larger one."""
    return next((wide for wide in _WIDTHS if wide > width), width)


def to_digits(limbs: Array) -> Array:
    """Return the numbers as rows of 32-bit digits in int64, lowest first. The highest digit has the sign."""
    rows, width = limbs.shape
    halves = np.ascontiguousarray(limbs).view(np.uint32).reshape(rows, 2 * width)
    digits = halves.astype(np.int64)
    digits[:, -1] = halves[:, -1].astype(np.int32)
    return digits


def from_digits(digits: Array) -> Array:
    """Return limbs from rows of digits that were summed, so a digit may be negative or exceed 32 bits.

    ``digits`` is overwritten.
    """
    for place in range(digits.shape[1] - 1):
        digits[:, place + 1] += digits[:, place] >> 32
        digits[:, place] &= _MASK
    return (digits & _MASK).astype(np.uint32).view(np.uint64)


def digits_to_ints(digits: Array) -> list[int]:
    """Return rows of digits as Python integers. A digit may be negative or exceed 32 bits."""
    numbers = [0] * len(digits)
    for place in range(digits.shape[1] - 1, -1, -1):
        numbers = [(above << 32) + digit for above, digit in zip(numbers, digits[:, place].tolist(), strict=True)]
    return numbers


def resized(limbs: Array, width: int) -> Array:
    """Return the numbers as limbs of the given width. The width must be large enough for all numbers."""
    rows, present = limbs.shape
    if width <= present:
        return limbs if width == present else np.ascontiguousarray(limbs[:, :width])
    wide = np.empty((rows, width), np.uint64)
    wide[:, :present] = limbs
    wide[:, present:] = (limbs[:, -1:].view(np.int64) >> 63).view(np.uint64)
    return wide


def fit_width(limbs: Array, width: int) -> Array:
    """Return the numbers as limbs of the given width if it is large enough for all of them, else unchanged."""
    fitting = resized(limbs, width)
    return fitting if width >= limbs.shape[1] or (resized(fitting, limbs.shape[1]) == limbs).all() else limbs


def concatenated(*parts: Array) -> Array:
    """Join arrays of numbers into one, with the largest of their widths."""
    width = max(part.shape[1] for part in parts)
    return np.concatenate([resized(part, width) for part in parts])


def to_ints(limbs: Array) -> list[int]:
    """Return the numbers as Python integers."""
    width = limbs.shape[1]
    numbers: list[int] = limbs[:, width - 1].view(np.int64).tolist()
    for place in range(width - 2, -1, -1):
        numbers = [(above << 64) | below for above, below in zip(numbers, limbs[:, place].tolist(), strict=True)]
    return numbers


def from_ints(numbers: Sequence[int], width: int) -> Array:
    """Return Python integers as limbs of the given width."""
    size = 8 * width
    raw = b"".join(number.to_bytes(size, "little", signed=True) for number in numbers)
    return np.frombuffer(raw, np.uint64).reshape(len(numbers), width).copy()


def from_texts(texts: pa.Array) -> Array:
    """Return unsigned decimal texts as limbs, with the smallest width that is large enough for all of them."""
    short = pc.less_equal(pc.binary_length(texts), 38)
    if not pc.all(short, min_count=0).as_py():
        numbers = [int(text) for text in texts.to_pylist()]
        return from_ints(numbers, width_for(max(numbers)))
    decimals = texts.cast(pa.decimal128(38, 0))
    raw = np.frombuffer(decimals.buffers()[1], np.uint64) if len(decimals) else np.empty(0, np.uint64)
    limbs = raw[2 * decimals.offset : 2 * (decimals.offset + len(decimals))].reshape(-1, 2)
    is_narrow = not limbs[:, 1].any() and not (limbs[:, 0] >> np.uint64(63)).any()
    return resized(limbs, 1 if is_narrow else 2)


def total(limbs: Array) -> int:
    """Return the exact sum of all numbers."""
    rows, width = limbs.shape
    halves = np.ascontiguousarray(limbs).view(np.uint32).reshape(rows, 2 * width)
    highest: int = int(halves.view(np.int32)[:, -1].sum(dtype=np.int64)) << (32 * (2 * width - 1))
    return highest + sum(int(halves[:, place].sum(dtype=np.uint64)) << (32 * place) for place in range(2 * width - 1))


def count_positive(limbs: Array) -> int:
    """Return the number of positive numbers. ``limbs`` must be sorted in descending order."""
    low, high = 0, len(limbs)
    while low < high:
        middle = (low + high) // 2
        if to_ints(limbs[middle : middle + 1])[0] > 0:
            low = middle + 1
        else:
            high = middle
    return low


def is_nonzero(limbs: Array) -> Array:
    """Return a mask of the numbers that are not 0."""
    mask: Array = np.bitwise_or.reduce([limbs[:, place] for place in range(limbs.shape[1])]) != 0
    return mask


def descending_order(limbs: Array, *ties: Array) -> Array:
    """Return the indices that sort the numbers in descending order, and equal numbers by ascending ``ties``."""
    keys = [~limbs[:, place] for place in range(limbs.shape[1] - 1)]
    return np.lexsort((*reversed(ties), *keys, ~limbs[:, -1].astype(np.int64)))


def rough_sizes(limbs: Array) -> Array:
    """Return an int64 for each number. Larger numbers have equal or larger integers."""
    highest = limbs[:, -1].view(np.int64)
    if limbs.shape[1] == 1 or not len(limbs):
        return highest
    # as many bits of the limb below as fit next to the bits that the highest limbs use
    bits = 63 - max(int(highest.max()).bit_length(), int(~highest.min()).bit_length())
    return (highest << bits) | (limbs[:, -2] >> np.uint64(64 - bits)).view(np.int64) if bits else highest


def equal_neighbours(*keys: Array) -> Array:
    """Return the indices of rows that equal the previous or the next row. ``keys`` are the columns of the sorted
    rows."""
    equals_next = np.logical_and.reduce([key[1:] == key[:-1] for key in keys])
    return np.flatnonzero(np.concatenate([equals_next, [False]]) | np.concatenate([[False], equals_next]))
