"""The few loops over arrays that numpy has no word for: compiled once by numba and kept beside this file, free of the
interpreter's lock. Who calls them says what they are for; all sums are exact (limbs of 32 bits, see ``words``). Those
over balances stand in ``intervals`` and ``crowds``.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, TypeVar, cast

import numba
import numpy as np

from holderlake.engine.numeric.bigint import Array

F = TypeVar("F", bound=Callable[..., Any])


def compiled(function: F) -> F:
    try:
        return cast(F, numba.njit(cache=True, nogil=True)(function))
    except RuntimeError:  # there is no folder to keep it in
        return cast(F, numba.njit(nogil=True)(function))


# ---------------------------------------------------------------------- few numbers among many


@compiled
def hash_slots(numbers: Array) -> Array:
    """A table in which ``is_in`` finds the numbers (none below 0): as small as they are few, whatever their size."""
    size = 16
    while size < 8 * len(numbers):
        size *= 2
    slots = np.full(size, -1, np.int32)
    for number in numbers:
        slot = _slot(number, size)
        while slots[slot] >= 0 and slots[slot] != number:
            slot = (slot + 1) & (size - 1)
        slots[slot] = number
    return slots


@compiled
def _slot(number: int, size: int) -> int:
    return ((np.int64(number) * 0x9E3779B1) >> 15) & (size - 1)  # type: ignore[return-value]  # numba has one kind of int


@compiled
def contains(slots: Array, number: int) -> bool:
    """Whether the number is one of those that the slots are of."""
    slot = _slot(number, len(slots))
    while slots[slot] >= 0:
        if slots[slot] == number:
            return True
        slot = (slot + 1) & (len(slots) - 1)
    return False


@compiled
def mask_in_slots(numbers: Array, slots: Array) -> Array:
    """Of each of the numbers, whether it is one of those that the slots are of."""
    found = np.empty(len(numbers), np.bool_)
    for place in range(len(numbers)):
        found[place] = contains(slots, numbers[place])
    return found


@compiled
def bloom_filter(numbers: Array) -> Array:
    """Bits by which ``may_be_in`` rules out most numbers but these: some sixteen for each of them, so of few it stays
    near the processor, however many others there are."""
    size = 64
    while size < 16 * len(numbers):
        size *= 2
    sieve = np.zeros(size, np.bool_)
    for number in numbers:
        sieve[_slot(number, size)] = True
    return sieve


@compiled
def may_contain(sieve: Array, number: int) -> Any:
    """Whether the number may be one of those that the sieve is of: it is not where this says no."""
    return sieve[_slot(number, len(sieve))]


@compiled
def places_of_kinds(numbers: Array, kinds: Array, sieve: Array, bits: int) -> Array:
    """Places of the numbers whose kinds have any of the bits; the sieve is of all numbers that have."""
    places, size = np.empty(len(numbers) + 1, np.int32), 0
    for place in range(len(numbers)):
        number = numbers[place]
        if may_contain(sieve, number) and kinds[number] & bits:
            places[size] = place
            size += 1
    return places[:size].copy()


# ---------------------------------------------------------------------- entries of addresses


@compiled
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


@compiled
def bits_before(notes: Array, sums: Array, step: int, places: Array) -> Array:
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


@compiled
def filter_entries(
    others: Array, kinds: Array, times: Array, addresses: Array, starts: Array, ends: Array, counts: Array, slots: Array
) -> tuple[Array, Array, Array, Array, Array]:
    """The entries from each address's start to its end that are of a token that counts, not to itself and, where there
    are ``slots``, with another that is in them: places of the owners, the others, tokens, whether inward, seconds."""
    size = 0
    for owner in range(len(addresses)):
        size += ends[owner] - starts[owner]
    places, until, found = np.empty(size + 1, np.int64), np.empty(len(addresses), np.int64), 0
    for owner in range(len(addresses)):
        if len(slots):
            for place in range(starts[owner], ends[owner]):
                if contains(slots, others[place]) and counts[kinds[place] >> 1]:
                    places[found] = place
                    found += 1
        else:
            for place in range(starts[owner], ends[owner]):  # without a branch, for nobody could foretell it
                places[found] = place
                found += counts[kinds[place] >> 1]
        until[owner] = found
    owners, kept_others, tokens = np.empty(found, np.int32), np.empty(found, np.int32), np.empty(found, np.int32)
    inward, seconds = np.empty(found, np.bool_), np.empty(found, np.int64)
    number, kept = 0, 0
    for owner in range(len(addresses)):
        while number < until[owner]:
            place = places[number]
            owners[kept], kept_others[kept], tokens[kept] = owner, others[place], kinds[place] >> 1
            inward[kept], seconds[kept] = kinds[place] & 1, times[place]
            number, kept = number + 1, kept + (others[place] != addresses[owner])
    return owners[:kept], kept_others[:kept], tokens[:kept], inward[:kept], seconds[:kept]


@compiled
def split_by_kind(
    others: Array, kinds: Array, sieve: Array, ones: int, further: int, slots: Array
) -> tuple[Array, Array]:
    """Places of the others whose kinds have none of the bits of ``ones``; and of those that have any of the ``further``
    bits, or are in the slots. The sieve is of all numbers that have any of all these bits."""
    first, second = np.empty(len(others) + 1, np.int32), np.empty(len(others) + 1, np.int32)
    size, further_size = 0, 0
    for place in range(len(others)):
        other = others[place]
        may_be = np.int64(may_contain(sieve, other))
        kind = kinds[other * may_be] * may_be  # without a branch, and mostly without a look far away
        first[size] = second[further_size] = place
        size += (kind & ones) == 0
        further_size += ((kind & further) != 0) | contains(slots, other)
    return first[:size].copy(), second[:further_size].copy()


@compiled
def number_keys(keys: Array, owners: Array) -> tuple[Array, Array, Array, Array]:
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


@compiled
def top_candidates(
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


@compiled
def first_counterparties(
    others: Array, times: Array, owners: Array, starts: Array, ends: Array, most: int
) -> tuple[Array, Array, Array]:
    """The first distinct others of each span of entries by time, at most ``most`` a span and without the span's owner.

    Returns the span, the other and the second of each.
    """
    count, longest = 0, np.int64(0)
    for span in range(len(starts)):
        length = max(np.int64(0), min(ends[span] - starts[span], np.int64(most)))
        count, longest = count + length, max(longest, length)
    size = 16
    while size < 2 * longest:
        size *= 2
    slots, used_by = np.empty(size, np.int32), np.full(size, -1, np.int64)
    spans, found, seconds = np.empty(count, np.int64), np.empty(count, np.int32), np.empty(count, np.int64)
    count = 0
    for span in range(len(starts)):
        limit = count + most
        for place in range(starts[span], ends[span]):
            if count == limit:
                break
            other = others[place]
            if other == owners[span]:
                continue
            slot = _slot(other, size)
            while used_by[slot] == span and slots[slot] != other:
                slot = (slot + 1) & (size - 1)
            if used_by[slot] != span:
                used_by[slot], slots[slot] = span, other
                spans[count], found[count], seconds[count] = span, other, times[place]
                count += 1
    return spans[:count].copy(), found[:count].copy(), seconds[:count].copy()


@compiled
def add_values(
    found: Array,
    rows: Array,
    times: Array,
    ends: Array,
    all_times: Array,
    senders: Array,
    receivers: Array,
    words: Array,
) -> None:
    """Adds to each of the rows of ``found`` (limbs) what the transfers at its second, between its ends (sender times
    2**32, plus receiver), moved; the rows stand by rising times, and the transfers, as columns from ``all_times`` on,
    too."""
    low, count, lane = 0, len(all_times), words.shape[1]
    for row in rows:
        second, step, high = times[row], 1, low
        while high < count and np.int64(all_times[high]) < second:
            low, high, step = high + 1, high + step, 2 * step
        high = min(high, count)
        while low < high:
            middle = (low + high) // 2
            if np.int64(all_times[middle]) < second:
                low = middle + 1
            else:
                high = middle
        place = low
        while place < count and np.int64(all_times[place]) == second:
            if (np.int64(senders[place]) << 32) | np.int64(receivers[place]) == ends[row]:
                for word in range(lane):
                    value = words[place, word]
                    found[row, 2 * word] += np.int64(value & np.uint64(0xFFFFFFFF))
                    found[row, 2 * word + 1] += np.int64(value >> np.uint64(32))
            place += 1


@compiled
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
