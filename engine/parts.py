"""A part: some transfers of one token as arrays, and the balances that they alone make, day by day.

A balance holds from one day to another: an interval. Intervals stand by falling balance, so the largest holders at the
end of a day are the first ones that hold then; an index finds those of an address. A balance as of any second is the
interval of the day before and the transfers of the open day; what a token's parts say is added up.
"""

from __future__ import annotations

import itertools
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Final

import numpy as np

from engine.arrays import ArrayFile, Arrays, compact_times, spans, upto
from engine.words import Array, falling, from_limbs, lane_of, limbs, narrowed, together, total, widened

DAY: Final = 86_400
FOREVER: Final = 2**31 - 1
"""The day at which what holds still ends."""

Ranks = Callable[[Array], Array]
"""Puts distinct addresses in the order of their texts, see ``Dictionary.ranks``."""


@dataclass(frozen=True)
class Moves:
    """Transfers by rising time: unix seconds, numbers of sender and receiver, values as words."""

    times: Array
    senders: Array
    receivers: Array
    values: Array

    def __len__(self) -> int:
        return len(self.times)

    def at(self, places: Array | slice) -> Moves:
        """Some of them."""
        return Moves(self.times[places], self.senders[places], self.receivers[places], self.values[places])


def joined_moves(pieces: list[Moves]) -> Moves:
    """All transfers of the pieces by rising time."""
    if len(pieces) == 1 and (pieces[0].times[1:] >= pieces[0].times[:-1]).all():
        return pieces[0]
    times = np.concatenate([piece.times.astype(np.int64) for piece in pieces])
    whole = Moves(
        times,
        np.concatenate([piece.senders for piece in pieces]),
        np.concatenate([piece.receivers for piece in pieces]),
        together(*(piece.values for piece in pieces)),
    )
    return whole if (times[1:] >= times[:-1]).all() else whole.at(np.argsort(times, kind="stable"))


@dataclass(frozen=True)
class Part:
    """A part as it is read: its transfers, and intervals by falling balance, then address.

    ``holders``, ``balances``, ``first_days`` and ``end_days`` are columns of the intervals. ``index`` are the holders
    in the order of numbers and days, and ``places`` where the interval of each stands.
    """

    moves: Moves
    holders: Array
    balances: Array
    first_days: Array
    end_days: Array
    index: Array
    places: Array

    @staticmethod
    def of(arrays: Arrays) -> Part:
        """The part whose file holds the arrays."""
        moves = Moves(arrays["times"], arrays["senders"], arrays["receivers"], arrays["values"])
        return Part(moves, *(arrays[name] for name in _INTERVALS))

    def holding(self, day: int) -> Array:
        """Places of the intervals that hold at the end of the day."""
        return np.flatnonzero((self.first_days <= day) & (self.end_days > day))

    def open_day(self, second: int) -> Moves:
        """The transfers of the second's own day, up to and with the second."""
        start = second - second % DAY
        return self.moves.at(slice(upto(self.moves.times, start, "left"), upto(self.moves.times, second)))

    def places_of(self, addresses: Array, day: int) -> tuple[Array, Array]:
        """Which of the addresses hold something at the end of the day, and the place of the interval of each."""
        addresses = addresses.astype(np.int32)  # or the index is copied to be compared with them
        starts = np.searchsorted(self.index, addresses, side="left")
        ends = np.searchsorted(self.index, addresses, side="right")
        places = self.places[spans(starts, ends)]
        held = (self.first_days[places] <= day) & (self.end_days[places] > day)
        return np.repeat(np.arange(len(addresses)), ends - starts)[held], places[held]


_INTERVALS: Final = ("holders", "balances", "first_days", "end_days", "index", "places")


def changes_of(moves: Moves) -> tuple[Array, Array]:
    """Addresses and signed limbs of what the transfers add to them; transfers to oneself add nothing."""
    apart = np.flatnonzero(moves.senders != moves.receivers)
    spread = limbs(moves.values[apart])
    return np.concatenate([moves.senders[apart], moves.receivers[apart]]), np.concatenate([-spread, spread])


def summed(addresses: Array, spread: Array) -> tuple[Array, Array]:
    """Distinct addresses, rising, and the words of what each one's limbs add up to."""
    order = np.argsort(addresses, kind="stable")
    ordered = addresses[order]
    starts = np.flatnonzero(np.concatenate([[True], ordered[1:] != ordered[:-1]])) if len(ordered) else order
    if not len(starts):
        return ordered, np.empty((0, spread.shape[1] // 2), np.uint64)
    return ordered[starts], from_limbs(np.add.reduceat(spread[order], starts, axis=0))


def write_part(path: Path, moves: Moves, keys: Array, ranks: Ranks, chunk: int) -> None:
    """Writes a part and the sorted hashes of its rows' keys. About ``chunk`` changes of balances are put in order at a
    time, to bound memory."""
    lane = lane_of(total(moves.values))
    values = narrowed(moves.values, lane) if moves.values.shape[1] >= lane else widened(moves.values, lane)
    moves = Moves(moves.times, moves.senders, moves.receivers, values)
    found = list(_intervals(moves, chunk))
    holders, balances, first_days, end_days = (
        np.concatenate([piece[column] for piece in found]) for column in range(4)
    )
    del found
    order = _order(holders, balances, ranks, chunk)
    with ArrayFile(path) as file:
        file.add("times", compact_times(moves.times))
        for name, column in (("senders", moves.senders), ("receivers", moves.receivers), ("values", moves.values)):
            file.add(name, column)
        intervals = {"holders": holders, "balances": balances, "first_days": first_days, "end_days": end_days}
        for name, column in intervals.items():
            starts = range(0, max(len(order), 1), chunk)
            file.add(name, (column[order[start : start + chunk]] for start in starts))
        places = np.empty(len(order), np.int32)
        places[order] = np.arange(len(order), dtype=np.int32)
        for name, column in (("index", holders), ("places", places), ("keys", keys)):
            file.add(name, column)


def _intervals(moves: Moves, chunk: int) -> Iterator[tuple[Array, Array, Array, Array]]:
    """Holders, balances, first days and end days by holder and day, for some numbers of addresses at a time."""
    bounds = _bounds(moves, chunk)
    for low, high in itertools.pairwise(bounds):
        if len(bounds) == 2:
            yield _intervals_of(*_dated_changes(moves))
            continue
        sends = (moves.senders >= low) & (moves.senders < high)
        receives = (moves.receivers >= low) & (moves.receivers < high)
        addresses, days, spread = _dated_changes(moves.at(np.flatnonzero(sends | receives)))
        mine = (addresses >= low) & (addresses < high)
        yield _intervals_of(addresses[mine], days[mine], spread[mine])


def _bounds(moves: Moves, chunk: int) -> list[int]:
    """Numbers of addresses between which there are about ``chunk`` changes; an address is never split."""
    if 2 * len(moves) <= chunk or not len(moves):
        return [0, 2**31]
    size = 1 + max(int(moves.senders.max()), int(moves.receivers.max()))
    reached = np.cumsum(np.bincount(moves.senders, minlength=size) + np.bincount(moves.receivers, minlength=size))
    cuts = np.searchsorted(reached, np.arange(chunk, int(reached[-1]), chunk)) + 1
    return [0, *sorted(set(cuts.tolist())), 2**31]


def _dated_changes(moves: Moves) -> tuple[Array, Array, Array]:
    addresses, spread = changes_of(moves)
    days = (moves.times[moves.senders != moves.receivers].astype(np.int64) // DAY).astype(np.int32)
    return addresses, np.concatenate([days, days]), spread


def _intervals_of(addresses: Array, days: Array, spread: Array) -> tuple[Array, Array, Array, Array]:
    if not len(addresses):
        empty = np.empty(0, np.int32)
        return empty, np.empty((0, spread.shape[1] // 2), np.uint64), empty, empty
    order = np.argsort((addresses.astype(np.int64) << 32) | days)
    addresses, days = addresses[order], days[order]
    reached = np.cumsum(spread[order], axis=0)
    is_last_of_address = np.concatenate([addresses[1:] != addresses[:-1], [True]])
    is_last_of_day = np.concatenate([days[1:] != days[:-1], [True]]) | is_last_of_address
    ends = np.flatnonzero(is_last_of_day)
    # what had been added up before each address began
    address_ends = np.flatnonzero(is_last_of_address)
    before = np.concatenate([np.zeros((1, spread.shape[1]), np.int64), reached[address_ends[:-1]]])
    balances = from_limbs(reached[ends] - before[np.searchsorted(address_ends, ends)])
    first_days = days[ends]
    end_days = np.concatenate([first_days[1:], first_days[:1]])
    end_days[is_last_of_address[ends]] = FOREVER
    kept = np.flatnonzero(balances.any(axis=1))
    return addresses[ends][kept], balances[kept], first_days[kept], end_days[kept]


def _order(holders: Array, balances: Array, ranks: Ranks, chunk: int) -> Array:
    """The order of the intervals by falling balance, then address."""
    numbers = holders[np.concatenate([[True], holders[1:] != holders[:-1]])] if len(holders) else holders
    by_text = ranks(numbers) if len(numbers) else numbers
    tie = by_text[np.searchsorted(numbers, holders)].astype(np.int32) if len(holders) else holders
    if len(holders) <= chunk:
        return falling(balances, tie)
    sizes = _rough_sizes(balances)
    sample = np.sort(sizes[:: max(1, len(sizes) // 10**6)])
    cuts = np.unique(sample[:: max(1, len(sample) * chunk // len(sizes))][1:])
    piece = np.searchsorted(-cuts[::-1], -sizes, side="left")
    pieces = [np.flatnonzero(piece == number) for number in range(len(cuts) + 1)]
    return np.concatenate([mine[falling(balances[mine], tie[mine])] for mine in pieces])


def _rough_sizes(balances: Array) -> Array:
    """Integers that never fall when the balance rises: what cuts the intervals into pieces to put in order."""
    highest = balances[:, -1].astype(np.int64)
    if balances.shape[1] == 1:
        return highest >> 1  # so that each has a negative
    clipped = np.clip(highest, -(2**30), 2**30)
    below = (balances[:, -2] >> np.uint64(32)).astype(np.int64)
    return (clipped << 32) + np.where(clipped == highest, below, np.where(highest < 0, 0, 2**32 - 1))
