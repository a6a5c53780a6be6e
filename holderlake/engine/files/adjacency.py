"""The adjacency: each address's transfers of all tokens and chains by time, as memory-mapped arrays.

A transfer of more than nothing is an entry of its sender and an entry of its receiver, or a single entry if these are
the same. The entries of an address are next to each other by rising time, so those as of a second are the first ones.
Bits of an entry mark the first transfer with a counterparty, and every 64th entry has sums of these bits: the degree of
an address (its number of distinct counterparties) as of any second is a difference of two sums. A run is a file that
holds the transfers of some imports; a store has one large run and a few small ones.
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
"""Number of entries from one sum to the next."""

ANY: Final = 1
INWARD: Final = 2
OUTWARD: Final = 4
"""Bits of ``Run.firsts``: the owner's first transfer with the counterparty, the first from it, and the first to it."""

NEVER: Final = 2**62


@dataclass(frozen=True)
class Run:
    """The arrays of a run: a file with the entries of some imports.

    ``addresses``: numbers of the addresses that have entries, rising. The address at index n has the entries
    from ``starts[n]`` to ``starts[n + 1]``, the first at unix second ``begun[n]`` (the type's greatest value if there
    is none). If ``addresses`` is empty, n is the number of the address. Columns of the entries: ``others`` is the
    counterparty, ``kinds`` the number of the token times two, plus one for an incoming transfer, ``times`` unix
    seconds, ``firsts`` the bits ``ANY``, ``INWARD`` and ``OUTWARD``. ``sums`` has the counts of these bits (columns)
    before every ``STEP``-th entry.
    """

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
        """Make a run from the arrays of its file."""
        return Run(*(arrays[name] for name in _COLUMNS))

    def entries(self, addresses: Array) -> tuple[Array, Array]:
        """Return the first and last index (excluded) of each address's entries; both are equal if it has none."""
        if len(self.addresses):
            places = np.searchsorted(self.addresses, addresses.astype(np.int32))
            places = np.minimum(places, len(self.addresses) - 1)
            known = self.addresses[places] == addresses
        else:
            known = addresses < len(self.starts) - 1
            places = np.where(known, addresses, 0)
        if len(self.starts) == 1:
            zeros = np.zeros(len(addresses), np.int64)
            return zeros, zeros
        starts = np.where(known, self.starts[places], 0)
        return starts, np.where(known, self.starts[places + 1], 0)

    def upto(self, starts: Array, ends: Array, seconds: Array) -> Array:
        """Return, for each range of entries, the index of the first entry after the range's unix second."""
        return graph_kernels.entries_upto(self.times, starts, ends, seconds)

    def counterparties(self, starts: Array, ends: Array) -> Array:
        """Return the number of distinct counterparties, senders and receivers (columns) in each range of entries.

        A range must begin with an address's first entry.
        """
        before, within = (graph_kernels.bits_before(self.firsts, self.sums, STEP, places) for places in (starts, ends))
        return within - before

    @cached_property
    def entry_counts(self) -> Array:
        """Number of entries of each address, in the order of ``starts``."""
        return np.diff(self.starts)


_COLUMNS: Final = ("addresses", "starts", "others", "kinds", "times", "firsts", "sums", "begun")
