"""Who dealt with whom, over all tokens and chains: each address's transfers by time, as memory-mapped arrays.

Every transfer of something is an entry at its sender and one at its receiver (a single one where they are the same).
An address's entries stand together by rising time, so what counts as of a second is the first of them. Of each entry
is noted whether it is the first with its counterparty, and sums of these notes stand at every 64th entry: a degree as
of any second is a difference of two sums. A run holds the transfers of some imports; a store has a large one and a few
small ones.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from typing import Final

import numpy as np

from holderlake.engine.files.arrays import Arrays
from holderlake.engine.numeric import graph_kernels
from holderlake.engine.numeric.bigint import Array

STEP: Final = 64
"""Entries from one sum to the next."""

ANY: Final = 1
INWARD: Final = 2
OUTWARD: Final = 4
"""Bits of ``firsts``: first transfer with the counterparty at all, first one from it, first one to it."""

NEVER: Final = 2**62


@dataclass(frozen=True)
class Run:
    """A run as it is read. ``addresses`` are those with entries, rising, or empty where the place is the number
    itself; entries of place n are from ``starts[n]`` to ``starts[n + 1]``, the first of them at the second ``begun[n]``
    (its type's last one where there is none). Of an entry: ``others`` the counterparty,
    ``kinds`` token number times two, plus one where the transfer came in, ``times`` unix seconds."""

    addresses: Array
    starts: Array
    others: Array
    kinds: Array
    times: Array
    firsts: Array
    sums: Array
    begun: Array

    @staticmethod
    def of(arrays: Arrays) -> Run:
        """The run whose file holds the arrays."""
        return Run(*(arrays[name] for name in _COLUMNS))

    def entries(self, addresses: Array) -> tuple[Array, Array]:
        """First and last place (excluded) of the entries of each address; equal where it has none."""
        if len(self.addresses):
            places = np.searchsorted(self.addresses, addresses.astype(np.int32))
            places = np.minimum(places, len(self.addresses) - 1)
            known = self.addresses[places] == addresses
        else:
            known = addresses < len(self.starts) - 1
            places = np.where(known, addresses, 0)
        if len(self.starts) == 1:
            nowhere = np.zeros(len(addresses), np.int64)
            return nowhere, nowhere
        starts = np.where(known, self.starts[places], 0)
        return starts, np.where(known, self.starts[places + 1], 0)

    def upto(self, starts: Array, ends: Array, seconds: Array) -> Array:
        """For many spans of rising times, each with a second of its own: where the entries after it begin."""
        return graph_kernels.entries_upto(self.times, starts, ends, seconds)

    def counterparties(self, starts: Array, ends: Array) -> Array:
        """Distinct counterparties within the beginnings of addresses' entries: of all, inward, outward (columns)."""
        before, within = (graph_kernels.bits_before(self.firsts, self.sums, STEP, places) for places in (starts, ends))
        return within - before

    @cached_property
    def entry_counts(self) -> Array:
        """How many entries each place has."""
        return np.diff(self.starts)


_COLUMNS: Final = ("addresses", "starts", "others", "kinds", "times", "firsts", "sums", "begun")
