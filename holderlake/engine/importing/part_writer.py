"""Write parts: transfers by time, intervals by balance, and hashes of keys. Each is sorted in batches of limited size.

``files.parts`` describes a part and reads it.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Final

import numpy as np

from holderlake.engine.files.arrays import ArrayFile, array_file
from holderlake.engine.files.dictionary import Dictionary
from holderlake.engine.files.parts import DAY, FOREVER, Moves, changes_of, joined_moves
from holderlake.engine.importing.budget import Budget
from holderlake.engine.importing.keys import merge_sorted, merged_keys
from holderlake.engine.importing.spill import ArrayBuckets, Columns, Sample
from holderlake.engine.numeric.bigint import Array, descending_order, from_digits, resized, total, width_for

_INTERVALS: Final = ("holders", "balances", "first_days", "end_days")


def write_part(
    path: Path, pieces: Sequence[Moves], keys: Sequence[Array], dictionary: Dictionary, spool: Path, budget: Budget
) -> None:
    """Write several ``Moves``, each sorted by time, as one part at ``path``.

    ``keys`` are sorted arrays with the hashes of the rows' keys.
    """
    width = width_for(sum(total(piece.values) for piece in pieces))
    with array_file(path) as file:
        changes = _write_moves(file, pieces, width, spool, budget)
        _write_intervals(file, changes, dictionary, spool, budget)
        file.add("keys", merged_keys(keys, budget.chunk))


def _write_moves(file: ArrayFile, pieces: Sequence[Moves], width: int, spool: Path, budget: Budget) -> ArrayBuckets:
    """Write the transfers, sorted by time, with values of ``width`` limbs.

    Return the balance changes (address, day, signed digits) in buckets by address number.
    """
    rows = sum(map(len, pieces))
    times = _type_of_times(pieces)
    columns = ("times", "senders", "receivers", "values")
    for name, dtype in zip(columns, (times, np.int32, np.int32, np.uint64), strict=True):
        file.reserve(name, dtype, rows, (width,) if name == "values" else ())
    changes = ArrayBuckets(spool, budget.waiting)
    cuts = _cuts_of_addresses(pieces, -(-2 * rows // budget.chunk))
    row = 0
    for moves in _by_time(pieces, budget.chunk // 2):
        values = resized(moves.values, width)
        batch = Moves(moves.times, moves.senders, moves.receivers, values)
        for name, column in zip(columns, (batch.times, batch.senders, batch.receivers, values), strict=True):
            file.fill(name, row, column)
        row += len(batch)
        if len(cuts):
            addresses, days, digits = _by_address_and_day(*_dated_changes(batch))
            changes.distribute(np.searchsorted(cuts, addresses, side="right"), (addresses, days, digits))
        else:
            changes.add(0, _dated_changes(batch))
    return changes


def _type_of_times(pieces: Sequence[Moves]) -> type[np.uint32] | type[np.int64]:
    """Return the type in which unix seconds are stored: 4 bytes if that suffices for all transfers, else 8."""
    times_of_pieces = [piece.times for piece in pieces if len(piece)]
    fits = all(int(times[0]) >= 0 and int(times[-1]) < 2**32 for times in times_of_pieces)
    return np.uint32 if fits else np.int64


def _cuts_of_addresses(pieces: Sequence[Moves], parts: int) -> Array:
    sample = Sample()
    for piece in pieces if parts > 1 else ():
        step = 1 + len(piece) // 2**16
        sample.add(np.concatenate([piece.senders[::step], piece.receivers[::step]]))
    return sample.cuts(parts)


def _by_time(pieces: Sequence[Moves], rows: int) -> Iterator[Moves]:
    """Yield all transfers, sorted by time, in batches of about ``rows`` transfers."""
    if sum(map(len, pieces)) <= rows or len(pieces) == 1:
        moves = joined_moves(list(pieces))
        yield from (moves.at(slice(start, start + rows)) for start in range(0, len(moves), rows))
        return
    chains: list[list[Moves]] = []
    for piece in pieces:
        if len(piece) and chains and chains[-1][-1].times[-1] <= piece.times[0]:
            chains[-1].append(piece)  # the usual case, as rows come by block
        elif len(piece):
            chains.append([piece])
    sources = [_slices(chain, max(rows // len(chains), 16)) for chain in chains]
    yield from merge_sorted(sources, lambda moves: moves.times, Moves.at, joined_moves)


def _slices(chain: Sequence[Moves], rows: int) -> Iterator[Moves]:
    for moves in chain:
        for start in range(0, len(moves), rows):
            part = moves.at(slice(start, start + rows))
            yield Moves(part.times.astype(np.int64), part.senders, part.receivers, part.values)


def _dated_changes(moves: Moves) -> Columns:
    """Return three columns of balance changes: address numbers, days since 1970, and signed digits."""
    addresses, digits = changes_of(moves)
    days = (moves.times[moves.are_changes].astype(np.int64) // DAY).astype(np.int32)
    return addresses, np.concatenate([days, days]), digits


def _by_address_and_day(addresses: Array, days: Array, digits: Array) -> Columns:
    """Sum the changes of each address on each day, to limit the number of changes of one address."""
    if not len(addresses):
        return addresses, days, digits
    keys = (addresses.astype(np.int64) << 32) | days
    order = np.argsort(keys)
    ordered = keys[order]
    starts = np.flatnonzero(np.concatenate([[True], ordered[1:] != ordered[:-1]]))
    first_rows = order[starts]
    return addresses[first_rows], days[first_rows], np.add.reduceat(digits[order], starts, axis=0)


# ---------------------------------------------------------------------- intervals


def _write_intervals(
    file: ArrayFile, changes: ArrayBuckets, dictionary: Dictionary, spool: Path, budget: Budget
) -> None:
    by_holder, sizes = ArrayBuckets(spool, budget.waiting), Sample()
    width = 1
    for number in changes.numbers():
        intervals = intervals_of(*changes.take(number), no_end=FOREVER)
        width = intervals[1].shape[1]
        by_holder.add(0, intervals)
        sizes.add(_rough_sizes(intervals[1]))
    count = by_holder.rows_of(0)
    empty = np.empty(0, np.int32)
    file.add("index", (block[0] for block in by_holder.blocks(0)) if count else empty)
    for name in ("holders", "first_days", "end_days", "places"):
        file.reserve(name, np.int32, count)
    file.reserve("balances", np.uint64, count, (width,))
    is_small, row = count <= budget.chunk, 0
    places = np.empty(count, np.int32) if is_small else file.map_reserved("places")
    for group in _by_size(by_holder, sizes, dictionary, spool, budget):
        order = _order(group[0], group[1], dictionary)
        for name, column in zip(_INTERVALS, group[:4], strict=True):
            file.fill(name, row, column[order])
        places[group[4][order]] = np.arange(row, row + len(order), dtype=np.int32)
        row += len(order)
    if is_small:
        file.fill("places", 0, places)


def intervals_of(addresses: Array, instants: Array, digits: Array, *, no_end: int) -> Columns:
    """Return the intervals that follow from balance changes, sorted by holder and instant.

    ``instants`` are days or unix seconds, ``digits`` signed digits. The columns are holders, balances (limbs), first
    instants and ends; the end of an interval without an end is ``no_end``.
    """
    if not len(addresses):
        return addresses, np.empty((0, digits.shape[1] // 2), np.uint64), instants, instants
    if instants.dtype.itemsize < 8:
        order = np.argsort((addresses.astype(np.int64) << 32) | instants)
    else:
        order = np.lexsort((instants, addresses))
    addresses, instants = addresses[order], instants[order]
    totals = np.cumsum(digits[order], axis=0)
    is_last_of_address = np.concatenate([addresses[1:] != addresses[:-1], [True]])
    is_last_of_instant = np.concatenate([instants[1:] != instants[:-1], [True]]) | is_last_of_address
    ends = np.flatnonzero(is_last_of_instant)
    # the running total before each address
    address_ends = np.flatnonzero(is_last_of_address)
    totals_before = np.concatenate([np.zeros((1, digits.shape[1]), np.int64), totals[address_ends[:-1]]])
    balances = from_digits(totals[ends] - totals_before[np.searchsorted(address_ends, ends)])
    first_instants = instants[ends]
    end_instants = np.concatenate([first_instants[1:], first_instants[:1]])
    end_instants[is_last_of_address[ends]] = no_end
    nonzero = np.flatnonzero(balances.any(axis=1))
    return addresses[ends][nonzero], balances[nonzero], first_instants[nonzero], end_instants[nonzero]


def _by_size(
    by_holder: ArrayBuckets, sizes: Sample, dictionary: Dictionary, spool: Path, budget: Budget
) -> Iterator[Columns]:
    """Yield the intervals in groups, by descending balance. The intervals inside a group are not sorted.

    If very many intervals have the same balance, they make several groups, by ranges of addresses. The columns are
    holders, balances (limbs), first days, end days, and the position of the interval in the order by holder and day.
    """
    if not by_holder.rows_of(0):
        return
    cuts = sizes.cuts(-(-by_holder.rows_of(0) // budget.chunk))
    buckets, place = ArrayBuckets(spool, budget.waiting), 0
    for block in by_holder.blocks(0):
        own_places = np.arange(place, place + len(block[0]), dtype=np.int32)
        if len(cuts):
            smaller = np.searchsorted(cuts, _rough_sizes(block[1]), side="right")
            buckets.distribute(len(cuts) - smaller, (*block, own_places))
        else:
            buckets.add(0, (*block, own_places))
        place += len(own_places)
    by_holder.drop(0)
    for number in buckets.numbers():
        if buckets.rows_of(number) <= 4 * budget.chunk:
            yield buckets.take(number)
        else:  # very many balances of about the same size, such as of single items
            yield from _by_exact_size(buckets, number, dictionary, spool, budget)


def _by_exact_size(
    buckets: ArrayBuckets, number: int, dictionary: Dictionary, spool: Path, budget: Budget
) -> Iterator[Columns]:
    """Divide a group that is too large, by its most frequent balance.

    Yield three kinds of groups in this order: intervals with a larger balance; intervals with the most frequent
    balance, in ranges of addresses; intervals with a smaller balance.
    """
    (_, sample, *_) = next(buckets.blocks(number))
    distinct, counts = np.unique(sample, axis=0, return_counts=True)
    frequent = distinct[np.argmax(counts)]
    by_side, heads = ArrayBuckets(spool, budget.waiting), Sample()
    for block in buckets.blocks(number):
        is_frequent = (block[1] == frequent).all(axis=1)
        larger = ~is_frequent & _mask_larger(block[1], frequent)
        by_side.distribute(np.where(is_frequent, 1, np.where(larger, 0, 2)), block)
        heads.add(dictionary.heads(block[0][is_frequent]))
    buckets.drop(number)
    for side in by_side.numbers():
        if side != 1:
            yield by_side.take(side)
            continue
        cuts, by_head = heads.cuts(-(-by_side.rows_of(1) // budget.chunk)), ArrayBuckets(spool, budget.waiting)
        for block in by_side.blocks(1):
            by_head.distribute(np.searchsorted(cuts, dictionary.heads(block[0]), side="right"), block)
        by_side.drop(1)
        for head in by_head.numbers():
            yield by_head.take(head)


def _mask_larger(balances: Array, than: Array) -> Array:
    all_balances = np.concatenate([than[None], balances])
    ranks = np.empty(len(all_balances), np.int64)
    ranks[descending_order(all_balances)] = np.arange(len(all_balances))
    larger: Array = ranks[1:] < ranks[0]
    return larger


def _order(holders: Array, balances: Array, dictionary: Dictionary) -> Array:
    """Return the indices that sort intervals by descending balance, then address, then day.

    The given intervals are sorted by holder and day.
    """
    order = descending_order(balances)
    ordered = balances[order]
    ties = (ordered[1:] == ordered[:-1]).all(axis=1)
    if ties.any():
        tied = np.flatnonzero(np.concatenate([ties, [False]]) | np.concatenate([[False], ties]))
        group = np.cumsum(~np.concatenate([[False], ties]))[tied]
        among = order[tied]
        numbers, inverse = np.unique(holders[among], return_inverse=True)
        order[tied] = among[np.lexsort((dictionary.ranks(numbers)[inverse], group))]
    return order


def _rough_sizes(balances: Array) -> Array:
    """Return an int64 for each balance (limbs), by which intervals are divided into groups.

    Larger balances have equal or larger integers.
    """
    highest = balances[:, -1].astype(np.int64)
    if balances.shape[1] == 1:
        return highest
    clipped = np.clip(highest, -(2**30), 2**30)
    below = (balances[:, -2] >> np.uint64(32)).astype(np.int64)
    return (clipped << 32) + np.where(clipped == highest, below, np.where(highest < 0, 0, 2**32 - 1))
