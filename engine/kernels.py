"""The few loops over arrays that numpy has no word for: compiled once by numba and kept beside this file, free of the
interpreter's lock. Who calls them says what they are for; all sums are exact (limbs of 32 bits, see ``words``).
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, TypeVar, cast

import numba
import numpy as np

from engine.words import Array

F = TypeVar("F", bound=Callable[..., Any])


def _compiled(function: F) -> F:
    try:
        return cast(F, numba.njit(cache=True, nogil=True)(function))
    except RuntimeError:  # there is no folder to keep it in
        return cast(F, numba.njit(nogil=True)(function))


# ---------------------------------------------------------------------- entries of addresses


@_compiled
def entries_upto(times: Array, starts: Array, ends: Array, seconds: Array) -> Array:
    """For many spans of rising times, each with a second of its own: where those after the second begin."""
    found = np.empty(len(starts), np.int64)
    for number in range(len(starts)):
        low, high, second = starts[number], ends[number], seconds[number]
        while low < high:
            middle = (low + high) // 2
            if times[middle] <= second:
                low = middle + 1
            else:
                high = middle
        found[number] = low
    return found


@_compiled
def notes_before(notes: Array, sums: Array, step: int, places: Array) -> Array:
    """How many of each of three bits (1, 2, 4: columns) are set in the notes before each of the places, where ``sums``
    tells it for every ``step``-th place."""
    found = np.empty((len(places), 3), np.int64)
    for number in range(len(places)):
        block = places[number] // step
        for bit in range(3):
            found[number, bit] = sums[block, bit]
        for place in range(block * step, places[number]):
            note = notes[place]
            found[number, 0] += note & 1
            found[number, 1] += (note >> 1) & 1
            found[number, 2] += (note >> 2) & 1
    return found


@_compiled
def kept_entries(
    others: Array, kinds: Array, addresses: Array, starts: Array, ends: Array, counts: Array, marks: Array
) -> tuple[Array, Array]:
    """Places of the entries from each address's start to its end that are of a token that counts, not to itself and,
    where there are ``marks``, with another that is marked; and how many each address has."""
    size = 0
    for owner in range(len(addresses)):
        size += ends[owner] - starts[owner]
    places, kept, found = np.empty(size, np.int64), np.zeros(len(addresses), np.int64), 0
    for owner in range(len(addresses)):
        before = found
        for place in range(starts[owner], ends[owner]):
            other = others[place]
            if counts[kinds[place] >> 1] and other != addresses[owner] and (len(marks) == 0 or marks[other]):
                places[found] = place
                found += 1
        kept[owner] = found - before
    return places[:found].copy(), kept


@_compiled
def numbered(keys: Array, owners: Array) -> tuple[Array, Array, Array, Array]:
    """Keys as numbers from 0, in the order in which they come up; owners stand together.

    Returns the number of each key; whether it is the first of its owner with that key; the distinct keys; and how many
    owners have each.
    """
    size = 16
    while size < 2 * len(keys):
        size *= 2
    slots = np.full(size, -1, np.int32)
    numbers, firsts = np.empty(len(keys), np.int32), np.zeros(len(keys), np.bool_)
    distinct, crowd = np.empty(len(keys), np.int64), np.zeros(len(keys), np.int32)
    latest = np.full(len(keys), -1, np.int64)
    count = 0
    for place in range(len(keys)):
        key = keys[place]
        mixed = np.uint64(key) * np.uint64(0x9E3779B97F4A7C15)
        slot = np.int64(mixed >> np.uint64(20)) & (size - 1)
        while slots[slot] >= 0 and distinct[slots[slot]] != key:
            slot = (slot + 1) & (size - 1)
        if slots[slot] < 0:
            slots[slot], distinct[count] = count, key
            count += 1
        number = slots[slot]
        numbers[place] = number
        if latest[number] != owners[place]:
            latest[number] = owners[place]
            firsts[place] = True
            crowd[number] += 1
    return numbers, firsts, distinct[:count].copy(), crowd[:count].copy()


@_compiled
def strongest(
    starts: Array,
    times: Array,
    things: Array,
    firsts: Array,
    each: int,
    seconds: Array,
    shown: Array,
    owners_drop: Array,
    things_drop: Array,
    things_end: Array,
    barred: Array,
    least: int,
    most: int,
) -> Array:
    """At each second, the things that most of the shown owners deal with: at most ``most``, the strongest first.

    Owners' entries stand together by time (``starts``); ``firsts`` are those that are an owner's first with the thing.
    A thing's strength is the number of owners, at least ``least``, then, where ``each`` is 1 and not 0, the number of
    entries; of equal ones the first. ``shown`` tells for each owner the seconds at which it counts. From the seconds
    (by place) in the ``…_drop`` of both on, an owner's dealings with a thing do not count; from its ``things_end`` on a
    thing is not chosen, nor where ``barred`` (a row of things a second, -1 for none) names it. Returns a row of things
    a second, -1 for none.
    """
    owners, count = len(starts) - 1, len(things_end)
    counted, upto = starts[:-1].copy(), starts[:-1].copy()
    strength, barred_at = np.zeros(count, np.int64), np.full(count, -1, np.int64)
    chosen, best = np.full((len(seconds), most), -1, np.int64), np.empty(most, np.int64)
    whole, fewest = (1 << 32), np.int64(least) << 32
    restless = np.zeros(len(seconds) + 1, np.bool_)
    for thing in range(count):
        restless[things_drop[thing]] = True
    for now in range(len(seconds)):
        for owner in range(owners):
            begin, drop = starts[owner], owners_drop[owner]
            if now > 0 and counted[owner] > begin and (drop == now or (drop < now and restless[now])):
                # some of its dealings do not count any more: all of them are taken back, to be counted anew
                for place in range(begin, counted[owner]):
                    if drop >= now or things_drop[things[place]] >= now:
                        strength[things[place]] -= whole * firsts[place] + each
                counted[owner] = begin
            while upto[owner] < starts[owner + 1] and times[upto[owner]] <= seconds[now]:
                upto[owner] += 1
            goal = upto[owner] if shown[owner, now] else begin
            for place in range(counted[owner], goal):
                if drop > now or things_drop[things[place]] > now:
                    strength[things[place]] += whole * firsts[place] + each
            for place in range(goal, counted[owner]):
                if drop > now or things_drop[things[place]] > now:
                    strength[things[place]] -= whole * firsts[place] + each
            counted[owner] = goal
        for place in range(barred.shape[1]):
            if barred[now, place] >= 0:
                barred_at[barred[now, place]] = now
        found = 0
        for thing in range(count):
            worth = strength[thing]
            if worth < fewest or (found == most and worth <= best[most - 1]):
                continue
            if things_end[thing] <= now or barred_at[thing] == now:
                continue
            place = found if found < most else most - 1
            while place > 0 and best[place - 1] < worth:
                best[place], chosen[now, place] = best[place - 1], chosen[now, place - 1]
                place -= 1
            best[place], chosen[now, place] = worth, thing
            found = min(found + 1, most)
    return chosen


@_compiled
def components(starts: Array, ones: Array, others: Array, nodes: int) -> Array:
    """For each span of pairs (a row) a representative of every node's component, by union-find."""
    roots = np.empty((len(starts) - 1, nodes), np.int32)
    for row in range(len(starts) - 1):
        parent = roots[row]
        for node in range(nodes):
            parent[node] = node
        for place in range(starts[row], starts[row + 1]):
            one, other = ones[place], others[place]
            while parent[one] != one:
                parent[one] = parent[parent[one]]
                one = parent[one]
            while parent[other] != other:
                parent[other] = parent[parent[other]]
                other = parent[other]
            parent[max(one, other)] = min(one, other)
        for node in range(nodes):  # a parent has a smaller number, so its own root is known
            parent[node] = parent[parent[node]]
    return roots


# ---------------------------------------------------------------------- balances in their order


@_compiled
def _instant(day: int, first_day: int, instant_of: Array) -> Any:
    return instant_of[min(max(day - first_day, 0), len(instant_of) - 1)]


@_compiled
def enough_rows(
    holders: Array,
    first_days: Array,
    end_days: Array,
    start: int,
    left_out: Array,
    zero: int,
    first_day: int,
    instant_of: Array,
    instants: int,
    most: int,
) -> int:
    """The row of the intervals, from the start on, before which there are ``most`` that hold at each of the instants;
    ``left_out`` marks addresses that do not count."""
    counts, short = np.zeros(instants, np.int64), instants
    for row in range(start, len(holders)):
        if short == 0:
            return row
        first, last = _instant(first_days[row], first_day, instant_of), _instant(end_days[row], first_day, instant_of)
        if first == last or holders[row] == zero or left_out[holders[row]]:
            continue
        for instant in range(first, last):
            counts[instant] += 1
            short -= counts[instant] == most
    return len(holders)


@_compiled
def merged_rows(
    holders: Array,
    balances: Array,
    first_days: Array,
    end_days: Array,
    start: int,
    stop: int,
    left_out: Array,
    zero: int,
    first_day: int,
    instant_of: Array,
    new_holders: Array,
    new_balances: Array,
    new_firsts: Array,
    new_lasts: Array,
    places: Array,
) -> tuple[Array, Array, Array, Array]:
    """The intervals from start to stop that hold at some instant, but for addresses ``left_out``, and new ones, which
    stand before the intervals at their rising places: holders, balances, first and last instants (excluded)."""
    rows, count, last_day = np.empty(stop - start, np.int32), 0, first_day + len(instant_of) - 1
    for row in range(start, stop):  # without a branch, for nobody could foretell it
        rows[count] = row
        count += (first_days[row] < last_day) & (end_days[row] > first_day)
    kept = 0
    for place in range(count):
        row = rows[place]
        rows[kept] = row
        first = _instant(first_days[row], first_day, instant_of)
        holds = first < _instant(end_days[row], first_day, instant_of)
        kept += holds & (holders[row] != zero) & (not left_out[holders[row]])
    size, lane, wide = kept + len(places), balances.shape[1], new_balances.shape[1]
    found_holders, found_balances = np.empty(size, np.int32), np.empty((size, wide), np.uint64)
    firsts, lasts = np.empty(size, np.int32), np.empty(size, np.int32)
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
    return found_holders, found_balances, firsts, lasts


# ---------------------------------------------------------------------- sums of balances


@_compiled
def _limb(words: Array, row: int, place: int) -> Any:
    return np.int64((words[row, place >> 1] >> np.uint64(32 * (place & 1))) & np.uint64(0xFFFFFFFF))


@_compiled
def _carry(limbs: Array) -> None:
    for place in range(len(limbs) - 1):
        limbs[place + 1] += limbs[place] >> 32
        limbs[place] &= 0xFFFFFFFF


@_compiled
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


@_compiled
def add_spans(words: Array, firsts: Array, lasts: Array, sums: Array) -> None:
    """Adds each number's limbs to the row of its first instant and takes them from the row of its last: added up row
    after row, they are the sums at each instant."""
    for row in range(len(firsts)):
        for place in range(sums.shape[1]):
            limb = _limb(words, row, place)
            sums[firsts[row], place] += limb
            sums[lasts[row], place] -= limb


@_compiled
def _square(words: Array, row: int, sign: int, size: int, squares: Array) -> None:
    for one in range(size):
        for other in range(size):
            product = np.uint64(_limb(words, row, one)) * np.uint64(_limb(words, row, other))
            squares[one + other] += sign * np.int64(product & np.uint64(0xFFFFFFFF))
            squares[one + other + 1] += sign * np.int64(product >> np.uint64(32))
    _carry(squares)


@_compiled
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


@_compiled
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


@_compiled
def _reaches_half(reached: Array, total: Array) -> bool:
    difference = 2 * reached - total
    _carry(difference)
    return bool(difference[-1] >= 0)


@_compiled
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


@_compiled
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
                    weighted[limb] += count * value
                _carry(weighted)
                _square(words, row, 1, size, squares)
            _carry(total)
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
