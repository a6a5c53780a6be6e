"""Compiled loops over the intervals of a token's balances, sorted by descending balance. numba compiles them.

An interval is a balance that an address has from its first day to its end day (excluded), in days since 1970. The loops
find the intervals that include an instant, and merge changed balances into them. Instants are numbered from 0.
``instant_of[day - first_day]`` is the number of the first instant on that day or later.

The caller allocates large arrays, because numpy asks the system for large memory pages and compiled code does not.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from holderlake.engine.numeric.bigint import Array
from holderlake.engine.numeric.graph_kernels import compiled


@compiled
def _instant(day: int, first_day: int, instant_of: Array) -> Any:
    return instant_of[min(max(day - first_day, 0), len(instant_of) - 1)]


@compiled
def enough_rows(
    first_days: Array,
    end_days: Array,
    start: int,
    left_out: Array,
    first_day: int,
    instant_of: Array,
    instants: int,
    limit: int,
) -> int:
    """Return the row at which reading can stop: the rows before it give each instant at least ``limit`` intervals.

    Reading begins at row ``start``. Rows in ``left_out`` (ascending row numbers) are not counted. If there are too few
    intervals, the result is the number of all rows. ``instant_of[day - first_day]`` is the number of the first instant
    on that day or later, ``instants`` the number of instants.
    """
    counts, short, skipped = np.zeros(instants, np.int64), instants, np.searchsorted(left_out, start)
    for row in range(start, len(first_days)):
        if short == 0:
            return row
        if skipped < len(left_out) and left_out[skipped] == row:
            skipped += 1
            continue
        begin, end = _instant(first_days[row], first_day, instant_of), _instant(end_days[row], first_day, instant_of)
        for instant in range(begin, end):
            counts[instant] += 1
            short -= counts[instant] == limit
    return len(first_days)


@compiled
def kept_rows(
    first_days: Array,
    end_days: Array,
    start: int,
    stop: int,
    left_out: Array,
    first_day: int,
    instant_of: Array,
    rows: Array,
) -> int:
    """Write into ``rows`` the numbers of the intervals from ``start`` to ``stop`` (excluded) that include an instant.

    Rows in ``left_out`` (ascending row numbers) are skipped. Return the number of values written. ``instant_of[day -
    first_day]`` is the number of the first instant on that day or later.
    """
    size, begin, last_day = 0, start, first_day + len(instant_of) - 1
    every_day = True  # has an instant of its own, as with a single map
    for place in range(len(instant_of) - 1):
        every_day &= instant_of[place] < instant_of[place + 1]
    for skipped in range(np.searchsorted(left_out, start), len(left_out) + 1):
        end = min(left_out[skipped], stop) if skipped < len(left_out) else stop
        for row in range(begin, end):  # no branch: the processor could not predict it
            rows[size] = row
            holds = (first_days[row] < last_day) & (end_days[row] > first_day)
            if not every_day:
                first_instant = _instant(first_days[row], first_day, instant_of)
                holds &= first_instant < _instant(end_days[row], first_day, instant_of)
            size += holds
        begin = end + 1
    return size


@compiled
def intervals_of(
    addresses: Array, index: Array, places: Array, first_days: Array, end_days: Array, day: int, last_day: int
) -> Array:
    """Return the row numbers of the intervals of some addresses that include a day from ``day`` to ``last_day``
    (excluded).

    ``addresses`` are ascending address numbers. ``index`` has the holder of each interval, sorted by holder and day.
    ``places`` has the interval's row in ``first_days`` and ``end_days``; see ``files.parts.Part``.
    """
    rows, size, low = np.empty(len(addresses), np.int32), 0, 0
    for address in addresses:
        low = _first_at_least(index, address, low, len(index))
        high = _first_at_least(index, address + 1, low, len(index))
        begin, end = low, high
        while begin < end:  # intervals of an address come by day and do not overlap
            middle = (begin + end) // 2
            if end_days[places[middle]] <= day:
                begin = middle + 1
            else:
                end = middle
        while begin < high and first_days[places[begin]] < last_day:
            if size == len(rows):
                larger = np.empty(2 * size, np.int32)
                larger[:size] = rows
                rows = larger
            rows[size] = places[begin]
            size, begin = size + 1, begin + 1
        low = high
    return rows[:size].copy()


@compiled
def _first_at_least(numbers: Array, least: int, low: int, high: int) -> int:
    """Return the index of the first of the ascending ``numbers`` that is at least ``least``, by galloping search from
    ``low``."""
    step = 1
    while low + step < high and numbers[low + step] < least:
        low += step
        step *= 2
    high = min(low + step, high)
    while low < high:
        middle = (low + high) // 2
        if numbers[middle] < least:
            low = middle + 1
        else:
            high = middle
    return low


@compiled
def _is_larger(left_numbers: Array, left_row: int, right_numbers: Array, right_row: int) -> Any:
    """Return whether ``left_numbers[left_row]`` is larger than ``right_numbers[right_row]``.

    Both are limbs, of any width.
    """
    highest = max(left_numbers.shape[1], right_numbers.shape[1]) - 1
    for place in range(highest, -1, -1):
        left_limb, right_limb = _limb(left_numbers, left_row, place), _limb(right_numbers, right_row, place)
        if left_limb != right_limb:
            if place == highest:
                return np.int64(left_limb) > np.int64(right_limb)
            return left_limb > right_limb
    return False


@compiled
def _limb(limbs: Array, row: int, place: int) -> Any:
    """Return limb ``place`` of a number. Beyond the number's width, return its sign extension: 0, or all bits set for
    a negative number."""
    width = limbs.shape[1]
    return limbs[row, place] if place < width else np.uint64(np.int64(limbs[row, width - 1]) >> 63)


@compiled
def descending_insertion_points(balances: Array, new_balances: Array, start: int, stop: int) -> tuple[Array, Array]:
    """Return two rows for each new balance: the first and the last row of ``balances`` before which it can be inserted.

    Both arrays of balances are sorted in descending order. Only rows from ``start`` to ``stop`` are searched. The first
    row is the first balance that is not larger than the new one. The last row is the first balance that is smaller.
    """
    firsts, lasts = np.empty(len(new_balances), np.int64), np.empty(len(new_balances), np.int64)
    begin = start
    for number in range(len(new_balances)):
        low, step = begin, 1
        while low + step < stop and _is_larger(balances, low + step, new_balances, number):
            low, step = low + step, 2 * step
        high = min(low + step, stop)
        while low < high:
            middle = (low + high) // 2
            if _is_larger(balances, middle, new_balances, number):
                low = middle + 1
            else:
                high = middle
        begin, step = low, 1
        while low < stop and not _is_larger(new_balances, number, balances, low):  # few are equal, if any
            low, step = min(low + step, stop), 2 * step
        high, low = low, max(begin, low - step // 2)
        while low < high:
            middle = (low + high) // 2
            if _is_larger(new_balances, number, balances, middle):
                high = middle
            else:
                low = middle + 1
        firsts[number], lasts[number] = begin, low
    return firsts, lasts


@compiled
def places_of_holders(holders: Array, addresses: Array, firsts: Array, lasts: Array, row_limit: int) -> Array:
    """Return the row of each address in ``holders``; -1 if it is not found.

    Address n is searched from row ``firsts[n]`` to row ``lasts[n]``, but in at most ``row_limit`` rows.
    """
    places = np.full(len(addresses), -1, np.int64)
    for number in range(len(addresses)):
        for place in range(firsts[number], min(lasts[number], firsts[number] + row_limit)):
            if holders[place] == addresses[number]:
                places[number] = place
                break
    return places


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
    """Merge the intervals with the row numbers ``rows``, and new balances. New balance n comes before row
    ``places[n]``.

    The result is written into the last four arguments: holders, balances, first instants and last instants (excluded).
    ``rows`` and ``places`` are ascending. ``instant_of[day - first_day]``, the number of the first instant on that day
    or later, turns the days of the intervals into instants.
    """
    width, new_width, is_one = balances.shape[1], new_balances.shape[1], len(instant_of) == 2
    size, place = 0, 0
    for number in range(len(places) + 1):
        stop = places[number] if number < len(places) else len(holders)
        while place < len(rows) and rows[place] < stop:
            row = rows[place]
            found_holders[size] = holders[row]
            firsts[size] = 0 if is_one else _instant(first_days[row], first_day, instant_of)
            lasts[size] = 1 if is_one else _instant(end_days[row], first_day, instant_of)
            found_balances[size, 0] = balances[row, 0]
            for limb in range(1, width):
                found_balances[size, limb] = balances[row, limb]
            for limb in range(width, new_width):  # extend the sign
                found_balances[size, limb] = np.uint64(np.int64(balances[row, width - 1]) >> 63)
            size, place = size + 1, place + 1
        if number < len(places):
            found_holders[size], firsts[size], lasts[size] = new_holders[number], new_firsts[number], new_lasts[number]
            for limb in range(new_width):
                found_balances[size, limb] = new_balances[number, limb]
            size += 1
