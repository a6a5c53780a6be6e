"""A part: some transfers of one token as arrays, and the balances that follow from these transfers alone, by day.

An interval is a balance that an address has from one day to another. Intervals are sorted by falling balance, so the
largest holders at the end of a day are the first intervals that include that day. An index finds the intervals of an
address. A balance as of any second is that at the end of the day before, plus the transfers of the second's own day,
summed over the token's parts.
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
"""End day of intervals that have no end yet. Days are counted from 1970-01-01."""

Ranks = Callable[[Array], Array]
"""A function that returns ranks of distinct addresses in the order of their texts, see ``Dictionary.ranks``."""


@dataclass(frozen=True)
class Moves:
    """Transfers of one token by rising time: unix seconds, numbers of sender and receiver, values as limbs
    (``bigint``)."""

    times: Array
    senders: Array
    receivers: Array
    values: Array

    def __len__(self) -> int:
        return len(self.times)

    def at(self, places: Array | slice) -> Moves:
        """Return the transfers at some indices."""
        return Moves(self.times[places], self.senders[places], self.receivers[places], self.values[places])


def joined_moves(pieces: list[Moves]) -> Moves:
    """Join lists of transfers into one, sorted by time."""
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
    """The arrays of a part: its transfers, and intervals by falling balance, then address.

    ``holders`` (numbers of addresses), ``balances`` (limbs), ``first_days`` and ``end_days`` (excluded; days since
    1970) are columns of the intervals. ``index`` has the holder of each interval again, sorted by holder and day, and
    ``places`` that interval's row in these columns.
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
        """Make a part from the arrays of its file."""
        moves = Moves(arrays["times"], arrays["senders"], arrays["receivers"], arrays["values"])
        return Part(moves, *(arrays[name] for name in _INTERVALS))

    def open_day(self, second: int) -> Moves:
        """Return the transfers of the second's day, up to and including the second."""
        start = second - second % DAY
        return self.moves.at(slice(count_until(self.moves.times, start, "left"), count_until(self.moves.times, second)))


_INTERVALS: Final = ("holders", "balances", "first_days", "end_days", "index", "places")


def changes_of(moves: Moves) -> tuple[Array, Array]:
    """Return each changed balance: number of the address, and the change as signed digits.

    Skip transfers to oneself.
    """
    apart = np.flatnonzero(moves.senders != moves.receivers)
    digits = to_digits(moves.values[apart])
    return np.concatenate([moves.senders[apart], moves.receivers[apart]]), np.concatenate([-digits, digits])
