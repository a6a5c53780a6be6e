"""Compiled loops over the entries of addresses, for which numpy has no function.

numba compiles them. Compiled code is cached next to this file and runs without the interpreter's lock. Sums are exact,
over digits of 32 bits (``bigint``). Loops over balances are in ``aggregates``.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, TypeVar, cast

import numba
import numpy as np

from holderlake.engine.numeric.bigint import Array

F = TypeVar("F", bound=Callable[..., Any])


def compiled(function: F) -> F:
    """Compile a function with numba at its first call."""
    try:
        return cast(F, numba.njit(cache=True, nogil=True)(function))
    except RuntimeError:  # no folder is writable for the cache
        return cast(F, numba.njit(nogil=True)(function))


@compiled
def entries_upto(times: Array, starts: Array, ends: Array, seconds: Array) -> Array:
    """Return, for each range of ascending ``times``, the index of the first time that is later than the range's second.

    ``starts``, ``ends`` (excluded) and ``seconds`` have one value for each range. If no time of a range is later, the
    index is the range's end.
    """
    indices = np.empty(len(starts), np.int64)
    for number in range(len(starts)):
        low, high, second = starts[number], ends[number], seconds[number]
        while low < high:
            middle = (low + high) // 2
            if times[middle] <= second:
                low = middle + 1
            else:
                high = middle
        indices[number] = low
    return indices


@compiled
def bits_before(bits: Array, sums: Array, step: int, places: Array) -> Array:
    """Return for each index in ``places`` how often the bits 1, 2 and 4 are set in ``bits`` before it, as a row.

    ``sums`` has the same counts before every ``step``-th index.
    """
    counts = np.empty((len(places), 3), np.int64)
    for number in range(len(places)):
        block = places[number] // step
        for bit in range(3):
            counts[number, bit] = sums[block, bit]
        for place in range(block * step, places[number]):
            value = bits[place]
            counts[number, 0] += value & 1
            counts[number, 1] += (value >> 1) & 1
            counts[number, 2] += (value >> 2) & 1
    return counts


@compiled
def number_keys(keys: Array, owners: Array) -> tuple[Array, Array, Array, Array]:
    """Number the distinct keys from 0, in the order of appearance. The entries of an owner must be adjacent.

    Return four arrays. Two have a value for each entry: the number of its key, and True for the owner's first entry
    with the key. Two have a value for each number: the key, and the number of owners that have it.
    """
    size = 16
    while size < 2 * len(keys):
        size *= 2
    slots = np.full(size, -1, np.int32)
    numbers, firsts = np.empty(len(keys), np.int32), np.zeros(len(keys), np.bool_)
    distinct, owner_counts = np.empty(len(keys), np.int64), np.zeros(len(keys), np.int32)
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
            owner_counts[number] += 1
    return numbers, firsts, distinct[:count].copy(), owner_counts[:count].copy()


@compiled
def top_candidates(
    starts: Array,
    times: Array,
    candidates: Array,
    firsts: Array,
    entry_weight: int,
    seconds: Array,
    is_shown: Array,
    owners_drop: Array,
    candidates_drop: Array,
    candidates_end: Array,
    barred: Array,
    least: int,
    limit: int,
) -> Array:
    """Return a row for each second: the ``limit`` strongest candidates, the strongest first, filled up with -1.

    A candidate needs at least ``least`` shown owners with an entry. Candidates are compared by (1) the number of shown
    owners with an entry; (2) the number of entries, if ``entry_weight`` is 1; (3) the order of the candidates.

    - ``starts`` has the index of each owner's first entry. Entries are sorted by owner and time. ``times``,
      ``candidates`` and ``firsts`` have a value for each entry; ``firsts`` is True for an owner's first entry with a
      candidate.
    - ``is_shown`` is a mask with a row for each owner and a column for each second: True if the owner counts at the
      second.
    - ``owners_drop``, ``candidates_drop`` and ``candidates_end`` are indices into ``seconds``. Entries between an owner
      and a candidate stop counting when both have reached their drop. A candidate is not chosen from its end on.
    - ``barred`` has a row for each second with the candidates that are not chosen at the second.
    """
    owners, count = len(starts) - 1, len(candidates_end)
    counted_ends, upto = starts[:-1].copy(), starts[:-1].copy()
    strength, barred_at = np.zeros(count, np.int64), np.full(count, -1, np.int64)
    strongest, best = np.full((len(seconds), limit), -1, np.int64), np.empty(limit, np.int64)
    one_owner, fewest = (1 << 32), np.int64(least) << 32
    has_drops = np.zeros(len(seconds) + 1, np.bool_)
    for candidate in range(count):
        has_drops[candidates_drop[candidate]] = True
    for now in range(len(seconds)):
        for owner in range(owners):
            begin, drop = starts[owner], owners_drop[owner]
            if now > 0 and counted_ends[owner] > begin and (drop == now or (drop < now and has_drops[now])):
                # some of its entries no longer count: subtract all of them, to count them again
                for place in range(begin, counted_ends[owner]):
                    if drop >= now or candidates_drop[candidates[place]] >= now:
                        strength[candidates[place]] -= one_owner * firsts[place] + entry_weight
                counted_ends[owner] = begin
            while upto[owner] < starts[owner + 1] and times[upto[owner]] <= seconds[now]:
                upto[owner] += 1
            goal = upto[owner] if is_shown[owner, now] else begin
            for place in range(counted_ends[owner], goal):
                if drop > now or candidates_drop[candidates[place]] > now:
                    strength[candidates[place]] += one_owner * firsts[place] + entry_weight
            for place in range(goal, counted_ends[owner]):
                if drop > now or candidates_drop[candidates[place]] > now:
                    strength[candidates[place]] -= one_owner * firsts[place] + entry_weight
            counted_ends[owner] = goal
        for place in range(barred.shape[1]):
            if barred[now, place] >= 0:
                barred_at[barred[now, place]] = now
        chosen_count = 0
        for candidate in range(count):
            worth = strength[candidate]
            if worth < fewest or (chosen_count == limit and worth <= best[limit - 1]):
                continue
            if candidates_end[candidate] <= now or barred_at[candidate] == now:
                continue
            place = chosen_count if chosen_count < limit else limit - 1
            while place > 0 and best[place - 1] < worth:
                best[place], strongest[now, place] = best[place - 1], strongest[now, place - 1]
                place -= 1
            best[place], strongest[now, place] = worth, candidate
            chosen_count = min(chosen_count + 1, limit)
    return strongest


@compiled
def _slot(number: int, size: int) -> int:
    return ((np.int64(number) * 0x9E3779B1) >> 15) & (size - 1)  # type: ignore[return-value]  # numba has one kind of int


@compiled
def first_counterparties(
    counterparties: Array, times: Array, owners: Array, starts: Array, ends: Array, span_limit: int
) -> tuple[Array, Array, Array]:
    """Return the first ``span_limit`` distinct counterparties in each range of entries. The entries are sorted by time.

    ``owners`` has the owner of each range, which is no counterparty of itself. The three columns of the result are the
    range, the counterparty, and the unix second of the counterparty's first entry.
    """
    count, longest = 0, np.int64(0)
    for span in range(len(starts)):
        length = max(np.int64(0), min(ends[span] - starts[span], np.int64(span_limit)))
        count, longest = count + length, max(longest, length)
    size = 16
    while size < 2 * longest:
        size *= 2
    slots, used_by = np.empty(size, np.int32), np.full(size, -1, np.int64)
    spans, distinct, seconds = np.empty(count, np.int64), np.empty(count, np.int32), np.empty(count, np.int64)
    count = 0
    for span in range(len(starts)):
        limit = count + span_limit
        for place in range(starts[span], ends[span]):
            if count == limit:
                break
            counterparty = counterparties[place]
            if counterparty == owners[span]:
                continue
            slot = _slot(counterparty, size)
            while used_by[slot] == span and slots[slot] != counterparty:
                slot = (slot + 1) & (size - 1)
            if used_by[slot] != span:
                used_by[slot], slots[slot] = span, counterparty
                spans[count], distinct[count], seconds[count] = span, counterparty, times[place]
                count += 1
    return spans[:count].copy(), distinct[:count].copy(), seconds[:count].copy()


@compiled
def add_values(
    sums: Array,
    rows: Array,
    times: Array,
    ends: Array,
    all_times: Array,
    senders: Array,
    receivers: Array,
    limbs: Array,
) -> None:
    """Add the values of transfers to the rows of ``sums`` (digits) with the same second, sender and receiver.

    ``times`` and ``ends`` have the second and the addresses (sender times 2**32 plus receiver) of each row of
    ``sums``. ``rows`` are the rows to fill, sorted by time. The arguments from ``all_times`` on are the transfers,
    sorted by time.
    """
    low, count, width = 0, len(all_times), limbs.shape[1]
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
                for limb in range(width):
                    value = limbs[place, limb]
                    sums[row, 2 * limb] += np.int64(value & np.uint64(0xFFFFFFFF))
                    sums[row, 2 * limb + 1] += np.int64(value >> np.uint64(32))
            place += 1


@compiled
def components(starts: Array, left_nodes: Array, right_nodes: Array, nodes: int) -> Array:
    """Return the connected components of several graphs: a row for each graph and a column for each node.

    The value is the least node of the node's component. Every graph has ``nodes`` nodes, numbered from 0. The edges of
    graph n are the pairs (``left_nodes[m]``, ``right_nodes[m]``) for m from ``starts[n]`` to ``starts[n + 1]``
    (excluded).
    """
    roots = np.empty((len(starts) - 1, nodes), np.int32)
    for row in range(len(starts) - 1):
        parent = roots[row]
        for node in range(nodes):
            parent[node] = node
        for place in range(starts[row], starts[row + 1]):
            left_node, right_node = left_nodes[place], right_nodes[place]
            while parent[left_node] != left_node:
                parent[left_node] = parent[parent[left_node]]
                left_node = parent[left_node]
            while parent[right_node] != right_node:
                parent[right_node] = parent[parent[right_node]]
                right_node = parent[right_node]
            parent[max(left_node, right_node)] = min(left_node, right_node)
        for node in range(nodes):  # a parent has a smaller number, so its own root is known
            parent[node] = parent[parent[node]]
    return roots
