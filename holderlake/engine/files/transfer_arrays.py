"""A part: some transfers of one token as arrays, by time.

``balances`` describes the file of the balances that follow from these transfers alone. An address's balance as of a
second is the sum over all parts of the token.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

import numpy as np

from holderlake.engine.files.arrays import Arrays
from holderlake.engine.numeric.bigint import Array, concatenated, to_digits


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
    """The arrays of a part: its transfers, and the sorted hashes of their rows' keys."""

    moves: Moves
    keys: Array

    @staticmethod
    def of(arrays: Arrays) -> Part:
        """Make a part from ``arrays``, the arrays of its file by name."""
        return Part(Moves(*(arrays[name] for name in MOVES)), arrays["keys"])


MOVES: Final = ("times", "senders", "receivers", "values")
"""The arrays of ``Moves`` in a file."""


def changes_of(moves: Moves) -> tuple[Array, Array]:
    """Return two arrays of balance changes: address numbers, and the changes as rows of signed digits (``bigint``).

    Each transfer makes two changes. Transfers to oneself make none.
    """
    places = np.flatnonzero(moves.are_changes)
    digits = to_digits(moves.values[places])
    return np.concatenate([moves.senders[places], moves.receivers[places]]), np.concatenate([-digits, digits])
