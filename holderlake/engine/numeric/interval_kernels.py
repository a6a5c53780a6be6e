"""Loops over the intervals of a token's balances, which stand by falling balance: which of them hold at an instant,
where changed balances belong among them, and both in one order. Compiled as those of ``kernels``; what is large is made
by who calls them, for numpy asks the system for large pages.
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
    most: int,
) -> int:
    """The row of the intervals, from the start on, before which there are ``most`` that hold at each of the instants;
    ``left_out`` are those, rising, that do not count."""
    counts, short, skipped = np.zeros(instants, np.int64), instants, np.searchsorted(left_out, start)
    for row in range(start, len(first_days)):
        if short == 0:
            return row
        if skipped < len(left_out) and left_out[skipped] == row:
            skipped += 1
            continue
        first, last = _instant(first_days[row], first_day, instant_of), _instant(end_days[row], first_day, instant_of)
        for instant in range(first, last):
            counts[instant] += 1
            short -= counts[instant] == most
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
    """Puts into ``rows`` the intervals from start to stop that hold at some instant, but for those ``left_out``, which
    rise, and tells how many they are."""
    kept, begin, last_day = 0, start, first_day + len(instant_of) - 1
    every_day = True  # has an instant, as the only one of a single map has
    for place in range(len(instant_of) - 1):
        every_day &= instant_of[place] < instant_of[place + 1]
    for skipped in range(np.searchsorted(left_out, start), len(left_out) + 1):
        end = min(left_out[skipped], stop) if skipped < len(left_out) else stop
        for row in range(begin, end):  # without a branch, for nobody could foretell it
            rows[kept] = row
            holds = (first_days[row] < last_day) & (end_days[row] > first_day)
            if not every_day:
                first = _instant(first_days[row], first_day, instant_of)
                holds &= first < _instant(end_days[row], first_day, instant_of)
            kept += holds
        begin = end + 1
    return kept


@compiled
def intervals_of(
    addresses: Array, index: Array, places: Array, first_days: Array, end_days: Array, day: int, last_day: int
) -> Array:
    """Places of the intervals that hold between the two days, of addresses that rise."""
    found, size, low = np.empty(len(addresses), np.int32), 0, 0
    for address in addresses:
        low = _first_at_least(index, address, low, len(index))
        high = _first_at_least(index, address + 1, low, len(index))
        begin, after = low, high
        while begin < after:  # those of an address stand by day, each ending before the next begins
            middle = (begin + after) // 2
            if end_days[places[middle]] <= day:
                begin = middle + 1
            else:
                after = middle
        while begin < high and first_days[places[begin]] < last_day:
            if size == len(found):
                larger = np.empty(2 * size, np.int32)
                larger[:size] = found
                found = larger
            found[size] = places[begin]
            size, begin = size + 1, begin + 1
        low = high
    return found[:size].copy()


@compiled
def _first_at_least(numbers: Array, least: int, low: int, high: int) -> int:
    """Where the first of the rising numbers stands that is not below the least; sought near ``low`` first."""
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
def _is_larger(ones: Array, one: int, others: Array, other: int) -> Any:
    """Whether the one number is larger than the other; both may be of any width."""
    width, other_width = ones.shape[1], others.shape[1]
    for place in range(max(width, other_width) - 1, -1, -1):
        # a shorter number goes on with its sign; all but the highest words have none
        word = ones[one, place] if place < width else np.uint64(np.int64(ones[one, width - 1]) >> 63)
        own = others[other, place] if place < other_width else np.uint64(np.int64(others[other, other_width - 1]) >> 63)
        if word != own:
            if place == max(width, other_width) - 1:
                return np.int64(word) > np.int64(own)
            return word > own
    return False


@compiled
def descending_insertion_points(balances: Array, new: Array, start: int, stop: int) -> tuple[Array, Array]:
    """Where each of the new balances, which fall, belongs among those from start to stop, which fall too: before the
    first one that is no larger, and before the first one that is smaller."""
    firsts, lasts = np.empty(len(new), np.int64), np.empty(len(new), np.int64)
    begin = start
    for number in range(len(new)):
        low, step = begin, 1
        while low + step < stop and _is_larger(balances, low + step, new, number):
            low, step = low + step, 2 * step
        high = min(low + step, stop)
        while low < high:
            middle = (low + high) // 2
            if _is_larger(balances, middle, new, number):
                low = middle + 1
            else:
                high = middle
        begin, step = low, 1
        while low < stop and not _is_larger(new, number, balances, low):  # few are equal, if any
            low, step = min(low + step, stop), 2 * step
        high, low = low, max(begin, low - step // 2)
        while low < high:
            middle = (low + high) // 2
            if _is_larger(new, number, balances, middle):
                high = middle
            else:
                low = middle + 1
        firsts[number], lasts[number] = begin, low
    return firsts, lasts


@compiled
def places_of_holders(holders: Array, addresses: Array, firsts: Array, lasts: Array, most: int) -> Array:
    """For each address its place between its first and last one, where it stands among the first so many of these, or
    -1."""
    found = np.full(len(addresses), -1, np.int64)
    for number in range(len(addresses)):
        for place in range(firsts[number], min(lasts[number], firsts[number] + most)):
            if holders[place] == addresses[number]:
                found[number] = place
                break
    return found


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
    lane, wide, is_one = balances.shape[1], new_balances.shape[1], len(instant_of) == 2
    found, place = 0, 0
    for new in range(len(places) + 1):
        stop = places[new] if new < len(places) else len(holders)
        while place < len(rows) and rows[place] < stop:
            row = rows[place]
            found_holders[found] = holders[row]
            firsts[found] = 0 if is_one else _instant(first_days[row], first_day, instant_of)
            lasts[found] = 1 if is_one else _instant(end_days[row], first_day, instant_of)
            found_balances[found, 0] = balances[row, 0]
            for word in range(1, lane):
                found_balances[found, word] = balances[row, word]
            for word in range(lane, wide):  # the sign goes on
                found_balances[found, word] = np.uint64(np.int64(balances[row, lane - 1]) >> 63)
            found, place = found + 1, place + 1
        if new < len(places):
            found_holders[found], firsts[found], lasts[found] = new_holders[new], new_firsts[new], new_lasts[new]
            for word in range(wide):
                found_balances[found, word] = new_balances[new, word]
            found += 1
