"""A part: some transfers of one token as arrays, and the balances that they alone make, day by day.

A balance holds from one day to another: an interval. Intervals stand by falling balance, so the largest holders at the
end of a day are the first ones that hold then; an index finds those of an address. A balance as of any second is the
interval of the day before and the transfers of the open day; what a token's parts say is added up.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Final

import numpy as np

from holderlake.engine.files.arrays import Arrays, count_until
from holderlake.engine.numeric.bigint import Array, concatenated, to_digits

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
        concatenated(*(piece.values for piece in pieces)),
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

    def open_day(self, second: int) -> Moves:
        """The transfers of the second's own day, up to and with the second."""
        start = second - second % DAY
        return self.moves.at(slice(count_until(self.moves.times, start, "left"), count_until(self.moves.times, second)))


_INTERVALS: Final = ("holders", "balances", "first_days", "end_days", "index", "places")


def changes_of(moves: Moves) -> tuple[Array, Array]:
    """Addresses and signed limbs of what the transfers add to them; transfers to oneself add nothing."""
    apart = np.flatnonzero(moves.senders != moves.receivers)
    spread = to_digits(moves.values[apart])
    return np.concatenate([moves.senders[apart], moves.receivers[apart]]), np.concatenate([-spread, spread])
