"""A part: some transfers of one token as arrays, and the daily balances that follow from these transfers alone.

An interval is a balance that an address has from one day to another. Intervals are sorted by descending balance.
Therefore the first intervals that include a day are those of the largest holders at the end of the day. An index finds
the intervals of an address.

An address's balance as of a second is a sum over all parts of the token. Each part adds two numbers, from its own
transfers: the balance at the end of the previous day, and the changes on the same day until the second.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

import numpy as np

from holderlake.engine.files.arrays import Arrays, count_until
from holderlake.engine.numeric.bigint import Array, concatenated, to_digits

DAY: Final = 86_400
FOREVER: Final = 2**31 - 1
"""End day of an interval without an end. Days are counted from 1970-01-01."""


@dataclass(frozen=True)
class Moves:
    """Transfers of one token, sorted by time, as arrays with one value for each transfer.

    ``times`` are unix seconds, ``senders`` and ``receivers`` address numbers. ``values`` has a row of limbs for each
    transfer (64-bit words, see ``bigint``).
    """

    times: Array
    senders: Array
    receivers: Array
    values: Array

    def __len__(self) -> int:
        return len(self.times)

    @property
    def are_changes(self) -> Array:
        """One boolean for each transfer: False for a transfer to oneself, which changes no balance."""
        return np.not_equal(self.senders, self.receivers)

    def at(self, places: Array | slice) -> Moves:
        """Return the transfers at the indices ``places``."""
        return Moves(self.times[places], self.senders[places], self.receivers[places], self.values[places])


def joined_moves(pieces: list[Moves]) -> Moves:
    """Join several ``Moves`` into one, sorted by time."""
    if len(pieces) == 1 and (pieces[0].times[1:] >= pieces[0].times[:-1]).all():
        return pieces[0]
    times = np.concatenate([piece.times.astype(np.int64) for piece in pieces])
    moves = Moves(
        times,
        np.concatenate([piece.senders for piece in pieces]),
        np.concatenate([piece.receivers for piece in pieces]),
        concatenated(*(piece.values for piece in pieces)),
    )
    return moves if (times[1:] >= times[:-1]).all() else moves.at(np.argsort(times, kind="stable"))


@dataclass(frozen=True)
class Part:
    """The arrays of a part: its transfers, and its intervals, sorted by descending balance, then address.

    Four columns describe an interval: ``holders`` (address number), ``balances`` (limbs), ``first_days`` and
    ``end_days`` (days since 1970, the end excluded).

    The index has the intervals sorted by holder and day: ``index`` has the holder of each interval, and ``places`` the
    row of the interval in the four columns.
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
        """Make a part from ``arrays``, the arrays of its file by name."""
        moves = Moves(arrays["times"], arrays["senders"], arrays["receivers"], arrays["values"])
        return Part(moves, *(arrays[name] for name in _INTERVALS))

    def open_day(self, second: int) -> Moves:
        """Return the transfers from the beginning of a UTC day until the unix second ``second`` of that day,
        included."""
        start = second - second % DAY
        return self.moves.at(slice(count_until(self.moves.times, start, "left"), count_until(self.moves.times, second)))


_INTERVALS: Final = ("holders", "balances", "first_days", "end_days", "index", "places")


def changes_of(moves: Moves) -> tuple[Array, Array]:
    """Return two arrays of balance changes: address numbers, and the changes as rows of signed digits (``bigint``).

    Each transfer makes two changes. Transfers to oneself make none.
    """
    places = np.flatnonzero(moves.are_changes)
    digits = to_digits(moves.values[places])
    return np.concatenate([moves.senders[places], moves.receivers[places]]), np.concatenate([-digits, digits])
