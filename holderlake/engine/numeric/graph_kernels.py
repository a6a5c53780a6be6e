"""Compiled loops over the entries of addresses, for which numpy has no function.

numba compiles them. Compiled code is cached next to this file and runs without the interpreter's lock. Sums are exact,
over digits of 32 bits (``bigint``). Loops over balances are in ``interval_kernels`` and ``aggregates``.
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


# ---------------------------------------------------------------------- sets of numbers


@compiled
def hash_slots(numbers: Array) -> Array:
    """Return a hash table of ``numbers`` (0 or more) for ``contains``. Its size depends only on the length of
    ``numbers``."""
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
    """Return whether the hash table ``slots`` contains the number."""
    slot = _slot(number, len(slots))
    while slots[slot] >= 0:
        if slots[slot] == number:
            return True
        slot = (slot + 1) & (len(slots) - 1)
    return False


@compiled
def mask_in_slots(numbers: Array, slots: Array) -> Array:
    """Return a mask of the numbers that the hash table ``slots`` contains."""
    mask = np.empty(len(numbers), np.bool_)
    for place in range(len(numbers)):
        mask[place] = contains(slots, numbers[place])
    return mask


@compiled
def bloom_filter(numbers: Array) -> Array:
    """Return a Bloom filter of the numbers for ``may_contain``: an array of at least 16 booleans for each number."""
    size = 64
    while size < 16 * len(numbers):
        size *= 2
    bloom = np.zeros(size, np.bool_)
    for number in numbers:
        bloom[_slot(number, size)] = True
    return bloom


@compiled
def may_contain(bloom: Array, number: int) -> Any:
    """Return whether the Bloom filter may contain the number. False is certain; True is sometimes wrong."""
    return bloom[_slot(number, len(bloom))]


@compiled
def places_of_kinds(numbers: Array, kinds: Array, bloom: Array, bits: int) -> Array:
    """Return the indices of the numbers for which ``kinds[number]`` has any of ``bits``.

    ``bloom`` is a Bloom filter that contains at least these numbers.
    """
    places, size = np.empty(len(numbers) + 1, np.int32), 0
    for place in range(len(numbers)):
        number = numbers[place]
        if may_contain(bloom, number) and kinds[number] & bits:
            places[size] = place
            size += 1
    return places[:size].copy()


# ---------------------------------------------------------------------- entries of addresses


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
def filter_entries(
    counterparties: Array,
    kinds: Array,
    times: Array,
    addresses: Array,
    starts: Array,
    ends: Array,
    counts: Array,
    slots: Array,
) -> tuple[Array, Array, Array, Array, Array]:
    """Return the entries of each address that have one of the chosen tokens, without transfers to itself.

    The entries of ``addresses[n]`` are those from ``starts[n]`` to ``ends[n]`` (excluded). ``counts`` is a mask of the
    chosen tokens, by token number. If the hash table ``slots`` is not empty, only entries with a counterparty in it are
    returned.

    The five columns of the result are the position of the owner in ``addresses``, the counterparty, the token, True if
    the owner received, and unix seconds.
    """
    size = 0
    for owner in range(len(addresses)):
        size += ends[owner] - starts[owner]
    places, until, count = np.empty(size + 1, np.int64), np.empty(len(addresses), np.int64), 0
    for owner in range(len(addresses)):
        if len(slots):
            for place in range(starts[owner], ends[owner]):
                if contains(slots, counterparties[place]) and counts[kinds[place] >> 1]:
                    places[count] = place
                    count += 1
        else:
            for place in range(starts[owner], ends[owner]):  # no branch: the processor could not predict it
                places[count] = place
                count += counts[kinds[place] >> 1]
        until[owner] = count
    owners, kept_counterparties, tokens = (
        np.empty(count, np.int32),
        np.empty(count, np.int32),
        np.empty(count, np.int32),
    )
    inward, seconds = np.empty(count, np.bool_), np.empty(count, np.int64)
    number, row = 0, 0
    for owner in range(len(addresses)):
        while number < until[owner]:
            place = places[number]
            owners[row], kept_counterparties[row], tokens[row] = owner, counterparties[place], kinds[place] >> 1
            inward[row], seconds[row] = kinds[place] & 1, times[place]
            number, row = number + 1, row + (counterparties[place] != addresses[owner])
    return owners[:row], kept_counterparties[:row], tokens[:row], inward[:row], seconds[:row]


@compiled
def split_by_kind(
    counterparties: Array, kinds: Array, bloom: Array, excluded: int, exchange_bits: int, slots: Array
) -> tuple[Array, Array]:
    """Return two arrays of indices into ``counterparties``: the wallets, and the exchanges.

    Wallets have none of the ``excluded`` bits in ``kinds``. Exchanges have any of ``exchange_bits``, or are in the
    hash table ``slots``. ``bloom`` is a Bloom filter that contains at least the addresses with any of these bits.
    """
    wallets, exchanges = np.empty(len(counterparties) + 1, np.int32), np.empty(len(counterparties) + 1, np.int32)
    wallet_count, exchange_count = 0, 0
    for place in range(len(counterparties)):
        counterparty = counterparties[place]
        may_be = np.int64(may_contain(bloom, counterparty))
        kind = kinds[counterparty * may_be] * may_be  # no branch, and mostly no access to distant memory
        wallets[wallet_count] = exchanges[exchange_count] = place
        wallet_count += (kind & excluded) == 0
        exchange_count += ((kind & exchange_bits) != 0) | contains(slots, counterparty)
    return wallets[:wallet_count].copy(), exchanges[:exchange_count].copy()


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
